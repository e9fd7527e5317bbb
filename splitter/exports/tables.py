"""Parquet tables of pieces, with typed columns and, if asked for, the contents of the pieces."""

import json
from collections.abc import Mapping
from typing import Any

from splitter.errors import Refused
from splitter.exports.corpus import Corpus
from splitter.exports.piece import Piece
from splitter.exports.target import ExportTarget
from splitter.ledger.formats import FILE_NAME, TooLarge, arrow_array, arrow_columns, is_label, typed_values
from splitter.outputs.decoding import IMAGES
from splitter.text.endings import SOUND

# limits of a row group, and of a file
GROUP_BYTES, GROUP_ROWS = 16 << 20, 10_000
FILE_BYTES = 500 << 20
# Hugging Face's own settings, with which the Hub stores equal chunks only once
CHUNKING = {"min_chunk_size": 256 << 10, "max_chunk_size": 1 << 20, "norm_level": 0}
# the first release of pyarrow that has this
_CHUNKS = 21
# columns of the sink, which say where an output is
_OF_SINK = ("output", "shard_offset")


def columns_of(corpus: Corpus) -> list[str]:
    """Return the columns to export: not the sink's, nor those that readers take for the files themselves."""
    return [name for name in corpus.header if is_label(name) and name not in _OF_SINK]


def kind_of(piece: Piece, before: str = "") -> str:
    """Return whether a piece is `audio` or `image`; refuse any other piece, and a mixture of both."""
    ending = piece.ending[1:].lower()
    kind = "audio" if ending in SOUND else "image" if ending in IMAGES else ""
    if not kind:
        raise Refused(f"{piece.name}: is neither sound nor an image; leave it out with --where")
    if before not in ("", kind):
        kinds = {"audio": "sound", "image": "an image"}
        raise Refused(
            f"{piece.name}: is not {kinds[before]}, as the pieces before are; leave it out with --where"
        )
    return kind


class PieceTables:
    """Tables of pieces; with their contents, if `kind` says what these are, such as `audio`.

    Attributes:
        kind: What the contents are, if they are in the tables.
        rows: The number of rows.
        bytes: The size of all contents.
        paths: The path of each table begun so far, by its name in the export.
    """

    def __init__(
        self, name: str, columns: list[str], corpus: Corpus, target: ExportTarget, kind: str = ""
    ) -> None:
        """Begin with no table; `{}` in the name stands for the number of a table."""
        self._name, self._columns, self._corpus, self._target = name, columns, corpus, target
        self.kind = kind
        self._schema = _schema(columns, corpus.types, kind)
        self._writer: Any = None
        self.rows = self.bytes = self._in_file = self._waiting = 0
        self.paths: dict[str, str] = {}
        self._block: list[tuple[Any, list[str]]] = []

    def add(self, piece: Piece, name: str) -> None:
        """Add a piece; `name` is the name of its file in the export."""
        first: Any = name
        if self.kind:
            content = self._corpus.read(piece)
            first = {"bytes": content, "path": name}
            self._waiting += len(content)
            self.bytes += len(content)
        else:
            self.bytes += piece.size
        self._block.append((first, [piece[column] for column in self._columns]))
        self.rows += 1
        if len(self._block) == GROUP_ROWS or self._waiting >= GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        firsts, rows = zip(*self._block, strict=True)
        arrays = [pa.array(firsts, self._schema[0].type)]
        columns = zip(self._columns, [*self._schema][1:], zip(*rows, strict=True), strict=True)
        for name, field, texts in columns:
            kind = self._corpus.types.get(name, "str")
            try:
                arrays.append(arrow_array(name, typed_values(texts, kind), field.type))
            except (TooLarge, ValueError):
                raise Refused(
                    f"the column {name!r} has a value that is not a 64-bit {kind}; leave it out with --where"
                ) from None
        self._writer = self._writer or self._opened()
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._in_file += self._waiting
        self._block, self._waiting = [], 0
        if self._in_file >= FILE_BYTES:
            self._end_file()

    def _opened(self) -> Any:  # noqa: ANN401 - pyarrow says nothing of its types
        import pyarrow as pa
        import pyarrow.parquet as pq

        name = self._name.format(f"{len(self.paths):05}")
        path = self.paths[name] = self._target.path(name)
        # sound and images are compressed already, or would hardly shrink
        contents = {f"{self.kind}.bytes": "none", f"{self.kind}.path": "zstd"} if self.kind else {}
        chunking = (
            {"use_content_defined_chunking": CHUNKING} if int(pa.__version__.split(".")[0]) >= _CHUNKS else {}
        )
        return pq.ParquetWriter(
            path,
            self._schema,
            compression={**dict.fromkeys(self._schema.names, "zstd"), **contents},
            # a dictionary depends on the rows before, so equal rows would not give equal bytes
            use_dictionary=False,
            # statistics of contents would be as long as the contents
            write_statistics=[name for name in self._schema.names if name != self.kind],
            write_page_index=True,
            **chunking,
        )

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._in_file = 0

    def close(self) -> None:
        """Write the remaining pieces, and end the last table."""
        if self._block:
            self._write_group()
        self._end_file()


def column_types(columns: list[str], types: Mapping[str, str]) -> dict[str, str]:
    """Return the types of columns: string, int64, float64 or bool."""
    names = {"double": "float64"}
    return {name: names.get(str(arrow), str(arrow)) for name, arrow in arrow_columns(columns, types)}


def _schema(columns: list[str], types: Mapping[str, str], kind: str) -> Any:  # noqa: ANN401 - of pyarrow
    """Return the schema; for a table with contents, it also has the features that Hugging Face reads."""
    import pyarrow as pa

    others = arrow_columns(columns, types)
    if not kind:
        return pa.schema([(FILE_NAME, pa.string()), *others])
    dtypes = column_types(columns, types)
    features = {name: {"dtype": dtype, "_type": "Value"} for name, dtype in dtypes.items()}
    features[kind] = {"_type": kind.capitalize()}
    content = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([(kind, content), *others], metadata)
