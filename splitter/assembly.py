"""`splitter manifest`: the manifest from the commit records, after parts, or after a run that was killed."""

import time

import numpy as np

from splitter.batch import Report
from splitter.engine import Summary
from splitter.errors import Refused
from splitter.how import forget_earlier
from splitter.kept import forget_stale, kept_list, stale_entries
from splitter.manifest import DONE, STALE, Journal
from splitter.places import OWN_FOLDER
from splitter.storage import Storage


def assemble_manifest(storage: Storage) -> Summary:
    """Bring manifest.csv and errors.csv together from what is committed; nothing is processed."""
    began = time.monotonic()
    if not storage.exists(OWN_FOLDER):
        raise Refused(f"{storage.root}: is no output folder of splitter; give the --output of a run")
    storage.prepare()
    with storage.locked():
        header, _, keys = kept_list(storage)
        journal = Journal(storage)
        journal.recover()
        journal.load()
        entries = journal.find(keys)
        known = np.flatnonzero(entries >= 0)
        status = journal.status(entries)
        status[known[stale_entries(storage, journal, entries[known])]] = STALE
        journal.write_tables(entries, status, header)
        gone = journal.others(entries)
        if not (status == STALE).any():
            forget_stale(storage)
            forget_earlier(storage)
        # those that are done; a skipped input has neither
        made = journal.entries[entries[status == DONE]]
        journal.compact(np.concatenate((entries[known], gone)))
        return Summary.of(
            status,
            output=storage.root,
            gone=len(gone),
            work=Report(outputs=int(made["outputs"].sum()), bytes=int(made["bytes"].sum())),
            seconds=time.monotonic() - began,
            assembled=True,
        )
