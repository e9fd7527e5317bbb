"""Data folders of Kaldi and ESPnet: wav.scp, segments, text, utt2spk."""

import os
import re
from collections.abc import Iterator

from splitter.inputs.dialects.base import END, INPUT, SPEAKER, START, TEXT, Dialect, Entry, Written
from splitter.inputs.dialects.files import lines
from splitter.inputs.dialects.times import seconds, written
from splitter.inputs.listing import InputList
from splitter.inputs.source import ListReading, SourceRows
from splitter.text.show import shortened

RECORDINGS = "wav.scp"
# the files about utterances, by the column that each becomes
_UTTERANCES = {TEXT: "text", SPEAKER: "utt2spk", "language": "utt2lang"}
_GENDERS = "spk2gender"
_FIELDS = 4


class Kaldi(Dialect):
    """A folder with wav.scp; if it also has segments, utterances are parts of recordings."""

    shape = f"a data folder with {RECORDINGS}"
    reads_folder = True

    def is_written(self, there: Written) -> bool:
        return there.holds(RECORDINGS)

    def entries(self, there: Written) -> Iterator[Entry]:
        tables = {column: _Table(there, name) for column, name in _UTTERANCES.items() if there.holds(name)}
        has_genders = there.holds(_GENDERS)
        genders = {speaker: value for _, speaker, value in _pairs(there, _GENDERS)} if has_genders else {}
        whole = ((name, {INPUT: path}) for name, path in _recordings(there))
        for utterance, entry in _segments(there) if there.holds("segments") else whole:
            entry |= {column: table.take(utterance) for column, table in tables.items()}
            if has_genders:
                entry["gender"] = genders.get(entry.get(SPEAKER, ""), "")
            yield {**entry, "id": utterance}

    def read(self, there: Written, home: str, listing: InputList, reading: ListReading) -> SourceRows:
        """Return the rows; guess the folder that paths start from, since Kaldi takes the current one."""
        if listing.root is None:
            home = _home(there)
        return super().read(there, home, listing, reading)


def _home(there: Written) -> str:
    """Return the data folder or one of the two above it (as in data/train): that with the first recording."""
    folders = [there.path, os.path.dirname(there.path), os.path.dirname(os.path.dirname(there.path))]
    _, first = next(_recordings(there), ("", ""))
    return next((one for one in folders if os.path.exists(os.path.join(one, first))), there.path)


class _Table:
    """A file about utterances, read only as far as needed: if it is in order, it takes no memory."""

    def __init__(self, there: Written, name: str) -> None:
        self._pairs = _pairs(there, name)
        self._ahead: dict[str, str] = {}

    def take(self, utterance: str) -> str:
        """Return the text about an utterance; empty if the file has none."""
        while utterance not in self._ahead:
            pair = next(self._pairs, None)
            if pair is None:
                return ""
            self._ahead[pair[1]] = pair[2]
        return self._ahead.pop(utterance)


def _pairs(there: Written, name: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number of each line, its first word, and the rest."""
    file = there.file(name)
    for number, line in lines(file.path, file.name):
        first, *rest = line.split(maxsplit=1)
        yield number, first, "".join(rest).strip()


def _recordings(there: Written) -> Iterator[tuple[str, str]]:
    """Yield each recording with its path or URL; refuse a pipe, since commands are not run."""
    file = there.file(RECORDINGS)
    for number, name, path in _pairs(there, RECORDINGS):
        if path.endswith("|") or path.startswith("|"):
            advice = "commands are not run; save its sound to a file, and name that file"
            raise file.fault(number, f"recording {name!r} is a pipe ({shortened(path, 60)!r}); {advice}")
        if not path or path == "-" or re.search(r":\d+$", path):
            raise file.fault(number, f"recording {name!r} is {path!r}, which is not a sound file; name one")
        yield name, path


def _segments(there: Written) -> Iterator[tuple[str, Entry]]:
    recordings = dict(_recordings(there))
    file = there.file("segments")
    for number, utterance, rest in _pairs(there, "segments"):
        fields = rest.split()
        if len(fields) not in (_FIELDS - 1, _FIELDS):
            raise file.fault(number, "must have an utterance, a recording, a start and an end")
        recording, start, end, *channel = fields
        if recording not in recordings:
            raise file.fault(
                number, f"utterance {utterance!r} is of {recording!r}, which is not in {RECORDINGS}"
            )
        with file.naming(number):
            first, last = seconds(start), seconds(end)
        if last < first:
            raise file.fault(number, f"utterance {utterance!r} ends at {end}, before it starts; fix its end")
        entry = {INPUT: recordings[recording], START: written(first), END: written(last)}
        yield utterance, entry | ({"channel": channel[0]} if channel else {})
