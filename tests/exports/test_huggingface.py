"""`--to huggingface`: what `load_dataset` makes of it, from the card alone, with no network."""

import shutil
import sys
import types
from pathlib import Path

import datasets
import numpy as np
import pytest
from datasets import Audio, load_dataset
from spoken import SINKS, TEXTS, contents, spoken_by_sink, spoken_pieces

import splitter
from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.errors import Refused


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What it prepares goes with the test; for files of sound it must see torchcodec, which needs FFmpeg."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    encoders = types.ModuleType("torchcodec.encoders")
    encoders.AudioEncoder = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchcodec", types.ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.encoders", encoders)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder of each sink."""
    return spoken_by_sink(tmp_path_factory.mktemp("hub"), *SINKS)


def content_of(value: dict) -> bytes:
    return value["bytes"] if value["bytes"] is not None else Path(value["path"]).read_bytes()


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("layout", ["folder", "parquet"])
@pytest.mark.parametrize("sink", SINKS)
def test_each_layout_sink_and_split(made: Path, sink: str, layout: str, streaming: bool):
    """Texts stay text, numbers have their types, and the sound is the same bytes."""
    export = made / f"{sink}-{layout}"
    done = splitter.export(made / sink, "huggingface", export, layout=layout, licence="CC-BY-4.0")
    assert (done.copied == 0) == (sink == "files" or layout == "parquet")
    loaded = load_dataset(str(export), streaming=streaming)
    assert sorted(loaded) == ["test", "train"]
    manifest = splitter.read_manifest(made / sink).set_index("text")
    sound = contents(made / sink)
    seen = []
    for split, rows in loaded.items():
        assert isinstance(rows.features["audio"], Audio)
        for row in rows.cast_column("audio", Audio(decode=False)):
            expected = manifest.loc[row["text"]]
            assert content_of(row["audio"]) == sound[" ".join(row["text"].split())]
            assert (row["split"], row["speaker"]) == (split, expected["speaker"])
            assert (row["frames"], row["start_seconds"]) == (expected["frames"], expected["start_seconds"])
            assert "output" not in row
            seen.append(row["text"])
    assert seen == [*TEXTS.values()]


@pytest.mark.parametrize("layout", ["folder", "parquet"])
def test_card(made: Path, layout: str):
    """As the Hub's own library reads it: configs, features, sizes, licence."""
    from huggingface_hub import DatasetCard

    export = made / f"card {layout}"
    splitter.export(made / "files", "huggingface", export, layout=layout, licence="CC-BY-4.0")
    data = DatasetCard.load(export / "README.md").data
    assert data.license == "cc-by-4.0"
    info = data.dataset_info
    features = datasets.Features._from_yaml_list(info["features"])
    assert features == load_dataset(str(export))["train"].features
    size = sum(map(len, contents(made / "files").values()))
    assert [(one["name"], one["num_examples"]) for one in info["splits"]] == [("train", 5), ("test", 1)]
    assert sum(one["num_bytes"] for one in info["splits"]) == info["dataset_size"] == size
    written = sum(file.stat().st_size for file in export.glob("*/*") if file.is_file())
    assert info["download_size"] == written
    assert [file["split"] for file in data.configs[0]["data_files"]] == ["train", "test"]


@pytest.mark.parametrize("name", ["0", "no", "1.0"])
def test_names_of_splits_that_are_other_things_in_yaml(tmp_path: Path, name: str):
    """They stay text."""
    pieces = spoken_pieces(tmp_path, texts={"a": "one", "b": "two"})
    manifest = (pieces / "manifest.csv").read_text()
    (pieces / "manifest.csv").write_text(manifest.replace(",train,", f",{name},"))
    splitter.export(pieces, "huggingface", tmp_path / "hub", layout="parquet")
    assert {split: rows["text"][:] for split, rows in load_dataset(str(tmp_path / "hub")).items()} == {
        name: ["one"],
        "test": ["two"],
    }


class Squares(ProcessorDataset):
    """Each input as a small image."""

    def process(self, input_file):
        from PIL import Image

        picture = Image.new("L", (8, 8), color=len(input_file.input))
        return [OutputFile("square.png", lambda file: picture.save(file, "PNG"))], {}


@pytest.mark.parametrize("layout", ["folder", "parquet"])
def test_images(made: Path, layout: str):
    """Without splits, all is `train`; without a licence, the card has none."""
    listed = (made / "list.csv").read_text().replace(",split\n", ",part\n")
    (made / "pictures.csv").write_text(listed)
    splitter.run(Squares(made / "pictures.csv"), made / "squares", workers=0, quiet=True)
    export = made / f"squares {layout}"
    splitter.export(made / "squares", "huggingface", export, layout=layout)
    rows = load_dataset(str(export), split="train")
    assert [row["image"].getpixel((0, 0)) for row in rows] == [len(name) + 7 for name in TEXTS]
    assert rows["text"][:] == [*TEXTS.values()]
    assert "license" not in (export / "README.md").read_text()


