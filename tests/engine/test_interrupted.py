"""A run that is interrupted, while its storage fails as well."""

import signal
from pathlib import Path

import pytest
from doors import read_table, write_files, write_list

from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.errors import Interrupted, StorageError
from splitter.ledger.journal import Journal


class Interrupting(ProcessorDataset):
    """A recipe that somebody stops at the second input."""

    def process(self, input_file: InputFile):
        if input_file.columns["stop"]:
            signal.raise_signal(signal.SIGTERM)
        return [OutputFile("0", input_file.read_bytes())], {}


def test_the_exit_code_stays_if_the_storage_fails(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write_files(folder, {"a": "a", "b": "b"})

    def run(stop: str) -> None:
        dataset = Interrupting(write_list(folder / "list.csv", [["input", "stop"], ["a", ""], ["b", stop]]))
        dataset.run(folder / "outputs", workers=0, batch_size=1, quiet=True)

    load = Journal.load

    def fail(journal: Journal) -> None:
        load(journal)
        if journal.is_begun:
            raise StorageError("the store cannot be reached")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "load", fail)
        with pytest.raises(Interrupted) as interruption:
            run("now")
    assert (interruption.value.exit_code, interruption.value.summary) == (143, None)
    run("")
    assert [row["input"] for row in read_table(folder / "outputs" / "manifest.csv")] == ["a", "b"]
