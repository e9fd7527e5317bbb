"""The files below a folder, and what is known of one that is open."""

import errno
import os
from pathlib import Path

import pytest

from splitter.storage.tree import is_mostly_nothing

LARGE = 17 << 20


# -- files that are large by a gap ---------------------------------------------------------------------------


def sought(answer: int | OSError):
    """What a file system says of the first gap."""
    real = os.lseek

    def seek(descriptor: int, offset: int, whence: int) -> int:
        if whence != os.SEEK_HOLE:
            return real(descriptor, offset, whence)
        if isinstance(answer, OSError):
            raise answer
        return answer

    return seek


def test_a_file_that_is_a_gap_is_mostly_nothing(folder: Path):
    """It is read from its start afterwards."""
    with (folder / "gap").open("w+b", buffering=0) as file:
        file.write(b"x")
        file.truncate(LARGE)
        assert is_mostly_nothing(file.fileno())
        assert file.tell() == 0


@pytest.mark.parametrize("answer", [0, LARGE, OSError(errno.EINVAL, "Invalid argument")], ids=str)
def test_a_file_system_that_knows_of_no_gaps_damages_nothing(folder: Path, monkeypatch, answer):
    """A compressing one has little room taken; one in user space may name the start, or refuse."""
    with (folder / "file").open("w+b", buffering=0) as file:
        file.write(b"x")
        file.truncate(LARGE)
        monkeypatch.setattr(os, "lseek", sought(answer))
        assert not is_mostly_nothing(file.fileno())


def test_one_gap_in_a_file_damages_nothing(folder: Path):
    """A copy may have made it of zeros."""
    with (folder / "file").open("w+b", buffering=0) as file:
        file.write(b"x" * (LARGE - (4 << 20)))
        file.seek(3 << 20, os.SEEK_CUR)
        file.write(b"x" * (1 << 20))
        assert not is_mostly_nothing(file.fileno())
