"""The main path of a run: decide, begin, rounds, finish.

The reports of an executor only show progress; the commit records decide what is done.
"""

import contextlib

import numpy as np

from splitter.engine.assignment import RunRequest, read_assignment
from splitter.engine.begin import announce, begin, clear
from splitter.engine.decide import NOTHING, decide
from splitter.engine.display import Display
from splitter.engine.finish import finish_run
from splitter.engine.rounds import Progress, do_rounds
from splitter.engine.summary import Summary
from splitter.errors import Interrupted, StorageError
from splitter.ledger.journal import Journal
from splitter.ledger.run_files import LIST


def run_to_end(
    request: RunRequest, display: Display, *, progress: Progress | None = None, needed: np.ndarray = NOTHING
) -> Summary:
    """Read the list, do what is not done, and make the manifest.

    `progress` is what was done for this run before; `needed` has the keys of inputs whose outputs were
    dropped, but are needed again.
    """
    progress, storage = progress or Progress(), request.storage
    storage.prepare()
    with (
        storage.locked(elsewhere=request.executor.elsewhere),
        storage.unless_refused(),
        storage.working_file(LIST.name) as file,
        contextlib.closing(request.executor),
    ):
        run = read_assignment(request, file, display)
        journal = Journal(storage)
        journal.recover()
        journal.load()
        decision = decide(run, journal, display.say, needed=needed)
        run.executor.check(run.job, len(run.table))
        decision = clear(run, decision, journal, display)
        try:
            announce(run, decision, journal, progress, display)
            begin(run, decision, journal, progress)
            request.hooks.begun(run, decision, journal)
            do_rounds(run, decision, journal, progress, display)
            return finish_run(run, decision, journal, progress, display)
        except Interrupted as interruption:
            progress.is_interrupted = True
            # if the storage fails as well, the next run finds what is committed
            with contextlib.suppress(StorageError):
                # `begin` may have been interrupted, and the tables must be those of this run
                begin(run, decision, journal, progress)
                interruption.summary = finish_run(run, decision, journal, progress, display)
            raise
