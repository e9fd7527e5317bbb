"""There and back: pieces exported as stretches of their recordings, and cut again by what was exported."""

from pathlib import Path

import pytest
from doors import read_table

import splitter
from splitter.recipes.segments import Segments


@pytest.mark.parametrize(
    ("to", "written"),
    [("lhotse", "cuts_train.jsonl.gz"), ("nemo", "manifest_train.json"), ("kaldi", "train")],
)
def test_what_is_exported_can_be_cut_again(spoken: Path, tmp_path: Path, to: str, written: str):
    """The same bytes, texts and speakers; Kaldi's texts have single blanks, its speakers plain names."""
    splitter.export(spoken / "files", to, tmp_path / to, virtual=True, absolute=True)
    splitter.run(Segments(tmp_path / to / written), tmp_path / "back", workers=0, quiet=True)
    rows = [row for row in read_table(spoken / "files" / "manifest.csv") if row["split"] == "train"]
    back = read_table(tmp_path / "back" / "manifest.csv")
    facts = (
        "checksum",
        "frames",
        "start_sample",
        "stop_sample",
        "text",
        *(["speaker"] if to != "kaldi" else []),
    )
    assert sorted(_facts(row, facts) for row in back) == sorted(_facts(row, facts) for row in rows)


def _facts(row: dict[str, str], names: tuple[str, ...]) -> list[str]:
    return [" ".join(row[name].split()) if name == "text" else row[name] for name in names]
