"""`--repair`: find the inputs that are done, but whose outputs are damaged or gone."""

import numpy as np

from splitter.ledger.journal import Journal
from splitter.ledger.records import DONE
from splitter.ledger.status import InputStatus
from splitter.storage.base import Storage
from splitter.storage.layout import shard_of
from splitter.verification.check import Verification


def damaged_entries(storage: Storage, journal: Journal, keys: np.ndarray) -> np.ndarray:
    """Return the entries, of inputs with these keys, that have a damaged output or shard."""
    input_status = InputStatus.of(storage, journal, keys)
    files = Verification(storage, journal=journal).damaged_files(input_status)
    if not files:
        return np.empty(0, "i8")
    done = input_status.entries_with(DONE)
    damaged = (
        any({name, shard_of(name)[0]} & files for name in names) for names in journal.outputs_of_each(done)
    )
    return done[np.fromiter(damaged, bool, len(done))]
