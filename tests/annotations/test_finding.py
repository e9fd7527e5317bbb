"""The annotation file beside a recording: known names only, and never a choice between two."""

import os
from pathlib import Path

import pytest

from splitter.annotations import find_annotations
from splitter.errors import AnnotationError

HEADS = {
    ".txt": "0\t1\ta\n",
    ".csv": "start,end,label\n",
    ".tsv": "onset\tduration\n",
    ".jsonl": '{"start": 0, "end": 1}\n',
    "selections.txt": "Selection\tBegin Time (s)\tEnd Time (s)\n",
    "table.txt": "Selection\tBegin Time (s)\tEnd Time (s)\n",
}


def lay(folder: Path, name: str) -> Path:
    """Put a file into a folder, with the first line that its ending promises."""
    path = folder / name
    path.write_text(
        next((head for ending, head in reversed(HEADS.items()) if name.lower().endswith(ending)), "")
    )
    return path


@pytest.mark.parametrize(
    "name",
    [
        *("a.TextGrid", "a.textgrid", "a.TEXTGRID", "a.wav.TextGrid", "a.rttm", "a.RTTM", "a.wav.rttm"),
        *("a.ctm", "a.srt", "a.vtt", "a.wav.vtt", "a.txt", "a.TXT", "a.csv", "a.wav.csv", "a.tsv", "a.jsonl"),
        *("a.Table.1.selections.txt", "a.wav.Table.2.selections.txt", "a.selections.txt"),
        "a.BirdNET.selection.table.txt",
    ],
)
def test_an_annotation_file_is_found_by_its_name(folder, name):
    """The name of the recording, with or without its own ending, and an ending of annotations."""
    (folder / "a.wav").write_bytes(b"RIFF")
    for other in ("b.txt", "a.json", "a.flac", "aa.csv", "a.b.rttm"):
        lay(folder, other)
    assert find_annotations(folder / "a.wav") is None
    path = lay(folder, name)
    assert find_annotations(folder / "a.wav") == path
    assert find_annotations(os.fspath(folder / "a.wav")) == path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "Once upon a time.\n"),
        ("a.txt", "12 people spoke\tat once\n"),
        ("a.txt", ""),
        ("a.csv", "frame,energy\n0,1\n"),
        ("a.tsv", "start\n0\n"),
        ("a.jsonl", '{"frame": 0}\n'),
        ("a.txt", b"RIFF\0\0\0\0WAVE\xff\xfe"),
    ],
)
def test_other_texts_and_tables_are_passed_over(folder, name, content):
    """A transcript or a table of features beside a recording is not taken for its annotations."""
    (folder / "a.wav").write_bytes(b"RIFF")
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert find_annotations(folder / "a.wav") is None
    grid = lay(folder, "a.TextGrid")
    assert find_annotations(folder / "a.wav") == grid


@pytest.mark.parametrize("names", [("a.TextGrid", "a.txt"), ("a.rttm", "a.wav.rttm"), ("a.srt", "a.vtt")])
def test_two_annotation_files_are_an_error(folder, names):
    """Both are named, so that one can be put away."""
    first, second = (lay(folder, name) for name in names)
    with pytest.raises(AnnotationError) as caught:
        find_annotations(folder / "a.wav")
    assert str(caught.value).startswith(f"{first} and {second} both annotate {folder / 'a.wav'}")


def test_one_file_under_two_names_is_one(folder):
    """Where a file answers to two names, as on a disk that knows no upper case, there is no choice."""
    os.link(lay(folder, "a.rttm"), folder / "a.RTTM")
    assert find_annotations(folder / "a.wav") == folder / "a.rttm"


def test_a_recording_is_not_its_own_annotation(folder):
    """A recording that is called a.csv, or has no ending, is still a recording."""
    for name in ("a.txt", "b"):
        assert find_annotations(lay(folder, name)) is None
    assert find_annotations(folder / "b") is None
    assert find_annotations(folder / "b.c") is None


def test_long_and_odd_names(folder):
    """Names of 250 bytes, and names that are not UTF-8."""
    assert find_annotations(folder / ("x" * 250)) is None
    recording = os.fsencode(folder) + b"/caf\xe9.wav"
    Path(os.fsdecode(recording)).with_suffix(".rttm").touch()
    found = find_annotations(os.fsdecode(recording))
    assert found is not None
    assert os.fsencode(found) == recording.replace(b".wav", b".rttm")
