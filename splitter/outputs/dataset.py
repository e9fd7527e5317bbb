"""The outputs that `splitter.open` selects, and a map-style torch Dataset of them."""

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import Dataset

from splitter.errors import Refused
from splitter.outputs.decoding import decoded
from splitter.outputs.reader import FOLDER, Address, OutputReader
from splitter.text.conditions import columns_in, condition
from splitter.text.show import one_line, show_names
from splitter.text.spelling import nearest

if TYPE_CHECKING:
    import pandas as pd

Sample = dict[str, Any]
Decode = bool | Callable[[bytes, Mapping[str, Any]], Any]
RATE = "sample_rate"
MOST_NAMED = 20


class OutputSamples:
    """The selected outputs: their rows, and how to read and decode them."""

    def __init__(
        self,
        output: "str | os.PathLike[str] | pd.DataFrame",
        where: str | None,
        decode: Decode,
        content: str,
        *,
        all_rows: bool,
    ) -> None:
        """Read the manifest and select rows."""
        from splitter.ledger.keeping import is_left_out_in

        rows, folder = _manifest(output)
        if not all_rows:
            rows = rows[~is_left_out_in(rows)]
        if not (isinstance(decode, bool) or callable(decode)):
            raise Refused(f"splitter.open: decode is {decode!r:.100}; give True, False or a function")
        rows = _chosen(rows[rows["output"] != ""], where)
        if content in rows.columns:
            raise Refused(
                f"splitter.open: the manifest already has a column {content!r}; choose another name "
                "with content="
            )
        self._reader = OutputReader(folder)
        self._decode, self._content = decode, content
        # keep the arrays of pandas, which are small, shared after a fork, and quick to send
        self._columns = {str(name): rows[name].array for name in rows.columns}
        self._count = len(rows)
        self._needed = self._reader.columns_of_address([*self._columns])

    def __len__(self) -> int:
        """Return the number of outputs."""
        return self._count

    def column(self, name: str) -> Any:  # noqa: ANN401 - an array of pandas, or None
        """Return a column of the rows; None if they do not have it."""
        return self._columns.get(name)

    def row(self, number: int) -> Sample:
        """Return the row of an output, with Python's own types."""
        return {name: _plain(column[number]) for name, column in self._columns.items()}

    def address(self, number: int) -> Address:
        """Return the address of an output's content."""
        return self._reader.address({name: self._columns[name][number] for name in self._needed})

    def sample(self, number: int) -> Sample:
        """Read and decode an output."""
        return self.made(number, self._reader.read(self.address(number)))

    def contents(self, numbers: Iterable[int]) -> Iterator[bytes]:
        """Return the contents of many outputs, undecoded."""
        return self._reader.read_in_order(map(self.address, numbers))

    def made(self, number: int, content: bytes) -> Sample:
        """Return the sample of an output, made from its row and its content."""
        row = self.row(number)
        if not isinstance(self._decode, bool):
            return {**row, self._content: self._decode(content, row)}
        if not self._decode:
            return {**row, self._content: content}
        value, rate = decoded(row["output"], content)
        return {**row, self._content: value, **({} if rate is None else {RATE: rate})}


def _manifest(output: Any) -> tuple["pd.DataFrame", str]:  # noqa: ANN401 - whatever a caller gave
    """Return the rows of a manifest, and its output folder."""
    import pandas as pd

    from splitter.outputs.frame import read_manifest

    rows = output if isinstance(output, pd.DataFrame) else read_manifest(output)
    folder = rows.attrs.get(FOLDER)
    if folder is None:
        given = "the table" if rows is output else f"{os.fspath(output)}"
        raise Refused(f"splitter.open: {given} does not know its output folder; pass the folder of a run")
    return rows, folder


