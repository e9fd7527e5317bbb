"""What an input does to its process does not show in the inputs that come next."""

import errno
import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest
from doors import read_table, write_files
from faulty import CHANGES, HARM
from launcher import FAULTY, Launcher, check_manifest, make_inputs

from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.worker.surroundings import Surroundings


def umask() -> int:
    old = os.umask(0)
    os.umask(old)
    return old


@pytest.mark.parametrize("sink", ["files", "webdataset"])
def test_what_an_input_changes_in_its_process(launcher: Launcher, folder: Path, sink: str):
    """Folder, umask, streams and timers are as before; one that makes its process useless fails alone."""
    texts: dict[str, str] = {}
    for number, change in enumerate([*CHANGES, *HARM]):
        texts |= {f"{number} changes.txt": change, f"good {number}.txt": "", f"good {number} too.txt": ""}
    dataset = make_inputs(folder / "data", texts)
    output = folder / "outputs"
    command = ("run", dataset, "--recipe", f"{FAULTY}:Changing", "--workers", 1, "--output", output)
    options = ("--sink", sink, *(["--batch-size", 100] if sink == "files" else []))
    run = launcher.run(*command, *options)
    assert run.code == 1, run.stderr
    errors = {row["input"]: row for row in read_table(output / "errors.csv")}
    # what is put into a shard takes no file of its own, so limits are raised again before they are felt
    harmful = set(HARM) - (set() if sink == "files" else {"lower limits"})
    assert {texts[name] for name in errors} == harmful
    assert {row["error"] for row in errors.values()} == {"Crashed"}
    assert {row["attempts"] for row in errors.values()} == {"1"}
    said = {texts[name]: row["message"] for name, row in errors.items()}
    assert "closed file descriptors" in said["close descriptors"]
    if sink != "files":
        return
    assert "lowered limits" in said["lower limits"]
    rows = [row for row in check_manifest(output) if row["input"].startswith("good")]
    assert len(rows) == 4 * len([*CHANGES, *HARM])
    for row in rows:
        assert (output / row["output"]).read_text() == str(folder), row
    assert {stat.S_IMODE(path.stat().st_mode) for path in output.rglob("*.txt")} == {0o666 & ~umask()}


def test_a_folder_that_may_not_be_entered(monkeypatch):
    """As for another user in root's home: there is no folder to return to, and no input fails for that."""

    def denied(path: str, *_: int) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", denied)
    surroundings = Surroundings()
    monkeypatch.undo()
    surroundings.after_user_code()
    assert os.getcwd()
    surroundings.close()


class Printing(ProcessorDataset):
    """A recipe that prints, as any may."""

    def process(self, input_file: InputFile):
        os.write(2, b"here I am\n")
        return [OutputFile("0", input_file.read_bytes())], {}


def test_what_is_printed_where_nobody_reads_is_no_fault_of_an_input(folder: Path):
    """As when the program that a pipe leads to has ended."""
    write_files(folder, dict.fromkeys(("a", "b"), "text"))
    stderr = os.dup(2)
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 2)
    try:
        dataset = Printing([{"input": str(folder / name)} for name in ("a", "b")])
        manifest = dataset.run(folder / "outputs", workers=1, quiet=True)
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(writer)
    assert len(manifest) == 2
