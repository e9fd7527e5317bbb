"""The columns of a table of outputs: decided once for a dataset, and stored for later runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from splitter.ledger.run_files import COLUMNS
from splitter.storage.base import Storage
from splitter.text.csv import in_unicode
from splitter.text.endings import SOUND, ending_of

TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class OutputColumns:
    """The columns of outputs, without those of the dataset list.

    Attributes:
        metadata: The keys of metadata and their types, those of outputs first.
        sound: Whether the outputs are sound.
        rate: The sampling rate of all outputs, if it is the same.
    """

    metadata: tuple[tuple[str, str], ...] = ()
    sound: bool = False
    rate: int | None = None

    @classmethod
    def of(
        cls,
        seen: Iterable[tuple[str, str]],
        declared: Mapping[str, type],
        names: Iterable[str],
        rate: object,
    ) -> "OutputColumns":
        """Decide the columns from one input: its keys and their types, and the names of its output files.

        A declared type wins; a key whose value is always None is text, which can hold anything. A key that
        is not UTF-8 cannot name a column. `rate` is the recipe's parameter of that name.
        """
        types = {key: kind or "str" for key, kind in seen if key == in_unicode(key)}
        types |= {key: kind.__name__ for key, kind in declared.items()}
        sound = {ending_of(name) for name in names} <= SOUND
        uniform = rate if sound and isinstance(rate, int) and not isinstance(rate, bool) else None
        return cls(tuple(types.items()), sound, uniform)

    @property
    def types(self) -> dict[str, type]:
        """Return the type of each key."""
        return {key: TYPES[kind] for key, kind in self.metadata}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "OutputColumns":
        """Return the columns that `dataclasses.asdict` wrote; raise KeyError, TypeError or ValueError."""
        metadata = tuple((str(key), str(kind)) for key, kind in value["metadata"])
        if not {kind for _, kind in metadata} <= TYPES.keys():
            raise ValueError("an unknown type")
        return cls(metadata, bool(value["sound"]), value["rate"])


def stored_columns(storage: Storage, seed: int | None = None) -> OutputColumns | None:
    """Return the columns that an earlier run stored; if a seed is given, only if they are for that seed."""
    return COLUMNS.load(
        storage,
        lambda content, _: (
            OutputColumns.from_json(content["columns"]) if seed in (None, content["seed"]) else None
        ),
    )
