"""Dataset lists: what is read, where inputs are, and what is refused before any work."""

import contextlib
import csv
import json
import os
import socket
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from doors import here, program, read_table, tree, write_files, write_list
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nightly import depth
from torch.utils.data import Dataset, IterableDataset

from splitter import InputList, OutputFile, ProcessorDataset
from splitter.errors import Refused, UnreadableInput
from splitter.inputs.locations import look_at
from splitter.inputs.reading import read_source
from splitter.inputs.table import copy_list
from splitter.text.csv import parse_rows


class Copy(ProcessorDataset):
    """One output for each input: the input's own content."""

    def process(self, input_file):
        return [OutputFile("copy", input_file.read_bytes())], {}


class Rows(ProcessorDataset):
    """No outputs: the rows of the list go to the manifest, and nothing else."""

    def process(self, input_file):
        return [], {"input_as_listed": input_file.columns[self.inputs.column] == input_file.input}


class Grouped(ProcessorDataset):
    """All rows with the same path are one input."""

    group_rows = True

    def process(self, input_file):
        said = ", ".join(row["said"] for row in input_file.rows)
        outputs = [OutputFile(f"{i}", row["said"], row=i) for i, row in enumerate(input_file.rows)]
        return outputs, {"all": said}


def run(source: Any, out: Path, recipe: type[ProcessorDataset] = Copy, **options: Any):
    """Run in this process, without a word."""
    return recipe(source).run(out, workers=0, quiet=True, **options)


def listed(source: Any, out: Path, **options: Any) -> list[dict[str, str]]:
    """The dataset columns of the manifest that comes of a source, as the csv module reads them."""
    result = run(source, out, Rows, **options)
    assert result.failed.empty, result.failed
    own = ("output", "size", "checksum", "input_as_listed")
    return [
        {name: text for name, text in row.items() if name not in own}
        for row in read_table(out / "manifest.csv")
    ]


def refused(source: Any, out: Path, recipe: type[ProcessorDataset] = Copy, **options: Any) -> str:
    """The one line that refuses a source; nothing may have been made."""
    with pytest.raises(Refused) as caught:
        run(source, out, recipe, **options)
    assert not out.exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def two(folder: Path) -> Path:
    """A folder with two files, a.txt and b.txt."""
    return write_files(folder, {"a.txt": "one", "b.txt": "two"})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "Ausgabe für 'alle'"


TWO = [{"input": "a.txt", "label": "x, y"}, {"input": "b.txt", "label": "007"}]


# -- kinds of sources ----------------------------------------------------------------------------------------


