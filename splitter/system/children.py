"""Child processes: make them die with their parent, and end them with all that they started."""

import contextlib
import ctypes
import multiprocessing
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

import psutil

SECONDS_TO_END = 1.0
PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent, a descendant of this process, has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    """Set a property of this process, on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def is_at_work(owner: list[str]) -> bool:
    """Return whether a driver, given by machine and process number, is alive or cannot be checked."""
    match owner:
        case [host, pid, *_] if host == socket.gethostname() and pid.isdecimal():
            return lives(int(pid))
        case [_, _, *_]:
            return True
    return False


def lives(process: int) -> bool:
    """Return whether a process of this machine is alive.

    A child cannot tell by its parent's number, which stays the same until the parent's last thread has ended.
    """
    try:
        # a killed process stays in the table until its parent collects its exit code
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def process_space() -> int:
    """Return the namespace of process numbers that this process is in; 0 if the system has only one."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0


def started(process: int) -> float:
    """Return when a process began, in seconds; 0 if it does not exist."""
    with contextlib.suppress(psutil.Error):
        return float(psutil.Process(process).create_time())
    return 0.0


def parent_process() -> int:
    """Return the number of the process that started this one, even if it is dead by now."""
    parent = multiprocessing.parent_process()
    return parent.pid or os.getppid() if parent else os.getppid()


def die_with_parent(parent: int, number: int) -> None:
    """Have this process receive a signal when its parent dies; end it now if the parent is dead already."""
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
    """End the remaining processes in the session of a killed process."""
    end_all(lambda: [process for process in psutil.process_iter() if _session_of(process) == leader])


def _session_of(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error, OSError):
        return 0 if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    return 0


def end_descendants(spared: Callable[[psutil.Process], bool] = lambda _: False) -> None:
    """End all descendants of this process, except those that `spared` accepts."""
    end_all(lambda: [child for child in psutil.Process().children(recursive=True) if not spared(child)])


def end_all(find: Callable[[], list[psutil.Process]]) -> None:
    """Kill the processes that `find` returns until it finds no more, for a second at most."""
    give_up = time.monotonic() + SECONDS_TO_END
    while time.monotonic() < give_up:
        found = find()
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=0.1)
