"""Run a recipe over many files: nothing is lost, and a manifest says where every output came from."""

from splitter.system.exit_signals import end_at_signals, is_starting

if is_starting():
    end_at_signals()

from typing import TYPE_CHECKING, Any

from splitter.engine.entry_points import run, verify
from splitter.errors import Skip
from splitter.records import InputFile, OutputFile

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset
    from splitter.exports.entry import export
    from splitter.inputs.listing import InputList
    from splitter.ledger.splits import split
    from splitter.outputs.frame import read_manifest
    from splitter.outputs.opening import open as open  # noqa: A004 - not in __all__: no star hides Python's own
    from splitter.outputs.reader import read_output
    from splitter.pipeline.definition import Pipeline

__version__ = "0.1.0"
__all__ = [
    "InputFile",
    "InputList",
    "OutputFile",
    "Pipeline",
    "ProcessorDataset",
    "Skip",
    "export",
    "read_manifest",
    "read_output",
    "run",
    "split",
    "verify",
]

# imported at first use, because they need torch or pandas
_LATER = {
    "InputList": "inputs.listing",
    "Pipeline": "pipeline.definition",
    "ProcessorDataset": "dataset",
    "export": "exports.entry",
    "open": "outputs.opening",
    "read_manifest": "outputs.frame",
    "read_output": "outputs.reader",
    "split": "ledger.splits",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(f"splitter.{_LATER[name]}"), name)
    raise AttributeError(f"module 'splitter' has no attribute {name!r}")
