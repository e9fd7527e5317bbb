"""Where output files go. A new sink is a new file here that passes the conformance suite."""

from splitter.sinks.base import Sink, SinkWriter
from splitter.sinks.files import FilesSink
from splitter.sinks.nowhere import Nowhere

SINKS: dict[str, type[Sink]] = {"files": FilesSink}

__all__ = ["SINKS", "FilesSink", "Nowhere", "Sink", "SinkWriter"]
