"""Commit records: which of them counts, what was begun and not committed, and what is damaged."""

import csv
import io
import os
import resource
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from doors import read_table, run_words, tree

from splitter.errors import StorageError
from splitter.ledger import journal as journal_module
from splitter.ledger.journal import Journal
from splitter.ledger.manifest import ManifestTables
from splitter.ledger.protocol import BEGUN
from splitter.ledger.records import DONE, FAILED, RecordWriter, RowColumns
from splitter.ledger.status import InputStatus
from splitter.storage.base import Move
from splitter.storage.checked_file import sealed
from splitter.storage.folder import LocalStorage
from splitter.storage.layout import RECORDS

HEAD = RowColumns(("input",), (("part", "str"),), (("word", "str"),))


@pytest.fixture
def storage(folder: Path) -> LocalStorage:
    storage = LocalStorage(str(folder / "outputs"))
    storage.prepare()
    return storage


def record(entries: dict[int, list[str] | None], head: RowColumns = HEAD) -> RecordWriter:
    """A record of some inputs, each by its key with the names of its outputs; None is one that failed."""
    writer = RecordWriter()
    for key, outputs in entries.items():
        rows = [[f"{key}.txt", *["ValueError", "no", "", "1"]]] if outputs is None else []
        rows += [[f"{key}.txt", name, "1", "xxh128:0", "p", "w"] for name in outputs or []]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        status = FAILED if outputs is None else DONE
        number = len(outputs or [])
        writer.add(key, 0, status, head=head, outputs=number, size=number, text=text.getvalue().encode())
    return writer


def commit(
    storage: LocalStorage, name: str, entries: dict[int, list[str] | None], head: RowColumns = HEAD
) -> None:
    Journal(storage).commit(name, record(entries, head))


def done(storage: LocalStorage) -> dict[int, list[str]]:
    """The outputs of every input that is done."""
    journal = Journal(storage)
    journal.load()
    entries = journal.others(np.empty(0, "u8"))
    return dict(zip(journal.entries["key"][entries].tolist(), journal.outputs_of_each(entries), strict=True))


# -- the newest counts -----------------------------------------------------------------------------------


def test_the_newest_record_of_an_input_counts(storage: LocalStorage):
    """Whatever the order in which they were written."""
    commit(storage, "000002-000000", {1: ["1/new"]})
    commit(storage, "000001-000000", {1: ["1/old"], 2: ["2/old"]})
    commit(storage, "000010-000000", {3: ["3/newest"]})
    commit(storage, "000009-000000", {3: ["3/old"]})
    assert done(storage) == {1: ["1/new"], 2: ["2/old"], 3: ["3/newest"]}


def test_what_came_since_the_last_look(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch):
    """Records that are merged are newer than what they hold, and can be passed over."""
    monkeypatch.setattr(journal_module, "FEW_RECORDS", 1)
    watching, passing_over = Journal(storage), Journal(storage)
    commit(storage, "000001-000000", {1: ["1/0"]})
    assert [len(one.load_new()) for one in (watching, passing_over)] == [1, 1]
    commit(storage, "000001-000001", {2: ["2/0"]})
    merging = Journal(storage)
    merging.load()
    merging.compact(merging.done())
    assert len(watching.load_new()) == 2
    assert len(passing_over.load_new(merged=False)) == 0
    assert passing_over.is_older(passing_over.done(), 2).all()
    assert not watching.is_older(watching.done(), 2).any()


def test_an_attempt_that_was_undone_does_not_undo_the_next(storage: LocalStorage):
    """A runner dies in the middle of publishing; its batch is tried again, and then the guard dies, too."""
    journal = Journal(storage)
    journal.begin("000001-000000-000000", [1, 2], ["1/0.txt", "2/0.txt"])
    assert not journal.finish_batch("000001-000000-000000")
    journal.begin("000001-000000-000001", [1], ["1/0.txt"])
    storage.publish(_staged(storage), ["1/0.txt"])
    commit(storage, "000001-000000-000001", {1: ["1/0.txt"]})
    journal.recover()
    assert done(storage) == {1: ["1/0.txt"]}
    assert storage.exists("1/0.txt")


