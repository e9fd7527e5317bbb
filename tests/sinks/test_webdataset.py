"""The sink of tar shards, as WebDataset reads them."""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from doors import Said, here, read_table, tree, write_files, write_list

import splitter
from splitter import OutputFile, ProcessorDataset
from splitter.errors import Refused, RunStopped, StorageError
from splitter.ledger import shard_groups
from splitter.outputs.frame import Manifest
from splitter.testing.sinks import InAStore, ShardConformance


class TestWebDataset(ShardConformance):
    """It does what every sink must do, and every sink of shards."""

    sink = "webdataset"


class TestWebDatasetInAStore(InAStore, ShardConformance):
    """In an object store, too."""

    sink = "webdataset"


class Pieces(ProcessorDataset):
    """An output for each word of a text; the last word may say how the input ends."""

    metadata_types: ClassVar[dict[str, type]] = {"share": float}

    def __init__(self, inputs: Any, suffix: str = "txt") -> None:
        super().__init__(inputs)
        self.suffix = suffix

    def process(self, input_file):
        words = input_file.read_text().split()
        return self._outputs(words), {"words": len(words), "share": 1 / 3, "first": words == ["first"]}

    def _outputs(self, words: list[str]) -> Iterator[OutputFile]:
        for number, word in enumerate(words):
            if word == "fail":
                raise ValueError(word)
            yield OutputFile(f"{number}-{word}.{self.suffix}", word, {"word": word, "place": number})


class Set:
    """A dataset, and an output of shards with two inputs each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, folder / "outputs"
        self.labels: dict[str, str] = {}
        self.time = 1_000_000_000

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            path = self.folder / f"{name}.txt"
            path.write_text(text)
            self.time += 1
            os.utime(path, (self.time, self.time))

    def run(self, *names: str, **options: Any) -> Manifest:
        rows = [{"input": f"{name}.txt", "label": self.labels.get(name, "007")} for name in names]
        options = {"sink": "webdataset", "workers": 0, "quiet": True, "root": self.folder, **options}
        return Pieces(rows).run(self.output, **options)

    def shards(self) -> dict[str, list[str]]:
        """The contents in each shard, in their order."""
        found = {}
        for path in sorted((self.output / "shards").glob("*")):
            with tarfile.open(path) as tar:
                members = [(member.name, tar.extractfile(member).read().decode()) for member in tar]
            found[path.name] = [content for name, content in members if not name.endswith((".json", ".cls"))]
        return found


def version_of(path: Path) -> tuple[int, int]:
    """What changes when a file is replaced or written to."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


@pytest.fixture
def dataset(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Set:
    monkeypatch.setattr(shard_groups, "MOST_SMALL", 2)
    made = Set(folder)
    made.write(a="one two", b="three", c="four five six", d="seven", e="eight nine")
    return made


def test_a_shard_is_made_of_the_inputs_of_its_group_in_the_order_of_the_list(dataset: Set):
    dataset.run(*"abcde")
    assert dataset.shards() == {
        "shard-000000.tar": ["one", "two", "three"],
        "shard-000001.tar": ["four", "five", "six", "seven"],
        "shard-000002.tar": ["eight", "nine"],
    }


def test_the_members_of_a_sample_stand_together_and_its_row_is_there_as_json(dataset: Set):
    """Dataset columns stay text, metadata has its types; time, owner and mode are always the same."""
    dataset.run("a", field=["cls=label", "where.txt=place"])
    with tarfile.open(dataset.output / "shards" / "shard-000000.tar") as tar:
        members = {member.name: member for member in tar}
        contents = {name: tar.extractfile(member).read() for name, member in members.items()}
    assert [*contents] == [
        f"00000000-00000{number}.{field}"
        for number in (0, 1)
        for field in ("txt", "json", "cls", "where.txt")
    ]
    second = members["00000000-000001.txt"]
    assert {(one.mtime, one.uid, one.gid, one.mode, one.type) for one in members.values()} == {
        (0, 0, 0, 0o644, b"0")
    }
    assert json.loads(contents["00000000-000001.json"]) == {
        "input": "a.txt",
        "label": "007",
        "output": "shards/shard-000000.tar/00000000-000001.txt",
        "size": 3,
        "checksum": splitter.read_manifest(dataset.output)["checksum"][1],
        "output_name": "1-two.txt",
        "shard_offset": second.offset_data,
        "word": "two",
        "place": 1,
        "words": 2,
        "share": 1 / 3,
        "first": False,
    }
    assert (contents["00000000-000001.cls"], contents["00000000-000001.where.txt"]) == (b"007", b"1")


def test_keys_sort_as_the_manifest_does_and_hold_no_dot(dataset: Set):
    manifest = dataset.run(*"abcde")
    keys = [output.rpartition("/")[2] for output in manifest["output"]]
    assert keys == sorted(keys)
    assert len({*keys}) == len(keys)
    assert all(key.count(".") == 1 for key in keys)


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("a.WAV", "wav"),
        ("a.tar.gz", "gz"),
        ("none", "bin"),
        (".hidden", "bin"),
        ("a.", "bin"),
        ("a.b c", "bin"),
        ("a.é", "bin"),
        ("a." + "x" * 40, "bin"),
        # the row of the manifest, and a field that was asked for, stay what they are
        ("a.json", "output.json"),
        ("a.cls", "output.cls"),
    ],
)
def test_the_extension_says_what_a_sample_holds(folder: Path, name: str, extension: str):
    class Named(ProcessorDataset):
        def process(self, input_file):
            return [OutputFile(name, b"content")], {}

    write_files(folder, {"a.txt": ""})
    manifest = Named([str(folder / "a.txt")]).run(
        folder / "outputs", sink="webdataset", field=["cls=input"], workers=0, quiet=True
    )
    assert manifest["output"][0] == f"shards/shard-000000.tar/00000000-000000.{extension}"
    assert manifest["output_name"][0] == name
    assert splitter.read_output(manifest.iloc[0]) == b"content"
    with tarfile.open(folder / "outputs" / "shards" / "shard-000000.tar") as tar:
        assert tar.getnames() == [f"00000000-000000.{field}" for field in (extension, "json", "cls")]


