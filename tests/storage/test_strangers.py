"""A folder from a stranger: no command touches anything outside, and each says in a line what is wrong."""

import contextlib
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doors import here, write_files, write_list
from nightly import NIGHTLY
from strangers import HOSTILE, at_most, pictured, victim_tree

import splitter
from splitter.errors import SplitterError, StorageError

pytestmark = pytest.mark.slow

SECONDS = 60
# of the table so many pairs are tried in the gate: one in
SAMPLE = 1 if NIGHTLY else 8
TEXTS = {"a.txt": "simple", "b.txt": "word", "c.txt": "three", "gone.txt": "removed"}


def run(*options: str) -> Callable[[Path], list[str]]:
    return lambda folder: [
        "run",
        str(folder / "list.csv"),
        "--recipe=words",
        f"--root={folder / 'inputs'}",
        f"--output={folder / 'outputs'}",
        "--workers=0",
        *options,
    ]


def told(*words: str) -> Callable[[Path], list[str]]:
    return lambda folder: [word.replace("OUTPUT", str(folder / "outputs")) for word in words]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "run": run(),
    "run --prune": run("--prune"),
    "run --retry-failed": run("--retry-failed"),
    "run --repair": run("--repair"),
    "run --fresh": run("--fresh"),
    "run with a change": run("--num-chars=3"),
    "run into shards": run("--sink=webdataset", "--prune"),
    "run --part": run("--part=1/2"),
    "plan": lambda folder: ["plan", *run("--num-chars=3")(folder)[1:-1]],
    "manifest": told("manifest", "OUTPUT", "--manifest-format=csv,parquet"),
    "split": told("split", "OUTPUT"),
    "split --remove": told("split", "OUTPUT", "--remove"),
    "verify": told("verify", "OUTPUT"),
    "verify --deep": told("verify", "OUTPUT", "--deep=2"),
    "stats": told("stats", "OUTPUT"),
    "report": told("report", "OUTPUT"),
}


def read(folder: Path) -> None:
    """Read all that there is, as a program does."""
    manifest = splitter.read_manifest(folder / "outputs")
    for _, row in manifest[manifest["output"] != ""].iterrows():
        splitter.read_output(row)


def opened(folder: Path) -> None:
    """Go through the outputs, as a training loop does."""
    for _ in splitter.open(folder / "outputs", streaming=True):
        pass


READERS = {"read_output": read, "splitter.open": opened}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """An output folder of loose files, and what a stranger would send with it."""
    folder = tmp_path_factory.mktemp("made")
    write_files(folder / "inputs", TEXTS)
    write_list(folder / "list.csv", [["input"], *([name] for name in (*TEXTS, "missing.txt"))])
    assert splitter.cli.main.exit_code(run("--manifest-format=csv,jsonl", "--quiet")(folder)) == 1
    write_files(folder / "inputs", {"e.txt": "new"})
    names = [name for name in (*TEXTS, "missing.txt", "e.txt") if name != "gone.txt"]
    write_list(folder / "list.csv", [["input"], *([name] for name in names)])
    return folder


@pytest.fixture
def received(made: Path, tmp_path: Path) -> Path:
    """A copy of it, beside what belongs to whoever received it."""
    folder = tmp_path / "received"
    shutil.copytree(made, folder, symlinks=True)
    victim_tree(folder)
    return folder


@pytest.fixture(autouse=True)
def unblocked() -> Iterator[None]:
    """A command that waits for a pipe is a failure, and not a test that never ends."""

    def stop(*_: object) -> None:
        raise AssertionError("it blocks")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _chosen(name: str) -> bool:
    return zlib.crc32(name.encode()) % SAMPLE == 0


def _pairs(commands) -> list[tuple[str, str]]:
    return [(thing, command) for thing in HOSTILE for command in commands if _chosen(thing + command)]


def outside(folder: Path) -> dict[str, object]:
    """All that is not in the output folder."""
    beside = [path for path in folder.iterdir() if path.name not in ("outputs", "copy")]
    return {str(path): pictured(path) for path in beside}


@pytest.mark.parametrize(("thing", "command"), _pairs(COMMANDS))
def test_a_command_touches_nothing_outside(received: Path, capfd, monkeypatch, thing: str, command: str):
    """Whatever a stranger has put into the folder; and it says so in a line, without a traceback."""
    monkeypatch.chdir(received)
    HOSTILE[thing](received / "outputs", received / "victim")
    before = outside(received)
    said = here(capfd, *COMMANDS[command](received))
    assert outside(received) == before
    assert said.code in (0, 1, 2), said.err
    assert "Traceback" not in said.err
    if said.code == 2:
        assert len(said.lines) == 1, said.err