def _staged(storage: LocalStorage) -> str:
    folder = Path(storage.stage("batch"), "0")
    folder.mkdir()
    (folder / "0.txt").write_text("whole")
    return str(folder)


def test_a_batch_that_began_and_did_not_commit_is_undone(storage: LocalStorage):
    """Its names go, old and new ones, and its inputs are not done whatever older records say."""
    commit(storage, "000001-000000", {1: ["1/0.txt"], 2: ["2/0.txt"]})
    storage.publish(_staged(storage), ["1/0.txt"])
    Journal(storage).begin("000002-000000", [1], ["1/0.txt", "1/1.txt"])
    Journal(storage).recover()
    assert done(storage) == {2: ["2/0.txt"]}
    assert not storage.exists("1")
    before = storage.names(RECORDS)
    Journal(storage).recover()
    assert storage.names(RECORDS) == before == ["000001-000000", "000002-000000"]


def test_a_batch_that_committed_only_loses_its_begun_record(storage: LocalStorage):
    journal = Journal(storage)
    journal.begin("000001-000000", [1], ["1/0.txt"])
    storage.publish(_staged(storage), ["1/0.txt"])
    commit(storage, "000001-000000", {1: ["1/0.txt"]})
    assert journal.finish_batch("000001-000000")
    assert storage.names(RECORDS) == ["000001-000000"]
    assert done(storage) == {1: ["1/0.txt"]}


def test_a_generation_is_above_all_there_are_begun_ones_included(storage: LocalStorage):
    journal = Journal(storage)
    assert journal.next_generation == 1
    commit(storage, "000007-000003", {})
    assert done(storage) == {}
    journal.begin("000012-000000", [], [])
    assert journal.next_generation == 13


# -- promises ----------------------------------------------------------------------------------------------

BATCH = "000002-000000"


def promised(storage: LocalStorage, *names: str, gone: Sequence[str] = (), plain: bool = False) -> list[Path]:
    """Two inputs whose shards are to be replaced, or gone; `plain`, as earlier versions have promised it.

    Returns where the new shards are staged.
    """
    commit(storage, "000001-000000", {1: [f"{name}/1-0" for name in names], 2: []})
    folder = Path(storage.stage(BATCH))
    moves = []
    for name in names:
        Path(storage.path(name)).write_text("old")
        (folder / name).write_text(f"new {name}")
        size, checksum = storage.measured(f".splitter/staging/{BATCH}/{name}")
        moves.append(Move(f".splitter/staging/{BATCH}/{name}", name, size, checksum))
    journal = Journal(storage)
    new = record({1: [f"{name}/1-1" for name in names], 2: []})
    sources = [move[:2] if plain else move for move in moves]
    journal.promise(BATCH, [1, 2], [*names, *gone], moves=sources, record=new)
    return [folder / name for name in names]


def shards(storage: LocalStorage) -> list[str]:
    return sorted(name for name in os.listdir(storage.root) if name != ".splitter")


@pytest.mark.parametrize("moved", [0, 1, 2])
@pytest.mark.parametrize("plain", [False, True])
def test_a_promise_is_kept_whatever_was_moved_before(storage: LocalStorage, moved: int, plain: bool):
    """Earlier versions have not promised what a file holds: one that is not there any more is made again."""
    staged = promised(storage, "a.tar", "b.tar", plain=plain)
    for path in staged[:moved]:
        path.rename(storage.path(path.name))
    Journal(storage).recover()
    if plain and moved:
        assert done(storage) == {}
        assert shards(storage) == []
    else:
        assert done(storage) == {1: ["a.tar/1-1", "b.tar/1-1"], 2: []}
        assert Path(storage.path("b.tar")).read_text() == "new b.tar"
    assert not any(name.endswith(BEGUN) for name in storage.names(RECORDS))
    assert storage.names(storage.staging) == []


