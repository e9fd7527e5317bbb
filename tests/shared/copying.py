"""A recipe that gives back what it was given, by every way that a recipe may read it."""

from typing import Any

from splitter import InputFile, OutputFile, ProcessorDataset


class Copy(ProcessorDataset):
    """Give each input back as an output file.

    Args:
        how: The way it is read.
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
    """The same, a batch at a time."""

    def process_batch(self, input_files: Any) -> Any:
        return [self.process(input_file) for input_file in reversed(input_files)][::-1]
