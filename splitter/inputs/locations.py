"""The size and time of an input, wherever it is, and its fingerprint."""

import errno
import os
import stat
from dataclasses import dataclass
from typing import Any

import xxhash

from splitter.errors import UnreadableInput
from splitter.ledger.recipe_record import seed_of
from splitter.stores.files import Found, look
from splitter.text.csv import ENCODING, ESCAPE, CsvText, Row, in_unicode, parse_rows
from splitter.text.urls import is_url, unsigned_bytes

UNREADABLE = -1


@dataclass(frozen=True)
class InputMarks:
    """What the fingerprints of all inputs of a list have in common.

    Attributes:
        seed: A hash of how inputs are processed.
        header: The columns of the list, if values count together with the names of their columns, as for the
            outputs of an earlier stage, which may get columns while it runs. None if rows count as written.
    """

    seed: int
    header: Row | None = None

    def of(self, text: bytes, size: int, changed_ns: int) -> int:
        """Return the fingerprint of an input: of its row, the state of its file, and how it is processed.

        The signature of a URL does not count.
        """
        if self.header is not None:
            rows = parse_rows(text)
            named = (sorted(pair for pair in zip(self.header, row, strict=True) if pair[1]) for row in rows)
            text = CsvText().encode([[part for pair in pairs for part in pair] for pairs in named])
        if b"?" in text:
            text = unsigned_bytes(text)
        return xxhash.xxh3_64_intdigest(b"%b%d,%d" % (text, size, changed_ns), self.seed)


def marks_of(how: dict[str, Any], header: Row, size_column: str | None) -> InputMarks:
    """Return the marks of a list; `size_column` is not None if its inputs come from an earlier stage."""
    if size_column is None:
        return InputMarks(seed_of(how, header))
    return InputMarks(seed_of(how, ()), header)


def absent(path: str) -> Found:
    """Return the state of a missing file, made from its location, so that it changes with --root."""
    location = unsigned_bytes(path.encode(ENCODING, ESCAPE))
    return Found(UNREADABLE, xxhash.xxh3_64_intdigest(location) >> 1)


def _hint(path: str) -> str:
    """Return what may be wrong with a path of a list made on another system; usually nothing."""
    if path != in_unicode(path):
        return "; its name is not UTF-8: if it comes from a list, save the list as UTF-8"
    if "\\" in path and os.path.exists(path.replace("\\", "/")):
        return "; write / instead of \\"
    return ""


def look_at(path: str) -> Found:
    """Return the size and time of a file; refuse pipes, devices and so on, which could block or never end."""
    if is_url(path):
        return look(path)
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            return Found(found.st_size, found.st_mtime_ns)
    except FileNotFoundError:
        link = f"is a link to {os.readlink(path)}, which " if os.path.islink(path) else ""
        raise UnreadableInput(f"{path}: {link}does not exist{_hint(path)}") from None
    except (PermissionError, NotADirectoryError) as error:
        raise UnreadableInput(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UnreadableInput(f"{path!r}: cannot be a file: {error}") from None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENAMETOOLONG):
            raise
        raise UnreadableInput(f"{path}: cannot be a file: {error.strerror}") from None
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "a device")
    raise UnreadableInput(f"{path}: is {kind}, not a file")
