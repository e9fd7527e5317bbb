"""Several lists, labels from another file, and labels from folders: before any work, and by name."""

import os
from pathlib import Path

import pandas as pd
import pytest
from doors import here, read_table, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from torch.utils.data import Dataset

from splitter import InputFile, InputList, ProcessorDataset, run
from splitter.errors import Refused
from splitter.inputs.reading import read_source


class Nothing(ProcessorDataset):
    """Makes no outputs."""

    def process(self, input_file: InputFile):
        return (), {"size_of_it": input_file.path.stat().st_size}


def rows_of(source: object, output: Path, **options: object) -> pd.DataFrame:
    return run(Nothing(source), output, workers=1, quiet=True, **options)


def table_of(listing: InputList) -> pd.DataFrame:
    """What a list comes to, without a run."""
    found = read_source(listing)
    return pd.DataFrame([*found.rows], columns=found.header, dtype=str)


@pytest.fixture
def out(folder: Path) -> Path:
    return folder / "out"


# -- labels -----------------------------------------------------------------------------------------------

keys = st.text("ab\u0131 ,\"'7", max_size=2)


@settings(max_examples=depth(25))
@given(
    left=st.lists(st.tuples(st.integers(0, 99), keys), unique_by=lambda row: row[0], min_size=1, max_size=8),
    right=st.dictionaries(keys, st.tuples(keys, keys), max_size=6),
    back=st.booleans(),
)
def test_a_join_is_what_pandas_makes_of_it(left, right, back):
    """Rows keep their order; what has no labels has empty ones; the order of the file does not count."""
    rows = [(f"{number}.wav", key) for number, key in left]
    list_of = pd.DataFrame(rows, columns=["input", "key"], dtype=str)
    labels = pd.DataFrame([(k, *v) for k, v in right.items()], columns=["id", "x", "y"], dtype=str)
    labels = labels.iloc[::-1] if back else labels
    expected = list_of.merge(labels, how="left", left_on="key", right_on="id").drop(columns="id").fillna("")
    fits = list_of["key"].isin(labels["id"])
    listing = InputList(list_of, labels=labels, on="key=id")
    if not fits.any():
        with pytest.raises(Refused, match="labels: no row belongs to an input"):
            table_of(listing)
        return
    found = read_source(listing)
    rows = [*found.rows]
    assert pd.DataFrame(rows, columns=found.header, dtype=str).equals(expected.astype(str))
    tally = found.reading.tally
    assert tally.unlabelled == (~fits).sum()
    assert tally.unused == (~labels["id"].isin(list_of["key"])).sum()


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_labels_from_a_file(capfd, folder, out, kind):
    """Of each kind; misfits on both sides are counted and named, and are done all the same."""
    write_files(folder, {"a.txt": "a", "b.txt": "b", "c.txt": "c"})
    table = pd.DataFrame({"file": ["c.txt", "a.txt", "z.txt"], "n": ["007", "x,y", "-"]})
    path = folder / f"labels.{kind}"
    if kind == "parquet":
        table.to_parquet(path)
    elif kind == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, sep="\t" if kind == "tsv" else ",", index=False)
    dataset = write_list(folder / "l.csv", [["input"], ["a.txt"], ["b.txt"], ["c.txt"]])
    arguments = ("run", dataset, "--recipe", "words", "--workers", "1", "-o", out)
    said = here(capfd, *arguments, "--labels", path, "--on", "input=file")
    assert said.code == 0, said.err
    assert {(row["input"], row["n"]) for row in read_table(out / "manifest.csv")} == {
        ("a.txt", "x,y"),
        ("b.txt", ""),
        ("c.txt", "007"),
    }
    assert "note: 1 input without labels: b.txt" in said.lines
    assert "note: 1 row of --labels without an input: z.txt" in said.lines
    assert "3 of 3 inputs done, 1 input without labels, 1 row of --labels without an input;" in said.err


def test_labels_that_change(folder, out):
    """That input is done again, and no other."""
    write_files(folder, {"a.txt": "a", "b.txt": "b"})
    labels = {"a.txt": "one", "b.txt": "two"}

    def done(labels: dict[str, str]) -> int:
        rows = write_list(folder / "labels.csv", [["input", "n"], *labels.items()])
        manifest = rows_of(["a.txt", "b.txt"], out, root=str(folder), labels=rows)
        assert list(manifest["n"]) == list(labels.values())
        return manifest.summary.work.inputs

    assert [done(labels), done(labels), done({**labels, "b.txt": "three"})] == [2, 0, 1]


