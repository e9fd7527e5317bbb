"""`splitter tar map` on Ray: a task for each archive, with the code of one machine, next to a Ray worker.

The reports of tasks say which archives are done. An archive whose worker is lost is redone.
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
from splitter.worker.messages import Problems, Report, WorkCounts

MOST_LOSSES = 3
SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Archive:
    """An archive to process.

    Attributes:
        keys: A list with only its number.
        source: The archive to read.
        target: The archive to write.
    """

    keys: list[int]
    source: ArchiveSource
    target: str


@dataclass(frozen=True)
class Targets:
    """The outputs, as the storage that the executor expects.

    Attributes:
        locations: The archives to write.
        root: The absolute path of the folder of the first of them; the others may be elsewhere.
        run: The unique name of this job.
    """

    locations: Sequence[str]
    root: str
    run: str = field(default_factory=lambda: secrets.token_hex(8))

    def write(self, name: str, content: bytes, *, durable: bool) -> None:
        """Write a file for the nodes to read."""
        del durable
        try:
            with writing(self._path(name)) as file:
                file.write(content)
        except TarError as error:
            raise Refused(str(error)) from None

    def read(self, name: str) -> bytes:
        """Read such a file."""
        try:
            with ArchiveSource(self._path(name)).open() as file:
                return file.read()
        except TarError as error:
            raise Refused(str(error)) from None

    def remove(self, names: Sequence[str]) -> None:
        """Remove such files."""
        for name in names:
            remove(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/.splitter-{self.run}-{os.path.basename(name)}"

    def wait_for_workers(self, seconds: float) -> None:
        """Wait, but at most this long, until no lost worker is still writing."""
        give_up = time.monotonic() + seconds
        while any(map(is_being_written, self.locations)) and time.monotonic() < give_up:
            time.sleep(SECONDS_BETWEEN_LOOKS)


@dataclass(frozen=True, kw_only=True)
class MapErrand(Errand):
    """A whole job, as it is sent to each worker.

    Attributes:
        arguments: The program and its arguments.
        seconds: Time limit for a sample.
        choices: The other attributes of the Mapping.
    """

    arguments: Sequence[str]
    seconds: float | None
    choices: dict[str, Any]

    def answer(self, batch: Any) -> Report:  # noqa: ANN401 - an Archive
        """Process an archive."""
        # without this mark, the process that kills this one's programs outlives a private Ray
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
            # other nodes may have the program, or free disk space
            stop = f"node {socket.gethostname()}: {error}"
        return Report(
            str(batch.keys[0]),
            WorkCounts(1, counts.done, counts.skipped, counts.failed, counts.made),
            Problems(unreadable=batch.keys[: counts.damaged], stop=stop),
            notes=lines,
        )


def map_on_ray(
    job: Mapping,
    pairs: Sequence[tuple[ArchiveSource, str]],
    counts: Counts,
    workers: int | None,
    address: str | None,
) -> None:
    """Process each archive in a Ray task; the result is the same as that of `job.one_by_one`."""
    # imported here, because workers need neither Ray nor these modules
    from splitter.executors.base import Cluster, Executor, Limits
    from splitter.registry import EXECUTORS

    executor: Any = EXECUTORS.load("ray", Executor)(Limits(workers), Cluster(address))
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
    if executor.advice:
        sys.stderr.write(f"note: {executor.advice}\n")
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
            # if nothing at all was done, nodes were lost, and every archive counts as lost
            losses.update(list(left) if len(left) == before else lost)
            for key, archive in left.items():
                if losses[key] >= MOST_LOSSES:
                    raise RunStopped(
                        f"{archive.source.location}: its worker was lost {MOST_LOSSES} times "
                        "(killed, or out of memory); finished work is kept"
                    )


def _folder(location: str) -> str:
    return os.path.dirname(location if is_url(location) else os.path.abspath(location))


def _take(report: Report, job: Mapping, counts: Counts, left: dict[int, Archive]) -> None:
    """Count the result of an archive; stop where a map on one machine would."""
    found, damaged = report.counts, len(report.problems.unreadable)
    # report damaged archives last
    failures = len(report.notes) - damaged
    for number, line in enumerate(report.notes):
        (job.complain if number < failures else job.report)(line)
    if report.problems.stop:
        raise RunStopped(report.problems.stop)
    if not found.inputs:
        return
    del left[int(report.batch)]
    counts.done += found.done
    counts.made += found.outputs
    counts.failed += found.failed
    counts.skipped += found.skipped
    counts.damaged += damaged
    if found.failed and not found.skipped:
        job.check_failures(counts)
