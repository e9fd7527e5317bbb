"""The options of a run: one description that the command line, job files and Python share."""

import dataclasses
import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from splitter.errors import Refused
from splitter.registry import OF_OPTIONS
from splitter.text.conditions import columns_in
from splitter.text.name_template import parse_name
from splitter.text.sizes import LARGEST_NUMBER, parse_size
from splitter.text.spelling import nearest

PARQUET, JSONL = "manifest.parquet", "manifest.jsonl"
# the files that Hugging Face's audiofolder and imagefolder look for
FOLDER_CSV, FOLDER_PARQUET = "metadata.csv", "metadata.parquet"
OTHERS = (PARQUET, JSONL, FOLDER_CSV, FOLDER_PARQUET)
_FORMATS = {"csv": "", "parquet": PARQUET, "jsonl": JSONL}


def other_tables(formats: str, *, audiofolder: bool = False) -> list[str]:
    """Return the files that `--manifest-format` and `--audiofolder` ask for.

    >>> other_tables("csv,jsonl"), other_tables("parquet", audiofolder=True)
    (['manifest.jsonl'], ['manifest.parquet', 'metadata.parquet'])
    """
    asked = [one.strip() for one in formats.split(",")]
    for one in asked:
        if one not in _FORMATS:
            known = ", ".join(_FORMATS)
            raise Refused(f"--manifest-format {formats!r}: {one!r} is unknown; choose from {known}")
    names = [name for one, name in _FORMATS.items() if one in asked and name]
    return [*names, FOLDER_PARQUET if PARQUET in names else FOLDER_CSV] if audiofolder else names


MOST_PARTS = 65_535

_OF_A_PART = re.compile(r"\d+-p(\d+)of(\d+)-")


@dataclass(frozen=True)
class RunPart:
    """One of several runs that work on the same inputs at the same time.

    Attributes:
        number: The number of the part, counted from 1.
        of: The number of parts.
    """

    number: int
    of: int

    def __str__(self) -> str:
        return f"part {self.number} of {self.of}"

    @property
    def name(self) -> str:
        """The name of the part's lock, and of its folder in staging."""
        return f"part-{self.number}-of-{self.of}"

    @property
    def mark(self) -> str:
        """The mark of the part in the names of its commit records."""
        return f"p{self.number}of{self.of}"

    def may_undo(self, batch: str) -> bool:
        """Return whether a begun batch is left from a run that has ended; this part must hold its locks.

        Only parts with the same `of` can run at the same time as this one.
        """
        match = _OF_A_PART.match(batch)
        return match is None or int(match[2]) != self.of or int(match[1]) == self.number


