"""Tar archives as streams: read strictly, written so that the same members are the same bytes.

Python's tarfile takes a damaged header for the end of an archive, and keeps every header in memory.

    header, 512 bytes | content, filled up to 512 | header | content | ... | 1024 zeros
"""

import functools
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

from splitter.errors import TarError

BLOCK = 512
END = bytes(2 * BLOCK)
PIECE = 1 << 20
HELD_BYTES = 4 << 20  # a larger content waits in a temporary file
SOUGHT_BYTES = 4096  # what is shorter is read faster than it is passed over
LONGEST_HEADER = 1 << 20  # of an extended header; a hostile one may claim any size
LONGEST_NAME = 100
MOST_DIGITS = 20
NO_ARCHIVE = "is not a tar archive (plain or gzip)"
CUT_OFF = "ends before its end: it was cut off, or is still being written"

_FIELDS = struct.Struct("100s 8s 8s 8s 12s 12s 8s 1s 100s 6s 2s 32s 32s 8s 8s 155s 12x")
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a FIFO",
    b"S": "a sparse file",
    b"V": "a volume label",
    b"M": "a part of a file",
    b"D": "a folder of an incremental backup",
}
_LARGEST_OCTAL = 8**11 - 1
_FILE, _FOLDER = (b"0", b"\0", b"7"), b"5"
# whatever size they state: links, devices, folders, FIFOs
_WITHOUT_CONTENT = (b"1", b"2", b"3", b"4", b"5", b"6")
# what extended headers say that matters here
_RECORDS, _SPARSE = (b"path", b"size"), b"GNU.sparse"
_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK = (b"x", b"X"), b"g", b"L", b"K"


class Waiting:
    """A file that is closed when nobody holds a part of it any more."""

    def __init__(self, descriptor: int) -> None:
        """Have the descriptor for its own."""
        self._descriptor = descriptor

    @classmethod
    def of(cls, pieces: Iterable[bytes]) -> "Waiting":
        """A temporary file without a name."""
        with tempfile.TemporaryFile(prefix="splitter-") as file:
            file.writelines(pieces)
            file.flush()
            return cls(os.dup(file.fileno()))

    def read(self, size: int, at: int) -> bytes:
        """A piece of it."""
        return os.pread(self._descriptor, size, at)

    def __del__(self) -> None:
        os.close(self._descriptor)


class Part(NamedTuple):
    """A part of such a file: a content that is not in memory."""

    file: Waiting
    start: int
    size: int

    def read(self) -> bytes:
        """What it holds."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The same, piece by piece."""
        at, end = self.start, self.start + self.size
        while piece := self.file.read(min(PIECE, end - at), at):
            at += len(piece)
            yield piece


class Member(NamedTuple):
    """A file of an archive.

    Attributes:
        name: Its name as it was written, without `./` before it.
        size: Bytes of its content.
        content: The content, or where it is.
    """

    name: str
    size: int
    content: bytes | Part

    @property
    def key(self) -> str:
        """Which sample it belongs to."""
        return split_name(self.name)[0]

    @property
    def field(self) -> str:
        """What it is of its sample."""
        return split_name(self.name)[1]

    def pieces(self) -> Iterator[bytes]:
        """The content, piece by piece."""
        if isinstance(self.content, Part):
            yield from self.content.pieces()
        else:
            yield self.content

    def read(self) -> bytes:
        """The whole content."""
        return b"".join(self.pieces())


@functools.lru_cache(maxsize=64)
def split_name(name: str) -> tuple[str, str]:
    """Key and field, divided at the first dot of the last path component, as WebDataset does.

    A name without a dot, or with one at its beginning, is all key.

    >>> split_name("dogs.v2/rex.seg.png"), split_name("README"), split_name("a/.hidden")
    (('dogs.v2/rex', 'seg.png'), ('README', ''), ('a/.hidden', ''))
    """
    start = name.rfind("/") + 1
    dot = name.find(".", start)
    return (name, "") if dot in (-1, start) else (name[:dot], name[dot + 1 :])


def why_unsafe(name: str) -> str | None:
    """What is wrong with the name of a member, if anything is."""
    if name.startswith("/"):
        return "begins with a slash"
    if ".." in name.split("/"):
        return "leads out of its folder"
    if "\0" in name:
        return "has a NUL in it"
    if not name.rpartition("/")[2] or name == ".":
        return "ends without a file's name"
    return None


# -- reading ----------------------------------------------------------------------------------------------


class Head(NamedTuple):
    """What an archive says of a member before its content.

    Attributes:
        name: Its name, without `./` before it.
        size: Bytes of its content.
        kind: The letter for what it is.
        wrong: Why it must not be read, if so; what follows it can be.
    """

    name: str
    size: int
    kind: bytes = b"0"
    wrong: str = ""


