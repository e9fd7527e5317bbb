"""Annotation files that do not follow their format: one line of error names the file and the line."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from annotation_files import read_annotations
from hypothesis import given
from hypothesis import strategies as st

from splitter.annotations import KINDS
from splitter.errors import AnnotationError, InputError, UnreadableInput


def complaint(path: Path, **options: Any) -> str:
    """What the error says after the name of the file."""
    with pytest.raises(AnnotationError) as caught:
        read_annotations(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


GRID = 'File type = "ooTextFile"\nObject class = "TextGrid"\n0\n9\n<exists>\n'
TIER = GRID + '1\n"IntervalTier"\n"t"\n0\n9\n'


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (
            "a.rttm",
            "SPEAKER a 1 0 1 <NA> <NA> x <NA> <NA>\nSPEAKER a 1 0\n",
            "line 2: has 4 fields where RTTM",
        ),
        ("a.rttm", "SPEAKER a b 1 0 1 <NA> <NA> x <NA> <NA>\n", "line 1: has 11 fields where RTTM has 10"),
        ("a.rttm", "speaker a 1 0 1 <NA> <NA> x <NA> <NA>\n", "line 1: 'speaker' is not a type of RTTM line"),
        (
            "a.rttm",
            "SPEAKER a 1 0 -1 <NA> <NA> x <NA> <NA>\n",
            "line 1: lasts '-1', so it ends before",
        ),
        ("a.rttm", "SPEAKER a 1 nan 1 <NA> <NA> x <NA> <NA>\n", "line 1: 'nan' is not a time in seconds"),
        ("a.ctm", "\na 1 0.5 1\n", "line 2: has 4 fields where CTM has 5 to 8"),
        ("a.ctm", "a 1 -0.5 1 x\n", "line 1: starts at '-0.5', before the recording does"),
        ("a.ctm", "a 1 1e99 1 x\n", "line 1: '1e99' is not a time in a recording"),
        ("a.ctm", "a 1 1e999999999 1 x\n", "line 1: '1e999999999' is not a time in seconds"),
        ("a.ctm", f"a 1 {'9' * 5000} 1 x\n", f"line 1: '{'9' * 60}…' is not a time in seconds"),
        ("a.txt", "0\t1\ta\n1.5\tb\n", "line 2: 'b' is not a time in seconds"),
        ("a.txt", "0\t1\ta\n\n2 3 b\n", "line 3: is not an Audacity label: expected start, end and text"),
        (
            "a.txt",
            "0\t1\ta\n\\\t1\t2\n\\\t1\t2\n",
            "line 3: has frequencies, but there is no",
        ),
        ("a.txt", "5\t4\ta\n", "line 1: starts at '5' and ends at '4', so it ends before it starts"),
        ("a.txt", "Once upon a time\n", "line 1: is neither an Audacity label nor the header of a table"),
        ("a.xyz", "", "line 1: is neither an Audacity label nor the header of a table"),
        ("a.TextGrid", "", "line 1: is the last, and a text is missing after it"),
        (
            "a.TextGrid",
            "ooBinaryFile\x08TextGrid",
            "line 1: is the header of a binary TextGrid; save it",
        ),
        ("a.TextGrid", '"ooTextFile"\n"Collection"\n', "line 2: is not the header of a TextGrid"),
        (
            "a.TextGrid",
            GRID + '1\n"Tier"\n',
            "line 7: 'Tier' is not a kind of tier; expected IntervalTier or",
        ),
        ("a.TextGrid", GRID + "1.5\n", "line 6: has '1.5' where a count should be"),
        ("a.TextGrid", TIER + '2\n0\n1\n"a"\n', "line 14: is the last, and a number is missing after it"),
        ("a.TextGrid", TIER + '1\n0\nx\n"a"\n', "line 14: has the text 'a' where a number should be"),
        (
            "a.TextGrid",
            TIER + '1\n0\n1\n"a\n\n',
            "line 14: has a quote that opens a text and is",
        ),
        ("a.TextGrid", TIER + '1\n2\n1\n"a"\n', "line 12: starts at '2' and ends at '1'"),
        (
            "a.TextGrid",
            TIER + '999999999999\n0\n1\n"a"\n',
            "line 14: is the last, and a number",
        ),
        ("a.srt", "1\n00:00:01,000 -> 00:00:02,000\nx\n", "line 1: '1' is where a cue's times should be"),
        ("a.srt", "1\n00:00:01,000 --> 0:0:x\nx\n", "line 2: '00:00:01,000 --> 0:0:x' is not of the form"),
        ("a.srt", "1\n0:0:1 --> 0:0:2\nx\n\n2\n0:0:3 -> 0:0:4\ny\n", "line 5: the cue '2' has no times"),
        (
            "a.srt",
            "0:0:1 --> 0:0:2\nx\n\n0:0:3 -> 0:0:4\ny\n",
            "line 4: '0:0:3 -> 0:0:4' looks like times",
        ),
        ("a.srt", "1\n0:0:2 --> 0:0:1\nx\n", "line 2: starts at '0:0:2' and ends at '0:0:1'"),
        ("a.vtt", "1\n00:00:01,000 --> 00:00:02,000\nx\n", "line 1: '1' is not the header of a WebVTT file"),
        ("a.vtt", "WEBVTT\n\n00:01.000\nx\n", "line 3: the cue '00:01.000' has no times"),
        (
            "a.vtt",
            "WEBVTT\n00:01.000 --> 00:02.000\nx\n",
            "line 1: needs an empty line between it and",
        ),
        (
            "a.vtt",
            "WEBVTT\n\n0:1 --> 0:2\nx\n0:3 --> 0:4\ny\n",
            "line 5: '0:3 --> 0:4' looks like times",
        ),
        ("a.csv", "start,label\n1,x\n", "line 1: has no column end or duration; it has 'start', 'label'"),
        ("a.csv", "end,label\n1,x\n", "line 1: has no column start; it has 'end', 'label'"),
        ("a.csv", "", "line 1: has no column start; it has "),
        ("a.csv", "start,end,start\n1,2,3\n", "line 1: names two columns 'start'"),
        ("a.csv", 'start,end,label\n1,2,"a\nb"\n1,2\n', "line 4: has 2 columns where the first line has 3"),
        ("a.csv", "start,end,label\n1,2,a,b\n", "line 2: has 4 columns where the first line has 3"),
        ("a.csv", 'start,end,label\n1,2,x\n1,2,"a"b\n', "line 3: is not CSV ("),
        ("a.csv", 'start,end,label\n1,"1,5",x\n', "line 2: '1,5' is not a time in seconds"),
        ("a.csv", "start,end,label\n1,,x\n", "line 2: '' is not a time in seconds"),
        ("a.csv", "start,end,file\n1,2,\n", "line 2: names no recording in its column 'file'"),
        ("a.tsv", "start\tend\tlabel\n1\t2\ta\tb\n", "line 2: has 4 columns where the first line has 3"),
        ("a.jsonl", '{"start": 1, "end": 2}\n{"start": 1\n', "line 2: is not JSON ("),
        ("a.jsonl", '{"start": 1, "end": 2}\n[1, 2]\n', "line 2: is not a JSON object"),
        ("a.jsonl", '{"start": 1}\n', "line 1: has no column end or duration; it has 'start'"),
        ("a.jsonl", '{"start": NaN, "end": 2}\n', "line 1: 'NaN' is not a time in seconds"),
        ("a.jsonl", "[" * 100_000, "line 1: is not JSON ("),
        ("a.csv", b"start,end,label\n1,2,ok\n1,2,caf\xe9\n", "line 3: is not utf-8"),
        ("a.TextGrid", "\ufeffa\nb".encode("utf-16-le") + b"\n\0\0\xd8\n\0", "line 3: is not utf-16"),
    ],
)
def test_a_malformed_line_is_named(write, name, text, problem):
    """One line of error: the file, the line, and what is wrong with it."""
    assert complaint(write(name, text)).startswith(problem)


def test_the_error_is_one_of_the_input():
    """A bad annotation file fails its input, as any other unreadable thing does."""
    assert issubclass(AnnotationError, InputError)


def test_a_file_that_is_not_there_or_no_file(folder):
    """What cannot be opened is said as for any input; a folder is not read."""
    for name, problem in (("none.rttm", "does not exist"), ("", "is a folder")):
        with pytest.raises(UnreadableInput, match=problem):
            read_annotations(folder / name)


def test_the_kind_can_be_told(write):
    """Another ending is no hindrance when the kind is given."""
    path = write("words.dat", "a 1 0 1 yes\n")
    assert complaint(path).startswith("line 1: is neither")
    assert [annotation.label for annotation in read_annotations(path, kind="ctm")] == ["yes"]


def outcome(path: Path, kind: str) -> str:
    """The error, if reading the file gives one."""
    try:
        read_annotations(path, kind=kind)
    except AnnotationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text() | st.text("0123456789.,:->\t\n \"\\<>[]{}SPEAKRWBVTstarend'!", max_size=80))
def test_no_text_crashes_a_reader(tmp_path_factory, kind, text):
    """Whatever a file holds, it is read, or refused in one line that names it."""
    path = tmp_path_factory.getbasetemp() / f"any.{kind}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    message = outcome(path, kind)
    assert not message or message.startswith((f"{path}: line ", f"{path}: segment "))
    assert "\n" not in message


def test_a_count_that_lies_is_no_bomb(tmp_path: Path):
    """However many tiers or intervals are stated, only those that are there are read."""
    path = tmp_path / "a.TextGrid"
    for count in ("999999999999", "9" * 17, "9" * 9000):
        path.write_text(f'{GRID}1\n"IntervalTier"\n"t"\n0\n9\n{count}\n0\n1\n"x"\n')
        assert complaint(path).startswith(("line 14: is the last", "line 11: has "))
        path.write_text(f'{GRID}{count}\n"IntervalTier"\n"t"\n0\n9\n1\n0\n1\n"x"\n')
        assert complaint(path).startswith(("line 14: is the last", "line 6: has "))


@pytest.mark.parametrize("name", ["a.srt", "a.csv", "a.TextGrid"])
def test_a_gap_takes_no_memory(tmp_path: Path, name: str):
    """A terabyte that takes no room on disk is not read."""
    (tmp_path / name).write_text("start,end,label\n")
    os.truncate(tmp_path / name, 1 << 40)
    assert complaint(tmp_path / name) == "is damaged (most of it was never written)"


def test_many_columns_take_no_long_time(tmp_path: Path):
    """A head of 100,000 names is looked through once."""
    path = tmp_path / "a.csv"
    path.write_text("start,end,label," + ",".join(map(str, range(100_000))) + "\n0,1,a\n")
    began = time.process_time()
    assert complaint(path).startswith("line 2: has 3 columns where")
    assert time.process_time() - began < 5
