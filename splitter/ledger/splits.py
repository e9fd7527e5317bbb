"""Train, validation, test: the split that a group of outputs is in.

If there are many groups, a hash of each group's text decides. A few groups are assigned so that the shares
come close to the requested ones, and the assignment is stored with the rule. Either way, no group is ever in
two splits, and new files move no old ones. The manifest's column is made from the rule each time.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import xxhash

from splitter.errors import Refused
from splitter.ledger.keeping import is_left_out_in
from splitter.ledger.records import OUTPUT_COLUMNS
from splitter.ledger.run_files import RULE
from splitter.ledger.split_balance import FEW_GROUPS, GroupTally, assign
from splitter.storage.base import Storage
from splitter.text.csv import ENCODING, ESCAPE

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "split"
OUTPUT = OUTPUT_COLUMNS[0]
# set in the attrs of a manifest for each column of floats where manifest.csv has 2001, not 2001.0: True if it
# does so for all whole numbers, False if only for some, or if some have more digits than a float
BARE = "splitter bare numbers"
USUAL = {"train": 0.8, "validation": 0.1, "test": 0.1}
# the columns with the input of the first stage of processing, and with that of the last
GROUPS = ("from_input", "input")
_ALL = 1 << 64
_ROUNDING = 1e-6


@dataclass(frozen=True)
class SplitRule:
    """A rule that gives each group its split.

    Attributes:
        by: The column of the manifest whose values are the groups.
        fractions: The name of each split, and the share that it should have.
        seed: Seed of the split; another number gives another split.
        balance: The column whose labels each split should have in the same proportions, if any.
        groups: The splits of groups that were assigned; the hash decides for the others.
        is_open: Whether new groups are assigned too, as long as there are few.
    """

    by: str
    fractions: tuple[tuple[str, float], ...]
    seed: int = 0
    balance: str | None = None
    groups: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_open: bool = False

    def __post_init__(self) -> None:
        """Refuse fractions that do not sum to 1, and a seed that is not an integer of 0 or more."""
        for name, fraction in self.fractions:
            if not _is_number(fraction) or not 0 <= fraction <= 1:
                raise Refused(f"{name} {fraction!r}: write a fraction from 0 to 1, such as 0.8")
        whole = math.fsum(fraction for _, fraction in self.fractions)
        if abs(whole - 1) > _ROUNDING:
            named = ", ".join(f"{name} {fraction:g}" for name, fraction in self.fractions)
            raise Refused(
                f"{named or 'no fractions'}: must sum to 1, not {whole:g}{self._missing(1 - whole)}"
            )
        if not _is_number(self.seed) or not 0 <= self.seed < _ALL or self.seed != int(self.seed):
            raise Refused(f"seed {self.seed!r}: must be an integer, 0 or more")

    def _missing(self, share: float) -> str:
        """Return which options to add if the fractions leave a share over."""
        others = [f"--{name} {share:g}" for name in USUAL if name not in dict(self.fractions)]
        return f"; add {' or '.join(others)}" if others and share > 0 else ""

    @cached_property
    def _some(self) -> list[tuple[str, float]]:
        return [(name, fraction) for name, fraction in self.fractions if fraction]

    @cached_property
    def _ends(self) -> list[int]:
        shares = itertools.accumulate(fraction for _, fraction in self._some)
        # the last split takes the remainder of rounding
        return [round(share * _ALL) for share in shares][:-1]

    @property
    def names(self) -> list[str]:
        """The splits with a fraction above 0, the only ones that a group can get."""
        return [name for name, _ in self._some]

    def of(self, group: str) -> str:
        """Return the split of a group; empty if it is yet to be assigned.

        >>> rule = SplitRule("speaker", (("train", 0.8), ("test", 0.2)))
        >>> [rule.of(speaker) for speaker in ("alice", "bob", "carol", "dave", "erin")]
        ['train', 'train', 'test', 'train', 'test']
        """
        found = self.groups.get(group)
        return found or ("" if self.is_open else self._by_hash(self._number(group)))

    def _number(self, group: str) -> int:
        return xxhash.xxh3_64_intdigest(group.encode(ENCODING, ESCAPE), int(self.seed))

    def _by_hash(self, number: int) -> str:
        return self._some[bisect.bisect_right(self._ends, number)][0]

    def extended(self, tally: GroupTally) -> "SplitRule":
        """Return the rule with new groups assigned; the groups that it has assigned before stay."""
        if not self.is_open or tally.rows.keys() <= self.groups.keys():
            return self
        numbers = sorted((self._number(group), group) for group in {*tally.rows, *self.groups})
        if len(numbers) > FEW_GROUPS:
            # from now on the hash decides, and no assignment has to be stored
            return replace(self, is_open=False)
        usual = {group: self._by_hash(number) for number, group in numbers}
        new = assign(tally, usual, self.groups, dict(self._some))
        return replace(self, groups=dict(sorted({**self.groups, **new}.items())))

    def asks_the_same(self, other: "SplitRule") -> bool:
        """Return whether both rules ask for the same split."""
        return replace(self, groups={}, is_open=False) == replace(other, groups={}, is_open=False)

    def keep(self, storage: Storage) -> None:
        """Store the rule, so that every manifest of this folder has the column from now on."""
        content: dict[str, Any] = {"by": self.by, "fractions": dict(self.fractions), "seed": self.seed}
        if self.balance is not None:
            content["balance"] = self.balance
        if self.groups or self.is_open:
            content |= {"open": self.is_open, "groups": dict(self.groups)}
        RULE.save(storage, content)

    @classmethod
    def stored(cls, storage: Storage) -> "SplitRule | None":
        """Return the stored rule, if there is one."""
        return RULE.load(storage, lambda content, _: cls._of_json(content))

    @classmethod
    def _of_json(cls, content: Mapping[str, Any]) -> "SplitRule":
        rule = cls(
            content["by"],
            tuple(content["fractions"].items()),
            content["seed"],
            content.get("balance"),
            content.get("groups", {}),
            content.get("open", False),
        )
        if not {*rule.groups.values()} <= {*rule.names}:
            raise ValueError("it assigns groups to a split without a fraction")
        for text in (*rule.groups, *rule.names):
            # JSON can hold text that no manifest can
            text.encode(ENCODING, ESCAPE)
        return rule


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def fractions_of(given: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the given fractions; the usual ones if there are none."""
    return tuple((given or USUAL).items())


