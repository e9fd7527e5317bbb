"""The recipe `copy`: each input unchanged, for example to put files into shards."""

import shutil
from functools import partial
from typing import Any, BinaryIO

from splitter.audio.headers import HEADER_COLUMNS
from splitter.dataset import ProcessorDataset, Result
from splitter.inputs.locations import look_at
from splitter.inputs.manifests import INPUT
from splitter.records import Expected, InputFile, OutputFile
from splitter.storage.content import READ_AT_ONCE
from splitter.text.labels import EARLIER, name_when_made


class Copy(ProcessorDataset):
    """Copy each input file as it is."""

    def __init__(self, inputs: Any = ()) -> None:  # noqa: ANN401
        super().__init__(inputs)

    def expect(self, input_file: InputFile) -> Expected:
        """Expect one output, as large as the input."""
        return Expected(1, look_at(input_file.local_path).size)

    def process(self, input_file: InputFile) -> Result:
        """Return one output file with the name and the content of the input."""
        metadata = _still_true(input_file.columns)
        return [OutputFile(input_file.name, partial(_copy, input_file), metadata)], {}


def _still_true(columns: dict[str, str]) -> dict[str, int]:
    """Return what the stage that made an input states about its sound, as a copy has the same sound."""
    # the columns of that stage follow the names of its outputs; those before are about earlier files
    names = [*columns]
    stated = names[names.index(INPUT) + 1 :] if INPUT in columns else []
    found = {name_when_made(name): columns[name] for name in stated if name.startswith(EARLIER)}
    return {
        name: int(found[name])
        for name in HEADER_COLUMNS
        if name not in columns and found.get(name, "").isdecimal()
    }


def _copy(input_file: InputFile, target: BinaryIO) -> None:
    with input_file.open() as source:
        shutil.copyfileobj(source, target, READ_AT_ONCE)
