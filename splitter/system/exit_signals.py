"""Outside a run, end the program at a signal with an exit code instead of a traceback."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

# Windows has no SIGHUP
_ASKING_TO_END = () if sys.platform == "win32" else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def is_starting() -> bool:
    """Return whether `python -m splitter` is still importing the package."""
    # documented by Python: sys.argv[0] is -m until the module is found
    return sys.argv[:1] == ["-m"] and sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] == ["splitter"]


def end_at_signals() -> None:
    """Install handlers that end the program at once; a run sets its own."""
    for number in _ASKING_TO_END:
        # signals that nohup, or a shell's `&`, has set to be ignored stay ignored
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _end)


def _end(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler's arguments
    os._exit(128 + number)


@contextlib.contextmanager
def saying_so() -> Iterator[None]:
    """Print that nothing was done yet, if a signal ends the program within the block."""
    numbers = [number for number in _ASKING_TO_END if signal.getsignal(number) is _end]
    for number in numbers:
        signal.signal(number, _say_and_end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, _end)


def _say_and_end(number: int, frame: object) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted; nothing was done yet\n")
    _end(number, frame)
