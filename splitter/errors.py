"""All errors, as one tree.

SplitterError
├── Refused             the run cannot start as asked: exit code 2, nothing was done
│   └── UnknownColumn   an option names a column that does not exist
├── RunStopped          the run cannot go on, committed work is kept: exit code 1
│   ├── StorageError    the output folder cannot be written or read
│   ├── TarError        an archive cannot be read, or its samples cannot be written
│   └── RecipeError     the recipe fails in its own code with the same error on the first inputs
│       └── SetupError  its setup() failed, so no input can be processed
└── InputError          one input failed for a reason that splitter itself found
    ├── UnreadableInput it is missing, not a file, or cannot be opened
    ├── AudioError      a recording cannot be read, or cannot be written as requested
    ├── AnnotationError its annotations cannot be read
    ├── BadResult       process() returned something the contract does not allow
    ├── CommandFailed   a program run on it ended with an error
    ├── NameTaken       a file that no run made is where an output should go
    ├── TimedOut        no result within --timeout
    ├── MemoryExceeded  more memory than --memory
    └── Crashed         the process working on it died

Skip                    raised by a recipe to skip an input; not an error
Interrupted             Ctrl-C, SIGTERM or SIGHUP reached the run; a KeyboardInterrupt
"""

import contextlib
import errno
from collections.abc import Iterator
from typing import Any

TO_CONTINUE = "fix it, then run the same command to continue"
# the disk is full, or the user's quota is used up
FULL = (errno.ENOSPC, errno.EDQUOT)


class SplitterError(Exception):
    """Base class of every error that splitter raises."""


class Refused(SplitterError):
    """A run that cannot start; the message says what to change."""


class UnknownColumn(Refused):
    """A column that an option names, but that does not exist; in a pipeline, it may come later."""


class RunStopped(SplitterError):
    """A run that cannot go on; committed work is kept, and the same command continues."""


class StorageError(RunStopped):
    """An output folder that cannot be written or read.

    Attributes:
        more_space: What to do if its disk is full.
    """

    more_space = "free space on that disk, or move the output folder to a larger one and change --output"

    @classmethod
    def of(cls, error: OSError, name: str) -> "StorageError":
        """Return an error that names the output file, the reason and the remedy."""
        reason = error.strerror or str(error)
        remedy = TO_CONTINUE
        if error.errno in FULL:
            remedy = f"{cls.more_space}, then run the same command to continue"
        return cls(f"cannot write {name}: {reason}; {remedy}")

    @classmethod
    @contextlib.contextmanager
    def naming(cls, name: str) -> Iterator[None]:
        """Turn an OSError into an error that names the output file."""
        try:
            yield
        except OSError as error:
            raise cls.of(error, name) from error


class TarError(RunStopped):
    """An archive that cannot be read, or whose samples cannot be written."""


class RecipeError(RunStopped):
    """A recipe that fails in its own code with the same error on the first inputs."""

    def __init__(self, message: str, traceback: str = "") -> None:
        """Keep the user's own traceback with the message."""
        super().__init__(f"{message}\n\n{traceback}".rstrip())
        self.message, self.traceback = message, traceback


class SetupError(RecipeError):
    """A recipe whose setup() failed."""


class InputError(SplitterError):
    """An input that failed for a reason that splitter itself found."""


class UnreadableInput(InputError):
    """An input that is missing, is not a file, or cannot be opened."""


class AudioError(InputError):
    """A recording that cannot be read, or cannot be written as requested."""


class AnnotationError(InputError):
    """Annotations that cannot be read; the message names their file and line."""


class BadResult(InputError):
    """A result of process() that the contract does not allow."""


class CommandFailed(InputError):
    """A program that ended with an error when run on an input."""


class NameTaken(InputError):
    """An output whose name is taken by a file that no run made; that file is left alone."""

    @classmethod
    def of(cls, name: str, why: str) -> "NameTaken":
        """Return an error that names the file and says what to do."""
        return cls(
            f"{name} in the output folder {why}, and no run made it; move it away, then run again with "
            "--retry-failed"
        )


class TimedOut(InputError):
    """An input that gave no result in the time allowed."""


class MemoryExceeded(InputError):
    """An input that took more memory than allowed."""


class Crashed(InputError):
    """An input whose process died."""


class Skip(Exception):
    """An exception to raise in `process` to skip an input, with the reason."""


class Interrupted(KeyboardInterrupt):
    """A signal that asked the run to end; its number gives the exit code."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"interrupted by signal {signal_number}")
        self.signal_number = signal_number
        # the `engine.summary.Summary` of the run, if there is one
        self.summary: Any = None

    @property
    def exit_code(self) -> int:
        """130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + self.signal_number
