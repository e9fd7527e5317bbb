"""What runs batches. A new executor is a new file here that passes the conformance suite."""

from splitter.executors.base import Executor, Limits
from splitter.executors.local import LocalExecutor

EXECUTORS: dict[str, type[Executor]] = {"local": LocalExecutor}

__all__ = ["EXECUTORS", "Executor", "Limits", "LocalExecutor"]
