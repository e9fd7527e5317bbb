"""Remote inputs on their way to a worker: fetched once, ahead of use, into bounded temporary space.

    worker ── fetcher: a separate process, with threads        (with a worker that is guarded)
    worker                                                      (in the user's own process)

The fetcher shares nothing with user code: no thread that a fork would break, no client, no lock. Its files
are in the worker's temporary folder, and are removed with it.
"""

import bisect
import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import NamedTuple

from splitter.errors import UnreadableInput
from splitter.records import Scratch
from splitter.stores.clients import takes_many
from splitter.stores.files import Found, fetch, fetch_part
from splitter.system.children import die_with_parent
from splitter.text.urls import LONGEST_NAME, file_name, without_secrets

MOST_AHEAD = 8
MOST_BYTES_AHEAD = 256_000_000
TIMES_LOST = 3


@dataclass(frozen=True)
class RemoteInput:
    """A remote file that will be needed, or a part of one.

    Attributes:
        url: Its URL.
        known: Its size and version; None if nothing is known.
        part: For a part, such as a member of an archive, the byte it starts at, and its size.
    """

    url: str
    known: Found | None
    part: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Return its size in bytes; 0 if it is not known."""
        return self.part[1] if self.part else self.known.size if self.known else 0


class FetchedFile(NamedTuple):
    """A copy of a remote file on this machine.

    Attributes:
        path: The path of the copy.
        found: The size and version in the store when the file was copied.
    """

    path: str
    found: Found


@dataclass(eq=False)
class _FetchRequest:
    """A request for a file; the answer is its size and version, or an error."""

    folder: str
    path: str
    answer: Found | Exception | None = None


@dataclass
class Fetcher:
    """Fetcher of remote files, for one batch after another.

    Attributes:
        scratch: The folder for the files.
        ahead: Whether another process fetches files, before they are needed.
        announce: Called with the ID of that process, whose memory does not count as that of inputs.
    """

    scratch: Scratch
    ahead: bool = False
    announce: Callable[[int], None] = lambda _: None
    _wanted: Mapping[int, RemoteInput] = field(default_factory=dict)
    # their indices, sorted
    _order: list[int] = field(default_factory=list)
    _asked: dict[int, _FetchRequest] = field(default_factory=dict)
    # by their numbers, including requests for files that are no longer needed
    _under_way: dict[int, _FetchRequest] = field(default_factory=dict)
    _number: int = 0
    _process: int = 0
    _pipe: Connection | None = None

    def begin(self, wanted: Mapping[int, RemoteInput]) -> None:
        """Prepare for a batch: note the files it needs, by index, and drop those left from the last batch."""
        for index in list(self._asked):
            self.drop(index)
        self._wanted, self._order = wanted, sorted(wanted)

    def take(self, index: int) -> FetchedFile:
        """Wait for the file of an index and return it; meanwhile, have the next ones fetched."""
        there = self._asked.get(index)
        if there is not None and isinstance(there.answer, Found) and not os.path.exists(there.path):
            # the recipe has moved the file, and is now retried
            self.drop(index)
        for _ in range(TIMES_LOST):
            try:
                asked = self._ask(index)
                self._ask_ahead(index)
                self._wait_for(asked)
                break
            except (EOFError, BrokenPipeError, ConnectionResetError):
                self._forget_process()
        else:
            raise ChildProcessError("the process that fetches remote files was killed repeatedly")
        if isinstance(asked.answer, Found):
            return FetchedFile(asked.path, asked.answer)
        assert asked.answer is not None  # noqa: S101 - it was waited for
        raise asked.answer

    def drop(self, index: int) -> None:
        """Remove the file of an index that is done; one that is still being fetched goes when it arrives."""
        asked = self._asked.pop(index, None)
        if asked is not None and asked not in self._under_way.values():
            shutil.rmtree(asked.folder, ignore_errors=True)

    def close(self) -> None:
        """End the process, and remove all files."""
        self._forget_process()
        self.scratch.remove()

    def _ask(self, index: int) -> _FetchRequest:
        asked = self._asked.get(index)
        if asked is None:
            pipe = self._pipe_to_process() if self.ahead else None
            self._number += 1
            wanted = self._wanted[index]
            folder = str(self.scratch.path / f"splitter-{self._number}")
            os.mkdir(folder)
            asked = self._asked[index] = _FetchRequest(folder, f"{folder}/{local_name(wanted.url)}")
            if pipe is not None:
                self._under_way[self._number] = asked
                pipe.send((self._number, wanted, asked.path))
        if not self.ahead and asked.answer is None:
            asked.answer = _answer(self._wanted[index], asked.path)
        return asked

    def _ask_ahead(self, index: int) -> None:
        """Have the next files fetched, up to a number and a size; one of unknown size waits for its turn."""
        if not self.ahead:
            return
        size, after = 0, bisect.bisect_right(self._order, index)
        for later in self._order[after : after + MOST_AHEAD]:
            own = self._wanted[later].size
            size += own
            if size > MOST_BYTES_AHEAD or not own:
                return
            self._ask(later)

    def _wait_for(self, asked: _FetchRequest) -> None:
        while asked.answer is None:
            assert self._pipe is not None  # noqa: S101 - it was asked through it
            number, answer = self._pipe.recv()
            come = self._under_way.pop(number)
            come.answer = answer
            if come not in self._asked.values():
                shutil.rmtree(come.folder, ignore_errors=True)

    # -- the process -------------------------------------------------------------------------------------

    def _pipe_to_process(self) -> Connection:
        """Return the pipe to the process, and start the process if it is not running."""
        if self._pipe is None:
            ours, theirs = multiprocessing.Pipe()
            sys.stdout.flush()
            sys.stderr.flush()
            parent = os.getpid()
            self._process = os.fork()
            if not self._process:
                _serve(theirs, parent)
            theirs.close()
            self._pipe = ours
            self.announce(self._process)
        return self._pipe

    def _forget_process(self) -> None:
        """End the process, and forget the requests that it has not answered: they must be made again."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._process, 0)
            self._process = 0
        for asked in self._under_way.values():
            shutil.rmtree(asked.folder, ignore_errors=True)
        self._under_way.clear()
        self._asked = {index: asked for index, asked in self._asked.items() if asked.answer is not None}