def read_members(stream: BinaryIO, place: str, *, contents: bool = True) -> Iterator[Member]:
    """The files of an archive, in its order; its folders are passed over.

    Anything else in it is an error, and so is an end before the end. Archives that follow each other are read
    as one. Without `contents` every content is empty.
    """
    counting = Counting(stream, place)
    for head in read_heads(counting):
        if head.wrong:
            plain = head.kind in (*_FILE, _FOLDER)
            raise counting.error(
                f"{head.wrong}; an archive with such a name is not read on" if plain else head.wrong
            )
        yield Member(head.name, head.size, _content(counting, head, contents=contents))


def read_heads(stream: "Counting") -> Iterator[Head]:
    """The heads of an archive's members, but for its folders; between two, a content may be read or not."""
    own: dict[str, str] = {}
    shared: dict[str, str] = {}
    ended = False
    while block := stream.read(BLOCK):
        if not any(block) and not own:
            ended = True
            continue
        ended = False
        head = _parse(block, stream)
        if head.kind in _EXTENDED:
            own.update(_records(_short_text(stream, head), stream))
        elif head.kind == _GLOBAL:
            shared.update(_records(_short_text(stream, head), stream))
        elif head.kind in (_LONG_NAME, _LONG_LINK):
            text = _short_text(stream, head).partition(b"\0")[0].decode("utf-8", "surrogateescape")
            own["path" if head.kind == _LONG_NAME else "linkpath"] = text
        else:
            head = _with(head, {**shared, **own}, stream)
            own = {}
            if head.kind == _FOLDER and not head.wrong:
                continue
            begin = stream.at
            yield head
            if head.kind not in _WITHOUT_CONTENT:
                stream.skip(head.size + -head.size % BLOCK - (stream.at - begin))
    if not ended:
        raise stream.error(CUT_OFF)


class Counting:
    """A stream that knows how far it was read; what cannot be read is one error that names the archive."""

    def __init__(self, stream: BinaryIO, place: str, size: int | None = None) -> None:
        """Of a stream that can be sought `size` says how many bytes there are."""
        self._stream, self._place, self._size, self.at = stream, place, size, 0

    def read(self, size: int) -> bytes:
        """As many bytes; none at the end."""
        parts = []
        left = size
        while left:
            part = self._read(left)
            if not part:
                break
            left -= len(part)
            parts.append(part)
        if parts and left:
            raise self.error(CUT_OFF if self.at else NO_ARCHIVE)
        self.at += size - left
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def exactly(self, size: int) -> bytes:
        """As many bytes, or an error."""
        data = self.read(size)
        if len(data) != size:
            raise self.error(CUT_OFF)
        return data

    def skip(self, size: int) -> None:
        """Go on without looking."""
        if self._size is not None and size > SOUGHT_BYTES:
            if self.at + size > self._size:
                raise self.error(CUT_OFF)
            self.at = self._stream.seek(self.at + size)
            return
        while size:
            size -= len(self.exactly(min(size, PIECE)))

    def _read(self, size: int) -> bytes:
        import zlib

        try:
            return self._stream.read(size)
        except EOFError:
            raise self.error(CUT_OFF) from None
        except zlib.error as error:
            raise self.error(f"is damaged: {error}") from None
        except TarError:
            raise
        except OSError as error:
            # of a local file, of gzip, or of a server
            raise self.error(f"cannot be read: {error.strerror or error}") from None

    def error(self, what: str) -> TarError:
        """What is wrong with the archive."""
        return TarError(f"{self._place}: {what}")


