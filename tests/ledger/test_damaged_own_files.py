"""Records and small files of `.splitter`, damaged or forged: one clear line, and nothing outside touched."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from doors import here, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY
from strangers import at_most, pictured, victim_tree

import splitter
from splitter.storage.checked_file import sealed, unsealed

pytestmark = pytest.mark.slow

TRIALS = 3000 if NIGHTLY else 40
GAPS = 12
DEEP = b"[" * 100_000
# JSON that a stranger may put in the place of any value
LIES = [
    10**18,
    -1,
    10**400,
    None,
    True,
    "",
    "../victim/x",
    "\ud800",
    [],
    {},
    [[]],
    {"a": [1]},
    0.5,
    "/",
    [10**30],
]
# more than there is now
MOST_MEMORY = 1 << 30


def run(folder: Path, output: str, *options: str) -> list[str]:
    given = str(folder / "list.csv"), "--recipe=words", f"--root={folder}/inputs", "--workers=0"
    return ["run", *given, f"--output={folder / output}", *options]


def commands(folder: Path, output: str) -> list[list[str]]:
    out = str(folder / output)
    sink = ["--sink=parquet", "--prune"] if output == "shards" else []
    return [
        run(folder, output, *sink),
        run(folder, output, *sink, "--retry-failed"),
        run(folder, output, *sink, "--prune", "--num-chars=3"),
        ["plan", *run(folder, output, *sink)[1:]],
        ["manifest", out],
        ["split", out],
        ["verify", out],
        ["stats", out],
        ["report", out],
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Two output folders: of loose files, and of shards."""
    folder = tmp_path_factory.mktemp("made")
    write_files(folder / "inputs", {"a.txt": "simple", "b.txt": "word", "c.txt": "gone"})
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["c.txt"], ["missing.txt"]])
    for output, options in (("loose", ["--manifest-format=csv,jsonl"]), ("shards", ["--sink=parquet"])):
        assert splitter.cli.main.exit_code(run(folder, output, *options, "--quiet")) == 1
        assert splitter.cli.main.exit_code(["split", str(folder / output)]) == 0
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["missing.txt"]])
    return folder


def _own_files(made: Path, output: str) -> list[str]:
    own = made / output / ".splitter"
    return sorted(
        str(path.relative_to(made)) for path in own.rglob("*") if path.is_file() and path.stat().st_size
    )


