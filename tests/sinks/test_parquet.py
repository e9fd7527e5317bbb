"""The sink of Parquet shards."""

import importlib.util
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from doors import here, program, read_table, tree, write_files, write_list
from sounds import tone

from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.dataset import Result
from splitter.errors import StorageError
from splitter.sinks import parquet
from splitter.testing.sinks import Gives, ShardConformance


class TestParquet(ShardConformance):
    """It does what every sink must do, and every sink of shards."""

    sink = "parquet"


class Numbered(ProcessorDataset):
    """Metadata as a file says in JSON: a list with that of each output, then that of the input."""

    def process(self, input_file: InputFile) -> Result:
        """An output for each but the last."""
        *outputs, last = json.loads(input_file.read_text(), parse_constant=float)
        if last == "fail":
            raise ValueError
        return [OutputFile(f"{at}.bin", b"%d" % at, metadata) for at, metadata in enumerate(outputs)], last


class Declared(Numbered):
    """The same with types that are known beforehand."""

    metadata_types = {"x": str, "late": float}  # noqa: RUF012 - as users write it


def make(folder: Path, *contents: Any, recipe: type[ProcessorDataset] = Numbered, **options: Any) -> Path:
    """A run over files with these contents."""
    names = [f"{at}.json" for at in range(len(contents))]
    write_files(folder, {name: json.dumps(content) for name, content in zip(names, contents, strict=True)})
    recipe([str(folder / name) for name in names]).run(
        folder / "out", **{"sink": "parquet", "workers": 0, "quiet": True, **options}
    )
    return folder / "out"


def tables(out: Path) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted((out / "shards").glob("*.parquet"))]


