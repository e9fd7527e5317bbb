"""create, to-csv, first and show."""

import csv
import importlib.util
import io
import re
import struct
import zlib

import numpy as np
import pytest
import soundfile
from doors import here, program, tree, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from tar_archives import KEYS, read_tar, tar, write_tar

CELLS = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=8)


def test_create_takes_files_and_literals(folder):
    """Of @wav the cells are paths from the plan's folder on, of others what is stored; empty is none."""
    write_files(folder, {"data/a.x.wav": b"\1\2", "data/b.wav": b"x" * 5_000_000})
    plan = [["key", "@wav", "cls"], ["s/a", "data/a.x.wav", "3"], ["b", "data/b.wav", ""], ["c", "", "@b"]]
    expected = [("s/a.wav", b"\1\2"), ("s/a.cls", b"3"), ("b.wav", b"x" * 5_000_000), ("c.cls", b"@b")]
    write_list(folder / "plan.csv", plan)
    assert tar("create", folder / "plan.csv", "-o", folder / "out.tar") == 0
    assert read_tar(folder / "out.tar") == expected
    (folder / "plan.tsv").write_text("\n".join("\t".join(row) for row in plan))
    assert tar("create", folder / "plan.tsv", "-o", folder / "out.tar") == 0
    assert read_tar(folder / "out.tar") == expected


def test_create_numbers_samples_without_keys(folder):
    """From standard input, too, where paths start from the current folder."""
    write_files(folder, {"a.txt": "A"})
    said = program("tar", "create", "-", "-o", "out.tar", cwd=folder, stdin="@txt,cls\na.txt,0\na.txt,1\n")
    assert said.code == 0, said.err
    assert [name for name, _ in read_tar(folder / "out.tar")] == [
        "000000000.txt",
        "000000000.cls",
        "000000001.txt",
        "000000001.cls",
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["key", "@wav"], ["a", "gone.wav"], ["b", "gone2.wav"]], "line 2: gone.wav: No such file"),
        ([["key", "@wav"], ["a", "."]], "is not a file"),
        ([["key", "cls"], ["a.b", "1"]], "has a dot"),
        ([["key", "cls"], ["../a", "1"]], "leads out"),
        ([["key", "cls"], ["/a", "1"]], "begins with a slash"),
        ([["key", "cls"], ["a", "1"], ["a", "2"]], "occurs twice"),
        ([["key", "cls"], ["", "1"]], "is empty"),
        ([["key", "cls"], ["a", ""]], "has no fields"),
        ([["key", "cls"], ["a"]], "has 1 columns"),
        ([["key", "cls", "@cls"], ["a", "1", "2"]], "two columns for 'cls'"),
        ([["key", "../x"], ["a", "1"]], "cannot be the name of a field"),
        ([["key"], ["a"]], "has no columns"),
        ([["key;txt"], ["a;x"]], "has one column, 'key;txt'; is it --delimiter ';'?"),
        ([["key\ttxt"], ["a\tx"]], "is it --delimiter '\\t'?"),
        ([], "has no columns"),
    ],
)
def test_a_plan_is_checked_before_work(folder, capfd, rows, expected):
    """One line, exit code 2, and no archive."""
    write_list(folder / "plan.csv", rows)
    before = tree(folder)
    said = here(capfd, "tar", "create", folder / "plan.csv", "-o", folder / "out.tar")
    assert (said.code, len(said.lines)) == (2, 1)
    assert expected in said.err
    assert tree(folder) == before


