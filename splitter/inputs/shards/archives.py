"""The samples of a tar archive: in each, the member that is the input, and labels from the others."""

import contextlib
import gzip
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

from splitter.archives.members import GZIP, split_name
from splitter.archives.reader import CountedStream, MemberHead, read_heads
from splitter.errors import Refused, TarError
from splitter.inputs.shards.index import (
    FIELDS_SHOWN,
    LONGEST_LABEL,
    InputShard,
    Kind,
    ShardScan,
    open_shard,
    state_of,
)
from splitter.stores.files import gives_parts
from splitter.text.csv import ENCODING, ESCAPE, json_text, json_value
from splitter.text.endings import SOUND
from splitter.text.urls import LONGEST_NAME, is_url, without_secrets

REST = "(rest)"
LONGEST_PATH = 2000
# bytes of the labels of one archive, in memory; compressed labels may expand to any size
MOST_LABELS = 256 << 20

# by the last extension of a field: those that are labels, and those that are never text
_LABELS = frozenset(
    "json jsn txt text transcript cls cls2 class count index inx id key lab url".split()  # noqa: SIM905
)
_PICKLED = frozenset({"pyd", "pickle", "pkl", "pth", "pt", "npy", "npz"})
_JSON = frozenset({"json", "jsn"})


@dataclass
class _MemberGroup:
    """The members with one key: where the content of each field is, and the content of labels."""

    fields: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    fault: str = ""


def look_at_archive(location: str, member: str | None) -> ShardScan:
    """Return all samples of an archive, even if their members are not next to each other."""
    state = state_of(location)
    remote = is_url(location)
    parts = remote and gives_parts(location)
    found = ShardScan(InputShard(location, "tar", state))
    samples = _MemberGroups({*_asked_for(member)})
    fault = ""
    try:
        with _unpacked(location, None if remote and not parts else state.size) as (stream, kind):
            found.shard = found.shard._replace(kind=kind, whole=remote and (kind == "gzip" or not parts))
            for head in read_heads(stream):
                samples.add(head, stream)
    except TarError as error:
        fault = str(error)
        # the archive ended within this sample
        samples.by_key.pop(samples.last, None)
        if not samples.by_key:
            raise Refused(fault) from None
    chosen = _Choice(without_secrets(location), member, samples.by_key)
    for key, sample in samples.by_key.items():
        chosen.add(key, sample, found)
    # workers read the inputs in their order in the archive
    found.rows.sort(key=lambda row: row[1])
    if fault:
        found.rows.append(
            (REST, state.size, 0, {}, f"{fault}; the samples before that are read; fix or remove the archive")
        )
        found.cut = True
    return found


def _asked_for(member: str | None) -> list[str]:
    """Return the fields that --member names."""
    return [name.strip().lower() for name in member.split(";")] if member else []


class _MemberGroups:
    """The samples of an archive by their keys."""

    def __init__(self, asked: set[str]) -> None:
        # the fields that --member names are not labels
        self.by_key: dict[str, _MemberGroup] = {}
        self._asked = asked
        self.last = ""
        self._held = 0

    def add(self, head: MemberHead, stream: CountedStream) -> None:
        """Add a member to its sample; skip hidden names, and names like __this__."""
        name = safe_name(head.name)
        parts = name.split("/")
        if any(part.startswith(".") or re.fullmatch("__.*__", part) for part in parts):
            return
        self.last, extension = split_name(name)
        sample = self.by_key.setdefault(self.last, _MemberGroup())
        what, start = extension.lower(), stream.at
        if head.wrong:
            sample.fault = sample.fault or head.wrong
        elif what in sample.fields:
            sample.fault = sample.fault or f"member {head.name!r} occurs twice"
        elif is_too_long(parts):
            sample.fault = f"the name {head.name[:40]!r}… is too long for a file"
        elif head.size <= LONGEST_LABEL and what not in self._asked and _last(what) not in SOUND | _PICKLED:
            self._held += head.size
            if self._held > MOST_LABELS:
                why = f"the labels of its samples are more than {MOST_LABELS:,} bytes"
                remedy = "if they are the inputs, use --member; if not, split the archive: splitter tar split"
                raise Refused(str(stream.error(f"{why}; {remedy}")))
            sample.texts[what] = stream.exactly(head.size)
        sample.fields.setdefault(what, (name, start, head.size))


