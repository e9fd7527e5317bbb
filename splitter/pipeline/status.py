"""What `splitter pipeline plan` and `status` say: how far each stage is, by its commit records."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from splitter.engine.decide import NOTHING
from splitter.engine.display import Display
from splitter.errors import Refused, StorageError
from splitter.forecast.forecast import forecast
from splitter.ledger.journal import Journal
from splitter.ledger.list_copy import list_description, stored_list
from splitter.ledger.records import DONE, FAILED, SKIPPED
from splitter.ledger.run_files import LIST
from splitter.ledger.status import InputStatus
from splitter.pipeline.contents import keys_needed, to_do
from splitter.pipeline.definition import Pipeline, Stage
from splitter.storage.opening import storage_of
from splitter.system.signals import signals_raise
from splitter.text.show import one_line, show_bytes, show_count

# how often, and at what intervals, to look at a stage whose records are being merged
LOOKS, SECONDS_BETWEEN_LOOKS = 10, 0.1


def plan_lines(stages: Sequence[Stage]) -> Iterator[str]:
    """Yield what a run of the stages would do; this is certain only for stages that have their lists."""
    # stages that will make something new
    changing: set[str] = set()
    needed = keys_needed(stages)
    with signals_raise(), Display(quiet=True) as display:
        for stage in stages:
            before, source = stage.before, stage.files_from
            if len(needed[stage.name]):
                again = show_count(len(needed[stage.name]), "input")
                yield f"{stage.name}: makes the files of {again} again, which were dropped and are needed"
                changing.add(stage.name)
                continue
            if before is not None and not _has_list(before):
                changing.add(stage.name)
                yield f"{stage.name}: takes what {before.name} makes, but {before.name} has not run yet"
                continue
            if source is not None and len(needed.get(source.name, NOTHING)):
                changing.add(stage.name)
                yield f"{stage.name}: {show_count(len(to_do(stage)), 'input')} to do"
                continue
            waits = before is not None and before.name in changing
            options = replace(stage.options, prune=before is not None and not waits)
            try:
                plan = forecast(stage.dataset, storage_of(stage.outputs.folder), options, display)
            except Refused as error:
                raise Refused(f"stage {stage.name}: {error}") from None
            for line in plan.lines(gives_columns=stage.outputs.adds_columns):
                yield f"{stage.name}: {one_line(line)}"
            if before is not None and waits:
                yield f"{stage.name}: and what {before.name} still has to make"
            if plan.to_do or waits:
                changing.add(stage.name)


def _has_list(stage: Stage) -> bool:
    try:
        stored_list(storage_of(stage.outputs.folder))
    except Refused:
        return False
    return True


def status_lines(pipeline: Pipeline, *, command: str) -> Iterator[str]:
    """Yield how far each stage is; write nothing, as the pipeline may be at work. `command` runs it."""
    found = []
    for stage in pipeline.stages:
        found.append(_status_at_work(stage))
        yield f"{stage.name}: {found[-1][0]}"
    # a run locks the folder of the pipeline
    user, _ = storage_of(pipeline.output).users()
    if any(is_left for _, is_left in found) and not user:
        how = "start" if all(line == _NOT_YET for line, _ in found) else "continue"
        yield f"not running; to {how}: {command}"


def _status_at_work(stage: Stage) -> tuple[str, bool]:
    """Return how far a stage is, and whether something is left; retry while its records come and go."""
    for _ in range(LOOKS - 1):
        with contextlib.suppress(StorageError):
            return _status(stage)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return _status(stage)


def _status(stage: Stage) -> tuple[str, bool]:
    storage = storage_of(stage.outputs.folder)
    try:
        _, _, keys = stored_list(storage)
    except Refused:
        return _NOT_YET, True
    journal = Journal(storage)
    journal.peek()
    found = InputStatus.of(storage, journal, keys)
    # a stage that follows knows its list only at the end
    gone = NOTHING if list_description(storage).is_part else found.gone
    entries = journal.others(gone) if stage.before else found.entries[found.entries >= 0]
    status, made = journal.status(entries), journal.entries[entries]
    parts = [
        f"{int((status == kind).sum()):,} {word}" for kind, word in _WORDS.items() if (status == kind).any()
    ]
    left = len(to_do(stage))
    if left:
        parts.append(f"{left:,} to do")
    user, _ = storage.users()
    outputs = f"{show_count(int(made['outputs'].sum()), 'output')} ({show_bytes(int(made['bytes'].sum()))})"
    line = f"{', '.join(parts) or 'nothing done'}; {outputs}" + ("; at work" if user else "")
    return line, left > 0


def verify_stage(
    stage: Stage, say: Callable[[str], object], *, command: str, deep: int | str | None = None
) -> int:
    """Check what is in the folder of a stage, and return an exit code; `command` runs the pipeline."""
    from splitter.engine.entry_points import verify
    from splitter.verification.findings import Telling

    folder, name = stage.outputs.folder, stage.name
    storage = storage_of(folder)
    if not (storage.is_output() and (storage.exists(LIST.name) or Journal(storage).is_begun)):
        say(f"{name}: has not run yet")
        return 1
    telling = Telling(folder, lambda line: say(f"{name}: {line}"), command=f"'{command}'")
    recipe = None if deep is None else stage.dataset
    verdict = verify(folder, deep=deep, recipe=recipe, tell=telling)
    telling.end(verdict)
    return verdict.exit_code


_NOT_YET = "has not run yet"
_WORDS = {DONE: "done", SKIPPED: "skipped", FAILED: "failed"}
