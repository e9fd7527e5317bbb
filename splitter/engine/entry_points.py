"""Entry points of a run: `run` for Python, `run_dataset` for the command line.

This module is imported with the package, so heavy modules are imported only when a run begins.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from splitter.errors import RecipeError, Refused, RunStopped
from splitter.options import RunOptions
from splitter.system.exit_signals import saying_so
from splitter.system.imports import quick_imports

if TYPE_CHECKING:
    from collections.abc import Callable

    from splitter.dataset import ProcessorDataset
    from splitter.engine.display import Display
    from splitter.engine.summary import Summary
    from splitter.outputs.frame import Manifest
    from splitter.storage.base import Storage
    from splitter.verification.findings import Finding, Verdict


def run(dataset: "ProcessorDataset", output: str | os.PathLike[str], **options: Any) -> "Manifest":  # noqa: ANN401
    """Process every input of a dataset into the folder `output`.

    Return the manifest as a pandas DataFrame; its attribute `failed` has the failures, and its attribute
    `summary` the numbers. The options are those of `splitter.options.RunOptions`. With `part`, the DataFrame
    is empty, because there is no manifest before all parts are done.
    """
    from splitter.engine.display import Display
    from splitter.outputs.frame import no_manifest, read_manifest

    refuse_no_dataset(dataset)
    checked = RunOptions.of(options)
    # the DataFrame has the numbers
    with Display(quiet=checked.quiet, announces=False, progress=checked.progress) as display:
        summary = run_dataset(dataset, output, checked, display)
    if summary.stopped:
        if summary.traceback:
            raise RecipeError(summary.stopped, summary.traceback)
        raise RunStopped(summary.stopped)
    return no_manifest(summary) if summary.part else read_manifest(summary.output, summary=summary)


def refuse_no_dataset(dataset: object) -> None:
    """Refuse anything but a dataset, such as a class or a list."""
    from splitter.dataset import ProcessorDataset

    if isinstance(dataset, type):
        raise Refused(f"splitter.run: {dataset.__name__} is a class; create an object of it, with the inputs")
    if not isinstance(dataset, ProcessorDataset):
        kind = type(dataset).__name__
        raise Refused(
            f"splitter.run: {dataset!r:.100} is of type {kind}; pass a ProcessorDataset created "
            "with the inputs"
        )


def run_dataset(
    dataset: "ProcessorDataset", output: str | os.PathLike[str], options: RunOptions, display: "Display"
) -> "Summary":
    """Run, and return numbers and paths; raise Refused before any work, or Interrupted at a signal."""
    with saying_so():
        with quick_imports():
            from splitter.engine.assignment import read_request
            from splitter.engine.main import run_to_end
            from splitter.storage.opening import storage_of
            from splitter.system.signals import signals_raise

        refuse_windows()
        storage = storage_of(output_folder(output), options.part_asked)
    with signals_raise():
        return run_to_end(read_request(dataset, storage, options, display), display)


def assemble(
    output: str | os.PathLike[str],
    *,
    others: Sequence[str] | None = None,
    tell: "Callable[[str], None] | None" = None,
) -> "Summary":
    """Make manifest.csv and errors.csv from what is committed; process nothing."""
    from splitter.engine.finish import assemble_manifest

    with made_storage(output) as storage:
        return assemble_manifest(storage, others=others, tell=tell)


def verify(
    output: str | os.PathLike[str],
    *,
    deep: int | str | None = None,
    recipe: "ProcessorDataset | type[ProcessorDataset] | str | None" = None,
    workers: int | None = None,
    tell: "Callable[[Finding], None] | None" = None,
) -> "Verdict":
    """Check that everything that runs left in an output folder is present and unchanged; write nothing.

    Args:
        output: The output folder, or its manifest.csv, or the URL of either.
        deep: Also process this many inputs again, or all, and compare the results.
        recipe: The recipe for `deep`, if it is not a built-in one: the dataset, its class, or a name as for
            `--recipe`.
        workers: Number of processes that read. Default: the CPUs this process may use.
        tell: Called with each finding as it is made.
    """
    from splitter.verification.check import Verification

    if deep is not None and deep != "all" and (not isinstance(deep, int) or deep < 1):
        raise Refused(f"--deep {deep}: write a number of inputs to make again, or all")
    if workers is not None and workers < 1:
        raise Refused(f"--workers {workers}: must be at least 1")
    with made_storage(output) as storage:
        verification = Verification(storage, workers=workers, tell=tell)
        if deep is None:
            return verification.run()
        from splitter.verification.reproduce import Reproduction, recipe_of_run

        most = deep if isinstance(deep, int) else None
        return verification.run(
            lambda: Reproduction(recipe_of_run(storage, recipe), most=most, workers=workers)
        )


def refuse_windows() -> None:
    """Refuse Windows, except in WSL."""
    if sys.platform == "win32":
        raise Refused("Windows itself is not supported; run splitter in WSL, the Windows Subsystem for Linux")


@contextlib.contextmanager
def made_storage(output: str | os.PathLike[str]) -> "Iterator[Storage]":
    """Open the output folder of a run, by its path or that of its manifest; a signal raises Interrupted."""
    from splitter.outputs.tables import folder_of
    from splitter.storage.opening import storage_of
    from splitter.system.signals import signals_raise

    with signals_raise():
        yield storage_of(folder_of(output_folder(output)))


def output_folder(output: str | os.PathLike[str]) -> str:
    """Return the output folder as text; refuse anything that cannot name one."""
    try:
        folder = os.fsdecode(output)
    except TypeError:
        kind = type(output).__name__
        raise Refused(f"--output {output!r:.100}: is of type {kind}; pass the path of a folder") from None
    if not folder or "\0" in folder:
        raise Refused(f"--output {folder!r}: does not name a folder; pass the path of one")
    return folder
