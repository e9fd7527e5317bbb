"""What other tools wrote is a dataset list; the layouts are those of lhotse 1.33 and of the tools' pages."""

import gzip
import json
import os
import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from doors import Said, here, read_table, tree, write_files, write_list
from sounds import noise, write_sound

from splitter import InputList
from splitter.inputs.dialects import files
from splitter.inputs.reading import ListReading, read_source
from splitter.testing.inputs import InputSourceConformance

# of each piece: id, recording, start, end, text, speaker
PIECES = [
    ("u1", "a.wav", "0.1", "0.25", "one, two", "ann"),
    ("u2", "a.wav", "0.25", "0.4", 'and "so" on', "bob"),
    ("u3", "sub/b.wav", "0", "0.2", "naïve ☃", "ann"),
]
HEADER = ["input", "start", "end", "text", "speaker", "id"]
SECONDS, RATE = 0.5, 8000


@pytest.fixture
def recordings(folder: Path) -> Path:
    """Two recordings, and a list of their pieces in splitter's own words."""
    for seed, name in enumerate(("a.wav", "sub/b.wav")):
        write_sound(folder / name, noise(round(SECONDS * RATE), seed=seed), RATE)
    rows = [[path, *rest, name] for name, path, *rest in PIECES]
    write_list(folder / "list.csv", [HEADER, *rows])
    return folder


def lasting(start: str, end: str) -> float:
    return round(float(end) - float(start), 8)


def lines(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects)


def recording(path: str) -> dict[str, Any]:
    """A recording as lhotse writes it."""
    return {
        "id": path, "sources": [{"type": "file", "channels": [0], "source": path}], "sampling_rate": RATE,
        "num_samples": round(SECONDS * RATE), "duration": SECONDS, "channel_ids": [0],
    }  # fmt: skip


def supervision(piece: tuple[str, ...], start: float) -> dict[str, Any]:
    name, path, first, last, text, speaker = piece
    length = lasting(first, last)
    about = {"channel": 0, "text": text, "speaker": speaker}
    return {"id": name, "recording_id": path, "start": start, "duration": length, **about}


def cut(piece: tuple[str, ...]) -> dict[str, Any]:
    name, path, start, end, *_ = piece
    return {
        "id": name, "start": float(start), "duration": lasting(start, end), "channel": 0,
        "supervisions": [supervision(piece, 0.0)], "recording": recording(path), "type": "MonoCut",
    }  # fmt: skip


def write_cuts(folder: Path) -> Path:
    path = folder / "cuts.jsonl.gz"
    path.write_bytes(gzip.compress(lines(*map(cut, PIECES)).encode()))
    return path


def write_supervisions(folder: Path) -> Path:
    names = {path: None for _, path, *_ in PIECES}
    (folder / "my_recordings_dev.jsonl").write_text(lines(*map(recording, names)))
    path = folder / "my_supervisions_dev.jsonl"
    path.write_text(lines(*(supervision(one, float(one[2])) for one in PIECES)))
    return path


def write_nemo(folder: Path) -> Path:
    rows = (
        {"audio_filepath": path, "duration": lasting(start, end), "offset": float(start), "text": text,
         "speaker": speaker, "id": name}
        for name, path, start, end, text, speaker in PIECES
    )  # fmt: skip
    (folder / "manifest.json").write_text(lines(*rows))
    return folder / "manifest.json"


def write_kaldi(folder: Path) -> Path:
    (folder / "data").mkdir()
    columns: dict[str, list[str]] = {"segments": [], "text": [], "utt2spk": []}
    for name, path, start, end, text, speaker in PIECES:
        columns["segments"].append(f"{name} rec-{path.replace('/', '-')} {start} {end}")
        columns["text"].append(f"{name} {text}")
        columns["utt2spk"].append(f"{name} {speaker}")
    names = {path: None for _, path, *_ in PIECES}
    columns["wav.scp"] = [f"rec-{path.replace('/', '-')} {folder / path}" for path in names]
    write_files(folder / "data", {name: "\n".join([*rows, ""]) for name, rows in columns.items()})
    return folder / "data"


def write_relative_kaldi(folder: Path) -> Path:
    """As from a folder like egs/x/s5, with the data in data/train."""
    path = write_kaldi(folder)
    text = (path / "wav.scp").read_text().replace(f" {folder}/", " ")
    (path / "wav.scp").write_text(text)
    (folder / "deep").mkdir()
    return path.rename(folder / "deep" / "train")


