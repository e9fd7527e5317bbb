"""Run stages together: a driver process for each, started and ended together.

pipeline ── driver of "cut" ── its workers
         └─ driver of "mel" ── its workers
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from splitter.engine.display import as_typed, first_failure
from splitter.engine.summary import Summary
from splitter.errors import Interrupted, RecipeError, Refused, RunStopped, SplitterError
from splitter.ledger.journal import Journal
from splitter.ledger.list_copy import stored_list
from splitter.ledger.manifest import MANIFEST
from splitter.ledger.run_files import LIST, PIPELINE
from splitter.ledger.status import InputStatus
from splitter.pipeline.contents import drop_used, forget_dropped, keys_needed, refuse_dropped, users_of
from splitter.pipeline.definition import Pipeline, Stage
from splitter.pipeline.display import PipelineDisplay, StageDisplay, lines_of
from splitter.pipeline.driver import StageDriver, is_complete
from splitter.pipeline.neighbours import COMPLETE, INCOMPLETE, PipelineRun, StageState
from splitter.storage.opening import storage_of
from splitter.system.children import die_with_parent, parent_process
from splitter.system.programs import signal_name
from splitter.system.signals import (
    forget_handlers,
    not_interrupted,
    signals_blocked,
    signals_raise,
    unblock_signals,
)

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

SECONDS_BETWEEN_LOOKS = 0.25


@dataclass
class StageEnd:
    """How a stage has ended.

    Attributes:
        summary: The summary of its run; None if it has not begun.
        code: Its exit code.
        why: Why it has ended early, if it has.
        traceback: The user's own traceback if the recipe has ended it, or ours if a fault of splitter has.
    """

    summary: Summary | None = None
    code: int = 0
    why: str = ""
    traceback: str = ""


@dataclass
class PipelineEnd:
    """How a pipeline has ended: the ends of its stages, and the signal that has ended it, if one has."""

    stages: dict[str, StageEnd] = field(default_factory=dict)
    signal: int = 0

    @property
    def exit_code(self) -> int:
        """0 if all inputs of all stages are done or skipped, 1 if not, 2 if refused, 128 + N at signal N."""
        if self.signal:
            return 128 + self.signal
        codes = [end.code for end in self.stages.values()]
        return 2 if 2 in codes else int(any(codes))  # noqa: PLR2004 - that of a refusal

    @property
    def early(self) -> tuple[str, StageEnd] | None:
        """The stage that has ended all others early, if one has."""
        return next(((name, end) for name, end in self.stages.items() if end.why), None)

    def raise_stop(self) -> None:
        """Raise Interrupted, Refused, RecipeError or RunStopped if the pipeline has ended early."""
        if self.signal:
            raise Interrupted(self.signal)
        if self.early:
            name, end = self.early
            if end.code == 2:  # noqa: PLR2004
                raise Refused(f"stage {name}: {end.why}")
            if end.traceback:
                raise RecipeError(f"stage {name}: {end.why}", end.traceback)
            raise RunStopped(f"stage {name}: {end.why}")


def run_stages(pipeline: Pipeline, stages: Sequence[Stage]) -> PipelineEnd:
    """Run stages of a pipeline to their ends, or continue."""
    storage, options = storage_of(pipeline.output), stages[0].options
    for stage in stages:
        storage_of(stage.outputs.folder).refuse_strange()
    with signals_raise():
        storage.prepare()
        with storage.locked(), storage.unless_refused():
            if storage.exists(LIST.name):
                raise Refused(f"{storage.root}: holds the outputs of a single run; choose another folder")
            PIPELINE.save(storage, pipeline.described(), pretty=True)
            refuse_dropped(stages)
            needed = keys_needed(stages)
            forget_dropped(stages, needed)
            names = [stage.name for stage in stages]
            display = PipelineDisplay(names, quiet=options.quiet, progress=options.progress)
            with contextlib.closing(_Drivers(pipeline, stages, needed, display)) as drivers:
                end = drivers.run()
            if len(stages) == len(pipeline.stages) and drivers.are_complete:
                for stage in stages:
                    if stage.until_used and users_of(stage, stages):
                        drop_used(stage, stages)
    _tell(end, display, stages)
    return end


class _Drivers:
    """The driver processes of all stages."""

    def __init__(
        self,
        pipeline: Pipeline,
        stages: Sequence[Stage],
        needed: Mapping[str, np.ndarray],
        display: PipelineDisplay,
    ) -> None:
        self._stages, self._display = stages, display
        # the stages whose outputs these take, and that do not run now
        others = {stage.before for stage in stages if stage.before and stage.before not in stages}
        ends = {stage.name: COMPLETE if _was_complete(stage) else INCOMPLETE for stage in others}
        for stage in stages:
            if stage.before in others and ends[stage.before.name] == INCOMPLETE:
                _refuse_part_of_shards(stage, stage.before)
        self._states = {stage.name: StageState() for stage in (*stages, *others)}
        for name, end in ends.items():
            self._states[name].end = end
        self._run = PipelineRun(pipeline, stages, self._states, needed)
        self._processes: dict[str, BaseProcess] = {}
        self._connections: dict[Connection, str] = {}
        self._end = PipelineEnd()
        self._is_ending = False
        # whether all stages have come to their ends; known when this is closed
        self.are_complete = False

    def run(self) -> PipelineEnd:
        """Start all drivers, and wait until the last has ended."""
        try:
            for stage in self._stages:
                self._start(stage)
            self._display.begin()
            self._wait()
        except Interrupted as interruption:
            self._end.signal = interruption.signal_number
            self._ask_to_end(interruption.signal_number)
            self._wait()
        return self._end

    def close(self) -> None:
        """Leave no driver behind."""
        self._display.stop()
        for process in self._processes.values():
            if process.is_alive():
                process.terminate()
            process.join()
        self.are_complete = all(self._states[stage.name].end == COMPLETE for stage in self._stages)
        for state in self._states.values():
            state.close()

    def _start(self, stage: Stage) -> None:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        driver = StageDriver(stage, self._run, StageDisplay(theirs))
        with signals_blocked():
            process = multiprocessing.get_context("fork").Process(
                target=_drive, args=(driver, theirs, [ours, *self._connections])
            )
            process.start()
            theirs.close()
            # a signal in between would find a driver that nobody knows
            self._processes[stage.name] = process
            self._connections[ours] = stage.name

    def _wait(self) -> None:
        """Take events from the drivers until all have ended."""
        while self._connections:
            for connection in multiprocessing.connection.wait([*self._connections], SECONDS_BETWEEN_LOOKS):
                self._take(connection)
            self._display.show(
                {name: state.waiting for name, state in self._states.items() if name in self._processes}
            )

    @not_interrupted
    def _take(self, connection: Any) -> None:  # noqa: ANN401 - as `wait` gives it
        """Take one event, whole: later ones could not be told apart after a half."""
        name = self._connections[connection]
        try:
            event = connection.recv()
        except (EOFError, OSError):
            del self._connections[connection]
            connection.close()
            self._has_ended(name)
            return
        if event["event"] == "end":
            self._note_end(name, event["end"])
        else:
            self._display.take(name, event)

    def _has_ended(self, name: str) -> None:
        process = self._processes[name]
        process.join()
        if name not in self._end.stages:
            code = process.exitcode or 0
            how = f"was ended by {signal_name(-code)}" if code < 0 else f"has ended with code {code}"
            why = f"its driver {how}; run the same command to continue"
            self._note_end(name, StageEnd(code=1, why=why))

    def _note_end(self, name: str, end: StageEnd) -> None:
        self._end.stages[name] = end
        interrupted = end.code > 2  # noqa: PLR2004 - that of a refusal
        # an interrupted stage may have nothing left to do only because the stage before has not come further
        complete = is_complete(end.summary) and not (end.why or interrupted)
        self._states[name].end = COMPLETE if complete else INCOMPLETE
        word = "interrupted" if interrupted else "stopped" if end.why else "done"
        self._display.take(name, {"event": "end", "word": word if end.summary else f"{word}, not begun"})
        if end.why:
            self._ask_to_end(signal.SIGTERM)

    def _ask_to_end(self, number: int) -> None:
        """Ask all drivers to end, once: at a second signal they would leave no manifest."""
        if self._is_ending:
            return
        self._is_ending = True
        for process in self._processes.values():
            if process.is_alive() and process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)


def _drive(driver: StageDriver, connection: Connection, others: Sequence[Connection]) -> None:
    """Run as the driver of a stage."""
    # a Ctrl-C goes to the pipeline, which passes it on
    os.setpgid(0, 0)
    for other in others:
        other.close()
    # ignore signals instead of acting as the pipeline does; while at work, the driver has its own handlers
    forget_handlers()
    die_with_parent(parent_process(), signal.SIGTERM)
    end = _end_of(driver)
    with contextlib.suppress(OSError):
        connection.send({"event": "end", "end": end})
    connection.close()


def _end_of(driver: StageDriver) -> StageEnd:
    try:
        # signals were blocked until now, since the handlers were those of the pipeline
        with signals_raise():
            unblock_signals()
            summary = driver.drive()
    except Interrupted as interruption:
        return StageEnd(interruption.summary, interruption.exit_code)
    except Refused as error:
        return StageEnd(code=2, why=str(error))
    except RecipeError as error:
        return StageEnd(code=1, why=error.message, traceback=error.traceback)
    except Exception as error:  # noqa: BLE001 - a fault of ours must be seen as well
        known = isinstance(error, (SplitterError, OSError))
        why = str(error) if known else "a bug in splitter; please report it"
        return StageEnd(code=1, why=why, traceback="" if known else traceback.format_exc())
    if summary is None:
        return StageEnd(code=1)
    return StageEnd(summary, summary.exit_code, summary.stopped, summary.traceback)


def _was_complete(stage: Stage) -> bool:
    """Return whether a stage that does not run now came to its end before."""
    storage = storage_of(stage.outputs.folder)
    try:
        _, _, keys = stored_list(storage)
    except Refused:
        raise Refused(f"stage {stage.name}: has not run yet; run it first, or leave --only out") from None
    # the list may be incomplete: its driver may have been killed, or the stage before interrupted
    if not storage.exists(MANIFEST) or (stage.before is not None and not _was_complete(stage.before)):
        return False
    journal = Journal(storage)
    journal.load()
    return InputStatus.of(storage, journal, keys).is_complete


def _refuse_part_of_shards(stage: Stage, before: Stage) -> None:
    """Refuse to make shards from what an incomplete stage has made so far: more inputs would share them."""
    if stage.options.sink != "files":
        raise Refused(
            f"stage {stage.name}: makes shards, but {before.name} has not finished; run that first, or "
            "leave --only out"
        )


def _tell(end: PipelineEnd, display: PipelineDisplay, stages: Sequence[Stage]) -> None:
    """Print the result of each stage, and the next step."""
    for name, stage in end.stages.items():
        if stage.summary is not None:
            display.end(name, stage.summary)
            for line in lines_of(stage.summary):
                display.say(line, name)
        for line in stage.traceback.splitlines():
            display.say(line, loud=True)
    if end.signal:
        display.say("interrupted; finished work is kept; run the same command to continue", loud=True)
    elif end.early:
        name, stage = end.early
        display.say(f"stopped: stage {name}: {stage.why}", loud=True)
    else:
        display.say(_next_step(end, stages))


def _next_step(end: PipelineEnd, stages: Sequence[Stage]) -> str:
    summaries = [stage.summary for stage in end.stages.values() if stage.summary]
    if failed := [summary for summary in summaries if summary.failed]:
        tables = " and ".join(f"{as_typed(summary.output)}/errors.csv" for summary in failed)
        return (
            f"next: see {tables}{first_failure(failed[0])}, fix the cause, and run again with --retry-failed"
        )
    for stage in stages:
        summary = end.stages[stage.name].summary
        if stage.before and summary and not summary.inputs and (advice := stage.before.outputs.without_files):
            return f"next: {stage.name} had nothing to do, since {advice}, and run again"
    last = [*end.stages.values()][-1].summary
    return f"next: splitter report {as_typed(last.output)}" if last else "next: run again to continue"
