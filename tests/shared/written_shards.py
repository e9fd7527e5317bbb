"""Shards like those of the sinks, by tarfile and pyarrow: an oracle that shares no code with splitter."""

import csv
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from doors import read_table

Rows = list[dict[str, Any]]


def as_shards(outputs: Path, target: Path, kind: str, *, per_shard: int = 3) -> Path:
    """Write the outputs of a run with loose files as an output folder of shards."""
    rows: Rows = [dict(row) for row in read_table(outputs / "manifest.csv")]
    (target / "shards").mkdir(parents=True)
    numbers: dict[str, int] = {}
    with_output = [row for row in rows if row["output"]]
    for number in range(0, len(with_output), per_shard):
        members = []
        for row in with_output[number : number + per_shard]:
            first = numbers.setdefault(row["input"], len(numbers)), row["output"]
            index = sum(other["output"] < first[1] for other in rows if other["input"] == row["input"])
            content = (outputs / row["output"]).read_bytes()
            extension = row["output"].rpartition(".")[2].lower()
            members.append((row, f"{first[0]:08d}-{index:06d}", extension, content))
        shard = f"shards/shard-{number // per_shard:06d}.{kind}"
        (write_tar if kind == "tar" else write_table)(target, shard, members)
    schema = json.loads((outputs / ".splitter/schema.json").read_text())
    (target / ".splitter").mkdir()
    schema["types"] = {"shard_offset": "int", **schema["types"]}
    (target / ".splitter/schema.json").write_text(json.dumps(schema))
    names = list(rows[0])
    at = names.index("checksum") + 1
    header = [*names[:at], "shard_offset", *[name for name in names[at:] if name != "shard_offset"]]
    with (target / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if (outputs / "errors.csv").exists():
        shutil.copy(outputs / "errors.csv", target)
    return target


def write_tar(target: Path, shard: str, members: list[tuple[dict[str, Any], str, str, bytes]]) -> None:
    with tarfile.open(target / shard, "w", format=tarfile.PAX_FORMAT) as tar:
        for row, key, extension, content in members:
            row["output"] = f"{shard}/{key}.{extension}"
            row["shard_offset"] = tar.offset + 512
            _add(tar, f"{key}.{extension}", content)
            _add(tar, f"{key}.json", json.dumps(row).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def write_table(target: Path, shard: str, members: list[tuple[dict[str, Any], str, str, bytes]]) -> None:
    table: list[dict[str, Any]] = []
    for number, (row, key, extension, content) in enumerate(members):
        row["output"] = f"{shard}/{key}.{extension}"
        row["shard_offset"] = number
        path = f"{key}.{extension}"
        column = "audio" if extension in ("wav", "flac") else "file"
        table.append({"key": key, column: {"bytes": content, "path": path}})
    pq.write_table(pa.Table.from_pylist(table), target / shard, row_group_size=2)
