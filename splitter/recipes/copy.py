"""The recipe `copy`: each input as it is, such as for files that go into shards."""

import shutil
from functools import partial
from typing import Any, BinaryIO

from splitter.dataset import ProcessorDataset, Result
from splitter.inputs.locations import look_at
from splitter.records import Expected, InputFile, OutputFile
from splitter.storage.content import READ_AT_ONCE


class Copy(ProcessorDataset):
    """Copy each input file as it is."""

    def __init__(self, inputs: Any = ()) -> None:  # noqa: ANN401
        super().__init__(inputs)

    def expect(self, input_file: InputFile) -> Expected:
        """Return that there is one output, as large as the input."""
        return Expected(1, look_at(input_file.local_path).size)

    def process(self, input_file: InputFile) -> Result:
        """Return one output file with the name and the content of the input."""
        return [OutputFile(input_file.name, partial(_copy, input_file))], {}


def _copy(input_file: InputFile, target: BinaryIO) -> None:
    with input_file.open() as source:
        shutil.copyfileobj(source, target, READ_AT_ONCE)
