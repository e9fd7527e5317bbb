"""The shards of `--sink webdataset`, read by the webdataset library as it stands."""

import io
import json

import numpy as np
import pytest
import soundfile
import webdataset
from doors import read_table


@pytest.fixture(scope="module")
def outputs(made):
    """Several shards, with the label as a member of its own."""
    outputs = made("webdataset", "--sink", "webdataset", "--shard-maxcount", "4", "--field", "txt=label")
    assert len([*(outputs / "shards").iterdir()]) > 3
    return outputs


def shards(outputs) -> list[str]:
    return sorted(map(str, (outputs / "shards").iterdir()))


def sound(key: str, data: bytes):
    """A decoder as the library wants it."""
    return soundfile.read(io.BytesIO(data), dtype="float32") if key.endswith(".wav") else None


def by_key(outputs) -> dict[str, dict[str, str]]:
    rows = read_table(outputs / "manifest.csv")
    return {row["output"].rpartition("/")[2].partition(".")[0]: row for row in rows}


def test_every_sample_is_whole(outputs, loose):
    """Sound, label and the row of the manifest, sample by sample, each once."""
    manifest = by_key(outputs)
    samples = {one["__key__"]: one for one in webdataset.WebDataset(shards(outputs), shardshuffle=False)}
    assert set(samples) == set(manifest) == set(loose)
    for key, sample in samples.items():
        assert sample["wav"] == loose[key]
        assert sample["txt"].decode() == manifest[key]["label"]
        assert {name: str(value) for name, value in json.loads(sample["json"]).items()} == manifest[key]


def test_decode_to_tuple_and_batched(outputs, loose):
    """The pipeline of the documentation."""
    dataset = webdataset.WebDataset(shards(outputs), shardshuffle=False).decode(sound)
    batches = [*dataset.to_tuple("wav", "txt", "json").batched(3)]
    assert [len(keys) for keys, _, _ in batches][:-1] == [3] * (len(batches) - 1)
    manifest = {row["output"]: row for row in read_table(outputs / "manifest.csv")}
    read = 0
    for wavs, labels, rows in batches:
        for (samples, rate), label, row in zip(wavs, labels, rows, strict=True):
            expected, expected_rate = soundfile.read(
                io.BytesIO(loose[row["output"].rpartition("/")[2][:-4]]), dtype="float32"
            )
            assert np.array_equal(samples, expected)
            assert rate == expected_rate == row["sample_rate"]
            assert label == row["label"] == manifest[row["output"]]["label"]
            read += 1
    assert read == len(loose)


def test_a_loader_with_workers_reads_each_sample_once(outputs, loose):
    """The library divides shards among workers."""
    dataset = webdataset.WebDataset(shards(outputs), shardshuffle=False)
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert sorted(sample["__key__"] for sample in loader) == sorted(loose)
