"""`--to lhotse`, read by lhotse: valid, and each sample, text and speaker as in the pieces."""

from pathlib import Path

import lhotse
import numpy as np
import pytest
import soundfile
from doors import read_table

import splitter
from splitter.errors import Refused
from splitter.recipes.chunk import Chunk


def cuts_of(folder: Path, split: str = "") -> lhotse.CutSet:
    """The cuts of an export, with paths that do not depend on the working folder."""
    return (
        lhotse.CutSet.from_file(folder / f"cuts{split}.jsonl.gz")
        .with_recording_path_prefix(folder)
        .to_eager()
    )


def check(cuts: lhotse.CutSet, rows: list[dict[str, str]], output: Path) -> None:
    """Compare what lhotse reads with the outputs of a run and their rows."""
    lhotse.validate(cuts, read_data=True)
    assert len(cuts) == len(rows)
    for cut, row in zip(cuts, rows, strict=True):
        path = output / "piece"
        path.write_bytes(splitter.read_output(row, output))
        sound, rate = soundfile.read(path, dtype="float32", always_2d=True)
        path.unlink()
        assert (cut.sampling_rate, cut.num_samples) == (rate, len(sound))
        np.testing.assert_array_equal(cut.load_audio(), sound.T)
        (supervision,) = cut.supervisions
        assert (supervision.text, supervision.speaker) == (row.get("text"), row.get("speaker"))
        assert (supervision.start, supervision.duration) == (0, cut.duration)


@pytest.mark.parametrize(("sink", "virtual"), [("files", False), ("webdataset", False), ("files", True)])
def test_samples_texts_and_speakers_are_the_same(spoken: Path, tmp_path: Path, sink: str, virtual: bool):
    """From each sink; and with --virtual, out of the recordings."""
    splitter.export(spoken / sink, "lhotse", tmp_path / "cuts", virtual=virtual)
    rows = read_table(spoken / sink / "manifest.csv")
    for split, count in (("train", 4), ("test", 1)):
        of_split = [row for row in rows if row["split"] == split]
        assert len(of_split) == count
        cuts = cuts_of(tmp_path / "cuts", f"_{split}")
        check(cuts, of_split, spoken / sink)
        assert [cut.supervisions[0].custom["split"] for cut in cuts] == [split] * count


@pytest.mark.parametrize("virtual", [False, True])
def test_the_three_files_belong_together(spoken: Path, tmp_path: Path, virtual: bool):
    """Recordings and supervisions make the same cuts; each recording is there once, at tolerance 0."""
    splitter.export(spoken / "files", "lhotse", tmp_path / "cuts", virtual=virtual, where="split == 'train'")
    recordings = lhotse.RecordingSet.from_file(tmp_path / "cuts" / "recordings_train.jsonl.gz").to_eager()
    supervisions = lhotse.SupervisionSet.from_file(
        tmp_path / "cuts" / "supervisions_train.jsonl.gz"
    ).to_eager()
    lhotse.validate_recordings_and_supervisions(recordings=recordings, supervisions=supervisions)
    assert len(recordings) == (2 if virtual else 4)
    for recording in recordings:
        lhotse.qa.validate_recording(recording.with_path_prefix(tmp_path / "cuts"), read_data=True)
        assert recording.num_samples / recording.sampling_rate == recording.duration
    cuts = lhotse.CutSet.from_manifests(
        recordings=recordings, supervisions=supervisions
    ).trim_to_supervisions()
    ours = cuts_of(tmp_path / "cuts", "_train")
    assert [(cut.recording_id, cut.start, cut.duration) for cut in cuts] == [
        (cut.recording_id, cut.start, cut.duration) for cut in ours
    ]


@pytest.mark.parametrize("virtual", [False, True])
@pytest.mark.parametrize("name", ["both", "split"])
def test_channels(stereo: Path, tmp_path: Path, name: str, virtual: bool):
    """Two channels are one cut; of a recording whose channels are split, each cut has its own."""
    splitter.export(stereo / name, "lhotse", tmp_path / "cuts", virtual=virtual)
    rows = [row for row in read_table(stereo / name / "manifest.csv") if "0.800s" not in row["output"]]
    # the last piece ends in silence, which the recording does not have
    cuts = cuts_of(tmp_path / "cuts").filter(lambda cut: "0.800s" not in cut.id).to_eager()
    lhotse.validate(cuts)
    for cut, row in zip(cuts, rows, strict=True):
        sound, _ = soundfile.read(stereo / name / row["output"], dtype="float32", always_2d=True)
        np.testing.assert_array_equal(cut.load_audio(), sound.T)


def test_what_goes_over_beside_the_text(tmp_path: Path):
    """The columns of the list, and labels."""
    soundfile.write(tmp_path / "a.wav", np.zeros(800, "int16"), 8000)
    (tmp_path / "list.csv").write_text("input,labels,room\na.wav,cat|dog,7\n")
    splitter.run(Chunk(tmp_path / "list.csv", tail="keep"), tmp_path / "out", workers=0, quiet=True)
    splitter.export(tmp_path / "out", "lhotse")
    (cut,) = cuts_of(tmp_path / "out-lhotse")
    assert cut.supervisions[0].custom == {"labels": "cat|dog", "room": "7"}


def test_what_cannot_be_virtual_is_refused(stereo: Path, spoken: Path, tmp_path: Path):
    with pytest.raises(Refused, match="has 1 of the 2 channels of its recording"):
        splitter.export(stereo / "mixed", "lhotse", tmp_path / "cuts", virtual=True)
    (spoken / "in" / "b.wav").rename(spoken / "in" / "gone.wav")
    try:
        with pytest.raises(Refused, match=r"in/b\.wav: the recording of .* does not exist as a file"):
            splitter.export(spoken / "files", "lhotse", tmp_path / "cuts", virtual=True)
    finally:
        (spoken / "in" / "gone.wav").rename(spoken / "in" / "b.wav")
    assert not list(tmp_path.iterdir())


def test_what_is_no_sound_is_refused(words: Path, capfd):
    from doors import here, run_words

    run_words(capfd, words)
    said = here(capfd, "export", words.parent / "outputs", "--to", "lhotse")
    assert said.code == 2
    assert said.err.startswith(
        "splitter: lhotse: the manifest has no column 'sample_rate'; export the outputs"
    )
