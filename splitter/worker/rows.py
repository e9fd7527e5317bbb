"""The rows of the manifest that an input's outputs and metadata make."""

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from splitter.errors import BadResult
from splitter.ledger.manifest import merged_type
from splitter.ledger.records import OWN_COLUMNS, SKIPPED_COLUMN, RowColumns
from splitter.records import Scalar
from splitter.text.csv import ENCODING, ESCAPE, CsvText, Row

NO_FILE = ("", "", "")

Metadata = Mapping[str, Scalar]
# where an output is, its metadata, and the columns of its row
Made = tuple[Sequence[str], Metadata, Row]
Types = tuple[tuple[str, str], ...]

_TYPES = {str: "str", int: "int", float: "float", bool: "bool", type(None): ""}


class RowMaker:
    """Makes an input's rows of the manifest, and refuses metadata that the manifest cannot hold."""

    def __init__(
        self,
        header: Row,
        declared: Mapping[str, type],
        columns: Types = (),
        seen: Mapping[str, type] = MappingProxyType({}),
        taken: Iterable[str] = (),
    ) -> None:
        """`header` holds the dataset's columns, `columns` the sink's; `declared` the types of metadata.

        `seen` are types that hold since the first input has them, `taken` more names of the sink's own.
        """
        self._columns = tuple(header)
        self._own_columns = columns
        self._taken = {*header, *OWN_COLUMNS, *dict(columns), *taken}
        # in the place of where an output is
        self.no_file = (*NO_FILE, *("" for _ in columns))
        self._declared = {**seen, **declared}
        self._said = frozenset(declared)
        self._shapes: dict[tuple[Any, ...], Types | None] = {}
        self._heads: dict[tuple[Types, Types], RowColumns] = {}
        self._csv = CsvText()
        self._skipped = RowColumns(self._columns, (), ((SKIPPED_COLUMN, "str"),))

    def make(self, row: Row, outputs: list[Made], metadata: Metadata) -> tuple[RowColumns, bytes]:
        """One row for each output, or a single one for an input that made none."""
        output_types, owns, usual = self._alike([own for _, own, _ in outputs])
        input_types, [metadata], plain = self._alike([metadata])
        shared = [*metadata.values()]
        head = self._head(output_types, input_types)
        try:
            text = _joined(outputs, shared) if usual and plain else b""
            return head, text or self._csv.encode(
                _rows_of(outputs, owns, shared) or [[*row, *self.no_file, *shared]]
            )
        except ValueError:
            _refuse_what_cannot_be_written([*owns, metadata])
            raise

    def skipped(self, row: Row, reason: str) -> tuple[RowColumns, bytes]:
        """The row of an input that was left out."""
        return self._skipped, self._csv.encode([[*row, *NO_FILE, reason]])

    def _alike(self, all_metadata: list[Metadata]) -> tuple[Types, list[Metadata], bool]:
        """Keys with their types, and each metadata with just these keys in this order.

        The last says whether they are as they were given, and no value is missing.
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
        """The types of values that need not be converted; None if some must be."""
        wanted = [self._declared.get(key, kind) for key, kind in zip(keys, kinds, strict=True)]
        pairs = zip(kinds, wanted, strict=True)
        if all(kind in _TYPES and kind in (other, type(None)) for kind, other in pairs):
            return tuple((key, _TYPES[kind]) for key, kind in zip(keys, wanted, strict=True))
        return None

    def _made_alike(self, all_metadata: list[Metadata]) -> tuple[Types, list[Metadata], bool]:
        types: dict[str, str] = {}
        plain = [self._plain(metadata, types) for metadata in all_metadata]
        return tuple(types.items()), [{key: values.get(key) for key in types} for values in plain], False

    def _plain(self, metadata: Metadata, types: dict[str, str]) -> dict[str, Scalar]:
        """The metadata with values of Python's own types; notes the type of each key."""
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
        wanted = self._declared.get(key)
        if wanted is None or plain is None or type(plain) is wanted:
            return plain
        if wanted is str:
            return str(plain)
        if wanted is float and type(plain) is int:
            return float(plain)
        if key in self._said:
            raise BadResult(f"metadata {key!r} is {plain!r}; metadata_types says {wanted.__name__}")
        raise BadResult(
            f"metadata {key!r} is {plain!r} where the first input has {wanted.__name__}; declare it in "
            "metadata_types, such as str for both"
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
            if not isinstance(key, str) or not key:
                raise BadResult(f"metadata key {key!r} is of type {type(key).__name__}; expected a name")
            try:
                key.encode(ENCODING, ESCAPE)
            except UnicodeEncodeError:
                raise BadResult(f"metadata key {key!r} cannot be written as UTF-8; rename it") from None
            if key in self._columns:
                raise BadResult(
                    f"metadata {key!r} would hide the dataset column of that name; --rename {key}=NEW"
                )
            if key in self._taken:
                raise BadResult(f"metadata {key!r} has the name of a column of the manifest's own; rename it")
            if key in outputs and key in inputs:
                raise BadResult(
                    f"metadata {key!r} is given both for the outputs and for the input; rename one"
                )


def _rows_of(outputs: list[Made], owns: list[Metadata], shared: list[Scalar]) -> list[tuple[Scalar, ...]]:
    return [(*columns, *place, *own.values(), *shared) for (place, _, columns), own in zip(outputs, owns)]  # noqa: B905


def _joined(outputs: list[Made], shared: list[Scalar]) -> bytes:
    """Rows without a field that needs quotes, in half the time that the csv module takes; else nothing."""
    ends = [*map(str, shared)]
    lines = [",".join([*columns, *place, *map(str, own.values()), *ends]) for place, own, columns in outputs]
    if not lines:
        return b""
    place, own, columns = outputs[0]
    commas = (len(columns) + len(place) + len(own) + len(ends) - 1) * len(lines)
    lines.append("")
    text = "\n".join(lines)
    if text.count(",") != commas or text.count("\n") != len(outputs) or '"' in text or "\r" in text:
        return b""
    return text.encode(ENCODING, ESCAPE)


def _refuse_what_cannot_be_written(all_metadata: Iterable[Metadata]) -> None:
    """Name the value that the CSV library or the encoding gave up on."""
    for metadata in all_metadata:
        for key, value in metadata.items():
            try:
                str(value).encode(ENCODING, ESCAPE)
            except ValueError as error:
                raise BadResult(f"metadata {key!r} cannot be written: {error}") from None


def _python_value(value: Any) -> Scalar:  # noqa: ANN401 - whatever a user's method gave
    """A numpy or torch scalar, a path, a member of a str or int Enum as the plain value it stands for."""
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
