"""The process that forks the runs of crashes.py: each line of its standard input is a request.

It is small, so a fork takes a hundredth of a second; a fork of the process of the tests takes ten times as
long when most of the tests are done.
"""

import builtins
import io
import json
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

# imported once here, not by each run
from power_cuts import Tracer
from warm_up import load_service_models, warm_up

import splitter.engine.main
import splitter.executors.local
import splitter.outputs.frame
import splitter.storage.opening  # noqa: F401
from splitter.cli.main import exit_code
from splitter.ledger import journal, shard_groups, unsynced
from splitter.storage import content as contents_module
from splitter.system import durability

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def _serve() -> None:
    load_service_models()
    warm_up()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            be_a_fork(_be_the_run, json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _be_the_run(request: dict[str, Any]) -> int:
    os.chdir(request["folder"])
    begin_a_run(request["said"], request["environ"], group=2)
    log = os.open(request["steps"], os.O_WRONLY | os.O_CREAT)
    # which start of the machine the run belongs to
    unsynced.boot_id = lambda: request.get("boot", "the first start")
    tracer = Tracer(request["trace"], request["output"]) if "trace" in request else None
    Watch(_Fate(request), log, tracer)
    return exit_code(request["arguments"])


def be_a_fork(run: Callable[[dict[str, Any]], int], request: dict[str, Any]) -> NoReturn:
    """Call `run` in a fork, and exit with its code, so that the fork does not continue as a second server."""
    code = 99
    try:
        code = run(request)
    except BaseException:  # noqa: BLE001 - whatever ends it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def begin_a_run(said: str, environ: dict[str, str], *, group: int) -> None:
    """Turn a fork into a program that has just started, and that prints into the file `said`."""
    os.environ.update(environ)
    tempfile.tempdir = None
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    warnings.simplefilter("error")
    # so that small runs merge their records, too, and have several groups
    journal.FEW_RECORDS = 2
    shard_groups.MOST_SMALL = group


class _Fate:
    """The fate of a run at its changes: nothing, a death, or an error at one change or from then on."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._at: int | None = request.get("at")
        self._error: int | None = request.get("error")
        self._for_good: bool = request.get("for_good", False)

    def meet(self, count: int) -> None:
        if self._at is None or count < self._at or (count > self._at and not self._for_good):
            return
        if self._error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            raise OSError(self._error, os.strerror(self._error))


class Watch:
    """A watch over a run, which lets it meet its fate before each change to the disk."""

    def __init__(self, fate: _Fate, log: int, tracer: Tracer | None = None) -> None:
        self._fate, self._log, self._tracer = fate, log, tracer
        self._count = 0
        sys.addaudithook(self._audit)
        # Python raises no audit event for these
        os.pwrite = self._before("pwrite", os.pwrite)
        # only the process dies, not the machine: what is written stays, so do not wait for the disk
        os.fsync = self._before("fsync", self._fsync)
        syncfs = self._before("syncfs", self._syncfs)
        durability._syncfs = lambda: syncfs
        watch = self

        class Watched(io.FileIO):
            def write(self, data: Any) -> int:
                # a full disk or a death may leave half of the data
                super().write(memoryview(data).cast("B")[: memoryview(data).nbytes // 2])
                self.seek(-(memoryview(data).nbytes // 2), os.SEEK_CUR)
                watch.count("write")
                return super().write(data)

        class WatchedHashing(contents_module._Hashing, Watched):
            pass

        contents_module._Hashing = WatchedHashing
        builtins.open = _opener(builtins.open, Watched)

    def _fsync(self, descriptor: int) -> None:
        os.fstat(descriptor)
        if self._tracer:
            self._tracer.synced(descriptor)

    def _syncfs(self, descriptor: int) -> int:
        os.fstat(descriptor)
        if self._tracer:
            self._tracer.synced_all()
        return 0

    def count(self, kind: str) -> None:
        if self._tracer:
            self._tracer.look()
        self._count += 1
        os.write(self._log, f"{kind}\n".encode())
        self._fate.meet(self._count)

    def _before(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.count(kind)
            return function(*arguments)

        return counted

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._tracer and self._tracer.is_looking:
            return
        if event == "open":
            path, _, flags = arguments
            if flags & WRITING and "__pycache__" not in str(path):
                self.count("open")
        elif event in CHANGES:
            self.count(event.removeprefix("os."))


def _opener(plain: Callable[..., Any], watched: type[io.FileIO]) -> Callable[..., Any]:
    def watching(file: Any, mode: str = "r", buffering: int = -1, **options: Any) -> Any:
        if "b" not in mode or not set(mode) & set("wax+"):
            return plain(file, mode, buffering, **options)
        raw = watched(file, mode.replace("b", ""), opener=options.get("opener"))
        if not buffering:
            return raw
        return (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw, max(buffering, 8192))

    return watching


if __name__ == "__main__":
    _serve()
