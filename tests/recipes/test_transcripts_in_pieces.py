"""Transcripts in the pieces of a recording: divided at borders, merged to pieces, in columns of their own."""

import json

import numpy as np
import pytest
import soundfile
from doors import here, read_table, write_files, write_list

from splitter.errors import Refused
from splitter.recipes.chunk import Chunk
from splitter.recipes.pauses import Pauses
from splitter.recipes.segments import Segments

RATE = 8000


def word(text: str, start: float, end: float) -> dict[str, object]:
    return {"word": text, "start": start, "end": end, "probability": 0.9}


WHISPER = {
    "segments": [
        {
            "id": 0,
            "start": 0.5,
            "end": 3.4,
            "text": " It's easy, to tell.",
            "words": [
                word(" It's", 0.5, 0.9),
                word(" easy,", 1.0, 2.2),
                word(" to", 2.5, 2.6),
                word(" tell.", 2.6, 3.4),
            ],
        },
        {"id": 1, "start": 3.6, "end": 5.9, "text": " No words here."},
    ]
}
WHISPERX = {
    "segments": [
        {
            "start": 0.5,
            "end": 3.4,
            "text": "Wie spät ist 2?",
            "speaker": "S1",
            "words": [
                {"word": "Wie", "start": 0.5, "end": 1.0},
                {"word": "spät", "start": 1.1, "end": 1.9},
                {"word": "ist", "start": 2.1, "end": 2.2},
                {"word": "2?"},
            ],
        },
        {"start": 3.6, "end": 3.9, "text": "Vier.", "speaker": "S2", "words": []},
    ]
}
CPP = {
    "transcription": [
        {
            "offsets": {"from": 500, "to": 3400},
            "text": " And American",
            "tokens": [
                {"text": "[_BEG_]", "offsets": {"from": 500, "to": 500}},
                {"text": " And", "offsets": {"from": 500, "to": 1500}},
                {"text": " Amer", "offsets": {"from": 2500, "to": 3000}},
                {"text": "ican", "offsets": {"from": 3000, "to": 3400}},
            ],
        }
    ]
}
CTM = "r 1 0.5 0.5 it's\nr 1 1.5 0.9 easy\nr 1 2.5 0.2 to 0.9 lex anna\nr 1 2.7 0.7 tell\n"
GRID = """File type = "ooTextFile"
Object class = "TextGrid"

0 6 <exists> 3
"IntervalTier" "Anna - words" 0 6 2
0.5 1.9 "hello" 1.9 3 "world"
"IntervalTier" "Anna - phones" 0 6 1
0.5 1.9 "HH"
"IntervalTier" "Ben - words" 0 6 1
3 5 "yes"
"""
RTTM = "SPEAKER r 1 0.5 3 <NA> <NA> anna <NA> <NA>\nSPEAKER r 1 3.5 1 <NA> <NA> ben <NA> <NA>\n"
SRT = """1
00:00:00,500 --> 00:00:01,200
One,

2
00:00:01,400 --> 00:00:02,500
two.

3
00:00:02,700 --> 00:00:04,000
three.
"""
VTT = """WEBVTT

00:00.500 --> 00:01.200
<v Anna>One,

00:01.400 --> 00:02.500
<v Ben>two.

00:02.600 --> 00:04.000
<v Ben>three.
"""


@pytest.fixture
def sounds(folder):
    """A recording of six seconds, and a list of it."""
    noise = np.random.default_rng(3).uniform(-0.5, 0.5, (6 * RATE, 1))
    soundfile.write(folder / "r.wav", noise, RATE, "PCM_16")
    return write_list(folder / "l.csv", [["input"], ["r.wav"]])


def cut(sounds, capfd, notes: dict[str, str], *options: str) -> list[dict[str, str]]:
    write_files(sounds.parent, notes)
    out = sounds.parent / "out"
    said = here(
        capfd, "run", sounds, *options, "--annotations", "beside", "--workers", "1", "--fresh", "-o", out
    )
    assert said.code == 0, said.err
    return read_table(out / "manifest.csv")


CHUNK = ("--recipe", "chunk", "--seconds", "2")