@pytest.mark.parametrize(
    ("labels", "on", "message"),
    [
        (
            "input,n\na.txt,1\na.txt,2\nb.txt,1\nb.txt,1\n",
            None,
            "2 keys in column 'input' occur more than once",
        ),
        ("id,n\na.txt,1\n", None, "has no column 'input' to join by; it has 'id', 'n'"),
        ("imput,n\na.txt,1\n", None, "has no column 'input' to join by; did you mean 'imput'?"),
        ("id,n\nx,1\n", "input=id", "no row belongs to an input: its column 'id' has keys such as 'x'"),
        ("id,n\n", "input=id", "has keys (none)"),
        ("input,speaker\na.txt,1\n", None, "has a column 'speaker', as does the dataset list"),
        ("input,n\na.txt,1\n", "nobody", "--on nobody: the dataset list has no column 'nobody'"),
        ("input,n\na.txt,1\n", "input=", "write COLUMN, or COLUMN=COLUMN-OF-THE-FILE"),
        ("input,n\na.txt\n", None, "line 2 has 1 columns"),
        ("input,n,n\na.txt,1,2\n", None, "labels.csv; rename one"),
        ("n,id,id\na.txt,1,2\n", "input=n", "the column 'id' occurs twice in"),
        ("input,size\na.txt,1\n", None, "a column 'size', which the manifest uses itself; use --rename"),
        (None, None, "cannot be read"),
        (None, "input", "cannot be read"),
    ],
)
def test_labels_that_are_refused(capfd, out, labels, on, message):
    """Before any work, in one line that names the file; nothing is left behind."""
    folder = out.parent
    write_files(folder, {"a.txt": "a", **({"labels.csv": labels} if labels is not None else {})})
    dataset = write_list(folder / "l.csv", [["input", "speaker"], ["a.txt", "anna"]])
    more = () if on is None else ("--on", on)
    said = here(
        capfd, "run", dataset, "--recipe", "words", "-o", out, "--labels", folder / "labels.csv", *more
    )
    assert (said.code, len(said.lines)) == (2, 1), said.err
    assert message in said.err
    assert not out.exists()


@pytest.mark.parametrize("lists", [["l.csv"], ["l.csv", "more.csv"]])
def test_labels_get_other_names_by_rename(capfd, folder, out, lists):
    """As columns of the list do; where both have a name, it is that of the list that changes."""
    write_files(folder, {"a.txt": "a", "b.txt": "b"})
    write_list(folder / "l.csv", [["input", "n"], ["a.txt", "list"]])
    write_list(folder / "more.csv", [["input", "n"], ["b.txt", "list"]])
    labels = write_list(folder / "labels.csv", [["input", "size", "n"], ["a.txt", "7", "labels"]])
    options = ("--recipe", "words", "--workers", "0", "-o", out, "--labels", labels)
    renamed = ("--rename", "size=bytes", "--rename", "n=own")
    said = here(capfd, "run", *(folder / name for name in lists), *options, *renamed)
    assert said.code == 0, said.err
    first = read_table(out / "manifest.csv")[0]
    assert [first[name] for name in ("input", "own", "bytes", "n")] == ["a.txt", "list", "7", "labels"]


def test_labels_and_names_that_do_not_go_together(capfd, folder, out):
    """A name that no column has, and one that another column has."""
    write_files(folder, {"a.txt": "a"})
    dataset = write_list(folder / "l.csv", [["input", "n"], ["a.txt", "list"]])
    labels = write_list(folder / "labels.csv", [["input", "x", "y"], ["a.txt", "7", "8"]])
    for options, message in [
        (["--rename", "z=a"], "the dataset list has no column 'z'; it has 'input', 'n', 'x', 'y'"),
        (["--rename", "x=y"], "the column 'y' occurs twice in"),
        (["--rename", "x=n"], "has a column 'n', as does the dataset list"),
    ]:
        said = here(capfd, "run", dataset, "--recipe", "words", "-o", out, "--labels", labels, *options)
        assert (said.code, len(said.lines)) == (2, 1), said.err
        assert message in said.err


def test_on_is_only_for_labels(capfd, words):
    """An option that nobody looks at is refused."""
    said = here(capfd, "run", words, "--recipe", "words", "--on", "input")
    assert (said.code, len(said.lines)) == (2, 1)
    assert "--on 'input' only works with --labels" in said.err


# -- several lists ----------------------------------------------------------------------------------------


def test_lists_of_all_kinds_after_each_other(capfd, folder, out):
    """Columns are those of all; what one has not is empty; each path keeps its meaning."""
    write_files(
        folder / "data",
        {
            "one/a.txt": "a",
            "two/b.txt": "b",
            "three/deep/c.txt": "c",
            "three/skipped.md": "x",
            "one/list.csv": "input;x\na.txt;1\n",
            "two/list.jsonl": '{"y": "2", "input": "b.txt"}\n',
        },
    )
    parts = (folder / "data" / name for name in ("one/list.csv", "two/list.jsonl", "three"))
    options = ("--delimiter", ";", "--pattern", "*.txt", "--folder-label", "label")
    said = here(capfd, "run", *parts, "--recipe", "words", "--workers", "1", "-o", out, *options)
    assert said.code == 0, said.err
    names = ["input", "x", "y", "label", "output"]
    assert [[row[name] for name in names] for row in read_table(out / "manifest.csv")] == [
        ["one/a.txt", "1", "", "", "one/a/0.txt"],
        ["two/b.txt", "", "2", "", "two/b/0.txt"],
        ["three/deep/c.txt", "", "", "deep", "three/deep/c/0.txt"],
    ]


