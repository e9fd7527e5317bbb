"""A recipe whose outputs contain their name and a checksum, so that each shows whether it is complete.

Its inputs are JSON: what to make of them. `VERSION` in the environment is the version of its code.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import xxhash

from splitter import InputFile, OutputFile, ProcessorDataset, Skip
from splitter.dataset import Result


class Marked(ProcessorDataset):
    """Make outputs in every way that there is.

    Args:
        flavour: A number that every output contains.
    """

    version = os.environ.get("VERSION", "1")

    def __init__(self, inputs: Any = (), flavour: int = 0) -> None:
        super().__init__(inputs)
        self.flavour = flavour

    def process(self, input_file: InputFile) -> Result:
        what = json.loads(input_file.read_bytes())
        if what["end"] == "skip":
            raise Skip(what["salt"])
        return self._outputs(input_file, what), what["metadata"]

    def _outputs(self, input_file: InputFile, what: dict[str, Any]) -> Iterator[OutputFile]:
        for number in range(what["outputs"]):
            # names differ with every version and flavour, so that stale outputs are noticed
            name = f"{number}-{self.version if number % 2 else self.flavour}.bin"
            about = {"input": input_file.input, "name": name, "recipe": [self.flavour, self.version]}
            body = json.dumps({**about, **what}).encode() + b"\n" + b"x" * (number * 1000)
            content = body + b"\n" + xxhash.xxh3_64_hexdigest(body).encode()
            metadata = {"number": number} if number % 3 else {"number": number / 2, "flavour": self.flavour}
            yield OutputFile(name, _KINDS[number % len(_KINDS)](content, input_file.scratch / name), metadata)
        if what["end"] == "raise":
            raise ValueError(what["salt"])


def _file(content: bytes, path: Path) -> Path:
    path.write_bytes(content)
    return path


def _in_pieces(content: bytes, path: Path) -> Any:
    def write(file: BinaryIO) -> None:
        for start in range(0, len(content), 700):
            file.write(content[start : start + 700])
            file.flush()

    return write


def _patched(content: bytes, path: Path) -> Any:
    def write(file: BinaryIO) -> None:
        file.write(b"?" * 10 + content[10:])
        file.seek(0)
        file.write(content[:10])

    return write


_KINDS = [lambda content, path: content, _in_pieces, lambda content, path: content.decode(), _patched, _file]
