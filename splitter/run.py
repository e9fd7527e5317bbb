"""The doors of a run: `run` for Python, `run_dataset` for the command line.

This module is imported with the package, so what is heavy is imported when a run begins.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from splitter.errors import Interrupted, Refused, RunStopped
from splitter.options import RunOptions

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset
    from splitter.engine import Summary
    from splitter.frame import Manifest
    from splitter.progress import Display


def run(dataset: "ProcessorDataset", output: str | os.PathLike[str], **options: Any) -> "Manifest":  # noqa: ANN401
    """Process every input of a dataset into the folder `output`.

    Returns the manifest as a pandas DataFrame; what failed is in its attribute `failed`, the numbers are
    in its attribute `summary`. The options are those of `splitter.options.RunOptions`. With `part` there is
    no manifest before all parts are done: the DataFrame is empty.
    """
    from splitter.frame import no_manifest, read_manifest
    from splitter.progress import Display

    _refuse_no_dataset(dataset)
    checked = RunOptions.of(options)
    with Display(quiet=checked.quiet) as display:
        summary = run_dataset(dataset, output, checked, display)
    if summary.stopped:
        raise RunStopped(summary.stopped)
    return no_manifest(summary) if summary.part else read_manifest(summary.output, summary=summary)


def _refuse_no_dataset(dataset: object) -> None:
    from splitter.dataset import ProcessorDataset

    if isinstance(dataset, type):
        raise Refused(f"splitter.run: {dataset.__name__} is a class; make an object of it, with the inputs")
    if not isinstance(dataset, ProcessorDataset):
        kind = type(dataset).__name__
        raise Refused(
            f"splitter.run: {dataset!r:.100} is a {kind}; give a ProcessorDataset, made with the inputs"
        )


def run_dataset(
    dataset: "ProcessorDataset", output: str | os.PathLike[str], options: RunOptions, display: "Display"
) -> "Summary":
    """The whole run; returns numbers and paths. Raises Refused before any work, Interrupted at a signal."""
    from splitter.engine import Engine
    from splitter.storage import LocalStorage

    if sys.platform == "win32":
        raise Refused("Windows itself is not supported; run splitter in WSL, the Windows Subsystem for Linux")
    storage = LocalStorage(_folder(output), options.part_asked)
    with signals_raise():
        return Engine(dataset, storage, options, display).run()


def assemble(output: str | os.PathLike[str]) -> "Summary":
    """Bring manifest.csv and errors.csv together from what is committed; nothing is processed."""
    from splitter.assembly import assemble_manifest
    from splitter.storage import LocalStorage

    with signals_raise():
        return assemble_manifest(LocalStorage(_folder(output)))


def _folder(output: str | os.PathLike[str]) -> str:
    try:
        folder = os.fsdecode(output)
    except TypeError:
        kind = type(output).__name__
        raise Refused(f"--output {output!r:.100}: is a {kind}; give the path of a folder") from None
    if not folder or "\0" in folder:
        raise Refused(f"--output {folder!r}: names no folder; give the path of one")
    if "://" in folder:
        raise Refused(f"{folder}: is a URL; give a folder as --output")
    return os.path.expanduser(folder)


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Turn the first signal that asks to end into Interrupted; the second ends at once."""
    from splitter.processes import ASKING_TO_END

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler's arguments
        if seen:
            # nothing is lost: what is committed is on storage, and the workers end with this process
            os._exit(128 + number)
        seen.append(number)
        raise Interrupted(number)

    # what nohup, or a shell's `&`, has had ignored stays ignored, and what C code handles stays with it
    numbers = [number for number in ASKING_TO_END if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    old = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