def test_a_full_shard_runs_over(dataset: Set):
    """By its samples, or by its bytes with their headers; a large sample stands alone."""
    dataset.run(*"cd", shard_maxcount=2)
    assert dataset.shards() == {"shard-000000.tar": ["four", "five"], "shard-000000-1.tar": ["six", "seven"]}
    dataset.run(*"cd", shard_size=5120)
    assert {name: len(some) for name, some in dataset.shards().items()} == {
        "shard-000000.tar": 2,
        "shard-000000-1.tar": 2,
    }
    sizes = [path.stat().st_size for path in (dataset.output / "shards").iterdir()]
    assert sizes == [5120, 5120]
    dataset.run(*"cd", shard_size=5119)
    assert [len(some) for some in dataset.shards().values()] == [1, 1, 1, 1]


def test_no_shard_without_a_sample(dataset: Set):
    """Failed inputs and empty ones leave nothing, not even a folder."""
    dataset.write(a="fail", b="")
    manifest = dataset.run(*"ab")
    assert list(manifest["input"]) == ["b.txt"]
    assert list(manifest.failed["input"]) == ["a.txt"]
    assert not (dataset.output / "shards").exists()


def test_a_failed_input_leaves_no_trace_in_its_shard(dataset: Set):
    """Its first outputs were made already."""
    dataset.write(a="one two fail")
    dataset.run(*"ab")
    assert dataset.shards() == {"shard-000000.tar": ["three"]}


def test_the_same_bytes_for_any_number_of_workers(dataset: Set):
    dataset.run(*"abcde", workers=0)
    alone = tree(dataset.output)
    dataset.output = dataset.folder / "again"
    dataset.run(*"abcde", workers=2)
    assert tree(dataset.output) == alone


def test_what_failed_is_tried_again_and_its_neighbours_are_taken_along(dataset: Set):
    """In the end the shards are those of a run in which nothing failed."""
    whole = dataset.folder / "whole"
    dataset.run(*"abcd")
    dataset.output.rename(whole)
    dataset.write(b="three fail")
    dataset.run(*"abcd")
    assert dataset.shards()["shard-000000.tar"] == ["one", "two"]
    other = dataset.output / "shards" / "shard-000001.tar"
    untouched = version_of(other)
    dataset.write(b="three")
    dataset.run(*"abcd", retry_failed=True)
    assert tree(dataset.output) == tree(whole)
    assert version_of(other) == untouched


def test_a_failed_input_that_fails_again_leaves_its_shard_alone(dataset: Set):
    dataset.write(b="fail")
    dataset.run(*"ab")
    shard = dataset.output / "shards" / "shard-000000.tar"
    before = version_of(shard)
    dataset.run(*"ab", retry_failed=True)
    assert version_of(shard) == before


