"""The recipe `segments`: each annotation is a piece, wherever it is written down."""

import csv
import io
import json
import os
import random
from fractions import Fraction

import numpy as np
import pytest
import soundfile
from doors import here, read_table, tree, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter.recipes.segments import Segments

RATE = 8000
SECONDS = 5


def samples(seed: int, channels: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-30_000, 30_000, (RATE * SECONDS + 7, channels), "int16")


@pytest.fixture
def recordings(folder):
    """Three recordings, one in a folder of its own; the numbers in them are those of samples()."""
    (folder / "sub").mkdir()
    for seed, name in enumerate(("a.wav", "b.flac", "sub/c.wav")):
        soundfile.write(folder / name, samples(seed, 1 + seed % 2), RATE, "PCM_16")
    return folder


def run(capfd, dataset, out, *options) -> list[dict[str, str]]:
    said = here(capfd, "run", dataset, "--recipe", "segments", "--workers", "0", "-o", out, *options)
    assert said.code == 0, said.err
    return read_table(out / "manifest.csv")


def piece(out, row) -> np.ndarray:
    return soundfile.read(out / row["output"], dtype="int16", always_2d=True)[0]


def positions(start: str, end: str, frames: int = RATE * SECONDS + 7) -> tuple[int, int]:
    """The samples of an annotation, by exact arithmetic."""
    first, last = (round(Fraction(text) * RATE) for text in (start, end))
    return first, min(last, frames)


# -- the rows of the list ------------------------------------------------------------------------------------


def test_the_rows_of_the_list(recordings, tmp_path, capfd):
    """Several rows name a recording, in any order; each piece has the columns of its own row."""
    rows = [
        ("a.wav", "3.5", "4.25", 'late, "quoted"', "007"),
        ("b.flac", "0", "0.1", "ä|b", "NA"),
        ("a.wav", "0.3", "2", "", "1e5"),
        ("sub/c.wav", "1", "1.5", "x", ""),
        ("a.wav", "0.3", "1.0001", "two\nlines", "8"),
        ("b.flac", "0", "0.1", "again", "9"),
    ]
    dataset = write_list(recordings / "l.csv", [["input", "start", "end", "label", "code"], *rows])
    made = run(capfd, dataset, tmp_path / "out")
    assert len(made) == len(rows)
    found = {tuple(row[key] for key in ("input", "start", "end", "label", "code")): row for row in made}
    assert set(found) == set(rows)
    for (name, start, end, *_), row in found.items():
        first, last = positions(start, end)
        seed = ("a.wav", "b.flac", "sub/c.wav").index(name)
        assert (int(row["start_sample"]), int(row["stop_sample"])) == (first, last)
        assert (float(row["start_seconds"]), float(row["end_seconds"])) == (float(start), float(end))
        assert np.array_equal(piece(tmp_path / "out", row), samples(seed, 1 + seed % 2)[first:last])
    names = [row["output"] for row in made if row["input"] == "a.wav"]
    assert sorted(names) == [
        "a/000000_0.300s.wav",
        "a/000001_0.300s.wav",
        "a/000002_3.500s.wav",
    ]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_workers_change_nothing(recordings, tmp_path, capfd, workers):
    """The same files and the same manifest, with the rows of a recording far apart in the list."""
    generator = random.Random(8)
    rows = [
        (generator.choice(["a.wav", "b.flac", "sub/c.wav"]), f"{at / 10}", f"{at / 10 + 0.25}", f"l{at}")
        for at in generator.sample(range(45), 30)
    ]
    dataset = write_list(recordings / "l.csv", [["input", "start", "end", "label"], *rows])
    run(capfd, dataset, tmp_path / "here")
    said = here(
        capfd, "run", dataset, "--recipe", "segments", "--workers", workers, "--batch-size", "1",
        "-o", tmp_path / "there",
    )  # fmt: skip
    assert said.code == 0
    assert tree(tmp_path / "there") == tree(tmp_path / "here")
    assert len(tree(tmp_path / "there")) == 31


# -- files of annotations ------------------------------------------------------------------------------------

ANNOTATIONS = [("0.25", "1.5", "hello"), ("1.5", "2", "there"), ("2.25", "4.125", "naïve")]


def clock(seconds: str, point: str) -> str:
    return f"00:00:{float(seconds):06.3f}".replace(".", point)


