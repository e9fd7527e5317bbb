"""How far a run has got, and ways to show it: a live line, a notebook's bar, plain lines, JSON."""

import contextlib
import html
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from splitter.text.show import show_bytes, show_clock, show_count, show_seconds
from splitter.worker.messages import WorkCounts

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_OBJECTS = 1.0
# more would not get through a slow connection
_PER_SECOND = 2
_LEAST_BAR, _MOST_BAR = 6, 40


@dataclass(frozen=True)
class Snapshot:
    """The progress of a run at one moment.

    Attributes:
        inputs: How many inputs there are to do, including those done before a worker was lost.
        before: How many were done before the current round.
        recorded_before: The seconds of sound that were done before the current round.
        work: What is done so far.
        status: Where the work is done, such as the nodes of a cluster.
        began: When the current round began, by the monotonic clock.
    """

    inputs: int
    before: int
    work: WorkCounts = field(default_factory=WorkCounts)
    status: str = ""
    recorded_before: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The time that the current round has taken so far."""
        return max(1e-3, time.monotonic() - self.began)

    @property
    def seconds_left(self) -> float | None:
        """The time that the rest will take; None until an input of the round is done."""
        fresh = self.work.inputs - self.before
        return max(0, self.inputs - self.work.inputs) * self.seconds / fresh if fresh > 0 else None

    def rate(self) -> str:
        """Return the speed, in hours of sound if there is sound, else in inputs."""
        if self.work.recorded:
            # seconds per second are also hours per hour
            fresh = self.work.recorded - self.recorded_before
            return f"{_rounded(fresh / self.seconds)} h of sound/h"
        return f"{_rounded((self.work.inputs - self.before) / self.seconds)} inputs/s"

    def parts(self) -> list[str]:
        """Return the parts of a line, except the count of inputs, the most important first."""
        work, left = self.work, self.seconds_left
        return [
            *([f"{work.failed:,} failed"] if work.failed else []),
            *([f"{show_clock(left)} left"] if left is not None else []),
            self.rate(),
            f"{show_count(work.outputs, 'output')}, {show_bytes(work.bytes)}",
            *([self.status] if self.status else []),
        ]

    def line(self) -> str:
        """Return everything in one line."""
        work, left = self.work, self.seconds_left
        return ", ".join(
            [
                f"{work.inputs:,} of {show_count(self.inputs, 'input')}",
                *([f"{work.failed:,} failed"] if work.failed else []),
                f"{show_count(work.outputs, 'output')}, {show_bytes(work.bytes)}",
                self.rate() + (f" on {self.status}" if self.status else ""),
                *([f"{show_seconds(left)} left"] if left is not None else []),
            ]
        )

    def fields(self) -> dict[str, Any]:
        """Return the numbers, for other programs."""
        names = ("done", "skipped", "failed", "outputs", "bytes")
        left = self.seconds_left
        return {
            "inputs": self.inputs,
            "tried": self.work.inputs,
            **{name: getattr(self.work, name) for name in names},
            "sound_seconds": round(self.work.recorded, 3),
            "seconds": round(self.seconds, 3),
            "seconds_left": None if left is None else round(left, 3),
            "status": self.status,
        }


def _rounded(rate: float) -> str:
    """Return a rate with at least two significant digits, but no useless ones."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"  # noqa: PLR2004


class View(ABC):
    """A way to show how far a run is."""

    @abstractmethod
    def show(self, snapshot: Snapshot) -> None:
        """Show the snapshot, or skip it if it comes too soon after the last one."""

    def say(self, text: str) -> None:
        """Print a line without spoiling the view."""
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def stop(self) -> None:  # noqa: B027 - lines stay
        """Remove what the view updates on the screen."""


class PlainLines(View):
    """A line now and then, for when there is no terminal."""

    def __init__(self, say: Callable[[str], None], began: float) -> None:
        self._say, self._last = say, began

    def show(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self._say(snapshot.line())


class JsonLines(View):
    """JSON objects on the standard output stream, one per line, for other programs."""

    def __init__(self) -> None:
        self._last = 0.0

    def show(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_OBJECTS or snapshot.work.inputs >= snapshot.inputs:
            self._last = now
            write_event("progress", snapshot.fields())


def write_event(event: str, fields: dict[str, Any]) -> None:
    """Write an object of `--progress json`; the run continues even if nobody reads it any more."""
    try:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()
    except OSError as error:
        with without_listeners():
            sys.stderr.write(
                f"note: --progress json: the standard output stream: {error.strerror}; the run continues\n"
            )
        _discard(sys.stdout)


@contextlib.contextmanager
def without_listeners() -> Iterator[None]:
    """Continue if the standard error stream cannot be written, as when a program that reads it has ended."""
    try:
        yield
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Discard all further output, including what is still in the buffer."""
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())


class LiveLine(View):
    """A line with a bar on a terminal, or whatever `render` returns instead.

    It starts a thread, so create it only after the workers were started.
    """

    def __init__(self, snapshot: Snapshot, render: "Callable[[], RenderableType] | None" = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._snapshot = snapshot
        self._live = Live(
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=_PER_SECOND,
            get_renderable=render or (lambda: self),
        )
        try:
            self._live.start()
        except BaseException:
            # a signal may come when the cursor is already hidden
            self._live.stop()
            raise

    def show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        self._live.stop()

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Fit the line into the width: the bar shrinks first, then the least important parts are left out."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        snapshot = self._snapshot
        text = Text(f"{snapshot.work.inputs:,}/{snapshot.inputs:,}")
        for part in snapshot.parts():
            if text.cell_len + len(part) + 3 + _LEAST_BAR > options.max_width:
                break
            text.append("  ")
            text.append(part, style="red" if part.endswith(" failed") else "")
        bar = min(_MOST_BAR, options.max_width - text.cell_len - 1)
        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(snapshot.inputs, snapshot.work.inputs, width=max(1, bar)), text)
        yield line


class NotebookBar(View):
    """A bar below the cell of a notebook, updated as the run proceeds."""

    def __init__(self) -> None:
        from IPython import display

        shown: Any = display
        self._html = shown.HTML
        self._handle = shown.display(shown.HTML(""), display_id=True)
        self._last = 0.0

    def show(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now - self._last < 1 / _PER_SECOND and snapshot.work.inputs < snapshot.inputs:
            return
        self._last = now
        done = f"{snapshot.work.inputs:,}/{snapshot.inputs:,}"
        text = html.escape(" · ".join([done, *snapshot.parts()]))
        bar = f'<progress max="{snapshot.inputs}" value="{snapshot.work.inputs}"></progress>'
        self._handle.update(self._html(f"{bar} {text}"))

    def stop(self) -> None:
        self._handle.update(self._html(""))


def is_notebook() -> bool:
    """Return whether this runs in a notebook, whose kernel has imported IPython."""
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None
