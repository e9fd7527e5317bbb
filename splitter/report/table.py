"""The rows of the report: those of the manifest, then those of the inputs that failed."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xxhash

from splitter.ledger.records import ERROR_COLUMNS
from splitter.outputs.frame import Manifest
from splitter.text.csv import ENCODING, ESCAPE, in_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping

# what a row is, as the page knows it
OUTPUT, NO_FILE, SKIPPED, FAILED = range(4)
# not worth a column: nobody looks at it, and it cannot be made any smaller
LEFT_OUT = ("checksum", "skipped", *ERROR_COLUMNS)
LONGEST_TEXT = 1000
DIGITS = 7
FEW_VALUES, MOST_VALUES = 12, 1000
MOST_FACETS = 8
LONGEST_LABEL = 60
MOST_INPUTS_NAMED = 200
MOST_GROUPS = 100
# what is looked at first, where there is a choice
LIKELY_LABELS = ("split", "label", "labels", "class", "category", "speaker", "language", "lang")
NEVER_LABELS = ("input", "output", "label_starts", "label_ends")
TECHNICAL = ("sample_rate", "channels", "source_rate", "source_format")
# a bar that the text of a label may hold itself is marked so
_BETWEEN_LABELS = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SOUND = "wav flac mp3 ogg oga opus aiff aif aifc au snd caf w64 rf64 m4a mp4 webm wma"
_IMAGE = "png jpg jpeg gif webp avif svg bmp"
_TEXT = "txt csv tsv json jsonl ndjson md srt vtt textgrid rttm ctm lab xml yaml yml toml html htm log"
_KINDS = {"sound": _SOUND, "image": _IMAGE, "text": _TEXT}
_KIND_OF = {ending: kind for kind, endings in _KINDS.items() for ending in endings.split()}


def kind_of(name: str) -> str:
    """What an output is, by what its name ends with: sound, image, text, or other."""
    return _KIND_OF.get(name.rpartition(".")[2].lower(), "other")


@dataclass(frozen=True)
class ReportTable:
    """The rows that the page lists.

    Attributes:
        rows: Those of the manifest that are listed, then those of errors.csv.
        state: What each of them is.
        total: How many there are, listed or not.
        manifest: All rows of the manifest.
        failed: All rows of errors.csv.
        dataset: Which columns are of the dataset list.
        listed: Which of them names the inputs.
    """

    rows: pd.DataFrame
    state: np.ndarray
    total: int
    manifest: pd.DataFrame
    failed: pd.DataFrame
    dataset: Sequence[str]
    listed: str

    @classmethod
    def of(cls, manifest: Manifest, most: int, listed: str) -> "ReportTable":
        """Take all inputs, or so many whole ones that there are not too many rows."""
        failed, listed = manifest.failed, in_unicode(listed)
        for frame in (manifest, failed):
            # a name that is not UTF-8 is none to pandas, nor to a page
            frame.columns = pd.Index([*map(in_unicode, frame.columns)])
        columns = list(manifest.columns)
        dataset = columns[: columns.index("output")]
        listed = next((name for name in (listed, "input", *dataset) if name in dataset), "output")
        state = _states(manifest)
        chosen = chosen_inputs(manifest[listed], most)
        kept_failures = failed.iloc[: max(0, most)]
        rows = pd.concat([manifest[chosen], kept_failures.reindex(columns=columns)], ignore_index=True)
        states = np.concatenate([state[chosen], np.full(len(kept_failures), FAILED, "i8")])
        return cls(rows, states, len(manifest) + len(failed), manifest, failed, dataset, listed)

    def texts(self, name: str) -> list[str]:
        """A column as texts; empty where there is nothing."""
        return [str(value) for value in self.rows[name].fillna("")]


def _states(manifest: pd.DataFrame) -> np.ndarray:
    state = np.where(manifest["output"].to_numpy(object) != "", OUTPUT, NO_FILE)
    if "skipped" in manifest.columns:
        state[manifest["skipped"].fillna("").to_numpy(object) != ""] = SKIPPED
    return state


def hash_of(text: str) -> int:
    """A number for a name, the same each time and without any pattern."""
    return xxhash.xxh3_64_intdigest(text.encode(ENCODING, ESCAPE))


def chosen_inputs(inputs: "pd.Series[Any]", most: int) -> np.ndarray:
    """Which rows to list: all, or those of the inputs whose names have the least hashes."""
    if len(inputs) <= most:
        return np.ones(len(inputs), bool)
    codes, names = pd.factorize(inputs)
    order = np.argsort([hash_of(str(name)) for name in names], kind="stable")
    ends = np.cumsum(np.bincount(codes)[order])
    kept: np.ndarray = np.isin(codes, order[: max(1, int(np.searchsorted(ends, most, "right")))])
    # one input may have more outputs than can be listed: the first of them
    return kept & (np.cumsum(kept) <= most)


# -- as the page reads it ------------------------------------------------------------------------------------


def packed(values: Iterable[Any], *, whole: bool = False) -> "Mapping[str, Any] | list[Any]":
    """A column as JSON: the values, or the different ones and which of them each row has."""
    plain = [_plain(value, whole=whole) for value in values]
    first: dict[Any, int] = {}
    codes = [first.setdefault(value, len(first)) for value in plain]
    if len(first) * 2 > len(plain) and len(plain) > 1:
        return plain
    return {"values": list(first), "codes": codes}


def _plain(value: Any, *, whole: bool = False) -> Any:  # noqa: ANN401 - a cell
    if value is None or value is pd.NA:
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    text = str(value)
    return text if whole or len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


# -- labels --------------------------------------------------------------------------------------------------


def labels_of(name: str, text: str) -> list[str]:
    """The labels in a cell: the recipes for sound put several into one."""
    if name != "labels":
        return [text] if text else []
    return [one.replace("\\|", "|") for one in _BETWEEN_LABELS.split(text)] if text else []


def facets(table: ReportTable) -> list[str]:
    """The columns whose values say of what kind a row is, those that are looked for most first."""
    names = [name for name in table.manifest.columns if _is_facet(table, name)]

    def order(name: str) -> tuple[bool, int]:
        likely = LIKELY_LABELS.index(name) if name in LIKELY_LABELS else len(LIKELY_LABELS)
        return name in TECHNICAL, likely

    plain = sorted(names, key=order)
    kept = [name for name in plain if name not in TECHNICAL][:MOST_FACETS]
    return kept + [name for name in plain if name in TECHNICAL]


def _is_facet(table: ReportTable, name: str) -> bool:
    never = name in {*LEFT_OUT, *NEVER_LABELS, table.listed} or name.startswith("from_")
    if never or (name.startswith("source_") and name not in TECHNICAL):
        return False
    column = table.manifest[name]
    number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if number and name not in TECHNICAL:
        return False
    if name == "source_rate":
        return "sample_rate" in table.manifest.columns and not column.equals(table.manifest["sample_rate"])
    values = {one for value in column.dropna().unique() for one in labels_of(name, str(value))}
    if name == "sample_rate" or name in LIKELY_LABELS:
        return bool(values)
    inputs = table.manifest[table.listed].nunique()
    most = min(MOST_VALUES, max(FEW_VALUES, inputs // 2))
    return 1 < len(values) <= most and all(len(one) <= LONGEST_LABEL for one in values)


def balance(table: ReportTable, name: str, seconds: np.ndarray | None) -> list[dict[str, Any]]:
    """How many outputs there are of each value, how long they are, and how they are split."""
    mine = table.manifest["output"].to_numpy(object) != ""
    cells = table.manifest[name][mine]
    by_split = name != "split" and "split" in table.manifest.columns
    parts = table.manifest["split"][mine].fillna("").astype(str) if by_split else cells.iloc[:0]
    codes, values = pd.factorize(cells.fillna("") if cells.dtype == object else cells, use_na_sentinel=False)
    counts = np.bincount(codes, minlength=len(values))
    lengths = np.bincount(codes, seconds[mine], len(values)) if seconds is not None else counts * 0.0
    found: dict[str, dict[str, Any]] = {}
    part_codes, part_names = pd.factorize(parts)
    shares = np.zeros((len(values), len(part_names)), "i8")
    np.add.at(shares, (codes[: len(part_codes)], part_codes), 1)
    for code, value in enumerate(values):
        text = "" if value is None or value is pd.NA or value != value else str(_plain(value))  # noqa: PLR0124
        some = np.flatnonzero(shares[code])
        for label in labels_of(name, text) or [""]:
            one = found.setdefault(label, {"value": label, "outputs": 0, "seconds": 0.0, "split": {}})
            one["outputs"] += int(counts[code])
            one["seconds"] += float(lengths[code])
            for at in some.tolist():
                part, count = str(part_names[at]), int(shares[code, at])
                one["split"][part] = one["split"].get(part, 0) + count
    return sorted(found.values(), key=lambda one: -one["outputs"])


# -- failures ------------------------------------------------------------------------------------------------


def _without(message: str, name: str) -> str:
    """A message without the path of an input, wherever that begins."""
    before, *parts = message.split(name) if name else [message]
    for part in parts:
        if before[-1:].strip():
            before = before[: -len(before.split()[-1])]
        before += f"…{part}"
    return before


def causes(table: ReportTable) -> tuple[list[dict[str, Any]], list[int]]:
    """The failures by cause, the most frequent first; and of each row of errors.csv, which cause it has.

    Messages are alike when they differ in the input's own name and in numbers only.
    """
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    keys = []
    for row in table.failed.to_dict("records"):
        name, message = str(row[table.listed]), str(row["message"])
        key = (str(row["error"]), _NUMBER.sub("0", _without(message, name)))
        keys.append(key)
        group = groups.setdefault(
            key,
            {
                "error": key[0],
                "message": message[: 4 * LONGEST_TEXT],
                "traceback": str(row["traceback"])[-4 * LONGEST_TEXT :],
                "count": 0,
                "inputs": [],
            },
        )
        group["count"] += 1
        if len(group["inputs"]) < MOST_INPUTS_NAMED:
            group["inputs"].append(name)
    order = sorted(groups, key=lambda key: -groups[key]["count"])
    number = {key: index for index, key in enumerate(order)}
    return [groups[key] for key in order], [number[key] for key in keys]
