"""A run in parts: processes that need not know of each other, each with its share of the inputs."""

import re
from dataclasses import dataclass

MOST_PARTS = 65_535

_OF_A_PART = re.compile(r"\d+-p(\d+)of(\d+)-")


@dataclass(frozen=True)
class Part:
    """One of several runs that work on the same inputs at the same time.

    Attributes:
        number: Which one it is, from 1 on.
        of: How many there are.
    """

    number: int
    of: int

    def __str__(self) -> str:
        """For a message."""
        return f"part {self.number} of {self.of}"

    @property
    def name(self) -> str:
        """Of its lock, and of its folder in staging."""
        return f"part-{self.number}-of-{self.of}"

    @property
    def mark(self) -> str:
        """In the names of its commit records."""
        return f"p{self.number}of{self.of}"

    def may_undo(self, batch: str) -> bool:
        """Whether a batch that was begun is of a run that is gone, when this part has its locks.

        Only other parts of as many can be at work beside it.
        """
        match = _OF_A_PART.match(batch)
        return match is None or int(match[2]) != self.of or int(match[1]) == self.number
