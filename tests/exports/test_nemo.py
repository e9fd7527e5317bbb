"""`--to nemo`, read as NeMo reads it with lhotse, and with tarfile where it is tarred."""

import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lhotse
import numpy as np
import pytest
import soundfile
from doors import read_table

import splitter
from splitter.errors import Refused
from splitter.recipes.chunk import Chunk

Entry = dict[str, Any]


def entries(manifest: Path) -> list[Entry]:
    """The lines of a manifest, with what NeMo requires of each."""
    found = [json.loads(line) for line in manifest.read_text().splitlines()]
    assert all({"audio_filepath", "duration", "text"} <= {*one} and one["duration"] > 0 for one in found)
    return found


def cut_of(entry: Entry, manifest: Path) -> lhotse.cut.Cut:
    """What NeMo makes of a line: a relative path starts at the manifest, a stated rate is believed."""
    path = manifest.parent / entry["audio_filepath"]
    if "sampling_rate" in entry:
        assert "offset" not in entry
        samples = lhotse.utils.compute_num_samples(entry["duration"], entry["sampling_rate"])
        source = lhotse.AudioSource(type="file", channels=[0], source=str(path))
        return lhotse.Recording(
            str(path), [source], entry["sampling_rate"], samples, entry["duration"], [0]
        ).to_cut()
    cut = lhotse.Recording.from_file(path).to_cut()
    return cut.truncate(offset=entry["offset"], duration=entry["duration"]) if "offset" in entry else cut


def sound_of(row: dict[str, str], output: Path) -> np.ndarray:
    sound, _ = soundfile.read(io.BytesIO(splitter.read_output(row, output)), dtype="float32", always_2d=True)
    return sound.T


@pytest.mark.parametrize(("sink", "virtual"), [("files", False), ("webdataset", False), ("files", True)])
def test_samples_texts_and_speakers_are_the_same(spoken: Path, tmp_path: Path, sink: str, virtual: bool):
    """From each sink; and with --virtual, out of the recordings."""
    splitter.export(spoken / sink, "nemo", tmp_path / "nemo", virtual=virtual)
    rows = read_table(spoken / sink / "manifest.csv")
    for split, count in (("train", 4), ("test", 1)):
        manifest = tmp_path / "nemo" / f"manifest_{split}.json"
        of_split = [row for row in rows if row["split"] == split]
        found = entries(manifest)
        assert len(found) == len(of_split) == count
        for entry, row in zip(found, of_split, strict=True):
            cut = cut_of(entry, manifest)
            lhotse.validate(cut)
            np.testing.assert_array_equal(cut.load_audio(), sound_of(row, spoken / sink))
            assert (entry["text"], entry["speaker"], entry["split"]) == (row["text"], row["speaker"], split)


def tarred(folder: Path) -> Iterator[tuple[Entry, np.ndarray]]:
    """The samples of a tarred data set, as NeMo reads it: shards have their numbers in their names."""
    manifests = {
        int(re.search(r"manifest[^/]*_(\d+)[^/]*\.json", str(path))[1]): path
        for path in folder.glob("sharded_manifests/*.json")
    }
    tars = {
        int(re.search(r"audio[^/]*_(\d+)[^/]*\.tar", str(path))[1]): path for path in folder.glob("*.tar")
    }
    assert sorted(manifests) == sorted(tars) == [*range(len(tars))]
    assert entries(folder / "tarred_audio_manifest.json") == [
        entry for number in sorted(manifests) for entry in entries(manifests[number])
    ]
    for number in sorted(manifests):
        of_shard = {entry["audio_filepath"]: entry for entry in entries(manifests[number])}
        assert {entry["shard_id"] for entry in of_shard.values()} == {number}
        with tarfile.open(tars[number], "r|*") as tar:
            for member in tar:
                if member.name in of_shard:
                    content = tar.extractfile(member).read()
                    sound, _ = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
                    yield of_shard.pop(member.name), sound.T
        assert not of_shard


def test_a_tarred_data_set_is_made_of_links(tmp_path: Path):
    """Each split has the shards that hold some of it, under numbers from 0; nothing is copied."""
    (tmp_path / "in").mkdir()
    listed = ["input,text,split"]
    for number in range(6):
        sound = np.random.default_rng(number).integers(-9000, 9000, 4000, "int16")
        soundfile.write(tmp_path / "in" / f"{number}.wav", sound, 8000)
        listed.append(f"{number}.wav,t{number},{'test' if number in (2, 5) else 'train'}")
    (tmp_path / "in" / "list.csv").write_text("\n".join(listed))
    dataset, output = Chunk(tmp_path / "in" / "list.csv", seconds=0.25), tmp_path / "out"
    splitter.run(dataset, output, workers=0, quiet=True, sink="webdataset", shard_maxcount=5)
    done = splitter.export(output, "nemo", tmp_path / "nemo", tarred=True)
    assert (done.copied, done.linked) == (0, 5)
    rows = read_table(output / "manifest.csv")
    for split in ("train", "test"):
        of_split = {row["output"].rpartition("/")[2]: row for row in rows if row["split"] == split}
        found = [*tarred(tmp_path / "nemo" / split)]
        assert [entry["audio_filepath"] for entry, _ in found] == [*of_split]
        for entry, sound in found:
            row = of_split[entry["audio_filepath"]]
            np.testing.assert_array_equal(sound, sound_of(row, output))
            assert entry["text"] == row["text"]


def test_what_goes_over_beside_the_text(tmp_path: Path):
    """The columns of the list, the language under NeMo's name for it, and labels."""
    soundfile.write(tmp_path / "a.wav", np.zeros((800, 2), "int16"), 8000)
    (tmp_path / "list.csv").write_text("input,language,label,room\na.wav,de,cat,7\n")
    splitter.run(Chunk(tmp_path / "list.csv"), tmp_path / "out", workers=0, quiet=True)
    splitter.export(tmp_path / "out", "nemo")
    (entry,) = entries(tmp_path / "out-nemo" / "manifest.json")
    assert entry == {
        "audio_filepath": "../out/a/000000_0.000s.wav",
        "duration": 0.1,
        "text": "",
        "label": "cat",
        "language": "de",
        "lang": "de",
        "room": "7",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tarred": True}, "is not in a tar shard; run with --sink webdataset, or leave --tarred out"),
        ({"tarred": True, "virtual": True}, "leave --virtual out"),
        ({"tarrred": True}, "unexpected keyword argument 'tarrred'"),
    ],
)
def test_refusals(spoken: Path, tmp_path: Path, options: dict[str, bool], message: str):
    with pytest.raises(Refused, match=message):
        splitter.export(spoken / "files", "nemo", tmp_path / "nemo", **options)
    assert not list(tmp_path.iterdir())
