"""Output folders as a stranger might send them, and files that opening one must not touch."""

import contextlib
import os
import resource
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import xxhash

from splitter.ledger.records import DONE, RecordWriter, RowColumns
from splitter.storage.checked_file import sealed
from splitter.storage.layout import RECORDS

HEAD = RowColumns(("input",), (("part", "str"),), (("word", "str"),))
OWN = ".splitter"


def victim_tree(folder: Path) -> Path:
    """Make a folder beside the output that belongs to the person who received the output."""
    victim = folder / "victim"
    (victim / "deep" / "er").mkdir(parents=True)
    for name in (".bashrc", "x", "0.txt", "000001-000000", "deep/er/file", "key"):
        (victim / name).write_text(f"mine: {name}")
    os.chmod(victim / "x", 0o640)
    return victim


def pictured(victim: Path) -> dict[str, object]:
    """Return all that can be known about a folder: names, modes, times and bytes."""
    found: dict[str, object] = {}
    for path in (victim, *sorted(victim.rglob("*"))):
        seen = os.lstat(path)
        content = path.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
        found[str(path)] = stat.S_IMODE(seen.st_mode), seen.st_mtime_ns, seen.st_nlink, content
    return found


@contextlib.contextmanager
def at_most(more: int) -> Iterator[None]:
    """Limit the memory of this process to `more` bytes beyond what it has, if the system can tell that."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        taken = 32 << 30
    resource.setrlimit(resource.RLIMIT_AS, (taken + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def begun(output: Path, *, names=(), moves=None, keys=(1,), record: bytes | None = None) -> None:
    """Write a begun record as a stranger would, with a correct checksum."""
    content = {"keys": [*keys], "names": [*names]}
    if moves is not None:
        content["moves"] = moves
        record = RecordWriter().to_bytes() if record is None else record
    (output / RECORDS / "000009-000000.begun").write_bytes(sealed(content, record))


def recorded(output: Path, name: str, *, key: int = 7) -> None:
    """Write a commit record that says that an output of an input has this name."""
    writer = RecordWriter()
    row = f'x.txt,"{name}",1,xxh128:0,p,w\n'.encode()
    writer.add(key, 1, DONE, head=HEAD, outputs=1, size=1, text=row)
    (output / RECORDS / "000008-000000").write_bytes(writer.to_bytes())


def linked(name: str, target: str = "") -> Callable[[Path, Path], None]:
    """Return a function that puts a link where something is, or where something will be."""

    def plant(output: Path, victim: Path) -> None:
        path = output / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(victim / target if target else victim)

    return plant


def piped(name: str) -> Callable[[Path, Path], None]:
    """Return a function that makes a named pipe, which blocks any process that opens it."""

    def plant(output: Path, victim: Path) -> None:
        (output / name).unlink(missing_ok=True)
        os.mkfifo(output / name)

    return plant


def staged(output: Path) -> None:
    """Write a file in staging that a promise may move."""
    path = output / OWN / "staging" / "000009-000000" / "evil"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("evil")


def _promise(target: str, source: str = f"{OWN}/staging/000009-000000/evil") -> Callable[[Path, Path], None]:
    def plant(output: Path, victim: Path) -> None:
        staged(output)
        checksum = f"xxh128:{xxhash.xxh3_128_hexdigest(b'evil')}"
        begun(output, moves=[[source, target.replace("VICTIM", str(victim)), 4, checksum]])

    return plant


def _names(*names: str) -> Callable[[Path, Path], None]:
    return lambda output, victim: begun(output, names=[one.replace("VICTIM", str(victim)) for one in names])


def _output(name: str) -> Callable[[Path, Path], None]:
    return lambda output, victim: recorded(output, name.replace("VICTIM", str(victim)))


def _moved_away(output: Path, victim: Path) -> None:
    (output / OWN).rename(victim.parent / "copy")
    (output / OWN).symlink_to(victim.parent / "copy")


SMALL_FILES = (
    "dataset.csv",
    "list.json",
    "run.json",
    "last_run.json",
    "schema.json",
    "split.json",
    "keep.json",
    "tables.json",
    "columns.json",
    "groups",
    "stale",
    "unsynced.json",
    "shares-of-2",
)
LOCKS = ("lock", "gate", "workers", "part-1-of-2", "dataset.csv.new", "dataset.csv.part-1-of-2.new")

HOSTILE: dict[str, Callable[[Path, Path], None]] = {
    "a link at .splitter": linked(OWN),
    "a link at .splitter that has all of it": _moved_away,
    "a link at staging": linked(f"{OWN}/staging"),
    "a link at records": linked(f"{OWN}/records"),
    "a link in records": linked(f"{OWN}/records/000007-000000", "000001-000000"),
    "a link at a begun record": linked(f"{OWN}/records/000007-000000.begun", "000001-000000"),
    "a link in staging": linked(f"{OWN}/staging/000001-000000"),
    **{f"a link at {name}": linked(f"{OWN}/{name}", "x") for name in (*LOCKS, *SMALL_FILES)},
    **{f"a link to nothing at {name}": linked(f"{OWN}/{name}", "new") for name in LOCKS},
    **{f"a pipe at {name}": piped(f"{OWN}/{name}") for name in (*LOCKS, *SMALL_FILES)},
    "a pipe in records": piped(f"{OWN}/records/000007-000000"),
    "a promise to ../victim": _promise("../victim/.bashrc"),
    "a promise to an absolute path": _promise("VICTIM/.bashrc"),
    "a promise to the lock": _promise(f"{OWN}/lock"),
    "a promise of what is outside": _promise("a/0.txt", "../victim/x"),
    "a promise of what is another batch's": _promise("a/0.txt", f"{OWN}/records/000001-000000"),
    "names with ..": _names("../victim/x", "a/../../victim/deep/er/file"),
    "an absolute name": _names("VICTIM/x"),
    "a name of the lock": _names(f"{OWN}/lock", f"{OWN}/records/000001-000000"),
    "an empty name": _names("", "a//b", "."),
    "a name with NUL": _names("a\0b"),
    "half a surrogate": _names("\ud800/x"),
    "keys that are none": lambda output, victim: begun(output, keys=["1", -1, 1 << 64]),
    "an output with ..": _output("../victim/x"),
    "an output in a folder of ..": _output("a/../../victim/deep/er/file"),
    "an absolute output": _output("VICTIM/x"),
    "an output that is the lock": _output(f"{OWN}/lock"),
    "an output of more columns": _output('a/0.txt",1,"'),
    "a link at the folder of an input": linked("a"),
    "a link at the folder of a new input": linked("e"),
    "a link at an output": linked("a/0.txt", "0.txt"),
    "a pipe at an output": piped("a/0.txt"),
    "a link at manifest.csv": linked("manifest.csv", "x"),
    "a link at errors.csv": linked("errors.csv", "x"),
    "a link at report.html": linked("report.html", "x"),
    "a link at report.html.new": linked(f"{OWN}/report.html.new", "x"),
    "a pipe at manifest.csv": piped("manifest.csv"),
    "a link at manifest.jsonl": linked("manifest.jsonl", "x"),
}
