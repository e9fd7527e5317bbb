"""What a power cut may leave of an output folder: the changes and syncs of runs, replayed in part.

A run in the fork server (see dying.py) writes a trace. Before each change to the disk, it compares the whole
folder and notes what the change before has done; it also notes each sync. The trace shows what may be on disk
after any cut: what was synced is there as it was at the sync; any other file may be absent, empty or short,
and any other name may have appeared, moved or disappeared, or not. Changes that were not synced may reach the
disk in any order.

    add dir "a"  add file "a/0"  sync file  rename "a" -> "b"  sync folder  |cut|  remove "b/0"
"""

import os
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# the number of a folder, and a name in it; TOP is the number of the folder that contains the output
Entry = tuple[int, str]
TOP = 0
# the content of a number that is a folder
FOLDER = None


@dataclass
class Tree:
    """A folder: the number of each name, and the content of each number."""

    entries: dict[Entry, int] = field(default_factory=dict)
    contents: dict[int, bytes | None] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def paths(self) -> dict[str, bytes | None]:
        """Return all names that can be reached, with their contents."""
        return {name: self.contents[number] for name, number in self.numbers_by_path().items()}

    def numbers_by_path(self) -> dict[str, int]:
        """Return all names that can be reached, with their numbers."""
        found: dict[str, int] = {}
        folders = [("", TOP)]
        while folders:
            prefix, folder = folders.pop()
            for (parent, name), number in self.entries.items():
                if parent == folder:
                    found[prefix + name] = number
                    if self.contents[number] is FOLDER:
                        folders.append((f"{prefix}{name}/", number))
        return found


class Tracer:
    """A writer of the trace of a run; the trace of the next run may continue in the same file."""

    def __init__(self, path: str, output: str) -> None:
        self._output, self.is_looking = output, False
        self._tree = Tree(numbers={os.stat(os.path.dirname(output)).st_ino: TOP})
        self._next = 1
        is_first = not os.path.exists(path)
        if not is_first:
            for event in events_of(Path(path)):
                replay(self._tree, event)
            self._next = max(self._tree.contents, default=0) + 1
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - until the process ends
        if is_first:
            # all that existed before the run is on disk
            self.look()
            self.synced_all()

    def look(self) -> None:
        """Note what has changed."""
        if self.is_looking:
            return
        self.is_looking = True
        try:
            self._compare()
        finally:
            self.is_looking = False

    def synced(self, descriptor: int) -> None:
        """Note that a file or a folder is synced, as it is now."""
        number = self._tree.numbers.get(os.fstat(descriptor).st_ino)
        if number is not None:
            self._write("sync", number)

    def synced_all(self) -> None:
        """Note that everything is synced."""
        self._write("sync all")

    def _write(self, *event: Any) -> None:
        replay(self._tree, event)
        self._file.write(pickle.dumps(event))

    def _compare(self) -> None:
        entries: dict[Entry, int] = {}
        inodes: dict[int, int] = {}
        folders = [(TOP, os.path.dirname(self._output), [os.path.basename(self._output)])]
        while folders:
            parent, path, names = folders.pop()
            for name in names:
                try:
                    self._see(parent, f"{path}/{name}", name, entries, inodes, folders)
                except FileNotFoundError:
                    continue
        before = dict(self._tree.entries)
        moved = {number: entry for entry, number in before.items()}
        for entry, number in before.items():
            if entry not in entries and number not in entries.values():
                self._write("remove", entry)
        for entry, number in entries.items():
            if before.get(entry) != number:
                self._write("rename" if number in moved else "add", entry, number, moved.get(number))
        numbers = {**inodes, os.stat(os.path.dirname(self._output)).st_ino: TOP}
        if numbers != self._tree.numbers:
            self._write("numbers", numbers)

    def _see(  # noqa: PLR0913, PLR0917 - what a walk has in hand
        self,
        parent: int,
        path: str,
        name: str,
        entries: dict[Entry, int],
        inodes: dict[int, int],
        folders: list[tuple[int, str, list[str]]],
    ) -> None:
        found = os.lstat(path)
        is_folder = os.path.isdir(path)
        number = self._tree.numbers.get(found.st_ino)
        if number is None or (self._tree.contents[number] is FOLDER) != is_folder:
            number, self._next = self._next, self._next + 1
            self._write("content", number, FOLDER if is_folder else b"")
        entries[parent, name] = inodes[found.st_ino] = number
        if is_folder:
            folders.append((number, path, os.listdir(path)))
            return
        with open(path, "rb", buffering=0) as file:
            content = file.read()
        if content != self._tree.contents[number]:
            self._write("content", number, content)