def table(delimiter: str, rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def lasting(start: str, end: str) -> str:
    return str(float(Fraction(end) - Fraction(start)))


def rttm(names) -> str:
    return "".join(
        f"SPEAKER {name} 1 {start} {lasting(start, end)} <NA> <NA> {label} <NA> <NA>\n"
        for name in names
        for start, end, label in ANNOTATIONS
    )


def ctm(names) -> str:
    return "".join(
        f"{name} 1 {start} {lasting(start, end)} {label}\n"
        for name in names
        for start, end, label in ANNOTATIONS
    )


def audacity(names) -> str:
    return "".join(f"{start}\t{end}\t{label}\n" for start, end, label in ANNOTATIONS)


def textgrid(names) -> str:
    edges, intervals = "0", []
    for start, end, label in ANNOTATIONS:
        if start != edges:
            intervals.append((edges, start, ""))
        intervals.append((start, end, label))
        edges = end
    intervals.append((edges, "5", ""))
    body = "".join(f'{start}\n{end}\n"{label}"\n' for start, end, label in intervals)
    return (
        'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n5\n<exists>\n1\n'
        f'"IntervalTier"\n"words"\n0\n5\n{len(intervals)}\n{body}'
    )


def srt(names) -> str:
    return "\n".join(
        f"{number}\n{clock(start, ',')} --> {clock(end, ',')}\n{label}\n"
        for number, (start, end, label) in enumerate(ANNOTATIONS, 1)
    )


def vtt(names) -> str:
    cues = (f"{clock(start, '.')} --> {clock(end, '.')}\n{label}\n" for start, end, label in ANNOTATIONS)
    return "WEBVTT\n\n" + "\n".join(cues)


def raven(names) -> str:
    head = ["Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Begin File", "Species"]
    rows = [
        [str(number), "Spectrogram 1", "1", start, end, name, label]
        for name in names
        for number, (start, end, label) in enumerate(ANNOTATIONS, 1)
    ]
    return table("\t", [head, *rows])


def comma(names) -> str:
    rows = [[name, *annotation, "x"] for name in names for annotation in ANNOTATIONS]
    return table(",", [["filename", "start", "end", "label", "extra"], *rows])


def tab(names) -> str:
    rows = [[name, start, lasting(start, end), label] for name in names for start, end, label in ANNOTATIONS]
    return table("\t", [["file", "onset", "duration", "event_label"], *rows])


def jsonl(names) -> str:
    return "".join(
        json.dumps({"audio": name, "start": float(start), "end": float(end), "label": label}) + "\n"
        for name in names
        for start, end, label in ANNOTATIONS
    )


WRITERS = {
    ".rttm": rttm,
    ".ctm": ctm,
    ".txt": audacity,
    ".TextGrid": textgrid,
    ".Table.1.selections.txt": raven,
    ".srt": srt,
    ".vtt": vtt,
    ".csv": comma,
    ".tsv": tab,
    ".jsonl": jsonl,
}
# about many recordings, each by its name
MANY = [".rttm", ".ctm", ".Table.1.selections.txt", ".csv", ".tsv", ".jsonl"]


def check(out, rows, names) -> None:
    """Every recording has its three pieces, with label and samples."""
    expected = [(name, *annotation) for name in names for annotation in ANNOTATIONS]
    assert [(row["input"], row["label"]) for row in rows] == [(name, label) for name, _, _, label in expected]
    for row, (name, start, end, _) in zip(rows, expected, strict=True):
        seed = ("a.wav", "b.flac", "sub/c.wav").index(name)
        first, last = positions(start, end)
        assert (int(row["start_sample"]), int(row["stop_sample"])) == (first, last)
        assert np.array_equal(piece(out, row), samples(seed, 1 + seed % 2)[first:last])


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("asked", [(), ("--annotations", "beside")])
def test_annotations_beside_the_recordings(recordings, tmp_path, capfd, ending, asked):
    """Every kind of file is found by the recording's name; without a word where no times are in the list."""
    names = ["a.wav", "sub/c.wav"]
    for name in names:
        stem = os.path.splitext(name)[0]
        write_files(recordings, {stem + ending: WRITERS[ending]([os.path.basename(name)])})
    dataset = write_list(recordings / "l.csv", [["input"], *([name] for name in names)])
    check(tmp_path / "out", run(capfd, dataset, tmp_path / "out", *asked), names)


@pytest.mark.parametrize("ending", WRITERS)
def test_annotations_in_a_column(recordings, tmp_path, capfd, ending):
    """A column of the list names the file, from where the names of recordings start; or none."""
    write_files(recordings, {f"notes/one{ending}": WRITERS[ending](["whatever"])})
    rows = [
        ["a.wav", f"notes/one{ending}"],
        ["b.flac", ""],
        ["sub/c.wav", str(recordings / f"notes/one{ending}")],
    ]
    dataset = write_list(recordings / "l.csv", [["input", "my notes"], *rows])
    made = run(capfd, dataset, tmp_path / "out", "--annotations", "column=my notes")
    check(tmp_path / "out", [row for row in made if row["input"] != "b.flac"], ["a.wav", "sub/c.wav"])
    (skipped,) = (row for row in made if row["input"] == "b.flac")
    assert not skipped["output"]
    assert skipped["skipped"] == "it has no annotations in column 'my notes'"


def test_recordings_elsewhere_have_their_notes_beside_them(recordings, tmp_path, capfd, monkeypatch):
    """A name in a column is in the recording's own folder where that is absolute, not in the current one."""
    write_files(recordings, {"sub/c.srt": WRITERS[".srt"](["whatever"])})
    for name in (str(recordings / "sub/c.wav"), (recordings / "sub/c.wav").as_uri()):
        dataset = write_list(tmp_path / "l.csv", [["input", "notes"], [name, "c.srt"]])
        monkeypatch.chdir(tmp_path)
        ((*outputs,), _) = Segments(str(dataset), annotations="column=notes")[0]
        assert [output.metadata["label"] for output in outputs] == [label for _, _, label in ANNOTATIONS]


def test_nothing_says_where_to_cut(recordings, tmp_path, capfd):
    """The manifest says where annotations were looked for, and how to name them."""
    dataset = write_list(recordings / "l.csv", [["input", "speaker"], ["a.wav", "7"]])
    (row,) = run(capfd, dataset, tmp_path / "out")
    assert row["skipped"] == (
        "it has no annotations: the list has no columns start and end, and no annotation file is "
        "beside it; use --annotations to name them"
    )
    (row,) = run(capfd, dataset, tmp_path / "beside", "--annotations", "beside")
    assert row["skipped"] == "it has no annotations: no annotation file is beside it"


def test_a_folder_of_annotations(recordings, tmp_path, capfd):
    """It is refused before work, with what to do instead."""
    dataset = write_list(recordings / "l.csv", [["input"], ["a.wav"]])
    said = here(
        capfd, "run", dataset, "--recipe", "segments", "--annotations", recordings, "-o", tmp_path / "out"
    )
    assert said.code == 2
    assert said.err == (
        f"splitter: --annotations {recordings}: is a folder, not a file; put its files next to the "
        "recordings and use --annotations beside, or name them in a column\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ending", MANY)
def test_one_file_about_many_recordings(recordings, tmp_path, capfd, ending):
    """Each recording has its own; one that the file does not name is left out, and says so."""
    write_files(recordings, {f"all{ending}": WRITERS[ending](["a.wav", "sub/c.wav"])})
    dataset = write_list(recordings / "l.csv", [["input"], ["a.wav"], ["b.flac"], ["sub/c.wav"]])
    made = run(capfd, dataset, tmp_path / "out", "--annotations", str(recordings / f"all{ending}"))
    check(tmp_path / "out", [row for row in made if row["output"]], ["a.wav", "sub/c.wav"])
    assert [(row["input"], row["skipped"]) for row in made if not row["output"]] == [
        ("b.flac", f"it has no annotations in {recordings / f'all{ending}'}")
    ]


@pytest.mark.parametrize("ending", [ending for ending in WRITERS if ending not in MANY])
def test_one_file_that_names_no_recording(recordings, tmp_path, capfd, ending):
    """Its annotations are those of the recording it is given for."""
    write_files(recordings, {f"all{ending}": WRITERS[ending]([])})
    dataset = write_list(recordings / "l.csv", [["input"], ["b.flac"]])
    made = run(capfd, dataset, tmp_path / "out", "--annotations", str(recordings / f"all{ending}"))
    check(tmp_path / "out", made, ["b.flac"])


def test_more_columns_of_an_annotation(recordings, tmp_path, capfd):
    """What else a file says of a piece stands beside it, under a name that hides no column of the list."""
    write_files(recordings, {"all.csv": comma(["a.wav"]), "b.rttm": rttm(["b"])})
    dataset = write_list(recordings / "l.csv", [["input", "extra"], ["a.wav", "kept"]])
    made = run(capfd, dataset, tmp_path / "out", "--annotations", str(recordings / "all.csv"))
    assert [(row["extra"], row["annotation_extra"]) for row in made] == [("kept", "x")] * 3


def test_a_changed_file_is_noticed(recordings, tmp_path, capfd):
    """Annotations that were given by name are part of what was asked for: other ones, other pieces."""
    notes = recordings / "all.csv"
    write_files(recordings, {"all.csv": comma(["a.wav", "b.flac"])})
    dataset = write_list(recordings / "l.csv", [["input"], ["a.wav"], ["b.flac"]])
    given = ("--annotations", str(notes))
    before = run(capfd, dataset, tmp_path / "out", *given)
    untouched = os.stat(tmp_path / "out" / before[0]["output"]).st_mtime_ns
    assert run(capfd, dataset, tmp_path / "out", *given) == before
    assert os.stat(tmp_path / "out" / before[0]["output"]).st_mtime_ns == untouched
    notes.write_text("filename,start,end,label\na.wav,1,2,new\nb.flac,0.5,0.75,other\n")
    after = run(capfd, dataset, tmp_path / "out", *given)
    assert [(row["input"], row["label"], row["start_seconds"]) for row in after] == [
        ("a.wav", "new", "1.0"),
        ("b.flac", "other", "0.5"),
    ]
    assert sorted(tree(tmp_path / "out")) == ["a/000000_1.000s.wav", "b/000000_0.500s.flac", "manifest.csv"]


# -- ends and points -----------------------------------------------------------------------------------------


def test_ends_and_points(recordings, tmp_path, capfd):
    """What goes on after the end is cut there; a point, or less than a sample, is a row without a file."""
    end = (RATE * SECONDS + 7) / RATE
    rows = [
        ("a.wav", "4.5", "99", "goes on"),
        ("a.wav", "1.5", "1.5", "point"),
        ("a.wav", str(end), "99", "starts at the end"),
        ("a.wav", str(end), str(end), "point at the end"),
        ("a.wav", "2", "2.00001", "less than a sample"),
        ("a.wav", "0", str(end), "all"),
    ]
    dataset = write_list(recordings / "l.csv", [["input", "start", "end", "label"], *rows])
    made = {row["label"]: row for row in run(capfd, dataset, tmp_path / "out")}
    assert set(made) == {row[3] for row in rows}
    whole = samples(0)
    assert np.array_equal(piece(tmp_path / "out", made["goes on"]), whole[36_000:])
    assert float(made["goes on"]["end_seconds"]) == end
    assert np.array_equal(piece(tmp_path / "out", made["all"]), whole)
    for label, at in (
        ("point", 12_000),
        ("starts at the end", len(whole)),
        ("point at the end", len(whole)),
        ("less than a sample", 16_000),
    ):
        row = made[label]
        assert (row["output"], row["frames"]) == ("", "0")
        assert (int(row["start_sample"]), int(row["stop_sample"])) == (at, at)
        assert float(row["start_seconds"]) <= float(row["end_seconds"])
    assert len(tree(tmp_path / "out")) == 3


@pytest.mark.parametrize(
    "options", [{"format": "flac"}, {"channels": "split"}, {"sample_rate": 4000}, {"format": "mp3"}]
)
def test_a_point_in_any_form(recordings, options):
    """Whatever the pieces are to be, a point is one row and no file."""
    rows = [
        {"input": str(recordings / "b.flac"), "start": start, "end": end}
        for start, end in (("1", "2"), ("2", "2"), ("3", "4"))
    ]
    outputs, _ = Segments(rows, **options)[0]
    assert [(output.name, output.row) for output in outputs if output.content is None] == [("", 1)]
    assert {output.row for output in outputs if output.content is not None} == {0, 2}


def test_after_the_end(recordings, tmp_path, capfd):
    """An annotation that starts after the recording ended is about another one: an error that says so."""
    rows = [("a.wav", "1", "2"), ("a.wav", "6", "7"), ("b.flac", "1", "2")]
    dataset = write_list(recordings / "l.csv", [["input", "start", "end"], *rows])
    said = here(capfd, "run", dataset, "--recipe", "segments", "--workers", "0", "-o", tmp_path / "out")
    assert said.code == 1
    errors = read_table(tmp_path / "out/errors.csv")
    assert {row["input"] for row in errors} == {"a.wav"}
    assert errors[0]["message"] == (
        "a.wav: an annotation starts at 6 s, after the end of the recording at 5.00087 s; "
        "correct its times, or remove it"
    )
    assert sorted(tree(tmp_path / "out")) == ["b/000000_1.000s.flac", "errors.csv", "manifest.csv"]


@pytest.mark.parametrize("text", ["a.wav,2,1\n", "a.wav,-1,1\n", "a.wav,x,1\n", "a.wav,1,\n"])
def test_times_without_sense(recordings, tmp_path, capfd, text):
    """They are an error of that recording, which names the row."""
    write_files(recordings, {"l.csv": f"input,start,end\nb.flac,1,2\n{text}"})
    said = here(
        capfd, "run", recordings / "l.csv", "--recipe", "segments", "--workers", "0", "-o", tmp_path / "out"
    )
    assert said.code == 1
    (error,) = read_table(tmp_path / "out/errors.csv")
    assert error["input"] == "a.wav"
    assert error["message"].startswith(f"a.wav: row {text.strip()!r}: ")
    assert [row["input"] for row in read_table(tmp_path / "out/manifest.csv")] == ["b.flac"]


def test_annotations_that_are_not_there(recordings, tmp_path, capfd):
    """A file that cannot be read is refused before work, in one line."""
    dataset = write_list(recordings / "l.csv", [["input"], ["a.wav"]])
    said = here(
        capfd, "run", dataset, "--recipe", "segments", "--annotations", "none.csv", "-o", tmp_path / "out"
    )
    assert said.code == 2
    assert said.lines == ["splitter: --annotations none.csv: cannot be read: No such file or directory"]
    assert not (tmp_path / "out").exists()


# -- random annotations --------------------------------------------------------------------------------------

moments = st.integers(0, 5100).map(lambda thousandths: Fraction(thousandths, 1000))


@settings(max_examples=depth(20))
@given(
    annotated=st.lists(st.tuples(moments, moments, st.text("abc|, ", max_size=3)), min_size=1, max_size=12),
    beside=st.booleans(),
)
def test_any_annotations(tmp_path_factory, annotated, beside):
    """Each is one output with its samples, in order of time, in the list's rows as in a file of its own."""
    folder = tmp_path_factory.mktemp("any")
    whole = samples(9, 2)
    soundfile.write(folder / "r.wav", whole, RATE, "PCM_16")
    spans = [(min(one, two), max(one, two), label) for one, two, label in annotated]
    end = Fraction(len(whole), RATE)
    spans = [span for span in spans if round(span[0] * RATE) <= len(whole)] or [(Fraction(0), end, "")]
    rows = [
        {"start": str(float(start)), "end": str(float(stop)), "label": label} for start, stop, label in spans
    ]
    if beside:
        write_files(folder, {"r.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
        dataset = Segments([str(folder / "r.wav")])
    else:
        dataset = Segments([{"input": str(folder / "r.wav"), **row} for row in rows])
    outputs, about = dataset[0]
    order = sorted(range(len(spans)), key=lambda row: spans[row][:2])
    assert len(outputs) == len(spans)
    assert about["source_frames"] == len(whole)
    for output, row in zip(outputs, order, strict=True):
        start, stop, label = spans[row]
        first, last = round(start * RATE), min(round(stop * RATE), len(whole))
        assert (output.metadata["start_sample"], output.metadata["stop_sample"]) == (first, last)
        if beside:
            assert output.metadata["label"] == label
        else:
            assert output.row == row
        if first == last:
            assert output.content is None
        else:
            assert isinstance(output.content, bytes)
            found = soundfile.read(io.BytesIO(output.content), dtype="int16", always_2d=True)[0]
            assert np.array_equal(found, whole[first:last])
