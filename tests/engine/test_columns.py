"""Inputs are tried before the work begins."""

import os
from pathlib import Path

import pytest
from doors import tree, write_files

from splitter import InputFile, OutputFile, ProcessorDataset, Skip
from splitter.dataset import Result
from splitter.engine import main
from splitter.engine.columns import try_inputs


class Odd(ProcessorDataset):
    """Does what the name of a file says."""

    def process(self, input_file: InputFile) -> Result:
        """Anything at all."""
        Path(os.environ["SEEN"], input_file.path.name).touch()
        match input_file.path.name[1:]:
            case "raise":
                raise ValueError(input_file.input)
            case "skip":
                raise Skip("no")
            case "die":
                os._exit(3)
            case "bare":
                return [OutputFile(metadata={"n": 1})], {}
        sound = OutputFile("0.wav", lambda file: file.write(b"x"), {"n": 1})
        return [sound, OutputFile("1.txt", "x")], {"m": 2.0}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_trial_ends_at_the_first_input_that_gives_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, workers: int
):
    """In the order of the list, in a guarded worker, and nothing of it stays."""
    names = ["0raise", "1skip", "2bare", *(["3die"] if workers else []), "4good", "5good", "6raise"]
    write_files(folder, dict.fromkeys(names, ""))
    (folder / "seen").mkdir()
    monkeypatch.setenv("SEEN", str(folder / "seen"))
    found = []

    def instead(run, decision, *_: object) -> None:
        found.append(try_inputs(run, decision.state.todo))

    monkeypatch.setattr(main, "do_rounds", instead)
    Odd([str(folder / name) for name in names]).run(folder / "out", workers=workers, quiet=True)
    (tried,) = found
    assert (tried.outputs, tried.head.outputs, tried.head.inputs) == (
        ["0.wav", "1.txt"], (("n", "int"),), (("m", "float"),),
    )  # fmt: skip
    assert sorted(path.name for path in (folder / "seen").iterdir()) == names[: names.index("5good")]
    assert set(tree(folder / "out")) == {"manifest.csv"}
    assert not list((folder / "out" / ".splitter" / "staging").iterdir())
