"""The table of the files of `.splitter` holds in the docs, in folders of runs, and where damage is told."""

import math
import os
import pickle
import re
from pathlib import Path

import pytest
from doors import here, write_files, write_list

import splitter
from splitter.errors import StorageError
from splitter.ledger.run_files import COLUMNS, GROUPS, LAST_RUN, LISTED, RULE, RUN, RUN_FILES
from splitter.storage.checked_file import sealed
from splitter.storage.opening import storage_of

DESIGN = Path(splitter.__file__).parents[1] / "docs" / "design.md"


def test_the_docs_show_the_table():
    section = (
        DESIGN.read_text(encoding="utf-8").partition("## The files of `.splitter`")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| `(.+?)` \| (.+) \| (.+) \|$", section, re.MULTILINE)
    assert rows == [(file.name, file.says, file.remedy) for file in RUN_FILES]


@pytest.fixture
def run(folder: Path, capfd) -> list[str]:
    """The arguments of a run into Parquet shards that has ended, divided into splits."""
    write_files(folder / "inputs", {"a.txt": "simple", "b.txt": "word"})
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"]])
    how = ["--recipe", "words", "--root", "inputs", "--workers", "0", "--output", folder / "out"]
    run = ["run", folder / "list.csv", *map(str, how), "--sink", "parquet", "--manifest-format", "csv,jsonl"]
    assert here(capfd, *run).code == 0
    assert here(capfd, "split", folder / "out").code == 0
    return run


def test_the_table_has_every_file_that_runs_leave(run, folder: Path):
    patterns = [re.sub(r"<\w+>|\\\*", ".+", re.escape(file.name).replace(r"\<", "<")) for file in RUN_FILES]
    locks = r"\.splitter/(lock.*|gate|workers|part-.+)"
    for path in (folder / "out/.splitter").rglob("*"):
        name = f".splitter/{path.relative_to(folder / 'out/.splitter')}"
        if path.is_file():
            assert any(re.fullmatch(pattern, name) for pattern in (*patterns, locks)), name


def edit(path: Path) -> str:
    path.write_bytes(path.read_bytes().replace(b'"checksum": "xxh128:', b'"checksum": "xxh128:0', 1))
    return "its checksum does not match"


def make_hollow(path: Path) -> str:
    os.truncate(path, 1 << 37)
    return "137,438,953,472 bytes, most of which were never written"


@pytest.mark.parametrize(
    ("file", "damage"),
    [(GROUPS, edit), (COLUMNS, edit), (RULE, edit), (RUN, edit), (LISTED, edit), (GROUPS, make_hollow)],
    ids=lambda one: getattr(one, "name", None) or one.__name__,
)
def test_whoever_meets_a_damaged_file_gives_the_advice_of_the_table(run, folder: Path, file, damage, capfd):
    """`verify` and the command that needs the file say the same."""
    path = folder / "out" / file.name
    line = f"{path}: is damaged ({damage(path)}); {file.remedy}"
    assert line in here(capfd, "verify", folder / "out").out.splitlines()
    write_files(folder / "inputs", {"c.txt": "more"})
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["c.txt"]])
    needs_it = ["manifest", folder / "out"] if file is LISTED else run
    said = here(capfd, *needs_it)
    assert said.code == (2 if file is LISTED else 1)
    assert said.lines[-1].endswith(f": {line}")


def test_a_number_that_no_integer_holds_is_damage(run, folder: Path, capfd):
    path = folder / "out" / GROUPS.name
    path.write_bytes(sealed({"size": math.inf}, b""))
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["c.txt"]])
    said = here(capfd, *run)
    assert said.code == 1
    assert f"{path}: is damaged (cannot convert float infinity to integer); {GROUPS.remedy}" in said.err


def test_the_advice_to_split_again_helps(run, folder: Path, capfd):
    (folder / "out" / RULE.name).write_bytes(b"{")
    assert here(capfd, "verify", folder / "out").code == 1
    assert here(capfd, "split", folder / "out").code == 0
    assert here(capfd, "verify", folder / "out").code == 0


def test_a_hollow_file_that_is_only_written_is_replaced(run, folder: Path, capfd):
    """What only the report, or a later split, needs does not stop a run or a split."""
    make_hollow(folder / "out" / LAST_RUN.name)
    write_files(folder / "inputs", {"c.txt": "more"})
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["c.txt"]])
    assert here(capfd, *run).code == 0
    make_hollow(folder / "out" / RULE.name)
    assert here(capfd, "split", folder / "out").code == 0
    assert here(capfd, "verify", folder / "out").code == 0


def test_the_error_of_a_hollow_file_can_be_pickled(run, folder: Path):
    """As when it is raised in a pool of processes."""
    make_hollow(folder / "out" / LAST_RUN.name)
    with pytest.raises(StorageError, match="most of which were never written") as caught:
        storage_of(str(folder / "out")).read(LAST_RUN.name)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))
