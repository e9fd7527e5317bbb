"""The columns of a table of outputs: decided once for a dataset, and kept for the runs to come."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from splitter.errors import StorageError
from splitter.storage.base import Storage
from splitter.storage.checked_file import unsealed
from splitter.storage.layout import OWN_FOLDER
from splitter.text.csv import Row, in_unicode
from splitter.text.endings import SOUND

TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class OutputColumns:
    """The columns beside those of the dataset list.

    Attributes:
        metadata: The keys of metadata and their types, those of outputs first.
        sound: Whether the outputs are sound.
        rate: The sampling rate of all of them, if they have one.
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
        """What an input shows: its keys and their types, and the names of its output files.

        A type that was declared counts, and what was always None is text, which holds anything. A key that
        is not UTF-8 is no name of a column. `rate` is the recipe's parameter of that name.
        """
        types = {key: kind or "str" for key, kind in seen if key == in_unicode(key)}
        types |= {key: kind.__name__ for key, kind in declared.items()}
        sound = {extension(name) for name in names} <= SOUND
        uniform = rate if sound and isinstance(rate, int) and not isinstance(rate, bool) else None
        return cls(tuple(types.items()), sound, uniform)

    @property
    def types(self) -> dict[str, type]:
        """The type of each key."""
        return {key: TYPES[kind] for key, kind in self.metadata}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "OutputColumns":
        """As `dataclasses.asdict` gave it; raises KeyError, TypeError or ValueError."""
        metadata = tuple((str(key), str(kind)) for key, kind in value["metadata"])
        if not {kind for _, kind in metadata} <= TYPES.keys():
            raise ValueError("an unknown type")
        return cls(metadata, bool(value["sound"]), value["rate"])


def extension(name: str) -> str:
    """What stands after the last dot of an output's name, in lower case; bin where there is nothing.

    >>> extension("0.WAV"), extension("a.tar.gz"), extension("README"), extension(".hidden")
    ('wav', 'gz', 'bin', 'bin')
    """
    stem, dot, last = name.rpartition(".")
    return last.lower() if stem and dot and last else "bin"


COLUMNS = f"{OWN_FOLDER}/columns.json"


def earlier_columns(storage: Storage) -> OutputColumns | None:
    """Those that were kept last, however inputs were processed then."""
    return stored_columns(storage, None)


def forget_columns(storage: Storage) -> None:
    """Have them decided anew."""
    storage.remove([COLUMNS])


def stored_columns(storage: Storage, seed: int | None) -> OutputColumns | None:
    """Return the columns that an earlier run has stored, if they are for this seed."""
    if not storage.exists(COLUMNS):
        return None
    try:
        content = _content(storage)
        return OutputColumns.from_json(content["columns"]) if seed in (None, content["seed"]) else None
    except (ValueError, KeyError, TypeError) as error:
        message = f"{storage.path(COLUMNS)}: is damaged ({error})"
        raise StorageError(f"{message}; remove it, and run the same command again") from None


@dataclass(frozen=True)
class ColumnHistory:
    """What has been written into tables.

    Attributes:
        columns: Those of metadata and of the dataset: as the last run has them, then as earlier ones.
        writers: The releases of pyarrow.
    """

    columns: tuple[tuple[OutputColumns, Row], ...] = ()
    writers: tuple[str, ...] = ()

    @classmethod
    def of(cls, storage: Storage) -> "ColumnHistory":
        """What runs have kept of it."""
        if not storage.exists(COLUMNS):
            return cls()
        content = _content(storage)
        try:
            columns = [
                (OutputColumns.from_json(one["columns"]), [*map(str, one["header"])])
                for one in (content, *content["earlier"])
            ]
            return cls(tuple(columns), tuple(map(str, content["writers"])))
        except (ValueError, KeyError, TypeError):
            # of before more than the last columns were kept
            return cls()

    def and_now(self, columns: OutputColumns, header: Row) -> "ColumnHistory":
        """With what is written now."""
        now = (columns, header)
        others = [one for one in self.columns if one != now]
        return ColumnHistory((now, *others), tuple(dict.fromkeys((*self.writers, version("pyarrow")))))

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        first, *others = (
            {"columns": dataclasses.asdict(columns), "header": header} for columns, header in self.columns
        )
        return {**first, "writers": self.writers, "earlier": others}


def _content(storage: Storage) -> dict[str, Any]:
    return unsealed(storage.read(COLUMNS))[0]