@given(st.dictionaries(KEYS, st.tuples(CELLS, CELLS), min_size=1, max_size=6))
@settings(max_examples=depth(15))
def test_a_table_comes_back_from_its_archive(tmp_path, rows):
    """create, then to-csv, against the csv module; one end of a line at the end of a text is not kept."""
    rows = {key: cells for key, cells in rows.items() if "\udcff" not in key and not key.startswith("./")}
    rows = {key: cells for key, cells in rows.items() if cells != ("", "") and key.strip("\r\n") == key}
    rows = {key: cells for key, cells in rows.items() if ".." not in key.split("/")}
    if not rows:
        return
    with (tmp_path / "plan.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["key", "txt", "json"], *([key, *cells] for key, cells in rows.items())])
    assert tar("create", tmp_path / "plan.csv", "-o", tmp_path / "o.tar") == 0
    given = ["-f", "gone;txt", "-f", "json", "--missing", "", "-o", tmp_path / "out.tsv"]
    assert tar("to-csv", tmp_path / "o.tar", *given) == 0
    with (tmp_path / "out.tsv").open(newline="", encoding="utf-8") as file:
        found = list(csv.reader(file, delimiter="\t"))
    assert found[0] == ["key", "gone;txt", "json"]
    assert found[1:] == [[key, *(cell.removesuffix("\n") for cell in cells)] for key, cells in rows.items()]


def test_to_csv_takes_nothing_for_granted(folder, capfd):
    """A sample without the field, or whose field is no text, is one clear error, and no table is left."""
    write_tar(folder / "in.tar", [("a.cls", b"1"), ("b.txt", b"2")])
    said = here(capfd, "tar", "to-csv", folder / "in.tar", "-f", "cls", "-o", folder / "out.csv")
    assert (said.code, len(said.lines)) == (1, 1)
    assert "sample 'b' has no field 'cls'" in said.err
    write_tar(folder / "in.tar", [("a.cls", b"\xff")])
    said = here(capfd, "tar", "to-csv", folder / "in.tar", "-f", "cls", "-o", folder / "out.csv")
    assert (said.code, len(said.lines)) == (1, 1)
    assert "'a.cls' is not text" in said.err
    assert [path.name for path in folder.iterdir()] == ["in.tar"]


MANY = [
    (f"k{n}.{field}", text)
    for n in range(9)
    for field, text in [("cls", b"%d\n" % (n % 3)), ("txt", b"text %d" % n)]
]


@pytest.mark.parametrize(
    ("conditions", "key"),
    [
        (["cls=2"], "k2"),
        (["cls=2", "txt~[4-9]"], "k5"),
        (["key=k7"], "k7"),
        (["key~^k[89]"], "k8"),
        (["json;cls=1"], "k1"),
        (["cls == 2 and txt ~ '[4-9]'"], "k5"),
        (["cls > 1", "key in ('k0', 'k8')"], "k8"),
        (["`json;cls` == 1"], "k1"),
        (["cls == '2' and json == ''"], "k2"),
        (["not (cls < 2 or 'text 2' in txt)"], "k5"),
    ],
)
def test_first_finds_the_first(folder, capfd, conditions, key):
    """Equal to a value, found by an expression, or what --where of a run may say; all conditions hold."""
    write_tar(folder / "in.tar", MANY)
    given = [one for condition in conditions for one in ("-w", condition)]
    assert here(capfd, "tar", "first", folder / "in.tar", *given).out.splitlines()[0] == key
    assert tar("first", folder / "in.tar", *given, "-o", folder / "out.tar") == 0
    assert read_tar(folder / "out.tar") == [member for member in MANY if member[0].startswith(f"{key}.")]


@pytest.mark.parametrize(
    "condition", ["cls=3", "gone=1", "gone~.", "txt=__import__('os').system('touch owned')"]
)
def test_first_finds_nothing(folder, capfd, monkeypatch, condition):
    """Exit code 1 and one line; what is asked for is text, and never run."""
    monkeypatch.chdir(folder)
    write_tar(folder / "in.tar", MANY)
    said = here(capfd, "tar", "first", "in.tar", "-w", condition, "-o", "out.tar")
    assert (said.code, len(said.lines)) == (1, 1)
    assert "no sample has" in said.err
    assert [path.name for path in folder.iterdir()] == ["in.tar"]


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    rows = zlib.compress(b"".join(b"\0" + bytes(3 * width) for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_show_says_what_is_in_samples(folder, capfd):
    """Texts, images, sounds by rate, channels and duration; bytes by their size only."""
    wav = io.BytesIO()
    soundfile.write(wav, np.zeros((12000, 2)), 8000, format="WAV")
    jpeg = b"\xff\xd8\xff\xe0\0\4ab" + b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 480, 640)
    members = [
        ("a.wav", wav.getvalue()),
        ("a.png", png(7, 5)),
        ("a.jpg", jpeg),
        ("a.gif", b"GIF89a\x03\0\x02\0"),
        ("a.txt", "ä text\nof two lines\x1b[31m".encode()),
        ("a.json", b'{"a": 1}\n'),
        ("a.bin", bytes(range(256))),
        ("a.flac", b"no sound"),
        ("b.cls", b"4"),
    ]
    write_tar(folder / "in.tar", members)
    said = here(capfd, "tar", "show", folder / "in.tar")
    assert said.code == 0
    lines = [re.sub(r"\s{2,}", "  ", line.strip()) for line in said.out.splitlines()]
    assert lines == [
        "a",
        f"wav  {len(wav.getvalue()):,}  8000 Hz, 2 channels, 1.500 s",
        f"png  {len(png(7, 5))}  PNG 7 x 5",
        f"jpg  {len(jpeg)}  JPEG 640 x 480",
        "gif  10  GIF 3 x 2",
        "txt  25",
        'json  9  {"a": 1}',
        "bin  256",
        "flac  8  cannot be read as sound",
        "b",
        "cls  1  4",
    ]
    assert here(capfd, "tar", "show", folder / "in.tar", "--count", "0").out == ""


def test_a_preview_needs_pillow(folder):
    """The package is named that draws it."""
    write_tar(folder / "in.tar", [("a.png", png(4, 4))])
    hidden = (
        "import sys; sys.modules['PIL.Image'] = None; from splitter.cli.main import main; main(sys.argv[1:])"
    )
    said = program("tar", "show", "in.tar", "--preview", cwd=folder, python=("-c", hidden))
    assert (said.code, len(said.lines)) == (2, 1)
    assert "pip install pillow" in said.err


@pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="needs Pillow")
def test_a_preview_is_drawn(folder):
    """In half blocks, two pixels each."""
    write_tar(folder / "in.tar", [("a.png", png(4, 4))])
    said = program("tar", "show", "in.tar", "--preview", "--width", "6", cwd=folder)
    assert (said.code, said.out.count("\u2580")) == (0, 18)