def _chosen(rows: "pd.DataFrame", where: str | None) -> "pd.DataFrame":
    """Return the rows that match a condition, as --where has it, or else a pandas expression."""
    if where is None:
        return rows
    shown = f"splitter.open: where {where!r:.200}"
    try:
        found = rows[_met(rows, where)]
    except (Refused, TypeError):
        found = _chosen_by_pandas(rows, where, shown)
    if len(rows) and not len(found):
        warnings.warn(f"{shown} matches none of {len(rows):,} outputs", stacklevel=4)
    return found


def _met(rows: "pd.DataFrame", where: str) -> np.ndarray:
    """Return which rows meet a condition; raise Refused or TypeError for what only pandas may know."""
    asked = columns_in(where)
    names = [name for name in rows.columns if name in asked]
    meets = condition(where, names)
    if not names:
        raise Refused(f"{where!r:.200}: names no column")
    # a missing value is an empty text, as in the manifest
    values = (rows[name].astype(object).mask(rows[name].isna(), "").tolist() for name in names)
    return np.fromiter(map(meets, zip(*values, strict=True)), bool, len(rows))


def _chosen_by_pandas(rows: "pd.DataFrame", where: str, shown: str) -> "pd.DataFrame":
    import pandas as pd

    try:
        # pandas may raise anything; the expression knows only the columns
        holds: Any = rows.eval(where, engine="python", local_dict={}, global_dict={})
    except Exception as error:  # noqa: BLE001 - whatever pandas raises
        columns = [*map(str, rows.columns)]
        if isinstance(error, (SyntaxError, TokenError)):
            # it is not meant for pandas, so say what is wrong with it as a condition
            condition(where, columns, "splitter.open: where")
        raise Refused(f"{shown}: {_why_not(error, columns)}") from None
    answers = isinstance(holds, pd.Series) and holds.index.equals(rows.index)
    if not answers or (len(rows) and pd.api.types.infer_dtype(holds, skipna=True) != "boolean"):
        more = " (equal is ==)" if re.search(r"(?<![=!<>])=(?!=)", str(where)) else ""
        raise Refused(
            f"{shown}: is not a condition; write one such as size > 1000{more}; {_columns(rows.columns)}"
        )
    found: pd.DataFrame = rows[holds.fillna(value=False).astype(bool)]
    return found


# advice about the most common mistake
_TEXT = "for pandas, columns of the dataset list are text, so write label.astype('float') for a number"


def _why_not(error: Exception, columns: Sequence[str]) -> str:
    """Return what is wrong with an expression, on one line."""
    name = re.fullmatch(r"name '(?:BACKTICK_QUOTED_STRING_)?(.*)' is not defined", str(error))
    if name:
        hint = nearest(name[1], [*columns]) or f"; {_columns(columns)}"
        return f"there is no column {name[1]!r}{hint} (write text in quotes)"
    if isinstance(error, TypeError):
        return f"{one_line(str(error))}; {_TEXT}"
    words = "is not a condition" if isinstance(error, (SyntaxError, TokenError)) else ""
    return f"{words or one_line(str(error))}; write one such as \"split == 'train'\"; {_columns(columns)}"


def _columns(names: Iterable[object]) -> str:
    named = [*map(repr, names)]
    return f"there is {show_names(named[:MOST_NAMED], len(named))}"


def _plain(value: Any) -> Any:  # noqa: ANN401 - a value of a pandas array
    """Return a plain Python value; a missing one is None."""
    if isinstance(value, np.generic):
        return value.item()
    # pandas' missing value has its own type
    return None if type(value).__name__ == "NAType" else value


class OutputDataset(Dataset[Sample]):
    """The outputs of a run, by index."""

    def __init__(self, samples: OutputSamples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        """Return the number of outputs."""
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        """Return an output: the row of the manifest, and its content."""
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"output {index} of {count}")
        return self._samples.sample(int(index) % count)

    @staticmethod
    def collate_fn(samples: Sequence[Sample]) -> list[Sample]:
        """Return a batch for a DataLoader: the list of samples, unchanged."""
        return list(samples)
