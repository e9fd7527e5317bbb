"""The top of the page: what ran, totals, plots, labels, failures."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from splitter.errors import Refused
from splitter.ledger.run_files import LAST_RUN, LIST, LISTED, RUN, RunFile
from splitter.outputs.files import Files
from splitter.outputs.tables import open_table
from splitter.report.levels import SILENCE_DB
from splitter.report.looking import Looks
from splitter.report.table import (
    LEFT_OUT,
    MOST_VALUES,
    NO_FILE,
    SKIPPED,
    TECHNICAL,
    ReportTable,
    balance,
    kind_of,
    states_of,
)
from splitter.storage.checked_file import json_of

FEWEST_BINS, MOST_BINS = 12, 40
# the measured values, and the number of decimals on the page
LEVELS = {"rms_db": 1, "peak_db": 1, "silence": 1}
# above this ratio, a range is easier to read in growing steps
WIDE = 200
MOST_PLOTS_OF_METADATA = 4
_PLACES = ("start", "end", "frames", "stop_sample", "shard_offset", "size")


@dataclass(frozen=True)
class RunFacts:
    """Facts that the run keeps next to its outputs, as far as they exist.

    Attributes:
        how: The recipe, its parameters and the sink.
        listed: The column of the list that names inputs, and the folder that contains them.
        last: How long the last run took, and what it did.
    """

    how: Mapping[str, Any]
    listed: Mapping[str, Any]
    last: Mapping[str, Any]

    @classmethod
    def of(cls, files: Files) -> "RunFacts":
        """Read the facts."""
        return cls(_json(files, RUN), _json(files, LISTED), _json(files, LAST_RUN))

    @property
    def recipe(self) -> str:
        """The name of the recipe."""
        name, file = str(self.how.get("recipe", "")), str(self.how.get("file of the recipe", ""))
        return file if file and file == name.lower() else name

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that are set, as text."""
        found = {
            name.removeprefix("parameter "): value
            for name, value in self.how.items()
            if name.startswith("parameter ") and value is not None
        }
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}


def _json(files: Files, file: RunFile) -> dict[str, Any]:
    if not files.exists(file.name):
        return {}
    try:
        content = json_of(files.read(file.name))
    except ValueError as error:
        raise Refused(f"{files.location(file.name)}: {file.fault_of(error)}") from None
    return content if isinstance(content, dict) else {}


@dataclass(frozen=True)
class Lengths:
    """Lengths of outputs.

    Attributes:
        all: For each row of the manifest, if the manifest has lengths.
        rows: For each row of the table, as measured or from the manifest; NaN if neither.
    """

    all: np.ndarray | None
    rows: np.ndarray

    @classmethod
    def of(cls, table: ReportTable, looks: Looks) -> "Lengths":
        """Compute them from `frames` and `sample_rate`, or from what was read."""
        whole = _from_columns(table.manifest)
        listed = _from_columns(table.rows)
        rows = np.full(len(table.rows), np.nan) if listed is None else listed.copy()
        for row, levels in looks.levels.items():
            rows[row] = levels.seconds
        if whole is None and len(looks.levels) == len(table.rows) == len(table.manifest):
            whole = rows
        return cls(whole, rows)


def _from_columns(frame: pd.DataFrame) -> np.ndarray | None:
    numbers = []
    for name in ("frames", "sample_rate"):
        if name not in frame.columns or not pd.api.types.is_numeric_dtype(frame[name]):
            return None
        numbers.append(frame[name].to_numpy("f8", na_value=np.nan))
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds: np.ndarray = numbers[0] / numbers[1]
    seconds[~np.isfinite(seconds)] = np.nan
    return seconds


def inputs_left(files: Files, table: ReportTable) -> int:
    """Return how many inputs of the run were not tried yet: those in neither manifest nor errors.csv."""
    if table.listed not in table.dataset or not files.exists(LIST.name):
        return 0
    header, rows = open_table(files, LIST.name, [], table.dataset)
    if table.listed not in header:
        return 0
    at = header.index(table.listed)
    listed = {row[at] for row in rows}
    listed.difference_update(table.manifest[table.listed])
    if len(table.failed):
        listed.difference_update(table.failed[table.listed])
    return len(listed)


def summary_of(
    table: ReportTable, lengths: Lengths, looks: Looks, kept: RunFacts, left: int
) -> dict[str, Any]:
    """Return what ran and what came of it; `left` inputs were not tried yet."""
    labels = labels_of_all(table, lengths)
    if not any(one["column"] == "sample_rate" for one in labels):
        labels += rates_of(looks)
    clipped = sum(1 for one in looks.levels.values() if one.clipped > 0)
    return {
        "recipe": kept.recipe,
        "parameters": kept.parameters,
        "sink": kept.how.get("sink", ""),
        "numbers": numbers_of(table, lengths, kept, left),
        "kinds": dict(Counter(map(kind_of, filter(None, table.manifest["output"].to_numpy(object))))),
        "rows": len(table.rows),
        "rows_total": table.total,
        "measured": len(looks.chosen),
        "plots": plots_of(table, lengths, looks),
        "clipping": {"clipped": clipped, "measured": len(looks.levels)},
        "labels": labels,
        "texts": table.text_columns,
    }


