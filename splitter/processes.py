"""What the operating system does for processes: deaths that reach children, priorities, memory."""

import contextlib
import ctypes
import importlib.util
import multiprocessing
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from types import ModuleType
from typing import IO, Any, Generic, TypeVar, cast

import psutil

from splitter.errors import Interrupted
from splitter.options import usable_cpus

FEW_ITEMS = 4
SECONDS_TO_END = 1.0
ASKING_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_FIRST_TO_GO = 900

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int | None = None,
    *,
    apart: bool = False,
    patience: float | None = None,
) -> Generator[Result, None, None]:
    """The function of each item, in order; with many items in as many processes as there are CPUs.

    `apart`: even a single item is for another process, since the function leaves threads behind. With
    `patience`, the seconds that an item may take, it is not done again here where a process was lost:
    raises ChildProcessError, or TimeoutError.
    """
    cpus = workers or usable_cpus()
    few = not apart and (len(items) < FEW_ITEMS or cpus == 1)
    # a user's code is not for this process, though threads of others are there as well: workers fork, too
    safe = _can_fork() or (patience is not None and sys.platform == "linux")
    if few or not safe:
        yield from map(function, items)
        return
    helpers: list[_Helper[Item, Result]] = []
    try:
        with signals_held_back():
            count = min(cpus, len(items))
            helpers += (_Helper(function, items[number::count]) for number in range(count))
        for number, item in enumerate(items):
            helper = helpers[number % count]
            yield helper.result_of(item) if patience is None else helper.result_within(patience)
    finally:
        for helper in helpers:
            helper.end()


def _can_fork() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1


def from_process(generate: Callable[[], Iterable[Item]]) -> Generator[Item, None, None]:
    """What a function yields in a process of its own: its memory and the threads it starts end with it."""
    if not _can_fork():
        yield from generate()
        return
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with signals_held_back():
        process = context.Process(target=_yield_to, args=(generate, theirs), daemon=True)
        process.start()
    theirs.close()
    try:
        while True:
            item, error, more = ours.recv()
            if error is not None:
                raise error
            if not more:
                return
            yield item
    except EOFError:
        raise ChildProcessError("a process that helps was killed (out of memory?)") from None
    finally:
        process.kill()
        ours.close()
        process.join()


def _yield_to(generate: Callable[[], Iterable[Any]], pipe: Connection) -> None:
    _become_helper()
    try:
        for item in generate():
            pipe.send((item, None, True))
        pipe.send((None, None, False))
    except Exception as error:  # noqa: BLE001 - raised where the items are wanted
        pipe.send((None, error, False))


