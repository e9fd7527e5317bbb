"""What every sink must do: inherit a suite in a test file, and name the sink.

class TestFlat(SinkConformance):
    sink = "flat"
"""

import contextlib
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pytest
import xxhash

import splitter
from splitter import InputFile, OutputFile, ProcessorDataset, Skip
from splitter.dataset import Result
from splitter.errors import RunStopped
from splitter.testing.contents import (
    BIG,
    CALLABLES,
    MEGABYTE,
    VALUES,
    boom,
    in_sequence,
    patched,
    renaming,
    swallowing,
)
from splitter.testing.published import read_table


class Gives(ProcessorDataset):
    """A recipe that makes the outputs of each input with the function of that name."""

    def __init__(self, inputs: Any = (), make: dict[str, Callable[[InputFile], Any]] | None = None) -> None:
        super().__init__(inputs)
        self.make = make or {}

    def process(self, input_file: InputFile) -> Result:
        return self.make[input_file.path.stem](input_file), {}


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, to act like a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


class SinkConformance:
    """Tests of a sink; `sink` is its name."""

    sink: ClassVar[str]

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "it's a naïve folder"
        self.folder.mkdir(exist_ok=True)
        self.output = self.folder / "outputs"

    # a sink that names or stores outputs in another way overrides these

    def read(self, row: dict[str, str]) -> bytes:
        """Return the content of the output that a row of the manifest names."""
        return (self.output / row["output"]).read_bytes()

    def name(self, row: dict[str, str]) -> str:
        """Return the name that the recipe gave the output of a row."""
        return os.path.basename(row["output"])

    def left(self) -> set[str]:
        """Return the files in the output folder that are not outputs: there must be none."""
        there = {str(path.relative_to(self.output)) for path in self.output.rglob("*") if path.is_file()}
        named = {row["output"] for row in self.rows()}
        return {name for name in there - named if not name.startswith(".splitter/")} - {
            "manifest.csv",
            "errors.csv",
        }

    def run(
        self, make: dict[str, Callable[[InputFile], Any]], **options: Any
    ) -> dict[str, list[dict[str, str]]]:
        """Run a function for each input; check the rows of the manifest, and return them by input."""
        for name in make:
            (self.folder / f"{name}.txt").write_text(name)
        dataset = Gives([str(self.folder / f"{name}.txt") for name in make], make)
        self.make(dataset, sink=self.sink, workers=0, quiet=True, **options)
        by_input: dict[str, list[dict[str, str]]] = {name: [] for name in make}
        for row in self.rows():
            by_input[Path(row["input"]).stem].append(row)
            content = self.read(row)
            assert row["size"] == str(len(content))
            assert row["checksum"] == f"xxh128:{xxhash.xxh3_128_hexdigest(content)}"
        assert self.left() == set()
        return by_input

    def make(self, dataset: ProcessorDataset, **options: Any) -> None:
        """Run a recipe into the output folder."""
        dataset.run(self.output, **options)

    def rows(self) -> list[dict[str, str]]:
        return [row for row in read_table(self.output / "manifest.csv") if row["output"]]

    def errors(self) -> dict[str, tuple[str, str]]:
        return {
            Path(row["input"]).stem: (row["error"], row["message"])
            for row in read_table(self.output / "errors.csv")
        }

    # -- content of every kind

    @pytest.mark.parametrize("kind", VALUES)
    def test_content_that_is_a_value(self, kind: str) -> None:
        """It is stored as it is, text as UTF-8."""
        value, expected = VALUES[kind]
        rows = self.run({"a": lambda _: [OutputFile("0.bin", value)]})
        assert [self.read(row) for row in rows["a"]] == [expected]

    @pytest.mark.parametrize("write", CALLABLES, ids=lambda write: write.__name__)
    def test_content_that_is_a_callable(self, write: Callable[[BinaryIO], object]) -> None:
        """It may do anything with its file: what the file holds when it returns is stored."""
        rows = self.run({"a": lambda _: [OutputFile("0.bin", write)]})
        assert [self.read(row) for row in rows["a"]] == [CALLABLES[write]]

    def test_content_that_is_a_file_in_scratch_is_taken_from_there(self) -> None:
        """The file never exists twice, and its name is free for the next one."""

        def make(input_file: InputFile) -> Iterator[OutputFile]:
            path = input_file.scratch / "part.bin"
            for number in range(3):
                assert not path.exists()
                path.write_bytes(b"%d" % number + BIG)
                yield OutputFile(f"{number}.bin", path)

        rows = self.run({"a": make})
        assert [self.read(row) for row in rows["a"]] == [b"%d" % number + BIG for number in range(3)]

    def test_content_that_is_a_file_elsewhere_is_copied(self) -> None:
        """The original stays as and where it is, even if a link in scratch leads to it."""
        original = self.folder / "mine" / "original.bin"
        original.parent.mkdir()
        original.write_bytes(BIG)
        before = original.stat()

        def link(input_file: InputFile) -> Iterator[OutputFile]:
            scratch = input_file.scratch
            (scratch / "file").symlink_to(original)
            yield OutputFile("link in scratch", scratch / "file")
            (scratch / "inside").write_bytes(BIG)
            (scratch / "link").symlink_to("inside")
            yield OutputFile("link from scratch to scratch", scratch / "link")
            (scratch / "folder").symlink_to(original.parent)
            yield OutputFile("file in a linked folder", scratch / "folder" / "original.bin")
            os.link(original, scratch / "hard link")
            yield OutputFile("hard link in scratch", scratch / "hard link")
            back = os.path.relpath(original, scratch)
            yield OutputFile("way back out of scratch", Path(f"{scratch}/{back}"))

        rows = self.run(
            {
                "a": lambda _: [OutputFile("plain", original), OutputFile("again", original)],
                "b": link,
                "c": lambda input_file: [OutputFile("the input itself", input_file.path)],
            }
        )
        assert [self.read(row) for row in rows["a"] + rows["b"]] == [BIG] * 7
        assert [self.read(row) for row in rows["c"]] == [b"c"]
        assert original.read_bytes() == BIG
        after = original.stat()
        assert (after.st_ino, after.st_mtime_ns, after.st_nlink) == (before.st_ino, before.st_mtime_ns, 1)
        original.write_bytes(b"changed afterwards")
        assert self.read(rows["a"][0]) == BIG
        assert (self.folder / "c.txt").read_text() == "c"

    def test_a_relative_path_starts_at_the_working_directory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (self.folder / "original.bin").write_bytes(b"mine")
        monkeypatch.chdir(self.folder)
        rows = self.run({"a": lambda _: [OutputFile("0.bin", Path("original.bin"))]})
        assert [self.read(row) for row in rows["a"]] == [b"mine"]
        assert (self.folder / "original.bin").read_bytes() == b"mine"

    def test_no_content_is_no_file(self) -> None:
        """An output may be metadata only."""
        rows = self.run({"a": lambda _: [OutputFile(metadata={"part": "he"}), OutputFile("1.bin", b"1")]})
        assert [self.read(row) for row in rows["a"]] == [b"1"]
        assert [row["part"] for row in read_table(self.output / "manifest.csv")] == ["he", ""]

    def test_one_output_is_stored_before_the_next_is_asked_for(self) -> None:
        """A recipe can reuse a buffer, and a ten-hour recording need not fit in memory."""

        def make(_: InputFile) -> Iterator[OutputFile]:
            buffer = bytearray(10)
            for number in range(3):
                buffer[:] = b"%10d" % number
                yield OutputFile(f"{number}.bin", buffer)

        rows = self.run({"a": make})
        assert [self.read(row) for row in rows["a"]] == [b"%10d" % number for number in range(3)]

    # -- inputs that fail

    @pytest.mark.parametrize(
        ("content", "error", "message"),
        [
            (boom, "ZeroDivisionError", "in the middle of writing"),
            (
                42,
                "BadResult",
                "the content of 'bad.bin' is of type int; expected bytes, str, a path or a callable",
            ),
            ([b"bytes"], "BadResult", "is of type list; expected"),
            ("\ud800", "UnicodeEncodeError", "surrogates not allowed"),
            (Path("missing.bin"), "BadResult", "'missing.bin', where there is no file"),
            (Path("/"), "BadResult", "'/', where there is no file"),
            (Path("/dev/zero"), "BadResult", "'/dev/zero', where there is no file"),
            (Path("nul\0"), "BadResult", "where there is no file"),
            (lambda: b"takes no file", "TypeError", "positional argument"),
            (lambda file: file.write("text"), "TypeError", "bytes-like object"),
            (lambda file: file.detach(), "ValueError", "detached"),
        ],
    )
    def test_an_input_whose_output_fails_leaves_no_trace(
        self, content: Any, error: str, message: str
    ) -> None:
        """Neither it nor the outputs before it are left, and the outputs of its neighbors are as usual."""

        def make(_: InputFile) -> Iterator[OutputFile]:
            yield OutputFile("0.bin", BIG)
            yield OutputFile("bad.bin", content)

        good = {name: lambda _: [OutputFile("good.bin", b"good")] for name in "acd"}
        rows = self.run({"a": good["a"], "b": make, "c": good["c"], "d": good["d"]}, batch_size=3)
        assert {name: [self.read(row) for row in some] for name, some in rows.items()} == {
            "a": [b"good"],
            "b": [],
            "c": [b"good"],
            "d": [b"good"],
        }
        assert list(self.errors()) == ["b"]
        assert self.errors()["b"][0] == error
        assert message in self.errors()["b"][1]

    def test_a_text_that_names_the_file_is_a_slip(self) -> None:
        """The path of a finished file must be a Path; a text is stored as it is."""
        (self.folder / "0.bin").write_bytes(b"sound")
        slip = str(self.folder / "0.bin")
        rows = self.run(
            {
                "a": lambda _: [OutputFile("0.bin", slip)],
                "b": lambda _: [OutputFile("1.bin", slip)],
            }
        )
        assert "to store the file itself, give a path: Path(" in self.errors()["a"][1]
        assert [self.read(row) for row in rows["b"]] == [slip.encode()]

    def test_a_named_pipe_as_content_is_an_error_and_not_waited_for(self) -> None:
        os.mkfifo(self.folder / "pipe")
        self.run({"a": lambda _: [OutputFile("0.bin", self.folder / "pipe")]})
        assert "where there is no file" in self.errors()["a"][1]

    def test_an_input_that_is_left_out_after_some_outputs_leaves_no_trace(self) -> None:
        def make(_: InputFile) -> Iterator[OutputFile]:
            yield OutputFile("0.bin", BIG)
            raise Skip("too quiet")

        rows = self.run({"a": make, "b": lambda _: [OutputFile("0.bin", b"b")]}, batch_size=2)
        assert rows["a"] == []
        assert [row["skipped"] for row in read_table(self.output / "manifest.csv")] == ["too quiet", ""]

    # -- names

    @pytest.mark.parametrize("letter", ["n", "é", "🎈"])
    def test_a_name_may_have_255_bytes(self, letter: str) -> None:
        longest = letter * (255 // len(letter.encode()))
        longest += "-" * (255 - len(longest.encode()))
        rows = self.run({"a": lambda _: [OutputFile(longest, b"1")], "b": lambda _: [OutputFile("x", b"2")]})
        assert [self.read(row) for row in rows["a"]] == [b"1"]
        assert self.name(rows["a"][0]) == longest
        self.output = self.folder / "again"
        self.run({"a": lambda _: [OutputFile(longest + "-", b"1")], "b": lambda _: [OutputFile("x", b"2")]})
        assert list(self.errors()) == ["a"]
        assert "256 bytes" in self.errors()["a"][1]

    @pytest.mark.parametrize(
        "name", ["a b", "it's", '"', "ü\u0308", "-rf", "*", "%s", "\n", "\x1b[31m", ".hidden", "~"]
    )
    def test_a_name_may_hold_anything_but_a_slash(self, name: str) -> None:
        rows = self.run({"a": lambda _: [OutputFile(name, b"1"), OutputFile("other", b"2")]})
        assert [self.read(row) for row in rows["a"]] == [b"1", b"2"]
        assert self.name(rows["a"][0]) == name

    # -- a disk that is full, or broken

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(lambda _: BIG, id="bytes"),
            pytest.param(lambda _: BIG.decode("latin-1"), id="str"),
            pytest.param(lambda folder: folder / "big.bin", id="path"),
            pytest.param(lambda _: in_sequence, id="callable"),
            pytest.param(lambda _: patched, id="callable that seeks"),
            pytest.param(lambda _: swallowing, id="callable that swallows errors"),
            pytest.param(lambda _: renaming, id="callable that turns errors into others"),
        ],
    )
    def test_what_cannot_be_written_stops_the_run(self, content: Callable[[Path], Any]) -> None:
        """The input does not fail, and the next run does it."""
        (self.folder / "big.bin").write_bytes(BIG)
        make = {
            "a": lambda _: [OutputFile("0.bin", b"small")],
            "b": lambda _: [OutputFile("1.bin", b"small"), OutputFile("2.bin", content(self.folder))],
            "c": lambda _: [OutputFile("3.bin", b"small")],
        }
        stops = pytest.raises(RunStopped, match=r"cannot write .*: File too large")
        with file_size_limit(MEGABYTE), stops:
            self.run(make, batch_size=1)
        assert self.errors() == {}
        rows = self.run(make)
        assert {name: len(some) for name, some in rows.items()} == {"a": 1, "b": 2, "c": 1}


