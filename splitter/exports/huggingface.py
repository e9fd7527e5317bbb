"""huggingface: a folder that `datasets.load_dataset` opens, and the Hub shows, with its card."""

import json
import os
import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from splitter.errors import Refused
from splitter.exports.base import Export
from splitter.exports.corpus import Corpus
from splitter.exports.tables import PieceTables, column_types, columns_of, kind_of
from splitter.exports.target import ExportTarget
from splitter.text.show import show_count

_SPLIT = re.compile(r"\w+(\.\w+)*")


class HuggingfaceExport(Export):
    """A folder for Hugging Face's `load_dataset` and its Hub, with a dataset card in README.md.

    Args:
        layout: folder: the outputs as files, and a table of their rows. parquet: tables that also hold the
            outputs; the Hub takes any number of outputs in this form.
        licence: The licence of the dataset, as the Hub names it, such as cc-by-4.0.
    """

    unused: ClassVar[frozenset[str]] = frozenset({"absolute", "speaker", "text"})

    def __init__(
        self, corpus: Corpus, layout: Literal["folder", "parquet"] = "folder", licence: str = ""
    ) -> None:
        super().__init__(corpus)
        self._in_tables = layout == "parquet"
        self._licence = licence
        self._columns = columns_of(corpus)
        self._kind = ""

    def write(self, target: ExportTarget) -> None:
        """Write the tables of each split, then the card."""
        tables: dict[str, PieceTables] = {}
        for piece in self.corpus.pieces():
            self._kind = kind_of(piece, self._kind)
            split = piece.split or "train"
            if split not in tables:
                tables[split] = self._begin(split, target)
            name = f"{piece.key}{piece.ending}"
            tables[split].add(piece, name)
            if not self._in_tables:
                target.add(piece, f"{split}/{name}")
        for table in tables.values():
            table.close()
        if tables:
            with open(target.path("README.md"), "x", encoding="utf-8", errors="backslashreplace") as card:
                card.write(self._card(tables))

    def _begin(self, split: str, target: ExportTarget) -> "PieceTables":
        if not _SPLIT.fullmatch(split) or split == "all":
            raise Refused(
                f"huggingface: {split!r:.100} cannot be the name of a split on Hugging Face; rename it"
            )
        if self._in_tables:
            return PieceTables(f"data/{split}-{{}}.parquet", self._columns, self.corpus, target, self._kind)
        return PieceTables(f"{split}/metadata.parquet", self._columns, self.corpus, target)

    def _card(self, tables: Mapping[str, "PieceTables"]) -> str:
        """Return the card; its head is YAML with text written as JSON, which is valid YAML."""
        lines = ["---"]
        if self._licence:
            lines.append(f"license: {json.dumps(self._licence.lower())}")
        lines += ["configs:", "- config_name: default", "  data_files:"]
        for split in tables:
            pattern = f"data/{split}-*.parquet" if self._in_tables else f"{split}/**"
            lines += [f"  - split: {json.dumps(split)}", f"    path: {json.dumps(pattern)}"]
        lines += ["dataset_info:", "  features:", f"  - name: {self._kind}", f"    dtype: {self._kind}"]
        for name, dtype in column_types(self._columns, self.corpus.types).items():
            lines += [f"  - name: {json.dumps(name, ensure_ascii=False)}", f"    dtype: {dtype}"]
        lines.append("  splits:")
        for split, table in tables.items():
            lines += [
                f"  - name: {json.dumps(split)}",
                f"    num_bytes: {table.bytes}",
                f"    num_examples: {table.rows}",
            ]
        total = sum(table.bytes for table in tables.values())
        files = sum(os.path.getsize(path) for table in tables.values() for path in table.paths.values()) + (
            0 if self._in_tables else total
        )
        lines += [f"  download_size: {files}", f"  dataset_size: {total}", "---", ""]
        name = os.path.basename(self.corpus.output.rstrip("/"))
        counts = "".join(f"- {split}: {show_count(table.rows, 'row')}\n" for split, table in tables.items())
        return "\n".join(lines) + f"\n# {name}\n\n{counts}"