def run(capfd, dataset: Path, *options: str, recipe: str = "segments") -> Said:
    output = dataset.parent / "out"
    return here(
        capfd, "run", dataset, "--recipe", recipe, "--workers", "0", "-o", output, "--fresh", *options
    )


# -- the way there and back --------------------------------------------------------------------------------


def test_lines_of_nothing_but_space_are_skipped(recordings):
    """Also of space that is not ASCII, as a copy from a page may leave behind."""
    write_files(
        recordings,
        {"k/wav.scp": f"\N{EM SPACE}\nr {recordings}/a.wav\n\N{NO-BREAK SPACE}\n", "k/text": "\xa0\nr one\n"},
    )
    assert [*read_source(InputList(recordings / "k")).rows] == [[f"{recordings}/a.wav", "one", "r"]]


@pytest.mark.parametrize("write", [write_cuts, write_supervisions, write_nemo, write_kaldi])
def test_pieces_come_back_as_they_were_listed(capfd, recordings: Path, write):
    """The same pieces, with the same columns, by the same bytes as from a list of splitter's own."""
    there = write(recordings)
    options = ["--root", str(recordings)]
    assert run(capfd, recordings / "list.csv", *options).code == 0
    expected = tree(recordings / "out")
    said = run(capfd, there, *options)
    assert said.code == 0, said.err
    found = tree(recordings / "out")
    if write is write_kaldi:
        # whose paths are absolute
        text = found["manifest.csv"].decode().replace(f"{recordings}/", "")
        found["manifest.csv"] = text.encode()
    assert found == expected


def test_relative_paths_of_kaldi(capfd, recordings: Path):
    """They start from the current folder of Kaldi, which is above the data folder; --root names another."""
    train = write_relative_kaldi(recordings)
    for options in ((), ("--root", str(recordings))):
        assert run(capfd, train, *options).code == 0
        rows = read_table(train.parent / "out" / "manifest.csv")
        assert [(row["input"], row["start"]) for row in rows] == [
            (path, start) for _, path, start, *_ in PIECES
        ]


def test_whole_recordings_of_common_voice_and_ljspeech(capfd, folder: Path):
    """A sentence is a text and a client a speaker; quotes are part of the text, as in Kaldi's wav.scp."""
    for name in ("clips/x.wav", "wavs/x.wav"):
        write_sound(folder / name, noise(800), RATE)
    text = 'say "so", she | said'
    write_files(
        folder,
        {
            "validated.tsv": f"client_id\tpath\tsentence\tlocale\nc0ffee\tx.wav\t{text}\tde\n",
            "metadata.csv": f"x|{text.replace('|', '/')}|in full\n",
            "whole/wav.scp": f"x\t{folder}/wavs/x.wav\n",
            "whole/text": f"x {text}\n",
        },
    )
    about = {"text": text, "speaker": "c0ffee", "locale": "de"}
    for dataset, expected in (
        (folder / "validated.tsv", {"input": "clips/x.wav", **about}),
        (folder / "metadata.csv", {"text": text.replace("|", "/"), "normalized_text": "in full", "id": "x"}),
        (folder / "whole", {"input": f"{folder}/wavs/x.wav", "text": text, "id": "x"}),
    ):
        said = run(capfd, dataset, recipe="chunk")
        assert said.code == 0, said.err
        (row,) = read_table(folder / "out" / "manifest.csv")
        assert {name: row[name] for name in expected} == expected


def test_a_folder_of_ljspeech_and_the_speakers_of_piper(capfd, folder: Path):
    write_sound(folder / "corpus/wavs/x.wav", noise(800), RATE)
    (folder / "corpus/metadata.csv").write_text("x|ann|hello\n")
    for options, expected in (([], ("text", "ann")), (["--from", "piper"], ("speaker", "ann"))):
        assert run(capfd, folder / "corpus", *options, recipe="chunk").code == 0
        (row,) = read_table(folder / "out" / "manifest.csv")
        name, value = expected
        assert (row["input"], row[name]) == ("wavs/x.wav", value)
    (folder / "job.toml").write_text("from = 'piper'\n")
    assert run(capfd, folder / "corpus", "--config", str(folder / "job.toml"), recipe="chunk").code == 0
    assert read_table(folder / "out" / "manifest.csv")[0]["speaker"] == "ann"


def answer(kind: str, name: str, region: str, **value: Any) -> dict[str, Any]:
    """A result as Label Studio exports it."""
    return {"id": region, "from_name": name, "to_name": "audio", "type": kind, "value": value}


