"""The progress of a run, read from what the run writes: what counts are the commit records."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from splitter.errors import Refused, SplitterError, StorageError
from splitter.ledger.journal import MERGED, Journal
from splitter.ledger.list_copy import stored_list
from splitter.ledger.manifest import MANIFEST
from splitter.ledger.records import DONE, FAILED, NOT_DONE, SKIPPED
from splitter.ledger.run_files import LIST, LISTED
from splitter.ledger.status import InputStatus
from splitter.ledger.worker_notes import ask_for_notes, ask_no_more, worker_notes
from splitter.outputs.files import files_at
from splitter.outputs.stats import SoundColumns
from splitter.outputs.tables import folder_of
from splitter.report.summary import RunFacts
from splitter.storage.layout import RECORDS
from splitter.storage.opening import storage_of
from splitter.text.show import SECONDS_IN_HOUR
from splitter.text.urls import is_url, without_secrets

MOST_FAILURES, LONGEST_MESSAGE = 100, 1000
FEWEST_BINS, MOST_BINS = 8, 60
SECONDS_BETWEEN_LOOKS, SECONDS_IN_STORE = 0.8, 5.0


@dataclass
class _Course:
    """When batches were committed, since the run began; in a store, since watching began.

    Attributes:
        began: That time, as seconds since 1970.
        steps: For each batch since then: its time, its number of inputs, and their seconds of sound.
    """

    began: float
    steps: list[tuple[float, int, float]] = field(default_factory=list)

    def rate(self, until: float) -> dict[str, Any]:
        """Return the rate of progress, in bins of equal length and overall."""
        steps = np.array([(self.began, 0, 0.0), *sorted(self.steps)], "f8").T
        has_sound = bool(steps[2].any())
        total = np.cumsum(steps[2] / SECONDS_IN_HOUR if has_sound else steps[1])
        until = max(until, self.began + 1)
        bins = min(MOST_BINS, max(FEWEST_BINS, len(self.steps) // 4))
        edges = np.linspace(self.began, until, bins + 1)
        per = SECONDS_IN_HOUR if has_sound else 1
        values = np.diff(np.interp(edges, steps[0], total)) / np.diff(edges) * per
        return {
            "unit": "h of sound/h" if has_sound else "inputs/s",
            "times": [round(one, 1) for one in (edges[1:] - self.began).tolist()],
            "values": [float(f"{one:.3g}") for one in values.tolist()],
            "mean": float(total[-1]) / (until - self.began) * per,
            "inputs": int(steps[1].sum()),
        }


class RunWatch:
    """The progress of a run in an output folder.

    Each look reads only new records. All that it writes is a mark that asks the workers for notes.
    """

    def __init__(self, output: str) -> None:
        """Refuse a folder where no run has started."""
        self._folder = folder_of(output)
        self._next_look = 0.0
        self._seen: dict[str, Any] = {}
        self._start_over()
        if not self._storage.is_output():
            raise Refused(f"{self._storage.root}: no run has started there yet; run 'splitter run' first")

    @property
    def title(self) -> str:
        """The name of the folder."""
        return os.path.basename(without_secrets(self._storage.root).rstrip("/"))

    def look(self) -> dict[str, Any]:
        """Return the state of the run for the page; it may be a few seconds old."""
        now = time.monotonic()
        if now >= self._next_look:
            try:
                self._seen = self._look()
            except SplitterError as error:
                # a file may disappear during a look, such as at the end of a run
                self._start_over()
                self._seen = {**self._seen, "trouble": str(error)}
            took = time.monotonic() - now
            self._next_look = now + max(self._pause, 5 * took)
        return self._seen

    def close(self) -> None:
        """Tell the workers that nobody is watching any more."""
        with contextlib.suppress(StorageError, OSError):
            ask_no_more(self._storage)

    def _start_over(self) -> None:
        self._storage = storage_of(self._folder, None)
        self._pause = SECONDS_IN_STORE if is_url(self._storage.root) else SECONDS_BETWEEN_LOOKS
        self._journal = Journal(self._storage)
        self._listed, self._list_time, self._column = b"", 0.0, ""
        self._keys: np.ndarray | None = None
        # by key, the newest last
        self._failures: dict[int, dict[str, Any]] = {}
        self._course: _Course | None = None

    def _look(self) -> dict[str, Any]:
        who, _ = self._storage.users()
        self._read_list()
        self._read_records()
        has_manifest = not who and self._storage.exists(MANIFEST)
        facts = RunFacts.of(files_at(self._storage.root))
        return {
            "who": who,
            "has_report": has_manifest,
            "recipe": facts.recipe,
            "parameters": facts.parameters,
            "sink": facts.how.get("sink", ""),
            **self._counts(is_running=bool(who)),
            "failures": [*self._still_failed()],
            "workers": self._workers() if who else [],
            "trouble": "",
        }

    def _read_list(self) -> None:
        """Read the list of the run, if it has changed."""
        if not self._storage.exists(LISTED.name):
            return
        listed, written = self._storage.read(LISTED.name), _time_of(self._storage.path(LIST.name))
        if (listed, written) == (self._listed, self._list_time):
            return
        if self._listed:
            self._start_over()
        self._listed, self._list_time = listed, written
        _, self._column, self._keys = stored_list(self._storage)

    def _read_records(self) -> None:
        """Read the commit records that are new since the last look."""
        is_first = self._course is None
        if self._course is None:
            self._course = _Course(self._list_time or time.time())
        journal, course = self._journal, self._course
        for name, entries in journal.by_record(journal.load_new()):
            written = _time_of(self._storage.path(f"{RECORDS}/{name}"))
            # the time is unknown for merged records and, in a store, for those before the first look
            when = 0.0 if name.endswith(MERGED) or (is_first and not written) else written or time.time()
            tried = entries[journal.status(entries) != NOT_DONE]
            self._note_failures(tried, when)
            if when >= course.began:
                course.steps.append((when, len(tried), self._recorded(tried)))

    def _recorded(self, entries: np.ndarray) -> float:
        """Return the seconds of sound in the recordings of some inputs."""
        journal, total = self._journal, 0.0
        sounds = [SoundColumns(head.names) for head in journal.heads]
        if any(sound.has_recordings for sound in sounds):
            done = entries[journal.status(entries) == DONE]
            heads = journal.entries["head"][done].tolist()
            for number, (_, rows) in zip(heads, journal.rows_of_each(done), strict=True):
                total += sounds[number].recorded_of(rows[0]) if rows else 0.0
        return total

    def _note_failures(self, entries: np.ndarray, when: float) -> None:
        journal = self._journal
        failed = entries[journal.status(entries) == FAILED][-MOST_FAILURES:]
        keys = journal.entries["key"][failed].tolist()
        for key, (head, rows) in zip(keys, journal.rows_of_each(failed), strict=True):
            if not rows or (key in self._failures and not when):
                continue
            self._failures.pop(key, None)
            error, message = rows[0][len(head.columns) :][:2]
            listed = dict(zip(head.columns, rows[0], strict=False)).get(self._column, "?")
            self._failures[key] = {
                "input": listed,
                "error": error,
                "message": message[:LONGEST_MESSAGE],
                "when": round(when, 1),
            }
        for key in [*self._failures][:-MOST_FAILURES]:
            del self._failures[key]

    def _still_failed(self) -> Iterator[dict[str, Any]]:
        """Yield the failures, newest first, except for inputs that were retried and done since."""
        keys = np.array([*self._failures], "u8")
        status = self._journal.status(self._journal.find(keys)).tolist()
        for failure, now in sorted(
            zip(self._failures.values(), status, strict=True), key=lambda one: -one[0]["when"]
        ):
            if now == FAILED:
                yield failure

    def _counts(self, *, is_running: bool) -> dict[str, Any]:
        """Return how much is done, and at what rate."""
        course, journal = self._course, self._journal
        if course is None or self._keys is None:
            return {}
        found = InputStatus.of(self._storage, journal, self._keys)
        made = found.entries_with(DONE)
        done, skipped, failed = (int((found.status == kind).sum()) for kind in (DONE, SKIPPED, FAILED))
        left = len(self._keys) - done - skipped - failed
        until = time.time() if is_running else max([course.began, *(when for when, *_ in course.steps)])
        rate = course.rate(until)
        fresh = rate["inputs"]
        seconds = max(1.0, until - course.began)
        return {
            "inputs": len(self._keys),
            "done": done,
            "skipped": skipped,
            "failed": failed,
            "left": left,
            "outputs": int(journal.entries["outputs"][made].sum()),
            "bytes": int(journal.entries["bytes"][made].sum()),
            "seconds": round(seconds, 1),
            "seconds_left": round(left * seconds / fresh, 1) if fresh and is_running else None,
            "rate": rate,
        }

    def _workers(self) -> list[dict[str, Any]]:
        """Return what each worker is doing, according to its notes, which the first call asks for."""
        with contextlib.suppress(StorageError, OSError):
            ask_for_notes(self._storage)
        now = time.time()
        notes = sorted(worker_notes(self._storage), key=lambda note: (note.host, note.process))
        return [{**asdict(note), "ago": round(max(0.0, now - note.noted), 1)} for note in notes]


def _time_of(path: str) -> float:
    """Return when a file was written, as seconds since 1970; 0 if that is unknown, as in a store."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
