"""The main path of a run: decide, begin, rounds, finish.

What an executor returns is only progress; the commit records are what counts.
"""

import contextlib

from splitter.dataset import ProcessorDataset
from splitter.engine.assignment import read_assignment, read_request
from splitter.engine.begin import announce, begin, clear
from splitter.engine.decide import decide
from splitter.engine.display import Display
from splitter.engine.finish import finish_run
from splitter.engine.rounds import Progress, do_rounds
from splitter.engine.summary import Summary
from splitter.errors import Interrupted
from splitter.ledger.journal import Journal
from splitter.ledger.run_files import LIST
from splitter.options import RunOptions
from splitter.storage.base import Storage


def run_to_end(dataset: ProcessorDataset, storage: Storage, options: RunOptions, display: Display) -> Summary:
    """Read the list, do what is not done, and make the manifest."""
    progress = Progress()
    request = read_request(dataset, storage, options, display)
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
        decision = decide(run, journal, display.say)
        run.executor.check(run.job, len(run.table))
        decision = clear(run, decision, journal, display)
        try:
            announce(run, decision, journal, display)
            begin(run, decision, journal, progress)
            do_rounds(run, decision, journal, progress, display)
            return finish_run(run, decision, journal, progress, display)
        except Interrupted as interruption:
            progress.is_interrupted = True
            # what was interrupted is done again: the tables are those of this run
            begin(run, decision, journal, progress)
            interruption.summary = finish_run(run, decision, journal, progress, display)
            raise