def label_studio() -> str:
    """Two tasks as an export has them: one with two regions and a choice, and one that nobody labelled."""
    results = [
        answer("labels", "label", "r1", start=0.1, end=0.25, labels=["Speech", "Noise"]),
        answer("textarea", "transcription", "r1", start=0.1, end=0.25, text=["hello"]),
        answer("labels", "label", "r2", start=0.25, end=0.4, labels=["Speech"]),
        answer("choices", "quality", "c", choices=["good"]),
    ]
    tasks = [
        {
            "id": 7,
            "data": {"audio": "/data/local-files/?d=a.wav", "lang": "de"},
            "annotations": [{"result": results}],
        },
        {"id": 8, "data": {"audio": "/data/sub/b.wav", "lang": "fr"}, "annotations": []},
    ]
    return json.dumps(tasks)


def test_regions_of_label_studio(capfd, recordings: Path):
    """A region is a piece with its labels and its text; a recording without any is skipped."""
    (recordings / "export.json").write_text(label_studio())
    said = run(capfd, recordings / "export.json")
    assert said.code == 0, said.err
    rows = read_table(recordings / "out" / "manifest.csv")
    names = ("input", "start", "end", "label", "text", "lang", "quality")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("a.wav", "0.1", "0.25", "Speech|Noise", "hello", "de", "good"),
        ("a.wav", "0.25", "0.4", "Speech", "", "de", "good"),
        ("sub/b.wav", "", "", "", "", "fr", ""),
    ]
    assert "start and end are empty" in rows[2]["skipped"]


@pytest.mark.parametrize("first", [0, 1])
def test_answers_in_label_studio_win_over_the_task(folder: Path, first: int):
    """The text of a region is the corrected one, and answers are the same in any order of annotations."""
    corrected = [
        answer("textarea", "transcription", "r1", start=0.1, end=0.25, text=["corrected"]),
        answer("choices", "speaker", "c", choices=["Ann"]),
        answer("labels", "label", "r2", start=0.25, end=0.4, labels=["Speech"]),
    ]
    annotations = [
        {"completed_by": 1, "result": corrected},
        {
            "completed_by": 2,
            "result": [answer("choices", name, name, choices=["x"]) for name in ("speaker", "noise")],
        },
    ]
    tasks = [
        {
            "data": {"audio": "a.wav", "text": "draft"},
            "annotations": [annotations[first], annotations[1 - first]],
        },
        {"data": {"audio": "b.wav", "text": "draft"}, "annotations": []},
    ]
    (folder / "export.json").write_text(json.dumps(tasks))
    found = read_source(InputList(folder / "export.json"), ListReading(group_rows=True))
    rows = [dict(zip(found.header, row, strict=True)) for row in found.rows]
    names = ("input", "start", "label", "text", "speaker", "noise", "annotator")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("a.wav", "0.1", "", "corrected", "Ann", "x", "1"),
        ("a.wav", "0.25", "Speech", "", "Ann", "x", "1"),
        ("b.wav", "", "", "draft", "", "", ""),
    ]


def test_a_field_of_a_task_in_label_studio_is_that_of_the_other_regions(folder: Path):
    """An answer about one region replaces it there, and only there."""
    results = [
        answer("labels", "label", "r1", start=0.1, end=0.25, labels=["Speech"]),
        answer("labels", "label", "r2", start=0.25, end=0.4, labels=["Speech"]),
        answer("choices", "speaker", "r2", start=0.25, end=0.4, choices=["Ben"]),
    ]
    data = {"audio": "a.wav", "speaker": "Ann", "text": "draft"}
    (folder / "export.json").write_text(json.dumps([{"data": data, "annotations": [{"result": results}]}]))
    found = read_source(InputList(folder / "export.json"), ListReading(group_rows=True))
    rows = [dict(zip(found.header, row, strict=True)) for row in found.rows]
    assert [(row["start"], row["speaker"]) for row in rows] == [("0.1", "Ann"), ("0.25", "Ben")]


# -- recordings that are listed several times --------------------------------------------------------------


def test_other_recipes_take_each_recording_once(capfd, recordings: Path):
    """Its columns are those that all of its parts share; a note says what to do with the rest."""
    path = write_nemo(recordings)
    path.write_text(path.read_text().replace('"bob"', '"ann"'))
    said = run(capfd, path, "--seconds", "0.3", recipe="chunk")
    assert said.code == 0, said.err
    assert "2 recordings" in said.err
    assert "without start, end, text, id; --recipe segments cuts at the times" in said.err
    rows = read_table(recordings / "out" / "manifest.csv")
    assert [(row["input"], row["speaker"]) for row in rows] == [("a.wav", "ann")] * 2 + [
        ("sub/b.wav", "ann")
    ] * 2
    assert "start" not in rows[0]


