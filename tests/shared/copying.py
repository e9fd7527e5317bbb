"""A recipe that copies its inputs, and reads them in every way that a recipe can."""

from typing import Any

from splitter import InputFile, OutputFile, ProcessorDataset


class Copy(ProcessorDataset):
    """Copy each input to an output file.

    Args:
        how: The way to read it.
    """

    def __init__(self, inputs: Any = (), how: str = "bytes") -> None:
        super().__init__(inputs)
        self.how = how

    def process(self, input_file: InputFile) -> Any:
        if self.how == "bytes":
            content = input_file.read_bytes()
        elif self.how == "open":
            with input_file.open() as file:
                content = file.read(3) + file.read()
        else:
            content = input_file.path.read_bytes()
        return [OutputFile("copy", content)], {"file_name": input_file.path.name}


class CopyTogether(Copy):
    """Copy the inputs of a batch at once."""

    def process_batch(self, input_files: Any) -> Any:
        return [self.process(input_file) for input_file in reversed(input_files)][::-1]
