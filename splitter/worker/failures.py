"""Turn an exception into a row of errors.csv, and say whether the recipe or the input is to blame."""

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from splitter.dataset import ProcessorDataset
from splitter.errors import FULL, BadResult, InputError, StorageError, UnreadableInput
from splitter.records import Content, Deferred
from splitter.system.package import PACKAGE_FOLDER
from splitter.system.temporary_folders import NoTemporarySpace
from splitter.text.csv import in_unicode
from splitter.worker.messages import Failure

Given = TypeVar("Given")
Made = TypeVar("Made")

LONGEST_MESSAGE = 10_000
SCRATCH_SHOWN = "{scratch}"
# the modules that a traceback runs through before it reaches the user's code
_OWN = {f"splitter.worker.{name}" for name in ("worker", "batch", "failures", "fused", "group")}
_OWN |= {"splitter.dataset"}
_PACKAGE = f"{PACKAGE_FOLDER}/"
_WILL_NOT_PASS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)
_SCRATCH = re.compile(
    r"[^\s'\"]*(?:/\.splitter/staging(?:/part-\d+-of-\d+)?|/splitter-staging-\w+)(?:/splitter-\w+)+"
)
_STEP = re.compile(r'^[ |]*File "(.+)", line (\d+)', re.MULTILINE)
_OF_READING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO, errno.ENOTCONN)


class ForeignStorageError(Exception):
    """A StorageError that user code raised, such as by `read_output`: it is not about the run's own output.

    Attributes:
        error: The error that user code raised.
    """

    def __init__(self, error: StorageError) -> None:
        super().__init__(str(error))
        self.error = error


def user_call(function: Callable[[Given], Made], argument: Given) -> Made:
    """Call user code; if it raises a StorageError, that is an error of its input."""
    try:
        return function(argument)
    except StorageError as error:
        raise _of_user_code(error) from error.__cause__


def user_items(made: Iterable[Made]) -> Iterator[Made]:
    """Yield the items that user code makes, which may be a generator."""
    try:
        yield from made
    except StorageError as error:
        raise _of_user_code(error) from error.__cause__


def user_content(content: Content) -> Content:
    """Return the content of an output, as user code gave it, for a sink."""
    if callable(content) and not isinstance(content, (Deferred, os.PathLike)):
        return partial(user_call, content)
    return content


def _of_user_code(error: StorageError) -> Exception:
    """Return the error to raise for a StorageError of user code: only a full disk may stop the run."""
    is_full = isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL
    return error if is_full or isinstance(error, NoTemporarySpace) else ForeignStorageError(error)


def failure_of(error: BaseException, attempts: int, renamed: tuple[str, str] | None = None) -> Failure:
    """Return the row of errors.csv for an exception; `renamed` is a path, and the text that replaces it."""
    shown = "" if isinstance(error, InputError) else shown_from_own(error)
    return Failure(type(error).__name__, _message(error, renamed), shown, attempts)


def shown_from_own(error: BaseException) -> str:
    """Return the traceback, starting in the user's own code."""
    text = "".join(traceback.format_exception(_without_own(error)))
    return in_unicode(text[-LONGEST_MESSAGE:])


def after_batch(fault: Failure | None, failure: Failure) -> Failure:
    """Put the traceback of `process_batch` before that of an input that was then tried alone."""
    if fault is None or not failure.traceback or failure.message == fault.message:
        return failure
    before = (
        f"{fault.traceback}\nThe error above is from process_batch; this one is from trying the "
        "input alone:\n\n"
    )
    return replace(failure, traceback=before + failure.traceback)


def may_pass(error: BaseException) -> bool:
    """Return whether a read may succeed if it is repeated."""
    return isinstance(error, OSError) and not isinstance(error, _WILL_NOT_PASS)


def not_read(error: BaseException, path: str) -> bool:
    """Return whether the input itself could not be read, as opposed to another file or bad content."""
    if isinstance(error, OSError) and error.errno is not None:
        if not isinstance(error.filename, (str, bytes, os.PathLike)):
            # an error about a descriptor has no file name; nor has a refused connection, but that is not
            # about the input
            return error.errno in _OF_READING
        return os.path.normpath(os.fsdecode(error.filename)) == os.path.normpath(path)
    return isinstance(error, UnreadableInput)


@dataclass(frozen=True)
class Blame:
    """A failure that may be the fault of the recipe's own code.

    Attributes:
        failure: The failure, as in errors.csv.
        where: The line that raised it; empty if it has no traceback.
    """

    failure: Failure
    where: str

    @classmethod
    def of(cls, error: BaseException, failure: Failure, dataset: ProcessorDataset) -> "Blame | None":
        """Return the blame for an error; None if it is splitter itself that refused the input."""
        if isinstance(error, InputError) and not isinstance(error, BadResult):
            return None
        return cls(failure, line_of(error, dataset) if failure.traceback else "")

    def is_like(self, other: "Blame") -> bool:
        """Return whether both are the same error, raised by the same line."""
        return (self.failure.error, self.where) == (other.failure.error, other.where)

    def __str__(self) -> str:
        """Describe it in one line."""
        where = f" ({self.where})" if self.where else ""
        return f"{self.failure.error}: {' '.join(self.failure.message.split())}{where}"


def line_of(error: BaseException, dataset: ProcessorDataset) -> str:
    """Return the last line of the recipe's file in an error's traceback, or else the line that raised it."""
    steps = traceback.extract_tb(error.__traceback__)
    code = _file_of(dataset)
    own = [step for step in steps if step.filename == code] or steps[-1:]
    return f"line {own[-1].lineno} of {own[-1].filename}" if own else ""


def _file_of(dataset: ProcessorDataset) -> str | None:
    return getattr(sys.modules.get(type(dataset).__module__), "__file__", None)


def kind_and_line(kind: str, shown: str, dataset: ProcessorDataset) -> str:
    """Return the type of an error, with the last line of user code in its traceback if there is one."""
    steps = _STEP.findall(shown)
    code = _file_of(dataset)
    path, line = next((step for step in reversed(steps) if step[0] == code), [("", ""), *steps][-1])
    return f"{kind} in line {line} of {os.path.basename(path)}" if path and _PACKAGE not in path else kind


def in_one_line(error: BaseException) -> str:
    """Describe an exception in one line."""
    return f"{type(error).__name__}: {' '.join(_message(error).split())}"


def _message(error: BaseException, renamed: tuple[str, str] | None = None) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - a user's __str__ may do anything
        text = "its message cannot be shown"
    if renamed is not None:
        text = text.replace(*renamed)
    # the names of scratch folders are random, and nothing random may be published
    return in_unicode(_SCRATCH.sub(SCRATCH_SHOWN, text[:LONGEST_MESSAGE]))


def _without_own(error: BaseException) -> BaseException:
    """Return the exception with a traceback that starts in the user's code."""
    step = error.__traceback__
    while step and step.tb_frame.f_globals.get("__name__") in _OWN:
        step = step.tb_next
    return error.with_traceback(step)
