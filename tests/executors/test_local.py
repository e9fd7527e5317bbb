"""The executor for one machine."""

from executors.conformance import ExecutorConformance


class TestLocal(ExecutorConformance):
    """It does what every executor must do."""

    executor = "local"
