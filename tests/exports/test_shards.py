"""Exports of tar shards: what webdataset and wids read, and what Energon's own documents ask for."""

import io
import itertools
import json
import struct
import tarfile
from pathlib import Path

import pytest
import webdataset
import wids
from spoken import SINKS, TEXTS, contents, spoken_by_sink, spoken_pieces

import splitter

# webdataset leaves them open
pytestmark = pytest.mark.filterwarnings("ignore:.*tar:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder of each sink, all of whose pieces are in one shard."""
    return spoken_by_sink(tmp_path_factory.mktemp("shards"), *SINKS)


def checked(samples, outputs: Path, split: str) -> list[str]:
    """Compare the contents and the rows of samples with those of the run; return their texts."""
    sound = contents(outputs)
    manifest = splitter.read_manifest(outputs).set_index("text")
    texts = []
    for sample in samples:
        row = json.loads(sample["json"])
        expected = manifest.loc[row["text"]]
        assert sample["wav"] == sound[" ".join(row["text"].split())]
        assert (row["split"], row["speaker"]) == (split, expected["speaker"])
        assert (row["frames"], row["start_seconds"]) == (expected["frames"], expected["start_seconds"])
        texts.append(row["text"])
    return texts


@pytest.mark.parametrize("sink", SINKS)
def test_webdataset(made: Path, sink: str):
    """Shards of each split, from any sink."""
    export = made / f"{sink} for webdataset"
    done = splitter.export(made / sink, "webdataset", export)
    assert (done.files, done.linked) == (2, 0)
    texts = []
    for split in ("train", "test"):
        urls = [str(path) for path in sorted(export.glob(f"{split}-*.tar"))]
        texts += checked(
            webdataset.WebDataset(urls, shardshuffle=False, empty_check=False), made / sink, split
        )
    assert texts == [*TEXTS.values()]


def test_a_whole_shard_is_linked(made: Path, tmp_path: Path):
    """If all of its samples are exported, to one split; else they are written into a new shard."""
    outputs = spoken_pieces(tmp_path, "webdataset", columns=["text", "speaker"], shard_maxcount=2)
    done = splitter.export(outputs, "webdataset", tmp_path / "whole")
    assert (done.linked, done.copied) == (3, 0)
    names = [path.name for path in sorted((tmp_path / "whole").glob("*.tar"))]
    assert names == ["shard-000000.tar", "shard-000001.tar", "shard-000002.tar"]
    linked = {(tmp_path / "whole" / name).stat().st_ino for name in names}
    assert linked == {path.stat().st_ino for path in (outputs / "shards").iterdir()}
    done = splitter.export(outputs, "webdataset", tmp_path / "some", where="text != '007'")
    assert (done.linked, done.pieces) == (2, 5)
    with tarfile.open(tmp_path / "some" / "shard-000001.tar") as archive:
        rest = archive.getnames()
    assert [name.partition(".")[2] for name in rest] == ["wav", "json"]
    assert splitter.verify(outputs, workers=1).exit_code == 0


@pytest.mark.parametrize("sink", SINKS)
def test_wids(made: Path, sink: str, tmp_path: Path):
    """Any sample of a split by its number, from the index alone."""
    export = made / f"{sink} for wids"
    splitter.export(made / sink, "wids", export)
    texts = []
    for split in ("train", "test"):
        index = str(export / f"{split}.json")
        dataset = wids.ShardListDataset(index, transformations=[], cache_dir=str(tmp_path), keep=True)
        samples = [dataset[number] for number in range(len(dataset))]
        plain = [{name[1:]: value.read() for name, value in one.items() if name[0] == "."} for one in samples]
        texts += checked(plain, made / sink, split)
    assert texts == [*TEXTS.values()]


@pytest.mark.parametrize("sink", SINKS)
def test_energon(made: Path, sink: str):
    """The files that `energon prepare` of 7.4 writes; tarfile reads a sample from each range of an index."""
    export = made / f"{sink} for energon"
    splitter.export(made / sink, "energon", export)
    meta = {
        name: json.loads((export / ".nv-meta" / name).read_text()) for name in (".info.json", "split.yaml")
    }
    counts, parts = meta[".info.json"]["shard_counts"], meta["split.yaml"]["split_parts"]
    assert {split: [counts[name] for name in names] for split, names in parts.items()} == {
        "train": [5],
        "val": [],
        "test": [1],
    }
    texts = []
    for split in ("train", "test"):
        for name in parts[split]:
            index = (export / f"{name}.idx").read_bytes()
            starts = struct.unpack(f"<{len(index) // 8}Q", index)
            content = (export / name).read_bytes()
            samples = []
            for start, end in itertools.pairwise(starts):
                with tarfile.open(fileobj=io.BytesIO(content[start:end])) as sample:
                    members = [(one.name.partition(".")[2], sample.extractfile(one)) for one in sample]
                    samples.append({field: file.read() for field, file in members if file})
            texts += checked(samples, made / sink, split)
    assert texts == [*TEXTS.values()]
