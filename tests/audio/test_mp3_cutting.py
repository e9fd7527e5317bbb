"""MP3 is cut by its own frames: a piece holds, to the sample, what is decoded of the recording.

Two decoders are asked that share no code: libsndfile's (libmpg123) and ffmpeg's. ffmpeg's gives the same
numbers for the same frames. libmpg123 adds up in an order that depends on how many frames it has decoded
before, so the last bit of a number may differ; it is asked for the recording in the same order, too.
"""

import io
import itertools
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from doors import here, read_table
from nightly import NIGHTLY
from sounds import chunks_of, decoded_by_ffmpeg, encoded_by_ffmpeg, needs_ffmpeg, samples_of

from splitter.audio.formats.mp3 import Mp3Source
from splitter.audio.sniff import open_decoder
from splitter.errors import InputError
from splitter.recipes.chunk import Chunk
from splitter.recipes.segments import Segments
from splitter.recipes.silence import Silence

pytestmark = [needs_ffmpeg, pytest.mark.slow]

CUTS = 2250 if NIGHTLY else 6
# the last bit of a number of 24 bits
ROUNDING = 2.0**-22
RATES = (44_100, 48_000, 32_000, 22_050, 24_000, 16_000, 11_025, 12_000, 8000)
SECONDS = 4.0


def music(rate: int, channels: int, seconds: float = SECONDS, seed: int = 0) -> np.ndarray:
    """Tones, noise, clicks and silence, so that encoders use every kind of block; channels that are alike."""
    chance = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate)) / rate
    tones = 0.3 * np.sin(2 * np.pi * 0.02 * rate * time * (1 + 0.2 * np.sin(time)))
    columns = []
    for channel in range(channels):
        own = 0.1 * chance.standard_normal(len(time)) * (np.sin(2 * np.pi * 1.3 * time + channel) > 0)
        clicks = (chance.random(len(time)) < 8 / rate) * chance.uniform(-0.8, 0.8, len(time))
        columns.append((tones + own + clicks) * (np.sin(0.9 * time) > -0.8))
    return (np.stack(columns, axis=1).clip(-1, 1) * 32000).astype(np.int16)


@dataclass(frozen=True)
class Kind:
    """A kind of MP3 file.

    Attributes:
        rate: Samples in a second.
        channels: How many.
        options: ffmpeg's, to encode it.
        changed: What is done to the file then.
    """

    rate: int
    channels: int
    options: tuple[str, ...]
    changed: Callable[[bytes], bytes] = bytes

    def __str__(self) -> str:
        name = self.changed.__name__.strip("_")
        return "-".join(
            [str(self.rate), str(self.channels), *self.options, *([name] if name != "bytes" else [])]
        )


def _of_intensity(content: bytes) -> bytes:
    """Say of all frames that the upper bands of the right channel are those of the left, by level."""
    whole = bytearray(content)
    for at in places_of(content):
        whole[at + 3] = whole[at + 3] & 0x0F | 0x50 | (whole[at + 3] & 0x20)
    return bytes(whole)


def _with_tags(content: bytes) -> bytes:
    """ID3v2 in front, with a picture that looks like frames, APE and ID3v1 behind."""
    picture = (b"\xff\xfb\x90\x64" + bytes(413)) * 100
    size = bytes(len(picture) >> shift & 127 for shift in (21, 14, 7, 0))
    ape = b"APETAGEX" + struct.pack("<IIII", 2000, 32, 0, 0) + bytes(8)
    return b"ID3\x03\0\0" + size + picture + content + ape + b"TAG" + bytes(125)


def _twice(content: bytes) -> bytes:
    """Two files, one behind the other, so that a frame that holds no sound is in the middle."""
    return content + content


