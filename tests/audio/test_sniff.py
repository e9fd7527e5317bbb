"""Files that are damaged, that lie, or that are no recordings: each is done, or is one clear error."""

import io
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from doors import program, read_table, write_list
from sounds import (
    chunks_of,
    encoded_by_ffmpeg,
    needs_ffmpeg,
    needs_sox,
    noise,
    samples_of,
    tone,
    wav,
    write_sound,
)
from tar_archives import tar_bytes

from splitter.audio import sniff
from splitter.audio.formats.base import AudioFormat
from splitter.audio.formats.registry import FORMATS
from splitter.audio.sniff import open_decoder
from splitter.errors import AudioError
from splitter.text.endings import READABLE

FRAMES = noise(1000, 2)
CONTENT = FRAMES.astype("<i2").tobytes()
WAV = wav(CONTENT, channels=2)
KEEP = "; use --truncated keep to keep them, which redoes all inputs"


@dataclass(frozen=True)
class Bad:
    """A file, and what becomes of it.

    Attributes:
        content: Its bytes, or what makes it.
        done: How many frames are read of it, where it is done.
        error: What its error says, behind its name.
        kept: The frames that are read with `--truncated keep`, where that is another matter.
    """

    content: bytes | Callable[[Path], object]
    done: int | None = None
    error: str = ""
    kept: int | None = None


def of_kind(container: str, subtype: str = "PCM_16", frames: int = 1000, channels: int = 2) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, noise(frames, channels, subtype), 8000, subtype, format=container)
    return file.getvalue()


def cut(content: bytes, size: int) -> bytes:
    return content[:size]


def patched(content: bytes, at: int, other: bytes) -> bytes:
    return content[:at] + other + content[at + len(other) :]


def ends_early(there: int, stated: int, unit: str = "samples") -> str:
    return re.escape(f"ends early: {there:,} of {stated:,} {unit} exist{KEEP}")


def unreadable(kind: str, reason: str = ".+") -> str:
    return rf"cannot be read: it is {kind}: {reason}"


OF = " samples exist" + KEEP
THERE = r"[\d,]+" + OF
NOT_WAV = unreadable("WAV")
TEXT = "is not sound: it is text"
TOO_FAST = r"has 4,294,967,295 Hz, and pieces with more than 2,147,483,647 cannot be read back; correct .+"
UNKNOWN = r"cannot be read: it is in an unknown format \(it starts with [0-9a-f ]+\)"
FLAC = of_kind("FLAC", frames=50_000)
LOST = r"only [\d,]+(?: of 50,?000)? samples are intact: the next frame is .+" + re.escape(KEEP)

GSM = of_kind("WAV", "GSM610", channels=1)
OGG = of_kind("OGG", "VORBIS", 100_000)
MP3 = of_kind("MP3", "MPEG_LAYER_III", 132_300)
# its picture looks like frames of MP3
ID3 = b"ID3\4\0\0\0\0\7\x68" + b"\xff\xfb\x90\x64" * 250

