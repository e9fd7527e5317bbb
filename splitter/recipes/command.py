"""The recipe `command`: any program, once for each input."""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from splitter.dataset import ProcessorDataset, Result
from splitter.errors import CommandFailed, Refused
from splitter.records import InputFile, OutputFile
from splitter.system.programs import complaint, dying_with

_PLACEHOLDER = re.compile(r"\{(?:input|output|name|stem)\}")


class Command(ProcessorDataset):
    """Run a program on each input; the files it writes to {output} become the outputs.

    Args:
        command: The program and its arguments, as one text that is split like a shell command, or as a list.
            No shell is started. {input} is the path of the input, {output} an empty folder, {name} the name
            of the input's file, {stem} that name without its extension.
        stdout: Keep what the program prints as an output of this name, such as {stem}.txt; {output} is
            then optional.
    """

    def __init__(self, inputs: Any, command: str | list[str], stdout: str | None = None) -> None:  # noqa: ANN401 - a path, a list, a table
        super().__init__(inputs)
        try:
            given = shlex.split(command) if isinstance(command, str) else command
            self.command = [os.fspath(part) for part in given]
        except ValueError as error:
            raise Refused(f"--command {command!r}: {error}") from None
        if not self.command:
            raise Refused("--command: is empty; write a program and its arguments")
        self.stdout = stdout
        if stdout is None:
            # what an earlier version made, without this parameter, is not made again because of it
            self.parameters = {name: value for name, value in self.parameters.items() if name != "stdout"}
        elif "/" in stdout or stdout in {"", ".", ".."} or {"{input}", "{output}"} & {*_found_in(stdout)}:
            raise Refused(
                f"--stdout {stdout!r}: is not the name of a file; write a name such as {{stem}}.txt"
            )
        if stdout is None and not any("{output}" in part for part in self.command):
            raise Refused(
                f"--command {shlex.join(self.command)!r}: has no {{output}}, the folder that outputs go to; "
                "add it, or keep what the program prints with --stdout NAME"
            )
        if not _found_in(self.command[0]):
            self.needs_programs = self.command[:1]

    def process(self, input_file: InputFile) -> Result:
        """Run the program, then collect what it wrote and printed."""
        folder = input_file.scratch / "output"
        folder.mkdir()
        name = os.path.basename(input_file.local_path)
        values = {
            "{input}": input_file.local_path,
            "{output}": str(folder),
            "{name}": name,
            "{stem}": os.path.splitext(name)[0],
        }

        def filled(part: str) -> str:
            # in one go, since the name of an input may hold {output}
            return _PLACEHOLDER.sub(lambda match: values[match[0]], part)

        arguments = [filled(part) for part in self.command]
        stdout = input_file.scratch / "stdout"
        # to files, not pipes: a process left in the background may hold those open for ever
        with stdout.open("wb") as kept, tempfile.TemporaryFile(dir=input_file.scratch) as printed:
            done = subprocess.run(  # noqa: S603 - an argument list, and no shell
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=printed if self.stdout is None else kept,
                stderr=printed,
                check=False,
                preexec_fn=dying_with(os.getpid()),
            )
            if done.returncode:
                how = complaint(done.returncode, printed, {os.fsencode(folder): b"{output}"})
                raise CommandFailed(f"{arguments[0]} {how}")
        outputs = _files_of(folder)
        if self.stdout is None:
            return outputs, {}
        return chain([OutputFile(filled(self.stdout), stdout)], outputs), {}


def _found_in(text: str) -> list[str]:
    return _PLACEHOLDER.findall(text)


def _files_of(folder: Path) -> Iterator[OutputFile]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            raise IsADirectoryError(
                f"the command left the folder {path.name!r} in {{output}}; expected files only"
            )
        yield OutputFile(path.name, path)
