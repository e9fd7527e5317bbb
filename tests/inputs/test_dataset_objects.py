"""Dataset objects as inputs: classes of the shapes that torchvision's have, since that does not load here."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import webdataset
from doors import read_table, tree
from object_store import Bucket
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

import splitter
from splitter import InputFile, InputList, OutputFile, ProcessorDataset
from splitter.dataset import Result
from splitter.errors import Refused

CLASSES = ["cat", "naïve dog"]


class Keep(ProcessorDataset):
    """Keeps each input, under its name."""

    def process(self, input_file: InputFile) -> Result:
        return [OutputFile(input_file.path.name, input_file.read_bytes())], {}


class Folder(Dataset[Any]):
    """As ImageFolder: it knows its files and the names of its classes."""

    def __init__(self, root: Path) -> None:
        self.classes = sorted(one.name for one in root.iterdir())
        self.samples = [
            (str(path), number)
            for number, name in enumerate(self.classes)
            for path in sorted((root / name).iterdir())
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("its files are read, and not its items")


class Cifar(Dataset[Any]):
    """As CIFAR10: all images in memory, and what else torchvision's have."""

    def __init__(self, count: int, transform: Callable[[Any], Any] | None = None) -> None:
        self.data = np.random.default_rng(1).integers(0, 256, (count, 6, 5, 3), "uint8")
        self.targets = [index % 2 for index in range(count)]
        self.classes, self.transform, self.driver = CLASSES, transform, os.getpid()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        assert os.getpid() != self.driver, "read in the driver"
        image = Image.fromarray(self.data[index])
        return (self.transform(image) if self.transform else image), self.targets[index]