@pytest.mark.parametrize(("thing", "reader"), _pairs(READERS))
def test_a_reader_touches_nothing_outside(received: Path, thing: str, reader: str):
    """It gives what is there, or says in an error of splitter's own why it does not."""
    HOSTILE[thing](received / "outputs", received / "victim")
    before = outside(received)
    with contextlib.suppress(SplitterError):
        READERS[reader](received)
    assert outside(received) == before


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        ("a link at .splitter", ".splitter"),
        ("a link at staging", ".splitter/staging"),
        ("a link at records", ".splitter/records"),
        ("a link at lock", ".splitter/lock"),
        ("a link to nothing at dataset.csv.new", ".splitter/dataset.csv.new"),
        ("a pipe at run.json", ".splitter/run.json"),
    ],
)
def test_what_stands_in_the_way_is_named(received: Path, capfd, thing: str, name: str):
    """Before any work, with what to do; the folder is then as it was."""
    HOSTILE[thing](received / "outputs", received / "victim")
    for command in ("run", "plan", "manifest", "split"):
        said = here(capfd, *COMMANDS[command](received))
        assert said.code == 2
        assert len(said.lines) == 1
        assert f"{received}/outputs/{name} is " in said.err
        assert "remove it" in said.err


@pytest.mark.parametrize("thing", [one for one in HOSTILE if one.startswith(("a promise", "names"))])
def test_a_record_that_no_run_wrote_is_named(received: Path, capfd, thing: str):
    """Nothing is done by it, also not for the records beside it."""
    HOSTILE[thing](received / "outputs", received / "victim")
    said = here(capfd, *COMMANDS["run"](received))
    assert said.code == 1
    assert len(said.lines) == 1
    assert "/000009-000000.begun: is damaged (it " in said.err
    assert "remove it" in said.err


@pytest.mark.parametrize("thing", [one for one in HOSTILE if "output" in one and one.startswith("an ")])
def test_a_commit_of_an_output_that_no_run_made_is_named(received: Path, capfd, thing: str):
    """Before it is pruned: also what is inside of the folder, and splitter's own."""
    HOSTILE[thing](received / "outputs", received / "victim")
    said = here(capfd, *COMMANDS["run --prune"](received))
    assert said.code == 1
    assert "/000008-000000: is damaged (it" in said.lines[-1]
    assert (received / "outputs" / ".splitter" / "lock").exists()


def test_the_folder_itself_may_be_a_link(received: Path, capfd):
    """What the user names is followed: a folder on another disk."""
    (received / "outputs").rename(received / "elsewhere")
    (received / "outputs").symlink_to("elsewhere")
    assert here(capfd, *run("--prune", "--num-chars=3")(received)).code == 1
    assert here(capfd, *COMMANDS["verify"](received)).code == 0
    assert (received / "elsewhere" / "e" / "0.txt").exists()


@pytest.mark.parametrize("name", ["a/0.txt", "a"])
def test_an_output_that_is_a_link_is_named_with_a_remedy(received: Path, capfd, name: str):
    """As data versioning tools leave them: one line says which is a link, and what to do."""
    linked = received / "outputs" / name
    linked.rename(received / "elsewhere")
    linked.symlink_to(received / "elsewhere")
    where = "it" if name == "a/0.txt" else linked
    for reader in READERS.values():
        with pytest.raises(StorageError) as raised:
            reader(received)
        message = str(raised.value)
        assert message.startswith(f"cannot read {received}/outputs/a/0.txt: {where} is a link, and links")
        assert "git annex unlock" in message
        assert "\n" not in message
    for command in ("verify", "report"):
        said = here(capfd, *COMMANDS[command](received))
        assert said.code == 1
        assert "a/0.txt" in said.err + said.out
        assert "is a link" in said.err + said.out


def test_the_program_of_a_stranger_is_not_run(received: Path, capfd):
    """`verify --deep` takes parameters from the folder: not those that say which program to run."""
    command = ["touch", str(received / "victim" / "touched"), "{output}"]
    arguments = COMMANDS["run"](received)
    arguments[2] = "--recipe=command"
    arguments += ["--command=cp {input} {output}", "--fresh"]
    here(capfd, *arguments)
    kept = splitter.storage.folder.LocalStorage(str(received / "outputs"))
    from splitter.ledger.recipe_record import how_before, note_how

    how, _ = how_before(kept)
    note_how(kept, {**how, "parameter command": command}, [])
    said = here(capfd, *COMMANDS["verify --deep"](received))
    assert said.code == 2
    assert "would run a program that the folder names" in said.err
    assert not (received / "victim" / "touched").exists()


# -- tables of strangers -------------------------------------------------------------------------------------


def _table(**columns) -> "pa.Table":
    return pa.table({"key": ["00000000-000000", "00000000-000001"], **columns})


def _pickled(path: Path) -> None:
    """What pyarrow once unpickled when it read a schema."""
    mark = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": PICKLE}
    field = pa.field("file", pa.binary(), metadata=mark)
    pq.write_table(
        pa.table([pa.array(["a"]), pa.array([b"x"])], schema=pa.schema([("key", pa.string()), field])), path
    )


