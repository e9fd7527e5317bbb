"""The sink of tar shards, as WebDataset reads them."""

from sinks.conformance import ShardConformance


class TestWebDataset(ShardConformance):
    """It does what every sink must do, and every sink of shards."""

    sink = "webdataset"