def test_a_list_that_is_added_later(folder, out):
    """Lists of one folder keep their paths, so what is done stays done."""
    write_files(folder, {"a.txt": "a", "b.txt": "b"})
    one = write_list(folder / "one.csv", [["input"], ["a.txt"]])
    two = write_list(folder / "two.csv", [["input"], ["b.txt"]])
    rows_of(one, out)
    manifest = rows_of(InputList(one) + InputList(two), out)
    assert list(manifest["input"]) == ["a.txt", "b.txt"]
    assert manifest.summary.work.inputs == 1


def test_each_list_in_its_own_way(folder, out):
    """From Python each has its options, conditions and labels among them; the first names the column."""
    write_files(folder, {"in/a.txt": "a", "in/b.txt": "b", "c.txt": "c"})
    one = write_list(folder / "one.csv", [["path", "n"], ["a.txt", "1"], ["b.txt", "2"]])
    labels = pd.DataFrame({"path": ["b.txt"], "m": ["x"]})
    both = InputList(one, column="path", root="in", labels=labels, where="n > 1")
    both += InputList([{"input": str(folder / "c.txt"), "n": "3"}])
    manifest = rows_of(both, out)
    assert list(manifest.columns[:3]) == ["path", "n", "m"]
    assert manifest[["n", "m"]].to_numpy().tolist() == [["2", "x"], ["3", ""]]
    assert {Path(text).name for text in manifest["path"]} == {"b.txt", "c.txt"}
    assert len(rows_of(both, out, where="m == 'x'")) == 1


@pytest.mark.parametrize("other", ["b.csv", ["b.csv"], None])
def test_only_lists_are_added(other):
    """Python's own words say what cannot be added."""
    with pytest.raises(TypeError, match=f"'InputList' and '{type(other).__name__}'"):
        InputList("a.csv") + other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one.csv", "one.csv"], "a.txt: is listed twice, in rows 1 and 2"),
        (["one.csv", "one.csv", "--pattern", "*.txt"], "--pattern '*.txt' is only for a folder"),
        (["one.csv", "folder", "--rename", "x=y"], "--rename x=…: the dataset list has no column 'x'"),
        (["one.csv", "none.csv"], "none.csv: no such file or folder"),
        (["one.csv", "--folder-label", "label"], "--folder-label 'label' is only for a folder"),
        (["folder", "--folder-label", ""], "--folder-label '': is not a column name"),
        (["folder", "--folder-label", "input"], "the column 'input' occurs twice"),
    ],
)
def test_lists_that_do_not_go_together(capfd, out, monkeypatch, arguments, message):
    """Refused as single lists are: an option that none of them takes, an input that two of them name."""
    write_files(out.parent, {"a.txt": "a", "one.csv": "input\na.txt\n", "folder/b.txt": "b"})
    monkeypatch.chdir(out.parent)
    said = here(capfd, "run", *arguments, "--recipe", "words", "-o", out)
    assert (said.code, len(said.lines)) == (2, 1), said.err
    assert message in said.err
    assert not out.exists()


@settings(max_examples=depth(20))
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("xyz"), max_size=3).map("/".join),
            st.lists(
                st.sampled_from(["a.wav", "s/b.wav", "../c.wav", "/abs/d.wav", "s3://b/e.wav"]), max_size=3
            ),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_every_path_means_the_same_as_before(tmp_path_factory, lists):
    """Wherever lists are, the file that a row names is the one that it named in its own list."""
    folder = tmp_path_factory.mktemp("lists")
    whole, expected = None, []
    for number, (place, names) in enumerate(lists):
        (folder / place).mkdir(parents=True, exist_ok=True)
        path = write_list(folder / place / f"{number}.csv", [["input"], *([name] for name in names)])
        whole = InputList(path) if whole is None else whole + InputList(path)
        here_is = folder / place
        expected += [
            name if "://" in name else os.path.normpath(os.path.join(here_is, name)) for name in names
        ]
    found = read_source(whole)
    meant = [
        name if "://" in name else os.path.normpath(os.path.join(found.root, name)) for (name,) in found.rows
    ]
    assert meant == expected


# -- datasets of torch's kind -----------------------------------------------------------------------------


class Items(Dataset):
    """A dataset that only says how long it is and what stands where."""

    def __init__(self, items: list[object]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> object:
        return self.items[index]


@pytest.mark.parametrize(
    ("items", "columns"),
    [
        ([("a.txt", 0), ("b.txt", 1)], {"label": ["0", "1"]}),
        ([["a.txt", "dog"], (Path("b.txt"), None)], {"label": ["dog", ""]}),
        ([{"input": "a.txt", "x": 1}, {"input": "b.txt"}], {"x": ["1", ""]}),
        (["a.txt", Path("b.txt")], {}),
    ],
)
@pytest.mark.parametrize("make", [Items, list])
def test_a_dataset_of_paths(folder, out, make, items, columns):
    """Paths, rows, or pairs of a path and a label, as torchvision's `samples` are."""
    write_files(folder, {"a.txt": "a", "b.txt": "b"})
    manifest = rows_of(make(items), out, root=str(folder))
    assert list(manifest["input"]) == ["a.txt", "b.txt"]
    for name, values in columns.items():
        assert list(manifest[name]) == values