@contextlib.contextmanager
def _unpacked(location: str, size: int | None) -> Iterator[tuple[CountedStream, Kind]]:
    """Open an archive; `size` is its number of bytes if it can be sought in, else None."""
    name = without_secrets(location)
    with open_shard(location) as file:
        start = cast("Any", file).peek(2)[:2]
        if not start:
            raise Refused(f"{name}: is empty, and not a tar archive")
        if start == GZIP:
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                yield CountedStream(cast("BinaryIO", unpacked), name), "gzip"
        else:
            yield CountedStream(file, name, size), "tar"


def safe_name(name: str) -> str:
    """Return a name that a file can have and that leads to no other folder; most names stay as they are."""
    name = name.replace("\0", "%00")
    if name.startswith("/"):
        name = f"%2F{name[1:]}"
    parts = ["%2E%2E" if part == ".." else part for part in name.split("/")]
    return posixpath.normpath("/".join(parts)) if name else "(no name)"


def is_too_long(parts: list[str]) -> bool:
    """Return whether a path is too long for a file."""
    sizes = [len(part.encode(ENCODING, ESCAPE)) for part in parts]
    return max(sizes) > LONGEST_NAME or sum(sizes) + len(sizes) > LONGEST_PATH


def _last(extension: str) -> str:
    """Return the last extension of a field: `png` for `seg.png`."""
    return extension.rpartition(".")[2]


class _Choice:
    """Choice of each sample's input: the member that --member names, or the only one that is not a label."""

    def __init__(self, location: str, member: str | None, samples: Mapping[str, _MemberGroup]) -> None:
        self._location = location
        self._asked = _asked_for(member)
        kinds = {name for sample in samples.values() for name in sample.fields}
        # if all members are labels, they are the inputs
        self._labels_only = all(_last(name) in _LABELS | _PICKLED for name in kinds)

    def add(self, key: str, sample: _MemberGroup, found: ShardScan) -> None:
        """Add the input of a sample, with its labels; only count a sample without an input."""
        fields = sample.fields
        name = self._of(key, [*fields])
        if name is None and sample.fault:
            name = next(iter(fields))
        if name is None:
            found.without += 1
            found.instead = found.instead or tuple(fields)
            return
        labels = {} if sample.fault else _labels(sample, name, found)
        found.rows.append((*fields[name], labels, sample.fault and f"{self._location}: {sample.fault}"))

    def _of(self, key: str, fields: list[str]) -> str | None:
        if self._asked:
            return next((name for name in self._asked if name in fields), None)
        candidates = [name for name in fields if _last(name) not in _LABELS | _PICKLED]
        if not candidates and self._labels_only:
            candidates = fields
        if len(candidates) > 1:
            sound = [name for name in candidates if _last(name) in SOUND]
            candidates = sound or candidates
        if len(candidates) > 1:
            there = ", ".join(candidates[:FIELDS_SHOWN])
            raise Refused(
                f"{self._location}: sample {key!r} has {there}; choose the input with --member "
                f"{candidates[0]!r}"
            )
        return candidates[0] if candidates else None


def _labels(sample: _MemberGroup, chosen: str, found: ShardScan) -> dict[str, str]:
    """Return the columns made from the other members of a sample."""
    columns: dict[str, str] = {}
    objects: list[tuple[str, str]] = []
    for name in sample.fields:
        if name == chosen:
            continue
        text = _text(sample.texts.get(name))
        if text is None or not name:
            found.not_text[name or "(no extension)"] += 1
        elif _last(name) in _JSON and (flat := _flat(text)) is not None:
            objects += flat
        else:
            columns[name] = text.removesuffix("\n").removesuffix("\r")
    for name, text in objects:
        free = name
        while free in columns:
            free = f"json.{free}"
        columns[free] = text
    return columns


def _text(content: bytes | None) -> str | None:
    if content is None or b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _flat(text: str) -> list[tuple[str, str]] | None:
    """Return the values of a JSON object by name, inner ones as outer.inner; None for other text."""
    try:
        value = json_value(text)
        return [*_flatten(value, "")] if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _flatten(value: dict[str, Any], before: str) -> Iterator[tuple[str, str]]:
    for name, one in value.items():
        full = _writable(f"{before}{name}") or "json"
        if isinstance(one, dict):
            yield from _flatten(one, f"{full}.")
        else:
            yield full, _writable(json_text(one))


def _writable(text: str) -> str:
    """Return a text that can be written as UTF-8, with escapes if necessary."""
    try:
        text.encode(ENCODING, ESCAPE)
    except UnicodeEncodeError:
        return text.encode(ENCODING, "backslashreplace").decode()
    return text
