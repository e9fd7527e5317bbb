"""Read what a run published, with Python's own libraries."""

import csv
import json
from pathlib import Path

import xxhash


def read_table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file; none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file, strict=True))


def tree(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, except splitter's own, with their content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] != ".splitter"
    }


def published(output: Path) -> dict[str, bytes]:
    """Return all that a run published, except tracebacks and numbers of attempts, which may differ."""
    found = tree(output)
    if "errors.csv" in found:
        rows = [{**row, "traceback": "", "attempts": ""} for row in read_table(output / "errors.csv")]
        found["errors.csv"] = json.dumps(rows).encode()
    return found


def check_manifest(output: Path) -> list[dict[str, str]]:
    """Return the rows of the manifest, after checking the size and checksum of the file of each."""
    rows = read_table(output / "manifest.csv")
    for row in rows:
        if row["output"]:
            content = (output / row["output"]).read_bytes()
            assert len(content) == int(row["size"]), row
            assert row["checksum"] == f"xxh128:{xxhash.xxh3_128_hexdigest(content)}", row
    return rows
