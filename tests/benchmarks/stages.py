"""The recipes of pipelines.py: two that keep a CPU busy, one that waits as if for a GPU, and a tiny one."""

import os
import time
from collections.abc import Iterator, Sequence

from spending import cut, spend

from splitter import InputFile, OutputFile, ProcessorDataset


class Cut(ProcessorDataset):
    """Make pieces, each after some CPU time."""

    def __init__(self, inputs: object, pieces: int = 32, size: int = 100_000, cost: float = 0.0) -> None:
        super().__init__(inputs)
        self.pieces, self.size, self.cost = pieces, size, cost

    def process(self, input_file: InputFile) -> tuple[Iterator[OutputFile], dict[str, int]]:
        """Return the pieces, which are made one after the other."""
        made = cut(self.pieces, self.size, self.cost)
        return (OutputFile(name, content, {"number": at}) for at, (name, content) in enumerate(made)), {}


class Judge(ProcessorDataset):
    """Judge a batch in a fixed time, whatever its size, without using a CPU."""

    def __init__(self, inputs: object, seconds: float = 0.0) -> None:
        super().__init__(inputs)
        self.seconds = seconds

    def process(self, input_file: InputFile) -> tuple[list[OutputFile], dict[str, int]]:
        """Judge one piece."""
        return self.process_batch([input_file])[0]

    def process_batch(
        self, input_files: Sequence[InputFile]
    ) -> list[tuple[list[OutputFile], dict[str, int]]]:
        """Judge pieces together."""
        sizes = [len(one.read_bytes()) for one in input_files]
        time.sleep(self.seconds)
        return [([], {"judged": size}) for size in sizes]


class Pack(ProcessorDataset):
    """Copy a piece after some CPU time."""

    def __init__(self, inputs: object, cost: float = 0.0) -> None:
        super().__init__(inputs)
        self.cost = cost

    def process(self, input_file: InputFile) -> tuple[list[OutputFile], dict[str, int]]:
        """Copy one piece."""
        spend(self.cost)
        return [OutputFile("packed.bin", input_file.read_bytes())], {}


class Note(ProcessorDataset):
    """Note the length of the name of an input, without opening it."""

    def process(self, input_file: InputFile) -> tuple[list[OutputFile], dict[str, int]]:
        """Return the length of the name."""
        return [], {"letters": len(os.path.basename(input_file.input))}