def numbers_of(table: ReportTable, lengths: Lengths, kept: RunFacts, left: int) -> dict[str, Any]:
    """Return the totals."""
    manifest = table.manifest
    with_file = manifest["output"].to_numpy(object) != ""
    states = states_of(manifest).tolist()
    inputs = manifest[table.listed].nunique()
    found: dict[str, Any] = {
        "inputs": left + int(inputs) + int(table.failed[table.listed].nunique() if len(table.failed) else 0),
        "left": left,
        "outputs": int(with_file.sum()),
        "bytes": int(manifest["size"].fillna(0).sum()),
        "skipped": states.count(SKIPPED),
        "without": states.count(NO_FILE),
        "failed": len(table.failed),
    }
    if lengths.all is not None and with_file.any():
        found["seconds"] = round(float(np.nansum(lengths.all[with_file])), 3)
    if "source_seconds" in manifest.columns:
        each = manifest.drop_duplicates(table.listed)["source_seconds"]
        numbers = pd.to_numeric(each, errors="coerce").to_numpy("f8", na_value=np.nan)
        found["source_seconds"] = round(float(numbers[np.isfinite(numbers)].sum()), 3)
    if isinstance(kept.last.get("seconds"), (int, float)):
        numbers = {name: value for name, value in kept.last.items() if isinstance(value, (int, float))}
        found["run"] = {name: value for name, value in numbers.items() if math.isfinite(value)}
    return found


# -- plots -------------------------------------------------------------------------------------------------


def plots_of(table: ReportTable, lengths: Lengths, looks: Looks) -> list[dict[str, Any]]:
    """Return the histograms, each with the name of its column."""
    measured = f"{len(looks.levels):,} measured"
    levels = looks.levels.values()
    plots = []
    if lengths.all is not None or looks.levels:
        seconds = lengths.all if lengths.all is not None else lengths.rows
        plots.append(_histogram("seconds", "Length", "s", seconds))
    if looks.levels:
        rms, peak, silence = np.array([(one.rms_db, one.peak_db, 100 * one.silence) for one in levels]).T
        below = f"below {SILENCE_DB:g} dBFS"
        plots += [
            _histogram("rms_db", "Level (RMS)", "dBFS", rms, note=measured),
            _histogram("peak_db", "Peak", "dBFS", peak, note=measured),
            _histogram("silence", "Silence", "%", silence, note=below, span=(0.0, 100.0)),
        ]
    else:
        sizes = table.manifest["size"].to_numpy("f8", na_value=np.nan)
        plots.append(_histogram("size", "Size", "bytes", sizes))
        per_input = table.manifest[table.manifest["output"] != ""][table.listed].value_counts().to_numpy("f8")
        plots.append(_histogram("", "Outputs per input", "", per_input))
        plots += [_histogram(name, name, "", values) for name, values in _numeric(table)]
    return [plot for plot in plots if plot["values"]]


def _numeric(table: ReportTable) -> Iterator[tuple[str, np.ndarray]]:
    """Yield numeric metadata, except the position of a piece."""
    found = 0
    for name in table.manifest.columns:
        known = name in {*LEFT_OUT, *TECHNICAL} or name.startswith(("source_", *_PLACES))
        column = table.manifest[name]
        number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        if number and not known and found < MOST_PLOTS_OF_METADATA:
            values = column.to_numpy("f8", na_value=np.nan)
            # a column with the same value everywhere shows nothing
            if np.nanmin(values, initial=np.inf) < np.nanmax(values, initial=-np.inf):
                found += 1
                yield name, values


def _histogram(  # noqa: PLR0913 - what a plot has
    column: str,
    title: str,
    unit: str,
    values: np.ndarray,
    *,
    note: str = "",
    span: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Count values in equal steps, or in growing steps if the range is wide."""
    values = values[np.isfinite(values)]
    if column in LEVELS:
        # rounded like the rows of the page, so that a bar selects the rows it counts
        values = np.array([round(value, LEVELS[column]) for value in values.tolist()])
    plot: dict[str, Any] = {
        "column": column,
        "title": title,
        "unit": unit,
        "note": note,
        "values": len(values),
    }
    if not len(values):
        return plot
    least, most = float(values.min()), float(values.max())
    median = float(np.median(values))
    plot |= {"least": _short(least), "median": _short(median), "most": _short(most)}
    if _short(least) == _short(most) and span is None:
        return plot
    bins = int(min(MOST_BINS, max(FEWEST_BINS, 2 * len(values) ** 0.5)))
    wide = span is None and least > 0 and most / least > WIDE
    low, high = span or _rounded(least, most)
    edges = np.geomspace(least, most, bins + 1) if wide else np.linspace(low, high, bins + 1)
    edges = np.array([_short(edge) for edge in edges])
    edges[-1] = max(edges[-1], most)
    edges[0] = min(edges[0], least)
    plot |= {
        "edges": edges.tolist(),
        "counts": np.histogram(values, edges)[0].tolist(),
        "wide": wide,
    }
    return plot


def _rounded(least: float, most: float) -> tuple[float, float]:
    """Round the ends of a range to readable numbers."""
    step = 10 ** np.floor(np.log10((most - least) / 4))
    low, high = float(np.floor(least / step) * step), float(np.ceil(most / step) * step)
    return (0.0 if 0 < low < (most - least) / 4 else low), high


def _short(number: float) -> float:
    return float(f"{number:.6g}")


def labels_of_all(table: ReportTable, lengths: Lengths) -> list[dict[str, Any]]:
    """Return the distribution of each label column, with its most frequent values."""
    found = []
    for name in table.facets:
        values = balance(table, name, lengths.all)
        rest = values[MOST_VALUES:]
        others = {"values": len(rest), "outputs": sum(one["outputs"] for one in rest)}
        found.append({"column": name, "values": values[:MOST_VALUES], "others": others})
    return found


def rates_of(looks: Looks) -> list[dict[str, Any]]:
    """Return the measured sample rates, if the manifest does not have them."""
    rates = Counter(sorted(one.rate for one in looks.levels.values()))
    rows = [
        {"value": str(rate), "outputs": count, "seconds": 0.0, "split": {}}
        for rate, count in rates.most_common()
    ]
    return [{"column": "", "title": "sample_rate (measured)", "values": rows}] if rows else []
