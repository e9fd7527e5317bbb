"""Exports of annotations: what is written of each recording, as our readers and those of others take it."""

import csv
import json
import os
import re
import shutil
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import numpy as np
import pysubs2
import pytest
import soundfile
from annotation_files import read_annotations
from doors import here, read_table, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from praatio import textgrid

import splitter
from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.errors import Refused
from splitter.recipes.chunk import Chunk
from splitter.recipes.segments import Segments

RATE = 8000
ENDINGS = {
    "audacity": ".txt",
    "raven": ".Table.1.selections.txt",
    "textgrid": ".TextGrid",
    "rttm": ".rttm",
    "ctm": ".ctm",
    "srt": ".srt",
    "vtt": ".vtt",
}
HOLDS_EMPTY = ("audacity", "raven")
# start, end, what is said, by whom; in whole milliseconds, which subtitles can hold
SAID = [
    ("a.wav", "0.125", "1.003", "one", "ann"),
    ("a.wav", "1.003", "1.75", "zwö", "bob"),
    ("b c/é.wav", "0.25", "0.9", "three", "ann"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings; `pieces` with a text and a speaker each; `chunks` with labels that have their own times."""
    folder = tmp_path_factory.mktemp("made")
    chance = np.random.default_rng(7)
    (folder / "in/b c").mkdir(parents=True)
    for name, seconds in (("a", 2.5), ("b c/é", 1.0)):
        sound = chance.integers(-9000, 9000, (round(RATE * seconds), 2), dtype="int16")
        soundfile.write(folder / "in" / f"{name}.wav", sound, RATE)
    write_list(folder / "in/said.csv", ("input", "start", "end", "text", "speaker"), SAID)
    write_list(folder / "in/list.csv", ("input",), [("a.wav",), ("b c/é.wav",)])
    labels = [row[:4] for row in SAID]
    write_list(folder / "labels.csv", ("recording", "start", "end", "label"), labels)
    run(Segments(folder / "in/said.csv"), folder / "pieces")
    # the border at 1.5 s divides a label, and the last piece ends in silence
    cut = Chunk(
        folder / "in/list.csv",
        seconds=1.5,
        tail="pad",
        sample_rate=4000,
        channels="mono",
        annotations=str(folder / "labels.csv"),
    )
    run(cut, folder / "chunks")
    return folder


def write_list(path: Path, header, rows) -> None:
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def run(dataset: ProcessorDataset, output: Path) -> list[dict[str, str]]:
    splitter.run(dataset, output, workers=0, quiet=True)
    return read_table(output / "manifest.csv")


def cut_by(made: Path, export: Path, folder: Path) -> list[dict[str, str]]:
    """Cut the recordings by the annotations of an export, copied beside them."""
    shutil.copytree(made / "in", folder)
    shutil.copytree(export, folder, dirs_exist_ok=True)
    return run(Segments(folder / "list.csv", annotations="beside"), folder.parent / f"{folder.name}-cut")


def stretches(rows: list[dict[str, str]], label: str) -> list[tuple[str, ...]]:
    return [(row["input"], row[label], row["start_sample"], row["stop_sample"]) for row in rows]


@pytest.mark.parametrize("to", ENDINGS)
def test_pieces_come_back(made: Path, to: str):
    """Cut by what was exported, the same recordings give the same pieces, bit for bit, with their texts."""
    splitter.export(made / "pieces", to, made / f"of-{to}", content="text")
    before = read_table(made / "pieces/manifest.csv")
    after = cut_by(made, made / f"of-{to}", made / f"by-{to}")
    assert stretches(after, "label") == stretches(before, "text")
    for one, other in zip(before, after, strict=True):
        content = splitter.read_output(one, made / "pieces")
        assert content == splitter.read_output(other, made / f"by-{to}-cut")
    if to in ("raven", "vtt"):
        assert [row["annotation_speaker"] for row in after] == ["ann", "bob", "ann"]
    if to == "textgrid":
        assert [row["annotation_tier"] for row in after] == ["ann - text", "bob - text", "ann - text"]


@pytest.mark.parametrize("to", ENDINGS)
def test_labels_come_back(made: Path, to: str):
    """With their own times in the recording, though pieces have another sample rate, and end in silence."""
    splitter.export(made / "chunks", to, made / f"labels-{to}")
    after = cut_by(made, made / f"labels-{to}", made / f"labelled-{to}")
    assert stretches(after, "label") == [
        ("a.wav", "one", "1000", "8024"),
        ("a.wav", "zwö", "8024", "12000"),
        ("a.wav", "zwö", "12000", "14000"),
        ("b c/é.wav", "three", "2000", "7200"),
    ]


def test_who_speaks_when(made: Path):
    """RTTM has the speaker of each piece; the field of the recording has no space."""
    splitter.export(made / "pieces", "rttm", made / "turns")
    assert (made / "turns/a.rttm").read_text() == (
        "SPEAKER a 1 0.125 0.878 <NA> <NA> ann <NA> <NA>\nSPEAKER a 1 1.003 0.747 <NA> <NA> bob <NA> <NA>\n"
    )
    (line,) = (made / "turns/b c/é.rttm").read_text().splitlines()
    assert re.fullmatch(r"SPEAKER b_c_.wav-[0-9a-f]{16} 1 0.25 0.65 <NA> <NA> ann <NA> <NA>", line)


def test_turns_of_several_speakers_keep_their_times(made: Path, tmp_path: Path):
    """The labels of RTTM are the turns; a piece with two speakers and no turns is of both."""
    (tmp_path / "turns.rttm").write_text(
        "SPEAKER a 1 0.5 0.25 <NA> <NA> ann <NA>\nSPEAKER a 1 0.6 0.5 <NA> <NA> bob <NA>\n"
    )
    write_list(tmp_path / "list.csv", ("input",), [(str(made / "in/a.wav"),)])
    run(Chunk(tmp_path / "list.csv", seconds=1.5, annotations=str(tmp_path / "turns.rttm")), tmp_path / "out")
    splitter.export(tmp_path / "out", "rttm")
    (path,) = (tmp_path / "out-rttm").rglob("a.rttm")
    assert said_in(path) == [("ann", 0.5, 0.75), ("bob", 0.6, 1.1)]
    rows = read_table(tmp_path / "out/manifest.csv")
    for name in ("labels", "label_starts", "label_ends"):
        rows[0][name] = ""
    write_list(tmp_path / "out/manifest.csv", rows[0], [row.values() for row in rows])
    splitter.export(tmp_path / "out", "rttm")
    assert said_in(path) == [("ann", 0, 1.5), ("bob", 0, 1.5)]


def said_in(path: Path) -> list[tuple[str, float, float]]:
    return [(one.label, float(one.start), float(one.end)) for one in read_annotations(path)]


# -- other people's readers --------------------------------------------------------------------------------


def test_praatio_reads_tiers(made: Path):
    """Its tiers are by speaker, and reach from the start of the recording to its end."""
    splitter.export(made / "pieces", "textgrid", made / "grid")
    grid = textgrid.openTextgrid(
        str(made / "grid/a.TextGrid"), includeEmptyIntervals=True, reportingMode="error"
    )
    assert (grid.minTimestamp, grid.maxTimestamp) == (0, 2.5)
    assert {name: [tuple(one) for one in grid.getTier(name).entries] for name in grid.tierNames} == {
        "ann - text": [(0, 0.125, ""), (0.125, 1.003, "one"), (1.003, 2.5, "")],
        "bob - text": [(0, 1.003, ""), (1.003, 1.75, "zwö"), (1.75, 2.5, "")],
    }


@pytest.mark.parametrize("to", ["srt", "vtt"])
def test_pysubs2_reads_cues(made: Path, to: str):
    splitter.export(made / "pieces", to, made / "cues")
    cues = pysubs2.load(str(made / f"cues/a.{to}"))
    assert [(cue.start, cue.end, cue.plaintext) for cue in cues] == [(125, 1003, "one"), (1003, 1750, "zwö")]


def test_tasks_of_label_studio_come_back(made: Path):
    """They are a dataset list as they are."""
    splitter.export(made / "pieces", "label-studio", made / "listed")
    before = read_table(made / "pieces/manifest.csv")
    after = run(Segments(made / "listed/tasks.json"), made / "from-tasks")
    facts = ("text", "speaker", "start_sample", "stop_sample", "checksum")
    assert [[row[name] for name in facts] for row in after] == [
        [row[name] for name in facts] for row in before
    ]
    assert {row["label"] for row in after} == {"Speech"}


# what https://labelstud.io/guide/predictions and /tags/audio say of regions of sound
_TIMES = {"start": {"type": "number"}, "end": {"type": "number"}, "channel": {"type": "integer"}}
_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
TASKS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["data"],
        "properties": {
            "data": {"type": "object", "required": ["audio"], "properties": {"audio": {"type": "string"}}},
            "predictions": {"type": "array", "items": {"required": ["result"], "properties": {
                "model_version": {"type": "string"},
                "result": {"type": "array", "items": {
                    "type": "object",
                    "required": ["id", "from_name", "to_name", "type", "value"],
                    "additionalProperties": False,
                    "properties": {
                        "id": {"type": "string"},
                        "from_name": {"enum": ["label", "transcription", "speaker"]},
                        "to_name": {"const": "audio"},
                        "type": {"enum": ["labels", "textarea", "choices"]},
                        "original_length": {"type": "number"},
                        "meta": {"properties": {"text": _TEXTS}, "additionalProperties": False},
                        "value": {
                            "required": ["start", "end"],
                            "additionalProperties": False,
                            "properties": {**_TIMES, "labels": _TEXTS, "text": _TEXTS, "choices": _TEXTS},
                        },
                    },
                }},
            }}},
        },
    },
}  # fmt: skip


def tasks_of(export: Path) -> list[dict]:
    tasks = json.loads((export / "tasks.json").read_text())
    jsonschema.validate(tasks, TASKS)
    view = ET.parse(export / "interface.xml").getroot()  # noqa: S314 - made here
    offered = {one.get("value") for one in view.iter() if one.tag in ("Label", "Choice")}
    names = {one.get("name") for one in view}
    for task in tasks:
        for result in task["predictions"][0]["result"]:
            value = result["value"]
            assert {*value.get("labels", []), *value.get("choices", [])} <= offered
            assert result["from_name"] in names
            assert view.find(".//Audio").attrib == {"name": result["to_name"], "value": "$audio"}
    return tasks


def regions(task: dict) -> list[tuple]:
    """Return start, end and what is said of each region."""
    found: dict[str, list] = {}
    for result in task["predictions"][0]["result"]:
        value = result["value"]
        region = found.setdefault(result["id"], [value["start"], value["end"]])
        region += value[{"textarea": "text"}.get(result["type"], result["type"])]
    return [tuple(region) for region in found.values()]


def test_tasks_of_label_studio(made: Path):
    """Paths from the folder of the tasks, or as the server has them; the interface offers all labels."""
    splitter.export(made / "pieces", "label-studio", made / "tasks")
    first, second = tasks_of(made / "tasks")
    assert (made / "tasks" / first["data"]["audio"]).samefile(made / "in/a.wav")
    assert regions(first) == [(0.125, 1.003, "Speech", "one", "ann"), (1.003, 1.75, "Speech", "zwö", "bob")]
    assert regions(second) == [(0.25, 0.9, "Speech", "three", "ann")]
    prefix = "/data/local-files/?d="
    splitter.export(made / "chunks", "label-studio", made / "tasks", prefix=prefix)
    first, second = tasks_of(made / "tasks")
    assert second["data"]["audio"] == f"{prefix}b%20c/%C3%A9.wav"
    assert regions(first) == [(0.125, 1.003, "one"), (1.003, 1.5, "zwö"), (1.5, 1.75, "zwö")]
    splitter.export(made / "chunks", "label-studio", made / "tasks", content="name")
    (region, *_) = tasks_of(made / "tasks")[0]["predictions"][0]["result"]
    assert region["meta"] == {"text": ["a/000000_0.000s.wav"]}


def test_a_task_for_a_name_that_is_not_utf_8(made: Path, tmp_path: Path):
    """Its bytes are in the URL."""
    rows = [{**row, "input": "caf\udce9.wav"} for row in read_table(made / "pieces/manifest.csv")[:1]]
    splitter.export(edited(made, tmp_path / "bytes", rows), "label-studio", tmp_path / "tasks", prefix="/")
    assert [task["data"]["audio"] for task in tasks_of(tmp_path / "tasks")] == ["/caf%E9.wav"]


def test_a_task_in_a_locale_that_is_not_utf_8(made: Path, tmp_path: Path, monkeypatch):
    """Names are quoted as UTF-8, and only if a prefix makes them a part of URLs."""
    (made / "in/日.wav").touch()
    rows = [{**row, "input": "日.wav"} for row in read_table(made / "pieces/manifest.csv")[:1]]
    outputs = edited(made, tmp_path / "named", rows)
    monkeypatch.setattr(os, "fsencode", lambda path: os.fspath(path).encode("ascii", "surrogateescape"))
    found = []
    for prefix in ("/", None):
        splitter.export(outputs, "label-studio", tmp_path / "tasks", prefix=prefix)
        found += [task["data"]["audio"].rpartition("/")[2] for task in tasks_of(tmp_path / "tasks")]
    assert found == ["%E6%97%A5.wav", "日.wav"]


# -- which recordings, and what is in them -----------------------------------------------------------------


def edited(made: Path, folder: Path, rows: list[dict[str, str]]) -> Path:
    """Return the output folder `pieces` with other rows in its manifest."""
    shutil.copytree(made / "pieces/.splitter", folder / ".splitter", dirs_exist_ok=True)
    write_list(folder / "manifest.csv", rows[0], [row.values() for row in rows])
    return folder


@pytest.mark.parametrize("to", ["audacity", "textgrid"])
def test_rows_in_any_order(made: Path, tmp_path: Path, to: str):
    """Pieces of one recording that do not follow each other are still one file."""
    rows = read_table(made / "pieces/manifest.csv")
    mixed = edited(made, tmp_path / "mixed", [rows[1], rows[2], rows[0]])
    splitter.export(mixed, to)
    splitter.export(made / "pieces", to, tmp_path / "other")
    assert tree(tmp_path / f"mixed-{to}") == tree(tmp_path / "other")


def test_recordings_of_one_name(made: Path, tmp_path: Path):
    """Those that differ in their endings only keep them."""
    rows = read_table(made / "pieces/manifest.csv")
    rows[1]["input"], rows[2]["input"] = "A.flac", str(made / "in/sub/c.wav")
    splitter.export(edited(made, tmp_path / "out", rows), "srt", tmp_path / "srt")
    names = [str(path.relative_to(tmp_path / "srt")) for path in (tmp_path / "srt").rglob("*.srt")]
    assert sorted(names) == ["A.flac.srt", "a.wav.srt", "sub/c.srt"]
    rows[0]["input"] = ""
    with pytest.raises(Refused, match="does not say which recording it comes from"):
        splitter.export(edited(made, tmp_path / "out", rows), "srt", tmp_path / "srt")


def test_what_overlaps_is_in_several_tiers(made: Path, tmp_path: Path):
    """No two intervals of a tier overlap; each is read as what its speaker says."""
    rows = read_table(made / "pieces/manifest.csv")[:1] * 3
    rows = [
        {**row, "text": text, "start_sample": start}
        for row, text, start in zip(rows, "xyz", "046", strict=True)
    ]
    rows[2] |= {"start_sample": "8024", "stop_sample": "9000"}
    splitter.export(edited(made, tmp_path / "out", rows), "textgrid")
    path = tmp_path / "out-textgrid/a.TextGrid"
    assert textgrid.openTextgrid(str(path), False).tierNames == ("ann - text", "ann - text 2")
    found = [(one.label, one.text, one.speaker, one.columns["tier"]) for one in read_annotations(path)]
    assert found == [
        ("x", "x", "ann", "ann - text"),
        ("y", "y", "ann", "ann - text 2"),
        ("z", "z", "ann", "ann - text"),
    ]


def test_points_have_tiers_of_their_own(made: Path, tmp_path: Path):
    """A label without length is a point in a TextGrid; no cue of WebVTT can be one."""
    rows = [{"labels": "click|hum", "label_starts": "0.5|0.5", "label_ends": "0.5|0.75"}]
    rows = [{**read_table(made / "pieces/manifest.csv")[0], **row} for row in rows]
    out = edited(made, tmp_path / "out", rows)
    splitter.export(out, "textgrid", content="labels")
    grid = textgrid.openTextgrid(str(tmp_path / "out-textgrid/a.TextGrid"), False)
    points, labels = (grid.getTier(name).entries for name in ("labels points", "labels"))
    assert ([tuple(one) for one in points], [tuple(one) for one in labels]) == (
        [(0.625, "click")], [(0.625, 0.875, "hum")],
    )  # fmt: skip
    with pytest.raises(Refused, match="lasts less than a millisecond"):
        splitter.export(out, "vtt", content="labels")


def test_each_channel_is_named(made: Path):
    run(Chunk(made / "in/list.csv", seconds=2, channels="split"), made / "split")
    splitter.export(made / "split", "rttm", made / "channels", where="input == 'a.wav'")
    lines = (made / "channels/a.rttm").read_text().splitlines()
    assert [line.split(" ")[2:5] for line in lines[:2]] == [["1", "0.0", "2.0"], ["2", "0.0", "2.0"]]
    splitter.export(made / "split", "label-studio", made / "channels")
    results = tasks_of(made / "channels")[0]["predictions"][0]["result"]
    assert [result["value"]["channel"] for result in results] == [0, 1, 0, 1]


def test_frequencies_of_raven_come_back(made: Path, tmp_path: Path):
    rows = read_table(made / "pieces/manifest.csv")[:2]
    rows[0] |= {"annotation_low_freq_hz": "100.5", "annotation_high_freq_hz": "900.0"}
    rows[1] |= {"annotation_low_freq_hz": "", "annotation_high_freq_hz": ""}
    splitter.export(edited(made, tmp_path / "out", rows), "raven")
    found = read_annotations(tmp_path / "out-raven/a.Table.1.selections.txt")
    assert [(one.columns["low_freq_hz"], one.columns["high_freq_hz"]) for one in found] == [
        ("100.5", "900.0"), ("0.0", "4000.0"),
    ]  # fmt: skip


# -- what a format cannot hold -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "text", "why"),
    [
        ("audacity", "a\tb", r"'a\\tb' of a/000000_0.125s.wav: has '\\t', which the format cannot hold"),
        ("raven", "a\nb", r"has '\\n'"),
        ("rttm", "a b", "has ' '"),
        ("ctm", "a\u00a0b", "cannot hold"),
        ("srt", "a --> b", "has '-->'"),
        ("srt", "a <laughs> b", "has '<l'"),
        ("srt", "a\n\nb", "cannot hold"),
        ("vtt", "a\n \nb", "cannot hold"),
        ("vtt", "1:20 - 1:30", "cannot hold"),
        ("textgrid", "a\rb", "cannot hold"),
        ("label-studio", "a\0b", "cannot hold"),
        ("srt", "", "the text of all pieces is empty"),
    ],
)
def test_refused_before_anything_is_there(made: Path, tmp_path: Path, to: str, text: str, why: str):
    rows = read_table(made / "pieces/manifest.csv")[:1]
    rows[0]["text"] = text
    with pytest.raises(Refused, match=why) as refused:
        splitter.export(edited(made, tmp_path / "out", rows), to, content="text")
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.glob("out-*"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"start_sample": "9", "stop_sample": "8"}, "samples 9 to 8 of a recording of 20000"),
        ({"start_sample": "x"}, "its start_sample is 'x', which is impossible"),
        ({"source_rate": "0"}, "which is impossible"),
        ({"labels": "x", "label_starts": "inf", "label_ends": "nan"}, "not all label_starts and label_ends"),
    ],
)
def test_a_damaged_manifest_is_refused(made: Path, tmp_path: Path, changed: dict[str, str], why: str):
    rows = [{**row, **changed} for row in read_table(made / "pieces/manifest.csv")[:1]]
    content = "labels" if "labels" in changed else "name"
    with pytest.raises(Refused, match=why):
        splitter.export(edited(made, tmp_path / "out", rows), "audacity", content=content)


class Words(ProcessorDataset):
    """Outputs that are not cut from anything."""

    def process(self, input_file: InputFile):
        return [OutputFile("0.txt", "word")], {}


def test_outputs_without_times_are_refused(made: Path, capfd):
    run(Words(made / "in/list.csv"), made / "words")
    said = here(capfd, "export", made / "words", "--to=srt")
    assert (said.code, "no column 'start_sample'; export the outputs of a recipe" in said.err) == (2, True)
    said = here(capfd, "export", made / "pieces", "--to=srt", "--content=labels")
    assert (said.code, "--content labels: the manifest has no such column" in said.err) == (2, True)


# all of Unicode, with what formats give a meaning
_PARTS = st.sampled_from([
    "\t", "\n", "\r\n", '"', '""', "-->", "<b>", "</v>", "<v x>", "&amp;", "&", "\\", "{\\an8}", ";;", "<NA>",
    "1:20 - 1:30", "00:01:02.5", "NOTE", "1", "\n\n2\n", "\x85", "\u2028", "\ufeff", "intervals [1]:", "!",
])  # fmt: skip
_TEXT = st.lists(st.text(max_size=4) | _PARTS, max_size=4).map("".join)
_SPAN = st.tuples(st.integers(0, 19_999), st.integers(8, 4000))


@settings(max_examples=40, deadline=None)
@given(
    to=st.sampled_from([*ENDINGS]),
    said=st.lists(st.tuples(_TEXT, _SPAN), min_size=1, max_size=3),
    speaker=_TEXT,
)
def test_what_is_written_is_read(made: Path, to: str, said: list, speaker: str):
    """Texts and times come back equal, or the export is refused and nothing is there."""
    like = read_table(made / "pieces/manifest.csv")[0]
    rows = [
        {**like, "text": text, "speaker": speaker, "start_sample": start, "stop_sample": start + frames}
        for text, (start, frames) in said
    ]
    export = made / "property"
    shutil.rmtree(export, ignore_errors=True)
    write_list(made / "edited.csv", rows[0], [row.values() for row in rows])
    edited(made, made / "of-property", rows)
    try:
        splitter.export(made / "of-property", to, export, content="text")
    except Refused:
        assert not export.exists()
        return
    found = read_annotations(export / f"a{ENDINGS[to]}")
    joined = to in ("srt", "vtt")
    times_of = to_milliseconds if joined else to_samples
    assert sorted((plain(one.label, joined), *times_of(one.start, one.end)) for one in found) == sorted(
        (plain(text, joined), *times_of(Fraction(start, RATE), Fraction(min(start + frames, 20_000), RATE)))
        for text, (start, frames) in said
        if text.strip() or to in HOLDS_EMPTY
    )
    if to in ("raven", "vtt", "textgrid"):
        assert {one.speaker for one in found} <= {speaker.strip()}


def plain(text: str, joined: bool) -> str:
    """Return a text without space around it; our reader of subtitles puts their lines together."""
    return " ".join(filter(None, map(str.strip, text.split("\n")))) if joined else text.strip()


def to_samples(*times: Fraction) -> list[int]:
    return [round(time * RATE) for time in times]


def to_milliseconds(*times: Fraction) -> list[int]:
    return [round(time * 1000) for time in times]
