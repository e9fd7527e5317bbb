"""Choose what to listen to first: the extremes of all outputs, and what is unusual for its label."""

from collections.abc import Callable, Mapping

import numpy as np

from splitter.report.levels import Levels
from splitter.report.table import TECHNICAL, ReportTable
from splitter.storage.layout import key_hash
from splitter.text.labels import labels_in

# random outputs are added until there are this many; also the most that are unusual for their labels
WORTH_A_LISTEN = 8
# fewer outputs of a label do not say what is usual for it
FEWEST = 8
# how many usual deviations from the median of its label make an output unusual
UNUSUAL = 4.0
# in a normal distribution, the standard deviation is this many median absolute deviations
_NORMAL = 1.4826

_Choice = tuple[str, Callable[[Levels], float], Callable[[Levels], bool]]
_EXTREMES: tuple[_Choice, ...] = (
    ("most clipped", lambda one: -one.clipped, lambda one: one.clipped > 0),
    ("loudest", lambda one: -one.rms_db, lambda _: True),
    ("quietest", lambda one: one.rms_db, lambda _: True),
    ("most silence", lambda one: -one.silence, lambda one: one.silence > 0),
    ("shortest", lambda one: one.seconds, lambda _: True),
    ("longest", lambda one: -one.seconds, lambda _: True),
)
# the words for less and for more than usual, the measure, and a deviation too small to be heard
_MEASURES: tuple[tuple[str, str, Callable[[Levels], float], float], ...] = (
    ("quiet", "loud", lambda one: one.rms_db, 1.0),
    ("little silence", "much silence", lambda one: 100 * one.silence, 5.0),
    ("flat", "peaky", lambda one: one.peak_db - one.rms_db, 1.0),
    ("short", "long", lambda one: float(np.log2(max(one.seconds, 1e-3))), 0.25),
)


def worth_a_listen(levels: Mapping[int, Levels], table: ReportTable) -> list[tuple[int, str]]:
    """Return rows to listen to, with the reason for each; the choice is the same each time."""
    found = extremes(levels)
    own = unusual_for_label(levels, table, found)
    for row in sorted(levels, key=lambda row: key_hash(str(row))):
        if len(found) + len(own) >= min(WORTH_A_LISTEN, len(levels)):
            break
        if row not in own:
            found.setdefault(row, "random")
    return [*found.items(), *own.items()]


def extremes(levels: Mapping[int, Levels]) -> dict[int, str]:
    """Choose the extremes of all outputs."""
    found: dict[int, str] = {}
    for reason, key, counts in _EXTREMES:
        keys = {row: key(one) for row, one in levels.items()}
        # if all are equal, none is an extreme
        if len({*keys.values()}) > 1:
            row = min(keys, key=lambda row: (keys[row], row))
            if counts(levels[row]):
                found[row] = f"{found[row]}, {reason}" if row in found else reason
    return found


def unusual_for_label(
    levels: Mapping[int, Levels], table: ReportTable, leave_out: Mapping[int, str]
) -> dict[int, str]:
    """Choose outputs that differ most from others with the same label, at most one per label.

    The labels are those of the first column with an unusual output.
    """
    columns = (name for name in table.facets if name not in {"split", *TECHNICAL})
    found = (_unusual_in(column, levels, table, leave_out) for column in columns)
    return next((one for one in found if one), {})


def _unusual_in(
    column: str, levels: Mapping[int, Levels], table: ReportTable, leave_out: Mapping[int, str]
) -> dict[int, str]:
    cells = table.texts(column)
    by_label: dict[str, list[int]] = {}
    for row in levels:
        for label in labels_in(column, cells[row]):
            by_label.setdefault(label, []).append(row)
    numbers = {row: [measure(one) for *_, measure, _ in _MEASURES] for row, one in levels.items()}
    candidates = []
    for label, rows in by_label.items():
        if len(rows) >= FEWEST:
            scores = _deviations(np.array([numbers[row] for row in rows]))
            scores[[row in leave_out for row in rows]] = 0
            at, which = np.unravel_index(np.argmax(np.abs(scores)), scores.shape)
            less, more, *_ = _MEASURES[which]
            score = float(scores[at, which])
            candidates.append((-abs(score), rows[at], f"{more if score > 0 else less} for {label}"))
    found: dict[int, str] = {}
    for score, row, why in sorted(candidates):
        if -score > UNUSUAL and len(found) < WORTH_A_LISTEN:
            found.setdefault(row, why)
    return found


def _deviations(numbers: np.ndarray) -> np.ndarray:
    """Return how far numbers are from the median of their column, in multiples of the usual deviation."""
    far = numbers - np.median(numbers, axis=0)
    usual = _NORMAL * np.median(np.abs(far), axis=0)
    scores: np.ndarray = far / np.maximum(usual, [least for *_, least in _MEASURES])
    return scores
