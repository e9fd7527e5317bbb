"""Files that were cut anywhere: where a header states a length, no part is ever taken for the whole."""

import io
import os
import random

import numpy as np
import pytest
import soundfile
from doors import program, read_table, write_list
from nightly import depth
from sounds import chunks_of, tone

from splitter.audio.sources import open_source
from splitter.audio.target import Target
from splitter.errors import AudioError
from splitter.records import content_bytes

LAWS, NUMBERS = ("ULAW", "ALAW"), ("PCM_16", "PCM_24", "FLOAT")
KINDS = {
    "WAV": (*NUMBERS, *LAWS, "MS_ADPCM", "IMA_ADPCM", "GSM610"),
    "WAVEX": ("PCM_16", "FLOAT"),
    "RF64": ("PCM_16", "ULAW"),
    "W64": (*NUMBERS, *LAWS, "MS_ADPCM", "IMA_ADPCM", "GSM610"),
    "AIFF": (*NUMBERS, *LAWS, "IMA_ADPCM"),
    "CAF": (*NUMBERS, *LAWS, "ALAC_16"),
    "AU": (*NUMBERS, *LAWS),
    "NIST": ("PCM_16", "PCM_24", *LAWS),
    "VOC": ("PCM_U8", "PCM_16", *LAWS),
    "FLAC": ("PCM_16", "PCM_24"),
}
CASES = [
    (container, subtype, channels)
    for container, subtypes in KINDS.items()
    for subtype in subtypes
    for channels in (1, 2)
    if (subtype, channels) != ("GSM610", 2)
]


@pytest.mark.parametrize(("container", "subtype", "channels"), CASES)
def test_a_part_of_a_file(tmp_path, container, subtype, channels):
    """Cut within its header, at the edge of it, or later: an error in one line, or all samples are there."""
    file = io.BytesIO()
    soundfile.write(file, tone(0.3, 8000, channels), 8000, subtype, format=container)
    content, path = file.getvalue(), tmp_path / "a"
    path.write_bytes(content)
    whole = chunks_of(path)[1]["source_frames"]
    assert whole >= 2400
    head = len(content) * 9 // 10 if container == "CAF" and subtype == "ALAC_16" else len(content) - 2400 // 8
    chance = random.Random(f"{container} {subtype} {channels}")
    edges = {len(content) - 1, 1023, 1024, *(chance.randrange(head) for _ in range(depth(4)))}
    for size in sorted({*chance.sample(range(200), depth(16)), *edges}):
        if size >= len(content):
            continue
        path.write_bytes(content[:size])
        error = ""
        try:
            frames = chunks_of(path)[1]["source_frames"]
        except AudioError as refused:
            error = str(refused)
        assert "\n" not in error
        assert error or frames == whole, f"{frames} of {whole} frames of {size} of {len(content)} bytes"


@pytest.mark.parametrize("frames", [100, 1_000_000], ids=["in memory", "copied"])
def test_a_file_cut_while_it_is_read(tmp_path, frames):
    """The error names the recording, whether a piece is small or large."""
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(1_000_000, "i2"), 16_000)
    with open_source(str(path), Target()) as source:
        os.truncate(path, 100)
        with pytest.raises(AudioError, match=r"a\.wav: became shorter while it was read$"):
            content_bytes(source.content(0, frames))


@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF", "AU", "NIST", "VOC", "W64"])
def test_what_there_is_of_a_part(tmp_path, container):
    """With `truncated` it is kept to the last whole frame, and is what the whole file has there."""
    frames = tone(0.3, 8000, 2)
    file = io.BytesIO()
    soundfile.write(file, frames, 8000, "PCM_16", format=container)
    path = tmp_path / "a"
    path.write_bytes(file.getvalue()[: -4 * 400 - 1])
    with pytest.raises(
        AudioError, match=r"a: ends early: (1,999|2,000) of 2,400 samples exist; use --truncated"
    ):
        chunks_of(path)
    outputs, about = chunks_of(path, truncated="keep", format="wav")
    assert about["source_frames"] in {1999, 2000}
    assert about["source_truncated"] is True
    kept = soundfile.read(io.BytesIO(outputs[0].content), dtype="int16")[0]
    assert np.array_equal(kept, frames[: len(kept)])
    assert len(kept) == about["source_frames"]


@pytest.mark.slow
def test_any_damage_through_the_command_line(tmp_path):
    """Cut anywhere, with turned bits in its header, empty, or under a wrong name: done, or one clear line."""
    chance = random.Random(14)
    contents = {}
    for container, subtypes in {**KINDS, "OGG": ("VORBIS", "OPUS"), "MP3": ("MPEG_LAYER_III",)}.items():
        file = io.BytesIO()
        soundfile.write(file, tone(0.5, 8000), 8000, subtypes[-1], format=container)
        content, ending = file.getvalue(), container.lower()
        contents[f"{container} empty.{ending}"] = b""
        contents[f"{container}.{chance.choice(['wav', 'mp3', 'flac', 'm4a', 'txt'])}"] = content
        for number in range(depth(3)):
            contents[f"{container} cut {number}.{ending}"] = content[: chance.randrange(len(content))]
            damaged = bytearray(content)
            for _ in range(2):
                damaged[chance.randrange(200)] ^= 1 << chance.randrange(8)
            contents[f"{container} damaged {number}.{ending}"] = bytes(damaged)
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    write_list(tmp_path / "l.csv", [["input"], *([name] for name in contents)])
    said = program(
        *("run", tmp_path / "l.csv", "--output", tmp_path / "out", "--seconds", "0.2", "--keep-extension"),
        *("--quiet", "--workers", "2", "--timeout", "60", "--memory", "700M", "--max-failures", "100%"),
    )
    assert (said.code, said.out, len(said.err.splitlines())) == (1, "", 1)
    errors, rows = read_table(tmp_path / "out/errors.csv"), read_table(tmp_path / "out/manifest.csv")
    assert {row["input"] for row in errors} ^ {row["input"] for row in rows} == {*contents}
    for row in errors:
        assert (row["error"], row["traceback"], row["attempts"]) == ("AudioError", "", "1"), row["message"]
        assert "\n" not in row["message"]
    for row in rows:
        if row["output"]:
            assert soundfile.info(tmp_path / "out" / row["output"]).frames == int(row["frames"])
