"""A small server for one output folder: its files, the contents of its shards, and ranges of both."""

import errno
import http.server
import os
import re
import socket
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

from splitter.errors import Refused, SplitterError, StorageError
from splitter.outputs.files import Files, ReadRange
from splitter.outputs.reader import Address, OutputReader
from splitter.storage.layout import OWN_FOLDER, Layout, same_name, shard_of
from splitter.storage.tree import Tree, is_mostly_nothing
from splitter.text.content_types import REPORT, type_of
from splitter.text.urls import is_url

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SOURCES = "/.sources/"
SENT_AT_ONCE = 1 << 16
SECONDS_OF_SILENCE = 60
# in a store, each is a request
FETCHED_AT_ONCE = 4 << 20
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class NotThere(Exception):
    """A name that does not exist, or must not be served."""


@dataclass
class Body:
    """The content to send: bytes, or part of an open local file or of one in a store.

    Attributes:
        kind: The content type.
        size: Its size.
        content: The bytes.
        file: An open file.
        stored: A file in a store.
        start: Where it begins in the file.
    """

    kind: str
    size: int
    content: bytes = b""
    file: BinaryIO | None = None
    stored: ReadRange | None = None
    start: int = 0

    def part(self, start: int, size: int) -> bytes:
        """Return some of the content from `start` on, at most `size` bytes; empty only at its end."""
        if self.stored:
            return self.stored(self.start + start, min(size, FETCHED_AT_ONCE))
        size = min(size, SENT_AT_ONCE)
        if self.file:
            return os.pread(self.file.fileno(), size, self.start + start)
        return self.content[start : start + size]

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()


