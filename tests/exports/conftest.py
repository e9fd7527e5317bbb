"""Outputs to export: pieces of speech with a text, a speaker and a split each."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

import splitter
from splitter.recipes.segments import Segments

# for each piece: its recording, start, end, text, speaker and split
SPOKEN = [
    ("b.wav", "0.125", "1", 'Ça "va", bien?', "ann b", "train"),
    ("b.wav", "1.000125", "2.5", "two  words", "a", "train"),
    ("dir/a.flac", "0", "0.7", "", "a", "test"),
    ("dir/a.flac", "0.3", "1", "four\tfive", "é", "train"),
    ("dir/a.flac", "0.30001", "0.9", "日本語", "ann", "train"),
]
RATES = {"b.wav": 8000, "dir/a.flac": 44100}


@pytest.fixture(scope="session")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with recordings in `in`, and their outputs in `files` and `webdataset`, by the sink."""
    folder = tmp_path_factory.mktemp("spoken")
    chance = np.random.default_rng(3)
    (folder / "in" / "dir").mkdir(parents=True)
    for name, rate in RATES.items():
        sound = chance.integers(-20_000, 20_000, rate * 5 // 2, dtype="int16")
        soundfile.write(folder / "in" / name, sound, rate)
    header = "input\tstart\tend\ttext\tspeaker\tsplit\n"
    rows = ("\t".join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) for row in SPOKEN)
    (folder / "in" / "list.tsv").write_text(header + "\n".join(rows) + "\n")
    for sink in ("files", "webdataset"):
        dataset = Segments(folder / "in" / "list.tsv")
        splitter.run(dataset, folder / sink, sink=sink, workers=0, quiet=True)
    return folder


@pytest.fixture(scope="session")
def stereo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cut a recording with two channels: both in `both`, each by itself in `split`, their mean in `mixed`."""
    folder = tmp_path_factory.mktemp("stereo")
    sound = np.random.default_rng(4).integers(-20_000, 20_000, (8000, 2), dtype="int16")
    soundfile.write(folder / "s.wav", sound, 8000)
    from splitter.recipes.chunk import Chunk

    for name, channels in (("both", "keep"), ("split", "split"), ("mixed", "mono")):
        dataset = Chunk([str(folder / "s.wav")], seconds=0.4, channels=channels)
        splitter.run(dataset, folder / name, workers=0, quiet=True)
    return folder
