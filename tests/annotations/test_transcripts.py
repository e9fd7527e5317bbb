"""Transcripts as the tools write them that transcribe and align: each file in its own units, or refused."""

import json
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import soundfile
from annotation_files import read_annotations
from doors import here, read_table, write_list
from test_reading import said

from splitter.annotations import AnnotationFile, find_annotations
from splitter.errors import AnnotationError

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(
    ("name", "recording", "cues"),
    [
        (
            "whisper.tsv",
            None,
            [
                ("0", "4.32", "The birch canoe slid on the smooth planks."),
                ("4.32", "9.88", '"Glue the sheet," he said, to the dark blue background.'),
                ("9.88", "9.88", ""),
                ("3600", "3604.56", "It's easy to tell the depth of a well."),
            ],
        ),
        (
            "whisper_cpp.csv",
            None,
            [
                ("0", "7.96", "And so my fellow Americans, ask not"),
                ("7.96", "10.76", 'what "your" country can do for you.'),
            ],
        ),
        ("whisper.json", None, [("0", "4.32", "The birch canoe slid."), ("4.32", "9.88", "Glue the sheet.")]),
        ("whisperx.json", None, [("0.031", "2.516", "Wie spät ist es?"), ("3.077", "4.019", "Halb vier.")]),
        (
            "faster_whisper.json",
            None,
            [("0", "2.56", "Hello, everyone."), ("2.56", "21.48", "Welcome back.")],
        ),
        (
            "whisper_cpp.json",
            None,
            [
                ("0", "7.96", "And so my fellow Americans ask not"),
                ("7.96", "10.76", "what your country can do for you."),
            ],
        ),
        ("transformers.json", None, [("0", "3.68", "I have a dream.")]),
        ("kaldi.ctm", "1089-134686-0000.flac", [("0.4", "0.6", "HE"), ("0.6", "0.95", "HOPED")]),
        (
            "mfa.TextGrid",
            None,
            [
                ("0.41", "0.53", "HH"),
                ("0.41", "0.88", "hello"),
                ("0.53", "0.88", "AH0"),
                ("0.88", "1.3", "world"),
            ],
        ),
        ("nemo_manifest.jsonl", "an4/wav/an253-fash-b.wav", [("0", "0.95", "go")]),
        (
            "nemo_manifest.jsonl",
            "an4/wav/an254-fash-b.wav",
            [("10.25", "12.85", "yes"), ("12.85", "13.35", "no")],
        ),
        (
            "supervisions.jsonl",
            "LibriSpeech/1089-134686-0000.flac",
            [("0", "10.435", "HE HOPED THERE WOULD BE STEW FOR DINNER")],
        ),
        ("supervisions.jsonl", "1089-134686-0001.flac", [("1.11", "3.31", "STUFF IT INTO YOU")]),
    ],
)
def test_each_tool_is_read_in_its_own_units(name, recording, cues):
    """Whisper, whisper.cpp, WhisperX, faster-whisper, Transformers, Kaldi, MFA, NeMo and lhotse."""
    assert [cue[:3] for cue in said(read_annotations(FILES / name, recording=recording))] == cues


def test_what_a_program_says_of_a_segment_is_kept():
    """Speakers and scores become columns; tokens and words do not."""
    assert [dict(one.columns) for one in read_annotations(FILES / "whisperx.json")] == [
        {"speaker": "SPEAKER_01"},
        {},
    ]
    first, second = (dict(one.columns) for one in read_annotations(FILES / "whisper.json"))
    assert first == {
        "temperature": "0.0",
        "avg_logprob": "-0.2537",
        "compression_ratio": "1.4",
        "no_speech_prob": "0.0117",
    }
    assert second["avg_logprob"] == "NaN"


def test_milliseconds_are_those_that_whisper_was_given(write):
    """As its writer does it: any cues of an hour come back as the whole milliseconds nearest to them."""
    draw = random.Random(15)
    moments = sorted(draw.uniform(0, 3600) for _ in range(200))
    cues = list(zip(moments[::2], moments[1::2], strict=True))
    lines = [f"{round(1000 * start)}\t{round(1000 * end)}\t“{start}”" for start, end in cues]
    found = read_annotations(write("a.tsv", "\n".join(["start\tend\ttext", *lines, ""])))
    assert [(one.start, one.end) for one in found] == [
        (Fraction(round(1000 * start), 1000), Fraction(round(1000 * end), 1000)) for start, end in cues
    ]


