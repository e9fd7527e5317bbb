"""Capture what a runner prints, per input, so that the driver can print it."""

import os
import re
import sys

from splitter.system.memory import nameless_file

LONGEST = 4_000
MOST_INPUTS = 50
_MOST_BYTES = 64 << 20
# as many digits as a runner can note: in a fused stage, the number grows with --timeout
_MARK = re.compile(rb"\0<(-?\d{1,19})>\0")


class OutputCapture:
    """A nameless file that the runner, and everything it starts, prints to; marks show where inputs begin."""

    def __init__(self) -> None:
        self._file = nameless_file()

    def take_over(self) -> None:
        """Redirect what this process prints to the file."""
        for number in (1, 2):
            os.dup2(self._file.fileno(), number)

    def mark(self, index: int) -> None:
        """Note that what is printed from now on belongs to the input at this index."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._write_mark(index)

    def _write_mark(self, index: int) -> None:
        os.write(self._file.fileno(), b"\0<%d>\0" % index)

    def trim(self, index: int) -> None:
        """Empty the file if it is too large to show; further output belongs to the input at this index."""
        if os.fstat(self._file.fileno()).st_blocks * 512 > _MOST_BYTES:
            os.ftruncate(self._file.fileno(), 0)
            os.lseek(self._file.fileno(), 0, os.SEEK_SET)
            self._write_mark(index)

    def take(self) -> list[tuple[int, str]]:
        """Return what was printed since the last call: the index of each input, with its text."""
        size = os.fstat(self._file.fileno()).st_size
        if not size:
            return []
        content = os.pread(self._file.fileno(), _MOST_BYTES, max(0, size - _MOST_BYTES))
        os.ftruncate(self._file.fileno(), 0)
        os.lseek(self._file.fileno(), 0, os.SEEK_SET)
        _, *pieces = _MARK.split(b"\0<-1>\0" + content)
        texts = [
            (int(index), _shortened(text.strip(b"\0\r\n").decode("utf-8", "replace")))
            for index, text in zip(pieces[::2], pieces[1::2], strict=True)
        ]
        return [(index, text) for index, text in texts if text][:MOST_INPUTS]


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]}\n… {len(text) - LONGEST:,} characters …\n{text[-LONGEST // 2 :]}"
