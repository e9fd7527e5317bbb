"""Make the rows of the manifest from an input's outputs and metadata."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from splitter.errors import BadResult
from splitter.ledger.manifest import merged_type
from splitter.ledger.records import OUTPUT_COLUMNS, OWN_COLUMNS, SKIPPED_COLUMN, RowColumns
from splitter.records import Scalar
from splitter.sinks.base import StoredOutput
from splitter.storage.layout import same_name
from splitter.storage.naming import Naming
from splitter.text.csv import ENCODING, ESCAPE, CsvText, Row
from splitter.text.name_template import OPTION
from splitter.text.spelling import nearest

if TYPE_CHECKING:
    from splitter.worker.messages import Job

NO_FILE = ("",) * len(OUTPUT_COLUMNS)

Metadata = Mapping[str, Scalar]
# where an output is, its metadata, and the columns of its row
OutputRow = tuple[Sequence[str], Metadata, Row]
Types = tuple[tuple[str, str], ...]

_TYPES = {str: "str", int: "int", float: "float", bool: "bool", type(None): ""}


class RowMaker:
    """A maker of an input's manifest rows; refuses metadata that the manifest cannot hold."""

    def __init__(self, job: "Job") -> None:
        sink, declared = job.sink, job.dataset.metadata_types
        self._columns = tuple(job.header)
        self._own_columns = sink.columns
        self._taken = {*self._columns, *OWN_COLUMNS, *dict(sink.columns), *sink.own_columns}
        self._added_later = ("",) * len(sink.columns)
        # the columns for the location of an output, if there is no file
        self.no_file: Sequence[str] = (*NO_FILE, *self._added_later)
        # in shards with columns, the first input sets the types for all others
        self._declared = {**sink.types, **declared}
        self._explicit = frozenset(declared)
        self._shapes: dict[tuple[Any, ...], Types | None] = {}
        self._heads: dict[tuple[Types, Types], RowColumns] = {}
        self._csv = CsvText()
        self._skipped = RowColumns(self._columns, (), ((SKIPPED_COLUMN, "str"),))

    def location(self, stored: StoredOutput) -> Sequence[str]:
        """Return the values that say where an output is; a sink may fill in its own columns later."""
        size = "" if stored.size is None else str(stored.size)
        return stored.output, size, stored.checksum, *(stored.more or self._added_later)

    def make(self, row: Row, outputs: list[OutputRow], metadata: Metadata) -> tuple[RowColumns, bytes]:
        """Return the columns of an input's rows, and as CSV a row per output, or one if it has no outputs."""
        head, owns, shared, usual = self._values(outputs, metadata)
        with _named_values(owns, shared):
            text = _joined(outputs, [*shared.values()]) if usual else b""
            return head, text or self._csv.encode(self._listed(row, outputs, owns, shared))

    def text_of(self, key: str, value: Scalar) -> str:
        """Return a value of metadata as text, as the manifest has it."""
        return _text(self._scalar(key, value))

    def rows(self, row: Row, outputs: list[OutputRow], metadata: Metadata) -> tuple[RowColumns, list[Row]]:
        """Return the same as `make`, but the rows as lists of text, as they would be read back."""
        head, owns, shared, _ = self._values(outputs, metadata)
        with _named_values(owns, shared):
            return head, [[*map(_text, values)] for values in self._listed(row, outputs, owns, shared)]

    def named(
        self, naming: Naming, folder: str, made: list[OutputRow], metadata: Metadata
    ) -> list[OutputRow]:
        """Return outputs under the names that --name gives them, now that all metadata is known.

        `folder` is the path of the input below the root, without its extension.
        """
        taken: dict[str, str] = {}
        named: list[OutputRow] = []
        for where, own_metadata, row in made:
            own = where[0]
            if not own:
                named.append((where, own_metadata, row))
                continue
            value_of = partial(self._value_for_name, own_metadata, metadata)
            name = naming.name(row, folder, own, len(taken), value_of)
            if (other := taken.setdefault(same_name(name), own)) != own:
                both = f"outputs {other!r} and {own!r} would both get the name {name!r}"
                raise BadResult(f"{both}; add {{index}} to {OPTION}")
            named.append(((name, *where[1:]), own_metadata, row))
        return named

    def _value_for_name(self, own: Metadata, shared: Metadata, key: str) -> str:
        for values in (own, shared):
            if key in (values or ()):
                return self.text_of(key, values[key])
        hint = nearest(key, [*own, *shared])
        raise BadResult(
            f"{OPTION}: neither the dataset list nor the metadata of the outputs has {key!r}{hint}; choose "
            "another field"
        )

    def _values(
        self, outputs: list[OutputRow], metadata: Metadata
    ) -> tuple[RowColumns, list[Metadata], Metadata, bool]:
        """Return columns, the metadata of outputs and input, and whether no value is missing or converted."""
        output_types, owns, usual = self._alike([own for _, own, _ in outputs])
        input_types, [shared], plain = self._alike([metadata])
        return self._head(output_types, input_types), owns, shared, usual and plain

    def _listed(
        self, row: Row, outputs: list[OutputRow], owns: list[Metadata], shared: Metadata
    ) -> list[tuple[Scalar, ...]]:
        ends = shared.values()
        if not outputs:
            return [(*row, *self.no_file, *ends)]
        pairs = zip(outputs, owns, strict=True)
        return [(*columns, *where, *own.values(), *ends) for (where, _, columns), own in pairs]

    def skipped(self, row: Row, reason: str) -> tuple[RowColumns, bytes]:
        """Return the columns and the row of an input that the recipe skipped."""
        return self._skipped, self._csv.encode([[*row, *NO_FILE, reason]])

    def _alike(self, all_metadata: list[Metadata]) -> tuple[Types, list[Metadata], bool]:
        """Return keys with their types, and each metadata with exactly these keys in this order.

        The last value says whether nothing was converted and no value is missing.
        """
        try:
            keys = {*map(tuple, all_metadata)}
            kinds = {tuple(map(type, metadata.values())) for metadata in all_metadata}
        except (TypeError, AttributeError):
            return self._made_alike(all_metadata)
        if len(keys) != 1 or len(kinds) != 1:
            return self._made_alike(all_metadata)
        # the usual case: the same keys and types throughout, and nothing to convert
        shape = keys.pop(), kinds.pop()
        if shape not in self._shapes:
            self._shapes[shape] = self._types_of(*shape)
        types = self._shapes[shape]
        if types is None:
            return self._made_alike(all_metadata)
        return types, all_metadata, type(None) not in shape[1]

    def _types_of(self, keys: Sequence[str], kinds: Sequence[type]) -> Types | None:
        """Return the types of values if none needs conversion, else None."""
        types = [self._declared.get(key, kind) for key, kind in zip(keys, kinds, strict=True)]
        pairs = zip(kinds, types, strict=True)
        if all(kind in _TYPES and kind in (other, type(None)) for kind, other in pairs):
            return tuple((key, _TYPES[kind]) for key, kind in zip(keys, types, strict=True))
        return None

    def _made_alike(self, all_metadata: list[Metadata]) -> tuple[Types, list[Metadata], bool]:
        types: dict[str, str] = {}
        plain = [self._plain(metadata, types) for metadata in all_metadata]
        return tuple(types.items()), [{key: values.get(key) for key in types} for values in plain], False

    def _plain(self, metadata: Metadata, types: dict[str, str]) -> dict[str, Scalar]:
        """Return the metadata with values of Python's own types; note the type of each key."""
        if not isinstance(metadata, Mapping):
            raise BadResult(f"metadata is of type {type(metadata).__name__}; expected a mapping of scalars")
        values: dict[str, Scalar] = {}
        for key, value in metadata.items():
            values[key] = self._scalar(key, value)
            types[key] = merged_type(types.get(key, ""), _TYPES[self._declared.get(key, type(values[key]))])
        return values

    def _scalar(self, key: str, value: Any) -> Scalar:  # noqa: ANN401 - whatever a user's method gave
        plain = _python_value(value)
        if type(plain) not in _TYPES:
            kind = type(value).__name__
            raise BadResult(f"metadata {key!r} is of type {kind}; expected str, int, float, bool or None")
        declared = self._declared.get(key)
        if declared is None or plain is None or type(plain) is declared:
            return plain
        if declared is str:
            return str(plain)
        if declared is float and type(plain) is int:
            return float(plain)
        if key in self._explicit:
            raise BadResult(f"metadata {key!r} is {plain!r}; metadata_types says {declared.__name__}")
        raise BadResult(
            f"metadata {key!r} is {plain!r} where the first input has {declared.__name__}; declare "
            "it in metadata_types, for example as str"
        )

    def _head(self, outputs: Types, inputs: Types) -> RowColumns:
        head = self._heads.get((outputs, inputs))
        if head is None:
            self._check_keys(dict(outputs), dict(inputs))
            head = self._heads[outputs, inputs] = RowColumns(
                self._columns, (*self._own_columns, *outputs), inputs
            )
        return head

    def _check_keys(self, outputs: Mapping[Any, str], inputs: Mapping[Any, str]) -> None:
        for key in (*outputs, *inputs):
            if why := self._why_refused(key, is_twice=key in outputs and key in inputs):
                raise BadResult(f"metadata key {key!r} {why}")

    def _why_refused(self, key: Any, *, is_twice: bool) -> str:  # noqa: ANN401 - whatever a user's method gave
        if not isinstance(key, str) or not key:
            return f"is of type {type(key).__name__}; expected a name"
        try:
            key.encode(ENCODING, ESCAPE)
        except UnicodeEncodeError:
            return "cannot be written as UTF-8; rename it"
        if key in self._columns:
            return f"would hide the dataset column of that name; use --rename {key}=NEW"
        if key in self._taken:
            return "is reserved: the manifest already has a column of that name; rename the key"
        return "occurs both for the outputs and for the input; rename one" if is_twice else ""


