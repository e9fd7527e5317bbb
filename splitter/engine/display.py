"""What a run prints: notes, progress, a summary at the end."""

import os
import shlex
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from splitter.engine.progress import (
    SECONDS_BETWEEN_LINES,
    JsonLines,
    LiveLine,
    NotebookBar,
    PlainLines,
    Snapshot,
    View,
    is_notebook,
    without_listeners,
    write_event,
)
from splitter.text.urls import is_url

if TYPE_CHECKING:
    from splitter.engine.summary import Summary
    from splitter.inputs.labels import RowTally
    from splitter.worker.messages import WorkCounts

from splitter.text.show import (
    one_line,
    shortened,
    show_bytes,
    show_count,
    show_failure,
    show_hours,
    show_names,
    show_seconds,
)

LONGEST_EXAMPLE = 300


class Display:
    """The output of a run on the standard error stream; if quiet, only what must not be missed."""

    def __init__(self, *, quiet: bool = False, announces: bool = True, progress: str = "auto") -> None:
        """Print nothing yet; `announces`: say first how much there is to do; `progress`: as in --progress."""
        self.quiet, self._announces, self._progress = quiet, announces, progress
        self.view: View | None = None
        self._snapshot = Snapshot(0, 0)
        self._patience: threading.Timer | None = None

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def say(self, text: str) -> None:
        """Print a line, unless quiet."""
        if not self.quiet:
            self.error(text)

    def say_meanwhile(self, text: str) -> None:
        """Print what the run is waiting for, if somebody watches; a log or a refusal does not need it."""
        if sys.stderr.isatty() or is_notebook():
            self.say(text)

    def warn(self, text: str) -> None:
        """Print a note, unless quiet."""
        self.say(f"note: {text}")

    def alert(self, text: str) -> None:
        """Print a note that must not be missed, quiet or not."""
        self.error(f"note: {text}")

    def error(self, text: str) -> None:
        """Print a line, quiet or not."""
        with without_listeners():
            if self.view:
                self.view.say(one_line(text))
            else:
                sys.stderr.write(f"{one_line(text)}\n")
                sys.stderr.flush()

    def start(self, *, inputs: int, size: int, done: int = 0) -> None:
        """Begin to show progress towards this many more inputs; the first time, say their number and size."""
        self.stop()
        self._snapshot = Snapshot(done + inputs, done, recorded_before=self._snapshot.work.recorded)
        if not done and self._announces:
            self.say(f"{show_count(inputs, 'input')} ({show_bytes(size)}) to do")

    def update(self, work: "WorkCounts", status: str = "") -> None:
        """Show what is done so far; `status` says where, such as on which nodes."""
        self._wait_for_first(done=work.inputs > 0)
        self._snapshot = replace(self._snapshot, work=work, status=status)
        with without_listeners():
            self.view = self.view or self._opened()
            if self.view:
                self.view.show(self._snapshot)

    def _opened(self) -> View | None:
        """Return the view that fits; if quiet, only the one for programs remains."""
        if self._progress == "json":
            return JsonLines()
        if self.quiet:
            return None
        if is_notebook():
            return NotebookBar()
        return LiveLine(self._snapshot) if sys.stderr.isatty() else PlainLines(self.say, self._snapshot.began)

    def _wait_for_first(self, *, done: bool) -> None:
        """Print a line if the first inputs take long. This starts a thread, as the live line does."""
        if done and self._patience:
            self._patience.cancel()
        elif not done and not self._patience:
            text = f"still on the first inputs after {SECONDS_BETWEEN_LINES:g} s"
            self._patience = threading.Timer(SECONDS_BETWEEN_LINES, self.say, [text])
            self._patience.daemon = True
            self._patience.start()

    def stop(self) -> None:
        """End the live display."""
        if self._patience:
            self._patience.cancel()
            if self._patience.is_alive():
                # a signal may have come before it was started
                self._patience.join()
            self._patience = None
        if self.view:
            with without_listeners():
                self.view.stop()
            self.view = None

    def summary(self, summary: "Summary", *, next_step: bool = True) -> None:
        """Print the lines at the end; without `next_step`, leave out the last one, which names it."""
        self.stop()
        if self._progress == "json":
            write_event("end", summary.fields())
        for line in summary.traceback.splitlines():
            self.say(line)
        for line in summary_lines(summary)[: None if next_step else -1]:
            self.say(line)
        if self.quiet and (summary.stopped or summary.failed or summary.unreadable):
            self.error(f"splitter: {_trouble(summary)}")


def summary_lines(summary: "Summary") -> list[str]:
    """Return the lines at the end: what was done, where it is, what else is there, what to do next."""
    work = summary.work
    of_part = f" of {summary.part}" if summary.part else ""
    counts = [f"{summary.done:,} of {show_count(summary.inputs, 'input')}{of_part} done"]
    others = {
        "skipped": summary.skipped,
        "failed": summary.failed,
        "not tried yet": summary.left,
        "waiting to be redone after a change": summary.stale,
    }
    counts += [f"{number:,} {what}" for what, number in others.items() if number]
    if work.one_by_one:
        counts.append(f"{show_count(work.one_by_one, 'batch')} tried one by one")
    if summary.pruned:
        counts.append(f"the outputs of {show_count(summary.pruned, 'input')} removed")
    counts += _of_tally(summary.tally)
    outputs = f"{show_count(work.outputs, 'output')} ({show_bytes(work.bytes)})"
    how = "assembled" if summary.assembled else "made"
    none = f", none from {show_count(work.empty, 'input')}" if work.empty and work.outputs else ""
    made = f"{outputs} {how} in {show_seconds(summary.seconds)}{none}"
    label = "stopped" if summary.stopped else "next"
    return [
        f"{', '.join(counts)}; {made}",
        *_sound(summary),
        *_keep(summary),
        _where(summary),
        *_not_listed(summary),
        f"{label}: {_next_step(summary)}",
    ]


