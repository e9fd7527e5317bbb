"""What a pipeline prints: a line for each stage while they are at work, then the result of each."""

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from splitter.engine.display import Display, summary_lines
from splitter.engine.progress import SECONDS_BETWEEN_LINES, LiveLine, Snapshot, write_event
from splitter.ledger.run_files import SAME_PIPELINE_RUN, SAME_RUN
from splitter.text.show import one_line, show_bytes
from splitter.worker.messages import WorkCounts

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from rich.table import Table

    from splitter.engine.summary import Summary

_SECONDS_BETWEEN_EVENTS = 0.5


class StageDisplay(Display):
    """The display in the driver of a stage: passes everything on to the process that shows all stages."""

    def __init__(self, connection: "Connection") -> None:
        super().__init__()
        self._connection, self._told = connection, 0.0
        self._inputs, self._work = 0, WorkCounts()

    def send(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - what can be pickled
        """Send an event. Ignore a closed connection: this process is then about to be ended."""
        with contextlib.suppress(OSError):
            self._connection.send({"event": event, **fields})

    def say(self, text: str) -> None:
        """Pass on a line, without a leading `--prune`: a stage removes unlisted outputs by itself."""
        self.error(text.removeprefix("--prune: "))

    def error(self, text: str) -> None:
        self.send("line", text=one_line(text))

    def say_meanwhile(self, text: str) -> None:
        """Say nothing: the line of the stage shows that it is at work."""

    def start(self, *, inputs: int, size: int, done: int = 0) -> None:  # noqa: ARG002 - as the base
        """Show how many inputs there are so far."""
        self._inputs = inputs + done
        self.send("progress", inputs=self._inputs, work=self._work, status="")

    def update(self, work: WorkCounts, status: str = "") -> None:
        self._work, now = work, time.monotonic()
        if now - self._told >= _SECONDS_BETWEEN_EVENTS or work.inputs >= self._inputs:
            self._told = now
            self.send("progress", inputs=self._inputs, work=work, status=status)


@dataclass
class StageLine:
    """The state of a stage while the pipeline runs."""

    name: str
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(0, 0))
    word: str = "starting"
    queued: int = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event from its driver."""
        if event["event"] == "waits":
            self.word = f"waits for {event['stage']}"
        elif event["event"] == "progress":
            if not self.snapshot.inputs:
                self.snapshot = Snapshot(0, 0)
            self.word = "at work"
            self.snapshot = replace(
                self.snapshot, inputs=event["inputs"], work=event["work"], status=event["status"]
            )
        elif event["event"] == "end":
            self.word = event["word"]

    @property
    def is_at_work(self) -> bool:
        """Whether it has something to show."""
        return self.word == "at work"

    def parts(self) -> list[str]:
        """Return the parts of the line, the most important one first."""
        if not self.is_at_work:
            return [self.word]
        work = self.snapshot.work
        counts = f"{work.inputs:,} of {self.snapshot.inputs:,}"
        waiting = [f"{show_bytes(self.queued)} waiting"] if self.queued else []
        return [counts, *(one for one in self.snapshot.parts() if not one.endswith(" left")), *waiting]


class PipelineDisplay(Display):
    """The display of all stages: live on a terminal, otherwise a line now and then."""

    def __init__(self, names: Sequence[str], *, quiet: bool = False, progress: str = "auto") -> None:
        super().__init__(quiet=quiet)
        self.lines = {name: StageLine(name) for name in names}
        self._json = progress == "json"
        self._shown = time.monotonic()

    def begin(self) -> None:
        """Begin the live view; all processes have been forked, so it may start a thread."""
        if sys.stderr.isatty() and not (self.quiet or self._json):
            self.view = LiveLine(Snapshot(0, 0), self._table)

    def _table(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for line in self.lines.values():
            text = Text(no_wrap=True, overflow="ellipsis")
            for part in line.parts():
                text.append("  " if text else "").append(part, "red" if part.endswith(" failed") else "")
            table.add_row(line.name, text)
        return table

    def take(self, name: str, event: Mapping[str, Any]) -> None:
        """Take an event of a stage."""
        if event["event"] == "line":
            self.say(event["text"], name)
        else:
            self.lines[name].take(event)
            if self._json:
                line = self.lines[name]
                write_event("progress", {"stage": name, "state": line.word, **line.snapshot.fields()})

    def show(self, queued: Mapping[str, int]) -> None:
        """Show how far the stages are, and how many bytes wait for each."""
        for name, size in queued.items():
            self.lines[name].queued = size
        now = time.monotonic()
        if self.view is None and not self._json and now - self._shown >= SECONDS_BETWEEN_LINES:
            self._shown = now
            for line in self.lines.values():
                if line.is_at_work:
                    self.say(", ".join(line.parts()), line.name)

    def say(self, text: str, name: str = "", *, loud: bool = False) -> None:
        """Print a line, after the name of its stage."""
        if self.quiet and not (loud or text.startswith("note: ")):
            return
        self.error((f"{name}: {text}" if name else text).replace(SAME_RUN, SAME_PIPELINE_RUN))

    def end(self, name: str, summary: "Summary") -> None:
        """Write the result of a stage for other programs, with `--progress json`."""
        if self._json:
            write_event("end", {"stage": name, **summary.fields()})


def lines_of(summary: "Summary") -> list[str]:
    """Return the result of a stage: what its own run would print, without the manifest and the next step."""
    first, *others = summary_lines(summary)
    return [first, *(line for line in others[:-1] if not line.startswith("manifest: "))]
