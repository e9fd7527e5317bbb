"""metadata.csv of LJSpeech and Piper: fields separated by bars, no header, next to a folder `wavs`."""

import os
from collections.abc import Iterator
from typing import ClassVar

from splitter.inputs.dialects.base import INPUT, SPEAKER, TEXT, Dialect, Entry, Written
from splitter.inputs.dialects.files import lines, look
from splitter.text.endings import SOUND, ending_of

METADATA = "metadata.csv"


class LjSpeech(Dialect):
    """A name, a text, and the text in full words: NAME|TEXT|NORMALIZED."""

    shape = f"a {METADATA} with | between its fields, or its folder"
    reads_folder = None
    columns: ClassVar[tuple[tuple[str, ...], ...]] = ((TEXT,), (TEXT, "normalized_text"))

    def is_written(self, there: Written) -> bool:
        if there.is_folder:
            there = look(os.path.join(there.path, METADATA), there.name)
        name = there.head.split("\n", 1)[0].partition("|")
        return bool(name[1]) and os.path.isfile(os.path.join(os.path.dirname(there.path), _path(name[0])))

    def entries(self, there: Written) -> Iterator[Entry]:
        file = there.file(METADATA) if there.is_folder else there
        for number, line in lines(file.path, file.name):
            name, *fields = line.split("|")
            columns = next((names for names in self.columns if len(names) == len(fields)), None)
            if columns is None or not name:
                wanted = " or ".join("|".join(["NAME", *map(str.upper, names)]) for names in self.columns)
                raise file.fault(number, f"has {len(fields) + 1} fields; write {wanted}")
            yield {INPUT: _path(name), **dict(zip(columns, fields, strict=True)), "id": name}


class Piper(LjSpeech):
    """The same with speakers: NAME|SPEAKER|TEXT. It looks the same as LJSpeech, so --from must name it."""

    columns = ((TEXT,), (SPEAKER, TEXT))

    def is_written(self, there: Written) -> bool:  # noqa: ARG002 - only --from names it
        return False


def _path(name: str) -> str:
    """Return the path of a recording by its name, which may already have an ending."""
    is_file = ending_of(name) in SOUND
    return f"wavs/{name}" if is_file else f"wavs/{name}.wav"
