"""The memory in which a runner notes its input: a guard may look at any moment."""

import os
import signal
import time

import pytest

from splitter.worker.runner import RunnerNotes

LOOKS = 100_000


def test_an_input_is_never_older_than_it_is(monkeypatch: pytest.MonkeyPatch):
    """Otherwise it would have taken too long as soon as it was begun."""
    notes, number, reader = RunnerNotes(), 0, os.getpid()
    writer = os.fork()
    if not writer:
        # here, input n begins at the time n
        monkeypatch.setattr(time, "monotonic", lambda: float(number))
        while os.getppid() == reader:
            number += 1
            notes.write_index(number)
        os._exit(0)
    while notes.read_index()[0] < 0:
        time.sleep(0.001)
    looks = [notes.read_index() for _ in range(LOOKS)]
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    assert len({index for index, _ in looks}) > 1
    assert [(index, since) for index, since in looks if index < 1 or since < index] == []
