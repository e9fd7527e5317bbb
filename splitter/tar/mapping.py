"""`map`: run the user's program on each sample, in a separate folder."""

import contextlib
import errno
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from splitter.archives.members import Member, member_of_file, split_name
from splitter.archives.reader import read_members
from splitter.archives.sources import STANDARD, ArchiveSource, is_url
from splitter.errors import BadResult, CommandFailed, InputError, Refused, RunStopped, TarError, TimedOut
from splitter.system.programs import complaint, dying_with
from splitter.system.reaper import reaper_beside
from splitter.system.temporary_folders import temporary_folder
from splitter.tar.samples import SampleWriter, TarSample, read_samples, samples_of
from splitter.tar.targets import exists, remove, writing
from splitter.text.csv import CsvText, parse_rows

STEM = "sample"
ERRORS = ".errors.csv"
ERROR_COLUMNS = ("key", "archive", "error", "message")
AHEAD = 2  # samples that wait for each worker
_NO_SUCH_NAME = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)


@dataclass(frozen=True)
class SampleFailure:
    """A sample that failed."""

    key: str
    location: str
    error: InputError


Outcome = list[TarSample] | SampleFailure


@dataclass
class Program:
    """A program to run on samples.

    Attributes:
        arguments: The program and its arguments.
        workers: How many run at a time.
        seconds: Time limit for each; None for no limit.
    """

    arguments: Sequence[str]
    workers: int = 1
    seconds: float | None = None
    _folder: str = field(default="", init=False)
    _mark: dict[str, str] = field(default_factory=dict, init=False)
    _running: set[int] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _stopped: bool = field(default=False, init=False)

    def check(self) -> None:
        """Refuse a program that does not exist."""
        if shutil.which(self.arguments[0]) is None:
            raise Refused(f"{self.arguments[0]}: there is no such program")

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Let programs run inside the block; then clean up after them, even if this process is killed."""
        with (
            temporary_folder() as self._folder,
            reaper_beside(self._folder, all_started=True) as self._mark,
        ):
            yield

    def outcomes(self, samples: Iterable[TarSample]) -> Generator[Outcome, None, None]:
        """Yield the result of each sample, in order."""
        pool = ThreadPoolExecutor(self.workers)
        waiting: deque[Future[Outcome]] = deque()
        self._stopped = False
        try:
            for sample in samples:
                waiting.append(pool.submit(self.run, sample))
                if len(waiting) > AHEAD * self.workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            self._stop()
            pool.shutdown(cancel_futures=True)

    def run(self, sample: TarSample) -> Outcome:
        """Run the program on one sample."""
        folder = tempfile.mkdtemp(dir=self._folder)
        try:
            _lay_out(sample, folder)
            self._call(sample, folder)
            return _collected(sample, folder)
        except InputError as error:
            return SampleFailure(sample.key, sample.location, error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _call(self, sample: TarSample, folder: str) -> None:
        # a file, not a pipe, which a background process could hold open forever
        with tempfile.TemporaryFile(dir=self._folder) as printed:
            with self._lock:
                if self._stopped:
                    raise CommandFailed("was not started")
                process = subprocess.Popen(  # noqa: S603 - an argument list
                    self.arguments,
                    cwd=folder,
                    env={
                        **os.environ,
                        **self._mark,
                        "SPLITTER_KEY": sample.key,
                        "SPLITTER_ARCHIVE": sample.location,
                    },
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=dying_with(os.getpid()),  # noqa: PLW1509 - it takes no lock
                )
                self._running.add(process.pid)
            late = self._is_late(process)
            self._end(process)
            if late:
                raise TimedOut(f"no result within {self.seconds:g} seconds")
            if process.returncode:
                # on one line, with paths relative to the folder of the sample
                names = {os.fsencode(folder) + b"/": b"", os.fsencode(folder): b"."}
                said = complaint(process.returncode, printed, names)
                raise CommandFailed(" ".join(said.split()))

    def _is_late(self, process: "subprocess.Popen[bytes]") -> bool:
        """Wait until a program has ended; kill it if it takes too long, and return whether it did."""
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(process.pid)

        timer = threading.Timer(self.seconds or 0, end)
        if self.seconds is not None:
            timer.start()
        try:
            if hasattr(os, "waitid"):
                # WNOWAIT keeps the number of the process in use, so that no other group can be killed
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:
                process.wait()
        finally:
            timer.cancel()
        return late.is_set()

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill the processes that a program left in the background."""
        with self._lock:
            _kill(process.pid)
            self._running.discard(process.pid)
        process.wait()

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _lay_out(sample: TarSample, folder: str) -> None:
    """Write each member as `sample.FIELD`."""
    for member in sample.members:
        name = STEM + member.name[len(sample.key) :]
        try:
            with open(f"{folder}/{name}", "xb") as file:
                file.writelines(member.pieces())
        except FileExistsError:
            raise BadResult(f"{name!r} is the same file as another of its fields here") from None
        except OSError as error:
            if error.errno not in _NO_SUCH_NAME:
                raise
            raise BadResult(f"{name[:50]!r} cannot be the name of a file: {error.strerror}") from None


