"""Files of lhotse: cuts, recordings and supervisions, as .jsonl or .jsonl.gz."""

import os
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from splitter.inputs.dialects.base import END, INPUT, SPEAKER, START, TEXT, Dialect, Entry, Written
from splitter.inputs.dialects.files import objects, scalars
from splitter.inputs.dialects.times import span
from splitter.text.csv import json_text

_RECORDING = {"id", "sources", "sampling_rate"}
_SUPERVISION = {"id", "recording_id", "start", "duration"}
# fields of a supervision that are read elsewhere, or are of use only to lhotse
_OWN = ("id", "recording_id", "start", "duration", "channel", "alignment", "custom", TEXT, SPEAKER)


class Lhotse(Dialect):
    """Cuts, or recordings, or supervisions, whose recordings are in another file in the same folder."""

    shape = "cuts, recordings or supervisions in .jsonl or .jsonl.gz"

    def is_written(self, there: Written) -> bool:
        fields = there.fields or {}
        return is_cut(fields) or fields.keys() >= _RECORDING or fields.keys() >= _SUPERVISION

    def entries(self, there: Written) -> Iterator[Entry]:
        recordings = _Recordings(there)
        for line, fields in objects(there):
            with there.naming(line):
                entry = _entry(fields, recordings)
            yield entry


def _entry(fields: dict[str, Any], recordings: "_Recordings") -> Entry:
    if is_cut(fields):
        return _cut(fields)
    if fields.keys() >= _RECORDING:
        return {INPUT: _source(fields), "id": json_text(fields["id"])}
    if fields.keys() >= _SUPERVISION:
        return _supervision(fields, recordings.path(json_text(fields["recording_id"])))
    raise ValueError("is not a cut, recording or supervision of lhotse")


def supervisions(there: Written) -> Iterator[Entry]:
    """Yield the supervisions in cuts, with their times in the recordings; for other files, yield the rows."""
    if not is_cut(there.fields or {}):
        yield from Lhotse().entries(there)
        return
    for line, fields in objects(there):
        with there.naming(line):
            cut = _cut(fields)
            found = [{**one, "start": span(cut[START], one.get("start"))[1]} for one in _supervisions(fields)]
            entries = [_supervision(one, cut[INPUT]) for one in found]
        yield from entries


def is_cut(fields: dict[str, Any]) -> bool:
    """Return whether a line is a cut of any kind."""
    return (
        "tracks" in fields
        or ("supervisions" in fields and "duration" in fields)
        or fields.get("type") == "PaddingCut"
    )


def _cut(fields: dict[str, Any]) -> Entry:
    if "recording" not in fields:
        kind = json_text(fields.get("type")) or "cut"
        raise ValueError(f"{_name(fields)} is a {kind} without a recording; save its sound first")
    recording, given = fields["recording"], _supervisions(fields)
    start, end = span(fields.get("start"), fields.get("duration"))
    columns = [_columns(one) for one in given]
    names = dict.fromkeys(name for one in columns for name in one)
    path = _source(recording)
    several = len(recording.get("channel_ids") or ()) > 1
    return {
        INPUT: path,
        START: start,
        END: end,
        **{name: _together(name, [one[name] for one in columns if one.get(name)]) for name in names},
        "id": json_text(fields.get("id")),
        **({"channel": json_text(fields.get("channel"))} if several else {}),
        **_custom(fields),
    }


def _together(name: str, values: list[str]) -> str:
    """Join the values of a column of several supervisions: texts as one text, others once each."""
    return " ".join(values) if name == TEXT else "|".join(dict.fromkeys(values))


def _supervisions(fields: dict[str, Any]) -> list[dict[str, Any]]:
    found = fields.get("supervisions")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{_name(fields)} has supervisions that are not a list of JSON objects")
    return found


def _supervision(fields: dict[str, Any], path: str) -> Entry:
    start, end = span(fields.get("start"), fields.get("duration"))
    return {INPUT: path, START: start, END: end, **_columns(fields), "id": json_text(fields.get("id"))}


def _columns(supervision: dict[str, Any]) -> Entry:
    """Return the columns of a supervision, the text and the speaker first."""
    spoken = {
        name: json_text(supervision[name]) for name in (TEXT, SPEAKER) if supervision.get(name) is not None
    }
    return {**spoken, **scalars(supervision, *_OWN), **_custom(supervision)}


def _custom(fields: dict[str, Any]) -> Entry:
    custom = fields.get("custom")
    return scalars(custom, INPUT, START, END, TEXT, SPEAKER, "id") if isinstance(custom, dict) else {}


def _source(recording: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return the path or URL of a recording; commands are never run."""
    sources = recording.get("sources") if isinstance(recording, dict) else None
    if not isinstance(sources, list) or not all(isinstance(one, dict) for one in sources):
        raise ValueError("has a recording without sources")
    name = _name(recording)
    if len(sources) != 1:
        raise ValueError(f"{name} has {len(sources)} sources; only recordings in one file can be read")
    kind = sources[0].get("type")
    if kind == "command":
        raise ValueError(
            f"{name} is a command ({str(sources[0].get('source'))[:60]!r}); commands are not run"
        )
    if kind not in ("file", "url") or not isinstance(sources[0].get("source"), str):
        raise ValueError(f"{name} has a source of type {kind!r}; only files and URLs can be read")
    for one in recording.get("transforms") or ():
        raise ValueError(f"{name} is transformed ({str(one)[:60]}); save its sound first, as lhotse can")
    return str(sources[0]["source"])


def _name(fields: dict[str, Any]) -> str:
    return repr(json_text(fields.get("id"))[:60])


class _Recordings:
    """The recordings that supervisions name, from the file next to theirs, read when first needed."""

    def __init__(self, there: Written) -> None:
        self._folder, self._name = os.path.split(there.path)

    def path(self, recording: str) -> str:
        if recording not in self._paths:
            raise ValueError(f"is of recording {recording!r}, which is not among the recordings")
        return self._paths[recording]

    @cached_property
    def _paths(self) -> dict[str, str]:
        name = self._name.replace("supervisions", "recordings")
        path = os.path.join(self._folder, name)
        if name == self._name or not os.path.isfile(path):
            wanted = "recordings.jsonl.gz" if name == self._name else name
            raise ValueError(
                f"names its recording by an id, but {wanted} is not in the same folder; pass the cuts instead"
            )
        beside, found = Written(path, path), {}
        for line, fields in objects(beside):
            with beside.naming(line):
                found[json_text(fields["id"])] = _source(fields)
        return found