class Paths(Dataset[str]):
    """A torch dataset of paths; like many, it does not say where it ends."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> str:
        return ["a.txt", "b.txt"][index % 2]


class TestSources:
    @pytest.mark.parametrize(
        ("name", "text", "options"),
        [
            ("list.csv", 'input,label\na.txt,"x, y"\nb.txt,007\n', {}),
            ("LIST.CSV", 'input,label\na.txt,"x, y"\nb.txt,007\n', {}),
            ("list", 'input,label\na.txt,"x, y"\nb.txt,007\n', {}),
            ("list.tsv", "input\tlabel\na.txt\tx, y\nb.txt\t007\n", {}),
            ("list.csv", "input;label\na.txt;x, y\nb.txt;007\n", {"delimiter": ";"}),
            ("list.csv", "input\tlabel\na.txt\tx, y\nb.txt\t007\n", {"delimiter": "\t"}),
            ("list.csv", "input\tlabel\na.txt\tx, y\nb.txt\t007\n", {"delimiter": "\\t"}),
            ("list.txt", "input|label\na.txt|x, y\nb.txt|007\n", {"delimiter": "|"}),
            ("list.psv", "input|label\na.txt|x, y\nb.txt|007\n", {"delimiter": "|"}),
            ("list.tsv", 'input,label\na.txt,"x, y"\nb.txt,007\n', {"delimiter": ","}),
            ("list.jsonl", '{"input": "a.txt", "label": "x, y"}\n{"input": "b.txt", "label": "007"}\n', {}),
            ("list.ndjson", '{"label": "x, y", "input": "a.txt"}\n\n{"input": "b.txt", "label": "007"}', {}),
        ],
    )
    def test_a_list_file(self, two, out, name, text, options):
        """CSV, TSV, another delimiter and JSONL give the same rows."""
        (two / name).write_text(text)
        assert listed(two / name, out, **options) == TWO

    def test_parquet(self, two, out):
        """A Parquet list gives its columns as text; what is missing is the empty text."""
        table = pa.table({"input": ["a.txt", "b.txt"], "n": [7, None], "x": [0.5, 1e300], "ok": [True, None]})
        pq.write_table(table, two / "list.parquet")
        assert listed(two / "list.parquet", out) == [
            {"input": "a.txt", "n": "7", "x": "0.5", "ok": "True"},
            {"input": "b.txt", "n": "", "x": "1e+300", "ok": ""},
        ]

    def test_parquet_with_dates_beyond_pythons(self, two, out):
        """They are columns like others, whatever year they are in."""
        days = pa.array([10_000_000, 20_000], pa.date32())
        instants = pa.array([2**59, None], pa.timestamp("us", tz="UTC"))
        table = pa.table({"input": ["a.txt", "b.txt"], "day": days, "at": instants})
        pq.write_table(table, two / "list.parquet")
        assert listed(two / "list.parquet", out) == [
            {"input": "a.txt", "day": "29349-01-26", "at": "20237-04-25 10:45:03.423488Z"},
            {"input": "b.txt", "day": "2024-10-04", "at": ""},
        ]

    def test_each_folder_of_several_holds_something(self, folder, out):
        """One of them may be a disk that is not there: what came from it must not be taken for removed."""
        write_files(folder, {"a/x.txt": "", "b/y.txt": ""})
        both = InputList(folder / "a") + InputList(folder / "b")
        assert [row["input"] for row in listed(both, out)] == ["a/x.txt", "b/y.txt"]
        (folder / "b" / "y.txt").unlink()
        assert f"{folder}/b: it holds no file" in refused(both, out.with_name("other"))

    def test_a_folder(self, folder, out):
        """A folder gives the files in it and below it, sorted, without hidden ones."""
        write_files(folder, {"b.txt": "", "a/z.wav": "", "a/y.txt": "", ".hidden": "", ".git/config": ""})
        assert [row["input"] for row in listed(folder, out)] == ["a/y.txt", "a/z.wav", "b.txt"]

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("*.wav", ["a/z.wav", "c.wav"]),
            ("a/*", ["a/y.txt", "a/z.wav"]),
            ("*.WAV", ["a/z.wav", "c.wav"]),
            ("A/*", ["a/y.txt", "a/z.wav"]),
            (["*.Txt", "c.*"], ["a/y.txt", "b.txt", "c.wav"]),
            ("c.*", ["c.wav"]),
            ("[ab].txt", ["b.txt"]),
        ],
    )
    def test_a_folder_with_a_pattern(self, folder, out, pattern, expected):
        """--pattern chooses by name, or by the path below the folder; capitals do not count."""
        write_files(folder, {"b.txt": "", "a/z.wav": "", "a/y.txt": "", "c.wav": ""})
        assert [row["input"] for row in listed(folder, out, pattern=pattern)] == expected

    def test_a_folder_with_a_pattern_of_the_class(self, folder, out):
        """A recipe may bring its own `InputList`, with a pattern and another column name."""
        write_files(folder, {"b.txt": "", "c.wav": ""})
        dataset = Rows(InputList(folder, pattern="*.wav", column="path"))
        assert len(dataset) == 1
        dataset.run(out, workers=0, quiet=True)
        assert [row["path"] for row in read_table(out / "manifest.csv")] == ["c.wav"]

    @pytest.mark.parametrize("kind", [str, Path, np.str_])
    def test_a_list_of_paths(self, two, out, monkeypatch, kind):
        """A Python list of paths is relative to the working directory."""
        monkeypatch.chdir(two)
        assert listed([kind("a.txt"), kind("b.txt")], out) == [{"input": "a.txt"}, {"input": "b.txt"}]

    def test_other_sequences_of_paths(self, two, tmp_path, monkeypatch):
        """A tuple, an array and a column of a DataFrame, cut or whole, are lists of paths too."""
        monkeypatch.chdir(two)
        series = pd.Series(["?", "a.txt", "b.txt"])[1:]
        for number, source in enumerate((("a.txt", "b.txt"), np.array(["a.txt", "b.txt"]), series)):
            assert [row["input"] for row in listed(source, tmp_path / str(number))] == ["a.txt", "b.txt"]

    def test_a_list_of_rows(self, two, out):
        """Dicts are rows: columns in first-seen order, what is missing empty, numbers as text."""
        rows = [{"input": two / "a.txt", "n": 1}, {"n": 2.5, "input": f"{two}/b.txt", "who": "él"}]
        assert listed(rows, out) == [
            {"input": str(two / "a.txt"), "n": "1", "who": ""},
            {"input": str(two / "b.txt"), "n": "2.5", "who": "él"},
        ]

    def test_a_dataframe(self, two, out):
        """A DataFrame gives its columns as text, and what is missing in any of its ways as empty text."""
        frame = pd.DataFrame(
            {
                "input": ["a.txt", "b.txt"],
                "label": ["x, y", "007"],
                "whole": pd.array([1, None], dtype="Int64"),
                "number": [float("nan"), 0.1],
                "flag": pd.array([None, True], dtype="boolean"),
                "day": pd.to_datetime(["2024-02-29", None]),
                "text": pd.array([None, "NA"], dtype="string"),
            },
            index=[7, 7],
        )
        assert listed(frame, out, root=str(two)) == [
            {**TWO[0], "whole": "1", "number": "", "flag": "", "day": "2024-02-29 00:00:00", "text": ""},
            {**TWO[1], "whole": "", "number": "0.1", "flag": "True", "day": "", "text": "NA"},
        ]

    def test_rows_with_keys_that_are_no_text(self, two, out):
        """As the columns of a DataFrame, which need not be text either."""
        frame = pd.DataFrame([["a.txt", "x", 7], ["b.txt", "y", 8]], columns=["input", 1, (2, "z")])
        rows = frame.to_dict("records")
        expected = [
            {"input": "a.txt", "1": "x", "(2, 'z')": "7"},
            {"input": "b.txt", "1": "y", "(2, 'z')": "8"},
        ]
        assert listed(rows, out, root=str(two)) == expected
        assert listed(frame, out.with_name("frame"), root=str(two)) == expected
        twins = [{"input": "a.txt", 1: "x"}, {"input": "b.txt", "1": "y"}]
        assert "the column '1' occurs twice" in refused(twins, out.with_name("twins"))

    @pytest.mark.parametrize("as_rows", [False, True])
    def test_arrays_and_tensors_are_labels_in_full(self, two, out, as_rows):
        """As JSON, whatever their length and digits, as in a Parquet list; a NumPy scalar keeps its text."""
        digits = [0.123456789012345, 1e-300]
        times = np.array(["2024-02-29T12:00"], "datetime64[ns]")
        labels = {
            "long": (np.zeros(2000), json.dumps([0.0] * 2000)),
            "digits": (np.array([digits]), json.dumps([digits])),
            "tensor": (torch.tensor(digits, dtype=torch.float64), json.dumps(digits)),
            "number": (torch.tensor(digits[0], dtype=torch.float64), "0.123456789012345"),
            "missing": (torch.tensor(float("nan")), ""),
            "times": (times, '["2024-02-29T12:00:00.000000000"]'),
            "nested": (
                {"a": np.int64(1), "b": [np.float32(0.5), np.arange(2)]},
                '{"a": 1, "b": [0.5, [0, 1]]}',
            ),
            "at": ([times[0], Path("x"), np.bool_(True)], '["2024-02-29T12:00:00.000000000", "x", true]'),
            "scalar": (np.float32(0.1) if as_rows else 0.1, "0.1"),
            "day": (np.datetime64("2024-02-29"), "2024-02-29" if as_rows else "2024-02-29 00:00:00"),
            "text": (np.str_("007"), "007"),
        }
        rows = [{"input": "a.txt", **{name: value for name, (value, _) in labels.items()}}]
        source = rows if as_rows else pd.DataFrame(rows)
        (found,) = listed(source, out, root=str(two))
        assert found == {"input": "a.txt", **{name: text for name, (_, text) in labels.items()}}

    def test_a_torch_dataset_of_paths(self, two, out, monkeypatch):
        """A torch dataset of paths is asked for as many items as it says it has."""
        monkeypatch.chdir(two)
        assert [row["input"] for row in listed(Paths(), out)] == ["a.txt", "b.txt"]

    def test_json_keeps_numbers_as_they_are_written(self, two, out):
        """1e5, 1.0, NaN and 20 digits stay what they are; null is empty; what is nested is JSON."""
        nested = {"x": [1, 2.5, "ß", None]}
        line = (
            '{"input": "a.txt", "a": 1e5, "b": 1.0, "c": NaN, "d": 12345678901234567890, "e": null, "f": true'
        )
        (two / "list.jsonl").write_text(f'{line}, "g": {json.dumps(nested)}}}\n{{"input": "b.txt"}}\n')
        first, second = listed(two / "list.jsonl", out)
        assert json.loads(first.pop("g")) == nested
        expected = {"a": "1e5", "b": "1.0", "c": "NaN", "d": "12345678901234567890", "e": "", "f": "true"}
        assert first == {"input": "a.txt", **expected}
        assert second == {"input": "b.txt", **dict.fromkeys("abcdefg", "")}

    def test_json_keeps_the_digits_within_lists_and_objects(self, two, out):
        """They are those that are written there, too; texts that look like numbers stay texts."""
        nested = (
            '[0.10, 1e5, 3.141592653589793238462, -0, NaN, "1e5", {"1": {"ü": [2.50, null, []]}, "y": {}}]'
        )
        (two / "list.jsonl").write_text(f'{{"input": "a.txt", "n": {nested}}}\n', encoding="utf-8")
        assert [row["n"] for row in listed(two / "list.jsonl", out)] == [nested]

    def test_a_folder_with_more_than_files(self, folder, out, monkeypatch, capfd):
        """Links to files are files, one that leads nowhere fails; pipes and sockets are counted.

        So is a hidden file that may be missed, but nothing that systems hide, nor what no pattern is for.
        """
        write_files(folder, {"a.txt": "one", "sub/b.txt": "two"})
        hidden = (".c.txt", "._a.txt", ".DS_Store", "sub/.git/d.txt", ".e.wav")
        write_files(folder, dict.fromkeys(hidden, ""))
        os.mkfifo(folder / "pipe.txt")
        (folder / "device.txt").symlink_to("/dev/null")
        (folder / "linked.txt").symlink_to("a.txt")
        (folder / "gone.txt").symlink_to("nowhere/at all.txt")
        (folder / "loop.txt").symlink_to("loop.txt")
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
            monkeypatch.chdir(folder)
            server.bind("socket.txt")
            result = Copy(folder).run(out, workers=0, pattern="*.txt")
        note = "note: not taken as inputs: 1 device, 1 hidden file, 1 named pipe, 1 socket\n"
        assert capfd.readouterr().err == note
        assert list(result["input"]) == ["a.txt", "linked.txt", "sub/b.txt"]
        assert dict(zip(result.failed["input"], result.failed["message"], strict=True)) == {
            "gone.txt": f"{folder}/gone.txt: is a link to nowhere/at all.txt, which does not exist",
            "loop.txt": f"{folder}/loop.txt: cannot be a file: Too many levels of symbolic links",
        }

    def test_outputs_of_earlier_runs_are_no_inputs(self, two, capfd):
        """Not of a folder that they lie in; one that itself holds the outputs of a run may be a source."""
        for number in (1, 2, 3):
            result = Copy(two).run(two / "made" / str(number), workers=0, pattern=["*.txt", "*.bin"])
            assert list(result["input"]) == ["a.txt", "b.txt"]
            note = f"note: not taken as inputs: {number - 1} output folder" if number > 1 else ""
            assert capfd.readouterr().err.startswith(note)
        again = Copy(two / "made" / "1").run(two / "again", workers=0)
        assert len(again) == len(result)

    def test_a_source_that_is_a_file_url(self, two, out):
        """A list may be named by its `file://` URL, as an input may, or in bytes."""
        write_list(two / "l.csv", [["input"], ["a.txt"]])
        for number, source in enumerate(
            (f"file://{two}/l.csv".replace(" ", "%20"), os.fsencode(two / "l.csv"))
        ):
            assert listed(source, out.with_name(str(number))) == [{"input": "a.txt"}]


class TestUrls:
    @pytest.mark.parametrize(
        "url", ["http://nobody.invalid/list.csv", "HTTP://nobody.invalid/list.jsonl?x=1"]
    )
    def test_a_list_on_no_server_is_refused(self, out, url):
        """In words, and without waiting for a server that does not exist."""
        said = "cannot be read: its server cannot be found"
        assert refused(url, out) == f"{url}: {said}"

    def test_a_list_that_nothing_can_read(self, out):
        """A protocol that nobody knows is refused by name."""
        assert "nobody" in refused("nobody://host/list.csv", out)

    def test_an_input_elsewhere_that_cannot_be_read_is_a_failed_input(self, two, out):
        """One error for each, beside inputs that are here; a name with a colon is a name."""
        urls = ["nobody://bucket/a.wav", "http://nobody.invalid/b.wav?x=1&X-Amz-Signature=5ec2e7"]
        write_files(two, {"c: d/e.txt": "three"})
        result = run([*urls, "a.txt", "c: d//e.txt"], out, root=str(two))
        assert list(result["input"]) == ["a.txt", "c: d//e.txt"]
        assert list(result.failed["input"]) == urls
        first, second = result.failed["message"]
        assert first.startswith("nobody://bucket/a.wav: Protocol not known")
        assert second == "http://nobody.invalid/b.wav?x=1: its server cannot be found"

    @pytest.mark.parametrize("where", ["list", "row"])
    def test_a_password_is_refused(self, two, out, where):
        """It would come into the manifest; the message does not show it either."""
        url = "https://me:5ec2e7@nobody.invalid/a.csv"
        said = refused(url if where == "list" else [url], out)
        assert "https://me@nobody.invalid/a.csv" in said
        assert "5ec2e7" not in said


class TestSourcesThatAreRefused:
    @pytest.mark.parametrize("source", [{"input": ["a.txt"]}, iter(["a.txt"]), {"a.txt"}, 7, None])
    def test_what_is_no_list(self, out, source):
        """What cannot be asked for one input after the other is refused, and the message says what can."""
        assert "DataFrame" in refused(source, out)

    @pytest.mark.parametrize("name", ["", "a\0b"])
    def test_a_name_that_no_file_has(self, out, name):
        """It is not taken for the current folder."""
        assert "is not a path" in refused(name, out)

    @pytest.mark.parametrize(
        "how",
        [
            {"column": 7},
            {"root": ["a"]},
            {"delimiter": b";"},
            {"pattern": 7},
            {"rename": "a=b"},
            {"rename": {"a": 7}},
        ],
        ids=str,
    )
    def test_a_description_of_the_wrong_kind(self, how):
        """`InputList` refuses it by name."""
        (name,) = how
        with pytest.raises(Refused, match=f"^InputList: {name}="):
            InputList("list.csv", **how)

    def test_a_stream_without_length(self, out):
        """An IterableDataset has no length, so it cannot be a list of inputs."""

        class Stream(IterableDataset[str]):
            def __iter__(self):
                yield "a.txt"

        assert "inputs is of type Stream" in refused(Stream(), out)

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (["a.txt", 7], "7 is of type int"),
            (["a.txt", {"input": "b.txt"}], "is among dicts"),
            ([{"path": "a.txt"}], "no column 'input'; it has 'path'"),
            ([("a.txt", "label", 1)], "tuple"),
            ([("a.txt", "label"), "b.txt"], "tuple"),
            (pd.DataFrame({"path": ["a.txt"]}), "no column 'input'; it has 'path'"),
            (pd.DataFrame([["a.txt", "b.txt"]], columns=["input", "input"]), "'input' occurs twice"),
        ],
    )
    def test_values_that_are_no_paths(self, out, source, message):
        """Each value must be a path, or each a row; the message shows the one that is not."""
        assert message in refused(source, out)

    def test_text_that_no_file_can_hold(self, folder, out):
        """A lone surrogate, which JSON can spell and UTF-8 cannot, is refused with its row."""
        (folder / "list.jsonl").write_text('{"input": "a.txt"}\n{"input": "b.txt", "label": "\\ud800"}\n')
        assert "row 2" in refused(folder / "list.jsonl", out)
        assert "row 1" in refused([{"input": "a.txt", "x": "\ud800"}], out)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("l.csv", "", "is empty"),
            ("l.csv", "\n\r\n", "is empty"),
            ("l.jsonl", "", "is empty"),
            (
                "l.csv",
                "path,label\na.txt,x\n",
                "has no column 'input'; it has 'path', 'label'; name the column",
            ),
            ("l.csv", "input;label\na.txt;x\n", "is it --delimiter ';'?"),
            ("l.csv", "input\tlabel\na.txt\tx\n", "is it --delimiter '\\t'?"),
            ("l.csv", "input|label\na.txt|x\n", "is it --delimiter '|'?"),
            ("l.tsv", "input,label\na.txt,x\n", "is it --delimiter ','?"),
            ("l.csv", "input,x,x\na.txt,1,2\n", "the column 'x' occurs twice"),
            ("l.csv", "input,x\na.txt,1\nb.txt\n", "line 3 has 1 columns where the first line has 2"),
            ("l.csv", 'input,x\na.txt,"1\n2"\nb.txt,1,2\n', "line 4 has 3 columns"),
            ("l.csv", 'input,x\na.txt,"1\n', "is not CSV"),
            ("l.csv", 'input,x\na.txt,"1"2\n', "line 2 is not CSV"),
            ("l.jsonl", '{"input": "a.txt"}\n{"input": \n', "line 2 is not JSON"),
            ("l.jsonl", '["a.txt"]\n', "line 1 is not a JSON object"),
            ("l.jsonl", '{"path": "a.txt"}\n', "has no column 'input'; it has 'path'"),
            ("l.parquet", "no Parquet", "is not Parquet"),
        ],
    )
    def test_a_damaged_list(self, two, out, name, text, message):
        """A list that cannot be read as what it claims to be is refused with its line and a remedy."""
        (two / name).write_text(text)
        said = refused(two / name, out)
        assert message in said
        assert name in said or "occurs twice" in said

    def test_parquet_that_is_damaged_further_on(self, two, out):
        """It is refused as well when what cannot be read comes after the first rows."""
        table = pa.table({"input": [f"{number}.txt" for number in range(50_000)]})
        pq.write_table(
            table, two / "l.parquet", row_group_size=1000, compression="none", use_dictionary=False
        )
        content = bytearray((two / "l.parquet").read_bytes())
        content[300_000:310_000] = b"\xff" * 10_000
        (two / "l.parquet").write_bytes(content)
        assert refused(two / "l.parquet", out).startswith(f"{two}/l.parquet: is damaged Parquet (")

    def test_parquet_that_is_too_large(self, two, out, monkeypatch):
        """It is not called damaged: to write it again would not help."""
        monkeypatch.setattr("splitter.inputs.lists.MOST_AT_ONCE", 100)
        pq.write_table(pa.table({"input": ["a.txt"] * 30}), two / "l.parquet")
        said = refused(two / "l.parquet", out)
        assert said.startswith(f"{two}/l.parquet: 30 rows unpack to ")
        assert "; split it into several files" in said

    @pytest.mark.parametrize("name", ["note", "a.long.note"])
    def test_parquet_with_rows_that_are_too_large(self, two, out, monkeypatch, name):
        """To split the file would not help; and it is said of a row, since that is what was estimated."""
        monkeypatch.setattr("splitter.archives.row_groups.MOST_AT_ONCE", 1000)
        table = pa.table({"input": ["a.txt", "b.txt"], name: ["x" * 4000, "y" * 4000]})
        pq.write_table(table, two / "l.parquet", compression="none", use_dictionary=False)
        said = refused(two / "l.parquet", out)
        assert said.startswith(f"{two}/l.parquet: a row of row group 0 may unpack to ")
        assert said.endswith(" bytes, more than the limit of 1,000; leave out large columns")

    def test_parquet_with_rows_that_may_share_values(self, two, out, monkeypatch):
        """Small texts that pack well, written with the defaults: any row may be most of its row group."""
        monkeypatch.setattr("splitter.archives.row_groups.MOST_AT_ONCE", 20_000)
        notes = [f"{number:04d}" + "x" * 96 for number in range(2000)]
        table = pa.table({"input": notes, "note": notes})
        pq.write_table(table, two / "l.parquet", compression="zstd")
        said = refused(two / "l.parquet", out)
        assert said.startswith(f"{two}/l.parquet: rows of row group 0 may unpack to ")
        assert said.endswith(
            " bytes, more than the limit of 20,000; write it with smaller row groups, split it into "
            "several files, or leave out large columns"
        )
        pq.write_table(table, two / "l.parquet", compression="zstd", row_group_size=50)
        assert "may unpack" not in refused(two / "l.parquet", out)

    def test_json_without_end(self, two, out):
        """A line that is nested too deeply to be read is refused by its number."""
        (two / "l.jsonl").write_text('{"input": "a.txt"}\n{"input": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
        assert "l.jsonl: line 2 is not JSON (" in refused(two / "l.jsonl", out)

    def test_a_list_that_is_not_there(self, folder, out):
        """A missing list is refused by name."""
        assert f"{folder}/list.csv: cannot be read: No such file" in refused(folder / "list.csv", out)

    def test_a_list_that_is_a_pipe(self, folder, out):
        """A list that can be read only once is refused, not half read and not waited for."""
        os.mkfifo(folder / "list.csv")
        assert "list.csv" in refused(folder / "list.csv", out)

    @pytest.mark.skipif(sys.platform != "linux", reason="needs a file that even root cannot read")
    def test_a_list_that_cannot_be_read(self, out):
        """A list whose reading fails is refused with the system's reason."""
        assert "cannot be read: Input/output error" in refused("/proc/self/mem", out)

    @pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "é€"])
    def test_a_delimiter_that_is_none(self, two, out, delimiter):
        """--delimiter takes one character that can divide columns."""
        write_list(two / "l.csv", [["input"], ["a.txt"]])
        assert "--delimiter" in refused(two / "l.csv", out, delimiter=delimiter)

    @pytest.mark.parametrize(
        ("source", "option"),
        [
            ("l.csv", {"pattern": "*.txt"}),
            ("l.jsonl", {"delimiter": ";"}),
            ("", {"delimiter": ";"}),
            ("", {"root": "."}),
            (["a.txt"], {"pattern": "*"}),
            (["a.txt"], {"delimiter": ";"}),
        ],
    )
    def test_an_option_that_would_do_nothing(self, two, out, source, option):
        """An option that makes no sense for the kind of source is refused, not ignored."""
        write_list(two / "l.csv", [["input"], ["a.txt"]])
        (two / "l.jsonl").write_text('{"input": "a.txt"}\n')
        (name,) = option
        assert f"--{name}" in refused(two / source if isinstance(source, str) else source, out, **option)

    def test_a_flag_that_is_false_was_not_given(self, two, out):
        write_list(two / "l.csv", [["input"], ["a.txt"]])
        assert listed(InputList(two / "l.csv", all_rows=False), out) == [{"input": "a.txt"}]


