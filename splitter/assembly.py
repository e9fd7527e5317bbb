"""`splitter manifest`: the manifest from the commit records, after parts, or after a run that was killed."""

import time

import numpy as np

from splitter.batch import Report
from splitter.engine import STALE, Summary, forget_earlier
from splitter.errors import Refused
from splitter.kept import forget_stale, kept_list, stale_entries
from splitter.manifest import DONE, FAILED, NOT_DONE, SKIPPED, Journal
from splitter.storage import OWN_FOLDER, LocalStorage


def assemble_manifest(storage: LocalStorage) -> Summary:
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
        known = entries >= 0
        status = np.zeros(len(entries), "u1")
        status[known] = journal.entries["status"][entries[known]]
        status[known] = np.where(stale_entries(storage, journal, entries[known]), STALE, status[known])
        finished = (status == DONE) | (status == SKIPPED)
        journal.write_manifest(entries[finished], header)
        journal.write_errors(entries[status == FAILED], header)
        made = journal.entries[entries[finished]]
        gone = journal.others(entries)
        stale = int((status == STALE).sum())
        if not stale:
            forget_stale(storage)
            forget_earlier(storage)
        journal.compact(np.concatenate((entries[known], gone)))
        return Summary(
            output=storage.root,
            inputs=len(status),
            done=int((status == DONE).sum()),
            skipped=int((status == SKIPPED).sum()),
            failed=int((status == FAILED).sum()),
            left=int((status == NOT_DONE).sum()),
            stale=stale,
            unreadable=0,
            unreadable_names=[],
            unreadable_why="",
            gone=len(gone),
            pruned=0,
            work=Report(outputs=int(made["outputs"].sum()), bytes=int(made["bytes"].sum())),
            seconds=time.monotonic() - began,
            limited=False,
            stopped="",
            assembled=True,
        )