def _parse(block: bytes, stream: Counting) -> Head:
    (name, _, _, _, size, _, checksum, kind, _, magic, *_, prefix) = _FIELDS.unpack(block)
    total = sum(block) - sum(checksum) + 8 * 32
    if _number(checksum) != total:
        if stream.at == BLOCK:
            raise stream.error(NO_ARCHIVE)
        raise stream.error(f"is damaged: what stands at byte {stream.at - BLOCK} is not a tar header")
    length = _number(size)
    if length is None or length < 0:
        raise stream.error(f"is damaged: the header at byte {stream.at - BLOCK} has no size")
    full = _text(name)
    # the field belongs to POSIX archives; GNU's have times there
    if magic == b"ustar\0" and prefix[:1] != b"\0":
        full = f"{_text(prefix)}/{full}"
    if kind == b"\0" and full.endswith("/"):
        kind = _FOLDER
    return Head(full, length, kind)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int | None:
    """A number of a header: octal digits, or, with its highest bit set, binary."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big") if field[0] == 0x80 else -1  # noqa: PLR2004
    digits = field.partition(b"\0")[0].strip()
    if not digits:
        return 0
    return int(digits, 8) if all(48 <= digit < 56 for digit in digits) else None  # noqa: PLR2004


def _short_text(stream: Counting, head: Head) -> bytes:
    if head.size > LONGEST_HEADER:
        raise stream.error(f"is damaged: the extended header at byte {stream.at - BLOCK} is too long")
    text = stream.exactly(head.size)
    stream.skip(-head.size % BLOCK)
    return text


def _records(text: bytes, stream: Counting) -> Iterator[tuple[str, str]]:
    """The records of an extended header, each `LENGTH NAME=VALUE` and the end of the line."""
    at = 0
    while at < len(text) and text[at]:
        digits, space, _ = text[at : at + 20].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record = text[at + len(digits) + 1 : at + length]
        name, sign, value = record.partition(b"=")
        if not (sign and value.endswith(b"\n")) or at + length > len(text):
            raise stream.error(f"is damaged: the extended header before byte {stream.at} cannot be read")
        # a hostile archive may have any number of others
        if name in _RECORDS or name.startswith(_SPARSE):
            kept = name if name in _RECORDS else _SPARSE
            yield kept.decode(), value[:-1].decode("utf-8", "surrogateescape")
        at += length


def _with(head: Head, records: Mapping[str, str], stream: Counting) -> Head:
    """A header with what extended ones say, checked."""
    if head.kind == b"S":
        # its headers go on in blocks of their own
        raise stream.error(f"member {head.name!r} is {_KINDS[b'S']}, and only plain files are read")
    if "path" in records:
        head = head._replace(name=records["path"])
    if "size" in records:
        if not records["size"].isdecimal() or len(records["size"]) > MOST_DIGITS:
            raise stream.error(f"is damaged: member {head.name!r} has the size {records['size']!r:.40}")
        head = head._replace(size=int(records["size"]))
    if _SPARSE.decode() in records:
        head = head._replace(kind=b"S")
    name = head.name
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    if head.kind == _FOLDER and name in ("", "."):
        return head
    wrong = why_unsafe(name.rstrip("/") or name if head.kind == _FOLDER else name)
    if wrong:
        return head._replace(wrong=f"member {head.name!r} {wrong}")
    if head.kind in _KINDS or head.kind not in (*_FILE, _FOLDER):
        kind = _KINDS.get(head.kind, f"of the unknown kind {head.kind!r}")
        remedy = "; tar's options --dereference and --hard-dereference store files for links"
        wrong = f"member {name!r} is {kind}, and only plain files are read"
        return head._replace(name=name, wrong=wrong + (remedy if head.kind in b"12" else ""))
    return head._replace(name=name)


def _content(stream: Counting, head: Head, *, contents: bool) -> bytes | Part:
    content: bytes | Part = b""
    if not contents:
        stream.skip(head.size)
    elif head.size <= HELD_BYTES:
        content = stream.exactly(head.size)
    else:
        sizes = (min(PIECE, head.size - at) for at in range(0, head.size, PIECE))
        content = Part(Waiting.of(map(stream.exactly, sizes)), 0, head.size)
    stream.skip(-head.size % BLOCK)
    return content


# -- writing ----------------------------------------------------------------------------------------------


class ArchiveWriter:
    """Writes members: time, owner and mode are always the same."""

    def __init__(self, file: BinaryIO) -> None:
        """Write into a file that is open."""
        self._file = file
        self.size = 0

    def add(self, member: Member) -> None:
        """Append a member."""
        self._write(header(member.name, member.size))
        written = 0
        for piece in member.pieces():
            written += len(piece)
            self._write(piece)
        if written != member.size:
            raise TarError(
                f"member {member.name!r} has {written} bytes and not {member.size}: it has changed"
            )
        self._write(bytes(-member.size % BLOCK))

    def finish(self) -> None:
        """Mark the end."""
        self._write(END)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)


def size_in_archive(member: Member) -> int:
    """Bytes that a member takes with its headers."""
    return len(header(member.name, member.size)) + member.size + -member.size % BLOCK


@functools.lru_cache(maxsize=64)
def header(name: str, size: int) -> bytes:
    """The header of a member: POSIX, with an extended one before it where the old one has no room."""
    records = {}
    plain = name.encode("utf-8", "surrogateescape")
    if len(plain) > LONGEST_NAME or not plain.isascii():
        if not _is_utf8(plain):
            records["hdrcharset"] = b"BINARY"
        records["path"] = plain
        plain = name.encode("ascii", "replace")[:LONGEST_NAME]
    if size > _LARGEST_OCTAL:
        records["size"] = b"%d" % size
    before = b""
    if records:
        text = b"".join(map(_record, records, records.values()))
        before = _block(b"././@PaxHeader", len(text), b"x") + text + bytes(-len(text) % BLOCK)
    return before + _block(plain, size if size <= _LARGEST_OCTAL else 0, b"0")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _record(name: str, value: bytes) -> bytes:
    """A record counts its own length, digits included."""
    rest = b" %s=%s\n" % (name.encode(), value)
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return b"%d%s" % (length, rest)


def _block(name: bytes, size: int, kind: bytes) -> bytes:
    fields = [name, b"0000644\0", b"0000000\0", b"0000000\0", b"%011o\0" % size, b"00000000000\0", b" " * 8]
    owner = [b"", b"", b"0000000\0", b"0000000\0", b""]
    block = _FIELDS.pack(*fields, kind, b"", b"ustar\0", b"00", *owner)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]
