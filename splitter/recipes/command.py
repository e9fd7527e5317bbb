"""The recipe `command`: any program, once for each input."""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from splitter.dataset import ProcessorDataset, Result
from splitter.errors import CommandFailed, Refused
from splitter.records import InputFile, OutputFile
from splitter.system.programs import complaint, dying_with

_PLACE = re.compile(r"\{(?:input|output)\}")


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
                preexec_fn=dying_with(os.getpid()),
            )
            if done.returncode:
                how = complaint(done.returncode, printed, {os.fsencode(folder): b"{output}"})
                raise CommandFailed(f"{arguments[0]} {how}")
        return _files_of(folder), {}


def _files_of(folder: Path) -> Iterator[OutputFile]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            raise IsADirectoryError(
                f"the command left the folder {path.name!r} in {{output}}; expected files only"
            )
        yield OutputFile(path.name, path)
