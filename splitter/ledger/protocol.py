"""How a batch changes the output folder, so that a crash at any moment can be recovered from.

    begin ── remove what is stale ── publish ── commit ── end

`<batch>.begun` names the files that a batch is about to publish and to remove, and its inputs. It is written
before the first change and removed after the commit, so without a commit, it means a batch to undo. A batch
that carries over outputs of older records, because it makes a shard again, is not undone but finished: its
begun record is a promise, which holds the files to move and the record to commit.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from splitter.ledger.records import Record, RecordWriter
from splitter.ledger.run_files import BEGUN_RECORD
from splitter.storage.base import STAGING, Move, Storage, staged_is_gone
from splitter.storage.checked_file import sealed, unsealed
from splitter.storage.layout import RECORDS
from splitter.storage.names import is_clean, is_output, shown

BEGUN = ".begun"
_MOST_KEYS = 1 << 64
# the number must fit into 64 bits
_RECORD_NAME = re.compile(r"[0-9]{6,18}-")


class CommitProtocol:
    """The commit records of an output folder; call `recover` before any batch begins."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def record_names(self) -> list[str]:
        """Return the names of all records, the oldest first; ignore files that a file manager left there."""
        return [name for name in self.storage.names(RECORDS) if _RECORD_NAME.match(name)]

    @staticmethod
    def open_batches(names: Sequence[str]) -> list[str]:
        """Return the begun records without a commit; those of committed batches only have to be removed."""
        committed = {*names}
        return [name for name in names if name.endswith(BEGUN) and name.removesuffix(BEGUN) not in committed]

    @property
    def next_generation(self) -> int:
        """A generation above that of every record."""
        return max(map(generation_of, self.record_names()), default=0) + 1

    @property
    def is_begun(self) -> bool:
        """Whether there is any record."""
        return bool(self.record_names())

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each damaged record in the output folder, and what is wrong with it."""
        names = self.record_names()
        records = [name for name in names if not name.endswith(BEGUN)]
        self.storage.have_at_hand([f"{RECORDS}/{name}" for name in records])
        for name in records:
            if problem := Record.fault(self.storage, name):
                yield f"{RECORDS}/{name}", problem
        for batch in self.open_batches(names):
            name = f"{RECORDS}/{batch}"
            try:
                _parse_begun(batch, self.storage.read(name), strict=True)
            except (ValueError, KeyError, TypeError) as error:
                yield name, BEGUN_RECORD.fault_of(error)

    # -- a batch at work

    def begin(self, batch: str, keys: Sequence[int], names: Sequence[str]) -> None:
        """Write the begun record: the files that the batch is about to publish and to remove."""
        content = {"keys": [int(key) for key in keys], "names": [*names]}
        self.storage.write(_begun_name(batch), sealed(content))

    def commit(self, batch: str, record: RecordWriter) -> None:
        """Write the commit record; from now on it counts."""
        self.storage.write(f"{RECORDS}/{batch}", record.to_bytes())

    def end(self, batch: str) -> None:
        """Remove the begun record of a committed batch."""
        self.storage.remove([_begun_name(batch)])

    def promise(
        self,
        batch: str,
        keys: Sequence[int],
        names: Sequence[str],
        *,
        moves: Sequence[Move],
        record: RecordWriter,
    ) -> None:
        """Promise to move the staged files to their final names, and to commit the record.

        This is for a batch that carries over outputs of older records, which undoing it would lose. From now
        on, its staged files are the only copy, so only `finish_batch` may remove them.
        """
        content = {"keys": [int(key) for key in keys], "names": [*names], "moves": [*moves]}
        self.storage.write(_begun_name(batch), sealed(content, record.to_bytes()))

    def keep_own(self, batch: str) -> None:
        """Keep a promise right after it was made, in the process that staged the files."""
        if not self.finish_batch(batch, is_own=True):
            raise staged_is_gone(self.storage.path(f"{self.storage.staging}/{batch}"))

    # -- a batch whose worker is gone

    def finish_batch(self, batch: str, *, is_own: bool = False) -> bool:
        """Finish a batch that was begun, as promised, or undo it; return whether it is committed.

        `is_own` says that this process staged the files, so that it need not read them again to check them.
        """
        begun = _begun_name(batch)
        committed = self.storage.exists(f"{RECORDS}/{batch}")
        if not committed and self.storage.exists(begun):
            content, record = self.read_begun(f"{batch}{BEGUN}")
            committed = "moves" in content and self._moved(content["moves"], is_own=is_own)
            # this may have taken long: do not remove what another run has made since
            self.storage.confirm()
            if committed:
                targets = {move.target for move in content["moves"]}
                self.storage.remove(name for name in content["names"] if name not in targets)
                # a power cut must not leave the commit without its files
                self.storage.sync(content["names"])
                self.storage.write(f"{RECORDS}/{batch}", record)
            else:
                self._undo(batch, content)
        self.storage.remove([begun])
        return committed

    def _moved(self, moves: Sequence[Move], *, is_own: bool) -> bool:
        """Move the promised files; return whether all of them are there now, as promised.

        If another process staged the files, compare all of them with the promise before moving any.
        """
        left = [move for move in moves if is_own or self._holds(move.source, move)]
        moved_before = [move for move in moves if move not in left]
        if not all(self._holds(move.target, move) for move in moved_before):
            return False
        return all(
            self.storage.move(move.source, move.target) or self._holds(move.target, move) for move in left
        )

    def can_keep(self, content: dict[str, Any]) -> bool:
        """Return whether a begun record makes a promise, and each of its files is staged or already moved."""
        return "moves" in content and all(
            self._holds(move.source, move) or self._holds(move.target, move) for move in content["moves"]
        )

    def _holds(self, name: str, move: Move) -> bool:
        """Return whether a file is as promised; earlier versions only promised that it is staged."""
        if not move.checksum:
            return name == move.source and self.storage.exists(name)
        return self.storage.measured(name) == (move.size, move.checksum)

    def release(self, batch: str) -> None:
        """Remove what a batch has staged on this machine, unless it is the only copy of a promised file.

        This can end a batch at any moment, and sends no request to an object store.
        """
        if self.storage.parks_copies:
            self.storage.unstage(batch, and_parked=False)
        elif not self._is_promised(batch):
            self.storage.unstage(batch)

    def _is_promised(self, batch: str) -> bool:
        if self.storage.exists(f"{RECORDS}/{batch}") or not self.storage.exists(_begun_name(batch)):
            return False
        content, _ = self.read_begun(f"{batch}{BEGUN}")
        return "moves" in content

    def _undo(self, batch: str, content: dict[str, Any]) -> None:
        self.storage.withdraw(content["names"])
        # else a power cut could bring back files that no record names any more
        self.storage.sync(content["names"])
        record = RecordWriter()
        for key in content["keys"]:
            record.add_not_done(key)
        self.commit(batch, record)

    def read_begun(self, begun: str) -> tuple[dict[str, Any], bytes]:
        """Return the content of a begun record, and the commit record that it promises."""
        name = f"{RECORDS}/{begun}"
        try:
            return _parse_begun(begun, self.storage.read(name))
        except (ValueError, KeyError, TypeError) as error:
            raise BEGUN_RECORD.named(name).damaged(self.storage, error) from None

    def recover(self) -> None:
        """Finish or undo every batch without a commit. Call this only under the lock, with no worker left.

        A part of a run leaves alone batches that may belong to another part at work.
        """
        self.storage.confirm()
        part = self.storage.part
        with self.storage.gate() if part else contextlib.nullcontext():
            begun = [
                name
                for name in self.record_names()
                if name.endswith(BEGUN) and (part is None or part.may_undo(name))
            ]
            for name in begun:
                # read all of them first: if one cannot be trusted, nothing is touched
                self.read_begun(name)
            for name in begun:
                self.finish_batch(name.removesuffix(BEGUN))
        self.storage.clear_staging()
        if part is None:
            self.storage.forget_parts()


def generation_of(record: str) -> int:
    """Return the number of the run that wrote a record."""
    return int(record.partition("-")[0])


def _begun_name(batch: str) -> str:
    return f"{RECORDS}/{batch}{BEGUN}"


def _parse_begun(name: str, text: bytes, *, strict: bool = False) -> tuple[dict[str, Any], bytes]:
    """Parse a begun record; raise ValueError, KeyError or TypeError if no run can have written it."""
    content, record = unsealed(text, strict=strict)
    keys, names, moves = content["keys"], content["names"], content.get("moves", [])
    if not isinstance(keys, list) or not all(type(key) is int and 0 <= key < _MOST_KEYS for key in keys):
        raise ValueError("its keys are wrong")
    if not (isinstance(names, list) and isinstance(moves, list)):
        raise ValueError("its names are wrong")  # noqa: TRY004 - as for invalid JSON
    moves = [*map(Move.of, moves)]
    # a part of a run has one more folder in between
    batch = re.escape(name.removesuffix(BEGUN))
    staged = re.compile(rf"{re.escape(STAGING)}/(part-[0-9]+-of-[0-9]+/)?{batch}/")
    for one in (*names, *(move.target for move in moves)):
        if not is_output(one):
            raise ValueError(f"it names {shown(one)}, which no run writes")
    for move in moves:
        if not (is_clean(move.source) and staged.match(move.source)):
            raise ValueError(f"it moves {shown(move.source)}, which no run has staged")
    if "moves" in content:
        content["moves"] = moves
        Record.parse(io.BytesIO(record))
    return content, record
