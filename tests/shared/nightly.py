"""How thorough the tests are: quick as in the gate, or as long as it takes, with SPLITTER_NIGHTLY=1."""

import os

from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("SPLITTER_NIGHTLY") == "1"
# of the deaths and the faults at each change to the disk the gate tries one of so many
STRIDE = 1 if NIGHTLY else 7


def depth(gate: int) -> int:
    """How many examples of a property are tried, by how many the gate tries."""
    return gate * 10 if NIGHTLY else gate


# the gate tries the same examples each time: what it finds is the fault of the change that it is for
settings.register_profile(
    "splitter",
    max_examples=depth(50),
    derandomize=not NIGHTLY,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("splitter")
