"""A recipe that makes two outputs of each input; `FAILING` in the environment names the inputs that fail."""

import os
from collections.abc import Iterator
from typing import Any

from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.dataset import Result


class Halves(ProcessorDataset):
    """Cut a text in the middle.

    Args:
        flavour: A number that every output contains.
    """

    def __init__(self, inputs: Any = (), flavour: int = 0) -> None:
        super().__init__(inputs)
        self.flavour = flavour

    def process(self, input_file: InputFile) -> Result:
        text = input_file.read_text()
        return self._halves(text, input_file.input), {"length": len(text)}

    def _halves(self, text: str, name: str) -> Iterator[OutputFile]:
        middle = len(text) // 2
        for number, half in enumerate((text[:middle], text[middle:])):
            yield OutputFile(f"{number}.txt", f"{self.flavour} {half}", {"half": number})
            if name in os.environ.get("FAILING", "").split():
                raise ValueError(text)
