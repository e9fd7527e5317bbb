"""What user code prints on another machine, kept by input."""

import os
import subprocess
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from splitter.system.capture import LONGEST, MOST_INPUTS, OutputCapture
from splitter.worker.batch import FUSED
from splitter.worker.guard import Guard
from splitter.worker.messages import Batch


@pytest.fixture
def capture() -> Iterator[OutputCapture]:
    capture = OutputCapture()
    yield capture
    capture._file.close()


def in_a_child(life: Callable[[], object]) -> None:
    """Run something in a process of its own, to its end."""
    child = os.fork()
    if not child:
        try:
            life()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def test_texts_belong_to_inputs(capture: OutputCapture):
    """What is printed after a mark is that input's: also by a program; before any, nobody's."""

    def life() -> None:
        capture.take_over()
        os.write(1, b"before\n")
        capture.mark(0)
        os.write(2, "naïve\n".encode())
        capture.mark(1)
        capture.mark(2)
        subprocess.run(["echo", "by a program"], check=True)
        os.write(1, b"\xff no text\n")

    in_a_child(life)
    assert capture.take() == [(-1, "before"), (0, "naïve"), (2, "by a program\n\ufffd no text")]
    assert capture.take() == []
    in_a_child(lambda: (capture.take_over(), capture.mark(5), os.write(1, b"again")))
    assert capture.take() == [(5, "again")]


def test_a_mark_of_a_fused_stage_may_be_long(capture: OutputCapture):
    """Its number has the milliseconds that many inputs together may take."""
    index = FUSED - 1000 * 3600 * 1000

    def life() -> None:
        capture.take_over()
        capture.mark(0)
        os.write(1, b"before\n")
        capture.mark(index)
        os.write(1, b"fused\n")

    in_a_child(life)
    assert capture.take() == [(0, "before"), (index, "fused")]


def test_what_is_too_long_is_cut(capture: OutputCapture):
    """The beginning and the end of a long text are kept, and the first of many inputs."""

    def life() -> None:
        capture.take_over()
        for place in range(MOST_INPUTS + 10):
            capture.mark(place)
            os.write(1, b"begin" + b"x" * LONGEST + b"end")

    in_a_child(life)
    heard = capture.take()
    assert [place for place, _ in heard] == list(range(MOST_INPUTS))
    for _, text in heard:
        assert text.startswith("begin")
        assert text.endswith("end")
        assert "… 8 characters …" in text


def test_what_nobody_could_read_takes_no_memory(capture: OutputCapture):
    """Of an input that prints without end the last is kept, and it is still that input's."""

    def life() -> None:
        capture.take_over()
        capture.mark(3)
        for _ in range(80):
            os.write(1, b"x" * (1 << 20))
        capture.trim(3)
        os.write(1, b"the end")
        capture.trim(3)

    in_a_child(life)
    assert capture.take() == [(3, "the end")]


def test_what_looks_like_a_mark_and_is_none(capture: OutputCapture):
    """User code may print any bytes: they end no worker, whatever input they name."""

    def life() -> None:
        capture.take_over()
        capture.mark(0)
        os.write(1, b"first\n")
        os.write(1, b"\0<7>\0seventh\n")
        os.write(1, b"\0<" + b"9" * 5000 + b">\0\n")

    in_a_child(life)
    guard = Guard.__new__(Guard)
    guard._job = SimpleNamespace(at=0)
    guard._runner = SimpleNamespace(capture=capture)
    said = guard._printed(Batch("000001-000000", [b"a.txt\n"], [1], [1], [1]))
    assert [(name, text[:7]) for name, text in said] == [("a.txt", "first"), ("worker", "seventh")]
