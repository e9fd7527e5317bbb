"""The word example: the same from a script, a notebook and a shell, for any batch size and workers."""

from pathlib import Path

import pytest
from doors import WORDS, here, program, read_table, tree

pytestmark = pytest.mark.slow

RECIPE = '''\
from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.recipes.words import split_word


class WordSplitter(ProcessorDataset):
    """Split the word in each text file into overlapping parts."""

    def __init__(self, inputs, num_chars: int = 2, overlap: int = 1):
        super().__init__(inputs)
        self.num_chars, self.overlap = num_chars, overlap

    def process(self, input_file: InputFile):
        word = input_file.read_text().strip()
        parts = split_word(word, self.num_chars, self.overlap)
        outputs = (OutputFile(f"{i}.txt", part, {"part": part}) for i, part in enumerate(parts))
        return outputs, {"word": word}
'''

RUNS = """
from splitter import InputList

dataset = WordSplitter(InputList("dataset.csv", root="inputs"), num_chars=3, overlap=2)
for batch_size in (1, 2, 4):
    for workers in (0, 1, 2):
        dataset.run(f"{batch_size} {workers}", batch_size=batch_size, workers=workers, quiet=True)
print(dataset[0][1])
"""

OPTIONS = ["--root", "inputs", "--num-chars", "3", "--overlap", "2"]

# written by hand, once
PARTS = {
    "simple": "sim imp mpl ple",
    "scaleable": "sca cal ale lea eab abl ble",
    "preprocessing": "pre rep epr pro roc oce ces ess ssi sin ing",
    "pytorch": "pyt yto tor orc rch",
}


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    """The output files, from the list above."""
    return {
        f"{name.removesuffix('.txt')}/{number}.txt": part.encode()
        for name, word in WORDS.items()
        for number, part in enumerate(PARTS[word].split())
    }


def outputs(folder: Path) -> dict[str, bytes]:
    """All files but the manifest."""
    return {name: text for name, text in tree(folder).items() if name != "manifest.csv"}


def check_all_nine(folder: Path, expected: dict[str, bytes]) -> None:
    """All nine output folders hold the same, and it is what they should."""
    folders = [folder / f"{batch_size} {workers}" for batch_size in (1, 2, 4) for workers in (0, 1, 2)]
    trees = [tree(one) for one in folders]
    manifest = trees[0]["manifest.csv"]
    assert trees == [{**expected, "manifest.csv": manifest}] * 9
    rows = [
        {"input": name, "output": output, "size": "3", "part": part.decode(), "word": WORDS[name]}
        for output, part in expected.items()
        for name in [output[0] + ".txt"]
    ]
    found = read_table(folders[0] / "manifest.csv")
    assert all(row.pop("checksum").startswith("xxh128:") for row in found)
    assert found == rows


def test_as_a_script_without_a_main_guard(words, expected):
    """A script that defines the class and runs it, as a newcomer writes it."""
    (words.parent / "script.py").write_text(RECIPE + RUNS)
    said = program(python=["script.py"], cwd=words.parent)
    assert (said.code, said.out, said.err) == (0, "{'word': 'simple'}\n", "")
    check_all_nine(words.parent, expected)


def test_from_standard_input(words, expected):
    """`python - < script`: there is no file that a worker could import."""
    said = program(python=["-"], cwd=words.parent, stdin=RECIPE + RUNS)
    assert (said.code, said.out, said.err) == (0, "{'word': 'simple'}\n", "")
    check_all_nine(words.parent, expected)


def test_in_a_notebook(words, expected):
    """Cells that are run one after the other in `__main__`, as a kernel does, the class in one of them."""
    kernel = "import sys, __main__; [exec(cell, vars(__main__)) for cell in sys.stdin.read().split('# cell')]"
    cells = f"{RECIPE}# cell{RUNS}# cell\nprint(len(dataset))"
    said = program(python=["-c", kernel], cwd=words.parent, stdin=cells)
    assert (said.code, said.out, said.err) == (0, "{'word': 'simple'}\n4\n", "")
    check_all_nine(words.parent, expected)


def test_from_the_command_line(words, expected, capfd, monkeypatch):
    """`--recipe words.py:WordSplitter`, with options from the class."""
    (words.parent / "words.py").write_text(RECIPE)
    monkeypatch.chdir(words.parent)
    for batch_size in "124":
        for workers in "012":
            how = ["--batch-size", batch_size, "--workers", workers, "--output", f"{batch_size} {workers}"]
            said = here(capfd, "run", "dataset.csv", "--recipe", "words.py:WordSplitter", *OPTIONS, *how)
            assert said.code == 0
    check_all_nine(words.parent, expected)


def test_the_shipped_recipe_does_the_same(words, expected, tmp_path):
    """So does `--recipe words`, in a process of its own."""
    how = ["--recipe", "words", "--workers", "2", "--output", tmp_path / "out"]
    assert program("run", words, *OPTIONS, *how).code == 0
    assert outputs(tmp_path / "out") == expected


def test_from_a_module(words, expected, tmp_path, monkeypatch, capfd):
    """`--recipe module:Class` finds a module in the working directory."""
    (words.parent / "word_recipes_of_mine.py").write_text(RECIPE)
    monkeypatch.chdir(words.parent)
    how = ["--recipe", "word_recipes_of_mine:WordSplitter", "--workers", "1", "--output", tmp_path / "out"]
    assert here(capfd, "run", words, *OPTIONS, *how).code == 0
    assert outputs(tmp_path / "out") == expected
