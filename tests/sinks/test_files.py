"""The sink of loose files."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from doors import Said, here, read_table, write_files

from splitter import InputFile, OutputFile
from splitter.testing.sinks import Gives, InAStore, SinkConformance


class TestFiles(SinkConformance):
    """It does what every sink must do."""

    sink = "files"


class TestFilesInAStore(InAStore, SinkConformance):
    """In an object store, too."""

    sink = "files"


def test_the_folder_of_an_input_holds_its_outputs(folder: Path, capfd):
    """Its path below the root, without extension; an input outside the root keeps its whole path."""
    write_files(
        folder / "in", {"a.txt": "ab", "deep/er/b.tar.gz": "bc", ".hidden": "cd", "no extension": "de"}
    )
    write_files(folder / "elsewhere", {"f.txt": "ef"})
    listed = ["a.txt", "deep/er/b.tar.gz", ".hidden", "no extension", "../elsewhere/f.txt"]
    (folder / "in" / "list.csv").write_text("\n".join(["input", *listed]))
    assert run(capfd, folder, folder / "outputs").code == 0
    outputs = [row["output"] for row in read_table(folder / "outputs" / "manifest.csv")]
    outside = str(folder / "elsewhere" / "f").lstrip("/")
    assert outputs == [f"{name}/0.txt" for name in ("a", "deep/er/b.tar", ".hidden", "no extension", outside)]
    assert [(folder / "outputs" / name).read_text() for name in outputs] == ["ab", "bc", "cd", "de", "ef"]


def run(capfd, folder: Path, output: Path) -> Said:
    dataset = folder / "in" / "list.csv"
    return here(capfd, "run", dataset, "--recipe=words", "--workers=0", "--output", output)


def test_what_could_not_be_removed_of_a_failed_input_is_not_published_with_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its staged files stay where they are until the end of the run."""

    def fails(_: InputFile) -> Iterator[OutputFile]:
        yield OutputFile("bad.bin", b"bad")
        raise ValueError

    write_files(folder, {"a.txt": "", "b.txt": ""})
    names = [str(folder / "a.txt"), str(folder / "b.txt")]
    make = {"a": fails, "b": lambda _: [OutputFile("good.bin", b"good")]}
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        Gives(names, make).run(folder / "outputs", workers=0, batch_size=2, quiet=True)
    assert [path.name for path in (folder / "outputs").rglob("*.bin") if ".splitter" not in path.parts] == [
        "good.bin"
    ]


def test_an_output_whose_path_no_file_system_takes_is_the_error_of_its_input(folder: Path, capfd):
    """The input can still be read, since its own path is shorter."""
    deep = "/".join(["d" * 200] * 18) + "/" + "d" * (3900 - 18 * 201 - len(str(folder / "in")) - 6)
    write_files(folder / "in", {f"{deep}/a.txt": "abc", "b.txt": "bcd"})
    (folder / "in" / "list.csv").write_text(f"input\n{deep}/a.txt\nb.txt\n")
    output = folder / ("o" * 200)
    said = run(capfd, folder, output)
    assert said.code == 1
    assert [row["message"][:30] for row in read_table(output / "errors.csv")] == [
        "the output's path is too long:"
    ]
    assert {row["input"] for row in read_table(output / "manifest.csv")} == {"b.txt"}
