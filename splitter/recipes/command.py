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
from splitter.errors import BadResult, CommandFailed, Refused
from splitter.records import InputFile, OutputFile
from splitter.storage.checked_file import json_of
from splitter.system.programs import complaint, dying_with

_PLACEHOLDER = re.compile(r"\{(?:input|output|name|stem)\}")
_JSON = ".json"


class Command(ProcessorDataset):
    """Run a program on each input; the files it writes to {output} become the outputs.

    Args:
        command: The program and its arguments, as one text that is split like a shell command, or as a list.
            No shell is started. {input} is the path of the input, {output} an empty folder, {name} the name
            of the input's file, {stem} that name without its extension.
        stdout: Keep what the program prints as an output of this name, such as {stem}.txt; {output} is
            then optional.
        name_pattern: A regular expression whose named groups, found in the name of an output, become its
            metadata, such as page-(?P<page>[0-9]+).
        json_metadata: Take the JSON object in the file {stem}.json beside an output {stem}.png as the
            metadata of that output, not as another output.
    """

    def __init__(
        self,
        inputs: Any,  # noqa: ANN401 - a path, a list, a table
        command: str | list[str],
        stdout: str | None = None,
        name_pattern: str | None = None,
        json_metadata: bool = False,  # noqa: FBT001, FBT002 - an option
    ) -> None:
        super().__init__(inputs)
        try:
            given = shlex.split(command) if isinstance(command, str) else command
            self.command = [os.fspath(part) for part in given]
        except ValueError as error:
            raise Refused(f"--command {command!r}: {error}") from None
        if not self.command:
            raise Refused("--command: is empty; write a program and its arguments")
        self.stdout, self.json_metadata = stdout, json_metadata
        self.name_pattern = None if name_pattern is None else _pattern(name_pattern)
        # without their defaults, so that outputs of versions that lacked these parameters are not redone
        later = ("stdout", "name_pattern", "json_metadata")
        self.parameters = {
            name: value for name, value in self.parameters.items() if value or name not in later
        }
        if stdout is not None and (
            "/" in stdout
            or stdout in {"", ".", ".."}
            or {"{input}", "{output}"} & {*_PLACEHOLDER.findall(stdout)}
        ):
            raise Refused(
                f"--stdout {stdout!r}: is not the name of a file; write a name such as {{stem}}.txt"
            )
        if stdout is None and not any("{output}" in part for part in self.command):
            raise Refused(
                f"--command {shlex.join(self.command)!r}: has no {{output}}, the folder that outputs go to; "
                "add it, or keep what the program prints with --stdout NAME"
            )
        if not _PLACEHOLDER.search(self.command[0]):
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
            # in one pass, since the name of an input may contain {output}
            return _PLACEHOLDER.sub(lambda match: values[match[0]], part)

        arguments = [filled(part) for part in self.command]
        stdout = input_file.scratch / "stdout"
        # files, not pipes: a process left in the background could hold pipes open forever
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
        files = sorted(folder.iterdir())
        outputs = [] if self.stdout is None else [(filled(self.stdout), stdout)]
        return self._outputs([*outputs, *((path.name, path) for path in files)]), {}

    def _outputs(self, files: list[tuple[str, Path]]) -> Iterator[OutputFile]:
        """Yield files with their metadata."""
        stems = {os.path.splitext(name)[0] for name, _ in files if not name.endswith(_JSON)}
        beside = {name: path for name, path in files if name.endswith(_JSON) and name[: -len(_JSON)] in stems}
        if not self.json_metadata:
            beside = {}
        for name, path in files:
            if path.is_dir():
                raise IsADirectoryError(
                    f"the command left the folder {name!r} in {{output}}; expected files only"
                )
            if name not in beside:
                described = beside.get(os.path.splitext(name)[0] + _JSON)
                own = {} if described is None else _object_in(described)
                yield OutputFile(name, path, {**self._in_name(name), **own})

    def _in_name(self, name: str) -> dict[str, str | None]:
        """Return what the pattern finds in the name of an output."""
        if self.name_pattern is None:
            return {}
        match = self.name_pattern.search(name)
        return match.groupdict() if match else dict.fromkeys(self.name_pattern.groupindex)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise Refused(f"--name-pattern {text!r}: {error}") from None
    if not pattern.groupindex:
        raise Refused(f"--name-pattern {text!r}: has no named group; write one, such as (?P<page>[0-9]+)")
    return pattern


def _object_in(path: Path) -> dict[str, Any]:
    """Return the metadata in a file beside an output."""
    try:
        found = json_of(path.read_bytes())
    except ValueError as error:
        raise BadResult(f"{path.name}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadResult(f"{path.name}: is not a JSON object; expected the metadata of an output")
    return found