# -- text comes through as it is -----------------------------------------------------------------------------


class TestText:
    def test_a_byte_order_mark_is_no_part_of_the_first_column(self, two, out):
        """Lists saved by Excel start with a BOM."""
        (two / "l.csv").write_bytes("\ufeffinput,label\r\na.txt,ü\r\n".encode())
        assert listed(two / "l.csv", out) == [{"input": "a.txt", "label": "ü"}]

    def test_a_byte_order_mark_before_json(self, two, out):
        """JSONL may start with a BOM as well."""
        (two / "l.jsonl").write_bytes('\ufeff{"input": "a.txt", "label": "\u2028"}\r\n'.encode())
        assert listed(two / "l.jsonl", out) == [{"input": "a.txt", "label": "\u2028"}]

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_line_ends(self, two, out, end):
        """Lines may end as on Unix, Windows or an old Macintosh, and the last may not end at all."""
        text = end.join(["input,label", 'a.txt,"line\r\nline\nline"', "", "b.txt,x"])
        (two / "l.csv").write_bytes(text.encode())
        assert [row["label"] for row in listed(two / "l.csv", out)] == ["line\r\nline\nline", "x"]

    def test_quotes_and_commas(self, two, out):
        """Quotes, commas and spaces are data."""
        (two / "l.csv").write_text('input,label\na.txt," ""a"", b "\n')
        assert listed(two / "l.csv", out) == [{"input": "a.txt", "label": ' "a", b '}]

    def test_bytes_that_are_not_utf_8(self, two, out):
        """Latin-1 bytes in a label and in a file name come out as the same bytes, and the file is found."""
        name = b"caf\xe9.txt"
        try:
            Path(os.fsdecode(bytes(two) + b"/" + name)).write_bytes(b"content")
        except OSError:
            pytest.skip("this file system takes only UTF-8 names")
        (two / "l.csv").write_bytes(b"input,label\n" + name + b",na\xefve\n")
        run(two / "l.csv", out)
        header, row, _ = (out / "manifest.csv").read_bytes().split(b"\n")
        assert header == b"input,label,output,size,checksum"
        assert row.startswith(name + b",na\xefve,caf\xe9/copy,7,")
        assert Path(os.fsdecode(bytes(out) + b"/caf\xe9/copy")).read_bytes() == b"content"

    def test_a_list_without_rows(self, two, out, capfd):
        """A list with a header only is a finished run with an empty manifest."""
        (two / "l.csv").write_text("input,label\n")
        said = here(capfd, "run", two / "l.csv", "--output", out, "--workers", "0")
        assert said.code == 0
        assert "no inputs" in said.err
        assert (out / "manifest.csv").read_text() == "input,label,output,size,checksum\n"

    @pytest.mark.parametrize("source", [[], (), pd.DataFrame({"input": []})])
    def test_an_empty_python_list(self, out, source):
        """An empty list is a finished run with an empty manifest."""
        manifest = run(source, out)
        assert len(manifest) == 0
        assert list(manifest.columns) == ["input", "output", "size", "checksum"]

    def test_rows_that_name_no_file(self, two, out):
        """A row with an empty path is refused with its number."""
        (two / "l.csv").write_text('input,label\na.txt,x\n"",y\n')
        assert "row 2" in refused(two / "l.csv", out)

    def test_paths_that_cannot_be_files(self, two, out):
        """A folder, a missing file, a name that is too long: errors of those inputs, each named."""
        (two / "sub").mkdir()
        long = "x" * 300
        write_list(two / "l.csv", [["input"], ["sub"], ["gone.txt"], [long], ["a.txt/b"], ["a.txt"]])
        result = run(two / "l.csv", out)
        assert list(result["input"]) == ["a.txt"]
        messages = dict(zip(result.failed["input"], result.failed["message"], strict=True))
        assert "is a folder" in messages["sub"]
        assert "does not exist" in messages["gone.txt"]
        assert set(messages) == {"sub", "gone.txt", long, "a.txt/b"}
        assert all(messages.values())

    def test_a_named_pipe_is_not_waited_for(self, two, out):
        """A FIFO among the inputs fails at once."""
        os.mkfifo(two / "pipe")
        write_list(two / "l.csv", [["input"], ["pipe"]])
        assert "is a named pipe" in run(two / "l.csv", out).failed["message"][0]


