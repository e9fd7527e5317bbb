"""manifest.csv and errors.csv, as they are written and as they are read."""

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from doors import here, read_table, run_words, tree, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter import InputFile, OutputFile, ProcessorDataset, read_manifest
from splitter.dataset import Result
from splitter.errors import Refused
from splitter.ledger.manifest import ManifestTables
from splitter.storage.checked_file import sealed

# -- what comes out, against another way to work it out --------------------------------------------------


class Described(ProcessorDataset):
    """Gives the metadata that its inputs hold, with a file for every second output."""

    def process(self, input_file: InputFile) -> Result:
        what = json.loads(input_file.columns["what"])
        outputs = [
            OutputFile(f"{number}.txt", str(number) if number % 2 else None, metadata)
            for number, metadata in enumerate(what["outputs"])
        ]
        return outputs, what["metadata"]


keys = st.sampled_from(["a", "b", "c", "d e", "é"])
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["", "x,y", "\r", "1"]),
)
metadata = st.dictionaries(keys, values, max_size=3)


@st.composite
def described(draw: st.DrawFn) -> dict[str, Any]:
    outputs = draw(st.lists(metadata, max_size=3))
    taken = {key for own in outputs for key in own}
    return {"outputs": outputs, "metadata": {k: v for k, v in draw(metadata).items() if k not in taken}}


@settings(max_examples=depth(50))
@given(
    inputs=st.lists(described(), max_size=6),
    sizes=st.lists(st.sampled_from([0, 1, 100_000, 300_000]), min_size=6, max_size=6),
    batch_size=st.sampled_from([None, 1, 2, 3]),
)
def test_rows_and_columns_come_in_the_order_of_the_list(
    tmp_path_factory: pytest.TempPathFactory,
    inputs: list[dict[str, Any]],
    sizes: list[int],
    batch_size: int | None,
):
    """Each key where it is first seen, all values as they were given, whatever the batches were."""
    folder = tmp_path_factory.mktemp("keys")
    names = [f"{number}.txt" for number in range(len(inputs))]
    # the largest are processed first
    write_files(folder, {name: b" " * size for name, size in zip(names, sizes, strict=False)})
    rows = [
        {"input": str(folder / name), "what": json.dumps(what)}
        for name, what in zip(names, inputs, strict=True)
    ]
    if not rows:
        return
    manifest = Described(rows).run(folder / "outputs", workers=0, batch_size=batch_size, quiet=True)
    header, expected = by_hand(inputs)
    with (folder / "outputs" / "manifest.csv").open(newline="", encoding="utf-8") as file:
        found_header, *found = csv.reader(file, strict=True)
    assert found_header == ["input", "what", "output", "size", "checksum", *header]
    assert [row[5:] for row in found] == [[as_text(row.get(key)) for key in header] for row in expected]
    assert len(manifest) == len(expected)
    for key in header:
        found_values = [None if pd.isna(value) else value for value in manifest[key]]
        assert found_values == typed([row.get(key) for row in expected])