def _sound(summary: "Summary") -> list[str]:
    """Return the line that says how much of the recordings is in the outputs, if there is sound."""
    sound = summary.sound
    if sound is None:
        return []
    recorded, kept = show_hours(sound.recorded), show_hours(sound.seconds)
    without = ", failed inputs not counted" if summary.failed else ""
    return [f"sound: {recorded} recorded, {kept} in outputs ({sound.share_of_recordings} kept){without}"]


def _keep(summary: "Summary") -> list[str]:
    """Return the line that says how many outputs --keep keeps."""
    keep = summary.keep
    return [f"--keep: {keep.kept:,} of {show_count(keep.outputs, 'output')} kept"] if keep else []


def _not_listed(summary: "Summary") -> list[str]:
    """Return the line on outputs of inputs that are no longer in the list, or that a condition left out."""
    if not summary.gone:
        return []
    are = "is" if summary.gone == 1 else "are"
    which = f"{show_count(summary.gone, 'input')} that {are} no longer in the list"
    prune = "--prune, used once without --part," if summary.part else "--prune"
    return [
        f"kept: the outputs of {which} ({show_names(summary.gone_names, summary.gone)}); {prune} removes them"
    ]


def _of_tally(tally: "RowTally") -> list[str]:
    """Return the counts of rows that were left out or did not match."""
    found = [f"{show_count(tally.left_out, 'row')} left out by --where"] if tally.left_out else []
    if tally.unlabelled:
        found.append(f"{show_count(tally.unlabelled, 'input')} without labels")
    if tally.unused:
        found.append(f"{show_count(tally.unused, 'row')} of --labels without an input")
    return found


def _where(summary: "Summary") -> str:
    if summary.part:
        return f"manifest: not written until all {summary.part.of} parts are done"
    if not summary.has_manifest:
        return "manifest: not written until the run is continued"
    where = f"manifest: {summary.manifest}"
    if summary.stale:
        where += " (without inputs waiting to be redone)"
    if summary.failed:
        where += f"   errors: {_errors(summary)}"
    return where


def _trouble(summary: "Summary") -> str:
    """Return what is wrong, and where to look."""
    if summary.stopped or summary.part or not summary.failed:
        return _next_step(summary)
    failed = f"{summary.failed:,} of {show_count(summary.inputs, 'input')} failed"
    return f"{failed}; see {_errors(summary)}"


def _errors(summary: "Summary") -> str:
    return f"{summary.manifest.removesuffix('manifest.csv')}errors.csv"


def _next_step(summary: "Summary") -> str:
    if summary.stopped:
        return summary.stopped
    if summary.unreadable:
        names = ", ".join(summary.unreadable_names)
        more = summary.unreadable - len(summary.unreadable_names)
        names += f" and {more:,} more" if more > 0 else ""
        which, keep = ("it", "keeps its") if summary.unreadable == 1 else ("they", "keep their")
        why = f" (first: {_example(summary.unreadable_why)})" if summary.unreadable_why else ""
        step = f"make {names} readable{why} and run again"
        return f"{step}: {which} could not be read and {keep} earlier outputs"
    if summary.failed and not summary.part:
        why = first_failure(summary)
        return f"see errors.csv{why}, fix the cause, and run again with --retry-failed"
    if summary.left or summary.stale:
        return f"run again {'without --limit for the rest' if summary.limited else 'to continue'}"
    return _after_the_end(summary)


def _after_the_end(summary: "Summary") -> str:
    if summary.part:
        command = f"splitter manifest {as_typed(summary.output)}"
        why = f", which lists failures in errors.csv{first_failure(summary)}" if summary.failed else ""
        return f"when all {summary.part.of} parts are done: {command}{why}"
    if not summary.inputs:
        none_kept = "change --keep of the earlier run, or use --all-rows to take all its outputs"
        return none_kept if summary.tally.not_kept else "check DATASET: it lists no inputs"
    return f"splitter report {as_typed(summary.output)}"


def as_typed(output: str) -> str:
    """Return the output folder as a user would type it: relative if it is below the current folder."""
    if is_url(output):
        return shlex.quote(output)
    below = os.path.relpath(output)
    return shlex.quote(output if below.startswith(("..", "-")) else below)


def first_failure(summary: "Summary") -> str:
    """Return the first input that failed and why, in parentheses; nothing if there is none."""
    first = show_failure(*summary.first_failure) if summary.first_failure else ""
    return f" (first: {_example(first)})" if first else ""


def _example(text: str) -> str:
    return shortened(" ".join(text.split()), LONGEST_EXAMPLE)