CONSTANT = {rate: "128k" if rate >= 32_000 else "64k" if rate >= 16_000 else "32k" for rate in RATES}
KINDS = [
    *(Kind(rate, 2, ("-b:a", CONSTANT[rate])) for rate in RATES),
    *(Kind(rate, 1, ("-b:a", CONSTANT[rate])) for rate in RATES),
    *(
        Kind(rate, channels, ("-q:a", "5"))
        for rate, channels in zip(RATES, itertools.cycle((2, 1)), strict=False)
    ),
    *(
        Kind(rate, channels, ("-q:a", "3", "-write_xing", "0"))
        for rate, channels in zip(RATES, itertools.cycle((1, 2)), strict=False)
    ),
    Kind(44_100, 2, ("-b:a", "32k")),
    Kind(44_100, 2, ("-b:a", "320k")),
    Kind(44_100, 2, ("-b:a", "192k", "-joint_stereo", "0")),
    Kind(44_100, 2, ("-b:a", "160k", "-abr", "1")),
    Kind(44_100, 2, ("-b:a", "128k", "-reservoir", "0")),
    Kind(24_000, 2, ("-b:a", "8k")),
    Kind(24_000, 1, ("-b:a", "160k")),
    Kind(44_100, 2, ("-c:a", "libshine", "-b:a", "128k")),
    Kind(32_000, 1, ("-c:a", "libshine", "-b:a", "64k", "-write_xing", "0")),
    Kind(44_100, 2, ("-b:a", "128k"), _of_intensity),
    Kind(44_100, 2, ("-q:a", "4", "-id3v2_version", "0"), _with_tags),
    Kind(16_000, 1, ("-b:a", "24k", "-id3v2_version", "0"), _with_tags),
    Kind(48_000, 2, ("-b:a", "96k", "-id3v2_version", "0"), _twice),
]


def places_of(content: bytes) -> list[int]:
    """Where the frames of a file are that has nothing else, by a reader that is no other's."""
    at, places = 0, []
    while content[at : at + 3] == b"ID3":
        size = content[at + 6 : at + 10]
        at += 10 + (size[0] << 21 | size[1] << 14 | size[2] << 7 | size[3])
    while content[at : at + 1] == b"\xff":
        places.append(at)
        version, code = content[at + 1] >> 3 & 3, content[at + 2]
        first = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
        other = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
        rate = (44_100, 48_000, 32_000)[code >> 2 & 3] // {3: 1, 2: 2, 0: 4}[version]
        bits = (first if version == 3 else other)[code >> 4] * 1000
        at += (144 if version == 3 else 72) * bits // rate + (code >> 1 & 1)
    return places


def decoded(path: Path) -> np.ndarray:
    """What splitter decodes of a recording."""
    decoder = open_decoder(str(path))
    try:
        blocks = [np.empty((0, decoder.format.channels), np.float32)]
        while len(block := decoder.read(1 << 18)):
            blocks.append(block)
        return np.concatenate(blocks)
    finally:
        decoder.close()


def recording_of(kind: Kind, path: Path, seconds: float = SECONDS) -> Path:
    """A recording of a kind."""
    encoded_by_ffmpeg(music(kind.rate, kind.channels, seconds), kind.rate, path, *kind.options)
    path.write_bytes(kind.changed(path.read_bytes()))
    return path


def piece_of(mp3: Mp3Source, start: int, stop: int) -> bytes:
    file = io.BytesIO()
    mp3.cut(start, stop, file)
    return file.getvalue()


def random_cuts(mp3: Mp3Source, count: int, seed: str) -> list[tuple[int, int]]:
    """Cuts of all lengths, many of them short, some at the very ends."""
    chance, samples, cuts = random.Random(seed), mp3.layout.samples, [(0, mp3.samples)]
    while len(cuts) < count:
        start = chance.choice((0, chance.randrange(mp3.samples), chance.randrange(mp3.samples)))
        length = chance.choice((chance.randrange(1, 4 * samples), chance.randrange(1, mp3.samples)))
        stop = chance.choice((start + length, start + length, mp3.samples))
        if start < stop <= mp3.samples and not mp3.is_within_a_frame(start, stop):
            cuts.append((start, stop))
    return cuts


