"""What the columns of a table of outputs are: decided once for a dataset, before the work is shared out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from splitter.audio.endings import SOUND
from splitter.csv_text import in_unicode

TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class Columns:
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
    ) -> "Columns":
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
    def from_json(cls, value: Mapping[str, Any]) -> "Columns":
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