@pytest.mark.parametrize(
    ("notes", "columns"),
    [
        (
            {"r.json": json.dumps(WHISPER)},
            {"text": ["It's easy,", "to tell.", "No words here."]},
        ),
        (
            {"r.json": json.dumps(WHISPERX)},
            {"text": ["Wie spät", "ist 2? Vier.", ""], "speaker": ["S1", "S1|S2", ""]},
        ),
        ({"r.json": json.dumps(CPP)}, {"text": ["And", "American", ""]}),
        ({"r.ctm": CTM}, {"text": ["it's easy", "to tell", ""], "speaker": ["", "anna", ""]}),
        ({"r.TextGrid": GRID}, {"text": ["hello", "world yes", ""], "speaker": ["Anna", "Anna|Ben", ""]}),
        ({"r.srt": SRT}, {"text": ["One, two.", "three.", ""]}),
        ({"r.vtt": VTT}, {"text": ["One, two.", "three.", ""], "speaker": ["Anna|Ben", "Ben", ""]}),
        ({"r.rttm": RTTM}, {"speaker": ["anna", "anna|ben", "ben"]}),
        ({"r.csv": "start,end,label,text\n1,3.5,robin,chirp\n"}, {"text": ["", "chirp", ""]}),
        ({"r.txt": "1\t3\trobin\n"}, {}),
    ],
)
def test_each_kind_gives_what_it_knows(sounds, capfd, notes, columns):
    """Each word is in one piece; a cue without words is whole in one; labels are in all that they overlap."""
    rows = cut(sounds, capfd, notes, *CHUNK)
    found = {name: [row[name] for row in rows] for name in ("text", "speaker") if name in rows[0]}
    assert found == columns
    assert {"labels", "label_starts", "label_ends"} < rows[0].keys()


@pytest.mark.parametrize(
    ("cross", "labels", "texts"),
    [
        (None, "whole|whole|none|none", "It's easy,|to tell.|No words here."),
        ("both", "whole|whole|none|none", "It's easy, to tell.|It's easy, to tell. @|@"),
        ("assign", "whole|none", "It's easy, to tell.||No words here."),
        ("divide", "It's easy,|to tell.|none", "It's easy,|to tell.|No words here."),
    ],
)
def test_what_crosses_a_border(sounds, capfd, cross, labels, texts):
    """As asked for; otherwise labels are as ever, and text is divided."""
    options = ["--cross", cross] if cross else []
    rows = cut(sounds, capfd, {"r.json": json.dumps(WHISPER)}, *CHUNK, *options)
    names = {"whole": "It's easy, to tell.", "none": "No words here."}
    expected = "|".join(names.get(label, label) for label in labels.split("|"))
    assert "|".join(row["labels"] for row in rows if row["labels"]) == expected
    assert "|".join(row["text"] for row in rows) == texts.replace("@", names["none"])


def test_pauses_lose_no_word(sounds, capfd):
    """Through another recipe, whose pieces are known at once."""
    options = ["--recipe", "pauses", "--seconds", "1.5", "--min-seconds", "1", "--max-seconds", "2"]
    rows = cut(sounds, capfd, {"r.json": json.dumps(WHISPER)}, *options)
    assert len(rows) > 2
    assert " ".join(row["text"] for row in rows if row["text"]) == "It's easy, to tell. No words here."


def test_a_column_of_the_list_stays(sounds, capfd):
    """It is about the whole recording; the piece's own needs another name for it."""
    write_list(sounds, [["input", "text", "speaker"], ["r.wav", "all of it", "nobody"]])
    rows = cut(sounds, capfd, {"r.vtt": VTT}, *CHUNK)
    assert {(row["text"], row["speaker"]) for row in rows} == {("all of it", "nobody")}
    rows = cut(sounds, capfd, {}, *CHUNK, "--rename", "text=all")
    assert (rows[0]["text"], rows[0]["all"]) == ("One, two.", "all of it")