BAD: dict[str, Bad] = {
    # cut off
    "cut 0.wav": Bad(b"", error="is not sound: it is empty"),
    "cut 3.wav": Bad(cut(WAV, 3), error=TEXT),
    "shard.tar": Bad(
        tar_bytes([("a.wav", WAV)]),
        error=r"is not sound: it is a tar archive; .* such as splitter run '.*tar'",
    ),
    "cut 11.wav": Bad(cut(WAV, 11), error=UNKNOWN),
    "cut 12.wav": Bad(cut(WAV, 12), error=NOT_WAV),
    "cut 20.wav": Bad(cut(WAV, 20), error=NOT_WAV),
    "cut 30.wav": Bad(cut(WAV, 30), error=NOT_WAV),
    "cut 38.wav": Bad(cut(WAV, 38), error=NOT_WAV),
    "cut 40.wav": Bad(cut(WAV, 40), error=f"ends early: 0{OF}", kept=0),
    "cut 44.wav": Bad(cut(WAV, 44), error=ends_early(0, 1000), kept=0),
    "cut within data.wav": Bad(cut(WAV, 41), error=f"ends early: 0{OF}", kept=0),
    "cut within data.rf64": Bad(cut(of_kind("RF64"), 101), error=f"ends early: 0{OF}", kept=0),
    "cut within data.w64": Bad(cut(of_kind("W64"), 100), error=f"ends early: 0{OF}", kept=0),
    "cut within data, GSM.wav": Bad(
        cut(GSM, GSM.index(b"data") + 6), error="ends early: 0 bytes exist" + KEEP, kept=0
    ),
    "cut.sph": Bad(of_kind("NIST")[:-2000], error=ends_early(500, 1000), kept=500),
    "cut.voc": Bad(of_kind("VOC")[:-2001], error=ends_early(500, 1000), kept=500),
    "cut 45.wav": Bad(cut(WAV, 45), error=ends_early(0, 1000), kept=0),
    "cut 50.wav": Bad(cut(WAV, 50), error=ends_early(1, 1000), kept=1),
    "cut half.wav": Bad(cut(WAV, 2044), error=ends_early(500, 1000), kept=500),
    "cut last byte.wav": Bad(WAV[:-1], error=ends_early(999, 1000), kept=999),
    "cut.aiff": Bad(cut(of_kind("AIFF"), 2054), error=ends_early(500, 1000), kept=500),
    "cut.caf": Bad(of_kind("CAF")[:-2000], error=ends_early(500, 1000), kept=500),
    "cut.au": Bad(of_kind("AU")[:-2000], error=ends_early(500, 1000), kept=500),
    "cut.w64": Bad(of_kind("W64")[:-2000], error=ends_early(500, 1000), kept=500),
    "cut.rf64": Bad(of_kind("RF64")[:-2000], error=ends_early(500, 1000), kept=500),
    "cut adpcm.wav": Bad(
        of_kind("WAV", "MS_ADPCM")[:-500], error=r"ends early: [\d,]+ of [\d,]+ bytes .+", kept=500
    ),
    "cut.ogg": Bad(of_kind("OGG", "VORBIS", 100_000)[:20_000], error=r"ends early: " + THERE),
    # sizes
    "size 0.wav": Bad(wav(CONTENT, channels=2, stated=0), done=1000),
    "size -1.wav": Bad(wav(CONTENT, channels=2, stated=2**32 - 1), done=1000),
    "2^31 frames.wav": Bad(wav(bytes(1000), bits=8, stated=2**31), done=1000),
    "too large.wav": Bad(
        wav(CONTENT, channels=2, stated=10**9), error=ends_early(1000, 250_000_000), kept=1000
    ),
    "too small.wav": Bad(wav(CONTENT, channels=2, stated=400), done=100),
    "no frames.wav": Bad(wav(b"", channels=2), done=0),
    "half a frame.wav": Bad(wav(CONTENT[:2], channels=2), done=0),
    "one sample.wav": Bad(wav(CONTENT[:2]), done=1),
    "a chunk of 4 GB.wav": Bad(wav(CONTENT, channels=2, before=b"LIST\xff\xff\xff\xff"), error=NOT_WAV),
    "fmt of 4 GB.wav": Bad(patched(WAV, 16, b"\xff\xff\xff\xff"), error=NOT_WAV),
    "many chunks.wav": Bad(wav(CONTENT, channels=2, before=b"junk\0\0\0\0" * 50_000), done=1000),
    "size 0.caf": Bad(patched(of_kind("CAF"), of_kind("CAF").index(b"data") + 4, b"\xff" * 8), done=1000),
    "size.aiff": Bad(patched(of_kind("AIFF"), 42, b"\xff" * 4), done=1000),
    "size.w64": Bad(patched(of_kind("W64"), 96, b"\xff" * 8), done=1000),
    "offset.aiff": Bad(patched(of_kind("AIFF"), 46, b"\x7f\xff\xff\xff"), error=ends_early(0, 1000), kept=0),
    "offset.au": Bad(patched(of_kind("AU"), 4, b"\x7f\xff\xff\xff"), error=ends_early(0, 1000), kept=0),
    # what a header says of samples
    "no channels.wav": Bad(wav(CONTENT, channels=0, frame_bytes=4), error=NOT_WAV),
    "no rate.wav": Bad(wav(CONTENT, channels=2, rate=0), error=NOT_WAV),
    "no bits.wav": Bad(wav(CONTENT, channels=2, bits=0), error=NOT_WAV),
    "17 bits.wav": Bad(wav(CONTENT, channels=2, bits=17, frame_bytes=4)),
    "frames of 3 bytes.wav": Bad(wav(CONTENT, channels=2, frame_bytes=3)),
    "frames of no bytes.wav": Bad(wav(CONTENT, channels=2, frame_bytes=0)),
    "unknown codec.wav": Bad(wav(CONTENT, channels=2, code=0x1234), error=NOT_WAV),
    "96 channels.wav": Bad(wav(CONTENT[:3840], channels=96), done=20),
    "30000 channels.wav": Bad(
        wav(bytes(120_000), channels=30_000),
        error="has 30,000 channels, and pieces with more than 1,024 cannot be read back; choose --ch.+",
    ),
    "1024 channels.wav": Bad(wav(bytes(4096), channels=1024), done=2),
    "768 kHz.wav": Bad(wav(CONTENT, channels=2, rate=768_000), done=1000),
    "2 GHz.wav": Bad(wav(CONTENT, channels=2, rate=2**31 - 1), done=1000),
    "4 GHz.wav": Bad(wav(CONTENT, channels=2, rate=2**32 - 1), error=TOO_FAST),
    "4 GHz.w64": Bad(patched(of_kind("W64"), 68, b"\xff" * 4), error=TOO_FAST),
    "64 bits.wav": Bad(
        wav(CONTENT, channels=2, bits=64),
        error=r"its samples have 64 bits, which is not supported; convert it first, for example with: "
        r"ffmpeg -i '64 bits\.wav' -c:a pcm_s32le 32-bit\.wav",
    ),
    "nan.wav": Bad(wav(np.full(100, np.nan, "<f4").tobytes(), code=3, bits=32), done=100),
    "infinite.wav": Bad(wav(np.full(100, np.inf, "<f8").tobytes(), code=3, bits=64), done=100),
    # FLAC
    "cut 4.flac": Bad(cut(FLAC, 4), error=unreadable("FLAC")),
    "cut 30.flac": Bad(cut(FLAC, 30), error=unreadable("FLAC")),
    "cut 42.flac": Bad(cut(FLAC, 42)),
    "cut half.flac": Bad(cut(FLAC, len(FLAC) // 2), error=LOST, kept=24_576),
    "cut last byte.flac": Bad(FLAC[:-1], error=LOST, kept=49_152),
    "damaged.flac": Bad(patched(FLAC, len(FLAC) // 2, bytes(50)), error=LOST, kept=24_576),
    "no total.flac": Bad(patched(FLAC, 22, bytes(4)), done=50_000),
    "no total, cut.flac": Bad(cut(patched(FLAC, 22, bytes(4)), len(FLAC) // 2), error=LOST, kept=24_576),
    "total too small.flac": Bad(
        patched(FLAC, 22, struct.pack(">I", 100)),
        error="it holds 50,?000 samples, but its header says 100" + re.escape(KEEP),
        kept=50_000,
    ),
    "total too large.flac": Bad(
        patched(FLAC, 22, struct.pack(">I", 10**9)),
        error="it ends after 50,000 of 1,000,000,000 samples" + re.escape(KEEP),
        kept=50_000,
    ),
    "tagged.flac": Bad(ID3 + FLAC, done=50_000),
    "tagged twice, cut.flac": Bad(ID3 + ID3 + cut(FLAC, len(FLAC) // 2), error=LOST, kept=24_576),
    "tagged, total too small.flac": Bad(
        ID3 + patched(FLAC, 22, struct.pack(">I", 100)), error="it holds 50,?000 samples.+", kept=50_000
    ),
    "cut in metadata.flac": Bad(cut(FLAC, 60), error=unreadable("FLAC")),
    "cut in a frame's head.flac": Bad(
        cut(FLAC, FLAC.index(b"\xff\xf8", len(FLAC) // 2) + 3), error=LOST, kept=24_576
    ),
    "metadata of 16 MB.flac": Bad(patched(FLAC, 5, b"\xff\xff\xff"), error=unreadable("FLAC")),
    # Ogg
    "cut 20.ogg": Bad(cut(OGG, 20), error=unreadable("OGG")),
    "cut in a page's head.ogg": Bad(
        cut(OGG, OGG.index(b"OggS", 100) + 20), error=f"ends early: 0 samples exist{KEEP}", kept=0
    ),
    "cut in the codebooks.ogg": Bad(cut(OGG, 2000), error=unreadable("OGG")),
    "cut half.ogg": Bad(cut(OGG, len(OGG) // 2), error="ends early: " + THERE),
    "damaged.ogg": Bad(
        patched(OGG, len(OGG) // 2, bytes(300)), error=r"is damaged in the middle: [\d,]+ of 100,000" + OF
    ),
    # MP3
    "cut.mp3": Bad(cut(MP3, len(MP3) // 3), error=r"ends early: [\d,]+ of 132,300" + OF),
    "damaged.mp3": Bad(
        patched(MP3, len(MP3) // 2, bytes(1000)), error=r"is damaged in the middle: [\d,]+ of 132,300" + OF
    ),
    # names
    "UPPER.WAV": Bad(WAV, done=1000),
    "ü" * 123 + ".wav": Bad(WAV, done=1000),
    "not UTF-8 \udce9\udcff.wav": Bad(WAV, done=1000),
    "no ending": Bad(FLAC, done=50_000),
    "FLAC after all.wav": Bad(FLAC, done=50_000),
    "WAV after all.flac": Bad(WAV, done=1000),
    "Vorbis after all.mp3": Bad(OGG, done=100_000),
    ".wav": Bad(WAV, done=1000),
    'it\'s a "name",\nwith all.wav': Bad(WAV, done=1000),
    # something else
    "text.wav": Bad(b"hello, this is no sound\r\n", error=TEXT),
    "text.au": Bad("Größe: ungefähr\n".encode() * 50, error=TEXT),
    "list.m4a": Bad(b"#EXTM3U\n#EXTINF:1,\nno frames.wav\n", error=TEXT),
    "list.wav": Bad(b"ffconcat version 1.0\nfile 'one sample.wav'\n", error=TEXT),
    "picture.wav": Bad(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(1000), error=UNKNOWN),
    "photo.flac": Bad(b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(range(256)) * 50, error=UNKNOWN),
    "archive.wav": Bad(b"PK\3\4" + bytes(5000), error=UNKNOWN),
    "zeros.wav": Bad(bytes(1_000_000), error=UNKNOWN),
    "noise.snd": Bad(np.random.default_rng(5).integers(0, 256, 300_000, np.uint8).tobytes(), error=UNKNOWN),
    "noise.vox": Bad(
        np.random.default_rng(6).integers(0, 256, 5000, np.uint8).tobytes(),
        error=UNKNOWN + r": \.vox files are headerless: convert it first .+: sox -t vox .+ noise\.wav",
    ),
    "folder.wav": Bad(Path.mkdir, error=".+"),
    "fifo.wav": Bad(os.mkfifo, error=".+"),
    "dangling.wav": Bad(lambda path: path.symlink_to("nowhere"), error=".+"),
    # and what is sound after all
    "trailing garbage.flac": Bad(FLAC + b"\xff\xf8garbage" * 10),
    "sound.wav": Bad(WAV, done=1000),
}
if shutil.which("ffmpeg"):

    def mpeg4(*options: str) -> Callable[[Path], object]:
        return lambda path: encoded_by_ffmpeg(tone(3, 44_100, 2), 44_100, path, "-f", "mp4", *options)

    def cut_mpeg4(*options: str) -> Callable[[Path], object]:
        def make(path: Path) -> None:
            mpeg4(*options)(path)
            path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])

        return make

    BAD |= {
        "sound.m4a": Bad(mpeg4("-c:a", "aac")),
        "cut.m4a": Bad(cut_mpeg4("-c:a", "aac"), error=unreadable("MP4 or M4A")),
        "cut, head first.m4a": Bad(
            cut_mpeg4("-c:a", "aac", "-movflags", "faststart"), error=r"ends early: [\d,]+ of 132,300" + OF
        ),
        "lossless.m4a": Bad(mpeg4("-c:a", "alac"), done=132_300),
        "cut lossless.m4a": Bad(
            cut_mpeg4("-c:a", "alac", "-movflags", "faststart"),
            error=r"ends early: [\d,]+ of 132,300 samples exist" + re.escape(KEEP),
        ),
    }


@pytest.fixture(scope="module")
def folder_of_bad_files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bad") / "it's a naïve folder"
    folder.mkdir()
    for name, bad in BAD.items():
        if isinstance(bad.content, bytes):
            (folder / name).write_bytes(bad.content)
        else:
            bad.content(folder / name)
    write_list(folder / "l.csv", [["input"], *([name] for name in BAD)])
    return folder


@dataclass(frozen=True)
class Outcome:
    done: dict[str, list[dict[str, str]]]
    failed: dict[str, dict[str, str]]
    out: Path


def outcome_of(folder: Path, out: Path, *options: str) -> Outcome:
    """One run over all files; whatever takes long or much is ended, and would be seen by its error."""
    said = program(
        *("run", folder / "l.csv", "--recipe", "chunk", "--output", out, "--seconds", "0.05", "--quiet"),
        *("--keep-extension", "--workers", "2", "--timeout", "20", "--memory", "700M", *options),
    )
    assert said.code == 1, said.err
    done: dict[str, list[dict[str, str]]] = {}
    for row in read_table(out / "manifest.csv"):
        done.setdefault(row["input"], []).append(row)
    return Outcome(done, {row["input"]: row for row in read_table(out / "errors.csv")}, out)


@pytest.fixture(scope="module")
def outcome(folder_of_bad_files, tmp_path_factory) -> Outcome:
    return outcome_of(folder_of_bad_files, tmp_path_factory.mktemp("out") / "out")


@pytest.fixture(scope="module")
def outcome_kept(folder_of_bad_files, tmp_path_factory) -> Outcome:
    return outcome_of(folder_of_bad_files, tmp_path_factory.mktemp("kept") / "out", "--truncated", "keep")


@pytest.mark.parametrize("name", BAD)
@pytest.mark.slow
def test_a_bad_file(outcome, name):
    """It is done, with as many samples as there are, or it is an error in one clear line."""
    check(outcome, name, BAD[name].done, BAD[name].error)


@pytest.mark.parametrize("name", BAD)
@pytest.mark.slow
def test_what_there_is_of_a_bad_file(outcome, outcome_kept, name):
    """With --truncated keep a file that ends early is done, with what is there; the manifest says so."""
    bad = BAD[name]
    may_be_kept = bad.kept is not None or KEEP in bad.error.replace("\\", "")
    check(outcome_kept, name, bad.kept if may_be_kept else bad.done, "" if may_be_kept else bad.error)
    is_short = str(name in outcome.failed)
    assert {row["source_truncated"] for row in outcome_kept.done.get(name, ())} <= {is_short}


def check(outcome: Outcome, name: str, done: int | None, error: str) -> None:
    if name in outcome.failed:
        row = outcome.failed[name]
        assert done is None, row["message"]
        assert row["error"] in {"AudioError", "UnreadableInput"}, row["message"]
        assert not row["traceback"]
        assert "\n" not in row["message"]
        if error:
            assert re.search(rf"(?:{re.escape(name)}: |^){error}$", row["message"]), row["message"]
        assert name not in outcome.done
        return
    assert not error, f"{name} is done"
    rows = outcome.done[name]
    frames = int(rows[0]["source_frames"])
    assert done in {None, frames}
    pieces = [row for row in rows if row["output"]]
    assert sum(int(row["frames"]) for row in pieces) == frames
    for row in pieces[:3]:
        content = (outcome.out / row["output"]).read_bytes()
        assert len(samples_of(content)) == int(row["frames"])


@pytest.mark.slow
def test_nothing_is_taken_by_a_name(outcome):
    """Nothing that a playlist names is read, and no file is opened beside the one that is listed."""
    assert "list.m4a" in outcome.failed
    assert "list.wav" in outcome.failed


# -- kinds of files -----------------------------------------------------------------------------------------


@pytest.fixture
def without_av(monkeypatch) -> Iterator[None]:
    """As where PyAV is missing or broken."""
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.delitem(sys.modules, "splitter.audio.formats.av", raising=False)
    yield
    sys.modules.pop("splitter.audio.formats.av", None)


REMEDY = "PyAV, which may read it, cannot be imported; install it again: pip install --force-reinstall av"


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\0\0\0\x20ftypM4A ", "MP4 or M4A"),
        (b"\x1aE\xdf\xa3", "WebM or Matroska"),
        (b"0&\xb2u\x8ef\xcf\x11", "WMA"),
        (b"RIFF\x10\0\0\0AVI ", "AVI"),
        (b"wvpk\x10\0\0\0", "WavPack"),
        (b"MAC \x96\x0f\0\0", "Monkey's Audio"),
        (b"TTA1\1\0", "True Audio"),
        (b"#!AMR\n\x3c", "AMR"),
        (b"\xff\xf1\x50\x80", "AAC"),
        (b"FLV\1\5", "FLV"),
        (b"\x01\x02\x03", "in an unknown format (it starts with 01 02 03 00 00 00 00 00)"),
    ],
)
def test_which_package_would_read_it(tmp_path, without_av, start, kind):
    """Without PyAV, the error names the format that was found and the command that brings the reader."""
    (tmp_path / "a.wav").write_bytes(start + bytes(200))
    with pytest.raises(AudioError) as refused:
        open_decoder(str(tmp_path / "a.wav"))
    assert str(refused.value) == f"{tmp_path}/a.wav: cannot be read: it is {kind}: {REMEDY}"


# how each is written, without a header
HEADERLESS = {
    "a.gsm": "sox a.wav a.gsm",
    "a.g722": "ffmpeg -v error -i a.wav -ar 16000 a.g722",
    "my recording.raw": "sox a.wav -r 16000 -t raw 'my recording.raw'",
    "-.PCM": "sox a.wav -r 16000 -t raw ./-.PCM",
    "a.vox": "sox a.wav a.vox",
    "a.sln": "sox a.wav a.sln",
    "a.alaw": "sox a.wav -t al a.alaw",
    "a.ul": "sox a.wav a.ul",
    "a.u8": "sox a.wav -r 16000 a.u8",
    "a.s24": "sox a.wav -r 16000 a.s24",
    "a.f64": "sox a.wav -r 16000 a.f64",
}


@needs_ffmpeg
@needs_sox
@pytest.mark.parametrize(("name", "command"), HEADERLESS.items())
def test_what_has_no_header(tmp_path, name, command):
    """Nothing tells what it is; the error has a command that converts it, and that command works."""
    write_sound(tmp_path / "a.wav", tone(2, 8000), 8000)
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    (tmp_path / "a.wav").unlink()
    with pytest.raises(AudioError) as refused:
        open_decoder(str(tmp_path / name))
    said = str(refused.value)
    assert re.search(
        UNKNOWN + r": \.\w+ files are headerless: convert it first.*, for example with: .+$", said
    )
    subprocess.run(["sh", "-c", said.rpartition(" with: ")[2]], cwd=tmp_path, check=True)
    _, about = chunks_of(tmp_path / f"{name.rpartition('.')[0]}.wav")
    assert about["source_seconds"] == pytest.approx(2, abs=0.05)


@needs_ffmpeg
def test_integers_of_64_bits(tmp_path):
    """They fit no number that is computed with; the command in the error makes them fit."""
    encoded_by_ffmpeg(tone(1, 8000), 8000, tmp_path / "a.wav", "-c:a", "pcm_s64le")
    with pytest.raises(AudioError, match=r"a\.wav: its samples have 64 bits, which is not supp") as refused:
        chunks_of(tmp_path / "a.wav")
    subprocess.run(["sh", "-c", str(refused.value).rpartition(" with: ")[2]], cwd=tmp_path, check=True)
    outputs, _ = chunks_of(tmp_path / "32-bit.wav")
    assert np.array_equal(samples_of(outputs[0].content, "int16"), tone(1, 8000))


@needs_ffmpeg
def test_encodings_that_only_pyav_reads(tmp_path, without_av):
    """A WAV file may hold any codec: what libsndfile says of it, and what would read it."""
    path = encoded_by_ffmpeg(tone(1, 8000), 8000, tmp_path / "a.wav", "-c:a", "g722")
    with pytest.raises(AudioError) as refused:
        open_decoder(str(path))
    said = re.escape(f"{path}: cannot be read: it is WAV: ") + ".+; " + re.escape(REMEDY)
    assert re.fullmatch(said, str(refused.value))


@pytest.mark.skipif(shutil.which("flac") is None, reason="needs Debian's flac")
def test_flac_within_ogg(tmp_path):
    """It binds itself to a number of samples as it does by itself, and says when it ends early."""
    sound = tone(3, 16_000, 2)
    source = write_sound(tmp_path / "a.wav", sound, 16_000)
    subprocess.run(["flac", "-s", "--ogg", "-o", tmp_path / "a.oga", source], check=True)
    outputs, _ = chunks_of(tmp_path / "a.oga", seconds=2)
    assert [output.name[-4:] for output in outputs] == [".wav"] * 2
    assert np.array_equal(np.concatenate([samples_of(each.content, "int16") for each in outputs]), sound)
    content = (tmp_path / "a.oga").read_bytes()
    (tmp_path / "a.oga").write_bytes(content[: len(content) // 2])
    with pytest.raises(AudioError, match=r"a\.oga: ends early: [\d,]+ of 48,000 samples exist; use --trunc"):
        chunks_of(tmp_path / "a.oga")
    assert 0 < chunks_of(tmp_path / "a.oga", truncated="keep")[1]["source_frames"] < 48_000


@pytest.mark.parametrize(
    ("content", "is_text"),
    [
        (b"a", True),
        (b"a,b\r\n1,2\r\n", True),
        ("é".encode() * 600, True),
        (b"x" + "é".encode() * 600, True),
        (b"\xef\xbb\xbfa,b", True),
        (b"caf\xe9 au lait", False),
        (b"\0\0\0", False),
        (b"abc\x07", False),
    ],
)
def test_what_is_text(tmp_path, content, is_text):
    """UTF-8 without control characters, also where the part that is looked at ends within a letter."""
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(AudioError) as refused:
        open_decoder(str(tmp_path / "a"))
    assert str(refused.value).endswith("is not sound: it is text") == is_text


@pytest.mark.slow
def test_a_recording_by_its_content(tmp_path):
    """Headerless formats are not guessed from a name, and no name hides a format."""
    path = write_sound(tmp_path / "a.gsm", FRAMES, 8000, "PCM_16", "AIFF")
    decoder = open_decoder(str(path))
    try:
        assert decoder.format.container == "AIFF"
        assert np.array_equal(decoder.read(10_000), FRAMES)
        assert not len(decoder.read(10_000))
    finally:
        decoder.close()


def test_a_format_with_a_reader_of_its_own(tmp_path, monkeypatch):
    """A new format is a file that says how it begins and how it is opened, and a name in the list."""
    path = tmp_path / "a.xyz"
    path.write_bytes(b"XYZ1 and what it holds")
    opened = AudioFormat("XYZ", "xyz", ((b"XYZ1", 0, b""),), open_decoder=lambda *given: given)
    monkeypatch.setattr(sniff, "FORMATS", (*sniff.FORMATS, opened))
    assert open_decoder(str(path), "keep") == (str(path), "keep")


def test_the_endings_of_all_formats_are_known_where_inputs_are_found():
    """Folders and archives are looked through before anything of sound is imported."""
    assert {one.ending for one in FORMATS} - {"", "wavex", "sph", "voc"} <= READABLE