@pytest.mark.parametrize("moved", [0, 1])
def test_what_a_promise_names_and_does_not_make_again_goes(storage: LocalStorage, moved: int):
    """A group that needs fewer shards than before leaves none of those that were there."""
    (staged,) = promised(storage, "a.tar", gone=("b.tar", "c.tar"))
    if moved:
        staged.rename(storage.path("a.tar"))
    Path(storage.path("b.tar")).write_text("old")
    Path(storage.path("other.tar")).write_text("of another group")
    Journal(storage).recover()
    assert done(storage) == {1: ["a.tar/1-1"], 2: []}
    assert shards(storage) == ["a.tar", "other.tar"]


@pytest.mark.parametrize("harm", ["gone", "torn", "longer", "other", "the target is of before"])
def test_what_is_not_as_it_was_promised_is_made_again(storage: LocalStorage, harm: str):
    """Nothing counts, not even what is whole: its inputs are not done, and no name stays."""
    _, path = promised(storage, "a.tar", "b.tar")
    match harm:
        case "gone":
            path.unlink()
            Path(storage.path("b.tar")).unlink()
        case "torn":
            path.write_text("new b.t")
        case "longer":
            path.write_text("new b.tar and more")
        case "other":
            path.write_text("new c.tar")
        case _:
            path.unlink()
    Journal(storage).recover()
    assert done(storage) == {}
    assert shards(storage) == []


def test_a_worker_whose_staged_files_are_gone_says_so(storage: LocalStorage):
    """It looks no further where its own rename succeeds; where it does not, nothing counts."""
    _, path = promised(storage, "a.tar", "b.tar")
    path.unlink()
    with pytest.raises(StorageError, match=f"{BATCH}: the files staged there are gone"):
        Journal(storage).keep_own(BATCH)
    assert done(storage) == {}
    assert shards(storage) == []


def test_nobody_removes_what_was_promised(storage: LocalStorage):
    """Whoever ends a batch removes what it has staged, until it is promised, and once it is committed."""
    journal = Journal(storage)
    storage.stage("000001-000001")
    journal.release("000001-000001")
    journal.begin("000001-000002", [3], ["c.tar"])
    storage.stage("000001-000002")
    journal.release("000001-000002")
    assert storage.names(storage.staging) == []
    promised(storage, "a.tar")
    journal.release(BATCH)
    assert storage.names(f"{storage.staging}/{BATCH}") == ["a.tar"]
    assert journal.finish_batch(BATCH)
    journal.release(BATCH)
    assert storage.names(storage.staging) == []


@pytest.mark.parametrize(
    "moves", [[["a.tar"]], [["a", "b", "1", "x"]], [["a", "b", 1]], ["ab"], [[1, "b"]], {"a": "b"}, 7, None]
)
def test_a_promise_of_something_else_is_named(storage: LocalStorage, moves: object):
    content = {"keys": [1], "names": [], "moves": moves}
    storage.write(f"{RECORDS}/{BATCH}{BEGUN}", sealed(content, b""))
    with pytest.raises(
        StorageError, match=rf"/{BATCH}.begun: is damaged \(.*; remove it, and run with --fresh"
    ):
        Journal(storage).recover()


# -- damage ----------------------------------------------------------------------------------------------


def test_a_record_that_was_cut_is_named_wherever_it_was_cut(storage: LocalStorage):
    """With what to do about it; a manifest is never made from half a record."""
    commit(storage, "000001-000000", {1: ["1/0.txt", "1/1.txt"], 2: ["2/0.txt"], 3: None})
    path = Path(storage.path(f"{RECORDS}/000001-000000"))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(
            StorageError, match=r"/000001-000000: is damaged \(.*; remove it to do its inputs"
        ):
            Journal(storage).load()
    path.write_bytes(whole + b"more")
    with pytest.raises(StorageError, match="/000001-000000: is damaged"):
        Journal(storage).load()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("000001-000000", b"\0" * 100),
        ("000001-000000", b'{"heads": [], "entries": 1, "text": 0}\n' + b"\1" * 45),
        ("000001-000000", b'{"heads": 5, "entries": 0, "text": 0}\n'),
        ("000001-000000", b"[]\n"),
        (f"000009-000000{BEGUN}", b""),
        (f"000009-000000{BEGUN}", b'{"keys": [1]}'),
        (f"000009-000000{BEGUN}", b"[]"),
    ],
)
def test_a_damaged_record_is_named_in_one_line(words: Path, capfd, name: str, content: bytes):
    assert run_words(capfd, words).code == 0
    (words.parent / "outputs" / RECORDS / name).write_bytes(content)
    said = run_words(capfd, words)
    assert said.code == 1
    assert len(said.lines) == 1
    assert f"/{name}: is damaged" in said.lines[0]
    assert "remove it" in said.lines[0]


