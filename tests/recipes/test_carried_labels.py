"""Labels of `chunk`, `silence` and `speech`: each piece says what it holds of the annotations."""

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import soundfile
from doors import CHECKOUT, here, read_table, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter.errors import Refused
from splitter.recipes.chunk import Chunk
from splitter.recipes.segments import Segments
from splitter.recipes.silence import Silence
from splitter.recipes.speech import Speech

RATE = 8000
SPEECH = CHECKOUT / "data_samples/speech/lecture.flac"


def expected_labels(annotations, start: int, stop: int, rate: int, least=(Fraction(0), Fraction(0))):
    """What the words of the issue say, annotation by annotation."""
    opens, closes = Fraction(start, rate), Fraction(stop, rate)
    seconds, share = least
    found = []
    for begin, end, label in sorted(annotations, key=lambda one: one[:2]):
        length = end - begin
        overlap = min(end, closes) - max(begin, opens)
        if not length:
            inside = opens <= begin < closes
        else:
            inside = overlap > 0 and overlap >= seconds and overlap >= share * length
        if inside:
            found.append((label, max(begin, opens) - opens, min(end, closes) - opens))
    return {
        "labels": "|".join(label.replace("|", "\\|") for label, _, _ in found),
        "label_starts": "|".join(str(float(begin)) for _, begin, _ in found),
        "label_ends": "|".join(str(float(end)) for _, _, end in found),
    }


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """Bursts of noise and pauses, six seconds of them."""
    path = tmp_path_factory.mktemp("labels") / "r.wav"
    burst = np.arange(RATE * 6) // (RATE * 3 // 4) % 2
    noise = np.random.default_rng(11).uniform(-0.5, 0.5, RATE * 6)
    soundfile.write(path, noise * burst, RATE, "PCM_16")
    return path


@pytest.mark.parametrize(
    ("recipe", "parameters"),
    [
        (Chunk, {}),
        (Chunk, {"annotations": "beside", "sample_rate": 4000, "format": "ogg"}),
        (Silence, {"format": "mp3", "channels": "split"}),
        (Segments, {}),
        (Segments, {"annotations": "beside"}),
    ],
)
def test_the_columns_that_a_recipe_makes_are_known_before_work(sound, tmp_path, recipe, parameters):
    """None is forgotten that could hide one of the list, and none is refused that is not made."""
    recording = shutil.copy(sound, tmp_path)
    write_files(tmp_path, {"r.txt": "0\t1\tone\n"})
    row = {"input": str(recording), "start": "0", "end": "1"}
    if parameters.get("annotations") or recipe is not Segments:
        del row["start"], row["end"]
    dataset = recipe([row], **parameters)
    outputs, metadata = dataset[0]
    made = {*metadata, *(key for output in outputs for key in output.metadata)}
    assert outputs
    assert dataset.metadata_keys(tuple(row)) == made
    for key in sorted(made):
        with pytest.raises(Refused, match=f"column '{key}', which metadata .+; use --rename {key}=NEW$"):
            recipe([{**row, key: "x"}], **parameters)[0]


moments = st.integers(0, 70).map(lambda tenths: Fraction(tenths, 10)) | st.integers(0, 6500).map(
    lambda thousandths: Fraction(thousandths, 1000)
)


@settings(max_examples=depth(15))
@given(
    drawn=st.lists(st.tuples(moments, moments, st.sampled_from(["a", "b|c", "ä", "", "a"])), max_size=10),
    overlap=st.sampled_from(["0", "0.1", "0.5", "2", "1%", "50%", "100%"]),
    how=st.sampled_from(
        [
            (Chunk, {"seconds": 1.0}),
            (Chunk, {"seconds": 0.7, "overlap": 0.3, "tail": "pad"}),
            (Chunk, {"seconds": 2.5, "tail": "shift", "sample_rate": 5000}),
            (Silence, {"pad": 0.05}),
            (Silence, {"max_seconds": 0.3, "channels": "mono"}),
        ]
    ),
)
def test_any_annotations(sound, tmp_path_factory, drawn, overlap, how):
    """Each piece has those that it overlaps enough, with their times in it, exactly."""
    recipe, options = how
    annotations = [(min(one, two), max(one, two), label) for one, two, label in drawn]
    notes = tmp_path_factory.mktemp("notes") / "notes.tsv"
    lines = [f"{float(begin)}\t{float(end)}\t{label}" for begin, end, label in annotations]
    notes.write_text("\n".join(["start\tend\tlabel", *lines]) + "\n")
    number = Fraction(overlap.removesuffix("%"))
    seconds, share = (Fraction(0), number / 100) if overlap.endswith("%") else (number, Fraction(0))
    outputs, _ = recipe([str(sound)], annotations=str(notes), min_overlap=overlap, **options)[0]
    assert outputs
    for output in outputs:
        about = output.metadata
        expected = expected_labels(
            annotations, about["start_sample"], about["stop_sample"], RATE, (seconds, share)
        )
        assert {key: about[key] for key in expected} == expected