# -- columns -------------------------------------------------------------------------------------------------


class TestColumns:
    def test_another_column_of_paths(self, two, out):
        """--column says which column holds the paths; it keeps its name in the manifest."""
        write_list(two / "l.csv", [["id", "audio"], ["1", "a.txt"]])
        (row,) = run(two / "l.csv", out, column="audio").to_dict("records")
        assert (row["id"], row["audio"], row["output"]) == ("1", "a.txt", "a/copy")

    @pytest.mark.parametrize(
        "name", ["output", "size", "checksum", "skipped", "error", "message", "attempts"]
    )
    def test_columns_that_the_manifest_has_of_its_own(self, two, out, name):
        """A dataset column named like one of the manifest's is refused, and --rename is the remedy."""
        write_list(two / "l.csv", [["input", name], ["a.txt", "mine"]])
        assert f"--rename {name}=" in refused(two / "l.csv", out)
        (row,) = run(two / "l.csv", out, rename=[f"{name}=my {name}"]).to_dict("records")
        assert row[f"my {name}"] == "mine"

    @pytest.mark.parametrize(
        ("pair", "message"),
        [
            ("nolabel=x", "has no column 'nolabel'; it has 'input', 'label'"),
            ("label=input", "'input' occurs twice"),
            ("label=size", "a column 'size'"),
            ("label", "write OLD=NEW"),
            ("=x", "write OLD=NEW"),
            ("label=", "write OLD=NEW"),
        ],
    )
    def test_renaming_that_makes_no_sense(self, two, out, pair, message):
        """--rename takes a column that is there and a name that is free."""
        write_list(two / "l.csv", [["input", "label"], ["a.txt", "x"]])
        assert message in refused(two / "l.csv", out, rename=[pair])

    def test_a_manifest_is_a_dataset_list(self, two, tmp_path):
        """The outputs of one run are the inputs of the next: its manifest is the list."""
        write_list(two / "l.csv", [["input", "label"], ["a.txt", "x"], ["b.txt", "y"]])
        run(two / "l.csv", tmp_path / "first")
        names = ["input=source", "output=input", "size=source_size", "checksum=source_checksum"]
        result = run(tmp_path / "first/manifest.csv", tmp_path / "second", column="output", rename=names)
        assert list(result["input"]) == ["a/copy", "b/copy"]
        assert list(result["source"]) == ["a.txt", "b.txt"]
        assert list(result["label"]) == ["x", "y"]
        assert (tmp_path / "second/b/copy/copy").read_text() == "two"


