"""Read tar archives as streams, strictly."""

from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

from splitter.archives.members import (
    BLOCK,
    HEADER_FIELDS,
    HELD_BYTES,
    PIECE,
    FilePart,
    Member,
    SharedFile,
    why_unsafe,
)
from splitter.errors import TarError

SOUGHT_BYTES = 4096  # reading fewer bytes than this is faster than seeking past them
LONGEST_HEADER = 1 << 20  # the limit for an extended header, since a hostile one may claim any size
MOST_DIGITS = 20
NO_ARCHIVE = "is not a tar archive (plain or gzip)"
CUT_OFF = "is incomplete: it was cut off, or is still being written"
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
_FILE, _FOLDER = (b"0", b"\0", b"7"), b"5"
# links, devices, folders and FIFOs have no content, whatever size they state
_WITHOUT_CONTENT = (b"1", b"2", b"3", b"4", b"5", b"6")
# the records of extended headers that matter here
_RECORDS, _SPARSE = (b"path", b"size"), b"GNU.sparse"
_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK = (b"x", b"X"), b"g", b"L", b"K"


class MemberHead(NamedTuple):
    """The header of a member, which comes before its content.

    Attributes:
        name: Its name, without a leading `./`.
        size: Size of its content in bytes.
        kind: The letter of its type.
        wrong: Why it must not be read, or empty; later members can still be read.
    """

    name: str
    size: int
    kind: bytes = b"0"
    wrong: str = ""


def read_members(stream: BinaryIO, location: str, *, contents: bool = True) -> Iterator[Member]:
    """Yield the files of an archive in order; folders are skipped.

    Any other kind of member is an error, and so is a missing end. Concatenated archives are read as one.
    Without `contents`, all contents are empty.
    """
    counting = CountedStream(stream, location)
    for head in read_heads(counting):
        if head.wrong:
            plain = head.kind in (*_FILE, _FOLDER)
            raise counting.error(
                f"{head.wrong}; splitter does not read archives with such names" if plain else head.wrong
            )
        yield Member(head.name, head.size, _content(counting, head, contents=contents))


def read_heads(stream: "CountedStream") -> Iterator[MemberHead]:
    """Yield the headers of an archive's members, except folders; the caller may read contents in between."""
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


class CountedStream:
    """A stream that counts the bytes read from it; its errors name the archive."""

    def __init__(self, stream: BinaryIO, location: str, size: int | None = None) -> None:
        """Take a stream that returns less than asked only at its end, and its `size` if it can seek."""
        self._stream, self._name, self._size, self.at = stream, location, size, 0

    def read(self, size: int) -> bytes:
        """Return `size` bytes, or none at the end."""
        import zlib

        try:
            # a non-blocking pipe returns None while it has no data
            data = self._stream.read(size) or b""
        except EOFError:
            raise self.error(CUT_OFF) from None
        except zlib.error as error:
            raise self.error(f"is damaged: {error}") from None
        except TarError:
            raise
        except OSError as error:
            # from a local file, gzip, or a server
            raise self.error(f"cannot be read: {error.strerror or error}") from None
        if 0 < len(data) < size:
            raise self.error(CUT_OFF if self.at else NO_ARCHIVE)
        self.at += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        """Return `size` bytes, or raise an error."""
        data = self.read(size)
        if len(data) != size:
            raise self.error(CUT_OFF)
        return data

    def skip(self, size: int) -> None:
        if self._size is not None and size > SOUGHT_BYTES:
            if self.at + size > self._size:
                raise self.error(CUT_OFF)
            self.at = self._stream.seek(self.at + size)
            return
        while size:
            size -= len(self.exactly(min(size, PIECE)))

    def error(self, what: str) -> TarError:
        """Return an error that names the archive."""
        return TarError(f"{self._name}: {what}")


def _parse(block: bytes, stream: CountedStream) -> MemberHead:
    (name, _, _, _, size, _, checksum, kind, _, magic, *_, prefix) = HEADER_FIELDS.unpack(block)
    total = sum(block) - sum(checksum) + 8 * 32
    if _number(checksum) != total:
        if stream.at == BLOCK:
            raise stream.error(NO_ARCHIVE)
        raise stream.error(f"is damaged: there is no tar header at byte {stream.at - BLOCK}")
    length = _number(size)
    if length is None or length < 0:
        raise stream.error(f"is damaged: the header at byte {stream.at - BLOCK} has no size")
    full = _text(name)
    # only POSIX archives have this field; GNU archives have times there
    if magic == b"ustar\0" and prefix[:1] != b"\0":
        full = f"{_text(prefix)}/{full}"
    if kind == b"\0" and full.endswith("/"):
        kind = _FOLDER
    return MemberHead(full, length, kind)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int | None:
    """Parse a number of a header: octal digits, or binary if the highest bit is set."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big") if field[0] == 0x80 else -1  # noqa: PLR2004
    digits = field.partition(b"\0")[0].strip()
    if not digits:
        return 0
    return int(digits, 8) if all(48 <= digit < 56 for digit in digits) else None  # noqa: PLR2004


def _short_text(stream: CountedStream, head: MemberHead) -> bytes:
    if head.size > LONGEST_HEADER:
        raise stream.error(f"is damaged: the extended header at byte {stream.at - BLOCK} is too long")
    text = stream.exactly(head.size)
    stream.skip(-head.size % BLOCK)
    return text


def _records(text: bytes, stream: CountedStream) -> Iterator[tuple[str, str]]:
    """Yield the relevant records of an extended header, each `LENGTH NAME=VALUE` and a newline."""
    at = 0
    while at < len(text) and text[at]:
        digits, space, _ = text[at : at + 20].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record = text[at + len(digits) + 1 : at + length]
        name, sign, value = record.partition(b"=")
        if not (sign and value.endswith(b"\n")) or at + length > len(text):
            raise stream.error(f"is damaged: the extended header before byte {stream.at} cannot be read")
        # ignore all others, of which a hostile archive may have any number
        if name in _RECORDS or name.startswith(_SPARSE):
            kept = name if name in _RECORDS else _SPARSE
            yield kept.decode(), value[:-1].decode("utf-8", "surrogateescape")
        at += length


def _with(head: MemberHead, records: Mapping[str, str], stream: CountedStream) -> MemberHead:
    """Return a header with the values of extended headers applied and checked."""
    if head.kind == b"S":
        # fatal for the whole archive: the headers of a sparse file continue in extra blocks
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


def _content(stream: CountedStream, head: MemberHead, *, contents: bool) -> bytes | FilePart:
    content: bytes | FilePart = b""
    if not contents:
        stream.skip(head.size)
    elif head.size <= HELD_BYTES:
        content = stream.exactly(head.size)
    else:
        sizes = (min(PIECE, head.size - at) for at in range(0, head.size, PIECE))
        content = FilePart(SharedFile.of(map(stream.exactly, sizes)), 0, head.size)
    stream.skip(-head.size % BLOCK)
    return content