class InTheSameOrder:
    """What libsndfile decodes of a recording's frames when so many others were decoded before."""

    def __init__(self, path: Path, mp3: Mp3Source, scratch: Path) -> None:
        self._samples, self._late = mp3.layout.samples, mp3.left_out
        self._phase = 2 * (1 + mp3.layout.preroll)
        self._count = 8 if mp3.layout.preroll > 1 else 4
        content = path.read_bytes()
        places = places_of(content)[mp3.is_tagged :]
        header = content[places[0] : places[0] + 4]
        silent = bytes(mp3.layout.silent(header))
        self._decoded = []
        for before in range(self._count):
            (scratch / "shifted.mp3").write_bytes(silent * before + content[places[0] :])
            self._decoded.append(decoded(scratch / "shifted.mp3")[before * self._samples :])

    def of(self, start: int, stop: int) -> np.ndarray:
        start, stop = start + self._late, stop + self._late
        before = (self._phase - start // self._samples) % self._count
        return self._decoded[before][start:stop]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_pieces_are_bit_for_bit_what_is_decoded_of_the_recording(kind: Kind, tmp_path: Path):
    """At random cuts, through libsndfile and through ffmpeg, not one sample differs."""
    path = recording_of(kind, tmp_path / "recording.mp3")
    whole, (by_ffmpeg,) = decoded(path), decoded_by_ffmpeg([path], kind.channels, tmp_path, "f32")
    mp3 = Mp3Source(str(path))
    assert mp3.cuttable
    assert mp3.samples == len(whole)
    same_order = InTheSameOrder(path, mp3, tmp_path)
    cuts = random_cuts(mp3, CUTS, str(kind))
    for some in (cuts[at : at + 100] for at in range(0, len(cuts), 100)):
        paths = []
        for number, (start, stop) in enumerate(some):
            piece = piece_of(mp3, start, stop)
            found = samples_of(piece, "float32")
            assert found.shape == (stop - start, kind.channels), (start, stop)
            assert np.array_equal(found, same_order.of(start, stop)), (start, stop)
            assert np.abs(found - whole[start:stop]).max() <= ROUNDING, (start, stop)
            paths.append(tmp_path / f"{number}.mp3")
            paths[-1].write_bytes(piece)
        for (start, stop), found in zip(
            some, decoded_by_ffmpeg(paths, kind.channels, tmp_path, "f32"), strict=True
        ):
            assert np.array_equal(found, by_ffmpeg[start:stop]), (start, stop)
    mp3.close()


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    return recording_of(Kind(44_100, 2, ("-b:a", "128k")), tmp_path_factory.mktemp("mp3") / "a.mp3")


# -- at the door --------------------------------------------------------------------------------------------


def ways(outputs: list) -> list[str]:
    return [output.metadata["source_cut"] for output in outputs]


@pytest.mark.parametrize("parameters", [{}, {"format": "mp3"}, {"subtype": "MPEG_LAYER_III"}])
def test_chunks_are_copied_and_joined_are_the_recording(recording, parameters):
    """Each is what it says it is; together they are all there is, and hardly larger than the recording."""
    outputs, about = chunks_of(recording, seconds=0.7, **parameters)
    assert ways(outputs) == ["copied"] * 6
    whole = decoded(recording)
    pieces = [samples_of(output.content, "float32") for output in outputs]
    assert [len(piece) for piece in pieces] == [output.metadata["frames"] for output in outputs]
    assert np.array_equal(np.concatenate(pieces), whole)
    assert about["source_frames"] == len(whole) == SECONDS * 44_100
    assert sum(len(output.content) for output in outputs) < recording.stat().st_size + 6 * 2000


def test_silence_and_segments_copy_as_well(recording, tmp_path):
    """Whatever says where to cut, pieces are made in the same way."""
    whole = decoded(recording)
    rows = [
        {"input": str(recording), "start": "0.51", "end": "1.3"},
        {"input": str(recording), "start": "2", "end": "4"},
    ]
    for recipe in (Segments(rows), Silence([str(recording)], min_silence=0.1)):
        outputs, _ = recipe[0]
        assert set(ways(outputs)) == {"copied"}
        for output in outputs:
            start, stop = output.metadata["start_sample"], output.metadata["stop_sample"]
            assert np.array_equal(samples_of(output.content, "float32"), whole[start:stop])


@pytest.mark.parametrize(
    "parameters",
    [
        {"lossy": "encode"},
        {"sample_rate": 22_050},
        {"channels": "mono"},
        {"channels": "split"},
        {"format": "ogg"},
    ],
)
def test_what_is_changed_is_encoded_and_says_so(recording, parameters):
    """Another rate, other channels, another format, or because it is asked for."""
    outputs, _ = chunks_of(recording, seconds=2.0, **parameters)
    assert set(ways(outputs)) == {"encoded"}


def test_lossless_pieces_say_nothing_of_how_they_were_cut(recording, tmp_path):
    """There is nothing to tell apart, and a manifest keeps its columns."""
    (output, *_), about = chunks_of(recording, seconds=2.0, format="flac")
    assert "source_cut" not in output.metadata
    assert "source_cut" not in about


def test_copying_is_no_parameter_of_earlier_outputs(recording):
    """What was done before there was a choice is not done again; encoding is another parameter."""
    assert "lossy" not in Chunk([str(recording)]).parameters
    assert Chunk([str(recording)], lossy="encode").parameters["lossy"] == "encode"


def test_silence_behind_a_piece_is_encoded(recording):
    """`--tail pad`: only the last piece, and it has its full length."""
    outputs, _ = chunks_of(recording, seconds=1.5, tail="pad")
    assert ways(outputs) == ["copied", "copied", "encoded"]
    piece = samples_of(outputs[-1].content, "float32")
    assert len(piece) == 1.5 * 44_100
    assert np.abs(piece[44_100 + 2000 :]).max() < 0.01
    assert np.corrcoef(piece[:44_100, 0], decoded(recording)[-44_100:, 0])[0, 1] > 0.95


@pytest.mark.parametrize("length", [1, 40, 100, 500])
def test_less_than_a_frame_is_encoded_with_its_length(recording, length):
    """A piece within one frame is not made of it: ffmpeg cannot leave out samples at both its ends."""
    rows = [{"input": str(recording), "start": str(1 + 23 / 44_100), "end": str(1 + (23 + length) / 44_100)}]
    (output,), _ = Segments(rows)[0]
    assert ways([output]) == ["encoded"]
    assert len(samples_of(output.content, "float32")) == length


# -- what cannot be copied ----------------------------------------------------------------------------------


def _bare(scratch: Path, *options: str, rate: int = 48_000) -> bytes:
    """Frames and nothing else."""
    kind = Kind(rate, 2, (*options, "-write_xing", "0", "-id3v2_version", "0"))
    return recording_of(kind, scratch / "bare.mp3").read_bytes()


def _without_its_start(scratch: Path) -> bytes:
    content = _bare(scratch, "-b:a", "128k")
    return content[places_of(content)[20] :]


def _with_checksums(scratch: Path) -> bytes:
    """Frames with room for two bytes get a checksum, which no decoder insists on."""
    content = _bare(scratch, "-b:a", "320k", "-reservoir", "0")
    places = [*places_of(content), len(content)]
    frames = [content[at:end] for at, end in itertools.pairwise(places)]
    return b"".join(bytes((0xFF, frame[1] & 0xFE)) + frame[2:4] + bytes(2) + frame[4:-2] for frame in frames)


def _of_no_stated_bit_rate(scratch: Path) -> bytes:
    """At 48 kHz no frame is padded, so all are of one size, whatever their headers say."""
    content = bytearray(_bare(scratch, "-b:a", "128k"))
    for at in range(0, len(content), 384):
        content[at + 2] &= 0x0F
    return bytes(content)


def _of_layer_2(scratch: Path) -> bytes:
    encoded_by_ffmpeg(music(48_000, 2), 48_000, scratch / "two.mp2", "-c:a", "mp2", "-b:a", "192k")
    return (scratch / "two.mp2").read_bytes()


def _with_a_hole(scratch: Path) -> bytes:
    content = _bare(scratch, "-b:a", "128k")
    at = places_of(content)[60]
    return content[:at] + bytes(1000) + content[at:]


def _with_a_part_that_refers_too_far(scratch: Path) -> bytes:
    content = _bare(scratch, "-b:a", "128k")
    places = places_of(content)
    far = max(places[20:100], key=lambda at: content[at + 4] << 1 | content[at + 5] >> 7)
    return content[: places[1]] + content[far:]


@pytest.mark.parametrize(
    "make",
    [
        _without_its_start,
        _with_checksums,
        _of_no_stated_bit_rate,
        _of_layer_2,
        _with_a_hole,
        _with_a_part_that_refers_too_far,
    ],
)
def test_what_cannot_be_copied_is_decoded_and_encoded(make, tmp_path):
    """As without copying, byte for byte; and the manifest says so."""
    path = tmp_path / "odd.mp3"
    path.write_bytes(make(tmp_path))
    outputs, about = chunks_of(path, seconds=1.1)
    as_before, about_before = chunks_of(path, seconds=1.1, lossy="encode")
    assert set(ways(outputs)) == {"encoded"}
    assert [output.content for output in outputs] == [output.content for output in as_before]
    assert about == about_before
    assert about["source_frames"] > 2 * 48_000


def test_a_recording_that_goes_on_at_another_rate_is_an_error_as_before(tmp_path):
    path = tmp_path / "odd.mp3"
    path.write_bytes(_bare(tmp_path, "-b:a", "128k") + _bare(tmp_path, "-b:a", "128k", rate=44_100))
    with pytest.raises(InputError, match="changes its sample rate"):
        chunks_of(path)
    outputs, _ = chunks_of(path, truncated="keep")
    assert set(ways(outputs)) == {"encoded"}


def test_a_recording_that_ends_early_is_copied_as_far_as_it_goes(recording, tmp_path):
    """An error, or with `--truncated keep` all whole frames."""
    path = tmp_path / "cut.mp3"
    path.write_bytes(recording.read_bytes()[:30_000])
    with pytest.raises(InputError, match="ends early"):
        chunks_of(path)
    outputs, about = chunks_of(path, truncated="keep", seconds=1.0)
    assert set(ways(outputs)) == {"copied"}
    pieces = np.concatenate([samples_of(output.content, "float32") for output in outputs])
    assert len(pieces) == about["source_frames"] > 1.7 * 44_100
    assert np.array_equal(pieces, decoded(recording)[: len(pieces)])


# -- what stands in the first frame -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind(44_100, 2, ("-b:a", "128k")), Kind(8000, 1, ("-q:a", "5"))], ids=str)
def test_the_first_frame_of_a_piece_says_what_others_write_there(kind, tmp_path):
    """As ffmpeg's own: the frames behind it, all bytes, places that rise, a checksum that is right."""
    path = recording_of(kind, tmp_path / "recording.mp3")
    mp3 = Mp3Source(str(path))
    piece = piece_of(mp3, 5000, 20_000)
    mp3.close()
    at = 4 + (32 if kind.rate == 44_100 else 9)
    name, flags, frames, size = struct.unpack(">4sIII", piece[at : at + 16])
    assert name == (b"Info" if "-b:a" in kind.options else b"Xing")
    assert (flags, frames, size) == (15, len(places_of(piece)) - 1, len(piece))
    contents = piece[at + 16 : at + 116]
    assert list(contents) == sorted(contents)
    assert contents[99] > 240
    checksum = 0
    for byte in piece[: at + 154]:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0xA001 if checksum & 1 else 0)
    assert piece[at + 154 : at + 156] == checksum.to_bytes(2, "big")