def test_a_label_across_a_border_stands_in_both_pieces(sound, tmp_path, capfd):
    """With its part of each; from the command line, with an annotation beside the recording."""
    write_files(tmp_path, {"r.wav": sound.read_bytes(), "r.txt": "1.5\t2.25\tacross\n2\t2\tpoint\n"})
    dataset = write_list(tmp_path / "l.csv", [["input"], ["r.wav"]])
    options = ["--seconds", "2", "--annotations", "beside", "--workers", "0"]
    said = here(capfd, "run", dataset, "--recipe", "chunk", *options, "-o", tmp_path / "out")
    assert said.code == 0, said.err
    rows = read_table(tmp_path / "out/manifest.csv")
    assert [(row["labels"], row["label_starts"], row["label_ends"]) for row in rows] == [
        ("across", "1.5", "2.0"),
        ("across|point", "0.0|0.0", "0.25|0.0"),
        ("", "", ""),
    ]
    for overlap, labels in (
        ("0.3", ["across", "point"]),
        ("60%", ["across", "point"]),
        ("0.5", ["across", "point"]),
    ):
        said = here(
            capfd, "run", dataset, "--recipe", "chunk", *options, "--min-overlap", overlap, "--fresh",
            "-o", tmp_path / "out",
        )  # fmt: skip
        assert said.code == 0, said.err
        assert [row["labels"] for row in read_table(tmp_path / "out/manifest.csv")] == [*labels, ""]


@pytest.mark.parametrize(
    ("place", "given"), [("beside", "beside"), ("column", "column=notes"), ("file", None)]
)
def test_speech_carries_labels(tmp_path, capfd, place, given):
    """Wherever the annotations are, the pieces that somebody speaks in have them."""
    annotations = [
        (Fraction(0), Fraction(3), "start"),
        (Fraction(5, 2), Fraction(9, 2), "mid"),
        (Fraction(4), Fraction(4), "at"),
    ]
    name = "lecture.flac"
    texts = {
        "beside": (
            "lecture.txt",
            "".join(f"{float(b)}\t{float(e)}\t{label}\n" for b, e, label in annotations),
        ),
        "column": (
            "n/x.csv",
            "start,end,label\n" + "".join(f"{float(b)},{float(e)},{label}\n" for b, e, label in annotations),
        ),
        "file": (
            "all.csv",
            "file,start,end,label\nother.flac,0,9,no\n"
            + "".join(f"{name},{float(b)},{float(e)},{label}\n" for b, e, label in annotations),
        ),
    }
    path, text = texts[place]
    write_files(tmp_path, {name: SPEECH.read_bytes(), path: text})
    dataset = write_list(tmp_path / "l.csv", [["input", "notes"], [name, "n/x.csv"]])
    said = here(
        capfd, "run", dataset, "--recipe", "speech", "--annotations", given or tmp_path / path,
        "--workers", "0", "-o", tmp_path / "out",
    )  # fmt: skip
    assert said.code == 0, said.err
    rows = read_table(tmp_path / "out/manifest.csv")
    assert {label for row in rows for label in row["labels"].split("|")} >= {"start", "mid"}
    for row in rows:
        start, stop, rate = (int(row[key]) for key in ("start_sample", "stop_sample", "source_rate"))
        expected = expected_labels(annotations, start, stop, rate)
        assert {key: row[key] for key in expected} == expected


def test_a_recording_without_annotations_has_empty_labels(sound, tmp_path):
    """It is cut all the same."""
    write_files(tmp_path, {"r.wav": sound.read_bytes()})
    for recipe in (Chunk, Silence):
        outputs, _ = recipe([str(tmp_path / "r.wav")], annotations="beside")[0]
        assert {output.metadata["labels"] for output in outputs} == {""}
        outputs, _ = recipe([str(tmp_path / "r.wav")])[0]
        assert all("labels" not in output.metadata for output in outputs)


def test_each_channel_of_a_piece_has_its_labels(tmp_path):
    """Files that are split by channels come from the same time."""
    soundfile.write(
        tmp_path / "r.wav", np.random.default_rng(12).uniform(-1, 1, (RATE * 2, 2)), RATE, "PCM_16"
    )
    (tmp_path / "r.txt").write_text("0.5\t1.5\tx\n")
    outputs, _ = Chunk([str(tmp_path / "r.wav")], seconds=1.0, channels="split", annotations="beside")[0]
    assert [output.metadata["label_starts"] for output in outputs] == ["0.5", "0.5", "0.0", "0.0"]


@pytest.mark.parametrize("recipe", [Chunk, Silence, Speech])
def test_a_least_overlap_without_sense(sound, recipe):
    with pytest.raises(
        Refused, match=r"^--min-overlap 'much': expected seconds \(0\.25\) or a share \(50%\)$"
    ):
        recipe([str(sound)], min_overlap="much")


def test_a_changed_file_is_noticed(sound, tmp_path, capfd):
    """Pieces whose labels may have changed are made again."""
    write_files(tmp_path, {"r.wav": sound.read_bytes(), "all.csv": "file,start,end,label\nr.wav,0,1,old\n"})
    dataset = write_list(tmp_path / "l.csv", [["input"], ["r.wav"]])
    options = ["--annotations", tmp_path / "all.csv", "--workers", "1", "-o", tmp_path / "out"]
    for label in ("old", "newer"):
        (tmp_path / "all.csv").write_text(f"file,start,end,label\nr.wav,0,1,{label}\n")
        assert here(capfd, "run", dataset, *options).code == 0
        assert [row["labels"] for row in read_table(tmp_path / "out/manifest.csv")] == [label]


def test_a_column_that_is_not_there(sound, tmp_path, capfd):
    """No recording can be done; what is said names the option and the column."""
    write_files(tmp_path, {"r.wav": sound.read_bytes()})
    dataset = write_list(tmp_path / "l.csv", [["input"], ["r.wav"]])
    said = here(
        capfd, "run", dataset, "--annotations", "column=notes", "--workers", "1", "-o", tmp_path / "out"
    )
    assert said.code == 2, said.err
    message = "--annotations column=notes: the dataset list has no column 'notes'; it has 'input'"
    assert said.lines == [f"splitter: {message}"]
    assert not (tmp_path / "out").exists()
    with pytest.raises(Refused, match=f"^{message}$"):
        Chunk(str(dataset), annotations="column=notes")[0]
