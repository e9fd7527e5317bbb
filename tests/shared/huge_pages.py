"""Memory in huge pages, so that it costs little to fork a process that has loaded much.

A fork copies an entry for each page, and the end of the fork removes them: 100,000 for 400 MB. The tests fork
so often that this is a quarter of their CPU time. With huge pages, on Linux 6.1 and later, three folders of
tests took 46 s in the kernel instead of 58.
"""

import ctypes
import re

PAGE = 1 << 21
# the kernel's MADV_COLLAPSE, which Python has no name for
_COLLAPSE = 25
# what is mapped, writable and of no file
_ANONYMOUS = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *(?:\[heap\])?$", re.MULTILINE)


def use_huge_pages() -> None:
    """Ask the kernel to gather the memory of this process in huge pages; elsewhere, this does nothing."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            maps = file.read()
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return
    for begin, end in _ANONYMOUS.findall(maps):
        first, last = -(-int(begin, 16) // PAGE) * PAGE, int(end, 16) // PAGE * PAGE
        if first < last:
            advise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _COLLAPSE)