def test_what_fails_again_is_tried_once_though_shards_are_made_again(dataset: Set):
    """--prune has a shard made again: what has failed just before is not tried in the next round as well."""
    dataset.write(a="fail", b="fail")
    dataset.run(*"abcd", workers=1)
    manifest = dataset.run(*"abc", workers=1, retry_failed=True, prune=True, max_failures=2)
    assert (manifest.summary.failed, manifest.summary.exit_code) == (2, 1)
    assert list(manifest.failed["input"]) == ["a.txt", "b.txt"]


def test_new_inputs_fill_up_the_last_group(dataset: Set):
    """The groups before it are left alone, wherever in the list the new ones stand."""
    dataset.run(*"abc")
    first = version_of(dataset.output / "shards" / "shard-000000.tar")
    manifest = dataset.run(*"eadbc")
    assert dataset.shards() == {
        "shard-000000.tar": ["one", "two", "three"],
        "shard-000001.tar": ["four", "five", "six", "eight", "nine"],
        "shard-000002.tar": ["seven"],
    }
    assert version_of(dataset.output / "shards" / "shard-000000.tar") == first
    assert list(manifest["word"]) == ["eight", "nine", "one", "two", "seven", "three", "four", "five", "six"]
    assert [splitter.read_output(row).decode() for _, row in manifest.iterrows()] == list(manifest["word"])


def test_an_input_that_is_gone_keeps_its_samples_until_it_is_pruned(dataset: Set):
    """Its group is not made again before: a shard would hold samples without rows. Then it alone goes."""
    dataset.run(*"ab")
    before = dataset.shards()
    dataset.write(b="changed")
    with pytest.raises(Refused, match="use --prune to remove these samples"):
        dataset.run("b")
    assert dataset.shards() == before
    manifest = dataset.run("b", prune=True)
    assert dataset.shards() == {"shard-000000.tar": ["changed"]}
    assert manifest.summary.pruned == 1
    assert splitter.read_output(manifest.iloc[0]) == b"changed"
    dataset.run(prune=True)
    assert dataset.shards() == {}


def test_a_shard_that_somebody_damaged_is_not_taken_along(dataset: Set):
    """What it held is named, and made again."""
    dataset.run(*"ab")
    shard = dataset.output / "shards" / "shard-000000.tar"
    shard.write_bytes(shard.read_bytes().replace(b"one", b"eno"))
    dataset.write(b="changed")
    manifest = dataset.run(*"ab")
    assert (manifest.summary.done, manifest.summary.left) == (2, 0)
    assert dataset.shards() == {"shard-000000.tar": ["one", "two", "changed"]}


def test_shuffling_mixes_recordings_and_is_the_same_for_the_same_number(dataset: Set, monkeypatch):
    """Every sample is there once; the manifest keeps the order of the list."""
    monkeypatch.setattr(shard_groups, "MOST_SMALL", 1000)
    names = [f"n{number}" for number in range(20)]
    dataset.write(**{name: " ".join(f"{name}w{word}" for word in range(5)) for name in names})
    plain = dataset.run(*names)
    orders = []
    for seed in (1, 1, 2):
        dataset.output = dataset.folder / f"outputs {len(orders)}"
        manifest = dataset.run(*names, shuffle=seed, shard_maxcount=25, workers=2)
        assert list(manifest["word"]) == list(plain["word"])
        assert [splitter.read_output(row).decode() for _, row in manifest.iterrows()] == list(plain["word"])
        shards = dataset.shards()
        assert [len(words) for words in shards.values()] == [25, 25, 25, 25]
        # of five samples in each of four shards, no recording has all in one
        assert all(len({word.partition("w")[0] for word in words}) > 10 for words in shards.values())
        orders.append(shards)
    assert orders[0] == orders[1] != orders[2]


def test_another_sink_replaces_what_the_one_before_made(dataset: Set):
    """To shards and back, and nothing of the other stays."""
    dataset.run(*"abc", sink="files")
    files = tree(dataset.output)
    dataset.run(*"abc")
    assert [*dataset.shards()] == ["shard-000000.tar", "shard-000001.tar"]
    assert not (dataset.output / "a").exists()
    dataset.run(*"abc", sink="files")
    assert tree(dataset.output) == files