def _joined(outputs: list[OutputRow], shared: list[Scalar]) -> bytes:
    """Join rows in half the time that the csv module takes; return nothing if a field needs quotes."""
    ends = [*map(str, shared)]
    lines = [",".join([*columns, *where, *map(str, own.values()), *ends]) for where, own, columns in outputs]
    if not lines:
        return b""
    where, own, columns = outputs[0]
    commas = (len(columns) + len(where) + len(own) + len(ends) - 1) * len(lines)
    lines.append("")
    text = "\n".join(lines)
    if text.count(",") != commas or text.count("\n") != len(outputs) or '"' in text or "\r" in text:
        return b""
    return text.encode(ENCODING, ESCAPE)


def _text(value: Scalar) -> str:
    """Return a value as it comes back from CSV."""
    text = "" if value is None else str(value)
    return text if text.isascii() else text.encode(ENCODING, ESCAPE).decode(ENCODING, ESCAPE)


@contextlib.contextmanager
def _named_values(owns: list[Metadata], shared: Metadata) -> Iterator[None]:
    """Turn a ValueError of the CSV library or the encoding into a BadResult that names the value."""
    try:
        yield
    except ValueError:
        for key, value in (pair for metadata in (*owns, shared) for pair in metadata.items()):
            try:
                str(value).encode(ENCODING, ESCAPE)
            except ValueError as error:
                raise BadResult(f"metadata {key!r} cannot be written: {error}") from None
        raise


def _python_value(value: Any) -> Scalar:  # noqa: ANN401 - whatever a user's method gave
    """Return the plain value of a numpy or torch scalar, a path, or a member of a str or int Enum."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if type(value) in _TYPES:
        return cast("Scalar", value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return cast("Scalar", os.fspath(value) if isinstance(value, os.PathLike) else value)
