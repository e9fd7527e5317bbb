"""Exports of Label Studio as JSON: tasks, with the regions that people have labeled."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from splitter.inputs.dialects.base import END, INPUT, START, TEXT, Dialect, Entry, Written
from splitter.inputs.dialects.files import scalars, whole_json
from splitter.inputs.dialects.times import seconds, written
from splitter.text.csv import json_text
from splitter.text.endings import SOUND, ending_of
from splitter.text.urls import is_url

_NAMES = ("audio", "sound", "wav", "video", "image")
_LOCAL_FILES, _UPLOADED = "/data/local-files/", "/data/"
LABEL, ANNOTATOR = "label", "annotator"


class LabelStudio(Dialect):
    """A list of tasks: each region with times is a row, and each result about a whole recording a column."""

    shape = "a JSON export, a list of tasks with data and annotations"

    def is_written(self, there: Written) -> bool:
        head = there.head.lstrip()
        return head[:1] == "[" and '"data"' in head and ('"annotations"' in head or '"predictions"' in head)

    def entries(self, there: Written) -> Iterator[Entry]:
        tasks = whole_json(there)
        if not isinstance(tasks, list):
            raise there.fault(1, "is not a list of tasks; export as JSON")
        for number, task in enumerate(tasks, 1):
            name = task.get("id", number) if isinstance(task, dict) else number
            with there.naming(f"task {name}"):
                entries = [*_task(task)]
            yield from entries


def _task(task: dict[str, Any]) -> Iterator[Entry]:
    data = task["data"]
    name = _path_field(data)
    recording = {INPUT: _path(data[name])}
    annotations = [one for one in task.get("annotations") or () if not one.get("was_cancelled")]
    found = [(one, *_results(one["result"])) for one in annotations or task.get("predictions") or ()]
    answered = {column for _, _, regions in found for region in regions for column in region}
    about = scalars(data, name, INPUT, START, END, LABEL, *answered & {TEXT})
    for _, whole, regions in found:
        if not regions:
            # no row is its own
            about.update(whole)
    for one, whole, regions in found:
        who = {ANNOTATOR: json_text(_annotator(one))} if len(annotations) > 1 else {}
        for region in regions:
            # the first dict sets the order of the columns
            yield {**recording, **region, **about, **whole, **region, **who}
    if not answered:
        yield {**recording, **about}


def _results(results: list[dict[str, Any]]) -> tuple[Entry, list[Entry]]:
    """Return the columns about the whole recording, and those of each region: label, text and the like."""
    whole: Entry = {}
    regions: dict[str, Entry] = {}
    for one in results:
        value = one.get("value") or {}
        if one.get("type") == "relation":
            continue
        said = next((value[name] for name in (one.get("type"), "text", "choices") if name in value), "")
        text = "|".join(map(json_text, said)) if isinstance(said, list) else json_text(said)
        if START not in value or END not in value:
            whole[_column(one)] = text
            continue
        region = regions.setdefault(json_text(one.get("id")) or f"#{len(regions)}", {})
        region[START], region[END] = written(seconds(value[START])), written(seconds(value[END]))
        region[_column(one)] = text
        if "channel" in value:
            region["channel"] = json_text(value["channel"])
    return whole, [*regions.values()]


def _column(result: dict[str, Any]) -> str:
    """Return the name of the column for a result: label, text, or the name of the question."""
    kind = result.get("type")
    usual = {"labels": LABEL, "hypertextlabels": LABEL, "textarea": TEXT}.get(str(kind))
    return usual or json_text(result.get("from_name")) or str(kind)


def _annotator(annotation: dict[str, Any]) -> Any:  # noqa: ANN401 - a number, or details of a person
    who = annotation.get("completed_by")
    return who.get("email") or who.get("id") if isinstance(who, dict) else who


def _path_field(data: dict[str, Any]) -> str:
    """Return the field of a task that names its recording."""
    texts = [name for name, value in data.items() if isinstance(value, str)]
    likely = [name for name in _NAMES if name in texts]
    likely += [name for name in texts if _ending(data[name]) in SOUND or data[name].startswith(_UPLOADED)]
    if not likely:
        raise ValueError(f"names no recording; its data has {', '.join(map(repr, [*data][:8])) or 'nothing'}")
    return likely[0]


def _ending(path: str) -> str:
    return ending_of(path.partition("?")[0])


def _path(text: str) -> str:
    """Return a path relative to the local storage or the folder of media; return a URL unchanged."""
    if text.startswith(_LOCAL_FILES):
        return parse_qs(urlsplit(text).query).get("d", [""])[0].lstrip("/") or text
    return text if is_url(text) else text.removeprefix(_UPLOADED)
