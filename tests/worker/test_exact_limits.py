"""Just below a limit, exactly at it, and just above: where `<` for `<=` would show."""

import errno
import gzip
import io
import os
import random
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import copying
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from doors import here, read_table, tree, write_files
from ledger.test_journal import commit, done
from object_store import Bucket
from tar_archives import tar_bytes

import splitter
from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.archives import reader as archive
from splitter.archives.members import SharedFile
from splitter.archives.reader import read_members
from splitter.archives.writer import header
from splitter.dataset import Result
from splitter.errors import BadResult, StorageError
from splitter.inputs.shards import reader
from splitter.ledger import journal as journal_module
from splitter.ledger import records as commits_module
from splitter.ledger.journal import Journal
from splitter.ledger.protocol import BEGUN
from splitter.ledger.records import DIGEST_BYTES, ENTRY, Record, RowColumns, first_line
from splitter.ledger.shard_groups import LEAST_BYTES, MOST_SMALL, inputs_in_group
from splitter.options import RunOptions
from splitter.outputs import dataset
from splitter.records import Scratch
from splitter.sinks import parquet
from splitter.sinks.columns import OutputColumns
from splitter.sinks.parquet import ParquetSink
from splitter.storage import content as content_module
from splitter.storage import remote, remote_files
from splitter.storage.content import hold_content, measure, write_content
from splitter.storage.folder import LocalStorage
from splitter.storage.layout import RECORDS
from splitter.storage.opening import storage_of
from splitter.stores import objects
from splitter.text import csv as csv_module
from splitter.text.csv import CsvFile

NEAR = (-1, 0, 1)
MEGABYTE = 1 << 20


