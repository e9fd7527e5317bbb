"""Train, validation, test: the split that a group of outputs is in.

It follows from the group's own text and nothing else: no group is ever in two splits, and new files move none
of the old ones. Only the rule is stored; the column in the manifest is made from it each time.
"""

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import xxhash

from splitter.errors import Refused
from splitter.ledger.run_files import RULE
from splitter.storage.base import Storage
from splitter.text.csv import ENCODING, ESCAPE

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "split"
# in the attrs of a manifest: the columns of floats whose whole numbers are 2001 in manifest.csv, not 2001.0;
# False where only some are, or where they have more digits than a float
BARE = "splitter bare numbers"
USUAL = {"train": 0.8, "validation": 0.1, "test": 0.1}
# what all stages of processing began with, and what the last of them was given
GROUPS = ("from_input", "input")
_ALL = 1 << 64
_ROUNDING = 1e-6


@dataclass(frozen=True)
class SplitRule:
    """A rule that gives each group its split.

    Attributes:
        by: The column of the manifest whose values are the groups.
        fractions: The names of the splits, and how much of the groups each is to have.
        seed: Seed of the split; another number gives another split.
    """

    by: str
    fractions: tuple[tuple[str, float], ...]
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse fractions that do not sum to a whole."""
        for name, fraction in self.fractions:
            if not _is_number(fraction) or not 0 <= fraction <= 1:
                raise Refused(f"{name} {fraction!r}: write a fraction from 0 to 1, such as 0.8")
        whole = math.fsum(fraction for _, fraction in self.fractions)
        if abs(whole - 1) > _ROUNDING:
            named = ", ".join(f"{name} {fraction:g}" for name, fraction in self.fractions)
            raise Refused(f"{named or 'no fractions'}: must sum to 1, not {whole:g}")
        if not _is_number(self.seed) or self.seed != int(self.seed) or not 0 <= self.seed < _ALL:
            raise Refused(f"seed {self.seed!r}: must be an integer, 0 or more")

    @cached_property
    def _some(self) -> list[tuple[str, float]]:
        return [(name, fraction) for name, fraction in self.fractions if fraction]

    @cached_property
    def _ends(self) -> list[int]:
        shares = itertools.accumulate(fraction for _, fraction in self._some)
        # the last takes what rounding leaves
        return [round(share * _ALL) for share in shares][:-1]

    @property
    def names(self) -> list[str]:
        """The splits with a fraction above 0: no other can come out."""
        return [name for name, _ in self._some]

    def of(self, group: str) -> str:
        """Return the split of a group.

        >>> rule = SplitRule("speaker", (("train", 0.8), ("test", 0.2)))
        >>> [rule.of(speaker) for speaker in ("alice", "bob", "carol", "dave", "erin")]
        ['train', 'train', 'test', 'train', 'test']
        """
        number = xxhash.xxh3_64_intdigest(group.encode(ENCODING, ESCAPE), self.seed)
        return self._some[bisect.bisect_right(self._ends, number)][0]

    def keep(self, storage: Storage) -> None:
        """Store the rule, so that every manifest of this folder has the column from now on."""
        RULE.save(storage, {"by": self.by, "fractions": dict(self.fractions), "seed": self.seed})

    @classmethod
    def stored(cls, storage: Storage) -> "SplitRule | None":
        """Return the stored rule, if there is one."""
        return RULE.load(
            storage,
            lambda content, _: cls(content["by"], tuple(content["fractions"].items()), content["seed"]),
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def fractions_of(given: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the given fractions; the usual ones if there are none."""
    return tuple((given or USUAL).items())


def group_column(columns: Sequence[str], by: str | None, usual: Sequence[str] = GROUPS) -> str:
    """Return the column of the groups; by default what all pieces of one recording have in common."""
    if by is not None:
        if by not in columns:
            raise Refused(f"by {by!r}: the manifest has no such column; it has {', '.join(columns)}")
        return by
    for name in usual:
        if name in columns:
            return name
    raise Refused("the manifest has no column 'input'; name the column of the groups with by")


def split(
    manifest: "pd.DataFrame",
    fractions: Mapping[str, float] | None = None,
    /,
    *,
    by: str | None = None,
    seed: int = 0,
    **named: float,
) -> "pd.DataFrame":
    """Return the manifest with a column `split`; no group of rows is in two splits.

    Args:
        manifest: The result of `splitter.read_manifest`, or some of its rows.
        fractions: Names of splits and the share of each, such as {"train": 0.9, "dev": 0.1}.
        by: The column of the groups, such as speaker. Default: the input at the start of the chain.
        seed: Seed of the split; another seed gives another split.
        **named: The fractions by name: split(manifest, train=0.9, test=0.1).
    """
    columns = getattr(manifest, "columns", None)
    if columns is None:
        raise Refused(
            f"splitter.split: {manifest!r:.100} is not a manifest; pass the result of read_manifest"
        )
    if fractions is not None and named:
        raise Refused("splitter.split: pass the fractions as a mapping or by name, not both")
    if COLUMN in columns:
        raise Refused(f"splitter.split: the manifest has a column {COLUMN!r} already; drop or rename it")
    column = group_column([*columns], by)
    rule = SplitRule(column, fractions_of(fractions or named), seed)
    bare = manifest.attrs.get(BARE, {}).get(column)
    if bare is False:
        raise Refused(
            f"splitter.split: by {column!r}: manifest.csv has both 2001 and 2001.0, but a DataFrame "
            f"has only floats; use: splitter split --by {column}, or metadata_types = "
            f"{{{column!r}: float}}"
        )
    splits = [rule.of(_text(value, bare=bool(bare))) for value in manifest[column]]
    found: pd.DataFrame = manifest.assign(**{COLUMN: splits})
    return found


def _text(value: Any, *, bare: bool) -> str:  # noqa: ANN401 - of any column
    """Return a value as manifest.csv has it."""
    import pandas as pd

    if pd.isna(value):
        return ""
    return f"{value:.0f}" if bare and isinstance(value, float) and value.is_integer() else str(value)