def by_hand(inputs: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """The metadata's columns, and the metadata of each row."""
    of_outputs: dict[str, None] = {}
    of_inputs: dict[str, None] = {}
    rows = []
    for what in inputs:
        for own in what["outputs"]:
            of_outputs.update({key: None for key in own if key not in of_inputs})
        of_inputs.update({key: None for key in what["metadata"] if key not in of_outputs})
        rows += [{**own, **what["metadata"]} for own in what["outputs"] or [{}]]
    return [*of_outputs, *of_inputs], rows


def as_text(value: Any) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def typed(values: list[Any]) -> list[Any]:
    """Numbers and truth values are that again, and missing where there is none; what is mixed is text."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds not in ({int}, {bool}, {float}, {int, float}):
        return [as_text(value) for value in values]
    numbers = [float(value) if float in kinds and value is not None else value for value in values]
    return [None if number != number else number for number in numbers]  # noqa: PLR0124 - not a number


# -- what comes out in special cases ---------------------------------------------------------------------


def test_keys_of_an_input_stand_in_the_order_in_which_its_outputs_brought_them(folder: Path):
    what = {"outputs": [{"a": 1}, {"b": 1}, {"a": 1, "c": 2}, {"b": 2}], "metadata": {}}
    write_files(folder, {"x.txt": ""})
    manifest = Described([{"input": str(folder / "x.txt"), "what": json.dumps(what)}]).run(
        folder / "outputs", workers=0, quiet=True
    )
    assert [*manifest.columns][5:] == ["a", "b", "c"]


@pytest.mark.parametrize("rows", [[], [["missing.txt", "x"]]])
def test_a_manifest_without_rows_has_its_header(folder: Path, capfd, rows: list[list[str]]):
    """The list is empty, or all its inputs failed."""
    dataset = write_list(folder / "dataset.csv", [["input", "label"], *rows])
    (folder / "inputs").mkdir()
    assert run_words(capfd, dataset).code == len(rows)
    text = (folder / "outputs" / "manifest.csv").read_text()
    assert text == "input,label,output,size,checksum\n"
    assert read_manifest(folder / "outputs").empty
    assert (folder / "outputs" / "errors.csv").exists() == bool(rows)


def test_errors_csv_goes_when_nothing_fails_any_more(folder: Path, capfd):
    dataset = write_list(folder / "dataset.csv", [["input"], ["a.txt"]])
    (folder / "inputs").mkdir()
    assert run_words(capfd, dataset).code == 1
    assert [row["input"] for row in read_table(folder / "outputs" / "errors.csv")] == ["a.txt"]
    write_files(folder / "inputs", {"a.txt": "word"})
    assert run_words(capfd, dataset).code == 0
    assert not (folder / "outputs" / "errors.csv").exists()
    assert {row["input"] for row in read_table(folder / "outputs" / "manifest.csv")} == {"a.txt"}


def test_a_manifest_with_other_types_is_gone_before_these_are_noted(folder: Path, monkeypatch):
    """A run that dies before it has written its own leaves none that cannot be read."""
    write_files(folder, {"a.txt": "", "b.txt": ""})
    whats = [{"outputs": [{}], "metadata": {"count": count}} for count in (1, "many")]
    rows = [
        {"input": name, "what": json.dumps(what)}
        for name, what in zip(("a.txt", "b.txt"), whats, strict=True)
    ]
    options: dict[str, Any] = {"root": str(folder), "workers": 0, "quiet": True}
    assert [*Described(rows[:1]).run(folder / "outputs", **options)["count"]] == [1]
    with monkeypatch.context() as patched:
        patched.setattr(ManifestTables, "rows", lambda _: sys.exit(9))
        with pytest.raises(SystemExit):
            Described(rows).run(folder / "outputs", **options)
    assert not (folder / "outputs/manifest.csv").exists()
    assert [*Described(rows).run(folder / "outputs", **options)["count"]] == ["1", "many"]


def test_a_manifest_of_a_limited_run_stays_as_it_is(folder: Path, capfd):
    """What a change has made old, and a limit has left for later, has no row when it is made again."""
    write_files(folder / "inputs", {"a.txt": "one", "b.txt": "two"})
    dataset = write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"]])
    assert run_words(capfd, dataset).code == 0
    assert run_words(capfd, dataset, "--num-chars=3", "--overlap=2", "--limit=1").code == 0
    made = (folder / "outputs/manifest.csv").read_bytes()
    assert {row["input"] for row in read_table(folder / "outputs/manifest.csv")} == {"a.txt"}
    said = here(capfd, "manifest", folder / "outputs")
    assert (said.code, "1 waiting to be redone after a change" in said.err) == (1, True)
    assert (folder / "outputs/manifest.csv").read_bytes() == made


@pytest.mark.parametrize("text", ['"', 'a"b', "\r", "a\rb", ",", "\n", "\r\n", "plain"])
def test_a_field_that_needs_quotes(folder: Path, text: str):
    """Each kind by itself: what has none of them is written in a quicker way."""

    class Says(ProcessorDataset):
        def process(self, input_file: InputFile) -> Result:
            said = input_file.read_bytes().decode()
            return [OutputFile("0.txt", "0", {"own": said})], {"shared": said}

    path = write_files(folder, {"a.txt": text}) / "a.txt"
    Says([str(path)]).run(folder / "outputs", root=str(folder), workers=0, quiet=True)
    (row,) = read_table(folder / "outputs/manifest.csv")
    assert (row["own"], row["shared"]) == (text, text)


def test_nothing_failed_has_the_columns_of_failures(folder: Path):
    """What is asked of the failures can be asked of a clean run, too; also before all parts are done."""

    class Numbers(ProcessorDataset):
        def process(self, input_file):
            return [], {"number": int(input_file.read_text())}

    def run(text: str, **options):
        write_files(folder, {"a.txt": text})
        rows = [{"input": str(folder / "a.txt"), "label": "x"}]
        return Numbers(rows).run(folder / "out", workers=0, quiet=True, **options)

    some, none = run("no number").failed, run("7").failed
    assert (len(some), len(none)) == (1, 0)
    assert some.columns.equals(none.columns)
    assert some.dtypes.equals(none.dtypes)
    assert read_manifest(folder / "out").failed["message"].tolist() == []
    part = run("7", part="1/1")
    assert part.failed["message"].tolist() == part["output"].tolist() == []


def test_a_new_column_is_never_filled_from_metadata_of_the_same_name(folder: Path):
    """An input that cannot be read keeps what it had before the list had that column."""
    write_files(folder, {"x.txt": "", "y.txt": ""})
    what = json.dumps({"outputs": [{"part": 1}], "metadata": {"speaker": "from metadata"}})
    rows = [{"input": str(folder / name), "what": what} for name in ("x.txt", "y.txt")]
    Described(rows).run(folder / "outputs", workers=0, quiet=True)
    rows = [{**row, "speaker": "from the list"} for row in rows]
    (folder / "y.txt").unlink()
    manifest = Described(rows).run(folder / "outputs", workers=0, quiet=True)
    assert "would hide the dataset column" in manifest.failed["message"][0]
    assert [*manifest.columns] == ["input", "what", "speaker", "output", "size", "checksum", "part"]
    assert [(row["input"][-5:], row["speaker"], row["part"]) for _, row in manifest.iterrows()] == [
        ("y.txt", "", 1)
    ]


def test_new_metadata_is_never_filled_from_a_column_of_the_same_name(folder: Path):
    """Which the list had when an input that cannot be read now was done."""
    write_files(folder, {"x.txt": "", "y.txt": ""})
    what = json.dumps({"outputs": [], "metadata": {}})
    rows = [{"input": str(folder / name), "what": what, "count": "many"} for name in ("x.txt", "y.txt")]
    Described(rows).run(folder / "outputs", workers=0, quiet=True)
    what = json.dumps({"outputs": [], "metadata": {"count": 7}})
    rows = [{"input": row["input"], "what": what} for row in rows]
    (folder / "y.txt").unlink()
    manifest = Described(rows).run(folder / "outputs", workers=0, quiet=True)
    assert [*manifest.columns] == ["input", "what", "output", "size", "checksum", "count"]
    assert manifest["count"][0] == 7
    assert pd.isna(manifest["count"][1])


class Fleeting(Described):
    """While it is at its first input another one goes away."""

    def process(self, input_file: InputFile) -> Result:
        result = super().process(input_file)
        if input_file.path.name == "x.txt":
            input_file.path.with_name("y.txt").unlink()
        input_file.read_bytes()
        return result


def test_an_input_that_goes_away_during_the_run_keeps_what_it_had(folder: Path):
    """It has changed, and was there when the run looked at all inputs."""
    what = {"outputs": [{"part": 1}, {"part": 2}], "metadata": {}}
    rows = [{"input": str(folder / name), "what": json.dumps(what)} for name in ("x.txt", "y.txt")]
    write_files(folder, {"x.txt": "before", "y.txt": "before"})
    Described(rows).run(folder / "outputs", workers=0, quiet=True)
    before = tree(folder / "outputs")
    what["outputs"].append({"part": 3})
    rows = [{**row, "what": json.dumps(what)} for row in rows]
    manifest = Fleeting(rows).run(folder / "outputs", workers=0, quiet=True, batch_size=2)
    assert manifest.summary.exit_code == 1
    assert manifest.summary.unreadable_names == [str(folder / "y.txt")]
    assert [(row["input"][-5:], row["part"]) for _, row in manifest.iterrows()] == [
        *(("x.txt", part) for part in (1, 2, 3)),
        *(("y.txt", part) for part in (1, 2)),
    ]
    kept = next(name for name in before if name.endswith("y/1.txt"))
    assert tree(folder / "outputs")[kept] == before[kept]


def test_what_cannot_be_read_now_keeps_its_row_though_the_list_has_other_columns(folder: Path, capfd):
    """An unmounted disk deletes nothing; the row says what it said when the input was done."""
    write_files(folder / "inputs", {"a.txt": "simple", "b.txt": "other"})
    dataset = write_list(folder / "dataset.csv", [["label", "input"], ["x", "a.txt"], ["y", "b.txt"]])
    assert run_words(capfd, dataset).code == 0
    before = tree(folder / "outputs")
    (folder / "inputs" / "a.txt").unlink()
    write_list(dataset, [["input", "more", "label"], ["a.txt", "m", "new x"], ["b.txt", "n", "new y"]])
    said = run_words(capfd, dataset)
    assert said.code == 1
    assert "a.txt" in said.err
    rows = read_table(folder / "outputs" / "manifest.csv")
    labels = [(row["input"], row["more"], row["label"]) for row in rows]
    assert sorted({*labels}) == [("a.txt", "", "x"), ("b.txt", "n", "new y")]
    after = tree(folder / "outputs")
    assert {name: after[name] for name in before if name.startswith("a/")} == {
        name: content for name, content in before.items() if name.startswith("a/")
    }


# -- reading a manifest that somebody has been at --------------------------------------------------------


@pytest.fixture
def finished(folder: Path) -> Path:
    """The output folder of a run with numbers, truth values, and a failed input."""
    # the second output is a file
    what = {"outputs": [{"n": 1, "x": 0.5, "ok": True}] * 2, "metadata": {}}
    write_files(folder, {"x.txt": ""})
    rows = [{"input": str(folder / "x.txt"), "what": json.dumps(what)}, {"input": "gone.txt", "what": ""}]
    Described(rows).run(folder / "outputs", workers=0, quiet=True)
    return folder / "outputs"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "is empty; run again"),
        (lambda text: "a,b\n1,2\n", "has no column 'output', so it is not a manifest"),
        (lambda text: text.replace(",", ";"), "has no column 'output'"),
        (lambda text: text.encode("utf-16"), "has no column 'output'"),
        (lambda text: text[:-9], "line 3 has "),
        (lambda text: text + "more,\n", "line 4 has 2 columns where the first line has 8"),
        (lambda text: text + '"never closed\n', "is not CSV"),
        (lambda text: text.replace("checksum,n", "checksum,x"), "has two columns 'x'"),
        (
            lambda text: text.replace(",1,0.5", ",one,0.5"),
            "column 'n' has 'one' where a whole number is expected",
        ),
        (lambda text: text.replace(",0.5,", ',"0,5",'), "column 'x' has '0,5' where a number is expected"),
        (lambda text: text.replace(",True", ",yes"), "column 'ok' has 'yes' where True or False is expected"),
        (
            lambda text: text.replace(",1,xxh", ",1 kB,xxh"),
            "column 'size' has '1 kB' where a whole number is expected",
        ),
    ],
)
def test_a_manifest_that_is_none(finished: Path, change, message):
    """One line that names the file, and the line or the column."""
    path = finished / "manifest.csv"
    text = change(path.read_text())
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Refused) as caught:
        read_manifest(finished)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert message in said
    assert "\n" not in said


@pytest.mark.parametrize("name", ["errors.csv", ".splitter/schema.json"])
def test_what_stands_beside_a_manifest_is_damaged(finished: Path, name):
    """It is named as well."""
    (finished / name).write_text("[")
    with pytest.raises(Refused, match=f"^{finished / name}: "):
        read_manifest(finished)


def test_a_manifest_that_was_edited_or_moved(finished: Path, tmp_path):
    """A byte order mark, line ends, capitals and empty lines of other programs do not matter."""
    whole = read_manifest(finished)
    path = finished / "manifest.csv"
    text = path.read_text()
    path.write_text("\ufeff" + text.replace("True", "TRUE").replace("\n", "\r\n") + "\r\n", newline="")
    assert read_manifest(finished).equals(whole)
    assert read_manifest(os.fsencode(path)).equals(whole)
    (tmp_path / "copied elsewhere.csv").write_text(text)
    copied = read_manifest(tmp_path / "copied elsewhere.csv")
    assert copied.astype(str).equals(whole.astype(str))
    assert copied["n"].tolist() == ["1", "1"]
    assert copied["size"].tolist() == whole["size"].tolist()
    assert copied.failed.empty
    path.write_bytes(text.encode().replace(b"x.txt", b"\xff.txt"))
    assert read_manifest(finished)["input"][0].endswith("\udcff.txt")
    path.write_bytes(text.encode().replace(b"input", b"input,\xff", 1).replace(b"x.txt", b"x.txt,7"))
    assert read_manifest(finished)["\udcff"].tolist() == ["7", "7"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (None, "read_manifest: None is of type NoneType"),
        (7, "read_manifest: 7 is of type int"),
        ("memory://no/run", "memory://no/run/manifest.csv: there is no manifest"),
        ("a\0b", "cannot be a file"),
        ("/nowhere/manifest.csv", "/nowhere/manifest.csv: there is no manifest; pass the output folder"),
        (".", "/manifest.csv: there is no manifest"),
    ],
)
def test_a_manifest_that_is_not_there(tmp_path, monkeypatch, path, message):
    """Whatever is given in its place."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused) as caught:
        read_manifest(path)
    assert message in str(caught.value)


def test_a_note_of_stale_inputs_without_inputs_is_nothing(words, capfd):
    """No run writes one; a stranger's folder may have it."""
    assert run_words(capfd, words).code == 0
    output = words.parent / "outputs"
    manifest = (output / "manifest.csv").read_bytes()
    (output / ".splitter" / "stale").write_bytes(sealed({"inputs": 0}, b""))
    assert here(capfd, "manifest", output).code == 0
    assert (output / "manifest.csv").read_bytes() == manifest
