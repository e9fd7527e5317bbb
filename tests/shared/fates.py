"""Recipes whose inputs state their fate: `<fate> <number>`.

What a fate leaves in a worker (a half-written output, a file in scratch, last words) must not affect the
inputs that come after it.
"""

import ctypes
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from splitter import InputFile, OutputFile, ProcessorDataset, Skip
from splitter.dataset import Result

# fates that go wrong only when a batch is processed together
TOGETHER = ("raises together", "stops together", "dies together")


def _part(name: str, number: str) -> OutputFile:
    return OutputFile(f"{name}.txt", f"{name} of {number} " * 3, {"part": name})


def _good(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    yield _part("left", number)
    yield _part("right", number)


def _raises(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    raise ValueError(f"no good: {number}")


def _raises_otherwise(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    raise KeyError(number)


def _two_then_raises(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    yield from _good(input_file, number)
    raise RuntimeError(f"no more than two of {number}")


def _half_a_content(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    def write(file: BinaryIO) -> None:
        file.write(b"half of it" * 1000)
        raise RuntimeError(f"the other half of {number}")

    yield _part("left", number)
    yield OutputFile("right.txt", write, {"part": "right"})


def _fills_scratch(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    path = Path(input_file.scratch / "work.txt")
    assert not path.exists(), "there is something of another input in scratch"
    path.write_text(f"work of {number}")
    yield OutputFile("left.txt", path, {"part": "left"})
    (input_file.scratch / "work.txt").write_text("more")


def _skips(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    raise Skip(f"not wanted: {number}")


def _one_then_skips(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    yield _part("left", number)
    raise Skip(f"not wanted after all: {number}")


def _nothing(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    return iter(())


def _garbage(input_file: InputFile, number: str) -> Iterator[Any]:
    yield _part("left", number)
    yield 42


def _dies_silently(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    yield _part("left", number)
    (input_file.scratch / "left behind.txt").write_text(number)
    os._exit(7)


def _dies_loudly(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    yield _part("left", number)
    sys.stderr.write(f"the end of {number} is near\n")
    ctypes.string_at(0)


def _hangs(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    yield _part("left", number)
    time.sleep(1000)


def _changes_the_process(input_file: InputFile, number: str) -> Iterator[OutputFile]:
    """Change what a process has only one of; the next input must find it as it was."""
    yield _part(Path.cwd().name, number)
    os.umask(0o777)
    os.chdir("/")


FATES = {
    "good": _good,
    "raises": _raises,
    "raises otherwise": _raises_otherwise,
    "two, then raises": _two_then_raises,
    "half a content": _half_a_content,
    "fills scratch": _fills_scratch,
    "skips": _skips,
    "one, then skips": _one_then_skips,
    "nothing": _nothing,
    "garbage": _garbage,
    "changes the process": _changes_the_process,
    "dies silently": _dies_silently,
    "dies loudly": _dies_loudly,
    "hangs": _hangs,
}
FAILING = {
    "raises",
    "raises otherwise",
    "two, then raises",
    "half a content",
    "garbage",
    "dies silently",
    "dies loudly",
    "hangs",
    "missing",
}


class Fated(ProcessorDataset):
    """Let each input meet the fate that it states."""

    def process(self, input_file: InputFile) -> Result:
        fate, _, number = input_file.read_text().rpartition(" ")
        return FATES.get(fate, _good)(input_file, number), {"fate": fate, "length": len(number)}


class FatedTogether(Fated):
    """Let the inputs of a batch meet their fates at once."""

    def process_batch(self, input_files: Sequence[InputFile]) -> list[Result]:
        results = []
        for one in input_files:
            outputs, metadata = self.process(one)
            if metadata["fate"] == "raises together":
                raise ValueError("not all of these at once")
            if metadata["fate"] == "dies together":
                os._exit(8)
            results.append(
                (self._stopping(outputs) if metadata["fate"] == "stops together" else outputs, metadata)
            )
        return results

    @staticmethod
    def _stopping(outputs: Any) -> Iterator[OutputFile]:
        yield next(outputs)
        # only in a batch does the input make this output
        yield OutputFile("together.txt", "of a batch", {"part": "together"})
        raise RuntimeError("one of two, together")
