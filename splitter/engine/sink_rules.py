"""Which options make no sense with a sink, refused before any work."""

from splitter.dataset import ProcessorDataset
from splitter.errors import Refused
from splitter.inputs.listing import InputList
from splitter.ledger.records import OUTPUT_COLUMNS, OWN_COLUMNS
from splitter.options import RunOptions
from splitter.sinks.base import Sink
from splitter.storage.layout import SHARD_SUFFIXES
from splitter.text.csv import in_unicode


def refuse_for_shards(sink: Sink, options: RunOptions) -> None:
    """Refuse options that are only for loose files, and shards that nothing can read back."""
    if sink.divisible:
        return
    if sink.suffix not in SHARD_SUFFIXES:
        raise Refused(
            f"--sink {options.sink}: its shards end in {sink.suffix!r}, which nothing reads back; give "
            f"{type(sink).__name__} the suffix of the format that it writes, {' or '.join(SHARD_SUFFIXES)}"
        )
    if options.batch_size is not None:
        raise Refused(
            f"--batch-size: with --sink {options.sink}, batches follow from the shards; leave it out"
        )
    if options.audiofolder:
        raise Refused(f"--audiofolder: is for loose files; leave --sink {options.sink} out")


def refuse_virtual(dataset: ProcessorDataset, options: RunOptions) -> None:
    """Refuse recipes and options whose outputs cannot be cut out of the recordings when they are read."""
    # imported here, since it loads libraries for sound
    from splitter.recipes.sound import SoundRecipe

    name = f"--sink {options.sink}"
    if (
        not isinstance(dataset, SoundRecipe)
        or type(dataset).process is not SoundRecipe.process
        or type(dataset).contents is not SoundRecipe.contents
    ):
        recipe = type(dataset).__name__
        raise Refused(
            f"{name}: {recipe} does more than cut pieces out of recordings, so its outputs cannot be made "
            "when they are read; use --sink files"
        )
    if options.audiofolder:
        raise Refused(f"--audiofolder: is for loose files; leave {name} out")
    if dataset.loudness is not None:
        raise Refused(
            f"{name}: the gain of a piece is not applied when it is read; leave --loudness out, or use "
            "--sink files"
        )
    if dataset.device != "cpu" and dataset.target.sample_rate is not None:
        raise Refused(
            f"{name}: pieces are resampled again when they are read, on a CPU; leave --device out, or use "
            "--sink files"
        )


def refuse_own_columns(header: list[str], listing: InputList, sink: Sink) -> None:
    """Refuse a list with columns that the manifest or the shards use themselves."""
    for name in header:
        why = ""
        if name in sink.own_columns:
            why = f"the shards use themselves; use --rename {name}=NEW"
        elif sink.needs_columns and name != in_unicode(name):
            why = "is not UTF-8, as names in shards must be; use --rename"
        elif name in (*OWN_COLUMNS, *dict(sink.columns)):
            why = f"the manifest uses itself; use --rename {name}=NEW"
            if name == OUTPUT_COLUMNS[0] != listing.column:
                why += f", or --column {name} to process the output files of a manifest"
        if why:
            raise Refused(f"the dataset list has a column {name!r}, which {why}")