def group_column(columns: Sequence[str], by: str | None, usual: Sequence[str] = GROUPS) -> str:
    """Return the column of the groups; by default, one that is the same for all pieces of a recording."""
    if by is not None:
        if by not in columns:
            raise Refused(
                f"by {by!r}: the manifest has no such column; it has {', '.join(columns)} (to keep the "
                "labels of an earlier run: splitter run DIR/manifest.csv --column output)"
            )
        return by
    for name in usual:
        if name in columns:
            return name
    raise Refused("the manifest has no column 'input'; name the column of the groups with by")


def split(  # noqa: PLR0913 - what a user may ask for
    manifest: "pd.DataFrame",
    fractions: Mapping[str, float] | None = None,
    /,
    *,
    by: str | None = None,
    seed: int = 0,
    balance: str | None = None,
    earlier: "pd.DataFrame | None" = None,
    **named: float,
) -> "pd.DataFrame":
    """Return the manifest with a column `split`; no group of rows is in two splits.

    Up to 1,000 groups are assigned so that the shares come as close to the fractions as the groups allow. If
    there are more, a hash of each group decides. Rows that `--keep` left out are in no split.

    Args:
        manifest: The result of `splitter.read_manifest`, or some of its rows.
        fractions: Names of splits and the share of each, such as {"train": 0.9, "dev": 0.1}.
        by: The column of the groups, such as speaker. Default: the input at the start of the chain.
        seed: Seed of the split; another seed gives another split.
        balance: A column whose labels each split should have in the same proportions, as far as possible.
        earlier: An earlier result: its groups stay in their splits.
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
    if balance is not None and balance not in columns:
        raise Refused(
            f"splitter.split: balance {balance!r}: the manifest has no such column; it has "
            f"{', '.join(columns)}"
        )
    groups = _texts(manifest, column)
    settled = {} if earlier is None else _splits_of_groups(earlier, column, rule)
    left_out = is_left_out_in(manifest)
    rule = replace(rule, balance=balance, groups=settled, is_open=True).extended(
        _tally(manifest, groups, balance, left_out)
    )
    splits = ["" if is_out else rule.of(group) for group, is_out in zip(groups, left_out, strict=True)]
    found: pd.DataFrame = manifest.assign(**{COLUMN: splits})
    return found


def _texts(manifest: "pd.DataFrame", column: str) -> list[str]:
    """Return the values of the groups' column as manifest.csv has them."""
    bare = manifest.attrs.get(BARE, {}).get(column)
    if bare is False:
        raise Refused(
            f"splitter.split: by {column!r}: manifest.csv has both 2001 and 2001.0, but a DataFrame "
            f"has only floats; use: splitter split --by {column}, or metadata_types = "
            f"{{{column!r}: float}}"
        )
    return [_text(value, bare=bool(bare)) for value in manifest[column]]


def _tally(
    manifest: "pd.DataFrame", groups: Sequence[str], balance: str | None, left_out: Iterable[bool]
) -> GroupTally:
    """Count the rows of each group, and the outputs that it keeps."""
    everywhere = itertools.repeat("")
    outputs = manifest[OUTPUT] if OUTPUT in manifest.columns else everywhere
    labels = everywhere if balance is None else manifest[balance]
    tally = GroupTally()
    for group, output, label, is_out in zip(groups, outputs, labels, left_out, strict=False):
        tally.add_row(group, "" if is_out else _text(output, bare=False), balance, _text(label, bare=False))
    return tally


def _splits_of_groups(earlier: "pd.DataFrame", column: str, rule: SplitRule) -> dict[str, str]:
    """Return the split of each group in an earlier result."""
    for name in (column, COLUMN):
        if name not in getattr(earlier, "columns", ()):
            raise Refused(
                f"splitter.split: earlier: has no column {name!r}; pass what splitter.split returned"
            )
    settled: dict[str, str] = {}
    for group, name in zip(_texts(earlier, column), earlier[COLUMN], strict=True):
        # rows that --keep left out have no split
        if name and name not in rule.names:
            raise Refused(
                f"splitter.split: earlier: has the split {name!r}, but the fractions are for "
                f"{', '.join(rule.names)}"
            )
        if name and settled.setdefault(group, name) != name:
            raise Refused(f"splitter.split: earlier: has {group!r} both in {settled[group]} and in {name}")
    return settled


def _text(value: Any, *, bare: bool) -> str:  # noqa: ANN401 - of any column
    """Return a value as manifest.csv has it."""
    import pandas as pd

    if pd.isna(value):
        return ""
    return f"{value:.0f}" if bare and isinstance(value, float) and value.is_integer() else str(value)
