"""`splitter.open`: the outputs of a run as a torch Dataset, whatever sink they are in.

manifest ── rows with an output ── Samples ┬── OutputDataset   any of them, by its number
                                           └── OutputStream    all of them, shard after shard
"""

from typing import TYPE_CHECKING

from splitter.errors import Refused
from splitter.outputs.dataset import Decode, OutputDataset, OutputSamples
from splitter.outputs.streaming import OutputStream, ReaderRank

if TYPE_CHECKING:
    import os

    import pandas as pd

BUFFER = 1000


def open(  # noqa: A001, PLR0913 - splitter.open, one door for both
    output: "str | os.PathLike[str] | pd.DataFrame",
    *,
    where: str | None = None,
    decode: Decode = True,
    content: str = "content",
    streaming: bool = False,
    shuffle: bool = False,
    buffer: int = BUFFER,
    seed: int = 0,
    rank: int | None = None,
    world_size: int | None = None,
) -> OutputDataset | OutputStream:
    """The outputs of a run as a torch Dataset of dicts: the row of the manifest, and the decoded content.

    Args:
        output: An output folder, a URL, or rows of a manifest.
        where: Which rows to take, as pandas' `query` has it, such as "split == 'train' and size > 1000".
        decode: Sound becomes a tensor [channels, frames] with its `sample_rate`, images Pillow's, text str,
            all else stays bytes. False: bytes. Or a function of the bytes and the row.
        content: What the content is called in the dict.
        streaming: An IterableDataset that reads shards in sequence, instead of one with a length and indices.
        shuffle: Mix the samples of a stream: the shards, and what they hold in a buffer.
        buffer: How many samples of a stream are in the buffer.
        seed: Another number, another order.
        rank: Which part of a stream to read, of `world_size`. Default: as torch.distributed says.
        world_size: How many parts there are.
    """
    samples = OutputSamples.of(output, where, decode, content)
    if streaming:
        reader_rank = ReaderRank.given(rank, world_size)
        return OutputStream(samples, shuffle=shuffle, buffer=buffer, seed=seed, reader_rank=reader_rank)
    asked = {
        "shuffle": shuffle,
        "buffer": buffer != BUFFER,
        "seed": seed,
        "rank": rank,
        "world_size": world_size,
    }
    for name, value in asked.items():
        if value not in (None, False, 0):
            raise Refused(
                f"splitter.open: {name} is for streaming=True; without it a DataLoader shuffles and divides"
            )
    return OutputDataset(samples)
