"""How thorough the tests are: quick as in the gate, or as long as it takes, with SPLITTER_NIGHTLY=1."""

import os

NIGHTLY = os.environ.get("SPLITTER_NIGHTLY") == "1"
