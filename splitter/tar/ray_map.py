"""`splitter tar map` on Ray: a task for each archive, done as on this machine, beside a Ray worker.

Which archives are done is seen from the answers. One whose worker is lost is done again.
"""

import contextlib
import os
import secrets
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from splitter.archives.sources import ArchiveSource, is_url
from splitter.errors import Interrupted, Refused, RunStopped, TarError
from splitter.executors.ray.guard_process import Errand
from splitter.system.reaper import VARIABLE
from splitter.system.signals import signals_raise
from splitter.tar.mapping import Counts, Mapping, Program
from splitter.tar.targets import is_being_written, remove, writing
from splitter.worker.messages import Report

MOST_LOSSES = 3
SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Archive:
    """One to be done.

    Attributes:
        keys: Its number, alone in a list.
        source: What to read.
        target: What to write.
    """

    keys: list[int]
    source: ArchiveSource
    target: str


@dataclass(frozen=True)
class Targets:
    """What is written, as the executor asks about it.

    Attributes:
        locations: The archives to write.
        root: The folder of the first of them, by its whole path; the others may be elsewhere.
        run: What this job is called; no other is called the same.
    """

    locations: Sequence[str]
    root: str
    run: str = field(default_factory=lambda: secrets.token_hex(8))

    def write(self, name: str, content: bytes, *, durable: bool) -> None:
        """Leave something there for the nodes to see."""
        del durable
        try:
            with writing(self._path(name)) as file:
                file.write(content)
        except TarError as error:
            raise Refused(str(error)) from None

    def read(self, name: str) -> bytes:
        """See what was left there."""
        try:
            with ArchiveSource(self._path(name)).open() as file:
                return file.read()
        except TarError as error:
            raise Refused(str(error)) from None

    def remove(self, names: Sequence[str]) -> None:
        """Take it away again."""
        for name in names:
            remove(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/.splitter-{self.run}-{os.path.basename(name)}"

    def wait_for_workers(self, seconds: float) -> None:
        """Wait, but no longer than that, until no worker that was lost still writes."""
        give_up = time.monotonic() + seconds
        while any(map(is_being_written, self.locations)) and time.monotonic() < give_up:
            time.sleep(SECONDS_BETWEEN_LOOKS)


@dataclass(frozen=True, kw_only=True)
class MapErrand(Errand):
    """A whole job, as each worker has it.

    Attributes:
        arguments: The program and its arguments.
        seconds: How long it may take for a sample.
        choices: The other attributes of the Mapping.
    """

    arguments: Sequence[str]
    seconds: float | None
    choices: dict[str, Any]

    def answer(self, batch: Any) -> Report:  # noqa: ANN401 - an Archive
        """Do an archive."""
        # what ends the programs of this process must not be ended with a private Ray before it has done so
        os.environ.pop(VARIABLE, None)
        lines: list[str] = []
        counts = Counts()
        stop = ""
        program = Program(self.arguments, seconds=self.seconds)
        job = Mapping(program, lines.append, lines.append, **self.choices)
        try:
            with signals_raise():
                job.program.check()
                job.one_by_one([(batch.source, batch.target)], counts)
        except Interrupted as interruption:
            sys.exit(interruption.exit_code)
        except RunStopped as error:
            stop = str(error)
        except (Refused, OSError) as error:
            # other nodes may have the program, or room on their disk
            stop = f"node {socket.gethostname()}: {error}"
        return Report(
            batch=str(batch.keys[0]),
            inputs=1,
            done=counts.done,
            outputs=counts.made,
            failed=counts.failed,
            skipped=counts.skipped,
            unreadable=batch.keys[: counts.damaged],
            notes=lines,
            stop=stop,
        )


def map_on_ray(
    job: Mapping,
    pairs: Sequence[tuple[ArchiveSource, str]],
    counts: Counts,
    workers: int | None,
    address: str | None,
) -> None:
    """Do each archive in a task of Ray's; what comes of it is what `job.one_by_one` makes of it."""
    # not for the workers, which need neither Ray nor what a run needs
    from splitter.executors.registry import Cluster, Limits, executor_class

    executor: Any = executor_class("ray")(Limits(workers), Cluster(address))
    errand = MapErrand(
        storage=Targets([target for _, target in pairs], _folder(pairs[0][1])),
        arguments=job.program.arguments,
        seconds=job.program.seconds,
        choices={
            "max_failures": job.max_failures,
            "retry_failed": job.retry_failed,
            "fresh": job.fresh,
            "number_same": job.number_same,
        },
    )
    left = {key: Archive([key], *pair) for key, pair in enumerate(pairs)}
    losses: Counter[int] = Counter()
    with contextlib.closing(executor):
        executor.check(errand, len(left))
        while left:
            before, lost = len(left), list[int]()
            with contextlib.closing(executor.run(errand, list(left.values()), before)) as reports:
                for report in reports:
                    lost += report.lost
                    _take(report, job, counts, left)
            # where nothing at all was done, nodes were lost
            losses.update(list(left) if len(left) == before else lost)
            for key, archive in left.items():
                if losses[key] >= MOST_LOSSES:
                    raise RunStopped(
                        f"{archive.source.location}: its worker was lost {MOST_LOSSES} times "
                        "(killed, or out of memory); what is done is kept"
                    )


def _folder(location: str) -> str:
    return os.path.dirname(location if is_url(location) else os.path.abspath(location))


def _take(report: Report, job: Mapping, counts: Counts, left: dict[int, Archive]) -> None:
    """Count what has become of an archive; stops where one machine alone would."""
    # what is wrong with an archive is said last
    failures = len(report.notes) - len(report.unreadable)
    for number, line in enumerate(report.notes):
        (job.complain if number < failures else job.report)(line)
    if report.stop:
        raise RunStopped(report.stop)
    if not report.inputs:
        return
    del left[int(report.batch)]
    damaged = len(report.unreadable)
    counts.done += report.done
    counts.made += report.outputs
    counts.failed += report.failed
    counts.skipped += report.skipped
    counts.damaged += damaged
    if report.failed and not report.skipped:
        job.check_failures(counts)
