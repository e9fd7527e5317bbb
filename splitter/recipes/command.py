"""The recipe `command`: any program, once for each input."""

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from splitter.dataset import ProcessorDataset, Result
from splitter.errors import Refused
from splitter.records import InputFile, OutputFile

_PR_SET_PDEATHSIG = 1
_PLACE = re.compile(r"\{(?:input|output)\}")
LONGEST_COMPLAINT = 2000


class Command(ProcessorDataset):
    """Run a program on each input; the files it leaves in {output} become the outputs.

    Args:
        command: The program and its arguments, as one text that is divided at spaces as a shell would,
            or as a list. No shell is started. {input} is the input's path, {output} an empty folder.
    """

    def __init__(self, inputs: Any, command: str | list[str]) -> None:  # noqa: ANN401 - a path, a list, a table
        """Take the inputs and the command."""
        super().__init__(inputs)
        try:
            given = shlex.split(command) if isinstance(command, str) else command
            self.command = [os.fspath(part) for part in given]
        except ValueError as error:
            raise Refused(f"--command {command!r}: {error}") from None
        if not self.command:
            raise Refused("--command: is empty; give a program and its arguments")
        if not any("{output}" in part for part in self.command):
            raise Refused(
                f"--command {shlex.join(self.command)!r}: has no {{output}}, the folder that outputs go to"
            )

    def process(self, input_file: InputFile) -> Result:
        """Run the program, then collect what it wrote."""
        folder = input_file.scratch / "output"
        folder.mkdir()
        places = {"{input}": input_file.local_path, "{output}": str(folder)}
        # in one go, since the name of an input may hold {output}
        arguments = [_PLACE.sub(lambda match: places[match[0]], part) for part in self.command]
        # to a file, not a pipe: a process left in the background may hold that open for ever
        with tempfile.TemporaryFile(dir=input_file.scratch) as printed:
            done = subprocess.run(  # noqa: S603 - an argument list, and no shell
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
                preexec_fn=_end_with(os.getpid()),
            )
            if done.returncode:
                printed.seek(max(0, printed.seek(0, os.SEEK_END) - LONGEST_COMPLAINT))
                # the folder's name is random, and what is published must not be
                said = printed.read().replace(os.fsencode(folder), b"{output}")
                raise CommandFailed(arguments[0], done.returncode, said)
        return _files_of(folder), {}


class CommandFailed(Exception):
    """The program ended with an error."""

    def __init__(self, program: str, code: int, output: bytes) -> None:
        """Say how it ended and what it said last."""
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        said = output.decode("utf-8", "backslashreplace").strip()
        super().__init__(f"{program} {how}" + (f": {said}" if said else ""))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # most of the real-time signals have no name
        return f"signal {number}"


def _files_of(folder: Path) -> Iterator[OutputFile]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            raise IsADirectoryError(
                f"the command left the folder {path.name!r} in {{output}}; expected files only"
            )
        yield OutputFile(path.name, path)


def _end_with(parent: int) -> Callable[[], None]:
    """Have the program killed when its worker dies."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def prepare() -> None:
        if libc:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    return prepare
