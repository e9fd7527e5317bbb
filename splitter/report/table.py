"""The rows of the report: those of the manifest, then those of the inputs that failed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from splitter.annotations.transcribed import TEXTS
from splitter.ledger.records import ERROR_COLUMNS
from splitter.outputs.frame import Manifest
from splitter.storage.layout import key_hash
from splitter.text.csv import in_unicode
from splitter.text.labels import COLUMN_OF_LABELS, EARLIER, labels_in, name_when_made
from splitter.text.show import shortened

# the states of a row, as the page knows them
OUTPUT, NO_FILE, SKIPPED, FAILED = range(4)
# not worth a column: nobody reads it, and it cannot be compressed
LEFT_OUT = ("checksum", "skipped", *ERROR_COLUMNS)
LONGEST_TEXT = 1000
DIGITS = 7
FEW_VALUES, MOST_VALUES = 12, 1000
MOST_FACETS = 8
LONGEST_LABEL = 60
# a column is a text if its values have this many words, on average over this many of them
TEXT_WORDS, TEXTS_LOOKED_AT = 4, 1000
MOST_INPUTS_NAMED = 200
MOST_GROUPS = 100
# columns to show first, if there is a choice
LIKELY_LABELS = ("split", "label", "labels", "class", "category", "speaker", "language", "lang")
NEVER_LABELS = ("input", "output", "label_starts", "label_ends")
TECHNICAL = ("sample_rate", "channels", "source_rate", "source_format")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SOUND = "wav flac mp3 ogg oga opus aiff aif aifc au snd caf w64 rf64 m4a mp4 webm wma"
_IMAGE = "png jpg jpeg gif webp avif svg bmp"
_TEXT = "txt csv tsv json jsonl ndjson md srt vtt textgrid rttm ctm lab xml yaml yml toml html htm log"
_KINDS = {"sound": _SOUND, "image": _IMAGE, "text": _TEXT}
_KIND_OF = {ending: kind for kind, endings in _KINDS.items() for ending in endings.split()}


def kind_of(name: str) -> str:
    """Return the kind of an output by its extension: sound, image, text, or other."""
    return _KIND_OF.get(name.rpartition(".")[2].lower(), "other")


@dataclass(frozen=True)
class ReportTable:
    """The rows that the page lists.

    Attributes:
        rows: The listed rows of the manifest, then those of errors.csv.
        state: The state of each row.
        total: Number of rows, listed or not.
        manifest: All rows of the manifest.
        failed: All rows of errors.csv.
        dataset: The columns of the dataset list.
        listed: The column of the dataset list that names the inputs.
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
        """Take all inputs, or if there are too many rows, all rows of some inputs."""
        failed, listed = manifest.failed, in_unicode(listed)
        for frame in (manifest, failed):
            # neither pandas nor a page accepts a name that is not UTF-8
            frame.columns = pd.Index([*map(in_unicode, frame.columns)])
        columns = list(manifest.columns)
        dataset = columns[: columns.index("output")]
        listed = next((name for name in (listed, "input", *dataset) if name in dataset), "output")
        state = states_of(manifest)
        chosen = chosen_inputs(manifest[listed], most)
        kept_failures = failed.iloc[:most]
        rows = pd.concat([manifest[chosen], kept_failures.reindex(columns=columns)], ignore_index=True)
        states = np.concatenate([state[chosen], np.full(len(kept_failures), FAILED, "i8")])
        return cls(rows, states, len(manifest) + len(failed), manifest, failed, dataset, listed)

    @cached_property
    def text_columns(self) -> list[str]:
        """Columns that hold text to read, such as transcripts."""
        return [str(name) for name in self.manifest.columns if _is_text(self, name)]

    @cached_property
    def facets(self) -> list[str]:
        """Label columns, the most useful ones first."""
        names = [name for name in self.manifest.columns if _is_facet(self, name)]

        def order(name: str) -> tuple[bool, int]:
            made = name_when_made(name)
            likely = LIKELY_LABELS.index(made) if made in LIKELY_LABELS else len(LIKELY_LABELS)
            return name in TECHNICAL, likely

        plain = sorted(names, key=order)
        kept = [name for name in plain if name not in TECHNICAL][:MOST_FACETS]
        return kept + [name for name in plain if name in TECHNICAL]

    def texts(self, name: str) -> list[str]:
        """Return a column as text; missing values are empty."""
        return [str(value) for value in self.rows[name].fillna("")]


def states_of(manifest: pd.DataFrame) -> np.ndarray:
    """Return the state of each row of the manifest."""
    state = np.where(manifest["output"].to_numpy(object) != "", OUTPUT, NO_FILE)
    if "skipped" in manifest.columns:
        state[manifest["skipped"].fillna("").to_numpy(object) != ""] = SKIPPED
    return state


