"""Why an input failed: what is said of an exception in errors.csv, and who is to blame for it."""

import errno
import os
import re
import sys
import traceback
from dataclasses import dataclass, replace
from typing import NamedTuple

from splitter.dataset import ProcessorDataset
from splitter.errors import BadResult, InputError, UnreadableInput
from splitter.system.package import PACKAGE_FOLDER
from splitter.text.csv import in_unicode
from splitter.worker.messages import Failure

LONGEST_MESSAGE = 10_000
SCRATCH_SHOWN = "{scratch}"
# the modules that a traceback runs through before it is in the user's code
_OWN = {"splitter.worker.worker", "splitter.worker.batch_state", "splitter.dataset"}
_PACKAGE = f"{PACKAGE_FOLDER}/"
_WILL_NOT_PASS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)
_SCRATCH = re.compile(
    r"[^\s'\"]*(?:/\.splitter/staging(?:/part-\d+-of-\d+)?|/splitter-staging-\w+)(?:/splitter-\w+)+"
)
_STEP = re.compile(r'^[ |]*File "(.+)", line (\d+)', re.MULTILINE)
_OF_READING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO, errno.ENOTCONN)


class CurrentMember(NamedTuple):
    """A member of a shard: what the list calls it, and the file that it becomes."""

    listed: str
    path: str


def failure_of(error: BaseException, attempts: int, in_hand: CurrentMember | None = None) -> Failure:
    """The row of errors.csv for an exception; a member of a shard is called what the list calls it."""
    shown = "" if isinstance(error, InputError) else shown_from_own(error)
    return Failure(type(error).__name__, _message(error, in_hand), shown, attempts)


def shown_from_own(error: BaseException) -> str:
    """The traceback from the user's own code on."""
    text = "".join(traceback.format_exception(_without_own(error)))
    return in_unicode(text[-LONGEST_MESSAGE:])


def after_batch(fault: Failure | None, failure: Failure) -> Failure:
    """The failure of an input that was tried alone after its batch, with the error of that before it."""
    if fault is None or not failure.traceback or failure.message == fault.message:
        return failure
    before = f"{fault.traceback}\nThat was process_batch; then this input was tried alone:\n\n"
    return replace(failure, traceback=before + failure.traceback)


def may_pass(error: BaseException) -> bool:
    """Whether a read may succeed when it is tried again."""
    return isinstance(error, OSError) and not isinstance(error, _WILL_NOT_PASS)


def not_read(error: BaseException, path: str) -> bool:
    """Whether it is the input that could not be read, and not another file, nor its content that is wrong."""
    if isinstance(error, OSError) and error.errno is not None:
        if not isinstance(error.filename, (str, bytes, os.PathLike)):
            # a descriptor has no name; but a connection refused, say, is not about the input
            return error.errno in _OF_READING
        return os.path.normpath(os.fsdecode(error.filename)) == os.path.normpath(path)
    return isinstance(error, UnreadableInput)


@dataclass(frozen=True)
class Blame:
    """A failure that may be the fault of the recipe's own code.

    Attributes:
        kind: Of the exception.
        where: The line that it came from.
        message: What it says.
        traceback: As in errors.csv.
    """

    kind: str
    where: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException, failure: Failure, dataset: ProcessorDataset) -> "Blame | None":
        """None for what splitter itself has found to be wrong with an input."""
        if isinstance(error, InputError) and not isinstance(error, BadResult):
            return None
        where = line_of(error, dataset) if failure.traceback else ""
        return cls(failure.error, where, failure.message, failure.traceback)

    def is_like(self, other: "Blame") -> bool:
        """Whether it is the same error from the same line."""
        return (self.kind, self.where) == (other.kind, other.where)

    def __str__(self) -> str:
        """For a message of one line."""
        where = f" ({self.where})" if self.where else ""
        return f"{self.kind}: {' '.join(self.message.split())}{where}"


def line_of(error: BaseException, dataset: ProcessorDataset) -> str:
    """The line of the recipe's file that an error came through last, or else where it came from."""
    steps = traceback.extract_tb(error.__traceback__)
    code = _file_of(dataset)
    own = [step for step in steps if step.filename == code] or steps[-1:]
    return f"line {own[-1].lineno} of {own[-1].filename}" if own else ""


def _file_of(dataset: ProcessorDataset) -> str | None:
    return getattr(sys.modules.get(type(dataset).__module__), "__file__", None)


def kind_and_line(kind: str, shown: str, dataset: ProcessorDataset) -> str:
    """What kind of error it is, and the line of a user's own code that its traceback names last."""
    steps = _STEP.findall(shown)
    code = _file_of(dataset)
    path, line = next((step for step in reversed(steps) if step[0] == code), [("", ""), *steps][-1])
    return f"{kind} in line {line} of {os.path.basename(path)}" if path and _PACKAGE not in path else kind


def in_one_line(error: BaseException) -> str:
    """An exception for a message."""
    return f"{type(error).__name__}: {' '.join(_message(error).split())}"


def _message(error: BaseException, in_hand: CurrentMember | None = None) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - a user's __str__ may do anything
        text = "its message cannot be shown"
    if in_hand is not None:
        text = text.replace(in_hand.path, in_hand.listed)
    # the names of scratch folders are random, and what is published must not be
    return in_unicode(_SCRATCH.sub(SCRATCH_SHOWN, text[:LONGEST_MESSAGE]))


def _without_own(error: BaseException) -> BaseException:
    """The exception with a traceback that starts in the user's code."""
    step = error.__traceback__
    while step and step.tb_frame.f_globals.get("__name__") in _OWN:
        step = step.tb_next
    return error.with_traceback(step)
