"""Whatever text, name or value goes in comes out as it was, or is one input's error. Property tests."""

import csv
import itertools
import json
import os
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doors import read_table, tree, write_files
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from nightly import depth

from splitter import OutputFile, ProcessorDataset, read_manifest
from splitter.errors import Refused

pytestmark = pytest.mark.slow

OWN = {"output", "size", "checksum", "skipped", "error", "message", "traceback", "attempts", "input"}
LIMITED = settings(max_examples=depth(25))
# Python 3.10's csv module does not read NUL
LEAST = "\0" if sys.version_info >= (3, 11) else "\x01"

# -- tables of text ----------------------------------------------------------------------------------------

ODD = [
    "",
    "007",
    "NA",
    "nan",
    "None",
    "1e5",
    "1_000",
    "=1+1",
    "@SUM(A1)",
    "\r",
    "\n",
    "\r\n",
    "a\rb",
    '"',
    '""',
]
ODD += [
    ",",
    ";",
    "\t",
    " ",
    " x ",
    "'",
    "\\",
    "\\n",
    "#",
    "🎉",
    "👩\u200d🚀",
    "\u2028",
    "\x85",
    "\x1c",
    "\x1a",
]
ODD += ["\ufeff", "é", "e\u0301", "True", "-0", "1.0", LEAST, "x" * 5000, "<td>", "{}", "$(touch x)"]
letters = st.characters(min_codepoint=ord(LEAST), exclude_categories=("Cs",))
cells = st.one_of(st.sampled_from(ODD), st.text(letters, max_size=12))
names = cells.filter(lambda name: name not in OWN and name != "k")


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, str]]:
    """Rows of text with a column `input` somewhere, whose paths are in any order."""
    columns = ["input", *draw(st.lists(names, unique=True, max_size=4))]
    columns = draw(st.permutations(columns))
    # a byte order mark at the very start of a file is no part of the first name
    assume(not columns[0].startswith("\ufeff"))
    paths = draw(st.lists(st.sampled_from([f"{letter}.txt" for letter in "abcdef"]), unique=True, min_size=1))
    return [{name: path if name == "input" else draw(cells) for name in columns} for path in paths]


class Echo(ProcessorDataset):
    """Gives what it was told to give."""

    results: Mapping[str, Any] = {}

    def process(self, input_file):
        return self.results.get(input_file.input, ([], {}))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """A folder with six files."""
    return write_files(
        tmp_path_factory.mktemp("it's naïve"), {f"{letter}.txt": letter for letter in "abcdef"}
    )


@contextmanager
def room() -> Iterator[Path]:
    """A folder for one example."""
    with tempfile.TemporaryDirectory(prefix="splitter test 'é ") as path:
        yield Path(path)


def write_source(door: str, table: list[dict[str, str]], folder: Path) -> Any:
    """The table as one of the sources that a user may have."""
    if door == "dicts":
        return table
    if door == "frame":
        return pd.DataFrame(table)
    path = folder / f"list.{door}"
    if door == "parquet":
        pq.write_table(pa.Table.from_pylist(table), path)
    elif door == "jsonl":
        path.write_text("\n".join(map(json.dumps, table)))
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            dialect = csv.excel_tab if door == "tsv" else csv.excel
            writer = csv.DictWriter(file, list(table[0]), dialect=dialect, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(table)
    return path


def run(source: Any, root: Path, out: Path, results: Mapping[str, Any] | None = None):
    """Run in this process, without a word."""
    dataset = Echo(source)
    dataset.results = results or {}
    return dataset.run(out, root=str(root), workers=0, quiet=True)


@LIMITED
@given(tables(), st.sampled_from(["csv", "csv", "tsv", "jsonl", "parquet", "dicts", "frame"]))
def test_a_table_of_text_comes_back_as_it_went_in(inputs, table, door):
    """Every cell and column name, in dataset order: for Python's csv module, pandas and `read_manifest`."""
    columns = list(table[0])
    expected = [list(row.values()) for row in table]
    with room() as folder:
        returned = run(write_source(door, table, folder), inputs, folder / "out")
        manifest = folder / "out/manifest.csv"
        with manifest.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file, strict=True)
        read = read_manifest(folder / "out")
        # without a header of its own, since pandas gives new names to columns without one
        other = pd.read_csv(manifest, header=None, dtype=str, keep_default_na=False)
    assert header == [*columns, "output", "size", "checksum"]
    assert [row[: len(columns)] for row in rows] == expected
    for frame in (read, returned):
        assert list(frame.columns) == header
        assert frame[columns].to_numpy().tolist() == expected
    assert other.to_numpy().tolist() == [header, *rows]