def _as_xing_wrote_it(content: bytes, at: int) -> bytes:
    """Nothing behind the quality."""
    return content[: at + 120] + bytes(36) + content[at + 156 :]


def _without_the_name_of_an_encoder(content: bytes, at: int) -> bytes:
    return content[: at + 120] + bytes(9) + content[at + 129 :]


def _in_a_frame_that_ends_before(content: bytes, at: int) -> bytes:
    """The next frame begins where the name of an encoder could be."""
    start, after = at - 36, places_of(content)[1]
    header = bytes((*content[start : start + 2], content[start + 2] & 0x0C | 3 << 4, content[start + 3]))
    return content[:start] + header + content[start + 4 : at + 120] + content[after:]


def _in_a_frame_with_sound(content: bytes, at: int) -> bytes:
    return content[: at - 1] + b"\x10" + content[at:]


@pytest.mark.parametrize(
    ("change", "way"),
    [
        (_as_xing_wrote_it, "copied"),
        (_without_the_name_of_an_encoder, "copied"),
        (_in_a_frame_that_ends_before, "copied"),
        (_in_a_frame_with_sound, "encoded"),
    ],
)
def test_a_first_frame_is_taken_as_libsndfile_takes_it(recording, tmp_path, change, way):
    """If it names no encoder, only what a decoder is late is left out; if it has sound, nothing is."""
    content = recording.read_bytes()
    path = tmp_path / "other.mp3"
    path.write_bytes(change(content, content.index(b"Info")))
    whole = decoded(path)
    outputs, about = chunks_of(path, seconds=1.0)
    assert about["source_frames"] == len(whole) > SECONDS * 44_100 + 700
    assert set(ways(outputs)) == {way}
    found = np.concatenate([samples_of(output.content, "float32") for output in outputs])
    assert found.shape == whole.shape
    assert way == "encoded" or np.array_equal(found, whole)


def test_a_run_is_verified_to_the_bytes(recording, tmp_path, capfd):
    """`verify --deep` makes the same pieces again; a run that encodes does them anew, and says why."""
    (tmp_path / "in").mkdir()
    shutil.copy(recording, tmp_path / "in" / "a.mp3")
    choice = ("run", tmp_path / "in", "--seconds", "0.9", "--workers", "1", "--output", tmp_path / "out")
    assert here(capfd, *choice).code == 0
    rows = read_table(tmp_path / "out/manifest.csv")
    assert [row["source_cut"] for row in rows] == ["copied"] * 5
    assert here(capfd, "verify", tmp_path / "out", "--deep").code == 0
    again = here(capfd, *choice, "--lossy", "encode")
    assert again.code == 0
    assert "lossy changed from None to 'encode'" in again.out + again.err
    rows = read_table(tmp_path / "out/manifest.csv")
    assert [row["source_cut"] for row in rows] == ["encoded"] * 5
