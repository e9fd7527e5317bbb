"""Tables of Common Voice: validated.tsv and the like, next to a folder `clips`."""

import os
from collections.abc import Iterator

from splitter.inputs.dialects.base import INPUT, SPEAKER, TEXT, Dialect, Entry, Written
from splitter.inputs.dialects.files import lines
from splitter.text.urls import is_url

_NAMES = {"path": INPUT, "sentence": TEXT, "client_id": SPEAKER}


class Commonvoice(Dialect):
    """A table whose paths are names of files in `clips`."""

    shape = "a .tsv with the columns path and sentence"

    def is_written(self, there: Written) -> bool:
        names = there.head.split("\n", 1)[0].rstrip("\r").split("\t")
        return {"path", "sentence"} <= {*names} and INPUT not in names

    def entries(self, there: Written) -> Iterator[Entry]:
        folder = os.path.join(os.path.dirname(there.name), "clips")
        below = "clips/" if is_url(folder) or os.path.isdir(folder) else ""
        header: list[str] = []
        for number, line in lines(there.path, there.name):
            # these tables quote nothing, so they are not read as CSV
            cells = line.split("\t")
            if not header:
                header = [_NAMES.get(name, name) for name in cells]
                if not {INPUT, TEXT} <= {*header} or len({*header}) < len(header):
                    why = "has no column 'path' or 'sentence', or two of one name"
                    raise there.fault(number, f"{why}; expected the table of a Common Voice release")
                continue
            if len(cells) != len(header):
                why = f"has {len(cells)} columns where the first line has {len(header)}; fix that line"
                raise there.fault(number, why)
            entry = dict(zip(header, cells, strict=True))
            path = entry.pop(INPUT)
            name = path if os.path.splitext(path)[1] else f"{path}.mp3"
            first = {name: entry.pop(name) for name in (TEXT, SPEAKER) if name in entry}
            yield {INPUT: below + name, **first, **entry}
