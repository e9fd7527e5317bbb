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


@pytest.mark.parametrize(
    "options", ["chunk --annotations beside", "segments --annotations beside", "segments"]
)
def test_annotation_files_are_no_recordings(folder, tmp_path, capfd, options):
    """They are left out and counted, whatever the recipe; their labels are read."""
    ran = here(capfd, "run", folder, "--recipe", *options.split(), "--workers", "1", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("note: left out of the folder: 4 annotation files\n")
    rows = read_table(tmp_path / "out/manifest.csv")
    labels = "labels" if "chunk" in options else "label"
    assert [(row["input"], row[labels]) for row in rows] == list(
        zip(RECORDINGS, ("one", "two", "three"), strict=True)
    )


def test_a_transcript_taken_for_a_recording_is_named_as_what_it_is(tmp_path, capfd):
    """A folder of recordings with transcripts, and no option that says so: the error knows the option."""
    write_files(tmp_path / "in", {"a.srt": "", "a.wav": ""})
    ran = here(capfd, "run", tmp_path / "in", "-o", tmp_path / "out")
    said = "; if a.srt is no recording, leave it out with --pattern, or read it with --annotations beside\n"
    assert (ran.code, ran.err.endswith(said)) == (2, True), ran.err


def test_only_what_belongs_to_a_recording_is_left_out(folder, tmp_path, capfd):
    """Annotation files without one fail; without the option, each is an input, as a recording is."""
    write_files(folder, {"all.rttm": "", "sub/b.txt": "", "c.csv": "", "c.csv.txt": ""})
    run = ("run", folder, "--workers", "1", "-o")
    ran = here(capfd, *run, tmp_path / "out", "--recipe", "chunk", "--annotations", "beside")
    assert ran.code == 1
    assert [row["input"] for row in read_table(tmp_path / "out/errors.csv")] == [
        *("all.rttm", "c.csv", "c.csv.txt", "sub/b.txt")
    ]
    ran = here(capfd, *run, tmp_path / "plain", "--recipe", "chunk")
    assert (ran.code, "left out" in ran.err) == (2, False)
    assert "its outputs would go to the same folder as those of a.JSON" in ran.err
    ran = here(
        capfd, *run, tmp_path / "chosen", "--recipe", "chunk", "--annotations", "beside", "--pattern", "*.wav"
    )
    assert ran.code == 0, ran.err
    assert "left out" not in ran.err