def _collected(sample: TarSample, folder: str) -> list[TarSample]:
    """Return the files that the program left: `sample.*` is the sample, other names are more samples."""
    found: dict[str, list[Member]] = {}
    for name in sorted(os.listdir(folder)):
        if not stat.S_ISREG(os.lstat(f"{folder}/{name}").st_mode):
            raise BadResult(f"the program left {name!r}, which is not a plain file")
        stem, kind = split_name(name)
        if stem != STEM and (not kind or name.startswith(".")):
            raise BadResult(f"the program left {name!r}; expected NAME.FIELD")
        key = sample.key if stem == STEM else f"{sample.key}-{stem}"
        found.setdefault(stem, []).append(member_of_file(f"{folder}/{name}", key + name[len(stem) :]))
    stems = sorted(found, key=lambda stem: (stem != STEM, stem))
    return [replace(sample, key=found[stem][0].key, members=tuple(found[stem])) for stem in stems]


# -- archives ---------------------------------------------------------------------------------------------


@dataclass
class Counts:
    """Numbers of samples that were done, made and failed, and of archives that were skipped or damaged."""

    done: int = 0
    made: int = 0
    failed: int = 0
    skipped: int = 0
    damaged: int = 0


@dataclass(frozen=True)
class Mapping:
    """A whole `map` job.

    Attributes:
        program: The program to run on each sample.
        report: Receives a line for each damaged archive.
        complain: Receives a line for each failed sample.
        max_failures: How many samples may fail.
        retry_failed: Redo archives with failures.
        fresh: Redo all archives.
        number_same: Whether a sample whose key is taken gets a number instead of an error.
    """

    program: Program
    report: Callable[[str], None]
    complain: Callable[[str], None]
    max_failures: int | None = None
    retry_failed: bool = False
    fresh: bool = False
    number_same: bool = False

    def into_one(self, sources: Sequence[ArchiveSource], target: str, counts: Counts) -> None:
        """Process the samples of all archives into one."""
        with self.program.ready():
            self._write(samples_of(sources), target, counts)

    def one_by_one(self, pairs: Sequence[tuple[ArchiveSource, str]], counts: Counts) -> None:
        """Process each archive into a separate one; skip those whose output exists and is whole."""
        with self.program.ready():
            for source, target in pairs:
                self._one(source, target, counts)

    def _one(self, source: ArchiveSource, target: str, counts: Counts) -> None:
        if not self.fresh and self._is_done(target):
            counts.skipped += 1
            counts.failed += failures_of(target)
            return
        try:
            self._write(read_samples(source), target, counts)
        except TarError as error:
            counts.damaged += 1
            self.report(str(error))

    def _is_done(self, target: str) -> bool:
        if not exists(target) or (self.retry_failed and exists(target + ERRORS)):
            return False
        # an object appears whole or not at all
        return is_url(target) or is_whole(target)

    def _write(self, samples: Iterable[TarSample], target: str, counts: Counts) -> None:
        failures: list[SampleFailure] = []
        with writing(target) as file:
            name = "standard output" if target == STANDARD else target
            writer = SampleWriter(file, name, number_same=self.number_same)
            outcomes = self.program.outcomes(samples)
            with contextlib.closing(outcomes):
                for outcome in outcomes:
                    if isinstance(outcome, SampleFailure):
                        failures.append(outcome)
                        self._fail(outcome, counts)
                        continue
                    counts.done += 1
                    counts.made += len(outcome)
                    for sample in outcome:
                        writer.add(sample)
            writer.finish()
            if target != STANDARD:
                _write_errors(target + ERRORS, failures)

    def _fail(self, failure: SampleFailure, counts: Counts) -> None:
        counts.failed += 1
        self.complain(f"{failure.location}: sample {failure.key!r}: {failure.error}")
        self.check_failures(counts)

    def check_failures(self, counts: Counts) -> None:
        """Stop after too many failures."""
        if self.max_failures is not None and counts.failed > self.max_failures:
            raise RunStopped(f"more than {self.max_failures} samples failed; stopped (--max-failures)")


def is_whole(location: str) -> bool:
    """Return whether an archive can be read to its end."""
    source = ArchiveSource(location)
    try:
        with source.open() as stream:
            for _ in read_members(stream, location, contents=False):
                pass
    except TarError:
        return False
    return True


def _write_errors(location: str, failures: Sequence[SampleFailure]) -> None:
    if not failures:
        remove(location)
        return
    rows = ((one.key, one.location, type(one.error).__name__, str(one.error)) for one in failures)
    with writing(location) as file:
        file.write(CsvText().encode([ERROR_COLUMNS, *rows]))


def failures_of(target: str) -> int:
    """Return how many samples an archive lacks, according to its errors file."""
    if not exists(target + ERRORS):
        return 0
    with ArchiveSource(target + ERRORS).open() as stream:
        return len(parse_rows(stream.read())) - 1


def pairs_of(sources: Sequence[ArchiveSource], pattern: str) -> list[tuple[ArchiveSource, str]]:
    """Pair each archive with its output: `{}` stands for the text that its braces or `*` matched."""
    pairs = [(source, pattern.replace("{}", source.varying)) for source in sources]
    taken: dict[str, ArchiveSource] = {}
    read = {os.path.realpath(source.location) for source in sources if not is_url(source.location)}
    for source, target in pairs:
        if not source.varying:
            raise Refused(f"{source.location}: has no braces or * to replace {{}} in -o {pattern}")
        if target in taken:
            raise Refused(f"{target}: would be made from both {taken[target].location} and {source.location}")
        if not is_url(target) and os.path.realpath(target) in read:
            raise Refused(f"{target}: is also one of the inputs; choose another -o")
        taken[target] = source
    return pairs
