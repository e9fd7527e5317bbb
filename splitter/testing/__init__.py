"""Suites for what other packages add, which inherit one in a test, and pass.

sinks       what every sink must do
contents    contents of outputs of every kind
executors   what every executor must do
faults      recipes whose inputs say how they fail
recipes     what every recipe should do
inputs      what every kind of input must do
published   what a run published, read with Python's own libraries
"""

import pytest

# so that a failed assertion shows its values
pytest.register_assert_rewrite(
    "splitter.testing.executors",
    "splitter.testing.inputs",
    "splitter.testing.published",
    "splitter.testing.recipes",
    "splitter.testing.sinks",
)
