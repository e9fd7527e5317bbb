"""The recipe `words`: overlapping parts of the word in each text file."""

from collections.abc import Sequence
from typing import Any

from splitter.dataset import ProcessorDataset, Result, refuse_hidden
from splitter.errors import Refused
from splitter.records import InputFile, OutputFile


def split_word(word: str, num_chars: int = 2, overlap: int = 1) -> list[str]:
    """Cut a word into parts of `num_chars` letters, each sharing `overlap` letters with the one before.

    The last part is moved back so that it has its full length; a word that is shorter is given whole.

    >>> split_word("hello", 2, 1)
    ['he', 'el', 'll', 'lo']
    >>> split_word("hello", 3, 0)
    ['hel', 'llo']
    """
    check_windows(num_chars, overlap)
    last = len(word) - num_chars
    if last <= 0:
        return [word] if word else []
    starts = [*range(0, last, num_chars - overlap), last]
    return [word[start : start + num_chars] for start in starts]


def check_windows(num_chars: int, overlap: int) -> None:
    """Refuse an overlap that is negative, or as long as the parts."""
    if not 0 <= overlap < num_chars:
        raise Refused(f"overlap {overlap}: must be at least 0 and less than num-chars, which is {num_chars}")


class Words(ProcessorDataset):
    """Split the word in each text file into overlapping parts.

    Args:
        num_chars: Number of letters in each part.
        overlap: Overlap between parts, in letters.
    """

    def __init__(self, inputs: Any = (), num_chars: int = 2, overlap: int = 1) -> None:  # noqa: ANN401
        super().__init__(inputs)
        check_windows(num_chars, overlap)
        self.num_chars, self.overlap = num_chars, overlap

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse a list with a column that would be hidden."""
        refuse_hidden(columns, ("part", "word"))

    def process(self, input_file: InputFile) -> Result:
        """Return one output file for each part."""
        word = input_file.read_text().strip()
        parts = split_word(word, self.num_chars, self.overlap)
        outputs = (OutputFile(f"{number}.txt", part, {"part": part}) for number, part in enumerate(parts))
        return outputs, {"word": word}