class _Helper(Generic[Item, Result]):
    """A process that works through some items; what it leaves undone when it dies is done in this one.

    multiprocessing's own Pool waits for ever when one of its processes is killed.
    """

    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self._function, self._left = function, len(items)
        context = multiprocessing.get_context("fork")
        self._results, theirs = context.Pipe(duplex=False)
        # the function is inherited, not sent, so it may hold what cannot be sent
        self._process = context.Process(target=_help, args=(function, items, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def result_of(self, item: Item) -> Result:
        """The function of the next of the items, which is this one."""
        try:
            result: Result = self._results.recv()
        except (EOFError, OSError):
            # it is dead, or its function has raised
            return self._function(item)
        self._left -= 1
        return result

    def result_within(self, seconds: float) -> Result:
        """The same; raises an OSError if it is not there in time, or will never be."""
        if not self._results.poll(seconds):
            raise TimeoutError(f"a process that helps has taken {seconds:g} s for an item")
        try:
            result: Result = self._results.recv()
        except EOFError:
            raise ChildProcessError("a process that helps has ended before its time") from None
        self._left -= 1
        return result

    def end(self) -> None:
        """Leave nothing behind; one that is at work is not waited for."""
        if self._left:
            self._process.kill()
        self._results.close()
        self._process.join()


def _become_helper() -> None:
    die_with_parent(parent_process(), signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signals_let_in()


def _help(function: Callable[[Any], Any], items: Sequence[Any], results: Connection) -> None:
    _become_helper()
    with contextlib.suppress(Exception):
        # the other end calls the function again where this one ends
        for item in items:
            results.send(function(item))


class Gate:
    """Closed until one process opens it, for all that have it from the same parent."""

    def __init__(self, ends: Sequence[int] | None = None) -> None:
        """Make one, or take on the two descriptors of one that is there."""
        self.ends = tuple(ends or os.pipe())
        self._is_open = False

    def open(self) -> None:
        """From now on nobody waits."""
        if not self._is_open:
            self._is_open = True
            os.write(self.ends[1], b".")

    def wait(self, seconds: float) -> None:
        """Wait until it is open, but no longer than that."""
        if not self._is_open:
            poll = select.poll()
            poll.register(self.ends[0], select.POLLIN)
            self._is_open = bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        """Let the descriptors go."""
        for end in self.ends:
            os.close(end)


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Have signals wait: Python would lose one that strikes while it forks."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING_TO_END)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def signals_let_in() -> None:
    """Undo that in a process that was started meanwhile."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKING_TO_END)


# the signal that has asked this process to end
_asked: list[int] = []


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Turn the first signal that asks to end into Interrupted; the second ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _asked.clear()

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler's arguments
        if _asked:
            # nothing is lost: what is done is on storage, and the workers end with this process
            os._exit(128 + number)
        _asked.append(number)
        raise Interrupted(number)

    # what nohup, or a shell's `&`, has had ignored stays ignored, and what C code handles stays with it
    numbers = [number for number in ASKING_TO_END if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    old = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        with still_interrupted():
            yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def still_interrupted() -> Iterator[None]:
    """Of what a signal raises, C code such as Ray's makes a plain KeyboardInterrupt; make it whole again."""
    try:
        yield
    except KeyboardInterrupt as error:
        if isinstance(error, Interrupted) or not _asked:
            raise
        raise Interrupted(_asked[0]) from None


def by_value(content: object, code: type) -> bytes:
    """Pickle a value together with the code of a class that another process may be unable to import."""
    import cloudpickle

    module = sys.modules[code.__module__]
    if module.__name__ != "__main__" and not _is_importable(module):
        cloudpickle.register_pickle_by_value(module)
    return cast("bytes", cloudpickle.dumps(content))


def _is_importable(module: ModuleType) -> bool:
    """Whether importing its name elsewhere gives this module."""
    try:
        found = importlib.util.find_spec(module.__name__)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin == module.__file__


def adopt_orphans() -> None:
    """Become the parent of what this process's descendants leave behind."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    """Set a property of this process, where the system knows it (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def is_at_work(owner: list[str]) -> bool:
    """Whether a driver, known by its machine and its number there, lives, or cannot be asked."""
    match owner:
        case [host, pid, *_] if host == socket.gethostname() and pid.isdecimal():
            return lives(int(pid))
        case [_, _, *_]:
            return True
    return False


def lives(process: int) -> bool:
    """Whether a process of this machine is not dead yet.

    What a child sees as its parent does not tell: it stays the same until the last thread has ended.
    """
    try:
        # a killed one stays in the table until its parent asks how it ended
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def process_space() -> int:
    """Among which processes the numbers are this process's own; 0 where there is but one such space."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0


def started(process: int) -> float:
    """When a process began, in seconds; 0 if there is none."""
    with contextlib.suppress(psutil.Error):
        return float(psutil.Process(process).create_time())
    return 0.0


def parent_process() -> int:
    """The process that started this one, also when that is dead by now."""
    parent = multiprocessing.parent_process()
    return parent.pid or os.getppid() if parent else os.getppid()


def die_with_parent(parent: int, number: int) -> None:
    """Have a signal sent to this process when its parent dies; ends it if that has happened already."""
    if sys.platform == "linux":
        _prctl(PR_SET_PDEATHSIG, number)
    else:
        _watch_parent(parent, number)
    if os.getppid() != parent:
        os._exit(1)


def _watch_parent(parent: int, number: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), number)

    threading.Thread(target=watch, daemon=True).start()


def end_session(leader: int) -> None:
    """End what is left of the session that a killed process has led."""
    end_all(lambda: [process for process in psutil.process_iter() if _session_of(process) == leader])


def _session_of(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error, OSError):
        return 0 if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    return 0


def end_descendants(spared: Callable[[psutil.Process], bool] = lambda _: False) -> None:
    """End what the children of this process have left behind."""
    end_all(lambda: [child for child in psutil.Process().children(recursive=True) if not spared(child)])


def end_all(find: Callable[[], list[psutil.Process]]) -> None:
    """End processes and wait until they are gone; they may be starting more all the while."""
    give_up = time.monotonic() + SECONDS_TO_END
    while time.monotonic() < give_up:
        found = find()
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=0.1)


def nameless_file() -> IO[bytes]:
    """A file that is gone when it is closed: in memory where that can be, as no disk may have room."""
    if sys.platform == "linux":
        return open(os.memfd_create("splitter"), "w+b")
    else:  # noqa: RET505 - mypy knows what a platform has by this
        return tempfile.TemporaryFile()


def be_first_to_go() -> None:
    """When memory runs out, the kernel is to end a runner, not the driver or a stranger."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+") as file:
        # Ray's workers, and with them a guard, have the most there is already
        if int(file.read()) < _FIRST_TO_GO:
            file.seek(0)
            file.write(str(_FIRST_TO_GO))


def memory_of(process: int, without: int = 0) -> int:
    """Bytes of memory that a process and its descendants, but for one, hold for themselves."""
    others = (child for child in _descendants(process) if child != without)
    return _own_memory(process) + sum(map(_unshared_memory, others))


def _descendants(process: int) -> list[int]:
    with contextlib.suppress(OSError), open(f"/proc/{process}/task/{process}/children") as file:
        children = [int(child) for child in file.read().split()]
        return children + [one for child in children for one in _descendants(child)]
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(process).children(recursive=True)]
    return []


def _own_memory(process: int) -> int:
    found = _kilobytes(f"/proc/{process}/status", ("RssAnon", "RssShmem"))
    if found is None:
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(process).memory_info().rss)
    return (found or 0) * 1024


def _unshared_memory(process: int) -> int:
    """What a process has but its parent has not: one that was just forked has nothing yet."""
    found = _kilobytes(f"/proc/{process}/smaps_rollup", ("Private_Dirty",))
    return _own_memory(process) if found is None else found * 1024


def _kilobytes(path: str, names: tuple[str, ...]) -> int | None:
    """The sum of some lines of a file of the kernel's; None if it is not there."""
    try:
        with open(path) as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:
        return None
    return sum(int(fields[name].split()[0]) for name in names if name in fields)
