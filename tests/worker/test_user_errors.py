"""A StorageError that user code raises is about another folder, so it ends its input, not the run."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from doors import read_table, write_files, write_list

import splitter
from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.errors import RunStopped, StorageError
from splitter.records import Scratch
from splitter.storage.content import hold_content
from splitter.worker.failures import user_content


class Joining(ProcessorDataset):
    """A recipe that reads outputs of an earlier run, in one of the places where user code runs."""

    def __init__(self, inputs, place: str):
        super().__init__(inputs)
        self.place = place

    def earlier(self, input_file: InputFile) -> bytes:
        return splitter.read_output({"output": input_file.columns["other"]}, input_file.columns["run"])

    def process(self, input_file: InputFile):
        if self.place == "process":
            return [OutputFile("0", self.earlier(input_file))], {}
        if self.place == "content":
            return [OutputFile("0", lambda file: file.write(self.earlier(input_file)))], {}
        return self.outputs(input_file), {}

    def outputs(self, input_file: InputFile) -> Iterator[OutputFile]:
        yield OutputFile("0", self.earlier(input_file))


class JoiningTogether(Joining):
    """The same with `process_batch`, which may be a generator."""

    def process_batch(self, input_files):
        for input_file in input_files:
            yield self.process(input_file)


@pytest.fixture
def listed(folder: Path) -> Path:
    """A list of three inputs, of which the second needs an output that is missing."""
    names = ("a", "b", "c")
    write_files(folder, {f"inputs/{name}": name for name in names})
    write_files(folder, {f"earlier/{name}": f"{name} of before" for name in ("a", "c")})
    rows = [[f"inputs/{name}", name, str(folder / "earlier")] for name in names]
    return write_list(folder / "list.csv", [["input", "other", "run"], *rows])


@pytest.mark.parametrize(
    ("place", "recipe", "sink"),
    [
        ("process", Joining, "files"),
        ("outputs", Joining, "webdataset"),
        ("content", Joining, "webdataset"),
        ("process", JoiningTogether, "files"),
        ("outputs", JoiningTogether, "files"),
    ],
)
def test_an_output_that_user_code_cannot_read_fails_its_input(
    listed: Path, folder: Path, place: str, recipe: type[Joining], sink: str
):
    manifest = recipe(listed, place).run(folder / "outputs", workers=0, sink=sink, quiet=True)
    assert [*manifest["input"]] == ["inputs/a", "inputs/c"]
    assert splitter.read_output(manifest.iloc[1]) == b"c of before"
    (row,) = read_table(folder / "outputs" / "errors.csv")
    assert (row["input"], row["error"]) == ("inputs/b", "StorageError")
    assert row["message"].startswith("cannot read ")
    assert "in earlier\n" in row["traceback"]


class Full(ProcessorDataset):
    """A recipe that writes elsewhere, where the disk is full."""

    def process(self, input_file: InputFile):
        del input_file
        with StorageError.naming("elsewhere"):
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_still_ends_the_run(listed: Path, folder: Path):
    with pytest.raises(RunStopped, match="elsewhere: No space left on device"):
        Full(listed).run(folder / "outputs", workers=0, quiet=True)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_content_for_which_no_file_can_be_made_ends_the_run(folder: Path, *, is_told: bool):
    """It outgrows its memory where nothing can be written; user code may swallow the error."""

    def write(file: BinaryIO) -> None:
        with contextlib.nullcontext() if is_told else contextlib.suppress(OSError, StorageError):
            file.write(bytes(100_000))

    with pytest.raises(StorageError, match="gone/0: No such file or directory"):
        hold_content(memoryview(bytearray(32)), f"{folder}/gone/0", user_content(write), Scratch())


def test_a_file_that_can_be_made_later_hides_no_fault(folder: Path):
    """What came before is lost, even if the disk has room again for what comes after."""

    def write(file: BinaryIO) -> None:
        with contextlib.suppress(OSError, StorageError):
            file.write(bytes(100_000))
        (folder / "gone").mkdir()
        file.write(b"end" * 100_000)

    with pytest.raises(StorageError, match="gone/0: No such file or directory"):
        hold_content(memoryview(bytearray(32)), f"{folder}/gone/0", user_content(write), Scratch())
