"""Where output files go. A new sink is a new file here that passes the conformance suite."""

from splitter.sinks.base import GroupWriter, Owner, Sink, SinkWriter
from splitter.sinks.files import FilesSink
from splitter.sinks.nowhere import Nowhere
from splitter.sinks.parquet import ParquetSink
from splitter.sinks.webdataset import WebDatasetSink

SINKS: dict[str, type[Sink]] = {"files": FilesSink, "webdataset": WebDatasetSink, "parquet": ParquetSink}

__all__ = [
    "SINKS",
    "FilesSink",
    "GroupWriter",
    "Nowhere",
    "Owner",
    "ParquetSink",
    "Sink",
    "SinkWriter",
    "WebDatasetSink",
]