@pytest.mark.parametrize("columns", ["start,end,text", "start,end,speaker,text", "start,end,text,speaker"])
@pytest.mark.parametrize("between", ["\t", ", ", ","])
@pytest.mark.parametrize(
    ("times", "in_seconds"),
    [
        (["0 5", "5 104"], ["0 5", "5 104"]),
        (["0 5", "5 105"], None),
        (["0 5", "5 1004"], None),
        (["0 5", "5 1005"], ["0 0.005", "0.005 1.005"]),
        (["0 5.0", "5 1005"], ["0 5", "5 1005"]),
        (["0 1:05", "5 1005"], ["0 65", "5 1005"]),
        ([], []),
    ],
)
def test_whole_numbers_are_told_apart_by_the_longest(write, columns, between, times, in_seconds):
    """Under 100 no milliseconds, from 1,000 on no seconds, and in between refused with what to do.

    From 100 on it is refused also where nothing but the columns looks like Whisper.
    """
    names = columns.split(",")
    delimiter, text = between[0], f"{between[1:]}x"
    if between == "," and times == ["0 5", "5 1005"]:
        in_seconds = None
    rows = [dict(zip(names, [*pair.split(), text, text], strict=False)) for pair in times]
    text = "\n".join(delimiter.join(row) for row in (names, *(row.values() for row in rows)))
    path = write("a.csv", f"{text}\n")
    if in_seconds is None:
        with pytest.raises(
            AnnotationError, match=r"a\.csv: line 1: has whole numbers .* start_ms and end_ms$"
        ):
            read_annotations(path)
        renamed = text.replace("start", "start_ms", 1).replace("end", "end_ms", 1)
        assert [str(float(one.end)) for one in read_annotations(write("b.csv", renamed))] == [
            str(int(pair.split()[1]) / 1000) for pair in times
        ]
        renamed = text.replace("start", "start_seconds", 1).replace("end", "end_seconds", 1)
        assert [str(one.end) for one in read_annotations(write("c.csv", renamed))] == [
            pair.split()[1] for pair in times
        ]
    else:
        assert [f"{cue[0]} {cue[1]}" for cue in said(read_annotations(path))] == in_seconds


@pytest.mark.parametrize(
    ("header", "row", "times"),
    [
        ("start,end,label", "4000,9000,x", ("4000", "9000")),
        ("start,end,text,score", "4000,9000,x,1", ("4000", "9000")),
        ("text,start,end", "x,4000,9000", ("4000", "9000")),
        ("start_ms,end_ms,label", "4000,9000,x", ("4", "9")),
        ("Start (ms),Duration (ms),Label", "4000,9000.5,x", ("4", "13.0005")),
        ("onset_msec,offset_msec,label", "1,9,x", ("0.001", "0.009")),
        ("start_ms,start,end_ms,end", "4000,4,9000,9", ("4", "9")),
        ("start_ms,start,duration_ms,duration", "4000,4,9000,9", ("4", "13")),
    ],
)
def test_a_unit_in_the_name_counts(write, header, row, times):
    """Other columns than Whisper's are in seconds, unless their names say milliseconds."""
    assert said(read_annotations(write("a.csv", f"{header}\n{row}\n")))[0][:2] == times


def test_half_a_pair_of_milliseconds_is_refused(write):
    """A start in seconds does not go with an end in milliseconds."""
    with pytest.raises(AnnotationError, match="has no column end or duration; it has 'start', 'end_ms'"):
        read_annotations(write("a.csv", "start,end_ms\n1,2\n"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"segments": [\n{"start": 1,}]}', "line 2: is not JSON ("),
        ("[" * 100_000, "line 1: is not JSON ("),
        ('{"text": "x"}', "line 1: is not a transcript: expected a list, or an object"),
        ("[1]", "segment 1: is not an object with a start and an end"),
        (
            '[{"start": 0, "end": 1}, {"text": "x", "end": 2}]',
            "segment 2: has no start and end; it has 'text', 'end'",
        ),
        (
            '{"chunks": [{"timestamp": [9.5, null], "text": "x"}]}',
            "segment 1: has a start and no end (null); write its end in seconds",
        ),
        ('[{"start": 2, "end": 1}]', "segment 1: starts at '2' and ends at '1', so it ends before it starts"),
        ('[{"start": NaN, "end": 1}]', "segment 1: 'NaN' is not a time in seconds"),
    ],
)
def test_json_that_is_no_transcript(write, text, problem):
    """One line names the file, the segment, and what is wrong with it."""
    path = write("a.json", text)
    with pytest.raises(AnnotationError) as caught:
        AnnotationFile(path)
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_json_beside_a_recording_counts_if_nothing_else_does(folder):
    """Whisper writes several files; other JSON, of any encoding, is none of annotations."""
    recording = folder / "a.wav"
    recording.write_bytes(b"RIFF")
    for other in (b"{}", b"[]", b'{"segments": [[0, 1]]}', b'{"name": "caf\xe9"}', b"{"):
        (folder / "a.json").write_bytes(other)
        assert find_annotations(recording) is None
    (folder / "a.json").write_bytes((FILES / "whisper.json").read_bytes())
    assert find_annotations(recording) == folder / "a.json"
    (folder / "a.wav.json").write_text(json.dumps([{"start": 0, "end": 1, "text": "x"}]))
    with pytest.raises(AnnotationError, match="both annotate"):
        find_annotations(recording)
    (folder / "a.tsv").write_bytes((FILES / "whisper.tsv").read_bytes())
    assert find_annotations(recording) == folder / "a.tsv"


def test_pieces_are_cut_where_whisper_says(tmp_path, capfd):
    """From the command line: the milliseconds of its table, and not the seconds."""
    soundfile.write(tmp_path / "r.wav", np.zeros(80_000), 8000)
    (tmp_path / "r.tsv").write_text("start\tend\ttext\n500\t2500\tyes\n4000\t9990\tno\n")
    dataset = write_list(tmp_path / "l.csv", [["input"], ["r.wav"]])
    ran = here(capfd, "run", dataset, "--recipe", "segments", "--workers", "1", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    rows = read_table(tmp_path / "out/manifest.csv")
    assert [(row["start_sample"], row["stop_sample"], row["label"]) for row in rows] == [
        ("4000", "20000", "yes"),
        ("32000", "79920", "no"),
    ]