def test_shards_are_not_left_while_an_input_has_nothing_else(dataset: Set, capfd):
    """Its outputs would go with the shard."""
    dataset.run(*"ab")
    (dataset.folder / "a.txt").unlink()
    before = tree(dataset.output)
    with pytest.raises(Refused, match=r"made with --sink webdataset.*--fresh"):
        dataset.run(*"ab", sink="files")
    assert tree(dataset.output) == before
    dataset.run(*"ab", sink="files", fresh=True)
    assert not (dataset.output / "shards").exists()


def test_a_strangers_file_is_not_overwritten(dataset: Set):
    """The run stops, and says what is in the way."""
    dataset.run(*"ab")
    stranger = dataset.output / "shards" / "shard-000001.tar"
    stranger.write_text("mine")
    with pytest.raises(RunStopped, match=r"shard-000001\.tar: already exists, but no run made it"):
        dataset.run(*"abc")
    assert stranger.read_text() == "mine"


def test_parts_work_on_groups_of_their_own(dataset: Set, capfd):
    """And what they make is what one run makes."""
    dataset.run(*"abcde")
    whole = dataset.folder / "whole"
    dataset.output.rename(whole)
    dataset.run(*"abcde", part="2/2")
    assert [*dataset.shards()] == ["shard-000001.tar"]
    dataset.run(*"abcde", part="1/2")
    assert here(capfd, "manifest", dataset.output).code == 0
    assert tree(dataset.output) == tree(whole)


def test_bytes_that_are_not_text_come_through(folder: Path):
    """In JSON too, as Python reads it."""
    write_files(folder, {"a.txt": "one"})
    dataset = Pieces(
        [{"input": str(folder / "a.txt"), "label": b"caf\xe9".decode("utf-8", "surrogateescape")}]
    )
    dataset.run(folder / "outputs", sink="webdataset", field=["cls=label"], workers=0, quiet=True)
    with tarfile.open(folder / "outputs" / "shards" / "shard-000000.tar") as tar:
        row = json.loads(tar.extractfile("00000000-000000.json").read())
        assert row["label"].encode("utf-8", "surrogateescape") == b"caf\xe9"
        assert tar.extractfile("00000000-000000.cls").read() == b"caf\xe9"


def test_contents_beyond_what_memory_is_for_wait_on_disk(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """And are the same; nothing stays in staging."""
    monkeypatch.setattr("splitter.sinks.shards.MOST_IN_MEMORY", 1000)
    monkeypatch.setattr("splitter.sinks.shards._free", [])
    contents = [np.random.default_rng(size).bytes(size) for size in (10, 5000, 999, 0, 200_000, 50)]

    class Large(ProcessorDataset):
        def process(self, input_file):
            return self._outputs(), {}

        def _outputs(self):
            for number, content in enumerate(contents):
                yield OutputFile(f"{number}.bin", content)
                yield OutputFile(f"{number}-written.bin", lambda file, content=content: file.write(content))

    write_files(folder, {"a.txt": "", "b.txt": ""})
    names = [str(folder / "a.txt"), str(folder / "b.txt")]
    for shuffle in (None, 3):
        manifest = Large(names).run(
            folder / f"out {shuffle}", sink="webdataset", shuffle=shuffle, workers=0, quiet=True
        )
        made = [splitter.read_output(row) for _, row in manifest.iterrows()]
        assert made == [content for content in contents for _ in range(2)] * 2
        assert [*(folder / f"out {shuffle}" / ".splitter" / "staging").iterdir()] == []


def test_what_process_batch_leaves_to_process_stands_in_its_place(folder: Path):
    """The order in a shard does not depend on who did what."""

    class Together(Pieces):
        good = False

        def process_batch(self, input_files):
            results = [self.process(one) for one in input_files]
            if not self.good:
                results[1] = ([OutputFile("0.txt", object())], {})
            return results

    class Good(Together):
        good = True

    write_files(folder, {"a.txt": "one", "b.txt": "two", "c.txt": "three"})
    names = [str(folder / f"{name}.txt") for name in "abc"]
    trees = []
    for recipe in (Together, Good):
        recipe(names).run(folder / recipe.__name__, sink="webdataset", workers=0, quiet=True)
        trees.append(tree(folder / recipe.__name__))
    assert trees[0] == trees[1]


# -- mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard-size=1GB"], "--shard-size is only for shards; add --sink webdataset"),
        (["--shuffle=1"], "--shuffle is only for shards"),
        (["--sink=webdataset", "--shard-size=big"], "--shard-size 'big': write a size such as 500MB"),
        (["--sink=webdataset", "--shard-maxcount=0"], "--shard-maxcount 0: must be at least 1"),
        (["--sink=webdataset", "--field=label"], "--field 'label': write NAME=COLUMN, such as cls=label"),
        (["--sink=webdataset", "--field=a/b=label"], "--field 'a/b=label': write NAME=COLUMN"),
        (["--sink=webdataset", "--field=json=label"], "--field 'json=label': 'json' is the name of"),
        (["--sink=webdataset", "--field=a=x", "--field=a=y"], "'a' is given twice"),
        (["--sink=webdataset", "--batch-size=3"], "--batch-size: with --sink webdataset, batches follow"),
        (["--sink=webdataset", "--shuffle=-1"], "--shuffle -1: must be an integer, 0 or more"),
    ],
)
def test_a_mistake_is_one_line_before_any_work(words: Path, capfd, options: list[str], message: str):
    said = refused(capfd, words, *options)
    assert message in said.err


