"""Manifests of NeMo: a JSON object per line, with audio_filepath and duration."""

from collections.abc import Iterator

from splitter.inputs.dialects.base import END, INPUT, SPEAKER, START, TEXT, Dialect, Entry, Written
from splitter.inputs.dialects.files import objects, scalars
from splitter.inputs.dialects.times import span
from splitter.text.csv import json_text

_PATH = "audio_filepath"
_OWN = (_PATH, "duration", "offset", INPUT, START, END, TEXT, SPEAKER)


class Nemo(Dialect):
    """A manifest, whose rows may be parts of recordings."""

    shape = "a manifest of JSON lines with audio_filepath and duration"

    def is_written(self, there: Written) -> bool:
        return {_PATH, "duration"} <= (there.fields or {}).keys()

    def entries(self, there: Written) -> Iterator[Entry]:
        for line, fields in objects(there):
            path, duration = fields.get(_PATH), fields.get("duration")
            if not isinstance(path, str) or not path:
                raise there.fault(line, f"names no recording in {_PATH!r}; write one path")
            times: Entry = {}
            # without a duration, the row is the whole recording
            if duration is not None or fields.get("offset"):
                with there.naming(line):
                    times[START], times[END] = span(fields.get("offset") or "0", duration)
            spoken = {name: json_text(fields[name]) for name in (TEXT, SPEAKER) if name in fields}
            yield {INPUT: path, **times, **spoken, **scalars(fields, *_OWN)}