@LIMITED
@given(tables(), st.data())
def test_metadata_text_comes_back_as_it_went_in(inputs, table, data):
    """Keys and values of metadata are any text; each output's row holds its own and its input's."""
    columns = list(table[0])
    keys = data.draw(
        st.lists(names.filter(bool).filter(lambda name: name not in columns), unique=True, max_size=4)
    )
    own, shared = keys[: len(keys) // 2], keys[len(keys) // 2 :]
    results, expected = {}, []
    for row in table:
        outputs = [{key: data.draw(cells) for key in own} for _ in range(data.draw(st.integers(0, 2)))]
        metadata = {key: data.draw(cells) for key in shared}
        results[row["input"]] = ([OutputFile(metadata=one) for one in outputs], metadata)
        expected += [{**row, **one, **metadata} for one in outputs or [dict.fromkeys(own, "")]]
    seen = [key for key in own if any(results[row["input"]][0] for row in table)]
    with room() as folder:
        returned = run(table, inputs, folder / "out", results)
        rows = read_table(folder / "out/manifest.csv")
    assert returned.failed.empty, returned.failed
    assert list(rows[0]) == [*columns, "output", "size", "checksum", *seen, *shared]
    wanted = [*columns, *seen, *shared]
    assert [{key: row[key] for key in wanted} for row in rows] == [
        {k: row[k] for k in wanted} for row in expected
    ]
    assert returned[wanted].to_dict("records") == [{k: row[k] for k in wanted} for row in expected]


@LIMITED
@given(cells)
@example("boom\r\nboom")
@example('"')
def test_an_error_message_comes_back_as_it_went_in(inputs, message):
    """So does what an exception says, and the reason of a Skip."""

    class Failing(ProcessorDataset):
        def process(self, input_file):
            raise ValueError(message)

    with room() as folder:
        result = Failing(["a.txt"]).run(folder / "out", root=str(inputs), workers=0, quiet=True)
        (row,) = read_table(folder / "out/errors.csv")
    assert result.failed["message"][0] == message
    assert (row["input"], row["error"], row["message"], row["attempts"]) == (
        "a.txt",
        "ValueError",
        message,
        "1",
    )


# -- names of outputs --------------------------------------------------------------------------------------

HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "x/../../y",
    "/etc/x",
    "/",
    "a/b",
    "a/",
    "\0",
    "x\0",
    "\ud800",
    "x" * 300,
    "é" * 128,
]
HOSTILE += ["x" * 256, ".../..", "..\x00", "./x", "~/x", "//x", "x\ud83d", "🎉" * 64]
HARMLESS = [
    "a",
    "...",
    "..x",
    "~",
    "a\\b",
    "C:x",
    "-rf",
    "a\nb",
    "\r",
    "con",
    "nul.txt",
    "x" * 255,
    "é" * 127,
    "*",
]
HARMLESS += [".splitter", "manifest.csv", " ", "\udc80", "%2e%2e%2f", "$(id)", "\u202e", "..\u2024"]


def one_file_can_have(name: str) -> bool:
    """Whether the file system itself takes the name for that of one new file in a folder."""
    with room() as folder:
        (folder / "in").mkdir()
        try:
            with open(f"{folder}/in/{name}", "xb"):
                return os.listdir(folder / "in") == [name] and os.listdir(folder) == ["in"]
        except (OSError, ValueError):
            return False


