"""The recipe of the benchmarks: overlapping parts of a word, as metadata only."""

from collections.abc import Iterator

from splitter import InputFile, OutputFile, ProcessorDataset


class Parts(ProcessorDataset):
    """Split the word in each text file into overlapping parts of three characters."""

    def process(self, input_file: InputFile) -> tuple[Iterator[OutputFile], dict[str, str]]:
        """Give one metadata-only output per part."""
        word = input_file.read_text().strip()
        return (OutputFile(metadata={"part": part}) for part in split_word(word)), {"word": word}


def split_word(word: str) -> list[str]:
    """Like `split_word` in workload.py, written again because a recipe file stands alone."""
    last = len(word) - 3
    if last <= 0:
        return [word]
    return [word[start : start + 3] for start in range(last + 1)]
