"""Hugging Face's `load_dataset`, on what each sink has written, with no code and no network."""

import io
import sys
import types

import datasets
import numpy as np
import pytest
import soundfile
from datasets import Audio, load_dataset
from doors import here, read_table, write_files

from splitter import OutputFile, ProcessorDataset


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What it prepares goes with the test."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


@pytest.fixture
def torchcodec(monkeypatch):
    """It must be there for files of sound to be listed, though nothing is decoded here; it needs FFmpeg."""
    try:
        import torchcodec.encoders  # noqa: F401
    except (ImportError, RuntimeError, OSError):
        encoders = types.ModuleType("torchcodec.encoders")
        encoders.AudioEncoder = None  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torchcodec", types.ModuleType("torchcodec"))
        monkeypatch.setitem(sys.modules, "torchcodec.encoders", encoders)


@pytest.fixture
def place(tmp_path_factory):
    """A folder whose path has no `test` in it, which would be the name of the split."""
    return tmp_path_factory.mktemp("pictures")


def rows_of(outputs) -> dict[str, dict[str, str]]:
    return {row["output"]: row for row in read_table(outputs / "manifest.csv")}


def as_text(row: dict[str, object], names) -> dict[str, str]:
    return {name: str(row[name]) for name in names}


@pytest.mark.parametrize("streaming", [False, True])
def test_parquet(made, loose, streaming):
    """An Audio feature with its rate, the labels as text, the numbers as numbers."""
    outputs = made("parquet", "--sink", "parquet", "--shard-maxcount", "4")
    files = sorted(map(str, (outputs / "shards").iterdir()))
    assert len(files) > 3
    dataset = load_dataset("parquet", data_files=files, split="train", streaming=streaming)
    assert isinstance(dataset.features["audio"], Audio)
    assert dataset.features["audio"].sampling_rate in (None, 8000)
    manifest = {name.rpartition("/")[2][:-4]: row for name, row in rows_of(outputs).items()}
    read = {}
    for row in dataset.cast_column("audio", Audio(decode=False)):
        samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]), dtype="float32")
        expected, _ = soundfile.read(io.BytesIO(loose[row["key"]]), dtype="float32")
        assert np.array_equal(samples, expected)
        assert rate == row["sample_rate"] == 8000
        names = ["input", "label", "size", "checksum", "frames", "start_seconds", "source_seconds"]
        assert as_text(row, names) == as_text(manifest[row["key"]], names)
        read[row["key"]] = row
    assert set(read) == set(loose)


@pytest.mark.parametrize("streaming", [False, True])
def test_webdataset(made, loose, streaming, torchcodec):
    """The fields of each sample: its sound, its label, its row."""
    options = ["--sink", "webdataset", "--shard-maxcount", "4", "--field", "txt=label"]
    outputs = made("hf-webdataset", *options)
    files = sorted(map(str, (outputs / "shards").iterdir()))
    dataset = load_dataset("webdataset", data_files=files, split="train", streaming=streaming)
    manifest = {name.rpartition("/")[2][:-4]: row for name, row in rows_of(outputs).items()}
    read = {}
    for row in dataset.cast_column("wav", Audio(decode=False)):
        read[row["__key__"]] = row["wav"]["bytes"]
        expected = manifest[row["__key__"]]
        assert row["txt"] == expected["label"]
        assert as_text(row["json"], expected) == expected
    assert read == loose


@pytest.mark.parametrize("formats", ["csv", "csv,parquet"])
def test_audiofolder(made, loose, formats, torchcodec):
    """The output folder as it stands, with its manifest beside; from CSV pandas takes NA for nothing."""
    outputs = made(f"audiofolder-{formats}", "--audiofolder", "--manifest-format", formats)
    dataset = load_dataset("audiofolder", data_dir=str(outputs), split="train")
    manifest = rows_of(outputs)
    contents = []
    for row in dataset.cast_column("audio", Audio(decode=False)):
        path = row["audio"]["path"]
        expected = manifest[path.removeprefix(f"{outputs}/")]
        names = ["input", "label", "size", "frames", "start_seconds"]
        if formats == "csv" and expected["label"] == "NA":
            expected["label"] = "None"
        assert as_text(row, names) == as_text(expected, names)
        with open(path, "rb") as file:
            contents.append(file.read())
    assert contents == list(loose.values())


def test_audiofolder_keeps_labels_that_look_like_numbers(place, torchcodec):
    """With a manifest in Parquet; pandas, which reads metadata.csv for it, would make 7 of 007."""

    class Copy(ProcessorDataset):
        def process(self, input_file):
            return [OutputFile("0.wav", input_file.read_bytes())], {}

    write_files(place, {"a.wav": b"RIFF", "b.wav": b"RIFF"})
    listed = [
        {"input": str(place / name), "label": label}
        for name, label in {"a.wav": "007", "b.wav": "1e5"}.items()
    ]
    Copy(listed).run(place / "out", workers=0, quiet=True, audiofolder=True, manifest_format="csv,parquet")
    dataset = load_dataset("audiofolder", data_dir=str(place / "out"), split="train")
    assert dataset["label"][:] == ["007", "1e5"]