class Served:
    """The files to serve from an output folder."""

    page: bytes | None = None

    def __init__(
        self,
        files: Files,
        members: Mapping[str, Address],
        sources: tuple[Layout, frozenset[str]] | None,
    ) -> None:
        """Take the addresses of outputs that are not loose local files, and any recordings to serve."""
        self.files, self._members, self._sources = files, members, sources
        self._reader, self._one_at_a_time = OutputReader(files.folder), threading.Lock()
        self._tree = None if is_url(files.folder) else Tree(files.folder)

    def body(self, path: str) -> Body:
        """Return the content at a path of the URL."""
        if path.startswith(SOURCES):
            return self._source(os.fsdecode(unquote_to_bytes(path_of(path)[len(SOURCES) :])))
        parts = _parts(path)
        name = "/".join(parts)
        if name in ("", REPORT):
            return self._report()
        if same_name(parts[0]) == OWN_FOLDER:
            raise NotThere
        if self._tree is None or shard_of(name)[0] or name in self._members:
            return self._member(name)
        file = _open_in(self._tree, name)
        return Body(type_of(name), os.fstat(file.fileno()).st_size, file=file)

    def _report(self) -> Body:
        page = self.page
        if page is None:
            page = self._read_report()
        # tells the page that it may request outputs in shards
        mark = f'<html lang="en" data-server="{"sources" if self._sources else "outputs"}"'.encode()
        page = page.replace(b'<html lang="en"', mark, 1)
        return Body("text/html; charset=utf-8", len(page), page)

    def _read_report(self) -> bytes:
        if self._tree:
            with _open_in(self._tree, REPORT) as file:
                if is_mostly_nothing(file.fileno()):
                    raise NotThere
                return file.read()
        with self._one_at_a_time:
            return self.files.read(REPORT)

    def _member(self, name: str) -> Body:
        if name not in self._members:
            raise NotThere
        where = self._members[name]
        file, start = shard_of(name)[0] or name, where.shard_offset or 0
        if where.size is None or (file != name and where.shard_offset is None) or file.endswith(".parquet"):
            return self._whole(where)
        if self._tree:
            return Body(type_of(name), where.size, file=_open_in(self._tree, file), start=start)
        return Body(type_of(name), where.size, stored=self.files.ranges(file), start=start)

    def _whole(self, where: Address) -> Body:
        """Return content that only the reader of outputs can read."""
        try:
            with self._one_at_a_time:
                content = self._reader.read(where)
        except SplitterError as error:
            raise NotThere from error
        return Body(type_of(where.output), len(content), content)

    def _source(self, name: str) -> Body:
        if self._sources is None or name not in self._sources[1]:
            raise NotThere
        try:
            descriptor = os.open(self._sources[0].location(name), os.O_RDONLY | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            raise NotThere from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise NotThere
        return Body(type_of(name), found.st_size, file=os.fdopen(descriptor, "rb", buffering=0))


def _open_in(tree: Tree, name: str) -> BinaryIO:
    try:
        return open(name, "rb", buffering=0, opener=tree.open)
    except (OSError, ValueError, StorageError) as error:
        raise NotThere from error
    finally:
        # a connection has one thread for many requests; between them, a folder may be moved or replaced
        tree.forget()


def path_of(url: str) -> str:
    """Return the path of a request, without its query and fragment."""
    return url.partition("?")[0].partition("#")[0]


def _parts(path: str) -> list[str]:
    """Return the names in the path of a URL; refuse names that could lead out of the folder."""
    raw = path_of(path).strip("/")
    if not raw:
        return []
    parts = [os.fsdecode(unquote_to_bytes(part)) for part in raw.split("/")]
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        raise NotThere
    return parts


class Handler(http.server.BaseHTTPRequestHandler):
    """A handler for GET and HEAD."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "splitter", ""
    timeout = SECONDS_OF_SILENCE
    server: "Server"

    def do_GET(self) -> None:
        """Send the content."""
        if not self._is_asked_here():
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        try:
            body = self.server.answer(self.path)
        except NotThere:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            self._send(body)
        except (ConnectionError, TimeoutError, StorageError):
            # players often hang up before the end; or the promised bytes cannot be read
            self.close_connection = True
        finally:
            body.close()

    do_HEAD = do_GET  # noqa: N815

    def _is_asked_here(self) -> bool:
        """Return whether the request names this machine, and not a website whose name points to it."""
        if not self.server.is_loopback:
            return True
        host = self.headers.get("Host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        return name in LOOPBACK or name == self.server.server_name

    def _refuse(self, status: HTTPStatus, *headers: tuple[str, str]) -> None:
        content = f"{status.value} {status.phrase}\n".encode()
        self._head(status, "text/plain; charset=utf-8", len(content), *headers)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, size: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(size)),
            ("Cache-Control", "no-cache"),
            ("X-Content-Type-Options", "nosniff"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            *headers,
        ):
            self.send_header(name, value)
        self.end_headers()

    def _send(self, body: Body) -> None:
        headers = [("Accept-Ranges", "bytes")]
        if not body.kind.startswith("text/html"):
            # an output that is a page must not run here
            headers.append(
                ("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'")
            )
        asked = self._range(body.size)
        if asked is None:
            start, stop, status = 0, body.size, HTTPStatus.OK
        elif asked[0] >= asked[1]:
            self._refuse(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, ("Content-Range", f"bytes */{body.size}")
            )
            return
        else:
            start, stop, status = *asked, HTTPStatus.PARTIAL_CONTENT
            headers.append(("Content-Range", f"bytes {start}-{stop - 1}/{body.size}"))
        if self.command == "HEAD":
            self._head(status, body.kind, stop - start, *headers)
            return
        try:
            part = body.part(start, stop - start)
        except StorageError:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self._head(status, body.kind, stop - start, *headers)
        while part:
            self.wfile.write(part)
            start += len(part)
            part = body.part(start, stop - start) if start < stop else b""
        # if the file became shorter, the promised size cannot be sent
        self.close_connection |= start < stop

    def _range(self, size: int) -> tuple[int, int] | None:
        """Return the requested range, if there is exactly one; an empty one cannot be served."""
        match = _RANGE.fullmatch(self.headers.get("Range", "").replace(" ", ""))
        if not match or not any(match.groups()) or "If-Range" in self.headers:
            return None
        first, last = match.groups()
        if not first:
            return max(0, size - int(last)), size
        if last and int(last) < int(first):
            return None
        return int(first), min(size, int(last) + 1) if last else size

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Log nothing."""


def _no_address(host: str, port: int, error: OSError) -> str:
    reason = error.strerror or str(error)
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host}: {reason}; use an address of this machine, or leave it out"
    return f"--host {host} --port {port}: {reason}; choose another --port, or 0 for a free one"


class Server(http.server.ThreadingHTTPServer):
    """A server for one folder."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Callable[[str], Body], host: str, port: int) -> None:
        """Bind the address; `answer` returns the content at a path of the URL, or raises NotThere."""
        self.answer = answer
        if not host:
            raise Refused(
                "--host: is empty; leave it out, or use 0.0.0.0 to give access to all who can reach "
                "this machine"
            )
        self.is_loopback = host in LOOPBACK or host.startswith("127.")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise Refused(_no_address(host, port, error)) from None
        except OverflowError:
            raise Refused(f"--port {port}: must be from 0 to 65535") from None

    def server_bind(self) -> None:
        """Bind the address without asking a name server."""
        super(http.server.HTTPServer, self).server_bind()
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""

    @property
    def url(self) -> str:
        """The URL of the server."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