@pytest.mark.parametrize("write", [write_cuts, write_nemo, write_kaldi])
def test_as_annotations_it_gives_pieces_their_labels(capfd, recordings: Path, write):
    """With --annotations, the text and the speakers of the parts go to the pieces of other recipes."""
    there = write(recordings)
    said = run(
        capfd,
        there,
        "--root",
        str(recordings),
        "--annotations",
        str(there),
        "--seconds",
        "0.25",
        recipe="chunk",
    )
    assert said.code == 0, said.err
    rows = read_table(recordings / "out" / "manifest.csv")
    assert [(row["text"], row["speaker"]) for row in rows] == [
        ("one, two", "ann"), ('and "so" on', "bob"), ("naïve ☃", "ann"), ("", ""),
    ]  # fmt: skip


def test_supervisions_of_a_long_cut(capfd, recordings: Path):
    """A cut is one piece, with all that is said in it; as annotations, each supervision is one."""
    first, second, _ = PIECES
    whole = cut(("all", "a.wav", "0.05", "0.45", "", ""))
    whole["supervisions"] = [supervision(first, 0.05), supervision(second, 0.2)]
    (recordings / "cuts.jsonl").write_text(lines(whole))
    assert run(capfd, recordings / "cuts.jsonl").code == 0
    (row,) = read_table(recordings / "out" / "manifest.csv")
    assert (row["start"], row["end"], row["text"]) == ("0.05", "0.45", 'one, two and "so" on')
    assert (row["speaker"], row["frames"]) == ("ann|bob", "3200")
    assert run(capfd, recordings / "cuts.jsonl", "--annotations", str(recordings / "cuts.jsonl")).code == 0
    rows = read_table(recordings / "out" / "manifest.csv")
    assert [(row["start_seconds"], row["end_seconds"], row["label"]) for row in rows] == [
        ("0.1", "0.25", "one, two"), ("0.25", "0.4", 'and "so" on'),
    ]  # fmt: skip


# -- strangers ---------------------------------------------------------------------------------------------

