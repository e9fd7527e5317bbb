"""The manifest as Parquet, as JSON lines, and as Hugging Face's folders want it."""

import json
import math
import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doors import here, read_table, tree, write_files, write_list

import splitter
from splitter import OutputFile, ProcessorDataset, Skip
from splitter.errors import Refused
from splitter.ledger.formats import ROWS_AT_ONCE

ODD = ["007", "NA", "1e5", "", "a,b", 'q"q', "line\nbreak", "lone\rreturn", "naïve ☃", "null", "2020-01-01"]
ALL = "csv,parquet,jsonl"


class Typed(ProcessorDataset):
    """Metadata of all types, some of it missing."""

    def process(self, input_file):
        name = input_file.path.stem
        if name == "skip":
            raise Skip("not wanted")
        number = int(name)
        outputs = [
            OutputFile(
                f"{part}.txt",
                f"{name} {part}",
                {"i": number + part, "f": number / 7, "odd": ODD[number % len(ODD)]},
            )
            for part in range(number % 3)
        ]
        return outputs, {
            "b": bool(number % 2),
            "maybe": None if number % 2 else number,
            "big": 2**63 if number == 5 else 1,
        }


@pytest.fixture
def listed(folder: Path) -> Path:
    names = [*(f"{number}.txt" for number in range(12)), "skip.txt"]
    write_files(folder / "inputs", dict.fromkeys(names, ""))
    rows = [[name, ODD[number % len(ODD)]] for number, name in enumerate(names)]
    return write_list(folder / "list.csv", [["input", "label"], *rows, ["lost.txt", "x"]])


def run(listed: Path, **options) -> pd.DataFrame:
    options = {"root": "inputs", "workers": 0, "quiet": True, **options}
    return Typed(str(listed)).run(listed.parent / "outputs", **options)


def expected(outputs: Path) -> list[dict[str, object]]:
    """The rows of manifest.csv as the csv module reads them, with the types of the metadata."""
    kinds = {"size": int, "i": int, "f": float, "b": "True".__eq__, "maybe": int}
    return [
        {
            key: kinds[key](text) if key in kinds and text else None if key in kinds else text
            for key, text in row.items()
        }
        for row in read_table(outputs / "manifest.csv")
    ]


def test_every_format_holds_the_rows_of_the_manifest(listed: Path):
    """Dataset columns are text whatever they look like; numbers and truth values have their types."""
    run(listed, manifest_format=ALL)
    outputs = listed.parent / "outputs"
    table = pq.read_table(outputs / "manifest.parquet")
    assert table.to_pylist() == expected(outputs)
    assert {field.name: field.type for field in table.schema} == {
        **dict.fromkeys(["input", "label", "output", "checksum", "odd", "skipped"], pa.string()),
        **dict.fromkeys(["size", "i", "maybe"], pa.int64()),
        "f": pa.float64(),
        "b": pa.bool_(),
        "big": pa.string(),
    }
    lines = (outputs / "manifest.jsonl").read_text(encoding="utf-8").split("\n")
    # of the numbers that do not fit into 64 bits JSON holds the exact value
    whole = [{**row, "big": int(row["big"]) if row["big"] else None} for row in expected(outputs)]
    assert [json.loads(line) for line in lines[:-1]] == whole
    assert lines[-1] == ""


def test_the_same_bytes_whatever_was_done_first(listed: Path):
    """With workers, in any batches, and when the run is continued."""
    run(listed, manifest_format=ALL)
    whole = tree(listed.parent / "outputs")
    run(listed, manifest_format=ALL, fresh=True, limit=4)
    run(listed, manifest_format=ALL, workers=2, batch_size=2)
    assert tree(listed.parent / "outputs") == whole


def test_what_is_not_asked_for_any_more_is_removed(listed: Path, capfd):
    """A run leaves what it was asked for; `splitter manifest` what there was, unless it is asked."""
    outputs = listed.parent / "outputs"

    def there() -> set[str]:
        return {name for name in os.listdir(outputs) if name.startswith(("manifest", "metadata"))}

    run(listed, manifest_format=ALL, audiofolder=True)
    assert there() == {"manifest.csv", "manifest.parquet", "manifest.jsonl", "metadata.parquet"}
    run(listed, manifest_format="csv, jsonl", audiofolder=True)
    assert there() == {"manifest.csv", "manifest.jsonl", "metadata.csv"}
    here(capfd, "manifest", outputs, "--quiet")
    assert there() == {"manifest.csv", "manifest.jsonl", "metadata.csv"}
    here(capfd, "manifest", outputs, "--quiet", "--manifest-format", "parquet")
    assert there() == {"manifest.csv", "manifest.parquet"}
    run(listed)
    assert there() == {"manifest.csv"}


