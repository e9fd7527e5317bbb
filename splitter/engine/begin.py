"""What a run announces, removes and stores before its work begins."""

from dataclasses import replace

import numpy as np

from splitter.engine.assignment import Assignment
from splitter.engine.changes import changed_code, changed_inputs
from splitter.engine.decide import Decision, compare, damaged_still
from splitter.engine.display import Display
from splitter.engine.rounds import Progress
from splitter.inputs.labels import RowTally
from splitter.ledger.journal import Journal
from splitter.ledger.keeping import KeepRule
from splitter.ledger.list_copy import keep_list
from splitter.ledger.recipe_record import code_before, note_how
from splitter.ledger.records import FAILED
from splitter.ledger.status import keep_stale
from splitter.ledger.tables import take_away
from splitter.ledger.unsynced import forget_unsynced, noted_now
from splitter.system.recipe_code import code_state
from splitter.text.show import NAMES_SHOWN, show_count, show_names


def clear(run: Assignment, decision: Decision, journal: Journal, display: Display) -> Decision:
    """Announce what is to be removed, and remove it; return the decision for the records that are left.

    A removal is committed in a record, like everything else.
    """
    if decision.pruned:
        option, where = ("--fresh", "") if run.options.fresh else ("--prune", " no longer in the list")
        named = _named(run, journal, journal.with_outputs(decision.removed))
        display.say(f"{option}: removing the outputs of {named[0]}{where} ({named[1]})")
    if len(decision.displaced):
        _tell_changes(decision, display)
        count = show_count(len(decision.displaced), "finished input")
        display.alert(f"{count} will be redone; their shards of another sink are removed now")
    if not len(decision.forgotten):
        return decision
    take_away(run.storage)
    journal.forget(decision.forgotten, f"{journal.next_generation:06d}-forget")
    journal.load()
    return replace(decision, state=compare(run, journal, decision.once_more, decision.generation))


def announce(
    run: Assignment, decision: Decision, journal: Journal, progress: Progress, display: Display
) -> None:
    """Announce the work before it begins; if finished work will be redone, say so even with --quiet."""
    _tell_damage(run, decision, journal, display)
    if run.advice:
        display.warn(run.advice)
    if decision.has_work and run.executor.advice:
        display.alert(run.executor.advice)
    changed = np.intersect1d(decision.state.changed, decision.state.stale)
    if len(changed):
        if not len(decision.displaced):
            _tell_changes(decision, display)
        why = _why(run, decision, journal, changed)
        display.alert(f"{show_count(len(changed), 'finished input')} changed and will be redone{why}")
    _tell_failed(run, decision, journal, display)
    if hint := changed_code(run, decision.state, journal):
        display.warn(hint)
    if not (decision.has_work or progress.counts.inputs):
        display.say(_why_nothing(run, decision, journal))


def _tell_changes(decision: Decision, display: Display) -> None:
    if decision.changes:
        display.alert("; ".join(decision.changes))


def _tell_failed(run: Assignment, decision: Decision, journal: Journal, display: Display) -> None:
    """Say why failed inputs are tried again without --retry-failed."""
    tried = np.intersect1d(decision.state.todo, decision.state.stale)
    tried = tried[journal.status(decision.state.entries[tried]) == FAILED]
    if len(tried) and not run.options.retry_failed:
        why = _why(run, decision, journal, tried)
        display.say(f"{show_count(len(tried), 'failed input')} changed and will be tried again{why}")


def _why(run: Assignment, decision: Decision, journal: Journal, changed: np.ndarray) -> str:
    """Return what has changed, in parentheses, unless that was already said for all inputs."""
    return "" if decision.changes else f" ({'; '.join(changed_inputs(run, journal, changed))})"


def _tell_damage(run: Assignment, decision: Decision, journal: Journal, display: Display) -> None:
    listed = np.isin(decision.damaged, run.survey.keys)
    for keys, which, remedy in (
        (decision.damaged[listed], "", ""),
        (
            decision.damaged[~listed],
            " no longer in the list",
            "; add them to the list again to redo them, or use --prune",
        ),
    ):
        if not len(keys):
            continue
        count, names = _named(run, journal, journal.find(keys))
        display.alert(
            f"--repair: outputs of {count} are damaged or missing ({names})"
            if run.options.repair
            else f"the machine was restarted before everything was on disk: outputs of {count}{which} are "
            f"lost ({names}){remedy}"
        )


def _named(run: Assignment, journal: Journal, entries: np.ndarray) -> tuple[str, str]:
    """Return the number of some inputs, and the first few of their names, for a message."""
    names = journal.listed(entries[:NAMES_SHOWN], run.table.column)
    return show_count(len(entries), "input"), show_names(names, len(entries))


def _why_nothing(run: Assignment, decision: Decision, journal: Journal) -> str:
    entries = decision.state.entries
    if run.first_inputs is not None:
        entries = entries[run.first_inputs]
    if not len(entries):
        return f"nothing to do: {'this part has no inputs' if len(run.table) else why_no_inputs(run.tally)}"
    failed = int((journal.status(entries) == FAILED).sum())
    finished = f"nothing to do: {show_count(len(entries), 'input')}, all finished"
    return f"{finished}, {failed:,} of them failed (--retry-failed tries them again)" if failed else finished


def why_no_inputs(tally: RowTally) -> str:
    """Return why a list has no inputs."""
    if not tally.not_kept:
        return "the dataset list has no inputs"
    return f"--keep of the earlier run keeps none of its {show_count(tally.not_kept, 'output')}"


def begin(run: Assignment, decision: Decision, journal: Journal, progress: Progress) -> None:
    """Store what later runs and other commands need to know about this run, once."""
    if progress.is_begun:
        return
    storage = run.storage
    if decision.replaces:
        take_away(storage)
    # before the list: if the run dies in between, a manifest may lack rows, but never has wrong ones
    keep_stale(storage, journal, decision.state.entries[decision.state.stale])
    # if only a part of the list is known, the run that follows still has to say that the code has changed
    code = code_before(storage) if run.listed.is_part else ""
    note_how(storage, run.how, decision.earlier, code or code_state(type(run.job.dataset)))
    if run.options.keep is not None:
        KeepRule.store(storage, run.options.keep)
    if run.groups is not None:
        run.groups.write(storage)
    _note_unsynced(run, decision, journal)
    keep_list(storage, run.listed, run.table.checksum())
    progress.is_begun = True


def _note_unsynced(run: Assignment, decision: Decision, journal: Journal) -> None:
    """Note, before the first batch, which outputs a power cut may destroy from now on."""
    before = decision.unsynced
    damaged = bool(len(damaged_still(journal, decision.damaged, decision.generation)))
    # if only a part of the list is known, there may be more to do
    has_work = len(decision.state.todo) or run.listed.is_part
    if has_work and not run.job.durable and run.job.sink.divisible:
        noted_now(run.storage, decision.generation, before, lost=damaged)
    elif before and before.is_restarted and not damaged:
        forget_unsynced(run.storage)
