"""What C code prints is not heard for a while; all else is."""

import ctypes
import os
import sys
import threading

import pytest
from doors import program

from splitter.system.stderr import silenced_stderr

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="only glibc's stderr may be assigned to"
)


def say(text: str) -> None:
    """As a C library does."""
    library = ctypes.CDLL(None)
    library.fputs(text.encode(), ctypes.c_void_p.in_dll(library, "stderr"))


def test_only_c_code_is_not_heard(capfd):
    """Python's own words, and other programs', are heard; C code is again when it is over."""
    with silenced_stderr():
        say("a")
        sys.stderr.write("b")
        sys.stderr.flush()
        os.write(2, b"c")
        os.system("echo d >&2")  # noqa: S605 - any program
    say("e")
    assert capfd.readouterr().err == "bcd\ne"


def test_it_ends_with_an_error(capfd):
    with pytest.raises(ValueError, match="x"), silenced_stderr():
        raise ValueError("x")
    say("a")
    assert capfd.readouterr().err == "a"


def test_threads_that_overlap(capfd):
    """The last one that leaves lets C code be heard, in whatever order they came."""
    inside, leave = threading.Barrier(2), threading.Event()

    def other() -> None:
        with silenced_stderr():
            inside.wait()
            leave.wait()
            say("a")

    thread = threading.Thread(target=other)
    with silenced_stderr():
        thread.start()
        inside.wait()
    say("b")
    leave.set()
    thread.join()
    say("c")
    assert capfd.readouterr().err == "c"


FORKING = """
import ctypes, os, threading
from splitter.system.stderr import silenced_stderr

library = ctypes.CDLL(None)
inside, leave = threading.Event(), threading.Event()

def other():
    with silenced_stderr():
        inside.set()
        leave.wait()

threading.Thread(target=other).start()
inside.wait()
child = os.fork()
if not child:
    with silenced_stderr():
        pass
    library.fputs(b"heard", ctypes.c_void_p.in_dll(library, "stderr"))
    os._exit(0)
os.waitpid(child, 0)
leave.set()
"""


def test_a_new_process_is_heard():
    """Though a thread of the old one was within when it was forked."""
    assert program(python=("-c", FORKING)).err == "heard"