def test_refusals(made: Path, tmp_path: Path):
    """What is neither sound nor an image, and a split that `datasets` has no name for."""
    manifest = made / "files" / "manifest.csv"
    before = manifest.read_bytes()
    try:
        manifest.write_bytes(before.replace(b",train,", b",my-split,"))
        with pytest.raises(Refused, match="'my-split' cannot be the name of a split on Hugging Face"):
            splitter.export(made / "files", "huggingface")
        manifest.write_bytes(before.replace(b".wav,", b".txt,"))
        with pytest.raises(Refused, match="is neither sound nor an image"):
            splitter.export(made / "files", "huggingface")
    finally:
        manifest.write_bytes(before)


@pytest.mark.parametrize(("first", "others", "kind"), [("png", "wav", "an image"), ("wav", "png", "sound")])
def test_a_mixture_is_refused(made: Path, tmp_path: Path, first: str, others: str, kind: str):
    shutil.copytree(made / "files", tmp_path / "mixed")
    for path in (tmp_path / "mixed").rglob("*.wav"):
        shutil.copy(path, path.with_suffix(".png"))
    manifest = tmp_path / "mixed" / "manifest.csv"
    header, one, *rest = manifest.read_text().splitlines(keepends=True)
    rows = [one.replace(".wav,", f".{first},"), *(row.replace(".wav,", f".{others},") for row in rest)]
    manifest.write_text("".join([header, *rows]))
    with pytest.raises(Refused, match=f"is not {kind}, as the pieces before are; leave it out with --where"):
        splitter.export(tmp_path / "mixed", "huggingface")


class Spoken(ProcessorDataset):
    """Many pieces of one recording, each with a long text; with `change`, one is longer and one is new."""

    def __init__(self, inputs, change: bool = False) -> None:
        super().__init__(inputs)
        self.change = change

    def process(self, input_file):
        chance = np.random.default_rng(9)
        words = ["".join(chance.choice([*"abcdefgh"], 6)) for _ in range(500)]
        made = []
        for number in range(300):
            text, content = " ".join(chance.choice(words, 400)), chance.bytes(400)
            if self.change and number == 100:
                made.append(OutputFile("new.wav", b"new", {"text": "new"}))
                text, content = f"and now for something else {text}", content + b"more"
            made.append(OutputFile(f"{number}.wav", content, {"text": text}))
        return made, {}


def chunks_of(data: bytes) -> dict[bytes, int]:
    """Return the chunks of a file, as a store cuts it by its content, and their sizes."""
    values = np.frombuffer(data, np.uint8).astype(np.uint64)
    gear = np.random.default_rng(1).integers(0, 1 << 63, 256, dtype=np.uint64)[values]
    hashes = np.zeros(len(data), np.uint64)
    for back in range(16):
        hashes[back:] += gear[: len(data) - back] << np.uint64(back)
    ends = np.flatnonzero((hashes >> np.uint64(40)) % np.uint64(2048) == 0) + 1
    parts = np.split(np.frombuffer(data, np.uint8), ends)
    return {part.tobytes(): len(part) for part in parts}


def test_an_upload_after_a_change_moves_what_changed(tmp_path: Path, monkeypatch):
    """One text and its sound are longer, and a row is new: nearly all that a store needs, it has."""
    chunking = {"min_chunk_size": 2 << 10, "max_chunk_size": 8 << 10, "norm_level": 0}
    monkeypatch.setattr("splitter.exports.tables.CHUNKING", chunking)
    (tmp_path / "in.txt").touch()
    share = {}
    for chunks in (21, 999):
        monkeypatch.setattr("splitter.exports.tables._CHUNKS", chunks)
        files = []
        for name in ("before", "after"):
            outputs = tmp_path / name
            recipe = Spoken([str(tmp_path / "in.txt")], change=name == "after")
            if not outputs.exists():
                splitter.run(recipe, outputs, workers=0, quiet=True)
            splitter.export(outputs, "huggingface", layout="parquet")
            files.append(tmp_path / f"{name}-huggingface" / "data" / "train-00000.parquet")
        before, after = (chunks_of(file.read_bytes()) for file in files)
        share[chunks] = sum(size for chunk, size in after.items() if chunk not in before) / sum(
            after.values()
        )
    # 4 % with chunks cut by content, half of all without
    assert share[21] < 0.08
    assert share[999] > 0.3


class Describing(ProcessorDataset):
    """Say what is spoken in a recording."""

    def process(self, input_file: InputFile):
        return [], {"text": f"text of {input_file.input}"}


def test_recordings_that_a_run_only_described(spoken: Path, tmp_path: Path):
    """They are the pieces, though no manifest says how large they are."""
    splitter.run(Describing(spoken / "in"), tmp_path / "texts", workers=0, quiet=True)
    where = "input != 'list.tsv'"
    splitter.export(tmp_path / "texts", "huggingface", tmp_path / "hub", where=where)
    total = sum(path.stat().st_size for path in (spoken / "in").rglob("*.*") if path.suffix != ".tsv")
    assert f"dataset_size: {total}\n" in (tmp_path / "hub" / "README.md").read_text()
