"""huggingface: a folder that `datasets.load_dataset` opens, and the Hub shows, with its card."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Literal

from splitter.errors import Refused
from splitter.exports.base import Export
from splitter.exports.corpus import Corpus, Piece
from splitter.exports.target import ExportTarget
from splitter.ledger.formats import FILE_NAME, TooLarge, arrow_array, arrow_columns, is_label, typed_values
from splitter.text.endings import SOUND
from splitter.text.show import show_count

# one row group of a table, and one file
GROUP_BYTES, GROUP_ROWS = 16 << 20, 10_000
FILE_BYTES = 500 << 20
# Hugging Face's own; the Hub stores chunks that it has only once
CHUNKING = {"min_chunk_size": 256 << 10, "max_chunk_size": 1 << 20, "norm_level": 0}
IMAGES = frozenset("bmp gif jpeg jpg png tif tiff webp".split())  # noqa: SIM905
# of the sink, which say where an output is
_OF_SINK = ("output", "shard_offset")
_SPLIT = re.compile(r"\w+(\.\w+)*")
# the release of pyarrow that can
_CHUNKS = 21


class HuggingfaceExport(Export):
    """A folder for Hugging Face's `load_dataset` and its Hub, with a dataset card in README.md.

    Args:
        layout: folder: the outputs as files, and a table of their rows. parquet: tables that hold the
            outputs, too, which the Hub takes in any number.
        licence: The licence of the dataset, as the Hub names it, such as cc-by-4.0.
    """

    def __init__(
        self, corpus: Corpus, layout: Literal["folder", "parquet"] = "folder", licence: str = ""
    ) -> None:
        super().__init__(corpus)
        self._in_tables = layout == "parquet"
        self._licence = licence
        self._columns = [name for name in corpus.header if is_label(name) and name not in _OF_SINK]
        self._kind = ""

    def write(self, target: ExportTarget) -> None:
        """Write the tables of each split, then the card."""
        tables: dict[str, _SplitTables] = {}
        for piece in self.corpus.pieces():
            self._kind = self._kind or _kind_of(piece)
            if _kind_of(piece) != self._kind:
                raise Refused(f"{piece.name}: is no {self._kind}, as those before; leave it out with --where")
            split = piece.split or "train"
            if split not in tables:
                tables[split] = self._begin(split, target)
            tables[split].add(piece)
        for table in tables.values():
            table.close()
        if tables:
            with open(target.path("README.md"), "x", encoding="utf-8", errors="backslashreplace") as card:
                card.write(self._card(tables))

    def _begin(self, split: str, target: ExportTarget) -> "_SplitTables":
        if not _SPLIT.fullmatch(split) or split == "all":
            raise Refused(f"huggingface: {split!r:.100} cannot be the name of a split there; rename it")
        kind = self._kind if self._in_tables else ""
        return _SplitTables(split, self._columns, self.corpus, target, kind)

    def _card(self, tables: Mapping[str, "_SplitTables"]) -> str:
        """Return the card; in its head, text is written as JSON, which YAML includes."""
        lines = ["---"]
        if self._licence:
            lines.append(f"license: {json.dumps(self._licence.lower())}")
        lines += ["configs:", "- config_name: default", "  data_files:"]
        for split in tables:
            pattern = f"data/{split}-*.parquet" if self._in_tables else f"{split}/**"
            lines += [f"  - split: {split}", f"    path: {json.dumps(pattern)}"]
        lines += ["dataset_info:", "  features:", f"  - name: {self._kind}", f"    dtype: {self._kind}"]
        for name, dtype in _dtypes(self._columns, self.corpus.types).items():
            lines += [f"  - name: {json.dumps(name, ensure_ascii=False)}", f"    dtype: {dtype}"]
        lines.append("  splits:")
        for split, table in tables.items():
            lines += [
                f"  - name: {split}",
                f"    num_bytes: {table.bytes}",
                f"    num_examples: {table.rows}",
            ]
        total = sum(table.bytes for table in tables.values())
        files = sum(table.written for table in tables.values()) + (0 if self._in_tables else total)
        lines += [f"  download_size: {files}", f"  dataset_size: {total}", "---", ""]
        name = os.path.basename(self.corpus.output.rstrip("/"))
        counts = "".join(f"- {split}: {show_count(table.rows, 'row')}\n" for split, table in tables.items())
        return "\n".join(lines) + f"\n# {name}\n\n{counts}"


def _kind_of(piece: Piece) -> str:
    ending = piece.ending[1:].lower()
    if ending in SOUND:
        return "audio"
    if ending in IMAGES:
        return "image"
    raise Refused(f"{piece.name}: is neither sound nor an image; leave it out with --where")


class _SplitTables:
    """The tables of one split, which hold the outputs as well if `kind` says what these are.

    Attributes:
        rows: The number of rows.
        bytes: The bytes of their contents.
        written: The bytes of the tables.
    """

    def __init__(
        self, split: str, columns: list[str], corpus: Corpus, target: ExportTarget, kind: str
    ) -> None:
        self._split, self._columns, self._corpus, self._target = split, columns, corpus, target
        self._kind = kind
        self._schema = _schema(columns, corpus.types, kind)
        self._writer: Any = None
        self.rows = self.bytes = self.written = self._in_file = self._waiting = self._files = 0
        self._path = ""
        self._block: list[tuple[Any, list[str]]] = []

    def add(self, piece: Piece) -> None:
        """Add a piece."""
        name = f"{piece.key}{piece.ending}"
        first: Any = name
        if self._kind:
            content = self._corpus.read(piece)
            first = {"bytes": content, "path": name}
            self._waiting += len(content)
            self.bytes += len(content)
        else:
            self._target.add(piece, f"{self._split}/{name}")
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
                    f"huggingface: the column {name!r} has a value that is no {kind} of 64 bits; leave it "
                    "out with --where"
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

        name = f"data/{self._split}-{self._files:05}" if self._kind else f"{self._split}/metadata"
        self._path = self._target.path(f"{name}.parquet")
        # sound and images are compressed already, or would hardly shrink
        contents = {f"{self._kind}.bytes": "none", f"{self._kind}.path": "zstd"} if self._kind else {}
        chunking = (
            {"use_content_defined_chunking": CHUNKING} if int(pa.__version__.split(".")[0]) >= _CHUNKS else {}
        )
        return pq.ParquetWriter(
            self._path,
            self._schema,
            compression={**dict.fromkeys(self._schema.names, "zstd"), **contents},
            # the numbers of a dictionary change with what comes before
            use_dictionary=False,
            # those of contents are as long as these
            write_statistics=[name for name in self._schema.names if name != self._kind],
            write_page_index=True,
            **chunking,
        )

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self.written += os.path.getsize(self._path)
            self._writer = None
            self._files += 1
            self._in_file = 0

    def close(self) -> None:
        """Write what is left."""
        if self._block:
            self._write_group()
        self._end_file()


def _dtypes(columns: list[str], types: Mapping[str, str]) -> dict[str, str]:
    """Return the types of columns by the names that Hugging Face has for them."""
    names = {"double": "float64"}
    return {name: names.get(str(arrow), str(arrow)) for name, arrow in arrow_columns(columns, types)}


def _schema(columns: list[str], types: Mapping[str, str], kind: str) -> Any:  # noqa: ANN401 - of pyarrow
    """Return the schema, with the feature of the contents in it where they are part of the table."""
    import pyarrow as pa

    others = arrow_columns(columns, types)
    if not kind:
        return pa.schema([(FILE_NAME, pa.string()), *others])
    dtypes = _dtypes(columns, types)
    features = {name: {"dtype": dtype, "_type": "Value"} for name, dtype in dtypes.items()}
    features[kind] = {"_type": kind.capitalize()}
    content = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([(kind, content), *others], metadata)