# -- where inputs are, and where their outputs go ------------------------------------------------------------


class TestPlaces:
    def test_inputs_are_relative_to_the_folder_of_the_list(self, two, out, monkeypatch, tmp_path):
        """Not to the working directory."""
        write_list(two / "l.csv", [["input"], ["a.txt"]])
        monkeypatch.chdir(tmp_path)
        run(os.path.relpath(two / "l.csv"), out)
        assert tree(out)["a/copy"] == b"one"

    @pytest.mark.parametrize("root", ["inputs", "./inputs/", "lists/../inputs", "{here}/inputs"])
    def test_root_is_relative_to_the_folder_of_the_list(self, folder, out, monkeypatch, tmp_path, root):
        """--root inputs finds the files in inputs/ beside the list, wherever the command is given."""
        write_files(folder, {"inputs/a.txt": "one", "lists/.keep": ""})
        write_list(folder / "l.csv", [["input"], ["a.txt"]])
        monkeypatch.chdir(tmp_path)
        run(folder / "l.csv", out, root=root.format(here=folder))
        assert tree(out)["a/copy"] == b"one"

    def test_root_may_be_a_path(self, folder, out):
        """From Python a Path will do."""
        write_files(folder, {"inputs/a.txt": "one"})
        write_list(folder / "l.csv", [["input"], ["a.txt"]])
        run(folder / "l.csv", out, root=Path("inputs"))
        assert tree(out)["a/copy"] == b"one"

    def test_a_root_that_is_not_there(self, two, out):
        """A missing root is one line, not a million failed inputs."""
        write_list(two / "l.csv", [["input"], ["a.txt"]])
        assert f"{two}/nowhere" in refused(two / "l.csv", out, root="nowhere")

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("a.txt", "a"),
            ("./a.txt", "a"),
            ("sub/deep/c.txt", "sub/deep/c"),
            ("sub//deep/./c.txt", "sub/deep/c"),
            ("sub/../a.txt", "a"),
            ("{root}/a.txt", "a"),
            ("file://{root}/a.txt", "a"),
            ("{root}/../{name}/a.txt", "a"),
            ("../elsewhere/d.txt", "{parent}/elsewhere/d"),
            ("{root}/../elsewhere/d.txt", "{parent}/elsewhere/d"),
            ("file://{root}/../elsewhere/d.txt", "{parent}/elsewhere/d"),
            ("archive.tar.gz", "archive.tar"),
            (".config", ".config"),
            ("no extension", "no extension"),
            ("sub.d/plain", "sub.d/plain"),
            ("...", "..."),
            ("a\nb.txt", "a\nb"),
        ],
    )
    def test_outputs_lie_under_the_path_of_the_input(self, folder, tmp_path, out, text, place):
        """The path below the root, without extension; outside of it the full path without leading slash."""
        known = ["a.txt", "sub/deep/c.txt", "archive.tar.gz", ".config", "sub.d/plain", "...", "a\nb.txt"]
        write_files(folder, {**dict.fromkeys(known, "x"), "no extension": "x"})
        write_files(tmp_path / "elsewhere", {"d.txt": "x"})
        marks = {"root": folder, "name": folder.name, "parent": str(tmp_path).strip("/")}
        result = run([text.format(**marks)], out, root=str(folder))
        assert list(result["output"]) == [f"{place.format(**marks)}/copy"]
        assert set(tree(out)) == {"manifest.csv", f"{place.format(**marks)}/copy"}
        assert list(result["input"]) == [text.format(**marks)]

    def test_keep_extension(self, two, out):
        """--keep-extension names the folder a.txt/ instead of a/."""
        run(two, out, keep_extension=True)
        assert set(tree(out)) == {"manifest.csv", "a.txt/copy", "b.txt/copy"}

    def test_a_path_through_a_link_is_the_path_as_written(self, two, tmp_path, out):
        """`..` is resolved in the text; links are followed by nobody but the system."""
        (tmp_path / "link").symlink_to(two)
        run(["link/a.txt"], out, root=str(tmp_path))
        assert "link/a/copy" in tree(out)