def test_none_of_them_is_stale(listed: Path, capfd):
    """They go with manifest.csv when finished work is done again, and change with it."""
    outputs = listed.parent / "outputs"
    run(listed, manifest_format=ALL, audiofolder=True)
    (listed.parent / "inputs/1.txt").write_text("changed")
    # stopped before anything is done: no table stands for what is no longer there
    rows = read_table(listed)
    write_list(listed, [["input", "label"], *([row["input"], "other"] for row in rows)])
    from splitter.errors import RunStopped

    class Stopping(Typed):
        def setup(self):
            raise RuntimeError("no")

    Stopping.__qualname__ = "Typed"
    with pytest.raises(RunStopped):
        Stopping(str(listed)).run(
            outputs, root="inputs", workers=0, quiet=True, manifest_format=ALL, audiofolder=True
        )
    for name in ("manifest.parquet", "metadata.parquet"):
        if (outputs / name).exists():
            assert "other" not in pq.read_table(outputs / name)["label"].to_pylist()
            assert len(pq.read_table(outputs / name)) == len(
                [row for row in read_table(outputs / "manifest.csv") if name[:4] == "mani" or row["output"]]
            )
    run(listed, manifest_format=ALL, audiofolder=True)
    assert {*pq.read_table(outputs / "manifest.parquet")["label"].to_pylist()} == {"other"}
    here(capfd, "split", outputs, "--quiet")
    splits = [row["split"] for row in read_table(outputs / "manifest.csv")]
    assert pq.read_table(outputs / "manifest.parquet")["split"].to_pylist() == splits
    here(capfd, "split", outputs, "--remove")
    assert "split" not in pq.read_schema(outputs / "manifest.parquet").names