def values(out: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Of all rows, in the order of their keys, which is that of the manifest."""
    rows = [row for table in tables(out) for row in table.to_pylist()]
    return [tuple(row[name] for name in columns) for row in sorted(rows, key=lambda row: row["key"])]


def messages(out: Path) -> list[str]:
    return [row["message"] for row in read_table(out / "errors.csv")]


# -- columns ----------------------------------------------------------------------------------------------


def test_all_shards_have_the_columns_of_the_first_input_that_gives_a_file(folder: Path):
    """Inputs that fail, or make none, decide nothing; keys that others lack are null."""
    first = [{"n": 1, "s": "a", "none": None}, {"n": 2, "s": "b", "none": None}, {"f": 0.5, "yes": True}]
    out = make(
        folder,
        ["fail"],
        [{"ignored": 1}],
        first,
        [{"n": 3}, {"f": 1.5}],
        [{"s": "c", "none": 7}, {"yes": False}],
        shard_maxcount=1,
    )
    assert len(tables(out)) == 4
    (schema,) = {table.schema for table in tables(out)}
    assert [(field.name, str(field.type)) for field in schema] == [
        ("key", "string"),
        ("file", "struct<bytes: binary, path: string>"),
        ("input", "string"),
        ("size", "int64"),
        ("checksum", "string"),
        ("output_name", "string"),
        ("n", "int64"),
        ("s", "string"),
        ("none", "string"),
        ("f", "double"),
        ("yes", "bool"),
        ("other_metadata", "string"),
    ]
    assert values(out, "key", "n", "s", "none", "f", "yes", "other_metadata") == [
        ("00000002-000000", 1, "a", "", 0.5, True, None),
        ("00000002-000001", 2, "b", "", 0.5, True, None),
        ("00000003-000000", 3, None, None, 1.5, None, None),
        ("00000004-000000", None, "c", "7", None, False, None),
    ]
    assert [(row["path"], row["bytes"]) for (row,) in values(out, "file")][1] == ("00000002-000001.bin", b"1")


def test_what_the_columns_lack_is_kept_as_json(folder: Path):
    """More keys, and numbers that 64 bits do not hold; int is fine where float is due."""
    out = make(
        folder,
        [{"n": 1, "f": 0.5}, {}],
        [{"n": 2**63, "f": 3, "é": "x"}, {"later": True}],
        [{"n": -(2**63), "f": float("inf"), "later": float("nan")}, {}],
    )
    found = values(out, "n", "f", "other_metadata")
    assert found[0] == (1, 0.5, None)
    assert (found[1][:2], json.loads(found[1][2])) == ((None, 3.0), {"é": "x", "later": True, "n": 2**63})
    assert (found[2][:2], json.loads(found[2][2])) == ((-(2**63), float("inf")), {"later": None})


@pytest.mark.parametrize(
    ("one", "other"), [(1, "x"), (1, 0.5), (1, True), (True, 1), (0.5, "x"), (0.5, True), (True, "x")]
)
def test_a_value_of_another_type_is_the_error_of_its_input(folder: Path, one: Any, other: Any):
    """The line names the key, and what helps."""
    out = make(folder, [{"x": one}, {}], [{"x": other}, {}], [{"x": one}, {}])
    assert values(out, "key", "x") == [("00000000-000000", one), ("00000002-000000", one)]
    kind = f"metadata 'x' is {other!r} where the first input has {type(one).__name__}"
    assert messages(out) == [f"{kind}; declare it in metadata_types, for example as str"]


def test_declared_types_count_more_than_what_comes_first(folder: Path):
    """Also of keys that no input has yet."""
    out = make(folder, [{"x": 1}, {}], [{"x": "text"}, {"late": 2}], recipe=Declared)
    assert not messages(out)
    assert values(out, "x", "late") == [("1", None), ("text", 2.0)]
    assert [str(table.schema.field("late").type) for table in tables(out)] == ["double"]


def test_columns_stay_what_they_were(folder: Path):
    """What is made later has them as well, whatever comes first then."""
    out = make(folder, [{"x": 1}, {}], [{"x": 2}, {}])
    before = (out / "shards" / "shard-000000.parquet").read_bytes()
    make(folder, [{"x": "changed"}, {}], [{"x": 2}, {}])
    assert len(messages(out)) == 1
    make(folder, [{"x": 1}, {}], [{"x": 2}, {}], [{"x": 3}, {"y": 1}])
    assert values(out, "x", "other_metadata") == [(1, None), (2, None), (3, '{"y": 1}')]
    make(folder, [{"x": 1}, {}], [{"x": 2}, {}], prune=True)
    assert (out / "shards" / "shard-000000.parquet").read_bytes() == before
    make(folder, [{"x": "text"}, {}], [{"x": 2}, {}], fresh=True)
    assert values(out, "x") == [("text",), ("2",)]


def test_shards_whose_columns_are_lost_are_not_mixed_with_others(folder: Path):
    """A trial would find the columns of what comes first now."""
    out = make(folder, [{"x": 1}, {}], [{"x": 2}, {}])
    (out / ".splitter" / "columns.json").unlink()
    before = tree(out)
    advice = "columns.json: does not exist; restore it, or start over with --fresh"
    for options in ({}, {"prune": True}):
        with pytest.raises(StorageError, match=advice):
            make(folder, [{"y": 1}, {}], [{"x": 2}, {}], [{"x": 3}, {}], **options)
        assert tree(out) == before
    make(folder, [{"x": 1}, {}], [{"x": 2}, {}], sink="webdataset")
    make(folder, [{"y": 1}, {}], [{"y": 2}, {}])
    assert values(out, "y") == [(1,), (2,)]
    (out / ".splitter" / "columns.json").unlink()
    make(folder, [{"z": 1}, {}], [{"z": 2}, {}], fresh=True)
    assert values(out, "z") == [(1,), (2,)]


def test_a_run_in_which_no_input_gives_a_file(folder: Path):
    """It makes no shard, and the columns are decided when there is one."""
    out = make(folder, ["fail"], [{"rows only": 1}])
    assert not (out / "shards").exists()
    make(folder, [{"x": 1}, {}], [{"rows only": 1}])
    assert values(out, "x") == [(1,)]


def test_an_input_that_fails_only_when_it_is_tried(folder: Path):
    """Without columns there is nothing to put it in; the next run has them."""

    def once(_: InputFile) -> Iterator[OutputFile]:
        mark = folder / "tried"
        if not mark.exists():
            mark.touch()
            raise ValueError
        yield OutputFile("0.bin", b"now")

    write_files(folder, {"a.txt": ""})
    dataset = Gives([str(folder / "a.txt")], {"a": once})
    dataset.run(folder / "out", sink="parquet", workers=0, quiet=True)
    assert "none did in the trial; run again with --retry-failed" in messages(folder / "out")[0]
    dataset.run(folder / "out", sink="parquet", workers=0, quiet=True, retry_failed=True)
    assert [row["bytes"] for (row,) in values(folder / "out", "file")] == [b"now"]


TEXTS = ["007", "NA", "1e5", "", "a,b", '"', "x\ny", "x\r\ny", "\r", "naïve 🎈", "true", "\0"]


def test_dataset_columns_stay_text(folder: Path, capfd):
    """As they were written, whatever they look like; bytes that are not UTF-8 are spelled out."""
    write_files(folder, {f"{at}.txt": "word" for at in range(len(TEXTS) + 1)})
    rows = [[f"{at}.txt", text] for at, text in enumerate([*TEXTS, "\udcff"])]
    write_list(folder / "list.csv", [["input", "a.b"], *rows])
    run = here(
        capfd, "run", folder / "list.csv", "--recipe", "words", "--sink", "parquet", "-o", folder / "out"
    )
    assert (run.code, tables(folder / "out")[0].schema.field("a.b").type) == (0, pa.string())
    manifest = read_table(folder / "out" / "manifest.csv")
    assert {text for (text,) in values(folder / "out", "a.b")} == {*TEXTS, "\\udcff"}
    expected = [row["a.b"].replace("\udcff", "\\udcff") for row in manifest]
    assert [text for (text,) in values(folder / "out", "a.b")] == expected


@pytest.mark.parametrize("name", ["key", "audio", "file", "other_metadata", "\udcff"])
def test_a_dataset_column_with_a_name_that_shards_cannot_have_is_refused(folder: Path, capfd, name: str):
    """Before any work, with what to do; other sinks take it."""
    write_files(folder, {"a.txt": "word"})
    write_list(folder / "list.csv", [["input", name], ["a.txt", "x"]])
    given = ["run", folder / "list.csv", "--recipe", "words", "-o", folder / "out"]
    said = here(capfd, *given, "--sink", "parquet")
    assert (said.code, len(said.lines)) == (2, 1)
    assert "; use --rename" in said.err
    assert not (folder / "out").exists()
    if name != "\udcff":
        assert here(capfd, *given, "--sink", "parquet", "--rename", f"{name}=other").code == 0


def test_metadata_with_the_name_of_a_column_of_the_shards_own(folder: Path):
    out = make(folder, [{"x": 1}, {}], [{"file": 1}, {}])
    reserved = (
        "metadata key 'file' is reserved: the manifest already has a column of that name; rename the key"
    )
    assert messages(out) == [reserved]


# -- how it is stored -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_row_groups_are_small_enough_to_be_read_as_a_whole(folder: Path):
    """By their bytes; what is larger stands alone, also when it has waited on disk."""
    sizes = [9 << 20, 9 << 20, 40 << 20, 100, 6 << 20, 9 << 20, 1 << 20]

    def large(_: InputFile) -> Iterator[OutputFile]:
        for at, size in enumerate(sizes):
            content = bytes([at]) * size
            yield OutputFile(f"{at}.bin", content if at != 2 else lambda file: file.write(content))  # noqa: B023

    write_files(folder, {"a.txt": ""})
    Gives([str(folder / "a.txt")], {"a": large}).run(folder / "out", sink="parquet", workers=0, quiet=True)
    file = pq.ParquetFile(folder / "out" / "shards" / "shard-000000.parquet")
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    assert [group.num_rows for group in groups] == [1, 1, 1, 3, 1]
    column = groups[3].column(1)
    assert (column.path_in_schema, column.compression, column.is_stats_set) == (
        "file.bytes",
        "UNCOMPRESSED",
        False,
    )
    assert groups[3].column(3).statistics.min == str(folder / "a.txt")
    for at, (row,) in enumerate(values(folder / "out", "file")):
        assert row["bytes"] == bytes([at]) * sizes[at]


def test_an_output_that_is_too_large_for_a_table(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Its input fails, with what to do, and its neighbours are done."""
    monkeypatch.setattr(parquet, "LARGEST", 10)
    content: dict[str, Callable[[InputFile], Any]] = {
        "a": lambda _: [OutputFile("0.bin", bytes(11))],
        "b": lambda _: [OutputFile("0.bin", bytes(10))],
    }
    write_files(folder, {"a.txt": "", "b.txt": ""})
    Gives([str(folder / "a.txt"), str(folder / "b.txt")], content).run(
        folder / "out", sink="parquet", workers=0, quiet=True
    )
    assert len(tables(folder / "out")[0]) == 1
    assert messages(folder / "out") == [
        "output '0.bin' has 11 bytes; Parquet holds up to 10 in one value: use --sink webdataset"
    ]


def test_the_same_bytes_with_any_number_of_workers(folder: Path, capfd):
    """The types of the columns are known after the trial."""
    write_files(folder / "in", {f"{name}.txt": name * 5 for name in "abcd"})
    outs = [folder / f"out{number}" for number in range(2)]
    for out, workers in zip(outs, (0, 3), strict=True):
        given = ["--recipe", "words", "--sink", "parquet", "--shard-maxcount", "3", "--output", out]
        assert here(capfd, "run", folder / "in", *given, f"--workers={workers}").code == 0
    assert len({table.schema for table in tables(outs[0])}) == 1 < len(tables(outs[0]))
    assert tree(outs[0]) == tree(outs[1])


# -- who reads it -----------------------------------------------------------------------------------------

LOADED = """
import json, os, sys
import datasets

datasets.disable_progress_bars()
files, cache = sys.argv[1:]
audio = datasets.Audio(decode=False)
table = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
stream = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache, streaming=True)
assert stream.features == table.features
feature = table.features["audio"]
rows = []
for row, streamed in zip(table.cast_column("audio", audio), stream.cast_column("audio", audio), strict=True):
    assert row == streamed
    rows.append([row["key"], row["label"], row["frames"], row["audio"]["path"], row["audio"]["bytes"].hex()])
print(json.dumps([type(feature).__name__, feature.sampling_rate, feature.decode, sorted(rows)]), flush=True)
# threads of Arrow's that have read a stream may not end (apache/arrow 45214)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="needs Hugging Face's datasets")
@pytest.mark.parametrize("rate", [None, 8000])
def test_hugging_face_reads_sound_as_sound(folder: Path, capfd, rate: int | None):
    """Without a line of code, from a table and as a stream; the sampling rate is there where all have one."""
    for name, recorded in (("a", 16000), ("b", 22050)):
        soundfile.write(folder / f"{name}.wav", tone(1.0, recorded), recorded)
    write_list(folder / "list.csv", [["input", "label"], ["a.wav", "007"], ["b.wav", "NA"]])
    given = ["--seconds", "0.4", "--sink", "parquet", "--shard-maxcount", "2", "--output", folder / "out"]
    given += ["--sample-rate", str(rate)] if rate else []
    assert here(capfd, "run", folder / "list.csv", *given).code == 0
    files = os.fspath(folder / "out" / "shards" / "*.parquet")
    said = program(
        *(files, folder / "cache"),
        python=("-c", LOADED),
        HF_HUB_OFFLINE="1",
        HF_HOME=os.fspath(folder / "home"),
    )
    assert said.code == 0, said.err
    kind, known, decode, rows = json.loads(said.out)
    assert (kind, known, decode) == ("Audio", rate, True)
    manifest = read_table(folder / "out" / "manifest.csv")
    assert len(rows) == len(manifest) == 6
    for (key, label, frames, path, content), row in zip(rows, manifest, strict=True):
        assert row["output"].endswith(f"/{path}")
        assert path == f"{key}.wav"
        assert (label, str(frames)) == (row["label"], row["frames"])
        sound = soundfile.info(io.BytesIO(bytes.fromhex(content)))
        assert (sound.frames, sound.samplerate) == (frames, int(row["sample_rate"]))


def test_what_stays_is_taken_along_where_no_input_gives_a_file_any_more(folder: Path):
    """The columns are then those that the shards had."""
    out = make(folder, [{"n": 1}, {}], [{"n": 2}, {}])
    (folder / "0.json").write_text(json.dumps(["fail"]))
    make_again = Numbered([str(folder / name) for name in ("0.json", "1.json")])
    before = values(out, "key", "file", "n")
    # what cannot be read keeps what it has; a new version makes all columns be decided anew
    (folder / "1.json").unlink()
    make_again.version = "2"
    make_again.run(out, sink="parquet", workers=0, quiet=True, shard_size="2MB")
    assert values(out, "key", "file", "n") == before[1:]
    assert [row["input"] for row in read_table(out / "errors.csv")] == [str(folder / "0.json")]
