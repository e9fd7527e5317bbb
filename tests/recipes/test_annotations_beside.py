"""A folder of recordings and their annotation files: the files beside recordings are no recordings."""

import numpy as np
import pytest
import soundfile
from doors import here, read_table, write_files

BESIDE = {
    "a.txt": "0\t1\tone\n",
    "a.JSON": "{}",
    "b.wav.tsv": "start\tend\tlabel\n0\t1\ttwo\n",
    "sub/a.Table.1.selections.txt": "Selection\tBegin Time (s)\tEnd Time (s)\tLabel\n1\t0\t1\tthree\n",
}
RECORDINGS = ["a.wav", "b.wav", "sub/a.flac"]


@pytest.fixture
def folder(tmp_path):
    """Three recordings, with annotation files beside them and some other files."""
    write_files(tmp_path / "in", BESIDE)
    for name in RECORDINGS:
        soundfile.write(tmp_path / "in" / name, np.zeros(16_000), 8000)
    return tmp_path / "in"


@pytest.mark.parametrize("options", ["chunk --annotations beside", "segments"])
def test_annotation_files_are_no_recordings(folder, tmp_path, capfd, options):
    """They are left out and counted, whatever the recipe; their labels are read."""
    ran = here(capfd, "run", folder, "--recipe", *options.split(), "--workers", "1", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("note: not taken as inputs: 1 table, 3 text files\n")
    rows = read_table(tmp_path / "out/manifest.csv")
    labels = "labels" if "chunk" in options else "label"
    assert [(row["input"], row[labels]) for row in rows] == list(
        zip(RECORDINGS, ("one", "two", "three"), strict=True)
    )


def test_one_file_for_all_that_names_no_recording_is_mentioned(folder, tmp_path, capfd):
    """Each recording gets all of its annotations, which is seldom what was meant."""
    (tmp_path / "labels.txt").write_text("0\t1\tone\n")
    note = f"note: --annotations {tmp_path}/labels.txt: names no recordings, so each input gets all of its"
    run = ("run", folder, "--annotations", tmp_path / "labels.txt", "--workers", "0", "-o")
    assert note in here(capfd, *run, tmp_path / "three").err
    assert note not in here(capfd, *run, tmp_path / "one", "--pattern", "a.wav").err
    (tmp_path / "labels.txt").write_text("start\tend\tkind\n0\t1\tone\n")
    said = here(capfd, *run, tmp_path / "table").err
    assert note in said
    assert "no column is known to hold labels, so they are empty; name one with --label-column" in said


def test_what_lies_between_recordings_is_left_out_and_counted(folder, tmp_path, capfd):
    """By its ending, unless a pattern asks for it; what has any other ending is an input, and may fail."""
    write_files(
        folder, {"cover.JPG": "", "notes.md": "", "all.rttm": "", "book.pdf": "", "odd": "", "c.bin": ""}
    )
    run = ("run", folder, "--workers", "1", "--recipe", "chunk", "-o")
    ran = here(capfd, *run, tmp_path / "out")
    assert ran.code == 1
    said = "note: not taken as inputs: 1 annotation file, 1 document, 1 image, 1 table, 4 text files\n"
    assert ran.err.startswith(said)
    assert [row["input"] for row in read_table(tmp_path / "out/errors.csv")] == ["c.bin", "odd"]
    assert [row["input"] for row in read_table(tmp_path / "out/manifest.csv")] == RECORDINGS
    ran = here(capfd, *run, tmp_path / "chosen", "--pattern", "*.wav", "--pattern", "n*.MD")
    assert (ran.code, "not taken" in ran.err) == (1, False)
    assert [row["input"] for row in read_table(tmp_path / "chosen/errors.csv")] == ["notes.md"]
    ran = here(capfd, *run, tmp_path / "all", "--pattern", "*")
    assert ran.err.startswith(said)


def test_a_folder_without_anything_else_says_what_it_has(tmp_path, capfd):
    """Nothing is left out if nothing would stay: the error says what the files are."""
    write_files(tmp_path / "in", {"a.txt": "a", "b.txt": "b"})
    ran = here(capfd, "run", tmp_path / "in", "-o", tmp_path / "out")
    assert (ran.code, "a.txt: is not sound: it is text" in ran.err) == (1, True), ran.err
