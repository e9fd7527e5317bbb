"""Processes that answer requests of the tests, a line of JSON each, until their standard input is closed."""

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LONG = 120.0


class Server:
    """A process that answers requests."""

    def __init__(
        self,
        command: Sequence[object],
        environ: Mapping[str, str],
        stderr: Path | None = None,
        *,
        new_session: bool = False,
    ) -> None:
        """Start the process; `stderr` is a file for its messages, to keep them out of a test's output."""
        self._stderr = stderr
        with stderr.open("wb") if stderr else contextlib.nullcontext() as file:
            self.process = subprocess.Popen(
                [*map(str, command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=environ,
                start_new_session=new_session,
            )

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Send a request; return its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self._stderr.read_text() if self._stderr else "it has ended"
        return json.loads(answer)

    def close(self) -> None:
        """End the process, which must have no children left."""
        self.process.communicate(timeout=LONG)
