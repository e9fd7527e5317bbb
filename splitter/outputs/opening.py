"""`splitter.open`: the outputs of a run as a torch Dataset, from any sink.

manifest ── rows with an output ── OutputSamples ┬── OutputDataset   any of them, by index
                                                 └── OutputStream    all of them, shard by shard
"""

from typing import TYPE_CHECKING

from splitter.errors import Refused
from splitter.outputs.dataset import Decode, OutputDataset, OutputSamples
from splitter.outputs.streaming import OutputStream, ReaderRank

if TYPE_CHECKING:
    import os

    import pandas as pd

BUFFER = 1000


def open(  # noqa: A001, PLR0913 - splitter.open, one function for both
    output: "str | os.PathLike[str] | pd.DataFrame",
    *,
    where: str | None = None,
    all_rows: bool = False,
    decode: Decode = True,
    content: str = "content",
    streaming: bool = False,
    shuffle: bool = False,
    buffer: int = BUFFER,
    seed: int | None = 0,
    rank: int | None = None,
    world_size: int | None = None,
) -> OutputDataset | OutputStream:
    """Open the outputs of a run as a torch Dataset of dicts: the row of the manifest and the content.

    Args:
        output: An output folder, a URL, or rows of a manifest.
        where: The rows to take, as --where takes them, such as "split == 'train' and size > 1000"; or an
            expression of pandas' `query`.
        all_rows: Also take outputs that `--keep` left out.
        decode: Sound becomes a tensor [channels, frames] with its `sample_rate`, images become Pillow images,
            text becomes str, and the rest stays bytes. False: all stay bytes. Or a function of bytes and row.
        content: The key of the content in the dict.
        streaming: Return an IterableDataset that reads shards in sequence, not one with a length and indices.
        shuffle: Shuffle a stream: the order of shards, and samples within a buffer.
        buffer: Number of samples in the buffer.
        seed: Seed of the shuffle; None means 0.
        rank: Which part of a stream to read, from 0 to `world_size` - 1. Default: from torch.distributed.
        world_size: Number of parts.
    """
    seed = 0 if seed is None else seed
    samples = OutputSamples(output, where, decode, content, all_rows=all_rows)
    if streaming:
        reader_rank = ReaderRank.given(rank, world_size)
        return OutputStream(samples, shuffle=shuffle, buffer=buffer, seed=seed, reader_rank=reader_rank)
    asked = {
        "shuffle": shuffle,
        "buffer": buffer != BUFFER,
        "seed": seed != 0,
        "rank": rank is not None,
        "world_size": world_size is not None,
    }
    for name, is_given in asked.items():
        if is_given:
            raise Refused(
                f"splitter.open: {name} only works with streaming=True; otherwise a DataLoader "
                "shuffles and divides"
            )
    return OutputDataset(samples)
