"""What can go wrong, as one tree.

SplitterError
├── Refused             the run cannot start as asked: exit code 2, nothing was done
├── RunStopped          the run cannot go on, what is committed is kept: exit code 1
│   ├── StorageError    the output folder cannot be written or read
│   ├── TarError        an archive cannot be read, or its samples cannot be written
│   └── RecipeError     the recipe fails in its own code on the first inputs, always alike
│       └── SetupError  its setup() failed, so no input can be processed
└── InputError          one input failed for a reason that splitter itself found
    ├── UnreadableInput it is missing, not a file, or cannot be opened
    ├── AudioError      a recording cannot be read, or cannot be written as asked
    ├── AnnotationError its annotations cannot be read
    ├── BadResult       process() gave something the contract does not allow
    ├── CommandFailed   a program that was run on it ended with an error
    ├── NameTaken       a file that no run has made is where an output would go
    ├── TimedOut        no result within --timeout
    ├── MemoryExceeded  more memory than --memory
    └── Crashed         the process that held it died

Skip                    raised by a recipe to leave an input out; not an error
Interrupted             Ctrl-C, SIGTERM or SIGHUP reached the run; a KeyboardInterrupt
"""

from typing import Any


class SplitterError(Exception):
    """The base of every error splitter raises."""


class Refused(SplitterError):
    """The run cannot start as asked; the message says what to change."""


class RunStopped(SplitterError):
    """The run cannot go on; what is committed is kept, and the same run continues it."""


class StorageError(RunStopped):
    """The output folder cannot be written or read."""

    @classmethod
    def of(cls, error: OSError, name: str) -> "StorageError":
        """Say which file of the output could not be written, and why."""
        reason = error.strerror or str(error)
        return cls(f"cannot write {name}: {reason}; mend that and run the same command again to continue")


class TarError(RunStopped):
    """An archive cannot be read, or its samples cannot be written as asked."""


class RecipeError(RunStopped):
    """The recipe fails in its own code on the first inputs that it is given, always alike."""

    def __init__(self, message: str, traceback: str = "") -> None:
        """Keep the user's own traceback beside the message."""
        super().__init__(f"{message}\n\n{traceback}".rstrip())
        self.message, self.traceback = message, traceback


class SetupError(RecipeError):
    """The recipe's setup() failed."""


class InputError(SplitterError):
    """One input failed for a reason that splitter itself found."""


class UnreadableInput(InputError):
    """An input is missing, is not a file, or cannot be opened."""


class AudioError(InputError):
    """A recording cannot be read, or cannot be written as asked."""


class AnnotationError(InputError):
    """The annotations of an input cannot be read; the message names their file and line."""


class BadResult(InputError):
    """A recipe's process() gave something that the contract does not allow."""


class CommandFailed(InputError):
    """A program that was run on an input ended with an error."""


class NameTaken(InputError):
    """A file that no run has made is where an output would go; it is left alone."""

    @classmethod
    def of(cls, name: str, why: str) -> "NameTaken":
        """Say which name it is, and what to do."""
        return cls(
            f"{name} in the output folder {why}, and no run has made it; move it away, and run again with "
            "--retry-failed"
        )


class TimedOut(InputError):
    """An input gave no result in the time allowed."""


class MemoryExceeded(InputError):
    """An input took more memory than allowed."""


class Crashed(InputError):
    """The process that held an input died."""


class Skip(Exception):
    """Raise it in `process` to leave an input out, with the reason."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the run to end; its number gives the exit code."""

    def __init__(self, signal_number: int) -> None:
        """Remember which signal it was."""
        super().__init__(f"interrupted by signal {signal_number}")
        self.signal_number = signal_number
        # of the run, where there is one: an `engine.summary.Summary`
        self.summary: Any = None

    @property
    def exit_code(self) -> int:
        """130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + self.signal_number
