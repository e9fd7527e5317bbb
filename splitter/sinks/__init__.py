"""Where output files go. A new sink is a new file here that passes the conformance suite.

base         the seam `Sink`
files        loose files
shards       what the sinks of shards share
webdataset   tar shards
parquet      Parquet shards
discard      nothing is kept
columns      the columns of a table of outputs, decided once for a dataset
"""

from splitter.sinks.base import GroupWriter, OutputOwner, Sink, SinkWriter
from splitter.sinks.discard import DiscardWriter
from splitter.sinks.files import FilesSink
from splitter.sinks.parquet import ParquetSink
from splitter.sinks.webdataset import WebDatasetSink

SINKS: dict[str, type[Sink]] = {"files": FilesSink, "webdataset": WebDatasetSink, "parquet": ParquetSink}

__all__ = [
    "SINKS",
    "DiscardWriter",
    "FilesSink",
    "GroupWriter",
    "OutputOwner",
    "ParquetSink",
    "Sink",
    "SinkWriter",
    "WebDatasetSink",
]
