"""Entry points of a forecast: `plan` for Python, `plan_dataset` for the command line."""

import os
from typing import TYPE_CHECKING, Any

from splitter.options import RunOptions

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset
    from splitter.engine.display import Display
    from splitter.forecast.forecast import Forecast

from splitter.engine.entry_points import output_folder, refuse_no_dataset, refuse_windows


def plan(dataset: "ProcessorDataset", output: str | os.PathLike[str], **options: Any) -> "Forecast":  # noqa: ANN401
    """Return what `run` with the same arguments would do; only temporary files are written."""
    from splitter.engine.display import Display

    refuse_no_dataset(dataset)
    checked = RunOptions.of(options)
    with Display(quiet=checked.quiet) as display:
        return plan_dataset(dataset, output, checked, display)


def plan_dataset(
    dataset: "ProcessorDataset", output: str | os.PathLike[str], options: RunOptions, display: "Display"
) -> "Forecast":
    """Return the forecast; raise Refused if the run would, and Interrupted at a signal."""
    from splitter.forecast.forecast import forecast
    from splitter.storage.opening import storage_of
    from splitter.system.signals import signals_raise

    refuse_windows()
    storage = storage_of(output_folder(output), options.part_asked)
    with signals_raise():
        return forecast(dataset, storage, options, display)
