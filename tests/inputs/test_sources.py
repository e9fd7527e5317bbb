"""Kinds of input: a new one is as good as those that are there."""

from pathlib import Path
from typing import Any

import pytest
from doors import here, read_table, write_files

from splitter.inputs import sources
from splitter.inputs.source import InputSource, ListReading, SourceRows


class ScpSource(InputSource):
    """The lists of Kaldi: a key and a path on each line."""

    takes = frozenset({"root"})

    def is_meant(self, location: Any, listing: Any) -> bool:
        return isinstance(location, str) and location.endswith(".scp")

    def read(self, location: Any, listing: Any, reading: ListReading) -> SourceRows:
        path = Path(location)
        pairs = (line.split(" ", 1)[::-1] for line in path.read_text().splitlines())
        return SourceRows([listing.column, "key"], pairs, str(path.parent))


@pytest.fixture
def scp(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "SOURCES", (ScpSource, *sources.SOURCES))
    write_files(folder / "texts", {"a.txt": "SIMPLE", "b.txt": "SCALE"})
    (folder / "wav.scp").write_text("one texts/a.txt\ntwo texts/b.txt\n")
    return folder


def test_a_kind_of_input_that_was_added_is_read(scp: Path, capfd):
    """It is asked before the list that any path may be; options that only others take are refused."""
    assert (
        here(
            capfd, "run", scp / "wav.scp", "--recipe", "words", "--workers", "0", "--output", scp / "out"
        ).code
        == 0
    )
    rows = read_table(scp / "out" / "manifest.csv")
    assert {(row["input"], row["key"]) for row in rows} == {("texts/a.txt", "one"), ("texts/b.txt", "two")}
    said = here(capfd, "run", scp / "wav.scp", "--pattern", "*.wav", "--output", scp / "out")
    assert (said.code, "--pattern '*.wav' is only for a folder" in said.err) == (2, True)


def test_several_sources_give_each_kind_its_options(scp: Path, capfd):
    """An added kind beside a folder: --pattern is the folder's, --root the list's."""
    said = here(
        capfd, "run", scp / "wav.scp", scp / "texts", "--where", "key != ''", "--pattern", "*.txt",
        "--recipe", "words", "--workers", "0", "--output", scp / "out",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert {row["key"] for row in read_table(scp / "out" / "manifest.csv")} == {"one", "two"}
