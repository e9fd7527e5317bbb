"""Exports to train voices: what the reading code of each trainer makes of metadata.csv."""

import csv
import os
from pathlib import Path

import pytest
from spoken import TEXTS, contents, spoken_pieces

import splitter
from splitter.errors import Refused

WITH_BARS = {**TEXTS, "b": 'a "b" | c', "c": "|"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output folders of two sinks, whose texts hold what a list with bars between its values must quote."""
    folder = tmp_path_factory.mktemp("voices")
    for sink in ("files", "webdataset"):
        spoken_pieces(folder, sink, texts=WITH_BARS, columns=["text", "speaker", "split", "empty"])
    return folder


def read_ljspeech(root: Path, name: str) -> list[tuple[str, str, bytes]]:
    """As `torchaudio.datasets.LJSPEECH` 2.8 reads it."""
    with open(root / name, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE))
    found = []
    for fileid, transcript, normalized_transcript in lines:
        path = root / "wavs" / (fileid + ".wav")
        found.append((transcript, normalized_transcript, path.read_bytes()))
    return found


def read_coqui_ljspeech(root: Path, name: str) -> list[tuple[str, str]]:
    """As the formatter `ljspeech` of coqui-tts 0.28 reads it, which keeps the line break."""
    items = []
    with open(root / name, encoding="utf-8") as file:
        for line in file:
            columns = line.split("|")
            assert len(columns) >= 3
            items.append((columns[2].rstrip("\n"), os.path.join(root, "wavs", columns[0] + ".wav")))
    return items


def read_piper(root: Path, name: str, *, speakers: bool) -> list[tuple[str, str, bytes]]:
    """As `VitsDataModule.setup` of piper-tts 1.8 reads it."""
    items = []
    with open(root / name, encoding="utf-8") as file:
        for row in csv.reader(file, delimiter="|"):
            assert len(row) >= 2 + speakers
            path = root / "wavs" / row[0]
            if not path.exists():
                path = root / "wavs" / f"{row[0]}.wav"
            items.append((row[-1], row[1] if speakers else "", path.read_bytes()))
    return items


def read_coqui(root: Path, name: str) -> list[tuple[str, str, bytes]]:
    """As the formatter `coqui` of coqui-tts 0.28 reads it."""
    with open(root / name, newline="", encoding="utf-8") as file:
        metadata = list(csv.DictReader(file, delimiter="|"))
    assert all(column in metadata[0] for column in ["audio_file", "text"])
    paths = [os.path.join(root, row["audio_file"]) for row in metadata]
    return [
        (row["text"], row["speaker_name"], Path(path).read_bytes())
        for row, path in zip(metadata, paths, strict=True)
    ]


@pytest.mark.parametrize("sink", ["files", "webdataset"])
@pytest.mark.parametrize(("to", "read"), [("piper", read_piper), ("coqui", read_coqui)])
def test_texts_speakers_and_sound(made: Path, sink: str, to: str, read):
    """Each with the others, whatever is in a text; line breaks become spaces."""
    done = splitter.export(made / sink, to, made / to)
    options = {"speakers": True} if to == "piper" else {}
    found = [
        item for split in ("train", "test") for item in read(made / to, f"metadata_{split}.csv", **options)
    ]
    assert [text for text, _, _ in found] == [" ".join(text.split()) for text in WITH_BARS.values()]
    assert {speaker for _, speaker, _ in found} == {"ann", "bob"}
    assert {text: content for text, _, content in found} == contents(made / sink)
    assert (done.copied == 0) == (sink == "files")
    assert (done.linked > 0) == (sink == "files" and to == "piper")


def test_ljspeech(made: Path, tmp_path: Path):
    """Its readers know no quotes, so text stays as it is."""
    outputs = spoken_pieces(tmp_path)
    splitter.export(outputs, "ljspeech", where="split == 'train'", normalised="speaker")
    found = read_ljspeech(tmp_path / "files-ljspeech", "metadata_train.csv")
    expected = contents(outputs)
    assert [text for text, _, _ in found] == [*TEXTS.values()][:-1]
    assert all(content == expected[text] for text, _, content in found)
    assert {read for _, read, _ in found} == {"ann", "bob"}
    splitter.export(outputs, "ljspeech")
    items = read_coqui_ljspeech(tmp_path / "files-ljspeech", "metadata_test.csv")
    assert [text for text, _ in items] == ["two lines"]
    assert os.path.isfile(items[0][1])
    with pytest.raises(Refused, match=r"000000_0.000s.wav: its text has a \|, which ljspeech cannot hold"):
        splitter.export(made / "files", "ljspeech")


def test_neither_speakers_nor_splits(tmp_path: Path):
    """A line is a file and its text; one that is not WAV is refused where it must be."""
    outputs = spoken_pieces(tmp_path, columns=["text"], format="flac")
    splitter.export(outputs, "piper")
    found = read_piper(tmp_path / "files-piper", "metadata.csv", speakers=False)
    assert {text: content for text, _, content in found} == contents(outputs)
    with pytest.raises(Refused, match="is not WAV, which ljspeech needs"):
        splitter.export(outputs, "ljspeech")


def test_no_texts(made: Path, tmp_path: Path):
    """None at all, or none of a piece."""
    with pytest.raises(Refused, match="piper: the manifest has no texts; name their column with --text"):
        splitter.export(spoken_pieces(tmp_path, texts={"a": ""}, columns=[]), "piper")
    with pytest.raises(Refused, match="has no text to learn a voice from"):
        splitter.export(made / "files", "coqui", text="empty")
