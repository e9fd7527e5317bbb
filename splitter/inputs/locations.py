"""The size and time of an input, wherever it is, and its fingerprint."""

import errno
import os
import stat

import xxhash

from splitter.errors import UnreadableInput
from splitter.stores.files import Found, look
from splitter.text.csv import ENCODING, ESCAPE
from splitter.text.urls import is_url, unsigned_bytes

UNREADABLE = -1


def fingerprint(row: bytes, size: int, changed_ns: int, seed: int) -> int:
    """Return what an input was when it was processed: its columns, its file, and how it was to be processed.

    The signature of a URL does not count.
    """
    if b"?" in row:
        row = unsigned_bytes(row)
    return xxhash.xxh3_64_intdigest(b"%b%d,%d" % (row, size, changed_ns), seed)


def absent(path: str) -> Found:
    """Return what stands for a missing file; with another --root it is another missing file."""
    location = unsigned_bytes(path.encode(ENCODING, ESCAPE))
    return Found(UNREADABLE, xxhash.xxh3_64_intdigest(location) >> 1)


def look_at(path: str) -> Found:
    """Return the file's size and time; refuses what is not a plain file, which could block or never end."""
    if is_url(path):
        return look(path)
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):
            return Found(found.st_size, found.st_mtime_ns)
    except FileNotFoundError:
        where = (
            f"is a link to {os.readlink(path)}, which does not exist"
            if os.path.islink(path)
            else "does not exist"
        )
        raise UnreadableInput(f"{path}: {where}") from None
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
