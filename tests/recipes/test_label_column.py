"""Where labels stand in annotation files: by a usual name, or as `--label-column` says."""

import numpy as np
import pytest
import soundfile
from doors import here, read_table, write_files, write_list

TABLES = {
    "kaleidoscope.csv": "start,end,Species Code,Tags\n0,1,eurrob1,song\n1,2,comchi1,\n",
    "birdnet.csv": "Start (s),End (s),Scientific name,Common name\n0,1,Erithacus rubecula,European Robin\n",
    "plain.csv": "start,end,label,Code\n0,1,robin,e\n",
    "times.csv": "start,end\n0,1\n",
    "lines.jsonl": '{"start": 0, "end": 1, "Code": "e"}\n{"start": 1, "end": 2, "other": 5}\n',
    "words.ctm": "r 1 0 1 yes 0.9 lex anna\nr 1 1 1 no\n",
    "voices.vtt": "WEBVTT\n\n00:00.000 --> 00:01.000\n<v Anna>yes\n\n00:01.000 --> 00:02.000\nno\n",
    "raven.txt": "Selection\tBegin Time (s)\tEnd Time (s)\tSpecies Code\n1\t0\t1\teurrob1\n",
    "grid.rttm": "SPEAKER r 1 0 1 hello <NA> anna <NA> <NA>\n",
}


@pytest.fixture
def sounds(tmp_path):
    """A recording of two seconds with all tables beside it, and a list of it."""
    write_files(tmp_path, TABLES)
    soundfile.write(tmp_path / "r.wav", np.zeros(16_000), 8000)
    return write_list(tmp_path / "l.csv", [["input"], ["r.wav"]])


@pytest.mark.parametrize(
    ("name", "column", "labels"),
    [
        ("kaleidoscope.csv", "Species Code", "eurrob1|comchi1"),
        ("kaleidoscope.csv", "species_code", "eurrob1|comchi1"),
        ("kaleidoscope.csv", "Tags", "song|"),
        ("birdnet.csv", None, "European Robin"),
        ("birdnet.csv", "Scientific name", "Erithacus rubecula"),
        ("lines.jsonl", "Code", "e|"),
        ("words.ctm", "speaker", "anna|"),
        ("words.ctm", "word", "yes|no"),
        ("voices.vtt", "speaker", "Anna|"),
        ("raven.txt", "Species Code", "eurrob1"),
        ("grid.rttm", "text", "hello"),
    ],
)
def test_the_column_that_is_named_gives_the_labels(sounds, capfd, name, column, labels):
    """In tables and every other kind; without a word, since nothing is left to choose."""
    folder = sounds.parent
    options = ["--label-column", column] if column else ["--quiet"]
    ran = here(
        capfd, "run", sounds, "--recipe", "chunk", "--annotations", folder / name, *options,
        "--workers", "1", "-o", folder / "out",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "note:" not in ran.err
    assert [row["labels"] for row in read_table(folder / "out/manifest.csv")] == [labels]


def test_segments_keep_what_would_have_been_the_label(sounds, tmp_path, capfd):
    """What the other column says is a column like any other."""
    ran = here(
        capfd, "run", sounds, "--recipe", "segments", "--annotations", tmp_path / "plain.csv",
        "--label-column", "Code", "--workers", "1", "-o", tmp_path / "out",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    (row,) = read_table(tmp_path / "out/manifest.csv")
    assert (row["label"], row["annotation_label"]) == ("e", "robin")


NONE_KNOWN = "no column is known to hold labels, so they are empty; name one with --label-column: "
SEVERAL = "labels are from column 'Common name'; --label-column can name another: "


@pytest.mark.parametrize("how", ["run --workers 1", "run --workers 1 --recipe segments", "plan"])
@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("kaleidoscope.csv", f"{NONE_KNOWN}'Species Code', 'Tags'"),
        ("lines.jsonl", f"{NONE_KNOWN}'Code'"),
        ("birdnet.csv", f"{SEVERAL}'Scientific name'"),
        ("plain.csv", ""),
        ("times.csv", ""),
        ("words.ctm", ""),
    ],
)
def test_what_is_not_clear_is_said_before_work(sounds, capfd, how, name, note):
    """One line, if no column is known to hold labels, or several are; nothing if there is no choice."""
    folder = sounds.parent
    command, *options = how.split()
    ran = here(capfd, command, sounds, "--annotations", folder / name, *options, "-o", folder / "out")
    assert ran.code == 0, ran.err
    notes = [line for line in ran.err.splitlines() if "label" in line]
    assert notes == ([f"note: {folder / name}: {note}"] if note else [])


