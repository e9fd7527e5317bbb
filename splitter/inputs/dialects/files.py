"""Lines and JSON of untrusted files, compressed or not, within limits."""

import errno
import gzip
import json
import os
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from splitter.archives.members import GZIP
from splitter.errors import Refused
from splitter.inputs.dialects.base import Written
from splitter.text.csv import ENCODING, ESCAPE, json_text, json_value

HEAD = 1 << 16
LONGEST_LINE = 64 << 20
MOST_JSON = 512 << 20
# text compresses to about a twentieth; a large file that expands more than 200 times was made to fill a disk
_MOST_UNPACKED, _ROOM = 200, 1 << 30


def _opened(path: str) -> tuple[BinaryIO, int]:
    """Open a file; also return how many bytes may be read from it if it is compressed, else 0."""
    if os.path.exists(path) and not os.path.isfile(path):
        # a pipe can be read only once, and may block forever
        raise OSError(errno.EINVAL, "is not a plain file")
    with open(path, "rb") as file:
        is_packed = file.read(2) == GZIP
        most = max(_ROOM, _MOST_UNPACKED * os.fstat(file.fileno()).st_size)
    if is_packed:
        return cast("BinaryIO", gzip.open(path, "rb")), most
    return open(path, "rb"), 0


def lines(path: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    try:
        file, most = _opened(path)
        with file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise Refused(
                        f"{name}: line {number} is longer than {LONGEST_LINE:,} bytes; check the file"
                    )
                if most and file.tell() > most:
                    raise Refused(
                        f"{name}: unpacks to more than {most:,} bytes; unpack it first, and check it"
                    )
                text = line.decode(ENCODING, ESCAPE).rstrip("\r\n")
                text = text.removeprefix("\ufeff") if number == 1 else text
                if text.strip():
                    yield number, text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Refused(f"{name}: is damaged ({error}); create it again") from None
    except OSError as error:
        raise Refused(f"{name}: cannot be read: {error.strerror or error}; check its path") from None


def objects(there: Written) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the JSON object of each line; numbers in the object are text."""
    for number, line in lines(there.path, there.name):
        try:
            value = json_value(line)
        except (ValueError, RecursionError) as error:
            raise there.fault(number, f"is not JSON ({error}); fix that line") from None
        if not isinstance(value, dict):
            raise there.fault(number, "is not a JSON object; write one object per line")
        yield number, value


def whole_json(there: Written) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the value of a JSON file, with numbers as text."""
    try:
        file, _ = _opened(there.path)
        with file:
            content = file.read(MOST_JSON + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise Refused(f"{there.name}: cannot be read: {error}") from None
    if len(content) > MOST_JSON:
        raise Refused(f"{there.name}: is more than {MOST_JSON:,} bytes of JSON; export it in parts")
    try:
        return json_value(content.decode("utf-8-sig", ESCAPE))
    except json.JSONDecodeError as error:
        raise there.fault(error.lineno, f"is not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{there.name}: is not JSON ({error})") from None


def look(path: str, name: str) -> Written:
    """Return a file with its beginning, or a folder without one."""
    if not os.path.isfile(path):
        return Written(path, name)
    try:
        file, _ = _opened(path)
        with file:
            head = file.read(HEAD).decode(ENCODING, "replace").removeprefix("\ufeff")
        first = next(lines(path, name), (1, ""))[1] if head.lstrip()[:1] == "{" else ""
        fields = json_value(first) if first else None
    except (EOFError, OSError, zlib.error, ValueError, RecursionError, Refused):
        # if it is meant as a dataset list, the reader of lists says what is wrong
        return Written(path, name)
    return Written(path, name, head, fields if isinstance(fields, dict) else None)


def scalars(fields: dict[str, Any], *without: str) -> dict[str, str]:
    """Return the fields of a JSON object as text, except those in `without`."""
    return {name: json_text(value) for name, value in fields.items() if name not in without}
