r"""What every kind of input must do: inherit the suite in a test file, and write an example.

class TestLines(InputSourceConformance):
    def source(self, folder):
        (folder / "list.lines").write_text("a.txt:ann\nb.txt:bob\n")
        return folder / "list.lines"

    header = ["input", "speaker"]
    rows = [["a.txt", "ann"], ["b.txt", "bob"]]
"""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from splitter import InputFile, InputList, OutputFile, ProcessorDataset
from splitter.dataset import Result
from splitter.errors import Refused
from splitter.inputs.reading import read_source
from splitter.inputs.source import USES
from splitter.inputs.sources import source_of
from splitter.testing.published import published, read_table


class Copies(ProcessorDataset):
    """A recipe that copies each input."""

    def process(self, input_file: InputFile) -> Result:
        return [OutputFile("copy", input_file.read_bytes())], {}


class InputSourceConformance:
    """Tests of a kind of input, which DATASET may name.

    Attributes:
        header: The names of the columns that `source` gives; `input` is one of them.
        rows: The rows that it gives: texts, with paths relative to the folder.
    """

    header: ClassVar[list[str]]
    rows: ClassVar[list[list[str]]]

    def source(self, folder: Path) -> Any:
        """Write something that names inputs below a folder, and return what a user would pass as DATASET."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "it's a naïve folder"
        self.folder.mkdir()
        self.paths = [dict(zip(self.header, row, strict=True))["input"] for row in self.rows]
        for path in self.paths:
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(path)
        self.location = self.source(self.folder)
        self.output = tmp_path / "outputs"

    def test_it_is_read_to_the_same_rows_each_time(self) -> None:
        """A run, its plan and the next run each read it from the beginning."""
        for _ in range(2):
            found = read_source(InputList(self.location))
            assert [*found.header] == self.header
            assert [[*row] for row in found.rows] == self.rows

    def test_it_says_which_options_it_takes(self) -> None:
        """An option that it does not take is refused by name."""
        source, location = source_of(InputList(self.location))
        assert source.takes <= USES.keys()
        assert source.options(location) <= {"column", *USES}
        values: dict[str, Any] = dict.fromkeys(USES, ".")
        for name in USES.keys() - source.takes:
            with pytest.raises(Refused, match=f"--{name.strip('_').replace('_', '-')} "):
                read_source(InputList(self.location, **{name: values[name]}))

    @pytest.mark.parametrize("workers", [0, 2])
    def test_its_inputs_are_run_and_continued(self, workers: int) -> None:
        for _ in range(2):
            Copies(self.location).run(self.output, workers=workers, quiet=True)
            rows = read_table(self.output / "manifest.csv")
            assert [[row[name] for name in self.header] for row in rows] == self.rows
            assert [(self.output / row["output"]).read_text() for row in rows] == self.paths

    def test_it_can_be_joined_with_another(self) -> None:
        (self.folder / "other.csv").write_text("input\nother.txt\n")
        (self.folder / "other.txt").write_text("other")
        Copies(InputList(self.location) + InputList(self.folder / "other.csv")).run(
            self.output, workers=0, quiet=True
        )
        contents = [text.decode() for name, text in published(self.output).items() if "copy" in name]
        assert sorted(contents) == sorted([*self.paths, "other"])