def _flipped(text: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def _forged(text: bytes, chance: random.Random) -> bytes:
    """One value of the JSON is another, and the checksum is right."""
    try:
        content, more = unsealed(text)
    except ValueError:
        line, _, more = text.partition(b"\n")
        try:
            content = json.loads(line)
        except ValueError:
            return DEEP
    is_record = "heads" in content
    _lie(content, chance)
    try:
        return json.dumps(content).encode() + b"\n" + more if is_record else sealed(content, more or None)
    except ValueError:
        return DEEP


def _lie(content: dict, chance: random.Random) -> None:
    key = chance.choice([*content])
    value = content[key]
    if isinstance(value, dict) and value and chance.random() < 0.5:
        _lie(value, chance)
    elif isinstance(value, list) and value and chance.random() < 0.5:
        value[chance.randrange(len(value))] = chance.choice(LIES)
    else:
        content[key] = chance.choice(LIES)


WAYS = {
    "cut": lambda text, chance: text[: chance.randrange(len(text))],
    "flipped": _flipped,
    "forged": _forged,
    "nested": lambda text, chance: DEEP,
    "nested in a key": lambda text, chance: b'{"a": ' + DEEP,
    "longer": lambda text, chance: text + b"x" * chance.randint(1, 50),
    "empty": lambda text, chance: b"",
    "not a number": lambda text, chance: b'{"size": NaN, "entries": NaN, "text": Infinity, "heads": []}\n',
    "lies of its size": lambda text, chance: (
        b'{"heads": [], "entries": %d, "text": %d}\n'
        % (chance.choice([10**18, -(10**18), 1 << 62]), chance.choice([10**18, 0, -1]))
    ),
}


@settings(max_examples=TRIALS)
@given(seed=st.integers(0, 1 << 32), way=st.sampled_from(sorted(WAYS)))
def test_a_damaged_file_of_its_own_is_one_clear_line(
    made: Path, tmp_path_factory, capfd, seed: int, way: str
):
    chance = random.Random(seed)
    output = chance.choice(["loose", "shards"])
    name = chance.choice(_own_files(made, output))
    folder = tmp_path_factory.mktemp("forged")
    shutil.copytree(made, folder, dirs_exist_ok=True)
    victim = victim_tree(folder)
    before = pictured(victim)
    (folder / name).write_bytes(WAYS[way]((folder / name).read_bytes(), chance))
    command = chance.choice(commands(folder, output))
    said = here(capfd, *command)
    try:
        assert said.code in (0, 1, 2), said.err
        assert "Traceback" not in said.err
        assert said.code != 2 or len(said.lines) == 1, said.err
        assert pictured(victim) == before
    except AssertionError as error:
        raise AssertionError(f"{name} {way}: {' '.join(command)}\n{said.err[-3000:]}") from error
    finally:
        shutil.rmtree(folder)


def test_a_row_of_a_record_with_a_value_too_few_is_one_clear_line(made: Path, tmp_path: Path, capfd):
    """The record is named when the manifest is made of it."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    names = [name for name in _own_files(tmp_path, "loose") if "/records/" in name]
    for name in names:
        before, _, after = (tmp_path / name).read_bytes().rpartition(b",")
        (tmp_path / name).write_bytes(before + b";" + after)
    said = here(capfd, "manifest", tmp_path / "loose")
    assert (said.code, len(said.lines)) == (1, 1), said.err
    assert ": is damaged (its rows are wrong); remove it to do its inputs again" in said.err
    assert any(name in said.err for name in names)


def test_a_record_that_lies_of_its_size_takes_no_memory(made: Path, tmp_path: Path, capfd):
    """Before anything is read, what it says is held against what there is."""
    shutil.copytree(made / "loose", tmp_path / "out")
    record = tmp_path / "out" / ".splitter/records/000001-lies"
    record.write_bytes(b'{"heads": [], "entries": 1000000000000, "text": 5}\n')
    with at_most(MOST_MEMORY):
        said = here(capfd, "manifest", tmp_path / "out")
    assert said.code == 1
    assert "/000001-lies: is damaged (its size is wrong)" in said.err
    # a gap of a terabyte takes no room on disk
    with record.open("wb") as file:
        file.truncate(1 << 40)
    said = here(capfd, "manifest", tmp_path / "out")
    assert said.code == 1
    assert "/000001-lies: is damaged" in said.err


@pytest.mark.parametrize("output", ["loose", "shards"])
def test_a_gap_takes_no_memory(made: Path, tmp_path_factory, capfd, output: str):
    """A file that takes no room on disk is not read whole, whichever it is: one line names it."""
    chance = random.Random(output)
    pairs = [(name, number) for name in _own_files(made, output) for number in range(9)]
    for name, number in pairs if NIGHTLY else chance.sample(pairs, GAPS):
        folder = tmp_path_factory.mktemp("gap")
        shutil.copytree(made, folder, dirs_exist_ok=True)
        if chance.random() < 0.5:
            (folder / name).write_bytes(b"")
        os.truncate(folder / name, 1 << 37)
        command = commands(folder, output)[number]
        with at_most(MOST_MEMORY):
            said = here(capfd, *command)
        assert said.code in (0, 1, 2), said.err
        assert "Traceback" not in said.err, said.err
        assert "emory" not in said.err, said.err
        assert said.code != 2 or len(said.lines) == 1, said.err
        shutil.rmtree(folder)
