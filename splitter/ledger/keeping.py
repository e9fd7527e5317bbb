"""Which outputs `--keep` keeps: a condition on the columns of the manifest, such as `snr > 15`.

Only the condition is stored; the column of the manifest is made from it each time. So if the condition
changes, no commit record does, and no input is redone, except in shards, which hold only what is kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from splitter.errors import Refused, StorageError
from splitter.ledger.records import OUTPUT_COLUMNS
from splitter.ledger.run_files import KEEP
from splitter.storage.base import Storage
from splitter.text.conditions import columns_in, condition
from splitter.text.csv import Row

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "kept"
OPTION = "--keep"
# set in the attrs of a manifest whose column `kept` comes from --keep
KEPT = "splitter kept"


@dataclass
class KeepTally:
    """The number of output files, and how many of them are kept."""

    outputs: int = 0
    kept: int = 0


@dataclass(frozen=True)
class KeepRule:
    """A rule that says which outputs are kept.

    Attributes:
        where: The condition.
    """

    where: str

    def of(self, header: Sequence[str], root: str, tally: KeepTally | None = None) -> Callable[[Row], str]:
        """Return a function that returns `kept` for a row and counts it, or "" if columns are missing."""
        if COLUMN in header:
            raise StorageError(
                f"{root}: the metadata has a key {COLUMN!r}, which is a column of {OPTION}; rename the key, "
                f"or run with {OPTION} ''"
            )
        if self.missing(header):
            return lambda _: ""
        holds, at = condition(self.where, header, OPTION), header.index(OUTPUT_COLUMNS[0])

        def counted(row: Row) -> str:
            # an output that a sink left out has no file
            is_kept = holds(row) and row[at] != ""
            if tally and row[at]:
                tally.outputs += 1
                tally.kept += is_kept
            return str(is_kept)

        return counted

    def missing(self, header: Sequence[str]) -> list[str]:
        """Return the columns of the condition that the manifest does not have."""
        return [name for name in columns_in(self.where, OPTION) if name not in header]

    @staticmethod
    def store(storage: Storage, where: str) -> None:
        """Store the condition, so that every manifest of this folder has the column; if empty, remove it."""
        if where:
            KEEP.save(storage, {"where": where})
        elif storage.exists(KEEP.name):
            storage.remove([KEEP.name])
            storage.sync([KEEP.name])

    @classmethod
    def stored(cls, storage: Storage) -> "KeepRule | None":
        """Return the stored rule, if there is one."""
        return KEEP.load(storage, _parsed)


def _parsed(content: dict[str, object], _: bytes) -> KeepRule:
    rule = KeepRule(str(content["where"]))
    columns_in(rule.where, OPTION)
    return rule


def refuse_keep_column(storage: Storage, columns: Row, where: str | None) -> None:
    """Refuse a dataset list that already has the column that `--keep` adds, and a damaged rule."""
    if where is None:
        KeepRule.stored(storage)
    if COLUMN in columns and (where or (where is None and storage.exists(KEEP.name))):
        raise Refused(
            f"the dataset list has a column {COLUMN!r}, which {OPTION} adds to the manifest; use --rename "
            f"{COLUMN}=NEW, or run with {OPTION} ''"
        )


def is_left_out(kept: object) -> bool:
    """Return whether a value of the column `kept` is false; spreadsheets write it in capitals."""
    return str(kept).lower() == "false"


def is_left_out_in(manifest: "pd.DataFrame") -> np.ndarray:
    """Return which rows `--keep` left out; none if the manifest was made without it."""
    if not manifest.attrs.get(KEPT) or COLUMN not in manifest.columns:
        return np.zeros(len(manifest), bool)
    return np.fromiter(map(is_left_out, manifest[COLUMN]), bool, len(manifest))