@pytest.mark.parametrize("name", [".nfs000001", ".DS_Store", "notes.txt", f"notes{BEGUN}"])
def test_what_others_leave_among_the_records_is_left_alone(words: Path, capfd, name: str):
    """A network file system does, and a file manager."""
    assert run_words(capfd, words).code == 0
    stray = words.parent / "outputs" / RECORDS / name
    stray.write_bytes(b"not a record")
    before = tree(words.parent / "outputs")
    assert run_words(capfd, words, "--num-chars=3").code == 0
    assert run_words(capfd, words, "--num-chars=2").code == 0
    assert tree(words.parent / "outputs") == before
    assert stray.read_bytes() == b"not a record"


@pytest.mark.parametrize("name", [".DS_Store", ".nfs000001", "notes.txt", f"notes{BEGUN}"])
def test_what_others_left_among_the_records_is_passed_over(words: Path, capfd, name: str):
    """A file manager or a network file system may leave files anywhere; they stop no run, and stay."""
    assert run_words(capfd, words).code == 0
    stranger = words.parent / "outputs" / RECORDS / name
    stranger.write_bytes(b"not a record")
    said = run_words(capfd, words, "--num-chars", "3")
    assert said.code == 0
    assert "4 of 4 inputs done" in said.err
    assert stranger.read_bytes() == b"not a record"


# -- merging ---------------------------------------------------------------------------------------------


def test_merging_keeps_what_counts_and_only_that(storage: LocalStorage):
    """And a second merge changes nothing."""
    other = RowColumns(("input",), (), (("length", "int"),))
    for generation in range(1, 101):
        commit(storage, f"{generation:06d}-000000", {generation % 7: [f"{generation}"]})
        commit(storage, f"{generation:06d}-000001", {100 + generation: None}, other)
    journal = Journal(storage)
    journal.begin("000101-000000", [3, 150], [])
    journal.recover()
    before = done(storage)
    assert sorted(before) == [0, 1, 2, 4, 5, 6, *(number for number in range(101, 201) if number != 150)]
    merge(storage)
    assert storage.names(RECORDS) == ["000102-compact"]
    assert done(storage) == before
    inode = os.stat(storage.path(f"{RECORDS}/000102-compact")).st_ino
    merge(storage)
    assert storage.names(RECORDS) == ["000102-compact"]
    assert os.stat(storage.path(f"{RECORDS}/000102-compact")).st_ino == inode


def merge(storage: LocalStorage) -> None:
    journal = Journal(storage)
    journal.load()
    journal.compact(journal.others(np.empty(0, "u8")))


@pytest.mark.slow
def test_thousands_of_records_take_few_open_files(storage: LocalStorage):
    """In an order that goes back and forth between all of them."""
    for number in range(3000):
        name = f"{RECORDS}/000001-{number:06d}"
        content = record({number: [f"{number}/0.txt"], 10_000 + number: [f"{number}/1.txt"]}).to_bytes()
        Path(storage.path(name)).write_bytes(content)
    journal = Journal(storage)
    journal.load()
    keys = np.array([*range(3000), *range(10_000, 13_000)], "u8")
    entries = journal.find(keys)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 24, hard))
        ManifestTables(journal, InputStatus.of(journal.storage, journal, keys), ["input"]).write()
        journal.compact(entries)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    rows = read_table(Path(storage.path("manifest.csv")))
    assert [row["output"] for row in rows] == [f"{key % 10_000}/{key // 10_000}.txt" for key in keys.tolist()]
    assert storage.names(RECORDS) == ["000002-compact"]
