"""Virtual pieces of an output folder: rows without a file, read from the original recordings."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from splitter.errors import InputError, Refused, StorageError
from splitter.inputs.pieces import CUT, SOURCE_CHECKSUM, SOURCE_SIZE, PieceAddress, PieceCutter
from splitter.ledger.list_copy import ListDescription, description_of
from splitter.ledger.run_files import LAST_RUN, LISTED, RUN
from splitter.outputs.files import Files, LocalFiles
from splitter.storage.checked_file import json_of
from splitter.storage.layout import Layout


def is_virtual(row: Mapping[str, Any]) -> bool:
    """Return whether a row of the manifest is a virtual piece: it says how to cut it, and has no size."""
    size, cut = row.get("size"), row.get(CUT)
    # pandas has several values for a missing number, and none of them has only digits
    return isinstance(cut, str) and cut != "" and not str(size).isdecimal()


def have_virtual(columns: Iterable[str]) -> bool:
    """Return whether rows with these columns may be virtual pieces."""
    return {CUT, SOURCE_SIZE, SOURCE_CHECKSUM} <= {*columns}


def piece_address(row: Mapping[str, Any], column: str) -> PieceAddress:
    """Return the address of the piece in a row; raise KeyError, TypeError or ValueError if it has none."""
    return PieceAddress(str(row[column]), str(row[CUT]), int(row[SOURCE_SIZE]), str(row[SOURCE_CHECKSUM]))


class PieceReader:
    """A reader of the virtual pieces of one output folder."""

    def __init__(self, files: Files) -> None:
        """Open nothing before the first piece is read."""
        self._files = files
        self._list: ListDescription | None = None
        self._cutter: PieceCutter | None = None

    @property
    def column(self) -> str:
        """Return the name of the column that holds the recordings."""
        return self._described().column

    def address(self, row: Mapping[str, Any]) -> PieceAddress:
        """Return the address of the piece in a row of the manifest."""
        try:
            return piece_address(row, self.column)
        except (KeyError, TypeError, ValueError):
            raise StorageError(
                f"{self._files.folder}: the row of {row.get('output')} does not say what it is cut out of; "
                "pass whole rows of the manifest"
            ) from None

    def read(self, piece: PieceAddress) -> bytes:
        """Cut a piece out of its recording; return its content."""
        if self._cutter is None:
            self._cutter = PieceCutter(Layout(self._described().root), since=self._noted_at())
        try:
            return self._cutter.read(piece)
        except (InputError, OSError) as error:
            raise StorageError(f"cannot read a virtual piece of {error}") from error

    def _described(self) -> ListDescription:
        if self._list is None:
            name = LISTED.name
            if not self._files.exists(name):
                raise StorageError(
                    f"{self._files.location(name)}: does not exist, but is needed to find the recordings of "
                    "virtual pieces; restore it, or pass the output folder of the run"
                )
            try:
                self._list = description_of(self._files.read(name))
            except (ValueError, KeyError, TypeError, Refused) as error:
                raise StorageError(f"{self._files.location(name)}: {LISTED.fault_of(error)}") from None
        return self._list

    def _noted_at(self) -> int:
        """Return when the run began, in nanoseconds: a recording not touched since then has not changed.

        The run writes run.json when it begins. In a copy of the folder, that file is newer, so the run also
        notes the time in last_run.json when it ends. Return 0 if the time is unknown, which trusts nothing.
        """
        if not isinstance(self._files, LocalFiles):
            return 0
        try:
            noted = json_of(self._files.read(LAST_RUN.name))["noted"]
            return min(int(noted), os.stat(self._files.location(RUN.name)).st_mtime_ns)
        except (OSError, StorageError, ValueError, KeyError, TypeError):
            return 0
