"""`splitter ...` without the second or two that its imports take: forked from a process that has done them.

A command behaves like a separate program: it has the standard streams, the folder, the environment, the CPUs
and the limit of open files of the process that asks for it, and it ends as Python ends. Only the variables
that Python itself reads when it starts (PYTHON..., LC_...) are those of the start of the server.

As a script, this is the server, or the program that asks it, which must start almost at once.
"""

import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any

# without these, a command is started as a program
AVAILABLE = hasattr(os, "pidfd_open") and hasattr(os, "sched_getaffinity")
CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LENGTH = struct.Struct("!I")
_CODE = struct.Struct("!i")
# the name of the socket, and the server, which ends with this process, when its standard input is closed
_started: list[tuple[str, Any]] = []


def command() -> list[str]:
    """Return the arguments that replace `splitter` in a command line."""
    if not AVAILABLE:
        return [sys.executable, "-m", "splitter"]
    if not _started:
        _started.append(_start())
    return [sys.executable, "-I", "-S", __file__, "ask", _started[0][0]]


def _start() -> tuple[str, Any]:
    import secrets
    import subprocess

    name = secrets.token_hex(16)
    path = os.pathsep.join([CHECKOUT, os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, __file__, "serve", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    return name, process


def _connect(name: str, *, listen: bool = False) -> socket.socket:
    # an abstract name, which leaves no file behind
    connection = socket.socket(socket.AF_UNIX)
    (connection.bind if listen else connection.connect)(f"\0splitter-tests-{name}")
    return connection


# -- the program ---------------------------------------------------------------------------------------------


def _ask(name: str, arguments: list[str]) -> int:
    """Run a command; return its exit code."""
    here = {"folder": os.getcwd(), "environ": dict(os.environ), "cpus": [*os.sched_getaffinity(0)]}
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    content = json.dumps({**here, "files": files, "arguments": arguments}).encode()
    with _connect(name) as connection:
        socket.send_fds(connection, [_LENGTH.pack(len(content))], [0, 1, 2])
        connection.sendall(content)
        answer = connection.recv(_CODE.size)
    (code,) = _CODE.unpack(answer)
    if code < 0:
        # the command was ended by a signal, so end this process in the same way
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return int(code)


# -- the server ----------------------------------------------------------------------------------------------


def _serve(name: str) -> None:
    import select

    from warm_up import warm_up

    import splitter.executors.local
    import splitter.outputs.frame
    import splitter.recipes.chunk  # noqa: F401

    warm_up()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _connect(name, listen=True) as listening:
        listening.listen(64)
        print("ready", flush=True)  # noqa: T201 - for the process that started this one
        while sys.stdin not in select.select([sys.stdin, listening], [], [])[0]:
            connection, _ = listening.accept()
            if not os.fork():
                listening.close()
                _handle(connection)
            connection.close()
            while _reaped():
                pass


def _reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


def _handle(connection: socket.socket) -> None:
    """Start a command, and report how it ended; end it if the program that asked for it is gone."""
    import select

    start, streams, *_ = socket.recv_fds(connection, _LENGTH.size, 3)
    (length,) = _LENGTH.unpack(start)
    content = b""
    while len(content) < length:
        content += connection.recv(length - len(content))
    pid = os.fork()
    if not pid:
        connection.close()
        _be_the_command(streams, **json.loads(content))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    try:
        connection.sendall(_CODE.pack(os.waitstatus_to_exitcode(status)))
    finally:
        os._exit(0)


def _be_the_command(  # noqa: PLR0913, PLR0917 - what a process has
    streams: list[int],
    folder: str,
    environ: dict[str, str],
    cpus: list[int],
    files: tuple[int, int],
    arguments: list[str],
) -> None:
    import atexit
    import tempfile
    import threading
    import traceback

    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        os.sched_setaffinity(0, cpus)
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(files))
        tempfile.tempdir = None
        sys.argv[:] = ["splitter", *arguments]
        sys.path[0] = folder
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from splitter.__main__ import main

        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        # do what Python does at its end, except for tearing down what this process shares with the server
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - the fork must not continue as a second server
        traceback.print_exc()
        code = 120
    finally:
        os._exit(code)


def _main(what: str, name: str, *arguments: str) -> int:
    if what == "ask":
        return _ask(name, [*arguments])
    _serve(name)
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