@LIMITED
@given(st.one_of(st.sampled_from(HOSTILE + HARMLESS), st.text(max_size=300), st.text("./\0x", max_size=8)))
@example("../x")
@example("/tmp/splitter-was-here")
@example("x\0")
@example("x" * 300)
@example("\ud800")
@example("\udc80")
def test_an_output_name_is_one_path_component_or_its_inputs_error(inputs, name):
    """Nothing appears outside the output folder, the input leaves no file, and its neighbours are done."""
    results = {
        letter: ([OutputFile("good", letter), OutputFile(other, "content")], {})
        for letter, other in (("a.txt", "x"), ("b.txt", name), ("c.txt", "x"))
    }
    fine = one_file_can_have(name)
    # "good" twice is an error too
    assume(name.casefold() != "good")
    with room() as folder:
        result = run(sorted(results), inputs, folder / "out", results)
        assert os.listdir(folder) == ["out"]
        found = tree(folder / "out")
        assert not list((folder / "out/.splitter/staging").iterdir())
    files = {f"{letter}/{other}" for letter in "ac" for other in ("good", "x")}
    if fine:
        assert set(found) == files | {"manifest.csv", "b/good", f"b/{name}"}
        assert found[f"b/{name}"] == b"content"
        assert list(result["output"])[2:4] == ["b/good", f"b/{name}"]
    else:
        assert set(found) == files | {"manifest.csv", "errors.csv"}
        assert list(result.failed["input"]) == ["b.txt"]
        assert list(result.failed["error"]) == ["BadResult"]
        assert "output name" in result.failed["message"][0]
    assert not os.path.exists("/tmp/splitter-was-here")


@pytest.mark.parametrize("name", [None, 7, b"x", Path("x"), ("x",)])
def test_an_output_name_is_text(inputs, tmp_path, name):
    """A name that is no text is its input's error."""
    result = run(["a.txt"], inputs, tmp_path / "out", {"a.txt": ([OutputFile(name, "x")], {})})
    assert "output name" in result.failed["message"][0]
    assert set(tree(tmp_path / "out")) == {"manifest.csv", "errors.csv"}


# -- names that are one name to some file systems ----------------------------------------------------------

TRICKY = "aAbBéÉßẞsSiIİkKÅåǅǆςΣᾳᾼΐΰﬁfŉn\u017f\u0131\u212a\u03c3\u02bc\u0301\u0300\u0345\u0323"


def strictly(name: str) -> str:
    """Equal for names that are a canonical caseless match (Unicode, D145), so that a disk may mix them up."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def loosely(name: str) -> str:
    """Different only for names that no disk mixes up."""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())


def variants(name: str) -> list[str]:
    forms = [name, name.upper(), name.lower(), name.swapcase(), name.casefold(), name.title()]
    return [unicodedata.normalize(form, one) for form in ("NFC", "NFD") for one in forms] + forms


alike = st.one_of(st.text(TRICKY, min_size=1, max_size=4), st.text(letters, min_size=1, max_size=4)).flatmap(
    lambda name: st.lists(
        st.sampled_from(variants(name)) | st.text(TRICKY, min_size=1, max_size=3), max_size=4
    )
)


def expectation(names: list[str]) -> bool | None:
    """Whether all names must be taken (True), must be refused (False), or may be either."""
    if len({strictly(name) for name in names}) < len(names):
        return False
    return True if len({loosely(name) for name in names}) == len(names) else None


@settings(max_examples=depth(40))
@given(alike.filter(lambda names: all(map(one_file_can_have, names))))
def test_output_names_that_some_disks_take_for_one_never_overwrite_each_other(inputs, names):
    """Either each output is there with its own content, or the input failed and left nothing."""
    outputs = [OutputFile(name, f"{number}") for number, name in enumerate(names)]
    with room() as folder:
        result = run(["a.txt"], inputs, folder / "out", {"a.txt": (outputs, {})})
        found = {name: text for name, text in tree(folder / "out").items() if name.startswith("a/")}
    wanted = expectation(names)
    if result.failed.empty:
        assert wanted is not False
        assert found == {f"a/{name}": str(number).encode() for number, name in enumerate(names)}
    else:
        assert wanted is not True
        assert "twice" in result.failed["message"][0]
        assert found == {}


@settings(max_examples=depth(40))
@given(alike.filter(lambda names: all(map(one_file_can_have, names))), st.booleans())
def test_inputs_that_some_disks_take_for_one_are_refused(names, keep_extension):
    """Either each input's outputs are in a folder of their own, or the list is refused before work."""
    # what is before the last dot names the folder; a name that starts with one has no extension
    assume("." not in "".join(names))
    with room() as folder:
        (folder / "in").mkdir()
        for number, name in enumerate(names):
            (folder / "in" / name).write_text(str(number))
        wanted = expectation(names)
        try:
            Copy(names).run(
                folder / "out", root=str(folder / "in"), workers=0, quiet=True, keep_extension=keep_extension
            )
        except Refused:
            assert wanted is not True
            assert tree(folder / "out") == {}
        else:
            assert wanted is not False
            found = tree(folder / "out")
            del found["manifest.csv"]
            assert found == {f"{name}/copy": str(number).encode() for number, name in enumerate(names)}