def refused(capfd, words: Path, *options: str) -> Said:
    output = words.parent / "outputs"
    said = here(capfd, "run", words, "--recipe=words", "--root=inputs", "--output", output, *options)
    assert said.code == 2
    assert len(said.lines) == 1
    assert not output.exists()
    return said


def test_a_field_that_nothing_has_is_the_error_of_each_input(dataset: Set):
    manifest = dataset.run("a", field=["cls=lable"])
    assert list(manifest.failed["message"]) == [
        "--field cls=lable: is neither a column of the dataset nor metadata"
    ]


@pytest.mark.parametrize("name", ["output_name", "shard_offset"])
def test_a_column_that_the_sink_has_of_its_own_is_refused(folder: Path, capfd, name: str):
    write_files(folder, {"a.txt": "one"})
    listing = write_list(folder / "list.csv", [["input", name], ["a.txt", "1"]])
    said = here(capfd, "run", listing, "--recipe=words", "--sink=webdataset", "-o", folder / "out")
    assert (said.code, len(said.lines)) == (2, 1)
    assert f"--rename {name}=NEW" in said.err


def test_an_archive_is_what_tar_itself_would_read(dataset: Set):
    """Names of more than 100 bytes do not come up, and there is nothing between the members."""
    dataset.run(*"abcde")
    for row in read_table(dataset.output / "manifest.csv"):
        shard = (dataset.output / row["output"]).parent.read_bytes()
        start = int(row["shard_offset"])
        with tarfile.open(fileobj=io.BytesIO(shard[start - 512 :])) as tar:
            assert tar.next().name == Path(row["output"]).name


def test_samples_taken_along_lack_a_field_that_was_not_asked_for_then(folder: Path, capfd):
    """A limit leaves an input as it was, whose row has no such column."""
    write_files(folder, {"a.txt": "one", "b.txt": "two"})
    output, listing = folder / "out", folder / "list.csv"
    write_list(listing, [["input"], ["a.txt"], ["b.txt"]])
    arguments = ("run", listing, "--recipe=words", "--sink=webdataset", "-o", output, "--workers=0")
    assert here(capfd, *arguments).code == 0
    write_list(listing, [["input", "label"], ["a.txt", "A"], ["b.txt", "B"]])
    assert here(capfd, *arguments, "--field=cls=label", "--limit=1").code == 0
    with tarfile.open(output / "shards" / "shard-000000.tar") as tar:
        labelled = {name.partition("-")[0] for name in tar.getnames() if name.endswith(".cls")}
        assert labelled == {"00000000"}
        assert {name.partition("-")[0] for name in tar.getnames()} == {"00000000", "00000001"}
    assert here(capfd, *arguments, "--field=cls=label").code == 0


def test_shards_whose_groups_are_lost_are_not_made_again(dataset: Set):
    """Other groups would replace a shard by one that lacks samples of finished inputs."""
    dataset.run(*"abcd")
    (dataset.output / ".splitter" / "groups").unlink()
    before = tree(dataset.output)
    dataset.write(x="new")
    advice = "groups: does not exist; restore it, or start over with --fresh"
    for options in ({}, {"prune": True}, {"part": "1/2"}):
        with pytest.raises(StorageError, match=advice):
            dataset.run(*"xabcd", **options)
        assert tree(dataset.output) == before
    verdict = splitter.verify(dataset.output)
    assert [(one.file, one.message) for one in verdict.findings] == [
        (".splitter/groups", "does not exist; restore it, or start over with --fresh")
    ]
    assert dataset.run(*"xabcd", fresh=True).summary.done == 5
    assert splitter.verify(dataset.output).ok