NOT_A_LIST = {**recording("a"), "channel_ids": True}
GOOD = {"audio_filepath": "a.wav", "duration": 1}
PIPE = "touch {folder}/was-run; sox a.wav -t wav - |"
REFUSED = {
    "pipe": ({"d/wav.scp": f"a a.wav\nb {PIPE}\n"}, "d", "wav.scp: line 2: recording 'b' is a pipe"),
    "pipe first": ({"d/wav.scp": "a |cat a.wav\n"}, "d", "wav.scp: line 1: recording 'a' is a pipe"),
    "archive": ({"d/wav.scp": "a foo.ark:17\n"}, "d", "wav.scp: line 1: recording 'a' is 'foo.ark:17'"),
    "no recording": (
        {"d/wav.scp": "a a.wav\n", "d/segments": "u1 a 0 1\n\nu2 x 0 1\n"}, "d",
        "segments: line 3: utterance 'u2' is of 'x'",
    ),
    "end": ({"d/wav.scp": "a a.wav\n", "d/segments": "u1 a 2 -1\n"}, "d", "segments: line 1: utterance 'u1'"),
    "command": (
        {"c.jsonl": lines({**recording("a"), "sources": [{"type": "command", "source": PIPE}]})}, "c.jsonl",
        "c.jsonl: line 1: 'a' is a command",
    ),
    "mixed": (
        {"c.jsonl": lines(cut(PIECES[0]), {"id": "m", "tracks": [], "type": "MixedCut"})}, "c.jsonl",
        "c.jsonl: line 2: 'm' is a MixedCut",
    ),
    "kinds": (
        {"c.jsonl": lines({**cut(PIECES[0]), "recording": NOT_A_LIST})}, "c.jsonl",
        "c.jsonl: line 1: has values of an unexpected type",
    ),
    "time": (
        {"m.json": lines(GOOD, {**GOOD, "offset": "1e999999999"})}, "m.json", "m.json: line 2: '1e999999999'",
    ),
    "json": ({"m.json": lines(GOOD) + "{\n"}, "m.json", "m.json: line 2 is not JSON"),
    "deep": ({"m.json": lines(GOOD) + "[" * 100_000}, "m.json", "m.json: line 2"),
    "path": ({"m.json": lines({**GOOD, "audio_filepath": ["a", "b"]})}, "m.json", "m.json: line 1: names no"),
    "columns": ({"v.tsv": "path\tsentence\na.mp3\n"}, "v.tsv", "v.tsv: line 2: has 1 columns"),
    "task": ({"x.json": '[{"id": 5, "data": {}, "annotations": []}]'}, "x.json", "x.json: task 5: names no"),
    "splits": ({"h/dataset_dict.json": '{"splits": ["../x"]}'}, "h", "dataset_dict.json: names '../x'"),
    "arrow": (
        {
            "h/dataset_info.json": "{}",
            "h/state.json": '{"_data_files": [{"filename": "d.arrow"}]}',
            "h/d.arrow": "x",
        },
        "h",
        "d.arrow: is damaged Arrow",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_by_its_line(capfd, folder: Path, name: str):
    """In one line, before any work, and nothing is executed."""
    content, dataset, message = REFUSED[name]
    write_files(folder, {path: text.replace("{folder}", str(folder)) for path, text in content.items()})
    said = run(capfd, folder / dataset)
    assert (said.code, len(said.lines)) == (2, 1), said.err
    assert message in said.err.replace(": line 2: is not", ": line 2 is not")
    assert not (folder / "was-run").exists()


def test_a_named_pipe_is_no_file_of_a_corpus(capfd, folder: Path):
    """Nobody waits for what nobody writes."""
    write_files(folder, {"d/wav.scp": "a a.wav\n"})
    os.mkfifo(folder / "d" / "segments")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(10)
    try:
        said = run(capfd, folder / "d")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert (said.code, "segments: cannot be read: is not a plain file" in said.err) == (2, True), said.err


def test_packed_files_meet_limits(capfd, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A line without end, and text that packs too well, are refused; so is a packed file that is cut off."""
    row = lines(GOOD).encode()
    path = folder / "m.jsonl.gz"
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    monkeypatch.setattr(files, "_ROOM", 1 << 20)
    for content, message in (
        (gzip.compress(row + b'{"a": "' + b"x" * 2000), "line 2 is longer than 1,000 bytes"),
        (gzip.compress(row * 40_000), "unpacks to more than 1,048,576 bytes"),
        (gzip.compress(row * 9)[:-9], "is damaged"),
    ):
        path.write_bytes(content)
        for options in (("--from", "nemo"), ()):
            said = run(capfd, path, *options)
            assert (said.code, len(said.lines)) == (2, 1), said.err
            assert message in said.err
    path.write_bytes(gzip.compress(b'{"input": "a.wav"}\n'))
    assert "name one with --from, or unpack it" in run(capfd, path).err


def test_what_no_tool_wrote(capfd, folder: Path):
    """A name that is unknown, and a file or folder of another shape, are refused with what is read."""
    write_files(folder, {"list.jsonl": '{"path": "a.wav"}\n', "sub/x.txt": "x"})
    for arguments, message in (
        ((folder / "list.jsonl", "--from", "lotse"), "'lotse' is not one of 'lhotse'"),
        ((folder / "list.jsonl", "--from", "lhotse"), "line 1: is not a cut, recording or supervision"),
        ((folder / "list.jsonl", "--from", "common-voice"), "line 1: has no column 'path' or 'sentence'"),
        ((folder / "list.jsonl", "--from", "kaldi"), "--from kaldi reads a data folder with wav.scp"),
        ((folder / "sub", "--from", "nemo"), "--from nemo reads a manifest of JSON lines"),
        ((folder / "list.jsonl",), "has no column 'input'"),
    ):
        said = run(capfd, *arguments)
        assert (said.code, message in said.err) == (2, True), said.err


def test_a_plain_list_stays_one(capfd, folder: Path):
    """What has a column of paths by the usual name, or one that --column names, is read as before."""
    write_sound(folder / "a.wav", noise(800), RATE)
    (folder / "list.jsonl").write_text(lines({"input": "a.wav", **GOOD}))
    for options, header in (
        ((), ["input", "audio_filepath", "duration"]),
        (("--column", "audio_filepath"), None),
    ):
        assert run(capfd, folder / "list.jsonl", *options, recipe="chunk").code == 0
        (row,) = read_table(folder / "out" / "manifest.csv")
        assert header is None or [*row][:3] == header
        assert row["duration"] == "1"


class TestNemo(InputSourceConformance):
    """What every kind of input must do."""

    header: ClassVar = ["input", "start", "end", "text"]
    rows: ClassVar = [["a.wav", "0", "1", "x"], ["sub/b.wav", "2", "3", ""]]

    def source(self, folder: Path) -> Path:
        objects = (
            {"audio_filepath": path, "offset": float(start), "duration": 1.0, "text": text}
            for path, start, _, text in self.rows
        )
        (folder / "manifest.json").write_text(lines(*objects))
        return folder / "manifest.json"
