"""A web server on loopback, in this process: files in a dict, faults by request, and a record of requests."""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Fault = Callable[["Answer"], bool]


class Answer(BaseHTTPRequestHandler):
    """A handler of one connection; the server's `fault` may answer instead, and then returns True."""

    protocol_version = "HTTP/1.1"
    server: "Web"

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        if self.server.fault(self):
            return
        content = self.server.files.get(self.path.partition("?")[0])
        if content is None:
            self.refuse(404)
            return
        self.begin(content)
        if body:
            self.wfile.write(content)

    def begin(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')  # noqa: S324 - as stores do it
        self.end_headers()

    def refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Print nothing."""


class Web(ThreadingHTTPServer):
    """A web server, with its files and the requests that it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.fault: Fault = lambda _: False

    def url(self, name: str = "") -> str:
        """Return the URL of a file."""
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def key(self, name: str) -> str:
        """Return where the outputs of a file go if it is outside the root."""
        return f"127.0.0.1:{self.server_port}/{name}"

    def put(self, **files: str) -> None:
        """Add files by name; in a name, a double underscore is a slash, and a single one is a dot."""
        for name, text in files.items():
            self.files["/" + name.replace("__", "/").replace("_", ".")] = text.encode()

    def count(self, command: str) -> int:
        """Return how many requests of a kind there were."""
        return sum(request.startswith(f"{command} ") for request in self.requests)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that were killed."""


@contextlib.contextmanager
def web_server() -> Iterator[Web]:
    """Run a server inside the `with` block."""
    with Web() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