@pytest.mark.slow
def test_more_rows_than_are_held_at_once(folder: Path):
    """Whatever is written in blocks comes back as one table."""

    class Many(ProcessorDataset):
        def process(self, input_file):
            parts = range(ROWS_AT_ONCE // 2 + 7)
            return (OutputFile("", None, {"n": number}) for number in parts), {}

    names = [f"{number}.txt" for number in range(3)]
    write_files(folder / "inputs", dict.fromkeys(names, ""))
    Many([str(folder / "inputs" / name) for name in names]).run(
        folder / "outputs", workers=0, quiet=True, manifest_format=ALL
    )
    numbers = [*range(ROWS_AT_ONCE // 2 + 7)] * 3
    assert pq.read_table(folder / "outputs/manifest.parquet")["n"].to_pylist() == numbers
    lines = (folder / "outputs/manifest.jsonl").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == numbers


def test_what_parquet_and_json_cannot_say(folder: Path):
    """Numbers that are none, and names that are not UTF-8."""

    class Strange(ProcessorDataset):
        def process(self, input_file):
            outputs = [OutputFile("", None, {"x": number}) for number in (math.nan, math.inf, 1.5)]
            return outputs, {}

    name = os.fsdecode(b"\xff.txt")
    write_files(folder / "inputs", {name: ""})
    Strange([str(folder / "inputs" / name)]).run(folder / "out", workers=0, quiet=True, manifest_format=ALL)
    rows = pq.read_table(folder / "out/manifest.parquet").to_pylist()
    assert [str(row["x"]) for row in rows] == ["nan", "inf", "1.5"]
    assert rows[0]["input"].endswith("\\xff.txt")
    lines = [json.loads(line) for line in (folder / "out/manifest.jsonl").read_text().splitlines()]
    assert [line["x"] for line in lines] == [None, None, 1.5]
    assert lines[0]["input"].endswith(name)


def test_no_rows_at_all(folder: Path):
    """There is a table all the same."""
    empty = write_list(folder / "list.csv", [["input", "label"]])
    Typed(str(empty)).run(folder / "out", workers=0, quiet=True, manifest_format=ALL, audiofolder=True)
    assert pq.read_table(folder / "out/manifest.parquet").column_names[:2] == ["input", "label"]
    assert (folder / "out/manifest.jsonl").read_bytes() == b""
    assert pq.read_table(folder / "out/metadata.parquet").num_rows == 0


# -- --audiofolder -------------------------------------------------------------------------------------------


def test_metadata_lists_the_files_first(listed: Path, folder: Path):
    """Only rows with a file, and no other column that Hugging Face would take for one."""
    rows = [[*row.values(), "x.wav", "y.png"] for row in read_table(listed)]
    write_list(listed, [["input", "label", "old_file_name", "image"], *rows])
    run(listed, audiofolder=True)
    outputs = folder / "outputs"
    with_file = [row for row in read_table(outputs / "manifest.csv") if row["output"]]
    there = read_table(outputs / "metadata.csv")
    assert list(there[0])[:3] == ["file_name", "input", "label"]
    left_out = {"output", "old_file_name", "image"}
    assert there == [
        {"file_name": row["output"], **{key: text for key, text in row.items() if key not in left_out}}
        for row in with_file
    ]


@pytest.mark.parametrize("manifest_format", ["csv", "csv,parquet"])
@pytest.mark.parametrize(
    ("texts", "named"),
    [("--", []), ("a--b", ["0/a", "3/b"])],
    ids=["none has a file", "none in between has one"],
)
def test_metadata_of_rows_without_files(folder: Path, monkeypatch, manifest_format, texts, named):
    """However many of them stand together: it lists the files that there are."""

    class Letter(ProcessorDataset):
        def process(self, input_file):
            text = input_file.read_text()
            return ([] if text == "-" else [OutputFile(text, text)]), {}

    monkeypatch.setattr("splitter.ledger.formats.ROWS_AT_ONCE", 1)
    write_files(folder / "inputs", {f"{number}.txt": text for number, text in enumerate(texts)})
    for _ in range(2):
        manifest = Letter(str(folder / "inputs")).run(
            folder / "out", workers=0, quiet=True, manifest_format=manifest_format, audiofolder=True
        )
    [there] = folder.glob("out/metadata.*")
    table = pq.read_table(there).to_pandas() if there.suffix == ".parquet" else pd.read_csv(there, dtype=str)
    assert table["file_name"].tolist() == named
    assert len(manifest) == len(texts)


def test_a_file_that_somebody_has_put_there_is_left_alone(listed: Path, folder: Path):
    """It is refused before any work; what the run has made itself it replaces."""
    run(listed)
    (folder / "outputs/metadata.csv").write_text("mine")
    before = tree(folder / "outputs")
    with pytest.raises(Refused, match=r"metadata\.csv: already exists, but no run made it; move it away"):
        run(listed, audiofolder=True)
    run(listed)
    assert tree(folder / "outputs") == before
    (folder / "outputs/metadata.csv").unlink()
    run(listed, audiofolder=True)
    run(listed, audiofolder=True)
    assert read_table(folder / "outputs/metadata.csv")


def test_they_are_no_inputs_of_the_next_run(listed: Path, folder: Path):
    """A folder that is listed gives its outputs, not its tables."""
    run(listed, manifest_format=ALL, audiofolder=True)

    class Names(ProcessorDataset):
        def process(self, input_file):
            return [], {}

    manifest = Names(str(folder / "outputs")).run(folder / "next", workers=0, quiet=True)
    outputs = {row["output"] for row in read_table(folder / "outputs/manifest.csv") if row["output"]}
    assert {*manifest["input"]} == outputs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"manifest_format": "csv,xml"},
            "--manifest-format 'csv,xml': 'xml' is unknown; choose from csv, parquet",
        ),
        ({"manifest_format": ""}, "'' is unknown"),
        ({"manifest_format": "csv,parquet", "part": "1/2"}, "use it with 'splitter manifest' at the end"),
        ({"audiofolder": True, "part": "1/2"}, "--audiofolder: cannot be combined with --part"),
    ],
)
def test_what_is_asked_wrongly_is_refused(listed: Path, options, message):
    with pytest.raises(Refused) as caught:
        run(listed, **options)
    assert message in str(caught.value)
    assert not (listed.parent / "outputs").exists()


def test_parts_have_them_made_in_the_end(listed: Path, folder: Path, capfd):
    """Each part makes none; `splitter manifest` makes what it is asked for."""
    for part in ("1/2", "2/2"):
        run(listed, part=part)
    here(capfd, "manifest", folder / "outputs", "--quiet", "--manifest-format", ALL, "--audiofolder")
    in_parts = tree(folder / "outputs")
    run(listed, fresh=True, manifest_format=ALL, audiofolder=True)
    assert tree(folder / "outputs") == in_parts
    assert {"manifest.parquet", "manifest.jsonl", "metadata.parquet"} < {*in_parts}
    assert splitter.read_manifest(folder / "outputs")["size"].sum() > 0


def test_verify_knows_them(listed: Path, folder: Path, capfd):
    """They are no strangers in the folder, and neither is the column `split`; one that is gone is missed."""
    outputs = folder / "outputs"
    run(listed, manifest_format=ALL, audiofolder=True)
    here(capfd, "split", outputs, "--quiet")
    assert here(capfd, "verify", outputs).code == 0
    (outputs / "manifest.jsonl").unlink()
    said = here(capfd, "verify", outputs)
    assert (said.code, "manifest.jsonl: does not exist; 'splitter manifest' makes it again" in said.out) == (
        1,
        True,
    )
    here(capfd, "manifest", outputs, "--quiet")
    assert here(capfd, "verify", outputs).code == 0
