"""The recipe `speech`, which notes each time it loads its model."""

import os
from pathlib import Path
from typing import Any

from faulty import note

from splitter import InputFile
from splitter.dataset import Result
from splitter.recipes.speech import Speech


class Counted(Speech):
    """Notes the process that loads the model, and those that use it."""

    def __init__(self, inputs: Any = (), log: Path = Path(os.devnull)) -> None:
        super().__init__(inputs)
        self.log = Path(log)

    def setup(self) -> None:
        super().setup()
        note(self.log, "loaded", os.getpid())

    def process(self, input_file: InputFile) -> Result:
        note(self.log, "used", os.getpid())
        return super().process(input_file)