# -- collisions ----------------------------------------------------------------------------------------------


class TestCollisions:
    @pytest.mark.parametrize(
        "other", ["a.txt", "./a.txt", "sub/../a.txt", "{root}/a.txt", "file://{root}//a.txt"]
    )
    def test_a_path_listed_twice(self, folder, out, other):
        """The same file in any spelling is refused with both rows."""
        write_files(folder, {"a.txt": "", "sub/b.txt": ""})
        said = refused(["a.txt", "sub/b.txt", other.format(root=folder)], out, root=str(folder))
        assert "is listed twice, in rows 1 and 3" in said

    def test_the_same_name_with_another_extension(self, folder, out):
        """a.wav beside a.flac is refused; --keep-extension is the remedy, and it works."""
        write_files(folder, {"x/a.wav": "1", "x/a.flac": "2", "b.wav": "3"})
        said = refused(folder, out)
        assert "x/a.wav" in said
        assert "x/a.flac" in said
        assert "--keep-extension" in said
        run(folder, out, keep_extension=True)
        assert tree(out)["x/a.wav/copy"] == b"1"
        assert tree(out)["x/a.flac/copy"] == b"2"

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("a.txt", "A.txt"),
            ("sub/a.txt", "SUB/a.txt"),
            (unicodedata.normalize("NFC", "é.txt"), unicodedata.normalize("NFD", "é.txt")),
            (unicodedata.normalize("NFC", "é/a.txt"), unicodedata.normalize("NFD", "É/A.txt")),
            ("straße.txt", "STRASSE.txt"),
            ("ς.txt", "Σ.txt"),
        ],
    )
    @pytest.mark.parametrize("keep_extension", [False, True])
    def test_names_that_some_file_systems_take_for_one(self, folder, out, one, other, keep_extension):
        """Names that differ only by case or Unicode form are refused before work."""
        said = refused([one, "else.txt", other], out, root=str(folder), keep_extension=keep_extension)
        assert one in said
        assert other in said
        assert "same folder" in said
        assert said.endswith("; rename one")

    @pytest.mark.parametrize(
        ("outer", "inner"),
        [("a.txt", "a/b.txt"), ("a.txt", "a/b/c/d.txt"), ("A.txt", "a/b.txt"), ("x/a", "x/a.d/../a/b")],
    )
    def test_a_folder_inside_the_folder_of_another_input(self, folder, out, outer, inner):
        """a.txt beside a/b.txt is refused: the outputs of one would lie among those of the other."""
        for order in ([outer, inner], [inner, outer]):
            said = refused(["else", *order], out, root=str(folder))
            assert f"is the folder of {outer}" in said
            assert inner in said
            assert ("--keep-extension" in said) == outer.endswith(".txt")

    def test_neighbours_do_not_collide(self, folder, out):
        """Names that only begin alike are no collision."""
        names = ["a.txt", "a b.txt", "ab.txt", "a-/a.txt", "b/a.txt", "b/aa.txt", "a.b.txt"]
        write_files(folder, dict.fromkeys(names, ""))
        assert len(run(names, out, root=str(folder))) == len(names)

    @pytest.mark.parametrize(
        "name",
        [
            "manifest.csv.txt",
            "errors.csv.gz",
            ".splitter.txt",
            ".splitter/a.txt",
            "Shards.wav",
            "shards/a",
            "MANIFEST.CSV/a",
            "report.html/a",
        ],
    )
    def test_names_of_splitters_own(self, folder, out, name):
        """An input whose folder would take a name of splitter's own is refused."""
        said = refused(["else", name], out, root=str(folder))
        assert name in said
        assert "that splitter reserves" in said

    def test_what_helps_against_a_name_of_splitters_own(self, folder, out):
        """Each refusal names what does help: another root, the extension, or another name."""
        write_files(folder, {"shards/a.txt": "x", "errors.csv.txt": "y", "manifest.csv": "z"})
        said = refused(["shards/a.txt"], out, root=str(folder))
        assert "; rename the folder shards/, or start inside it: " in said
        assert "--root shards" in said
        assert "that splitter reserves; rename the folder shards/" in refused(folder, out, pattern="shards/*")
        assert refused(["errors.csv.txt"], out, root=str(folder)).endswith(
            "; use --keep-extension, or rename it"
        )
        shard = refused(["shards/shard-000000.tar/00000000-000000.wav"], out, root=str(folder))
        assert "; it is in a shard: pass the shards as DATASET, as in 'FOLDER/shards/*.tar'" in shard
        assert refused(["manifest.csv"], out, root=str(folder), keep_extension=True).endswith("; rename it")
        assert list(run(folder / "shards", out)["output"]) == ["a/copy"]
        result = run(["errors.csv.txt"], out.with_name("other"), root=str(folder), keep_extension=True)
        assert list(result["output"]) == ["errors.csv.txt/copy"]

    def test_reserved_names_further_down_are_free(self, folder, out):
        """They are reserved only at the top of the output folder."""
        names = ["x/manifest.csv", "x/.splitter/y", "x/shards/a", "manifest", "errors.txt"]
        write_files(folder, dict.fromkeys(names, "x"))
        assert len(run(names, out, root=str(folder), keep_extension=True)) == len(names)

    def test_nothing_is_touched_by_a_refused_list(self, two, out):
        """A list that became wrong leaves the finished run as it was."""

        def everything() -> dict[Path, bytes]:
            files = (path for path in out.rglob("*") if path.is_file() and path.name != "lock")
            return {path: path.read_bytes() for path in files}

        run(two, out)
        before = everything()
        bad = write_list(
            two / "bad.csv", [["input", "x"], *([f"{i}.txt", "x"] for i in range(20_000)), ["z"]]
        )
        for source in (["a.txt", "a.txt"], ["shards/x"], bad):
            with pytest.raises(Refused):
                run(source, out, root=str(two))
            assert everything() == before
        bad.unlink()
        assert run(two, out).summary.work.failed == 0
        assert run(two, out).summary.work.inputs == 0


