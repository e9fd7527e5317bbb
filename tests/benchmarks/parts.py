"""The recipe of the benchmarks: overlapping parts of a word, as metadata only."""

from collections.abc import Iterator

from splitter import InputFile, OutputFile, ProcessorDataset


class Parts(ProcessorDataset):
    """Split the word in each text file into overlapping parts of three characters."""

    def process(self, input_file: InputFile) -> tuple[Iterator[OutputFile], dict[str, str]]:
        """Return one output for each part, which has only metadata."""
        word = input_file.read_text().strip()
        return (OutputFile(metadata={"part": part}) for part in split_word(word)), {"word": word}


def split_word(word: str) -> list[str]:
    """Split a word as workload.py does; repeated here, because a recipe file must not need other files."""
    last = len(word) - 3
    if last <= 0:
        return [word]
    return [word[start : start + 3] for start in range(last + 1)]