class InAStore:
    """The same tests with the output in an object store, copied to the output folder."""

    output: Path

    @pytest.fixture(autouse=True)
    def _store(self, tmp_path: Path) -> Iterator[None]:
        import fsspec

        self.memory = fsspec.filesystem("memory")
        self.url = f"memory:/{tmp_path}"
        yield
        if self.memory.exists(str(tmp_path)):
            self.memory.rm(str(tmp_path), recursive=True)

    def make(self, dataset: ProcessorDataset, **options: Any) -> None:
        try:
            dataset.run(self.url, **options)
        finally:
            shutil.rmtree(self.output, ignore_errors=True)
            top = self.url.removeprefix("memory:/")
            for name in self.memory.find(top):
                path = self.output / os.path.relpath(name, top)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.memory.cat_file(name))


class ShardConformance(SinkConformance):
    """The same tests for a sink that writes shards."""

    def run(
        self, make: dict[str, Callable[[InputFile], Any]], **options: Any
    ) -> dict[str, list[dict[str, str]]]:
        """Leave out the batch size: with shards, a batch is a group."""
        options.pop("batch_size", None)
        return super().run(make, **options)

    def read(self, row: dict[str, str]) -> bytes:
        """Return the content, read by its address in the shard."""
        content = splitter.read_output(row, self.output)
        shard = "/".join(row["output"].split("/")[:2])
        assert row["output"].count("/") == 2
        assert (self.output / shard).is_file()
        return content

    def name(self, row: dict[str, str]) -> str:
        """Return the name, which is in a column."""
        return row["output_name"]

    def left(self) -> set[str]:
        """Return what is left, without the shards that rows name."""
        named = {"/".join(row["output"].split("/")[:2]) for row in self.rows()}
        return super().left() - named
