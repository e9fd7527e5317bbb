"""A gate where processes wait until one of them opens it."""

import os
import select
from collections.abc import Sequence


class Gate:
    """A gate that is closed until a process opens it for all processes that inherited it."""

    def __init__(self, ends: Sequence[int] | None = None) -> None:
        """Make a new gate, or use the two descriptors of an existing one."""
        self.ends = tuple(ends or os.pipe())
        self._is_open = False

    def open(self) -> None:
        """Let all processes pass from now on."""
        if not self._is_open:
            self._is_open = True
            os.write(self.ends[1], b".")

    def wait(self, seconds: float) -> None:
        """Wait until the gate is open, but no longer than `seconds`."""
        if not self._is_open:
            poll = select.poll()
            poll.register(self.ends[0], select.POLLIN)
            self._is_open = bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        for end in self.ends:
            os.close(end)
