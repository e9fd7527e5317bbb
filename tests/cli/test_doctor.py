"""`splitter doctor` tells what is there, and what is wrong; `splitter run` alone tells what to type."""

import importlib.metadata
import platform
import shutil

import pytest
from doors import CHECKOUT, here, program

import splitter

LINES_OF_A_SCREEN = 24


def test_one_screen_tells_what_a_bug_report_needs(capfd):
    said = here(capfd, "doctor")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert len(lines) <= LINES_OF_A_SCREEN
    assert max(map(len, lines)) <= 80
    assert splitter.__version__ in lines[0]
    assert platform.python_version() in lines[0]
    text = " ".join(said.out.split())
    for package in ("torch", "ray", "soundfile", "av"):
        assert f"{package} {importlib.metadata.version(package)}" in text
    assert "writes wav, flac, ogg, mp3 CPUs" in text
    for name in ("FLAC", "OGG (Vorbis, Opus)", "MP3", "M4A (AAC)", "WMA"):
        assert name in text
    free = shutil.disk_usage(".").free / 1e9
    shown = float(text.partition(" GB free")[0].rpartition(": ")[2])
    assert shown == pytest.approx(free, rel=0.2)


def test_a_narrow_terminal_has_whole_words(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = here(capfd, "doctor").out.splitlines()
    # but for what has no space in it
    assert all(len(line) <= 50 or len(line.split()) == 1 for line in lines)
    version = importlib.metadata.version("soundfile")
    assert any(f"soundfile {version}" in line for line in lines)


def test_a_format_that_cannot_be_written_is_found(capfd, monkeypatch):
    """It is tried, not looked up: a libsndfile without LAME says that it knows MP3."""
    import soundfile

    write = soundfile.write

    def broken(*arguments, **named):
        if named["format"] == "MP3":
            raise soundfile.LibsndfileError(1, "no encoder: ")
        write(*arguments, **named)

    monkeypatch.setattr(soundfile, "write", broken)
    said = here(capfd, "doctor")
    assert said.code == 1
    assert "writes    wav, flac, ogg\n" in said.out
    assert "! cannot write mp3: no encoder" in said.out


def test_a_missing_package_is_named(capfd, monkeypatch):
    version = importlib.metadata.version

    def without_soxr(name):
        if name in ("soxr", "s3fs"):
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_soxr)
    said = here(capfd, "doctor")
    assert said.code == 1
    assert "! not installed: soxr; reinstall splitter" in said.out
    assert "pip install 'splitter-ml[s3]'" in said.out


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--address=127.0.0.1:1", "ray       ! --address 127.0.0.1:1: cannot be reached: Connection refused"),
        ("--url=not/a/url", "url       ! --url not/a/url: is not a URL"),
        ("--url=gopher://host/x", "url       ! gopher://host/x: Protocol not known: gopher"),
        ("--url=http://me:secret@127.0.0.1:1/x", "url       ! http://me@127.0.0.1:1/x: "),
    ],
)
def test_what_cannot_be_reached_is_a_fault(capfd, option, complaint):
    said = here(capfd, "doctor", option)
    assert said.code == 1
    assert complaint in said.out
    assert "secret" not in said.out


def test_a_store_that_answers_is_told(capfd):
    import fsspec

    fsspec.filesystem("memory").pipe({"/doctor/a.wav": b"a", "/doctor/b.wav": b"b"})
    assert (
        "url       memory://doctor: answers: 2 names\n" in here(capfd, "doctor", "--url=memory://doctor").out
    )
    assert "memory://gone: answers, but nothing is there" in here(capfd, "doctor", "--url=memory://gone").out


def test_run_without_a_dataset_suggests_the_folder(tmp_path):
    """In a folder of sound files: the command as it was typed, with the folder in it. It works."""
    shutil.copy(CHECKOUT / "data_samples" / "speech" / "greeting.wav", tmp_path / "a.WAV")
    (tmp_path / ".hidden").mkdir()
    shutil.copy(tmp_path / "a.WAV", tmp_path / ".hidden" / "b.wav")
    said = program("run", "--output", "the chunks", "--seconds=2", cwd=tmp_path)
    suggested = "splitter run . --output 'the chunks' --seconds=2"
    assert (said.code, said.err) == (
        2,
        f"splitter: no dataset is named, but this folder holds 1 sound file; type: {suggested}\n",
    )
    said = program("run", ".", "--output", "the chunks", "--seconds=2", cwd=tmp_path)
    assert (said.code, said.lines[0]) == (0, "1 input (222 kB) to do")


def test_run_without_a_dataset_elsewhere_is_refused_as_before(tmp_path):
    (tmp_path / "notes.txt").write_text("no sound")
    said = program("run", cwd=tmp_path)
    assert (said.code, said.err) == (2, "splitter: Missing argument 'DATASET...'; see splitter run --help\n")
