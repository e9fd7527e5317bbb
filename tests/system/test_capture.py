"""What user code prints on another machine, kept by input."""

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from splitter.system.capture import LONGEST, MOST_INPUTS, OutputCapture


@pytest.fixture
def voice() -> Iterator[OutputCapture]:
    voice = OutputCapture()
    yield voice
    voice._file.close()


def in_a_child(life: Callable[[], object]) -> None:
    """Run something in a process of its own, to its end."""
    child = os.fork()
    if not child:
        try:
            life()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def test_texts_belong_to_inputs(voice: OutputCapture):
    """What is printed after a mark is that input's: also by a program; before any, nobody's."""

    def life() -> None:
        voice.take_over()
        os.write(1, b"before\n")
        voice.mark(0)
        os.write(2, "naïve\n".encode())
        voice.mark(1)
        voice.mark(2)
        subprocess.run(["echo", "by a program"], check=True)
        os.write(1, b"\xff no text\n")

    in_a_child(life)
    assert voice.heard() == [(-1, "before"), (0, "naïve"), (2, "by a program\n\ufffd no text")]
    assert voice.heard() == []
    in_a_child(lambda: (voice.take_over(), voice.mark(5), os.write(1, b"again")))
    assert voice.heard() == [(5, "again")]


def test_what_is_too_long_is_cut(voice: OutputCapture):
    """The beginning and the end of a long text are kept, and the first of many inputs."""

    def life() -> None:
        voice.take_over()
        for place in range(MOST_INPUTS + 10):
            voice.mark(place)
            os.write(1, b"begin" + b"x" * LONGEST + b"end")

    in_a_child(life)
    heard = voice.heard()
    assert [place for place, _ in heard] == list(range(MOST_INPUTS))
    for _, text in heard:
        assert text.startswith("begin")
        assert text.endswith("end")
        assert "… 8 characters …" in text


def test_what_nobody_could_read_takes_no_memory(voice: OutputCapture):
    """Of an input that prints without end the last is kept, and it is still that input's."""

    def life() -> None:
        voice.take_over()
        voice.mark(3)
        for _ in range(80):
            os.write(1, b"x" * (1 << 20))
        voice.trim(3)
        os.write(1, b"the end")
        voice.trim(3)

    in_a_child(life)
    assert voice.heard() == [(3, "the end")]
