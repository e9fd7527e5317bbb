"""What a signal does to the program while no run is on: it ends with an exit code, not with a traceback."""

import os
import signal
import sys


def is_starting() -> bool:
    """Whether `python -m splitter` is just importing the package."""
    # so says Python's documentation: the first argument is -m until the module is found
    return sys.argv[:1] == ["-m"] and sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] == ["splitter"]


def end_at_signals() -> None:
    """Have the program end at once when it is asked to; a run then has its own way."""
    if sys.platform == "win32":
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # what nohup, or a shell's `&`, has had ignored stays ignored
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _end)


def _end(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler's arguments
    os._exit(128 + number)
