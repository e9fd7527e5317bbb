"""Kill everything that a process has started once that process has ended, however it ended.

This file is also a script, started as `python reaper.py MARK FOLDER` before everything else. It waits for the
end of its standard input, which only the watched process holds open; then it kills every process with MARK in
its environment, and removes FOLDER. So nothing remains of a private Ray, whose own reaper lets some agents
live for half a minute, or of the programs that `splitter tar map` runs.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

VARIABLE = "SPLITTER_KEPT"
_ALL_STARTED = b"all started"
_SECONDS_TO_END = 10.0
_LOOK_EVERY = 0.05
# how many times in a row to find nothing: a process that is just starting has no environment yet
_LOOKS = 3


@contextlib.contextmanager
def reaper_beside(folder: str, *, all_started: bool = False) -> Iterator[dict[str, str]]:
    """Yield environment variables; when the block or this process ends, kill all processes that have them.

    Then remove the folder. `all_started` promises that no such process is just starting when the block ends,
    which makes the end quicker.
    """
    mark = secrets.token_hex(16)
    reaper = subprocess.Popen(  # noqa: S603 - this file
        [sys.executable, __file__, mark, folder], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield {VARIABLE: mark}
    finally:
        reaper.communicate(_ALL_STARTED if all_started else b"")


def is_reaper(process: psutil.Process) -> bool:
    """Return whether a process runs this script, which ends by itself when it has cleaned up."""
    with contextlib.suppress(psutil.Error, OSError):
        return __file__ in process.cmdline()
    return False


def main(mark: str, folder: str) -> None:
    """Wait until the watched process ends, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    looks = 1 if sys.stdin.buffer.read() == _ALL_STARTED else _LOOKS
    give_up = time.monotonic() + _SECONDS_TO_END
    nothing = 0
    while nothing < looks and time.monotonic() < give_up:
        found = [process for process in psutil.process_iter() if _is_marked(process, mark)]
        nothing = 0 if found else nothing + 1
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if nothing < looks:
            time.sleep(_LOOK_EVERY)
    shutil.rmtree(folder, ignore_errors=True)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
            return process.environ().get(VARIABLE) == mark
    return False


if __name__ == "__main__":
    main(*sys.argv[1:])
