"""Pieces encoded in threads: the same outputs as without, in the same order, and not too many at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sounds import chunks_of, noise, tone, write_sound

from splitter import ProcessorDataset, run
from splitter.audio import decoded
from splitter.audio.ahead import encoded_ahead
from splitter.audio.pieces import Cut, UncutPiece
from splitter.audio.sources import open_source
from splitter.audio.target import Target
from splitter.errors import InputError
from splitter.records import InputFile, OutputFile
from splitter.system.cpus import own_cpus, take_cpus, usable_cpus

RATE = 16_000
CHOICES = [
    {"format": "flac", "subtype": "PCM_16"},
    {"format": "mp3", "channels": "split"},
    {"format": "ogg", "tail": "pad", "overlap": 0.25},
    {"format": "wav", "subtype": "PCM_24", "tail": "merge"},
    {"format": "wav", "sample_rate": 8000, "channels": "mono"},
    {"format": "flac", "loudness": -30, "measure": "levels"},
]


@pytest.fixture
def cpus() -> Iterator[None]:
    """What a worker was told is forgotten."""
    yield
    take_cpus(1)


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    """Six seconds of two channels."""
    return write_sound(tmp_path_factory.mktemp("ahead") / "a.wav", noise(6 * RATE, 2), RATE)


@pytest.mark.usefixtures("cpus")
@pytest.mark.parametrize("parameters", CHOICES, ids=str)
def test_any_number_of_threads_makes_the_same(recording, parameters):
    found = []
    for threads in (1, 2, 5):
        take_cpus(threads)
        found.append(chunks_of(recording, seconds=0.7, **parameters))
    assert found[1:] == found[:1] * 2
    assert len(found[0][0]) >= 8


@pytest.mark.usefixtures("cpus")
def test_long_pieces_among_short_ones(recording, monkeypatch):
    """What is too long to wait is made when its turn comes, before the recording is read on."""
    expected = chunks_of(recording, seconds=1.0, overlap=0.3, tail="merge", format="flac")
    # of nine pieces only the last has more
    monkeypatch.setattr(decoded, "MANY_SAMPLES", 2 * RATE + 10)
    take_cpus(2)
    assert chunks_of(recording, seconds=1.0, overlap=0.3, tail="merge", format="flac") == expected


@pytest.mark.usefixtures("cpus")
def test_an_error_of_the_recording_is_the_same(tmp_path):
    path = write_sound(tmp_path / "a.mp3", tone(3, RATE), RATE, "MPEG_LAYER_III", "MP3")
    path.write_bytes(path.read_bytes()[:-2000])
    messages = set()
    for threads in (1, 3):
        take_cpus(threads)
        with pytest.raises(InputError) as error:
            chunks_of(path, seconds=0.5, format="flac")
        messages.add(str(error.value))
    assert len(messages) == 1
    assert "ends early" in messages.pop()


@pytest.mark.parametrize("threads", [2, 3])
def test_few_pieces_wait_and_a_fault_comes_after_them(recording, threads):
    """However long the recording; what came before an error has been stored."""
    taken: list[int] = []

    def outputs() -> Iterator[OutputFile]:
        for number in range(40):
            taken.append(number)
            yield OutputFile(f"{number}.flac", UncutPiece(source, Cut(number * 100, number * 100 + 100)))
        raise ValueError("the end")

    with open_source(str(recording), Target(format="flac")) as source:
        source.reach(4100)
        stored, ahead = [], 0
        ordered = encoded_ahead(outputs(), threads)
        for _ in range(40):
            stored.append(next(ordered).name)
            ahead = max(ahead, len(taken) - len(stored))
        with pytest.raises(ValueError, match="the end"):
            next(ordered)
    assert stored == [f"{number}.flac" for number in range(40)]
    assert ahead == 2 * threads


class Cpus(ProcessorDataset):
    """How many CPUs a worker has for itself."""

    def process(self, input_file: InputFile):
        return [], {"cpus": own_cpus()}


@pytest.mark.parametrize(("workers", "cpus"), [(1, 1), (2, min(2, usable_cpus()))])
def test_one_input_has_the_cpus_of_all_workers(tmp_path, workers, cpus):
    (tmp_path / "a.txt").write_text("a")
    manifest = run(Cpus([str(tmp_path / "a.txt")]), tmp_path / "out", workers=workers)
    assert [int(found) for found in manifest["cpus"]] == [cpus]
