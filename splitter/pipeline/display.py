"""What a pipeline prints: a line for each stage while they are at work, then what each has come to."""

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
    """In the driver of a stage: hands everything on to the process that shows all stages."""

    def __init__(self, connection: "Connection") -> None:
        super().__init__()
        self._connection, self._told = connection, 0.0
        self._inputs, self._work = 0, WorkCounts()

    def send(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - what can be pickled
        """Send an event. If nobody is there to read it, this process is about to be ended."""
        with contextlib.suppress(OSError):
            self._connection.send({"event": event, **fields})

    def say(self, text: str) -> None:
        """Hand on a line; what no list names goes without --prune."""
        self.error(text.removeprefix("--prune: "))

    def error(self, text: str) -> None:
        self.send("line", text=one_line(text))

    def say_meanwhile(self, text: str) -> None:
        """Say nothing: the line of the stage shows that it is there."""

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
    """What is known of a stage while the pipeline runs."""

    name: str
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(0, 0))
    word: str = "starting"
    queued: int = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Take what its driver says."""
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
        """Return what there is to say; what matters most is first."""
        if not self.is_at_work:
            return [self.word]
        work = self.snapshot.work
        counts = f"{work.inputs:,} of {self.snapshot.inputs:,}"
        waiting = [f"{show_bytes(self.queued)} waiting"] if self.queued else []
        return [counts, *(one for one in self.snapshot.parts() if not one.endswith(" left")), *waiting]


class PipelineDisplay(Display):
    """Shows all stages: live on a terminal, elsewhere a line now and then."""

    def __init__(self, names: Sequence[str], *, quiet: bool = False, progress: str = "auto") -> None:
        super().__init__(quiet=quiet)
        self.lines = {name: StageLine(name) for name in names}
        self._json = progress == "json"
        self._shown = time.monotonic()

    def begin(self) -> None:
        """Begin to show; all processes are started, so threads may be."""
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
        """Show how far the stages are."""
        for name, size in queued.items():
            self.lines[name].queued = size
        now = time.monotonic()
        if self.view is None and not self._json and now - self._shown >= SECONDS_BETWEEN_LINES:
            self._shown = now
            for line in self.lines.values():
                if line.is_at_work:
                    self.say(", ".join(line.parts()), line.name)

    def say(self, text: str, name: str = "", *, loud: bool = False) -> None:
        """Print a line, marked by the stage that it is of."""
        if self.quiet and not (loud or text.startswith("note: ")):
            return
        self.error((f"{name}: {text}" if name else text).replace(SAME_RUN, SAME_PIPELINE_RUN))

    def end(self, name: str, summary: "Summary") -> None:
        """Tell other programs what a stage has come to."""
        if self._json:
            write_event("end", {"stage": name, **summary.fields()})


def lines_of(summary: "Summary") -> list[str]:
    """Return what a stage has come to: what its own run would print, but for the next step."""
    first, *others = summary_lines(summary)
    return [first, *(line for line in others[:-1] if not line.startswith("manifest: "))]