class Copy(ProcessorDataset):
    """The input's own content as its one output."""

    def process(self, input_file):
        return [OutputFile("copy", input_file.read_bytes())], {}


# -- values and their types --------------------------------------------------------------------------------

VALUES: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1), st.integers()),
    float: st.floats(),
    str: cells,
}


@settings(max_examples=depth(40))
@given(st.sampled_from([bool, int, float, str]), st.data())
def test_values_come_back_with_their_type(inputs, kind, data):
    """A column of bool, int, float or str, with None where there is no value, is read as what it was."""
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=5))
    results = {"a.txt": ([OutputFile(metadata={"k": value}) for value in values], {})}
    with room() as folder:
        column = run(["a.txt"], inputs, folder / "out", results)["k"]
        assert column.equals(read_manifest(folder / "out")["k"])
    missing = None in values
    if kind is str or set(values) == {None}:
        assert list(column) == ["" if value is None else value for value in values]
        return
    assert list(column.isna()) == [value is None or value != value for value in values]  # noqa: PLR0124
    back = [value for value in column.tolist() if not pd.isna(value)]
    assert back == [value for value in values if value is not None and value == value]  # noqa: PLR0124
    assert {type(value) for value in back} <= {kind}
    if kind is int and any(value is not None and not -(2**63) <= value < 2**63 for value in values):
        assert column.dtype == object
    else:
        expected = {bool: ["bool", "boolean"], int: ["int64", "Int64"], float: ["float64"] * 2}[kind][missing]
        assert column.dtype == expected


@LIMITED
@given(
    st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), cells), min_size=1, max_size=4)
)
def test_values_of_different_types_are_numbers_or_text(inputs, values):
    """An int with a float is a float, any other mixture text, however values are spread over inputs."""
    paths = [f"{letter}.txt" for letter in "abcd"][: len(values)]
    kinds = {type(value) for value in values} - {type(None)}
    assume(len(kinds) > 1)
    with room() as folder:
        results = {path: ([], {"k": value}) for path, value in zip(paths, values, strict=True)}
        apart = run(paths, inputs, folder / "apart", results)["k"]
        outputs = [OutputFile(metadata={"k": value}) for value in values]
        together = run(["a.txt"], inputs, folder / "together", {"a.txt": (outputs, {})})["k"]
    assert apart.equals(together)
    if kinds == {int, float}:
        assert apart.dtype == "float64"
        numbers = [float("nan") if value is None else float(str(value)) for value in values]
        np.testing.assert_array_equal(apart.to_numpy(), numbers)
    else:
        assert list(apart) == ["" if value is None else str(value) for value in values]