_LEAST = {"limit": 1, "batch_size": 1, "retries": 0, "num_cpus": 0, "num_gpus": 0, "shard_maxcount": 1}
_FOR_SHARDS = ("shard_size", "shard_maxcount", "shuffle", "field")
_SHARD_BYTES = 10**9
# anyone who writes less forgot the unit
_LEAST_MEMORY = 10**6
_FIELD = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
# options that apply to all stages of a pipeline at once
OF_ALL_STAGES = (
    *("executor", "address", "workers", "limit", "retry_failed", "repair", "prune", "durable"),
    *("progress", "quiet", "verbose"),
)
_FOR_RAY = ("address", "num_cpus", "num_gpus", "resources", "pip", "runtime_env")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run.

    Attributes:
        column: The column of the dataset list that holds the paths.
        from_: The tool that wrote the dataset; needed only if the content does not show it: lhotse, nemo,
            kaldi, common-voice, ljspeech, piper, huggingface or label-studio.
        root: The folder or URL that relative paths start from; itself relative to the list's folder.
        delimiter: Column delimiter of the list. Default: a comma, or a tab in .tsv files.
        pattern: Which files of a folder to take, such as '*.wav'; case is ignored. May be repeated. Files
            whose names begin with a dot are left out.
        member: Which field of each sample in a tar archive is the input, such as 'flac;wav' for the first
            that exists; or the column of a Parquet file that holds the contents. Default: the only
            candidate.
        rename: Rename a column of the list or of --labels, as OLD=NEW. May be repeated.
        folder_label: Add a column of this name with the name of the folder that each file is in, as a label.
        labels: A file whose columns are joined to the rows of the list, such as speakers.csv with
            --on speaker.
        on: The column to join --labels on, such as speaker, or speaker=name if the names differ. Default:
            the column of the paths.
        where: Take only the rows that match, such as "split == 'train' and duration < 30".
        all_rows: If the inputs are the outputs of a run, also take those that --keep left out.
        keep_extension: Name the output folder of a.wav 'a.wav/' instead of 'a/'.
        limit: Take only the first N inputs, for a trial.
        part: Do only part K of N, as K/N, while other processes or machines do the others; afterwards,
            'splitter manifest' assembles the manifest.
        sink: Where output files go: loose files; tar shards, as WebDataset reads them; Parquet shards, as
            Hugging Face's datasets, Ray and others read them; or virtual: no files; a piece of a recording
            is only a row of the manifest, and is cut when it is read.
        name: Names for the output files, such as '{speaker}/{source}_{index:06d}', without the extension.
            Fields are columns of the list, metadata, {source} and {path} of the input, {name} and {index} of
            the output; {speaker|unknown} gives 'unknown' if the value is empty. Only with loose files.
        shard_size: Maximum size of a shard, such as 500MB or 1e8. Default: 1GB.
        shard_maxcount: Maximum number of samples in a shard. Default: limited only by the size.
        field: A column to write as a separate member next to each output, as NAME=COLUMN, such as cls=label.
            May be repeated.
        shuffle: Shuffle samples across shards; the number is the seed.
        keep: Which outputs to keep, such as "snr > 15 and dnsmos > 3": a condition over the columns of the
            manifest, which gets a column `kept`. A changed condition rewrites only the manifest; with
            shards, which hold only what is kept, all outputs are made again. '' removes the column.
        manifest_format: Formats of the manifest: csv (always written), parquet, jsonl; such as csv,parquet.
        audiofolder: Also write metadata.csv, so that Hugging Face opens the output folder as audiofolder or
            imagefolder; with --manifest-format csv,parquet it is metadata.parquet.
        executor: What runs the batches: worker processes on this machine, or tasks on a Ray cluster.
        workers: Number of worker processes; 0 works in this process, for a debugger: a crash ends the run.
            Default: the CPUs this process may use, or as many as fit on the Ray cluster. With Ray also
            LEAST:MOST, for a cluster that grows on demand.
        address: The Ray cluster: auto, host:port or ray://host:port. Default: a private one on this machine.
        num_cpus: CPUs of the Ray cluster for each batch. Default: what the recipe declares, or 1.
        num_gpus: GPUs of the Ray cluster for each batch, such as 0.25, so that several share one.
        resources: Other resources of the Ray cluster for each batch, as NAME=AMOUNT. May be repeated.
        pip: A package for Ray to install on each node. May be repeated.
        runtime_env: A YAML or JSON file with a Ray runtime environment.
        batch_size: How many inputs a worker takes at a time. Default: adjusted during the run.
        device: The device that the recipe computes on; auto is cuda if available, else cpu.
        timeout: Seconds allowed for one input; an input that takes longer fails.
        memory: Memory allowed for one worker on top of what setup() took, such as 2GB; an input that takes
            more fails.
        retries: How often to try an input again after a temporary read error.
        max_failures: Stop when more inputs than this fail, as a number or as 5%. Default: never.
        retry_failed: Try failed inputs of earlier runs again.
        repair: Read all outputs first, and make damaged or missing ones again.
        fresh: Start over: remove the outputs of earlier runs first.
        prune: Remove the outputs of inputs that are no longer in the list; rewrite shards without their
            samples.
        durable: Sync each batch to disk before it counts as done, so that a power cut loses no finished
            batch. Otherwise everything is synced when the run ends, and after a power cut the next run
            redoes what was lost. Shards, Ray and --part always sync; object stores do not need it.
        progress: How to show progress: auto is a bar on a terminal or in a notebook, else a line now and
            then; json writes one JSON object per line to the standard output stream, for other programs.
        quiet: Print only errors, and a warning before finished work is redone.
        verbose: Show tracebacks, and Ray's own log.
    """

    column: str = "input"
    from_: str | None = None
    root: str | os.PathLike[str] | None = None
    delimiter: str | None = None
    pattern: str | list[str] | None = None
    member: str | None = None
    rename: list[str] = dataclasses.field(default_factory=list)
    folder_label: str | None = None
    labels: str | os.PathLike[str] | None = None
    on: str | None = None
    where: str | None = None
    all_rows: bool = False
    keep_extension: bool = False
    limit: int | None = None
    part: str | None = None
    sink: str = "files"
    name: str | None = None
    shard_size: int | str | None = None
    shard_maxcount: int | None = None
    field: list[str] = dataclasses.field(default_factory=list)
    shuffle: int | None = None
    keep: str | None = None
    manifest_format: str = "csv"
    audiofolder: bool = False
    executor: str = "local"
    workers: int | str | None = None
    address: str | None = None
    num_cpus: float | None = None
    num_gpus: float | None = None
    resources: list[str] = dataclasses.field(default_factory=list)
    pip: list[str] = dataclasses.field(default_factory=list)
    runtime_env: str | os.PathLike[str] | None = None
    batch_size: int | None = None
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    timeout: float | None = None
    memory: int | str | None = None
    retries: int = 2
    max_failures: int | str | None = None
    retry_failed: bool = False
    repair: bool = False
    fresh: bool = False
    prune: bool = False
    durable: bool = False
    progress: Literal["auto", "json"] = "auto"
    quiet: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        types_of = typing.get_type_hints(type(self))
        for option in dataclasses.fields(self):
            _check_type(option.name, getattr(self, option.name), types_of[option.name])
        for name, registry in OF_OPTIONS.items():
            if getattr(self, name) is not None:
                registry.check(getattr(self, name))
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise Refused(f"{flag(name)} {value}: must be at least {least}")
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            wanted = "a number of seconds, more than 0; leave it out for no limit"
            raise Refused(f"--timeout {self.timeout:g}: must be {wanted}")
        self._check_executor()
        self._check_sink()
        if self.workers_asked[1] == 0 and (self.timeout is not None or self.memory is not None):
            raise Refused("--timeout and --memory need a worker process; leave --workers 0 out")
        if self.keep:
            columns_in(self.keep, "--keep")
        # the properties below refuse what they cannot read
        _ = (
            self.new_names,
            self.memory_bytes,
            self.shard_bytes,
            self.fields_asked,
            self.failures_allowed(0),
            self.resources_asked,
            self.other_tables,
        )
        if self.part_asked:
            self._check_part()

    def _check_part(self) -> None:
        """Refuse options that would touch the work of other parts."""
        before, after = "run once with it and without --part", "use it with 'splitter manifest' at the end"
        remedies = {"fresh": before, "prune": before, "manifest_format": after, "audiofolder": after}
        for name, remedy in remedies.items():
            if getattr(self, name) != getattr(type(self), name):
                raise Refused(f"{flag(name)}: cannot be combined with --part; {remedy}")
        if self.executor == "ray":
            raise Refused(
                "--part cannot be combined with Ray, which divides the work itself; leave one of them out"
            )

    def _check_executor(self) -> None:
        """Refuse options that our own executors would ignore; those of other packages check themselves."""
        for name in _FOR_RAY:
            value = getattr(self, name)
            if self.executor == "local" and value not in (None, [], False):
                raise Refused(f"{flag(name)} is only for --executor ray; add --executor ray, or leave it out")
        least, most = self.workers_asked
        if self.executor == "ray" and most == 0:
            raise Refused(
                "--workers 0 runs in this process and cannot be combined with Ray; leave one of them out"
            )
        if self.executor == "local" and least:
            raise Refused(f"--workers {self.workers}: a range is only for --executor ray")

    def _check_sink(self) -> None:
        """Refuse options that our own sinks would ignore; those of other packages check themselves."""
        for name in _FOR_SHARDS:
            if self.sink in ("files", "virtual") and getattr(self, name) not in (None, []):
                raise Refused(
                    f"{flag(name)} is only for shards; add --sink webdataset or parquet, or leave it out"
                )
        if self.name is not None and parse_name(self.name) and self.sink != "files":
            raise Refused(
                f"--name is only for loose files, not for --sink {self.sink}; leave one of them out"
            )
        if self.field and self.sink == "parquet":
            raise Refused(
                f"--field: only works with --sink webdataset, because {self.sink} has all columns; "
                "leave it out"
            )
        if self.shuffle is not None and not 0 <= self.shuffle < LARGEST_NUMBER:
            raise Refused(f"--shuffle {self.shuffle}: must be an integer, 0 or more")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "RunOptions":
        """Return the options from names and values; refuse an unknown name."""
        names = [option.name for option in dataclasses.fields(cls)]
        for name in options:
            if name not in names:
                raise Refused(f"{name!r} is not an option of a run{nearest(name, names)}")
        return cls(**options)

    @property
    def new_names(self) -> dict[str, str]:
        """The new names in --rename, by the old ones."""
        pairs = {}
        for pair in self.rename:
            old, sign, new = pair.partition("=")
            if not (old and sign and new):
                raise Refused(f"--rename {pair!r}: write OLD=NEW")
            pairs[old] = new
        return pairs

    @property
    def other_tables(self) -> list[str]:
        """The files that --manifest-format and --audiofolder add to manifest.csv."""
        return other_tables(self.manifest_format, audiofolder=self.audiofolder)

    @property
    def workers_asked(self) -> tuple[int, int | None]:
        """The numbers in --workers: the minimum, or 0, and the maximum."""
        if self.workers is None:
            return 0, None
        match = re.fullmatch(r"(?:(\d+):)?(\d+)", str(self.workers).strip())
        if not match or (match[1] and not 1 <= int(match[1]) <= int(match[2])):
            raise Refused(f"--workers {self.workers}: must be at least 0, or with Ray a range such as 2:16")
        return int(match[1] or 0), int(match[2])

    @property
    def part_asked(self) -> RunPart | None:
        """The part in --part."""
        if self.part is None:
            return None
        match = re.fullmatch(r"(\d{1,5})/(\d{1,5})", self.part.strip())
        if not match or not 1 <= int(match[1]) <= int(match[2]) <= MOST_PARTS:
            raise Refused(f"--part {self.part}: write K/N, such as 1/8 for the first of eight parts, to 8/8")
        return RunPart(int(match[1]), int(match[2]))

    @property
    def resources_asked(self) -> dict[str, float]:
        """The amounts in --resources, by name."""
        found = {}
        for pair in self.resources:
            name, _, amount = pair.partition("=")
            if not (name and re.fullmatch(r"\d*\.?\d+", amount)) or name in ("CPU", "GPU"):
                raise Refused(f"--resources {pair!r}: write NAME=AMOUNT; CPU and GPU have their own options")
            found[name] = float(amount)
        return found

    @property
    def environment_asked(self) -> dict[str, Any]:
        """The runtime environment of --runtime-env and --pip."""
        found = _read_environment(os.fspath(self.runtime_env)) if self.runtime_env is not None else {}
        if self.pip:
            there = found.get("pip", [])
            found["pip"] = [*there, *self.pip] if isinstance(there, list) else self.pip
        return found

    @property
    def memory_bytes(self) -> int | None:
        """The bytes in --memory."""
        if self.memory is None:
            return None
        size = parse_size("--memory", self.memory)
        if size < _LEAST_MEMORY:
            raise Refused(
                f"--memory {self.memory}: is only {size:,} bytes, too little for any worker; write a "
                "size such as 2GB"
            )
        return size

    @property
    def shard_bytes(self) -> int:
        """The bytes in --shard-size."""
        return _SHARD_BYTES if self.shard_size is None else parse_size("--shard-size", self.shard_size)

    @property
    def fields_asked(self) -> dict[str, str]:
        """The columns in --field, by field."""
        fields = {}
        for pair in self.field:
            name, sign, column = pair.partition("=")
            if not (sign and column and _FIELD.fullmatch(name)):
                raise Refused(f"--field {pair!r}: write NAME=COLUMN, such as cls=label")
            if name == "json" or name in fields:
                why = "is the name of the manifest's row" if name == "json" else "is given twice"
                raise Refused(f"--field {pair!r}: {name!r} {why}; choose another name")
            fields[name] = column
        return fields

    def failures_allowed(self, inputs: int) -> float:
        """Return how many inputs may fail before the run stops."""
        if self.max_failures is None:
            return float("inf")
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", str(self.max_failures).strip())
        if not match or (float(match[1]) > 100 if match[2] else "." in match[1]):  # noqa: PLR2004 - percent
            raise Refused(
                f"--max-failures {self.max_failures!r}: write a number such as 100, or a share such as 5%"
            )
        return float(match[1]) / 100 * inputs if match[2] else int(match[1])


def _read_environment(path: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except OSError as error:
        raise Refused(f"--runtime-env {path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(f"--runtime-env {path}: is not YAML or JSON: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise Refused(f"--runtime-env {path}: must hold names and values, such as pip: [librosa]")
    return content


def flag(name: str) -> str:
    """Return the name of an option on the command line."""
    return "--" + name.strip("_").replace("_", "-")


def _check_type(name: str, value: Any, kind: Any) -> None:  # noqa: ANN401
    """Refuse a value of the wrong type, which only Python callers can pass: the command line converts."""
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            known = ", ".join(typing.get_args(kind))
            raise Refused(f"{flag(name)} {value!r}: is unknown; choose from {known}")
        return
    allowed = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    plain = tuple(typing.get_origin(one) or one for one in allowed)
    if isinstance(value, bool) and bool not in plain:
        plain = ()
    if isinstance(value, int) and float in plain:
        return
    if not isinstance(value, plain):
        wanted = " or ".join(getattr(one, "__name__", str(one)) for one in plain or allowed)
        raise Refused(f"{flag(name)} {value!r}: expected {wanted.replace('NoneType', 'None')}")