def test_imagefolder(place):
    """Pictures with their labels and numbers, decoded by Pillow."""
    from PIL import Image

    class Pictures(ProcessorDataset):
        def process(self, input_file):
            size = int(input_file.columns["label"])

            def draw(file):
                Image.new("L", (size, 2), size).save(file, "PNG")

            return [OutputFile("0.png", draw, {"wide": size})], {}

    write_files(place, {"a.txt": "", "b.txt": ""})
    listed = [
        {"input": str(place / f"{name}.txt"), "label": label} for name, label in {"a": "3", "b": "5"}.items()
    ]
    Pictures(listed).run(place / "out", workers=0, quiet=True, audiofolder=True)
    dataset = load_dataset("imagefolder", data_dir=str(place / "out"), split="train")
    found = [
        (row["image"].size, row["image"].getpixel((0, 0)), row["wide"], str(row["label"])) for row in dataset
    ]
    assert found == [((3, 2), 3, 3, "3"), ((5, 2), 5, 5, "5")]


def test_what_it_saved_to_disk_is_a_dataset_list(tmp_path):
    """Bytes are read from where they are in each file of each split; labels are columns."""
    folder = tmp_path / "it's naïve"
    contents = [f"content {number}".encode() * (1 + number) for number in range(5)]
    texts = ["a,b", 'say "so"', "", "naïve ☃", "007"]
    feature = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    files = [{"bytes": one, "path": f"/elsewhere/{number}.txt"} for number, one in enumerate(contents)]
    dataset = datasets.Dataset.from_dict(
        {"text": texts, "file": files},
        features=datasets.Features({"text": datasets.Value("string"), "file": feature}),
    )
    dataset.save_to_disk(folder / "one", num_shards=2)
    datasets.DatasetDict({"train": dataset.select([3, 1, 4]), "test": dataset.select([2])}).save_to_disk(
        folder / "splits"
    )
    for name, order, splits in (
        ("one", range(5), [""] * 5),
        ("splits", [3, 1, 4, 2], ["train"] * 3 + ["test"]),
    ):
        found = Copy(folder / name).run(folder / f"out {name}", workers=0, quiet=True)
        assert [*found["text"]] == [texts[number] for number in order]
        assert [one.rpartition("/")[2] for one in found["input"]] == [f"{number}.txt" for number in order]
        assert [*found.get("split", [""] * 5)] == splits
        written = [(folder / f"out {name}" / one).read_bytes() for one in found["output"]]
        assert written == [contents[number] for number in order]


def test_bytes_that_it_saved_after_a_path(tmp_path):
    """A row with only a path is one error; it does not hide the bytes of the others."""
    feature = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    files = [
        {"bytes": None, "path": "gone.txt"},
        {"bytes": None, "path": "lost.txt"},
        {"bytes": b"la", "path": "a.txt"},
    ]
    dataset = datasets.Dataset.from_dict({"file": files}, features=datasets.Features({"file": feature}))
    dataset.save_to_disk(tmp_path / "saved", num_shards=3)
    found = Copy(tmp_path / "saved").run(tmp_path / "out", workers=0, quiet=True)
    assert [(tmp_path / "out" / one).read_bytes() for one in found["output"]] == [b"la"]
    assert [one.rpartition("/")[2] for one in found.failed["input"]] == ["gone.txt", "lost.txt"]
    assert found.failed["message"][0].endswith("has no bytes; embed its bytes, or leave the row out")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"text": ["x"]}, "has no column 'file', but the first file has"),
        ({"file": ["x"]}, "column 'file' holds string; save the dataset again, with binary values"),
    ],
)
def test_splits_that_it_saved_with_other_columns(tmp_path, capfd, other, message):
    """Contents are in one column of all splits; anything else is refused in one line."""
    splits = {"train": {"file": [b"x"]}, "validation": other}
    saved = datasets.DatasetDict({name: datasets.Dataset.from_dict(one) for name, one in splits.items()})
    saved.save_to_disk(tmp_path / "saved")
    said = here(capfd, "run", tmp_path / "saved", "--recipe=copy", "-o", tmp_path / "out", "--workers=0")
    assert (said.code, len(said.lines)) == (2, 1)
    assert f"/validation/data-00000-of-00001.arrow: {message}" in said.err


def test_paths_that_it_saved_to_disk(tmp_path):
    """Where there are paths instead of bytes, these are the inputs."""
    write_files(tmp_path, {"a.txt": "la", "b.txt": "li"})
    columns = {"audio": ["a.txt", "b.txt"], "n": [1, None]}
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "paths")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).rename(tmp_path / "paths" / name)
    found = Copy(tmp_path / "paths").run(tmp_path / "out", workers=0, quiet=True)
    assert found[["input", "n"]].to_numpy().tolist() == [["a.txt", "1"], ["b.txt", ""]]


class Copy(ProcessorDataset):
    """Copies each input."""

    def process(self, input_file):
        return [OutputFile("copy", input_file.read_bytes())], {}
