"""An S3 server on loopback, and a proxy in front of it that records requests and lets some of them fail.

It is a separate program, because tests fork and kill. It prints the two ports, and ends when its standard
input is closed.
"""

import functools
import http.client
import http.server
import logging
import os
import random
import socket
import struct
import sys
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

SLOW_DOWN = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"""
DENIED = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"""
HALF = "half an answer"
LOST = "no answer, though it was done"
KINDS = ("slow down", "reset", LOST, HALF)


class Proxy(http.server.BaseHTTPRequestHandler):
    """A proxy that passes requests to the server; the first part of the path says which requests fail.

    /<share>-<kind>-<seed>/<bucket>/<key>: `share` of a hundred requests fail, chosen by the seed and the
    number of requests before, in the way that `kind` says, which may be `any`. The server does not check
    signatures, so it may get a different path.
    """

    protocol_version = "HTTP/1.1"
    target: tuple[str, int]
    log: Path
    counts: dict[str, int]
    gate = threading.Lock()
    # send an answer in one piece, without delay
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Handle any request."""
        body = self._body()
        way, _, rest = self.path.lstrip("/").partition("/")
        kind = self._fault(way)
        self._note(f"{self.command} /{rest} {kind}")
        if kind == "reset":
            self._reset()
            return
        if kind == "slow down":
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"Content-Type": "application/xml"}, SLOW_DOWN)
            return
        if kind == "denied":
            self._answer(HTTPStatus.FORBIDDEN, {"Content-Type": "application/xml"}, DENIED)
            return
        status, headers, content = self._ask(rest, body)
        if kind == LOST:
            self._reset()
        elif kind == HALF and len(content) > 1 and self.command != "HEAD":
            self._answer(status, headers, content, sent=len(content) // 2)
            self._reset()
        else:
            self._answer(status, headers, content)

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815 - the names that the library calls

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            size = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(size)
            if len(body) < size:
                # the client has died meanwhile: no server takes a part of the body for all of it
                raise ConnectionResetError
            return body
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _fault(self, way: str) -> str:
        share, kind, seed = way.split("-", 2)
        with self.gate:
            count = self.counts[way] = self.counts.get(way, 0) + 1
        chance = random.Random(f"{seed} {count}")
        fails = chance.random() * 100 < int(share)
        return (chance.choice(KINDS) if kind == "any" else kind) if fails else ""

    def _note(self, line: str) -> None:
        with self.gate, self.log.open("a") as log:
            log.write(f"{line.rstrip()}\n")

    def _ask(self, rest: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(*self.target, timeout=60)
        left_out = ("expect", "transfer-encoding", "content-length", "connection")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
        connection.request(self.command, f"/{rest}", body, {**headers, "Content-Length": str(len(body))})
        answer = connection.getresponse()
        content = answer.read()
        found = {
            name: value
            for name, value in answer.getheaders()
            if name.lower() not in ("connection", "transfer-encoding", "date", "server")
        }
        connection.close()
        return answer.status, found, content

    def _answer(self, status: int, headers: dict[str, str], content: bytes, sent: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD" and status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:sent])
            self.wfile.flush()

    def _reset(self) -> None:
        """Drop the connection in a way that the other end notices at once."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def handle_expect_100(self) -> bool:
        """Let the client send the body."""
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def finish(self) -> None:
        """Accept that the connection may be gone already."""
        try:
            super().finish()
        except (OSError, ValueError):
            self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, *arguments: Any) -> None:
        """Print nothing: clients may disconnect."""


def _quicken() -> None:
    """Replace three things that take moto most of its time, and show in no answer."""
    from moto import backends
    from moto.s3.responses import S3Response

    # it would list its own modules for each request
    backends.list_of_moto_modules = functools.cache(functools.partial(tuple, backends.list_of_moto_modules()))
    # nobody reads its log
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    plain = S3Response.serialized

    def serialized(self: Any, answer: Any) -> tuple[int, dict[str, Any], Any]:
        if not (isinstance(answer.result, dict) and "KeyCount" in answer.result):
            return plain(self, answer)
        return HTTPStatus.OK, self.response_headers, _as_xml("ListBucketResult", answer.result)

    S3Response.serialized = serialized


def _as_xml(name: str, value: Any) -> str:
    """Return a listing as S3 writes it: a list as an element for each of its items."""
    if isinstance(value, list):
        return "".join(_as_xml(name, item) for item in value)
    if isinstance(value, dict):
        return f"<{name}>{''.join(_as_xml(key, item) for key, item in value.items())}</{name}>"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"<{name}>{escape(text)}</{name}>"


def main(log: str) -> None:
    """Serve until standard input ends."""
    from moto.server import ThreadedMotoServer

    _quicken()
    moto = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    moto.start()
    Proxy.target, Proxy.log, Proxy.counts = moto.get_host_and_port(), Path(log), {}
    proxy = _Server(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print(Proxy.target[1], proxy.server_address[1], flush=True)  # noqa: T201 - for the tests
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