SCALARS = [
    np.int64(-7),
    np.uint8(255),
    np.float32(0.5),
    np.float64(0.1),
    np.bool_(True),
    np.str_("x"),
    Path("a/b"),
]


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_values_of_other_libraries(inputs, tmp_path, value):
    """A NumPy or torch scalar is the Python value it holds, a Path its text."""
    plain = str(value) if isinstance(value, Path) else value.item()
    column = run(["a.txt"], inputs, tmp_path / "out", {"a.txt": ([], {"k": value})})["k"]
    assert column.tolist() == [plain]
    assert type(column.tolist()[0]) is type(plain)


def test_a_tensor_of_one_value(inputs, tmp_path):
    """A 0-dimensional tensor is a number."""
    import torch

    column = run(["a.txt"], inputs, tmp_path / "out", {"a.txt": ([], {"k": torch.tensor(3)})})["k"]
    assert column.tolist() == [3]


UNSUPPORTED = [
    [1],
    (1,),
    {"a": 1},
    {1},
    b"x",
    1j,
    object(),
    print,
    np.zeros(2),
    pd.Timestamp(0),
    10**5000,
    "\ud800",
]


@pytest.mark.parametrize("value", UNSUPPORTED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("where", ["output", "input"])
def test_a_value_that_the_manifest_cannot_hold_is_its_inputs_error(inputs, tmp_path, value, where):
    """Named by its key; the inputs before and after it in the batch are done, with their own rows only."""
    bad = {"fine": 1, "k": value}
    result_of_b = (
        ([OutputFile("0", "x", {"fine": 0}), OutputFile("1", "x", bad)], {})
        if where == "output"
        else ([OutputFile("0", "x")], bad)
    )
    results = {"a.txt": ([], {}), "b.txt": result_of_b, "c.txt": ([OutputFile("0", "x")], {"fine": 2})}
    manifest = run(sorted(results), inputs, tmp_path / "out", results)
    assert list(manifest["input"]) == ["a.txt", "c.txt"]
    assert list(manifest.failed["input"]) == ["b.txt"]
    assert "'k'" in manifest.failed["message"][0]
    assert set(tree(tmp_path / "out")) == {"manifest.csv", "errors.csv", "c/0"}


@pytest.mark.parametrize("key", ["", 7, None, ("a",), "\ud800"], ids=repr)
@pytest.mark.parametrize("where", ["output", "input"])
def test_a_key_that_is_no_name_is_its_inputs_error(inputs, tmp_path, key, where):
    """A key must be text that can name a column."""
    bad = ([OutputFile(metadata={key: 1})], {}) if where == "output" else ([], {key: 1})
    manifest = run(["a.txt", "b.txt"], inputs, tmp_path / "out", {"a.txt": bad})
    assert list(manifest["input"]) == ["b.txt"]
    assert "metadata key" in manifest.failed["message"][0]


@pytest.mark.parametrize("where", ["output", "input"])
def test_a_key_never_hides_a_column(inputs, tmp_path, where):
    """A metadata key that is a dataset column, or one of the manifest's own, never overwrites it."""
    for key in ("label", *sorted(OWN)):
        bad = ([OutputFile(metadata={key: 1})], {}) if where == "output" else ([], {key: 1})
        rows = [{"input": "a.txt", "label": "mine"}, {"input": "b.txt", "label": "ours"}]
        manifest = run(rows, inputs, tmp_path / key, {"a.txt": bad})
        assert manifest[["input", "label"]].to_dict("records") == rows[1:]
        assert list(manifest.failed["label"]) == ["mine"]
        assert repr(key) in manifest.failed["message"][0]
    assert (
        "--rename label="
        in run(rows, inputs, tmp_path / "x", {"a.txt": ([], {"label": 1})}).failed["message"][0]
    )


def test_a_key_has_one_place(inputs, tmp_path):
    """The same key for an output and for the input is an error, since one column cannot hold both."""
    both = ([OutputFile(metadata={"k": 1})], {"k": 2})
    assert "'k'" in run(["a.txt"], inputs, tmp_path / "out", {"a.txt": both}).failed["message"][0]


# -- declared types ----------------------------------------------------------------------------------------


class Declared(Echo):
    """Says what the types of its metadata are."""

    metadata_types = {"whole": int, "real": float, "text": str, "flag": bool}  # noqa: RUF012


def declared(inputs: Path, out: Path, **metadata: Any):
    dataset = Declared(["a.txt"])
    dataset.results = {"a.txt": ([], metadata)}
    return dataset.run(out, root=str(inputs), workers=0, quiet=True)


def test_declared_types_hold_whatever_the_values(inputs, tmp_path):
    """Any value may become text and an int a float; a column without any value has that type too."""
    manifest = declared(inputs, tmp_path / "1", whole=3, real=1, text=7, flag=True)
    assert manifest[["whole", "real", "text", "flag"]].to_dict("records") == [
        {"whole": 3, "real": 1.0, "text": "7", "flag": True}
    ]
    assert [str(manifest[key].dtype) for key in ("whole", "real", "flag")] == ["int64", "float64", "bool"]
    manifest = declared(inputs, tmp_path / "2", whole=None, real=None, text=None, flag=None)
    assert [str(manifest[key].dtype) for key in ("whole", "real", "flag")] == ["Int64", "float64", "boolean"]
    assert manifest["whole"].isna().all()
    assert list(manifest["text"]) == [""]


@pytest.mark.parametrize(
    ("key", "value"),
    [("whole", 3.5), ("whole", "x"), ("real", "x"), ("whole", "3"), ("flag", "False"), ("flag", 2)],
)
def test_a_value_that_is_not_of_its_declared_type(inputs, tmp_path, key, value):
    """Nothing else is converted, since that could lose something: it is the input's error."""
    (message,) = declared(inputs, tmp_path / "out", **{key: value}).failed["message"]
    assert repr(key) in message
    assert repr(value) in message


def test_a_declared_type_that_metadata_cannot_have(inputs, tmp_path):
    """It is refused before work."""

    class Wrong(Echo):
        metadata_types = {"k": list}  # noqa: RUF012

    with pytest.raises(Refused, match="'k'"):
        Wrong(["a.txt"]).run(tmp_path / "out", root=str(inputs), workers=0)


def test_metadata_alone_makes_no_file(inputs, tmp_path):
    """An output without content is a row with an empty `output`, and no file."""
    results = {
        "a.txt": ([OutputFile(metadata={"n": n}) for n in range(3)], {"who": "a"}),
        "b.txt": ([], {"who": "b"}),
    }
    manifest = run(["a.txt", "b.txt", "c.txt"], inputs, tmp_path / "out", results)
    rows = [
        (row["input"], row["output"], row["n"], row["who"])
        for row in read_table(tmp_path / "out/manifest.csv")
    ]
    assert rows == [
        *(("a.txt", "", str(n), "a") for n in range(3)),
        ("b.txt", "", "", "b"),
        ("c.txt", "", "", ""),
    ]
    assert str(manifest["n"].dtype) == "Int64"
    assert str(manifest["size"].dtype) == "Int64"
    assert set(tree(tmp_path / "out")) == {"manifest.csv"}


def test_columns_stand_in_the_order_in_which_the_dataset_meets_them(inputs, tmp_path):
    """Per-output keys, then per-input keys, then `skipped`: whatever an input leaves out is empty."""
    results = {
        "a.txt": ([OutputFile(metadata={"b": 1})], {"z": 1}),
        "b.txt": ([OutputFile(metadata={"a": 2, "b": 2})], {"y": 2, "z": 2}),
        "c.txt": ([], {"x": 3}),
    }
    orders = set()
    for number, order in enumerate(itertools.permutations(results)):
        manifest = run(list(order), inputs, tmp_path / str(number), results)
        assert list(manifest["input"]) == list(order)
        orders.add(tuple(manifest.columns[4:]))
        assert manifest.set_index("input").loc["b.txt", ["a", "b", "y", "z"]].tolist() == [2, 2, 2, 2]
    assert ("b", "a", "z", "y", "x") in orders
    assert ("a", "b", "y", "z", "x") in orders
