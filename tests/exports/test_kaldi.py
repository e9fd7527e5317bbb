"""`--to kaldi`, held to the rules of Kaldi's own validate_data_dir.sh, and read by lhotse."""

import os
import subprocess
from pathlib import Path

import lhotse
import numpy as np
import pytest
import soundfile
from doors import read_table

import splitter
from splitter.errors import Refused
from splitter.recipes.chunk import Chunk


def table(path: Path) -> dict[str, str]:
    """A file of Kaldi: what follows the first word of each line."""
    pairs = [line.partition(" ") for line in path.read_text().splitlines()]
    assert len({first for first, *_ in pairs}) == len(pairs)
    return {first: rest for first, _, rest in pairs}


def _sorted(option: str, text: bytes) -> bytes:
    """Sort as Kaldi does."""
    locale = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(["sort", option], input=text, env=locale, capture_output=True, check=True).stdout


def check(folder: Path) -> None:
    """Check what utils/validate_data_dir.sh checks, of the files that are there."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    keys = {name: [line.split()[0] for line in text.splitlines()] for name, text in files.items()}
    for name, text in files.items():
        assert text.endswith(b"\n")
        # sort in the C locale, whose order is that of bytes
        firsts = b"".join(key + b"\n" for key in keys[name])
        assert _sorted("-u", firsts) == firsts
    utt2spk = files["utt2spk"]
    assert all(len(line.split()) == 2 for line in utt2spk.splitlines())
    assert _sorted("-k2", utt2spk) == utt2spk
    spoken = [line.split() for line in files["spk2utt"].splitlines()]
    assert [b" ".join([one, speaker]) for speaker, *all_ in spoken for one in all_] == utt2spk.splitlines()
    utterances = keys["utt2spk"]
    for name in ("text", "utt2dur", "segments"):
        assert keys.get(name, utterances) == utterances
    recordings = utterances
    if "segments" in files:
        segments = [line.split() for line in files["segments"].splitlines()]
        assert all(len(one) == 4 and float(one[3]) > float(one[2]) for one in segments)
        recordings = sorted({one[1] for one in segments})
    assert keys["wav.scp"] == keys["reco2dur"] == recordings
    assert all(
        float(line.split()[1]) > 0 for name in ("utt2dur", "reco2dur") for line in files[name].splitlines()
    )


@pytest.mark.parametrize(("sink", "virtual"), [("files", False), ("webdataset", False), ("files", True)])
def test_lhotse_reads_the_same(spoken: Path, tmp_path: Path, monkeypatch, sink: str, virtual: bool):
    """Samples, texts and speakers, from each sink, and with --virtual out of the recordings."""
    rows = {row["output"]: row for row in read_table(spoken / sink / "manifest.csv")}
    # lhotse has one sample rate for a folder
    for rate, counts in ((8000, {"train": 2}), (44100, {"train": 2, "test": 1})):
        splitter.export(
            spoken / sink, "kaldi", tmp_path / "data", where=f"sample_rate == {rate}", virtual=virtual
        )
        monkeypatch.chdir(tmp_path / "data")
        assert sorted(path.name for path in Path().iterdir() if path.name[0] != ".") == sorted(
            [*counts, *(["audio"] if sink == "webdataset" else [])]
        )
        for split, count in counts.items():
            check(Path(split))
            recordings, supervisions, _ = lhotse.kaldi.load_kaldi_data_dir(split, sampling_rate=rate)
            cuts = (
                lhotse.CutSet.from_manifests(recordings, supervisions)
                .trim_to_supervisions(keep_overlapping=False)
                .to_eager()
            )
            assert len(cuts) == count
            lhotse.validate(cuts, read_data=True)
            for cut in cuts:
                (row,) = (one for name, one in rows.items() if _matches(cut.supervisions[0].id, name))
                _same(cut, row, spoken / sink)


def _matches(utterance: str, output: str) -> bool:
    """Return whether an utterance is that of an output, whose name ends alike."""
    return utterance.endswith(output.rpartition("/")[2].rpartition(".")[0])


def _same(cut: lhotse.cut.Cut, row: dict[str, str], output: Path) -> None:
    (output.parent / "piece").write_bytes(splitter.read_output(row, output))
    sound, _ = soundfile.read(output.parent / "piece", dtype="float32", always_2d=True)
    np.testing.assert_array_equal(cut.load_audio(), sound.T)
    (supervision,) = cut.supervisions
    assert (supervision.text or "") == " ".join(row["text"].split())
    speaker = row["speaker"]
    if speaker == "a":
        assert supervision.speaker == speaker
    else:
        assert supervision.speaker.startswith(speaker.replace(" ", "_").replace("é", ""))


@pytest.mark.parametrize("virtual", [False, True])
def test_speakers_that_do_not_sort_like_their_utterances(tmp_path: Path, virtual: bool):
    """A name that begins with another, then with a hyphen; none at all; and two that differ in a sign."""
    names = ["a", "a-b", "a_b", "a.b", "ab", "", "B", "a b", "unknown"]
    (tmp_path / "in").mkdir()
    listed = ["input,speaker"]
    for number, name in enumerate(names):
        soundfile.write(tmp_path / "in" / f"-{number} z.wav", np.zeros(500, "int16"), 8000)
        listed.append(f"-{number} z.wav,{name}")
    (tmp_path / "in" / "list.csv").write_text("\n".join(listed) + "\n")
    splitter.run(
        Chunk(tmp_path / "in" / "list.csv", seconds=0.03, tail="keep"),
        tmp_path / "out",
        workers=0,
        quiet=True,
    )
    splitter.export(tmp_path / "out", "kaldi", virtual=virtual)
    check(tmp_path / "out-kaldi" / "all")
    speakers = table(tmp_path / "out-kaldi" / "all" / "spk2utt")
    # those who have no name are one
    assert len(speakers) == len(names) - 1
    assert {len(utterances.split()) for utterances in speakers.values()} == {3, 6}
    assert not (tmp_path / "out-kaldi" / "all" / "text").exists()


def test_without_speakers_each_utterance_is_its_own(stereo: Path, tmp_path: Path):
    splitter.export(stereo / "split", "kaldi", tmp_path / "data")
    check(tmp_path / "data" / "all")
    assert all(
        utterance == speaker for utterance, speaker in table(tmp_path / "data" / "all" / "utt2spk").items()
    )


def test_what_kaldi_does_not_read_is_refused(stereo: Path, tmp_path: Path):
    """Two channels, and paths that it would take for a command."""
    with pytest.raises(Refused, match="has 2 channels, and kaldi reads one"):
        splitter.export(stereo / "both", "kaldi", tmp_path / "data")
    soundfile.write(tmp_path / "touch x |", np.zeros(500, "int16"), 8000, format="wav")
    splitter.run(Chunk([str(tmp_path / "touch x |")]), tmp_path / "out", workers=0, quiet=True)
    with pytest.raises(Refused, match=r"touch x \|': Kaldi would not read such a path"):
        splitter.export(tmp_path / "out", "kaldi", virtual=True)
    # the message names the folder, where that is what is wrong
    (tmp_path / "a\nb").mkdir()
    soundfile.write(tmp_path / "a\nb" / "x.wav", np.zeros(500, "int16"), 8000)
    splitter.run(Chunk([str(tmp_path / "a\nb" / "x.wav")]), tmp_path / "two", workers=0, quiet=True)
    with pytest.raises(Refused, match=r"a\\nb.*: Kaldi would not read such a path"):
        splitter.export(tmp_path / "two", "kaldi")
    splitter.export(tmp_path / "out", "kaldi")