def events_of(path: Path) -> list[tuple[Any, ...]]:
    """Return the events of a trace, without a last one that is cut off."""
    return [*_events(path)]


def _events(path: Path) -> Iterator[tuple[Any, ...]]:
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)  # noqa: S301 - the tests' own
            except (EOFError, pickle.UnpicklingError):
                return


def replay(tree: Tree, event: tuple[Any, ...]) -> None:
    """Apply one event to a tree."""
    kind, *what = event
    if kind == "content":
        tree.contents[what[0]] = what[1]
    elif kind == "remove":
        tree.entries.pop(what[0], None)
    elif kind in ("add", "rename"):
        entry, number, source = what
        if source is not None and tree.entries.get(source) == number:
            del tree.entries[source]
        tree.entries[entry] = number
    elif kind == "numbers":
        tree.numbers = what[0]


def steps_of(events: list[tuple[Any, ...]]) -> list[str]:
    """Return what a run did, in words: syncs, renames and removals, without what was there before it."""
    tree, steps = Tree(), []
    for event in events:
        names = {number: name for name, number in tree.numbers_by_path().items()}
        replay(tree, event)
        kind, *what = event
        if kind == "sync all":
            steps.append("sync all")
        elif kind == "sync":
            steps.append(f"sync {names.get(what[0], '/')}")
        elif kind == "rename":
            _, number, _ = what
            new = {number: name for name, number in tree.numbers_by_path().items()}
            steps.append(f"rename {names[number]} -> {new[number]}")
        elif kind == "remove":
            parent, name = what[0]
            steps.append(f"remove {names.get(parent, '')}/{name}".replace(" /", " "))
    return steps[steps.index("sync all") + 1 :]


def cuts_of(events: list[tuple[Any, ...]]) -> list[int]:
    """Return where a cut makes a difference: before the run, and after each change or sync of it."""
    first = events.index(("sync all",))
    return [at + 1 for at, event in enumerate(events) if at >= first and event[0] != "numbers"]


def after_cut(events: list[tuple[Any, ...]], cut: int, chance: random.Random) -> dict[str, bytes | None]:
    """Return what may be below the folder of the output after a cut; equal `chance`, equal result."""
    events = events[:cut]
    odds = chance.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    tree, now = Tree(), Tree()
    # the last sync of each folder, and of everything
    synced: dict[int, int] = {}
    durable: dict[int, bytes | None] = {}
    last = -1
    for at, event in enumerate(events):
        replay(now, event)
        if event[0] == "sync":
            synced[event[1]] = at
            durable[event[1]] = now.contents[event[1]] if event[1] != TOP else FOLDER
        elif event[0] == "sync all":
            last = at
            durable = dict(now.contents)
    for at, event in enumerate(events):
        if event[0] in ("add", "remove", "rename"):
            folder = event[1][0]
            if at < max(last, synced.get(folder, -1)) or chance.random() < odds:
                replay(tree, event)
    shares = chance.choice([(1, 0, 0), (0, 1, 0), (1, 1, 1)])
    for number, content in now.contents.items():
        tree.contents[number] = content
        if content is not FOLDER and (number not in durable or durable[number] != content):
            torn = content[: chance.randrange(len(content) + 1)]
            (tree.contents[number],) = chance.choices([durable.get(number) or b"", torn, content], shares)
    return tree.paths()


def put(found: dict[str, bytes | None], folder: Path) -> None:
    """Write these files and folders into a folder."""
    for name, content in sorted(found.items()):
        if content is FOLDER:
            (folder / name).mkdir(parents=True)
        else:
            (folder / name).write_bytes(content)
