"""Test suites for what other packages add: each inherits a suite in its tests, and must pass it.

sinks       what every sink must do
contents    output contents of every kind
executors   what every executor must do
faults      recipes whose inputs say how to fail
recipes     what every recipe should do
inputs      what every kind of input must do
published   what a run published, read with Python's own libraries
"""

import sys

# workers import the recipes of `faults`, and should not have to import pytest
if "pytest" in sys.modules:
    import pytest

    # so that a failed assertion shows its values
    pytest.register_assert_rewrite(
        "splitter.testing.executors",
        "splitter.testing.inputs",
        "splitter.testing.published",
        "splitter.testing.recipes",
        "splitter.testing.sinks",
    )
