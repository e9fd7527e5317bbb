"""A gate that one process opens for all that wait."""

import os
import select
from collections.abc import Sequence


class Gate:
    """Closed until one process opens it, for all that have it from the same parent."""

    def __init__(self, ends: Sequence[int] | None = None) -> None:
        """Make a new gate, or take the two descriptors of an existing one."""
        self.ends = tuple(ends or os.pipe())
        self._is_open = False

    def open(self) -> None:
        """Let all pass from now on."""
        if not self._is_open:
            self._is_open = True
            os.write(self.ends[1], b".")

    def wait(self, seconds: float) -> None:
        """Wait until the gate is open, or for so many seconds."""
        if not self._is_open:
            poll = select.poll()
            poll.register(self.ends[0], select.POLLIN)
            self._is_open = bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        for end in self.ends:
            os.close(end)
