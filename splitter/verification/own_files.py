"""Check that the files of `.splitter` are whole."""

from collections.abc import Iterator

from splitter.errors import Refused
from splitter.ledger.journal import Journal
from splitter.ledger.list_copy import list_is_whole
from splitter.ledger.run_files import (
    KEEP,
    LIST,
    LISTED,
    OF_A_PIPELINE,
    PIPELINE,
    RULE,
    RUN,
    RUN_AGAIN,
    RUN_FILES,
    SHARES,
    STALE_MARKS,
)
from splitter.storage.base import Storage
from splitter.storage.layout import OWN_FOLDER, RECORDS


def own_faults(storage: Storage, journal: Journal) -> Iterator[tuple[str, str]]:
    """Yield each damaged file, and what is wrong with it."""
    missing = [file for file in (LIST, LISTED) if not storage.exists(file.name)]
    if missing and storage.exists(PIPELINE.name):
        raise Refused(f"{storage.root}: {OF_A_PIPELINE}")
    if missing and not journal.is_begun:
        raise Refused(f"{storage.root}: no run has started there yet; start one with 'splitter run'")
    shares = [name for name in storage.names(OWN_FOLDER) if name.startswith("shares-of-")]
    others = [SHARES.named(f"{OWN_FOLDER}/{name}") for name in shares]
    damaged = set()
    for file in (*RUN_FILES, *others):
        if file.is_sealed and (problem := file.fault(storage)):
            damaged.add(file.name)
            yield file.name, problem
    yield from journal.faults()
    if not storage.exists(RUN.name):
        yield RUN.name, f"does not exist; {RUN_AGAIN}"
    for file in missing:
        yield file.name, f"does not exist; {file.remedy}"
    if not (missing or LISTED.name in damaged or list_is_whole(storage)):
        yield LIST.name, f"is not the list that was stored; {LIST.remedy}"


def can_tell(damaged: set[str]) -> bool:
    """Return whether the files that are not damaged are enough to say what must be in the folder."""
    from_records = any(name.startswith(f"{RECORDS}/") for name in damaged)
    needed = {file.name for file in (LIST, LISTED, RULE, KEEP, STALE_MARKS)}
    return not (from_records or damaged & needed)