@pytest.mark.parametrize(("where", "name"), [("beside", "r.csv"), ("column=notes", "kaleidoscope.csv")])
def test_the_first_annotation_file_is_looked_at(tmp_path, capfd, sounds, where, name):
    """Beside the recordings or in a column, also if the first of them has none."""
    (tmp_path / "r.csv").write_text(TABLES["kaleidoscope.csv"])
    soundfile.write(tmp_path / "a.wav", np.zeros(16_000), 8000)
    dataset = write_list(
        tmp_path / "m.csv", [["input", "notes"], ["a.wav", ""], ["r.wav", "kaleidoscope.csv"]]
    )
    ran = here(capfd, "run", dataset, "--annotations", where, "--workers", "1", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert f"note: {tmp_path / name}: no column is known to hold labels" in ran.err


def test_a_column_that_is_not_there_fails_its_recording(sounds, tmp_path, capfd):
    """The error names the file, the column, and those there are."""
    dataset = write_list(tmp_path / "m.csv", [["input", "notes"], ["r.wav", "kaleidoscope.csv"]])
    ran = here(
        capfd, "run", dataset, "--annotations", "column=notes", "--label-column", "Spezies",
        "--workers", "1", "-o", tmp_path / "out",
    )  # fmt: skip
    assert ran.code == 1
    (error,) = read_table(tmp_path / "out/errors.csv")
    assert "has no column 'Spezies' for --label-column; it has 'Species Code', 'Tags'" in error["message"]


def test_one_file_for_all_is_read_before_work(sounds, tmp_path, capfd):
    """What is wrong with it, or with the column that is named, is one line, and nothing is written."""
    (tmp_path / "doubt.tsv").write_text("start\tend\ttext\n0\t640\tYes.\n")
    for name, problem in (
        ("kaleidoscope.csv", "has no column 'Spezies' for --label-column; it has 'Species Code', 'Tags'"),
        ("doubt.tsv", "line 1: has whole numbers below it that could be seconds, or milliseconds as Whisper"),
    ):
        options = ["--annotations", tmp_path / name, "--label-column", "Spezies", "-o", tmp_path / "out"]
        ran = here(capfd, "run", sounds, *options)
        assert (ran.code, len(ran.lines)) == (2, 1)
        assert f"--annotations {tmp_path / name}: {problem}" in ran.err
        assert not (tmp_path / "out").exists()


def test_a_column_of_nothing_is_refused(sounds, tmp_path, capfd):
    """Without annotation files there is no such column."""
    for recipe, problem in (
        ("chunk", "--label-column 'x': needs --annotations; add it, or leave it out"),
        ("segments", "--label-column 'x': is for annotation files, but the rows of"),
    ):
        dataset = write_list(tmp_path / "m.csv", [["input", "start", "end"], ["r.wav", "0", "1"]])
        ran = here(capfd, "run", dataset, "--recipe", recipe, "--label-column", "x", "-o", tmp_path / "out")
        assert ran.code == 2
        assert problem in ran.err


def test_finished_work_stays_finished_without_it(sounds, tmp_path, capfd):
    """The parameter is part of how inputs are processed only where it is given."""
    run = ("run", sounds, "--annotations", tmp_path / "plain.csv", "--workers", "1", "-o", tmp_path / "out")
    assert here(capfd, *run).code == 0
    assert "label_column" not in (tmp_path / "out/.splitter/run.json").read_text()
    ran = here(capfd, *run, "--label-column", "Code")
    assert ran.code == 0, ran.err
    assert [row["labels"] for row in read_table(tmp_path / "out/manifest.csv")] == ["e"]