class Sized(ProcessorDataset):
    """As many outputs as the input has words, each of so many bytes."""

    def process(self, input_file: InputFile) -> Result:
        sizes = [int(word) for word in input_file.read_text().split()]
        return (OutputFile(f"{at}.bin", pattern(size, at), {"at": at}) for at, size in enumerate(sizes)), {}


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes of which no two stretches are alike."""
    return random.Random(seed).randbytes(size)


@pytest.fixture
def sized(folder: Path) -> Callable[..., Path]:
    """Runs `Sized` over inputs, and returns the output folder."""

    def run(*inputs: str, **options: Any) -> Path:
        names = {f"{number:03d}.txt": text for number, text in enumerate(inputs)}
        write_files(folder / "inputs", names)
        output = folder / f"outputs {len(list(folder.iterdir()))}"
        paths = [str(folder / "inputs" / name) for name in names]
        Sized(paths).run(output, root=str(folder / "inputs"), workers=0, quiet=True, **options)
        return output

    return run


def shards(output: Path) -> list[Path]:
    return sorted((output / "shards").iterdir())


# -- sinks -----------------------------------------------------------------------------------------------


def groups_of(path: Path) -> list[list[bytes]]:
    """The contents in each row group of a table, by pyarrow."""
    with pq.ParquetFile(path) as file:
        numbers = range(file.num_row_groups)
        return [[row["file"]["bytes"] for row in file.read_row_group(one).to_pylist()] for one in numbers]


@pytest.mark.slow
@pytest.mark.parametrize("more", NEAR)
@pytest.mark.parametrize("before", [0, 1, MEGABYTE])
def test_a_content_that_fills_a_row_group_of_parquet(sized, before: int, more: int):
    """16 MiB in all, in one content or with another before it."""
    limit = 16 * MEGABYTE
    output = sized(f"{before} {limit - before + more} 5", sink="parquet")
    found = groups_of(shards(output)[0])
    expected = [pattern(before), pattern(limit - before + more, 1), pattern(5, 2)]
    assert [one for group in found for one in group] == expected
    assert len(found[0]) == (2 if more <= 0 else 1)


@pytest.mark.parametrize("limit", [1, 7, 64])
def test_row_groups_are_as_full_as_they_may_be(sized, monkeypatch: pytest.MonkeyPatch, limit: int):
    """None has more bytes than it may unless it is one content, and the next one would not have fitted."""
    monkeypatch.setattr(parquet, "GROUP_BYTES", limit)
    chance = random.Random(limit)
    near = [0, 1, limit - 1, limit, limit + 1, limit // 2, limit - limit // 2]
    sizes = [chance.choice(near) for _ in range(200)]
    output = sized(" ".join(map(str, sizes)), sink="parquet")
    found = groups_of(shards(output)[0])
    assert [len(one) for group in found for one in group] == sizes
    sums = [sum(map(len, group)) for group in found]
    for group, total, following in zip(found, sums, found[1:], strict=False):
        assert total <= limit or len(group) == 1
        assert total + len(following[0]) > limit


@pytest.mark.parametrize("count", [2, 3, 4, 6, 7])
def test_rows_that_fill_a_row_group(sized, monkeypatch: pytest.MonkeyPatch, count: int):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 3)
    found = groups_of(shards(sized("1 " * count, sink="parquet"))[0])
    assert [len(group) for group in found] == [3] * (count // 3) + [count % 3] * bool(count % 3)


@pytest.mark.parametrize("more", NEAR)
def test_the_largest_value_that_a_table_takes(more: int):
    sink = ParquetSink(RunOptions()).with_columns(OutputColumns(), ["input"])
    row = {"size": parquet.LARGEST + more, "output_name": "a.bin"}
    if more <= 0:
        sink.check(row)
    else:
        with pytest.raises(BadResult, match="Parquet holds up to"):
            sink.check(row)


class Numbers(ProcessorDataset):
    def process(self, input_file: InputFile) -> Result:
        return [OutputFile("a", b"1", {"number": int(input_file.read_text())})], {}


def test_the_largest_and_the_least_number_of_a_table(folder: Path):
    """What 64 bits do not hold is kept as text, in `other_metadata`."""
    numbers = [0, *(sign * (1 << 63) + near for sign in (1, -1) for near in NEAR)]
    write_files(folder / "inputs", {f"{at}.txt": str(number) for at, number in enumerate(numbers)})
    paths = [str(folder / "inputs" / f"{at}.txt") for at in range(len(numbers))]
    Numbers(paths).run(folder / "out", root=str(folder / "inputs"), workers=0, quiet=True, sink="parquet")
    rows = pq.read_table(shards(folder / "out")[0]).to_pylist()
    fits = [-(1 << 63) <= number < 1 << 63 for number in numbers]
    assert [row["number"] for row in rows] == [
        number if fit else None for number, fit in zip(numbers, fits, strict=True)
    ]
    assert [
        str(number) in (row["other_metadata"] or "") for number, row in zip(numbers, rows, strict=True)
    ] == [not fit for fit in fits]


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
@pytest.mark.parametrize("count", [4, 5, 6, 10, 11])
def test_samples_that_fill_a_shard(sized, sink: str, count: int):
    found = shards(sized(*["1"] * count, sink=sink, shard_maxcount=5))
    rows = read_table(found[0].parents[1] / "manifest.csv")
    of_each = [sum(row["output"].startswith(f"shards/{shard.name}/") for row in rows) for shard in found]
    assert sorted(of_each) == [count % 5] * bool(count % 5) + [5] * (count // 5)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513])
def test_an_archive_that_is_exactly_as_large_as_it_may_be(sized, size: int):
    """The size of a shard counts all of it, its end too."""
    inputs = [f"{size}"] * 6
    (whole,) = shards(sized(*inputs, sink="webdataset", shard_size=100_000))
    most = whole.stat().st_size
    for more, shards_wanted in ((-1, 2), (0, 1), (1, 1)):
        found = shards(sized(*inputs, sink="webdataset", shard_size=most + more))
        assert len(found) == shards_wanted
        assert all(shard.stat().st_size <= most + more for shard in found)
    with tarfile.open(whole) as tar:
        assert len(tar.getnames()) == 12


@pytest.mark.parametrize("each", [1000, LEAST_BYTES // 3, LEAST_BYTES - 1, LEAST_BYTES, LEAST_BYTES + 1])
@pytest.mark.parametrize("inputs", [1, 63, 64, 65, 1000])
def test_inputs_of_a_group_are_as_many_as_a_shard_is_to_take(each: int, inputs: int):
    """On average, as the sizes of shards are promised; one at least."""
    for shard_bytes in (each, LEAST_BYTES, 1 << 30):
        size = inputs_in_group(inputs, inputs * each, shard_bytes)
        wanted = min(shard_bytes, max(LEAST_BYTES, inputs * each // 64))
        assert size == 1 or size * each <= wanted
        assert (size + 1) * each > wanted or size == max(MOST_SMALL, inputs // 64)


# -- archives ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 80, 85, *range(97, 105), *range(970, 1000), 4096])
@pytest.mark.parametrize("letter", ["x", "ü"])
def test_a_name_in_an_archive(length: int, letter: str):
    """In the old header if it has room there, else in an extended one, whose records say their length."""
    name = letter * length
    content = header(name, 3) + b"abc" + bytes(509) + bytes(1024)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        (member,) = tar.getmembers()
        assert (member.name, member.size) == (name, 3)
        assert tar.extractfile(member).read() == b"abc"
    assert (len(header(name, 3)) == 512) == (letter == "x" and length <= 100)
    assert [(one.name, one.size) for one in read_members(io.BytesIO(content), "it")] == [(name, 3)]


@pytest.mark.parametrize("more", NEAR)
def test_the_largest_size_in_a_plain_header(more: int):
    """Eleven digits of eight."""
    size = 8**11 - 1 + more
    made = header("a", size)
    with tarfile.open(fileobj=io.BytesIO(made)) as tar:
        assert tar.next().size == size
    assert (len(made) == 512) == (more <= 0)


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "parquet"])
@pytest.mark.parametrize("how", ["bytes", "path"])
def test_a_content_in_a_shard_that_is_as_large_as_is_held(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, how: str
):
    """In memory, or in a file; passed over, or sought."""
    for module, name, limit in (
        (archive, "HELD_BYTES", 64),
        (archive, "SOUGHT_BYTES", 32),
        (reader, "HELD_BYTES", 64),
        (reader, "LARGE", 128),
    ):
        monkeypatch.setattr(module, name, limit)
    contents = [pattern(limit + more, limit) for limit in (1, 32, 64, 128) for more in NEAR]
    names = [f"{number:02d}.bin" for number in range(len(contents))]
    path = folder / f"shard.{kind}"
    if kind == "parquet":
        column = [{"bytes": one, "path": name} for one, name in zip(contents, names, strict=True)]
        pq.write_table(pa.table({"audio": column}), path, row_group_size=5)
    else:
        made = tar_bytes(zip(names, contents, strict=True))
        path.write_bytes(made if kind == "tar" else gzip.compress(made))
    copying.Copy(str(path), how=how).run(folder / "out", workers=0, quiet=True)
    found = [(folder / "out" / row["output"]).read_bytes() for row in read_table(folder / "out/manifest.csv")]
    assert found == contents


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7])
def test_as_many_objects_as_are_deleted_at_once(s3: Bucket, monkeypatch: pytest.MonkeyPatch, count: int):
    """None is left, and none that was not named goes."""
    monkeypatch.setattr(objects, "KEYS_AT_A_TIME", 3)
    storage = storage_of(s3.url("out"))
    for number in range(count + 1):
        storage.write(f"{number}", b"")
    storage.remove([str(number) for number in range(count)])
    assert s3.keys() == [f"out/{count}"]


# -- contents --------------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[bytes, Path], Any]] = {
    "bytes": lambda content, path: content,
    "a buffer": lambda content, path: memoryview(content),
    "a callable": lambda content, path: lambda file: file.write(content),
    "small writes": lambda content, path: (
        lambda file: [file.write(content[at : at + 3]) for at in range(0, 64, 3)]
    ),
    "a file": lambda content, path: path.write_bytes(content) and path,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("room", [31, 32, 33, 0])
def test_a_content_as_large_as_the_room_for_it(folder: Path, kind: str, room: int):
    """It is in memory if it fits to the last byte, else on disk, and nothing beside it is touched."""
    content = pattern(32)
    memory = bytearray(b"." * (room + 16))
    path = str(folder / "on disk")
    view = memoryview(memory)[:room]
    size, checksum, there = hold_content(view, path, KINDS[kind](content, folder / "own"), Scratch())
    (folder / "expected").write_bytes(content)
    assert (size, checksum) == measure(str(folder / "expected"))
    assert there == (room >= 32)
    assert memory[room:] == b"." * 16
    assert (bytes(memory[:32]) if there else Path(path).read_bytes()) == content


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 6, 7])
def test_a_disk_that_takes_three_bytes_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch, size: int):
    """What a call has not written is written by the next."""
    write, pwrite = os.write, os.pwrite
    monkeypatch.setattr(content_module.os, "write", lambda file, data: write(file, bytes(data)[:3]))
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, bytes(data)[:3], at))
    content = pattern(size)
    path = str(folder / "content")
    assert write_content(path, content, Scratch())[0] == size
    assert Path(path).read_bytes() == content
    file = SharedFile.of(())
    file.write(b"zz", size + 2)
    file.write(content, 2)
    assert file.read(size, 2) == content


# -- reading in pieces -------------------------------------------------------------------------------------

PIECE = 8
SIZES = [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - 1, 2 * PIECE, 2 * PIECE + 1, 5 * PIECE]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[remote.RemoteStorage]:
    """A store in memory with an object of each size, which is read in small pieces."""
    for module in (remote, remote_files):
        monkeypatch.setattr(module, "READ_AT_ONCE", PIECE)
    storage = storage_of("memory://limits/out")
    assert isinstance(storage, remote.RemoteStorage)
    for size in SIZES:
        storage.write(f"{size}.bin", pattern(size))
    yield storage
    storage.remove(f"{size}.bin" for size in SIZES)


@pytest.mark.parametrize("size", SIZES)
def test_an_object_that_ends_where_a_piece_does(store: remote.RemoteStorage, folder: Path, size: int):
    """Read as a whole, from any place, from its end, as a copy here, and as a file here."""
    name, content = f"{size}.bin", pattern(size)
    with store.open_output(name) as file:
        assert file.read() == content
    for start in range(size + 2):
        with io.BufferedReader(store.open_output(name), 2) as file:
            assert file.seek(start - size - 1, io.SEEK_END) == max(0, start - 1)
            assert file.read() == content[max(0, start - 1) :]
            assert file.seek(start) == start
            assert file.read(3) == content[start : start + 3]
    with store.open(name) as copy:
        assert copy.read() == content
    assert store.read(name) == content
    assert Path(store.near(name, str(folder)), name).read_bytes() == content


def test_a_copy_that_could_not_be_fetched_is_fetched_when_it_is_asked_for_again(
    store: remote.RemoteStorage, monkeypatch: pytest.MonkeyPatch
):
    """The first try fails in the middle: what it left is neither the file nor an empty one."""
    read_part = store.objects.read_part
    asked = []

    def fail_once(name: str, start: int, stop: int) -> bytes:
        asked.append(name)
        if len(asked) == 2:
            raise OSError(5, "the store is away")
        return read_part(name, start, stop)

    monkeypatch.setattr(store.objects, "read_part", fail_once)
    names = [f"{size}.bin" for size in SIZES]
    with pytest.raises(StorageError, match="cannot read"):
        store.have_at_hand(names)
    store.have_at_hand(names)
    for size in SIZES:
        with store.open(f"{size}.bin") as file:
            assert file.read() == pattern(size)


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", NEAR)
def test_the_longest_part_of_a_path(folder: Path, more: int):
    """As the file system has it."""
    storage = LocalStorage(str(folder))
    for letter in ("x", "ü", "🎈"):
        name = letter * (255 // len(letter.encode()))
        name += "x" * (255 - len(name.encode()) + more)
        try:
            (folder / name).touch()
            expected = ""
        except OSError:
            expected = "is too long"
        assert storage.unfit(f"{name}/0.txt") == expected
        assert bool(expected) == (more > 0)


@pytest.mark.parametrize("more", NEAR)
def test_the_longest_path(folder: Path, more: int):
    storage = LocalStorage(str(folder))
    left = 4000 + more - len(os.fsencode(storage.path("")))
    name = "/".join(["x" * 99] * (left // 100) + ["y" * (left % 100)])
    name = name if left % 100 else f"{name[:-1]}z"
    assert len(os.fsencode(storage.path(name))) == 4000 + more
    assert storage.unfit(name) == ("is too long" if more > 0 else "")


# -- records -----------------------------------------------------------------------------------------------


@pytest.fixture
def storage(folder: Path) -> LocalStorage:
    storage = LocalStorage(str(folder / "outputs"))
    storage.prepare()
    return storage


def test_a_record_whose_entries_name_a_head_that_it_does_not_have(storage: LocalStorage):
    """The last that there is, and the one behind it."""
    heads = [RowColumns(("input",)), RowColumns(("input", "label"))]
    for number in range(4):
        entries = np.zeros(1, ENTRY)
        entries["head"] = number
        content = first_line(heads, 1, 0) + entries.tobytes()
        storage.write(f"{RECORDS}/000001-000000", content + xxhash.xxh3_128_digest(content))
        if number < len(heads):
            assert len(Record.read(storage, "000001-000000").entries) == 1
            continue
        with pytest.raises(StorageError, match="its entries are wrong"):
            Record.read(storage, "000001-000000")


def test_each_byte_of_a_record_is_looked_at(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch):
    """Whatever the pieces in which it is read."""
    commit(storage, "000001-000000", {1: ["1/a"], 2: ["2/b", "2/c"]})
    path = Path(storage.path(f"{RECORDS}/000001-000000"))
    content = path.read_bytes()
    for at_once in (
        1,
        2,
        len(content) - DIGEST_BYTES - 1,
        len(content) - DIGEST_BYTES,
        len(content),
        1 << 20,
    ):
        monkeypatch.setattr(commits_module, "_READ_AT_ONCE", at_once)
        path.write_bytes(content)
        assert [*Journal(storage).faults()] == []
        first = content.index(b"\n") + 1
        for at in range(first, len(content), 1 if at_once > len(content) else 29):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert [name for name, _ in Journal(storage).faults()] == [f"{RECORDS}/000001-000000"], at
        last = len(content) - DIGEST_BYTES - 1
        path.write_bytes(content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :])
        assert [*Journal(storage).faults()]


def test_a_mark_that_was_left_beside_its_commit_is_no_fault(storage: LocalStorage):
    """Its batch is committed; a damaged one of another batch is named."""
    commit(storage, "000001-000000", {1: ["1/a"]})
    for batch in ("000001-000000", "000001-000001"):
        storage.write(f"{RECORDS}/{batch}{BEGUN}", b"no JSON")
    assert [name for name, _ in Journal(storage).faults()] == [f"{RECORDS}/000001-000001{BEGUN}"]


def test_what_a_batch_has_begun_is_not_done_for_who_only_looks(storage: LocalStorage):
    journal = Journal(storage)
    commit(storage, "000001-000000", {1: ["1/a"], 2: ["2/b"]})
    journal.begin("000002-000000", [2, 3], ["2/b", "3/c"])
    assert journal.peek() == ["2/b", "3/c"]
    assert (journal.find(np.array([1, 2, 3], "u8")) >= 0).tolist() == [True, False, False]
    assert done(storage) == {1: ["1/a"], 2: ["2/b"]}


def test_what_a_generation_has_committed_is_not_older_than_it(storage: LocalStorage):
    for generation in (1, 2, 3):
        commit(storage, f"{generation:06d}-000000", {generation: [f"{generation}/a"]})
    journal = Journal(storage)
    journal.load()
    entries = journal.find(np.array([1, 2, 3], "u8"))
    assert journal.is_older(entries, 2).tolist() == [True, False, False]


@pytest.mark.parametrize("at_once", [1, 2, 3, 1 << 20])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
def test_records_that_are_copied_in_blocks(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, count: int, at_once: int
):
    """Blocks of entries, and of bytes, that end before, with and behind an input."""
    monkeypatch.setattr(journal_module, "_ENTRIES_AT_ONCE", at_once)
    monkeypatch.setattr(journal_module, "_COPY_AT_ONCE", 10 * at_once)
    monkeypatch.setattr(journal_module, "FEW_RECORDS", 0)
    for number in range(2):
        inputs = range(number * count, (number + 1) * count)
        commit(storage, f"000001-{number:06d}", {key: [f"{key}/a"] * (key % 3) for key in inputs})
    before = done(storage)
    journal = Journal(storage)
    journal.load()
    entries = journal.find(np.arange(2 * count, dtype="u8"))
    text = b"".join(piece for *_, piece in journal.pieces(entries))
    assert text == b"".join(
        f"{key}.txt,{key}/a,1,xxh128:0,p,w\n".encode() for key in range(2 * count) for _ in range(key % 3)
    )
    journal.compact(entries)
    assert storage.names(RECORDS) == ["000002-compact"]
    assert done(storage) == before


# -- lists ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", range(1, 40))
def test_a_list_that_is_read_in_blocks(folder: Path, monkeypatch: pytest.MonkeyPatch, at_once: int):
    """Blocks end within a line, at its end, before it; the last line has no end, or it has."""
    monkeypatch.setattr(csv_module, "LINES_AT_ONCE", at_once)
    for text in (b"input,label\na.txt,1\nb.txt,\nccc.txt,333\n", b"input,label\na.txt,1\nb.txt,22"):
        (folder / "list.csv").write_bytes(text)
        blocks = [*CsvFile(str(folder / "list.csv"), ",", 2).plain_blocks()]
        assert all(block is not None for block in blocks)
        lines = []
        for block, ends in blocks:
            assert ends[-1] == len(block)
            lines += [block[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        assert lines == [line + b"\n" for line in text.split(b"\n") if line]


@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_an_empty_line_in_a_list_is_no_plain_block(folder: Path, where: int):
    lines = [b"a", b"b", b"c"]
    lines.insert(where, b"")
    (folder / "list.csv").write_bytes(b"input\n" + b"\n".join(lines) + b"\n")
    assert None in [*CsvFile(str(folder / "list.csv"), ",", 1).plain_blocks()]


@pytest.mark.slow
@pytest.mark.parametrize("count", [49, 50, 51, 52])
def test_inputs_that_fill_their_batches(folder: Path, capfd, count: int):
    """Each is in one of them, the last as well: no second round has to find it."""
    write_files(folder / "inputs", {f"{number:02d}.txt": "word" for number in range(count)})
    options = ("--recipe=words", "--workers=0", "--batch-size=1", f"--output={folder / 'outputs'}")
    said = here(capfd, "run", folder / "inputs", *options)
    assert said.code == 0
    assert f"{count} of {count} inputs done" in said.err
    assert "lost" not in said.err


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_the_first_few_of_a_list(sized, limit: int):
    found = tree(sized("1", "1", "1", limit=limit))
    assert len(found) == 1 + min(limit, 3)


def test_an_input_without_a_byte_can_be_read(folder: Path):
    """It is done again when its label changes, and is not taken for one that is away."""
    write_files(folder / "inputs", {"empty.txt": "", "other.txt": "1"})
    options = {"root": str(folder / "inputs"), "workers": 0, "quiet": True}
    for label in ("old", "new"):
        rows = [{"input": name, "label": label} for name in ("empty.txt", "other.txt")]
        manifest = Sized(rows).run(folder / "out", **options)
    assert manifest["label"].tolist() == ["new", "new"]


class Rows(ProcessorDataset):
    """Says of an output that it is of a row of its input."""

    group_rows = True

    def process(self, input_file: InputFile) -> Result:
        return [OutputFile("0.txt", "it", {}, int(input_file.columns["row"]))], {}


@pytest.mark.parametrize("row", [-1, 0, 1, 2])
def test_an_output_is_of_one_of_the_rows_of_its_input(folder: Path, row: int):
    """It has two."""
    write_files(folder / "inputs", {"a.txt": ""})
    rows = [{"input": "a.txt", "row": str(row), "label": label} for label in ("first", "second")]
    options = {"root": str(folder / "inputs"), "workers": 0, "quiet": True}
    manifest = Rows(rows).run(folder / "out", **options)
    if row in (0, 1):
        assert manifest["label"].tolist() == [["first", "second"][row]]
    else:
        assert len(manifest) == 0
        assert [one["error"] for one in read_table(folder / "out/errors.csv")] == ["BadResult"]


class Tries(ProcessorDataset):
    """Reading fails as often as the input says."""

    tried = 0

    def process(self, input_file: InputFile) -> Result:
        Tries.tried += 1
        if Tries.tried <= int(input_file.read_text()):
            raise OSError(errno.EIO, os.strerror(errno.EIO), input_file.local_path)
        return [OutputFile("0.txt", "read")], {}


@pytest.mark.parametrize("retries", [0, 1, 2])
@pytest.mark.parametrize("more", NEAR)
def test_a_read_is_tried_again_as_often_as_was_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, retries: int, more: int
):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    write_files(folder / "inputs", {"a.txt": str(max(0, retries + more))})
    monkeypatch.setattr(Tries, "tried", 0)
    options = {"root": str(folder / "inputs"), "workers": 0, "quiet": True, "retries": retries}
    manifest = Tries([str(folder / "inputs/a.txt")]).run(folder / "out", **options)
    assert len(manifest) == (more <= 0)
    assert Tries.tried == max(0, retries + more) + (more <= 0)


# -- the buffer of a shuffled stream -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("buffer", [1, 2, 3, 9, 10, 11])
def test_a_shuffled_stream_holds_as_many_samples_as_its_buffer(sized, monkeypatch, buffer: int):
    """One more is in hand when the first comes, and every place of the buffer is used."""
    output = sized(*["1"] * 10, sink="webdataset")
    read = []
    plain = dataset.OutputSamples.contents

    def counted(samples: Any, numbers: Any) -> Iterator[Any]:
        for one in plain(samples, numbers):
            read.append(one)
            yield one

    monkeypatch.setattr(dataset.OutputSamples, "contents", counted)
    orders = []
    for seed in range(40):
        read.clear()
        stream = splitter.open(output, streaming=True, shuffle=True, buffer=buffer, seed=seed, decode=False)
        order = []
        for number, sample in enumerate(stream):
            order.append(int(sample["input"][-7:-4]))
            assert len(read) == min(10, number + 1 + buffer)
        orders.append(order)
    assert all(sorted(order) == [*range(10)] for order in orders)
    # a sample can come as soon as it is in the buffer, whichever place it has there
    for place in range(buffer if buffer < 5 else 0):
        assert any(order.index(place) == 0 for order in orders)
    for order in orders:
        assert all(place <= at + buffer for at, place in enumerate(order))
