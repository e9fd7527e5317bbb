"""Ends what a private Ray has started, when the run that started it is gone, however it went.

A script of its own, started as `python keeper.py MARK FOLDER` before Ray is. It waits for the end of its
standard input, which only the driver holds; then it kills every process that has MARK in its environment,
and removes FOLDER. Ray's own reaper leaves some of its agents alive for half a minute.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

import psutil

VARIABLE = "SPLITTER_PRIVATE_RAY"
_SECONDS_TO_END = 10.0
_LOOK_EVERY = 0.05
# a process that is being started has nothing in its environment yet
_LOOKS = 3


def main(mark: str, folder: str) -> None:
    """Wait for the driver's end, then clear up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    give_up = time.monotonic() + _SECONDS_TO_END
    nothing = 0
    while nothing < _LOOKS and time.monotonic() < give_up:
        found = [process for process in psutil.process_iter() if _is_marked(process, mark)]
        nothing = 0 if found else nothing + 1
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(_LOOK_EVERY)
    shutil.rmtree(folder, ignore_errors=True)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
            return process.environ().get(VARIABLE) == mark
    return False


if __name__ == "__main__":
    main(*sys.argv[1:])
