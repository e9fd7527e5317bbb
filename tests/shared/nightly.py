"""How thorough the tests are: quick, as for the gate, or complete, with SPLITTER_NIGHTLY=1."""

import os

from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("SPLITTER_NIGHTLY") == "1"
# a run can die or fail at each change to the disk; the gate tries one of this many changes
STRIDE = 1 if NIGHTLY else 7


def depth(gate: int) -> int:
    """Return how many examples of a property to try, given how many the gate tries."""
    return gate * 10 if NIGHTLY else gate


# the gate tries the same examples each time, so a failure comes from the change that is tested
settings.register_profile(
    "splitter",
    max_examples=depth(50),
    derandomize=not NIGHTLY,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("splitter")
