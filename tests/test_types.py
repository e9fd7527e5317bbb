"""The types of the package: mypy beside the tests, as it leaves a processor idle."""

import subprocess
import sys

import pytest
from doors import CHECKOUT


@pytest.mark.slow
def test_mypy_has_nothing_to_say():
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "splitter"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