PICKLE = b"cos\nsystem\n(S'touch victim/pickled'\ntR."
TABLES = {
    "no table": lambda path: path.write_bytes(b"PAR1 and no more"),
    "a table of other columns": lambda path: pq.write_table(pa.table({"a": [1]}), path),
    "content that is text": lambda path: pq.write_table(_table(file=["a", "b"]), path),
    "content that is a number": lambda path: pq.write_table(_table(audio=[1, 2]), path),
    "content of other fields": lambda path: pq.write_table(_table(file=[{"b": 1}, {"b": 2}]), path),
    "content that is missing": lambda path: pq.write_table(
        _table(file=pa.array([None, None], pa.null())), path
    ),
    "keys that are numbers": lambda path: pq.write_table(pa.table({"key": [1], "file": [b"a"]}), path),
    "a pickle": _pickled,
    "a cut table": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "a footer that lies": lambda path: path.write_bytes(path.read_bytes()[:-8] + b"\xff\xff\xff\x7fPAR1"),
}


@pytest.mark.parametrize("thing", TABLES)
def test_a_table_of_a_stranger(received: Path, capfd, monkeypatch, thing: str):
    """Its samples cannot be read, and that is said; nothing is executed, nor made of what it states."""
    monkeypatch.chdir(received)
    shards = run("--sink=parquet", "--fresh", "--prune")(received)
    here(capfd, *shards)
    (shard,) = (received / "outputs" / "shards").iterdir()
    TABLES[thing](shard)
    before = outside(received)
    for name in ("verify", "report", "stats"):
        said = here(capfd, *COMMANDS[name](received))
        assert said.code == (0 if name == "stats" else 1), said.err
        assert "Traceback" not in said.err
    for reader in READERS.values():
        with pytest.raises(StorageError, match=r"shard-000000\.parquet"):
            reader(received)
    write_files(received / "inputs", {"f.txt": "more"})
    with (received / "list.csv").open("a") as file:
        file.write("f.txt\n")
    before = outside(received)
    said = here(capfd, *run("--sink=parquet")(received))
    assert said.code == 1
    assert "Traceback" not in said.err
    assert outside(received) == before


def _one_value(rows: int, value: bytes | str) -> "pa.DictionaryArray":
    """A column of a value that stands in the file once, and unpacks to as many as there are rows."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


def bomb(path: Path, **columns) -> Path:
    """A Parquet file of a few kilobytes."""
    how = {"compression": "zstd", "use_dictionary": True, "dictionary_pagesize_limit": 1 << 30}
    pq.write_table(pa.table(columns), path, store_schema=False, **how)
    assert path.stat().st_size < 4000
    return path


def test_contents_that_unpack_to_more_than_memory_are_refused(received: Path, capfd, monkeypatch):
    """A shard of a kilobyte: what one row group may unpack to is bounded, whatever stands in its footer."""
    here(capfd, *run("--sink=parquet", "--fresh", "--prune")(received))
    (shard,) = (received / "outputs" / "shards").iterdir()
    bomb(shard, key=[f"{number:08d}-000000" for number in range(64)], file=_one_value(64, bytes(16 << 20)))
    for most in (4 << 30, 1 << 27):
        monkeypatch.setattr("splitter.archives.row_groups.MOST_IN_GROUP", most)
        for reader in READERS.values():
            # without the limit of splitter's own that of the system is met, with the same words
            with (
                at_most(1 << 29),
                pytest.raises(StorageError, match=r"shard-000000\.parquet: cannot be read"),
            ):
                reader(received)


def test_labels_that_unpack_to_more_than_memory_are_refused(received: Path, capfd, monkeypatch):
    """In a list, and beside the contents of shards that are inputs: one line, after a part of it."""
    monkeypatch.setattr("splitter.inputs.lists.MOST_AT_ONCE", 1 << 27)
    monkeypatch.setattr("splitter.inputs.shards.parquet.MOST_LABELS", 1 << 27)
    monkeypatch.setattr("splitter.archives.row_groups.GOOD_SIZE", 1 << 25)
    text = _one_value(1000, "x" * (8 << 20))
    small = _one_value(1000, "a.txt")
    files = [
        bomb(received / "list.parquet", input=small, note=text),
        bomb(received / "shard.parquet", file=_one_value(1000, b"word"), note=text),
    ]
    for path in files:
        arguments = run("--fresh")(received)
        arguments[1] = str(path)
        with at_most(3 << 28):
            said = here(capfd, *arguments)
        assert said.code == 2
        assert len(said.lines) == 1, said.err
        assert str(path) in said.err


def test_an_input_in_a_dictionary_is_read_alone(received: Path, capfd):
    """Many rows of one large content do not come into memory together."""
    path = bomb(received / "shard.parquet", file=_one_value(70, bytes(32 << 20)))
    output = f"--output={received / 'other'}"
    with at_most(1 << 29):
        said = here(
            capfd, "run", path, "--recipe=command", "--command=true {input} {output}", "--limit=2", output
        )
    assert said.code == 0, said.err