def chosen_inputs(inputs: "pd.Series[Any]", most: int) -> np.ndarray:
    """Return the rows to list: all, or those of the inputs whose names have the smallest hashes."""
    if len(inputs) <= most:
        return np.ones(len(inputs), bool)
    codes, names = pd.factorize(inputs)
    order = np.argsort([key_hash(str(name)) for name in names], kind="stable")
    ends = np.cumsum(np.bincount(codes)[order])
    kept: np.ndarray = np.isin(codes, order[: max(1, int(np.searchsorted(ends, most, "right")))])
    # one input may have more outputs than fit in the list: take the first of them
    return kept & (np.cumsum(kept) <= most)


# -- as the page reads it ------------------------------------------------------------------------------------


def packed(values: Iterable[Any], *, whole: bool = False) -> Mapping[str, Any] | list[Any]:
    """Return a column as JSON: its values, or its distinct values and an index for each row."""
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
    return text if whole else shortened(text, LONGEST_TEXT)


# -- labels --------------------------------------------------------------------------------------------------


def _is_text(table: ReportTable, name: str) -> bool:
    """Return whether a column has transcripts or captions, not labels, judging by its name and its values."""
    made = name_when_made(name)
    if made in {*LEFT_OUT, *NEVER_LABELS, COLUMN_OF_LABELS, table.listed} or made.startswith("source_"):
        return False
    column = table.manifest[name]
    if pd.api.types.is_numeric_dtype(column):
        return False
    values = [str(value) for value in column.dropna().unique() if value != ""]
    most_differ = len(values) * 2 > table.manifest[table.listed].nunique()
    if made.lower() in TEXTS[:-1]:
        return most_differ or len(values) > FEW_VALUES
    some = values[:TEXTS_LOOKED_AT]
    return most_differ and sum(len(one.split()) for one in some) >= TEXT_WORDS * max(1, len(some))


def _is_facet(table: ReportTable, name: str) -> bool:
    made = name_when_made(name)
    never = made in {*LEFT_OUT, *NEVER_LABELS, table.listed}
    # the labels of an earlier stage are worth a look, but not the format of its files
    if never or ((made in TECHNICAL or made.startswith("source_")) and name not in TECHNICAL):
        return False
    if name in table.text_columns:
        return False
    column = table.manifest[name]
    number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if number and name not in TECHNICAL:
        return False
    if name == "source_rate":
        return "sample_rate" in table.manifest.columns and not column.equals(table.manifest["sample_rate"])
    values = {one for value in column.dropna().unique() for one in labels_in(name, str(value))}
    if name == "sample_rate" or made in LIKELY_LABELS:
        return bool(values)
    inputs = table.manifest[table.listed].nunique()
    most = min(MOST_VALUES, max(FEW_VALUES, inputs // 2))
    # columns from an earlier stage are text, even if they hold numbers
    numbers = name.startswith(EARLIER) and all(map(_is_number, values))
    return 1 < len(values) <= most and not numbers and all(len(one) <= LONGEST_LABEL for one in values)


def _is_number(text: str) -> bool:
    try:
        float(text or 0)
    except ValueError:
        return False
    return True


def balance(table: ReportTable, name: str, seconds: np.ndarray | None) -> list[dict[str, Any]]:
    """Return the values of a column, each with the number of its outputs, their length and their splits."""
    mine = table.manifest["output"].to_numpy(object) != ""
    cells = table.manifest[name][mine]
    by_split = name != "split" and "split" in table.manifest.columns
    parts = table.manifest["split"][mine].fillna("").astype(str) if by_split else cells.iloc[:0]
    codes, values = pd.factorize(cells.fillna("") if cells.dtype == object else cells, use_na_sentinel=False)
    counts = np.bincount(codes, minlength=len(values))
    # not every output has a length
    own = np.zeros(len(codes)) if seconds is None else np.nan_to_num(seconds[mine])
    lengths = np.bincount(codes, own, len(values))
    found: dict[str, dict[str, Any]] = {}
    part_codes, part_names = pd.factorize(parts)
    shares = np.zeros((len(values), len(part_names)), "i8")
    np.add.at(shares, (codes[: len(part_codes)], part_codes), 1)
    for code, value in enumerate(values):
        text = "" if value is None or value is pd.NA or value != value else str(_plain(value))  # noqa: PLR0124
        some = np.flatnonzero(shares[code])
        for label in labels_in(name, text) or [""]:
            one = found.setdefault(label, {"value": label, "outputs": 0, "seconds": 0.0, "split": {}})
            one["outputs"] += int(counts[code])
            one["seconds"] += float(lengths[code])
            for at in some.tolist():
                part, count = str(part_names[at]), int(shares[code, at])
                one["split"][part] = one["split"].get(part, 0) + count
    return sorted(found.values(), key=lambda one: -one["outputs"])


# -- failures ------------------------------------------------------------------------------------------------


def _without(message: str, name: str) -> str:
    """Return a message with `…` for the path of the input, and for folders in front of it."""
    before, *parts = message.split(name) if name else [message]
    for part in parts:
        if before[-1:].strip():
            before = before[: -len(before.split()[-1])]
        before += f"…{part}"
    return before


def causes(table: ReportTable) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the failures by cause, the most frequent first, and the cause of each row of errors.csv.

    Messages count as the same if they differ only in the name of the input and in numbers.
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