# -- a folder as source, and the output folder ---------------------------------------------------------------


class TestOutputFolder:
    def test_a_folder_source_never_lists_the_output_folder(self, two):
        """Outputs inside the source are left out, also the second time."""
        for _ in range(2):
            result = run(two, two / "outputs")
            assert list(result["input"]) == ["a.txt", "b.txt"]

    def test_nor_when_it_is_named_through_a_link(self, two, tmp_path):
        """The output folder is known by what it is, not by how it is written."""
        (tmp_path / "link").symlink_to(two)
        for source, output in ((two, tmp_path / "link/outputs"), (tmp_path / "link", two / "outputs")):
            assert list(run(source, output)["input"]) == ["a.txt", "b.txt"]

    def test_the_outputs_of_a_run_are_inputs_of_the_next(self, two, tmp_path):
        """The folder of a run is a source without its tables; elsewhere these are files like any other."""
        run(two, tmp_path / "first")
        (tmp_path / "first/errors.csv").write_text("")
        result = run(tmp_path / "first", tmp_path / "second", keep_extension=True)
        assert list(result["input"]) == ["a/copy", "b/copy"]
        write_files(tmp_path / "plain", {"tables/manifest.csv": "x"})
        assert list(run(tmp_path / "plain", tmp_path / "third")["input"]) == ["tables/manifest.csv"]

    def test_the_source_itself_is_refused_as_output(self, folder):
        """Otherwise the next run would take outputs for inputs."""
        with pytest.raises(Refused, match="output"):
            run(folder, folder)
        write_files(folder, {"a.txt": "one"})
        with pytest.raises(Refused, match="output"):
            run(folder, folder)
        assert set(tree(folder)) == {"a.txt"}

    @pytest.mark.parametrize("there", ["", "new", "new/deeper"])
    def test_what_a_refused_run_leaves(self, two, tmp_path, there):
        """The folders that were there, and no others."""
        output = tmp_path / "new/deeper/out"
        (tmp_path / there).mkdir(parents=True, exist_ok=True)
        before = sorted(tmp_path.rglob("*"))
        for source, last in ((["a.txt", "a.txt"], ""), (two, "x" * 300)):
            with pytest.raises(Refused):
                run(source, output / last)
            assert sorted(tmp_path.rglob("*")) == before

    def test_an_empty_folder_stays_empty(self, two, tmp_path):
        """A run that is refused leaves it as it was, and it can be used for the next."""
        (tmp_path / "out").mkdir()
        with pytest.raises(Refused):
            run(["a.txt", "a.txt"], tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []
        assert len(run(two, tmp_path / "out")) == 2

    def test_a_folder_that_holds_something_else(self, two, tmp_path):
        """Work never starts in a folder with other files in it."""
        other = write_files(tmp_path / "photos", {"me.jpg": "!"})
        with pytest.raises(Refused, match="contains something else"):
            run(two, other)
        assert tree(other) == {"me.jpg": b"!"}

    def test_a_file_is_no_folder(self, two):
        """An output that is a file is refused."""
        with pytest.raises(Refused, match="is a file"):
            run([str(two / "a.txt")], two / "b.txt")


# -- grouped rows --------------------------------------------------------------------------------------------


class TestGroupRows:
    def test_rows_with_the_same_path_are_one_input(self, two, out):
        """In any spelling; outputs name the row they come from; the order is that of the first rows."""
        rows = [["b.txt", "1"], ["a.txt", "2"], ["./b.txt", "3"], [str(two / "b.txt"), "4"]]
        write_list(two / "l.csv", [["input", "said"], *rows])
        result = run(two / "l.csv", out, Grouped)
        assert result.summary.inputs == 2
        assert list(result["input"]) == ["b.txt", "./b.txt", str(two / "b.txt"), "a.txt"]
        assert list(result["said"]) == ["1", "3", "4", "2"]
        assert list(result["output"]) == ["b/0", "b/1", "b/2", "a/0"]
        assert list(result["all"]) == ["1, 3, 4", "1, 3, 4", "1, 3, 4", "2"]
        assert (out / "b/1").read_text() == "3"

    def test_the_same_as_a_dataset(self, two):
        """`len` and `dataset[i]` count inputs, not rows."""
        write_list(two / "l.csv", [["input", "said"], ["a.txt", "1"], ["b.txt", "2"], ["a.txt", "3"]])
        dataset = Grouped(two / "l.csv")
        assert len(dataset) == 2
        assert dataset[0][1] == {"all": "1, 3"}

    def test_a_change_in_any_row_redoes_the_input(self, two, out):
        """All rows of an input are part of its fingerprint."""
        rows = [["input", "said"], ["a.txt", "1"], ["b.txt", "2"], ["a.txt", "3"]]
        run(write_list(two / "l.csv", rows), out, Grouped)
        rows[3][1] = "4"
        result = run(write_list(two / "l.csv", rows), out, Grouped)
        assert result.summary.work.inputs == 1
        assert list(result["all"]) == ["1, 4", "1, 4", "2"]

    def test_a_row_that_is_not_there(self, two, out):
        """An output that names a row the input does not have is that input's error."""

        class Wrong(Grouped):
            def process(self, input_file):
                return [OutputFile("x", "x", row=1)], {}

        write_list(two / "l.csv", [["input", "said"], ["a.txt", "1"]])
        assert "row 1" in run(two / "l.csv", out, Wrong).failed["message"][0]

    def test_elsewhere_a_path_listed_twice_is_refused(self, two, out):
        """The remedy names grouping."""
        assert "group" in refused(["a.txt", "a.txt"], out, root=str(two))


@pytest.mark.slow
def test_ten_thousand_rows_and_more_keep_their_order(folder, out):
    """Lists are read and copied in blocks; nothing is lost at their borders."""
    rows = [
        {"input": "a.txt" if i == 12_345 else f"gone/{i}", "n": i, "text": "é" * (i % 7)}
        for i in range(20_001)
    ]
    write_files(folder, {"a.txt": "one"})
    (folder / "l.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = run(folder / "l.jsonl", out)
    assert list(result["n"]) == ["12345"]
    assert list(result.failed["n"]) == [str(i) for i in range(20_001) if i != 12_345]


def rows_of_list(path: Path) -> list[list[str]] | None:
    """The rows that the csv module finds below the header; None if it, or the widths, are not right."""
    try:
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            header, *rows = (row for row in csv.reader(file, strict=True) if row)
    except csv.Error:
        return None
    return rows if all(len(row) == len(header) for row in rows) else None


def rows_of_copy(path: Path) -> list[list[str]] | None:
    """The rows of the copy that a run makes of a list; None if the list is refused."""
    with tempfile.TemporaryFile() as file:
        try:
            source = read_source(InputList(path))
            table = copy_list(source.header, source.rows, file, "input")
        except Refused:
            return None
        return [row for index in range(len(table)) for row in parse_rows(table.text(index))]


@given(
    st.sampled_from(["input", "input,b", "\ufeffinput,b", '"input",b', "b,input,c"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.one_of(
        st.text('ab ,"\r\n\0é', max_size=30),
        st.lists(st.sampled_from(["a", "a,b", "é,", ",", "", '"x,y",b', "a,b,c"])).map("\n".join),
    ),
)
@example("input", "\n", "a\n\nb")
@example("input,b", "\r\n", 'a,b\r\nc,d\r\n"e",f')
@settings(max_examples=depth(100))
def test_a_list_is_what_the_csv_module_says(header, end, text):
    """Whatever stands in the file: lines that are copied as they are, and others, are the same rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "l.csv")
        path.write_bytes((header + end + text).encode())
        assert rows_of_copy(path) == rows_of_list(path)


@pytest.mark.slow
@pytest.mark.parametrize("last", ["z,1", '"z, too",1', "z,1\r", "z,\xff"])
def test_a_list_of_megabytes(folder, last):
    """It is copied block after block; a line that must be written in another way may come late."""
    path = folder / "l.csv"
    path.write_bytes(b"".join([b"input,n\r\n", *(b"a/%d,%0200d\r\n" % (n, n) for n in range(25_000))]))
    with path.open("ab") as file:
        file.write(last.encode("latin-1"))
    assert path.stat().st_size > 4 << 20
    found = rows_of_copy(path)
    assert found == rows_of_list(path)
    assert len(found) == 25_001


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in kilobytes, as Linux does")
@pytest.mark.slow
def test_a_folder_for_each_input_costs_little_memory(folder):
    """A list whose inputs have folders of their own takes few bytes a row more than any other."""
    rows = 100_000
    for name, path in (("one", "{}.txt"), ("own", "speaker-{}/session/take.txt")):
        lines = ["input", *(path.format(number) for number in range(rows))]
        (folder / f"{name}.csv").write_text("\n".join(lines))
    code = (
        "import resource, sys; from splitter.cli.main import exit_code\n"
        "for name in ('one', 'own'):\n"
        "    options = ['--recipe', 'words', '--limit', '1', '--workers', '0', '--quiet', '-o', name]\n"
        "    exit_code(['run', f'{name}.csv', *options])\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    said = program(python=["-c", code], cwd=folder)
    one, own = map(int, said.out.split())
    assert (own - one) * 1000 / rows < 150, said


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gone.wav", ""),
        ("in\\a.wav", "; write / instead of \\"),
        ("in\\gone.wav", ""),
        (
            os.fsdecode(b"\xdcbung.wav"),
            "; its name is not UTF-8: if it comes from a list, save the list as UTF-8",
        ),
    ],
)
def test_a_path_of_another_system_gets_a_hint(tmp_path, name, hint):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.wav").write_bytes(b"")
    with pytest.raises(UnreadableInput) as refused:
        look_at(f"{tmp_path}/{name}")
    assert str(refused.value) == f"{tmp_path}/{name}: does not exist{hint}"
