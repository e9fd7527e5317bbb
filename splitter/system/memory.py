"""The memory that processes take, and files in memory."""

import contextlib
import os
import sys
import tempfile
from typing import IO

import psutil

_FIRST_TO_GO = 900


def nameless_file() -> IO[bytes]:
    """Return a file that is gone when it is closed: in memory if possible, as disks may be full."""
    if sys.platform == "linux":
        return open(os.memfd_create("splitter"), "w+b")
    else:  # noqa: RET505 - `else` shows mypy that this is for other platforms
        return tempfile.TemporaryFile()


def be_first_to_go() -> None:
    """Have the kernel kill this process first when memory runs out, not the driver or another program."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+") as file:
        # Ray gives its workers, and so their guards, the maximum already
        if int(file.read()) < _FIRST_TO_GO:
            file.seek(0)
            file.write(str(_FIRST_TO_GO))


def memory_of(process: int, without: int = 0) -> int:
    """Return the memory of a process in bytes, with what its descendants, except `without`, do not share."""
    others = (child for child in _descendants(process) if child != without)
    return _own_memory(process) + sum(map(_unshared_memory, others))


def _descendants(process: int) -> list[int]:
    children = _children(process)
    if children is not None:
        return children + [one for child in children for one in _descendants(child)]
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(process).children(recursive=True)]
    return []


def _children(process: int) -> list[int] | None:
    """Return the processes that any thread of a process has started; None if the kernel does not say."""
    children: list[int] | None = None
    threads: list[str] = []
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{process}/task")
    for thread in threads:
        # a thread may have ended in the meantime
        with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/children") as file:
            children = [*(children or ()), *map(int, file.read().split())]
    return children


def _own_memory(process: int) -> int:
    found = _kilobytes(f"/proc/{process}/status", ("RssAnon", "RssShmem"))
    if found is None:
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(process).memory_info().rss)
    return (found or 0) * 1024


def _unshared_memory(process: int) -> int:
    """Return the bytes that a process does not share with its parent: almost none just after the fork."""
    found = _kilobytes(f"/proc/{process}/smaps_rollup", ("Private_Dirty",))
    return _own_memory(process) if found is None else found * 1024


def _kilobytes(path: str, names: tuple[str, ...]) -> int | None:
    """Return the sum of some lines of a kernel file; None if the file is missing."""
    with contextlib.suppress(OSError), open(path) as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
        return sum(int(fields[name].split()[0]) for name in names if name in fields)
    return None