def local_name(url: str) -> str:
    """Return the name for the copy, which keeps its extension: recipes look at that."""
    name = file_name(url).replace("\0", "")
    if name in ("", ".", ".."):
        return "input"
    stem, dot = os.path.splitext(name)
    return name if len(os.fsencode(name)) <= LONGEST_NAME else f"{stem[:50]}{dot[:20]}"


def _answer(wanted: RemoteInput, path: str) -> Found | Exception:
    try:
        if wanted.part and wanted.known:
            return fetch_part(wanted.url, path, wanted.known, *wanted.part)
        return fetch(wanted.url, path, wanted.known)
    except (OSError, UnreadableInput) as error:
        return error
    except Exception as error:  # noqa: BLE001 - otherwise the worker would wait forever
        return UnreadableInput(f"{without_secrets(wanted.url)}: {type(error).__name__}: {error}")


def _serve(pipe: Connection, parent: int) -> None:
    """Run as the fetcher, and end with the worker."""
    try:
        die_with_parent(parent, signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # close the worker's files: nobody who waits for their end must wait for this process, too
        try:
            numbers = {*map(int, os.listdir("/dev/fd"))}
        except OSError:
            # the system does not list what is open
            numbers = {*range(4096)}
        for one in numbers - {0, 1, 2, pipe.fileno()}:
            with contextlib.suppress(OSError):
                os.close(one)
        _fetch_all(pipe)
    except (EOFError, OSError):
        pass
    finally:
        os._exit(0)


def _fetch_all(pipe: Connection) -> None:
    saying = threading.Lock()

    def do(number: int, wanted: RemoteInput, path: str) -> None:
        answer = _answer(wanted, path)
        with saying, contextlib.suppress(OSError):
            pipe.send((number, answer))

    with ThreadPoolExecutor(MOST_AHEAD + 1) as many, ThreadPoolExecutor(1) as one_by_one:
        while True:
            task: tuple[int, RemoteInput, str] = pipe.recv()
            (many if takes_many(task[1].url) else one_by_one).submit(do, *task)