@pytest.mark.parametrize(
    ("name", "options"),
    [("r.wav", {}), ("r.flac", {}), ("r.mp3", {}), ("r.ogg", {}), ("r.wav", {"sample_rate": 5000})],
)
def test_looking_ahead_changes_no_sound(folder, name, options):
    """The recording is read on to the end of a cue before its first piece is written."""
    noise = np.random.default_rng(3).uniform(-0.5, 0.5, 6 * RATE)
    soundfile.write(folder / name, noise, RATE)
    write_files(folder, {"r.srt": "1\n00:00:00,500 --> 00:00:05,700\nAll of it.\n"})
    path = str(folder / name)
    plain = Chunk([path], 1.0, **options)[0]
    noted = Chunk([path], 1.0, annotations="beside", cross="assign", **options)[0]
    assert [one.content for one in noted[0]] == [one.content for one in plain[0]]
    assert [one.metadata["text"] for one in noted[0]] == ["", "All of it.", "", "", "", ""]
    assert noted[1] == plain[1]


def test_what_was_made_before_stays_finished(folder):
    """New parameters count only where they are used: their defaults are in no fingerprint."""
    new = {"cross", "merge", "merge_gap", "merge_speakers"}
    assert not new & Chunk([], annotations="beside").parameters.keys()
    assert not new & Segments([]).parameters.keys()
    assert Pauses([], annotations="beside", cross="divide").parameters["cross"] == "divide"
    assert Segments([], merge="1:2", merge_speakers=True).parameters.keys() >= {"merge", "merge_speakers"}


# -- segments ------------------------------------------------------------------------------------------------


def merged(rows) -> list[tuple[str, ...]]:
    return [(row["start_seconds"], row["end_seconds"], row["text"], row["label_starts"]) for row in rows]


def test_neighbours_become_one_piece(sounds, capfd):
    """Cut in the middle of the gap; each cue has its times in the piece, which is as long as it says."""
    rows = cut(sounds, capfd, {"r.srt": SRT}, "--recipe", "segments", "--merge", "1.5:2.5")
    assert merged(rows) == [
        ("0.0", "1.3", "One,", "0.5"),
        ("1.3", "2.6", "two.", "0.1"),
        ("2.6", "5.0", "three.", "0.1"),
    ]
    rows = cut(sounds, capfd, {"r.srt": SRT}, "--recipe", "segments", "--merge", "2:3")
    assert merged(rows) == [
        ("0.0", "2.6", "One, two.", "0.5|1.4"),
        ("2.6", "5.0", "three.", "0.1"),
    ]
    assert [(row["labels"], row["label_ends"]) for row in rows] == [
        ("One,|two.", "1.2|2.5"),
        ("three.", "1.4"),
    ]
    made = soundfile.read(sounds.parent / "out" / rows[0]["output"], dtype="int16")[0]
    whole = soundfile.read(sounds.parent / "r.wav", dtype="int16")[0]
    assert np.array_equal(made, whole[: round(2.6 * RATE)])
    (row,) = cut(sounds, capfd, {}, "--recipe", "segments", "--merge", "2:9", "--merge-gap", "0.2")
    assert merged([row]) == [("0.4", "4.1", "One, two. three.", "0.1|1.0|2.3")]
    rows = cut(sounds, capfd, {}, "--recipe", "segments", "--merge", "2:9", "--merge-gap", "0.1")
    assert len(rows) == 3


def test_speakers_are_merged_only_when_told(sounds, capfd):
    options = ["--recipe", "segments", "--merge", "1:9"]
    rows = cut(sounds, capfd, {"r.vtt": VTT}, *options)
    assert [(row["text"], row["speaker"]) for row in rows] == [("One,", "Anna"), ("two. three.", "Ben")]
    (row,) = cut(sounds, capfd, {}, *options, "--merge-speakers")
    assert (row["text"], row["speaker"]) == ("One, two. three.", "Anna|Ben")


def test_words_of_a_textgrid_are_merged_without_its_phones(sounds, capfd):
    rows = cut(sounds, capfd, {"r.TextGrid": GRID}, "--recipe", "segments", "--merge", "1:9")
    assert [(row["text"], row["labels"]) for row in rows] == [("hello world", "hello|world"), ("yes", "yes")]