class Items(Dataset[Any]):
    """Any items; of one that is an error, raising it."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        item = self.items[index]
        if isinstance(item, Exception):
            raise item
        return item


def run(source: Any, output: Path, workers: int = 0) -> list[dict[str, str]]:
    Keep(source).run(output, workers=workers, quiet=True)
    return read_table(output / "manifest.csv")


def test_the_files_of_an_image_folder_are_the_inputs(folder: Path):
    """As they are, with the names of their classes; of a subset, its part of them, in its order."""
    for name in ("train/b/x.jpg", "train/a/y.jpg", "train/a/z.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    rows = run(Folder(folder / "train"), folder / "out")
    assert [(Path(row["input"]).name, row["label"], row["class_index"]) for row in rows] == [
        ("y.jpg", "a", "0"), ("z.jpg", "a", "0"), ("x.jpg", "b", "1"),
    ]  # fmt: skip
    assert [(folder / "out" / row["output"]).read_text()[-5:] for row in rows] == ["y.jpg", "z.jpg", "x.jpg"]
    rows = run(Subset(Folder(folder / "train"), [2, 0]), folder / "part")
    assert [(Path(row["input"]).name, row["label"]) for row in rows] == [("x.jpg", "b"), ("y.jpg", "a")]


class TestImagesInMemory:
    """CIFAR10: each item is encoded once, in a worker; what has changed is done again."""

    @pytest.fixture(autouse=True)
    def _run(self, tmp_path: Path) -> None:
        self.cifar, self.output = Cifar(70), tmp_path / "out"
        self.rows = run(self.cifar, self.output, workers=2)

    def test_no_pixel_is_lost(self):
        assert [row["input"] for row in self.rows] == [f"{index:08d}.png" for index in range(70)]
        assert [(row["label"], row["class_index"]) for row in self.rows[:2]] == [
            (CLASSES[0], "0"),
            (CLASSES[1], "1"),
        ]
        for index, row in enumerate(self.rows):
            image = Image.open(self.output / row["output"])
            assert image.mode == "RGB"
            assert np.array_equal(np.asarray(image), self.cifar.data[index])

    def test_another_run_does_what_has_changed(self):
        before = tree(self.output)
        times = {name: (self.output / name).stat().st_mtime_ns for name in before}
        self.cifar.data[3] += 1
        self.cifar.targets[5] = 0
        assert Keep(self.cifar).plan(self.output).inputs == 70
        rows = run(self.cifar, self.output, workers=2)
        changed = {name for name in times if (self.output / name).stat().st_mtime_ns != times[name]}
        outputs = {row["output"] for row in (rows[3], rows[5])}
        assert changed == {"manifest.csv", *outputs}
        assert np.array_equal(np.asarray(Image.open(self.output / rows[3]["output"])), self.cifar.data[3])
        assert rows[5]["label"] == CLASSES[0]

    @pytest.mark.slow
    def test_another_transform_is_another_content(self):
        self.cifar.transform = np.asarray
        run(self.cifar, self.output, workers=2)
        before = (self.output / "manifest.csv").read_bytes()
        self.cifar.transform = lambda image: np.asarray(image)[:, ::-1]
        rows = run(self.cifar, self.output, workers=2)
        assert (self.output / "manifest.csv").read_bytes() != before
        image = Image.open(self.output / rows[0]["output"])
        assert np.array_equal(np.asarray(image), self.cifar.data[0][:, ::-1])


class Rows(Cifar):
    """Keeps its images in something else than an array of numbers, such as files that `data` names."""

    def __init__(self, folder: Path, kind: Callable[[list[str]], Any], count: int = 3) -> None:
        super().__init__(count)
        self.paths = [f"{folder}/{index}.png" for index in range(count)]
        for path, values in zip(self.paths, self.data, strict=True):
            Image.fromarray(values).save(path)
        self.data = kind(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return Image.open(self.paths[index]).copy(), self.targets[index]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [np.array, lambda paths: pd.DataFrame({"path": [*map(Path, paths)], "size": 6})],
    ids=["paths", "DataFrame"],
)
def test_data_that_is_not_of_numbers(tmp_path: Path, kind: Callable[[list[str]], Any]):
    """The items are compared: not what names them, nor where Python has put it."""
    run(Rows(tmp_path, kind), tmp_path / "out")
    dataset = Rows(tmp_path, kind)
    assert Keep(dataset).plan(tmp_path / "out").changed == 0
    Image.new("RGB", (5, 6)).save(dataset.paths[1])
    assert Keep(dataset).plan(tmp_path / "out").changed == 1


class Noted(Cifar):
    """Notes which of its items are read."""

    def __init__(self, note: Path, data: np.ndarray) -> None:
        super().__init__(len(data))
        self.data, self.note = data, note

    def __getitem__(self, index: int) -> tuple[Any, int]:
        with self.note.open("a") as file:
            file.write(f"{index}\n")
        return np.zeros(4), self.targets[index]


@pytest.mark.parametrize(
    ("kind", "are_read"),
    [
        ("M8[s]", {"0"}),
        ("i4,(2,)f4", {"0"}),
        ("V4", {"0"}),
        ("i4,(2,)U9", {"0", "1", "2"}),
        (np.dtype("i1,f8", align=True), {"0", "1", "2"}),
    ],
)
def test_which_data_says_all_of_its_items(tmp_path: Path, kind: str | np.dtype, are_read: set[str]):
    """Times and rows of numbers do; the items are read if text may be paths, or gaps hold any bytes."""
    dataset = Noted(tmp_path / "note", np.zeros((3, 2), kind))
    assert len(Keep(dataset)) == 3
    assert {*dataset.note.read_text().split()} == are_read


def image(mode: str) -> Any:
    return Image.effect_noise((7, 4), 50).convert("RGB").convert(mode)


def array(kind: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 200, shape).astype(kind)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "F", "YCbCr"])
def test_images_of_every_mode(tmp_path: Path, mode: str):
    """PNG where it holds the mode, else the array of the image."""
    given = image(mode)
    (row,) = run(Items(given), tmp_path / "out")
    path = tmp_path / "out" / row["output"]
    if mode in ("CMYK", "F", "YCbCr"):
        assert np.array_equal(np.load(path), np.asarray(given))
    else:
        found = Image.open(path)
        assert (found.mode, found.convert("RGBA").tobytes()) == (mode, given.convert("RGBA").tobytes())


@pytest.mark.parametrize(
    ("given", "ending"),
    [
        *((array("uint8", 4, 7, channels), ".png") for channels in (1, 3, 4)),
        (array("uint8", 4, 7, 2), ".npy"), (array("uint8", 4, 7), ".npy"), (array("uint8", 0, 7, 3), ".npy"),
        (array("float32", 3, 4, 7), ".npy"), (array("int64", 9), ".npy"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_arrays_and_tensors(tmp_path: Path, given: np.ndarray, ending: str, kind: Callable[[Any], Any]):
    """Pillow and NumPy read them as they were."""
    (row,) = run(Items((kind(given), 0)), tmp_path / "out")
    path = tmp_path / "out" / row["output"]
    assert path.suffix == ending
    found = np.asarray(Image.open(path)).reshape(given.shape) if ending == ".png" else np.load(path)
    assert (found.dtype, found.tolist()) == (given.dtype, given.tolist())


def test_targets_are_columns(tmp_path: Path):
    """Numbers, tensors, text, several of them, or what else a dict has."""
    content = array("uint8", 2, 2, 3)
    rows = run(TensorDataset(torch.zeros(2, 3), torch.tensor([7, 8])), tmp_path / "tensors")
    assert [(row["input"], row["label"]) for row in rows] == [("00000000.npy", "7"), ("00000001.npy", "8")]
    rows = run(Items((content, "007", [1, 2]), (content, None)), tmp_path / "several")
    assert [(row["label"], row["label_2"]) for row in rows] == [("007", "[1, 2]"), ("", "")]
    rows = run(Items({"image": content, "boxes": torch.zeros(1, 4), "id": 5}), tmp_path / "dicts")
    assert (rows[0]["boxes"], rows[0]["id"]) == ("[[0.0, 0.0, 0.0, 0.0]]", "5")
    assert run(Items(b"as it is"), tmp_path / "bytes")[0]["input"] == "00000000.bin"


def test_a_bad_item_is_an_error_of_its_own(tmp_path: Path):
    """It raises, would have to be pickled, has an image as target, or is none: the others are done."""
    good = array("uint8", 2, 2, 3)
    objects = np.array([{}, []], object)
    items = Items(good, RuntimeError("gone"), objects, (good, image("L")), "text", good)
    rows = run(items, tmp_path / "out", workers=1)
    assert [row["input"] for row in rows] == ["00000000.png", "00000005.png"]
    errors = read_table(tmp_path / "out" / "errors.csv")
    assert [row["message"].partition(">: ")[2][:18] for row in errors] == [
        "RuntimeError: gone", "Object arrays cann", "has an image as ta", "is a str; expected",
    ]  # fmt: skip


def test_one_item_by_hand_and_two_datasets_together(tmp_path: Path):
    first, second = Items(array("uint8", 2, 2, 3), array("uint8", 2, 3, 3)), Items((array("int64", 4), "x"))
    (output,), _ = Keep(first)[1]
    assert np.asarray(Image.open(io.BytesIO(output.content))).shape == (2, 3, 3)
    rows = run(InputList(first) + InputList(second), tmp_path / "out", workers=2)
    assert [(row["input"], row["label"]) for row in rows] == [
        ("00000000.png", ""), ("00000001.png", ""), ("2-00000000.npy", "x"),
    ]  # fmt: skip


def test_items_that_are_no_content_are_refused(tmp_path: Path):
    with pytest.raises(Refused, match="pass paths, or dicts as rows"):
        Keep(Items(1, 2)).run(tmp_path / "out", quiet=True)


def test_the_whole_way_to_shards_in_a_store_and_back(s3: Bucket, tmp_path: Path):
    """By several workers into bounded shards; splitter and the webdataset library stream them."""
    cifar = Cifar(30)
    Keep(cifar).run(
        s3.url("cifar"), workers=2, sink="webdataset", shard_maxcount=8, field=["cls=class_index"], quiet=True
    )
    shards = [key for key in s3.keys("cifar/shards/") if key.endswith(".tar")]
    assert len(shards) >= 4
    streamed = splitter.open(s3.url("cifar"), streaming=True)
    found = {sample["input"]: (np.asarray(sample["content"]), sample["label"]) for sample in streamed}
    for key in shards:
        (tmp_path / Path(key).name).write_bytes(s3.read(key))
    local = sorted(map(str, tmp_path.glob("*.tar")))
    pairs = webdataset.WebDataset(local, shardshuffle=False).decode("pil").to_tuple("jpg;png", "cls", "json")
    batches = DataLoader(pairs, batch_size=4, collate_fn=list)
    read = [one for batch in batches for one in batch]
    assert len(found) == len(read) == 30
    for picture, target, row in read:
        content, label = found[row["input"]]
        index = int(row["input"].removesuffix(".png"))
        assert np.array_equal(np.asarray(picture), cifar.data[index])
        assert np.array_equal(content, cifar.data[index])
        assert (target, CLASSES[target], row["label"]) == (cifar.targets[index], label, label)