def test_rows_of_the_list_are_merged(sounds, capfd):
    """A piece has the row of its first one; a text that is not all of it is not left as if it were."""
    header, *rows = [
        ["input", "start", "end", "text"],
        ["r.wav", "3", "3.5", "b"],
        ["r.wav", "1", "2.5", "a"],
    ]
    write_list(sounds, [header, *rows])
    out = sounds.parent / "out"
    command = ["run", sounds, "--recipe", "segments", "--merge", "2:5", "--workers", "1", "-o", out]
    said = here(capfd, *command)
    assert said.code == 2
    assert "a column 'text', which metadata of the recipe would hide; use --rename text=NEW" in said.err
    said = here(capfd, *command, "--rename", "text=sentence")
    assert said.code == 0, said.err
    (row,) = read_table(out / "manifest.csv")
    assert (row["start"], row["sentence"], row["text"], row["labels"]) == ("1", "a", "a b", "a|b")


def test_the_speakers_of_merged_rows_are_not_only_the_first(sounds, capfd):
    """Its column is renamed, so that `speaker` can name all; without --merge-speakers there is one."""
    rows = [["r.wav", "1", "2", "Anna"], ["r.wav", "2", "3", "Ben"], ["r.wav", "3", "4", "Ben"]]
    write_list(sounds, [["input", "start", "end", "speaker"], *rows])
    out = sounds.parent / "out"
    command = ["run", sounds, "--recipe", "segments", "--merge", "2:9", "--workers", "1", "-o", out]
    assert here(capfd, *command).code == 0
    assert [row["speaker"] for row in read_table(out / "manifest.csv")] == ["Anna", "Ben"]
    said = here(capfd, *command, "--merge-speakers")
    assert said.code == 2
    assert "a column 'speaker', which metadata of the recipe would hide; use --rename speaker=NEW" in said.err
    assert here(capfd, *command, "--merge-speakers", "--rename", "speaker=speaker_id").code == 0
    assert [(row["speaker"], row["speaker_id"]) for row in read_table(out / "manifest.csv")] == [
        ("Anna|Ben", "Anna")
    ]


def test_the_speaker_of_each_recording_stays_though_annotations_are_merged(sounds, capfd):
    """A column about whole recordings is hidden by nothing, and needs no other name."""
    write_list(sounds, [["input", "speaker"], ["r.wav", "Anna"]])
    notes = {"r.csv": "start,end,label,speaker\n1,2,a,S1\n2,3,b,S2\n"}
    (row,) = cut(sounds, capfd, notes, "--recipe", "segments", "--merge", "1:9", "--merge-speakers")
    assert (row["speaker"], row["labels"]) == ("Anna", "a|b")


def test_the_end_of_the_recording_is_the_end(sounds, capfd):
    """A cue that goes on is shortened; one that starts later is an error of the recording."""
    notes = "start,end,text\n4,5,a\n5.2,7,b\n"
    (row,) = cut(sounds, capfd, {"r.csv": notes}, "--recipe", "segments", "--merge", "1:9")
    assert (row["start_seconds"], row["end_seconds"], row["label_ends"]) == ("3.0", "6.0", "2.0|3.0")
    write_files(sounds.parent, {"r.csv": f"{notes}7.5,8,c\n"})
    said = here(
        capfd, "run", sounds, "--recipe", "segments", "--merge", "1:9", "--workers", "1",
        "-o", sounds.parent / "out", "--fresh",
    )  # fmt: skip
    assert said.code == 1
    assert "r.wav: an annotation starts at 7.5 s, after the end of the recording at 6 s" in said.err


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        (Segments, {"merge": "15:5"}, "--merge '15:5': expected MIN:MAX in seconds, such as 5:15"),
        (Segments, {"merge_gap": 1.0}, "--merge-gap 1: needs --merge, such as --merge 5:15"),
        (Segments, {"merge_speakers": True}, "--merge-speakers: needs --merge, such as --merge 5:15"),
        (Segments, {"merge": "5:15", "merge_gap": -1.0}, "--merge-gap -1: must be at least 0"),
        (Chunk, {"cross": "divide"}, "--cross 'divide': needs --annotations; add it, or leave it out"),
    ],
)
def test_options_without_sense(recipe, options, message):
    with pytest.raises(Refused, match=f"^{message}$"):
        recipe([], **options)
