"""Opus is cut by its own packets: a piece sounds like that part of the recording, or is encoded and says so.

Two decoders are asked that share no code: libopus, by libsndfile and by PyAV, and ffmpeg's own. What counts
is the recording as the same decoder has it.
"""

import io
import itertools
import random
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
from doors import here, read_table
from hypothesis import given
from hypothesis import strategies as st
from nightly import NIGHTLY
from sounds import chunks_of, decoded_by_ffmpeg, encoded_by_ffmpeg, ffmpeg, needs_ffmpeg, samples_of, tone

from splitter.audio.formats.ogg.index import OpusIndex
from splitter.audio.formats.ogg.opus import look_at
from splitter.audio.formats.ogg.pages import page_of, with_serial_number
from splitter.audio.sniff import open_decoder
from splitter.errors import InputError
from splitter.recipes.segments import Segments

pytestmark = [
    needs_ffmpeg,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="needs espeak-ng (Debian: espeak-ng)"),
]

CUTS = 400 if NIGHTLY else 5
SECONDS = 6.0
# -120 dB of full scale
INAUDIBLE = 2.0**-20
# ffmpeg's own decoder computes SILK in floating point, libopus in integers
BY_FFMPEG = 2.0**-17
TEXT = "The quick brown fox jumps over the lazy dog, while seven thousand voices sing of rain. " * 2


def music(rate: int, channels: int) -> np.ndarray:
    """Tones that glide, a hum, noise, clicks and silence."""
    chance = np.random.default_rng(channels)
    time = np.arange(round(SECONDS * rate)) / rate
    columns = []
    for channel in range(channels):
        tones = 0.2 * np.sin(2 * np.pi * 220 * time * (1 + 0.1 * np.sin(time))) + 0.1 * np.sin(6000 * time)
        hum = 0.2 * np.sign(np.sin(2 * np.pi * 47.3 * time)) * (np.sin(1.7 * time) > 0)
        own = 0.05 * chance.standard_normal(len(time)) * (np.sin(2 * np.pi * 1.3 * time + channel) > 0)
        clicks = (chance.random(len(time)) < 4 / rate) * chance.uniform(-0.8, 0.8, len(time))
        columns.append((tones + hum + own + clicks) * (np.sin(0.9 * time) > -0.8))
    return (np.stack(columns, axis=1).clip(-1, 1) * 32000).astype(np.int16)


def speech(rate: int, channels: int) -> np.ndarray:
    """A voice of espeak-ng."""
    spoken = subprocess.run(["espeak-ng", "--stdout", TEXT], capture_output=True, check=True).stdout
    found, own = soundfile.read(io.BytesIO(spoken), dtype="int16")
    time = np.arange(round(SECONDS * rate)) / rate
    one = np.interp(time * own, np.arange(len(found)), found).astype(np.int16)
    return np.stack([one // (1 + channel) for channel in range(channels)], axis=1)


@dataclass(frozen=True)
class Kind:
    """A kind of Opus file.

    Attributes:
        sound: What is encoded.
        rate: Samples in a second.
        channels: How many.
        options: ffmpeg's, to encode it.
        copied: The least share of its pieces that is copied.
    """

    sound: Callable[[int, int], np.ndarray]
    rate: int
    channels: int
    options: tuple[str, ...]
    copied: float = 1

    def __str__(self) -> str:
        return "-".join([self.sound.__name__, str(self.rate), str(self.channels), *self.options[1:]])


KINDS = [
    Kind(music, 48_000, 2, ("-b:a", "64k")),
    Kind(music, 48_000, 2, ("-b:a", "160k", "-frame_duration", "60")),
    Kind(music, 48_000, 1, ("-b:a", "48k", "-frame_duration", "2.5")),
    Kind(music, 24_000, 1, ("-b:a", "64k", "-frame_duration", "10")),
    Kind(music, 48_000, 2, ("-b:a", "24k"), 0.3),
    Kind(speech, 16_000, 1, ("-b:a", "16k", "-application", "voip"), 0.3),
    Kind(speech, 48_000, 2, ("-b:a", "24k", "-application", "voip"), 0.3),
    Kind(speech, 8000, 1, ("-b:a", "12k", "-frame_duration", "60"), 0.3),
]


def decoded(path: Path) -> np.ndarray:
    """What splitter decodes of a recording."""
    decoder = open_decoder(str(path))
    try:
        blocks = [np.empty((0, decoder.format.channels), np.float32)]
        while len(block := decoder.read(12_345)):
            blocks.append(block)
        return np.concatenate(blocks)
    finally:
        decoder.close()


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> dict[Kind, Path]:
    """A recording of each kind."""
    folder = tmp_path_factory.mktemp("opus")
    made = {}
    for number, kind in enumerate(KINDS):
        sound = kind.sound(kind.rate, kind.channels)
        path = folder / f"{number}.opus"
        made[kind] = encoded_by_ffmpeg(sound, kind.rate, path, "-c:a", "libopus", *kind.options)
    return made


def pieces_of(path: Path, cuts: list[tuple[int, int]], rate: int) -> list:
    rows = [{"input": str(path), "start": repr(a / rate), "end": repr(b / rate)} for a, b in cuts]
    outputs, _ = Segments(rows)[0]
    return list(outputs)


def ways(outputs: list) -> list[str]:
    return [output.metadata["source_cut"] for output in outputs]


def ends(output) -> tuple[int, int]:
    return output.metadata["start_sample"], output.metadata["stop_sample"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_pieces_sound_like_the_recording(kind: Kind, recordings, tmp_path):
    """At random cuts, by libsndfile, by PyAV's libopus where it decodes, and by ffmpeg's own decoder."""
    path = recordings[kind]
    whole = soundfile.read(path, dtype="float32", always_2d=True)[0]
    (by_ffmpeg,) = decoded_by_ffmpeg([path], kind.channels, tmp_path, "f32")
    factor, chance = 48_000 // kind.rate, random.Random(str(kind))
    cuts = [(0, len(whole))]
    for _ in range(CUTS):
        start = chance.randrange(len(whole) - kind.rate // 10)
        length = chance.choice((kind.rate // 10, kind.rate // 3, 3 * kind.rate))
        cuts.append((start, min(len(whole), start + length)))
    outputs = pieces_of(path, sorted(cuts), kind.rate)
    copied = [output for output in outputs if output.metadata["source_cut"] == "copied"]
    assert len(copied) >= kind.copied * len(outputs)
    paths = []
    for number, output in enumerate(copied):
        start, stop = ends(output)
        found = samples_of(output.content, "float32")
        assert found.shape == (stop - start, kind.channels)
        assert np.abs(found - whole[start:stop]).max() <= INAUDIBLE, (start, stop)
        paths.append(tmp_path / f"piece{number}.opus")
        paths[-1].write_bytes(output.content)
        assert np.abs(decoded(paths[-1]) - whole[start:stop]).max() <= INAUDIBLE + 2e-7, (start, stop)
    by_piece = (
        found
        for at in range(0, len(paths), 100)
        for found in decoded_by_ffmpeg(paths[at : at + 100], kind.channels, tmp_path, "f32")
    )
    for output, found in zip(copied, by_piece, strict=True):
        start, stop = ends(output)
        assert len(found) == (stop - start) * factor
        difference = np.abs(found - by_ffmpeg[start * factor : stop * factor])
        # the last of SILK is what it has left from the end of the last packet
        assert difference[: None if kind.sound is music else -48].max() <= BY_FFMPEG, (start, stop)


@pytest.mark.parametrize("kind", KINDS[5:], ids=str)
def test_what_is_not_proven_is_encoded_as_without_copying(kind: Kind, recordings):
    """Of speech some pieces depend on what was long before: they have the bytes of `--lossy encode`."""
    path = recordings[kind]
    outputs, about = chunks_of(path, seconds=0.3)
    as_before, about_before = chunks_of(path, seconds=0.3, lossy="encode")
    assert set(ways(outputs)) == {"copied", "encoded"}
    assert set(ways(as_before)) == {"encoded"}
    assert about == about_before
    for output, before in zip(outputs, as_before, strict=True):
        assert (output.name, ends(output)) == (before.name, ends(before))
        if output.metadata["source_cut"] == "encoded":
            assert output.content == before.content


def test_chunks_are_copied_and_joined_are_the_recording(recordings):
    """Each is what it says it is; together they are all there is."""
    path = recordings[KINDS[0]]
    whole = soundfile.read(path, dtype="float32")[0]
    outputs, about = chunks_of(path, seconds=0.7)
    assert set(ways(outputs)) == {"copied"}
    joined = np.concatenate([samples_of(output.content, "float32") for output in outputs])
    assert joined.shape == whole.shape
    assert np.abs(joined - whole).max() <= INAUDIBLE
    assert about["source_frames"] == len(whole) == SECONDS * 48_000
    assert about["source_subtype"] == "OPUS"


@pytest.mark.parametrize(
    "parameters",
    [
        {"lossy": "encode"},
        {"sample_rate": 16_000},
        {"channels": "mono"},
        {"subtype": "VORBIS", "format": "ogg"},
    ],
    ids=str,
)
def test_what_is_changed_is_encoded_and_says_so(recordings, parameters):
    """Another rate, other channels, another encoding, or because it is asked for."""
    outputs, _ = chunks_of(recordings[KINDS[0]], seconds=2.0, **parameters)
    assert set(ways(outputs)) == {"encoded"}


def test_silence_behind_a_piece_is_encoded(recordings):
    """`--tail pad`: only the last piece, and it has its full length."""
    outputs, _ = chunks_of(recordings[KINDS[0]], seconds=2.5, tail="pad")
    assert ways(outputs) == ["copied", "copied", "encoded"]
    assert len(samples_of(outputs[-1].content, "float32")) == 2.5 * 48_000


@pytest.mark.parametrize("length", [1, 100, 480])
def test_less_than_a_packet_is_encoded_with_its_length(recordings, length):
    """A piece within one packet is not made of it: ffmpeg cannot leave out samples at both its ends."""
    (output,) = pieces_of(recordings[KINDS[0]], [(100_000, 100_000 + length)], 48_000)
    assert ways([output]) == ["encoded"]
    assert len(samples_of(output.content, "float32")) == length


# -- the file of a piece -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Page:
    """A page, by a reader that is no other's."""

    flags: int
    position: int
    serial: int
    number: int
    packets: list[bytes]


def pages(content: bytes) -> Iterator[Page]:
    at = 0
    while at < len(content):
        magic, version, flags, position, serial, number, checksum, count = struct.unpack_from(
            "<4sBBqIIIB", content, at
        )
        assert (magic, version) == (b"OggS", 0)
        lacing, start = content[at + 27 : at + 27 + count], at + 27 + count
        packets, size = [], 0
        for segment in lacing:
            size += segment
            if segment < 255:
                packets.append(content[start : start + size])
                start, size = start + size, 0
        assert not size
        crc = 0
        for index, byte in enumerate(content[at:start]):
            crc ^= (0 if 22 <= index < 26 else byte) << 24
            for _ in range(8):
                crc = (crc << 1 ^ (0x04C11DB7 if crc & 0x80000000 else 0)) & 0xFFFFFFFF
        assert crc == checksum
        yield Page(flags, position, serial, number, packets)
        at = start


def test_a_piece_is_a_stream_as_the_standard_has_it(recordings):
    """Head, tags, then the recording's packets, 660 ms of them before; the last page says where it ends."""
    kind = KINDS[0]
    (piece,) = pieces_of(recordings[kind], [(100_001, 130_005)], kind.rate)
    found = list(pages(piece.content))
    assert [page.number for page in found] == list(range(len(found)))
    assert {page.serial for page in found} == {1}
    assert [page.flags for page in found] == [2, *[0] * (len(found) - 2), 4]
    head, tags = found[0].packets[0], found[1].packets[0]
    assert struct.unpack("<8sBBHIhB", head)[::2] == (b"OpusHead", 2, 48_000, 0)
    (skipped,) = struct.unpack_from("<H", head, 10)
    assert 31_680 - 960 < skipped <= 31_680
    assert tags == b"OpusTags\x08\0\0\0splitter\0\0\0\0"
    sound = [packet for page in found[2:] for packet in page.packets]
    recorded = [packet for page in pages(recordings[kind].read_bytes()) for packet in page.packets][2:]
    # 312 samples of the recording are to be left out
    first = (312 + 100_001 - skipped) // 960
    assert sound == recorded[first : first + len(sound)]
    assert found[-1].position == skipped + 30_004
    assert (len(sound) - 1) * 960 < found[-1].position <= len(sound) * 960
    done = 0
    for page in found[2:-1]:
        done += len(page.packets)
        assert page.position == done * 960


def test_a_piece_says_how_loud_it_is(recordings, tmp_path):
    """The head may ask for a gain, which is not in the packets."""
    path, content = tmp_path / "soft.opus", recordings[KINDS[0]].read_bytes()
    first = next(pages(content))
    head = bytearray(first.packets[0])
    struct.pack_into("<h", head, 16, -6 * 256)
    page = with_serial_number(page_of([bytes(head)], 0, 0, first.flags), first.serial)
    path.write_bytes(page + content[len(page) :])
    whole = soundfile.read(path, dtype="float32")[0]
    softer = np.abs(whole).max() / np.abs(soundfile.read(recordings[KINDS[0]])[0]).max()
    assert softer == pytest.approx(10 ** (-6 / 20), rel=1e-3)
    outputs, _ = chunks_of(path, seconds=2.5)
    assert set(ways(outputs)) == {"copied"}
    joined = np.concatenate([samples_of(output.content, "float32") for output in outputs])
    assert np.abs(joined - whole).max() <= INAUDIBLE
    assert np.abs(decoded(path) - whole).max() < 1e-6


# -- packets -------------------------------------------------------------------------------------------------


def _size(size: int) -> bytes:
    return bytes((size,)) if size < 252 else bytes((252 + size % 4, (size - 252) // 4))


@given(st.data())
def test_what_a_packet_says_of_itself(data):
    """RFC 6716: the frames of a packet, in each of the ways to pack them, and which of them were not sent."""
    code = data.draw(st.integers(0, 31))
    of_size = st.one_of(st.integers(0, 3), st.integers(2, 1275))
    kind = data.draw(st.integers(0, 3))
    sizes = data.draw(st.lists(of_size, min_size=1, max_size=6 if kind == 3 else 1 + (kind > 0)))
    if kind in (1, 2) and len(sizes) < 2:
        sizes *= 2
    if kind == 1:
        sizes = sizes[:1] * 2
    body = b"\xaa" * sum(sizes)
    packet = bytes((code << 3 | data.draw(st.integers(0, 1)) << 2 | kind,))
    if kind == 2:
        packet += _size(sizes[0]) + body
    elif kind == 3:
        constant, padding = len(set(sizes)) == 1 and data.draw(st.booleans()), data.draw(st.integers(0, 600))
        packet += bytes((len(sizes) | (not constant) << 7 | bool(padding) << 6,))
        if padding:
            packet += b"\xff" * (padding // 254) + bytes((padding % 254,))
        if not constant:
            packet += b"".join(map(_size, sizes[:-1]))
        packet += body + bytes(padding)
    else:
        packet += body
    ms = ((10, 20, 40, 60) * 3 + (10, 20) * 2 + (2.5, 5, 10, 20) * 4)[code]
    if ms * len(sizes) > 120:
        with pytest.raises(ValueError, match="too long"):
            look_at(packet)
    else:
        assert look_at(packet) == (ms * 48 * len(sizes), code >= 16, min(sizes) > 1)


@given(st.binary(max_size=20))
def test_any_bytes_are_a_packet_or_none(content):
    """Whatever stands in a file: at most 120 ms, or a ValueError."""
    try:
        duration, _, _ = look_at(content)
    except ValueError:
        return
    assert 0 < duration <= 5760


def test_packets_that_are_longer_than_the_shortest_preroll(tmp_path):
    """What no preroll will do for is encoded, also if the shortest does not reach back to a packet."""
    sound = speech(16_000, 1)
    path = encoded_by_ffmpeg(
        *(sound, 16_000, tmp_path / "a.opus", "-c:a", "libopus", "-b:a", "12k"),
        *("-application", "voip", "-frame_duration", "120"),
    )
    outputs, _ = chunks_of(path, seconds=0.5)
    assert {"encoded"} < {*ways(outputs)}
    joined = np.concatenate([samples_of(output.content, "float32") for output in outputs])
    assert len(joined) == len(sound)


# -- what cannot be copied ----------------------------------------------------------------------------------


def _rewritten(path: Path, change: Callable[[list[list[bytes]]], list[list[bytes]]]) -> bytes:
    """The file with other packets on its pages, and positions that are right."""
    found = list(pages(path.read_bytes()))
    made, position = [], 0
    for number, packets in enumerate(change([page.packets for page in found])):
        position += sum(look_at(packet)[0] for packet in packets) if number > 1 else 0
        flags = 2 if number == 0 else 4 if number == len(found) - 1 else 0
        made.append(page_of(packets, number, position, flags))
    return b"".join(made)


def _with_frames_not_sent(path: Path) -> bytes:
    """As encoders do in pauses, if they may (DTX): some packets are nothing but their first byte."""

    def without(pages: list[list[bytes]]) -> list[list[bytes]]:
        return [*pages[:6], [packet[:1] for packet in pages[6]], *pages[7:]]

    return _rewritten(path, without)


def test_frames_that_were_not_sent(recordings, tmp_path):
    """Each decoder makes up something else for them: such pieces are encoded, and all others copied."""
    path = tmp_path / "a.opus"
    path.write_bytes(_with_frames_not_sent(recordings[KINDS[0]]))
    outputs, _ = chunks_of(path, seconds=0.5)
    # the fifth second of all that is decoded has none, and is also in the preroll of the next two pieces
    assert ways(outputs)[:12] == ["copied"] * 7 + ["encoded"] * 5


def _with_a_stream_behind(path: Path) -> bytes:
    return path.read_bytes() + path.read_bytes()


def _of_surround(path: Path) -> bytes:
    surround = path.with_name("surround.opus")
    encoded_by_ffmpeg(tone(1, 48_000, 6), 48_000, surround, "-c:a", "libopus", "-b:a", "256k")
    return surround.read_bytes()


@pytest.mark.parametrize("make", [_with_a_stream_behind, _of_surround])
def test_what_cannot_be_copied_is_decoded_and_encoded(make, recordings, tmp_path):
    """As without copying, byte for byte; and the manifest says so."""
    path = tmp_path / "odd.opus"
    path.write_bytes(make(recordings[KINDS[0]]))
    outputs, about = chunks_of(path, seconds=2.5)
    as_before, about_before = chunks_of(path, seconds=2.5, lossy="encode")
    assert set(ways(outputs)) == {"encoded"}
    assert [output.content for output in outputs] == [output.content for output in as_before]
    assert about == about_before
    assert about["source_frames"] >= 48_000


def test_what_was_webm_before_is_copied_from_its_first_sample(recordings, tmp_path):
    """As yt-dlp leaves it: positions begin with some milliseconds, and all else is as it was."""
    original = recordings[KINDS[0]]
    whole = soundfile.read(original, dtype="float32")[0]
    ffmpeg("-i", original, "-c", "copy", tmp_path / "a.webm")
    ffmpeg("-i", tmp_path / "a.webm", "-c", "copy", tmp_path / "a.opus")
    sound = next(itertools.islice(pages((tmp_path / "a.opus").read_bytes()), 2, 3))
    assert sound.position > sum(look_at(packet)[0] for packet in sound.packets)
    outputs, about = chunks_of(tmp_path / "a.opus", seconds=2.0)
    assert set(ways(outputs[:3])) == {"copied"}
    joined = np.concatenate([samples_of(output.content, "float32") for output in outputs])
    # WebM does not say how much of the last packet counts
    assert len(joined) == about["source_frames"] >= len(whole)
    assert np.abs(joined[: len(whole)] - whole).max() <= INAUDIBLE


@pytest.mark.parametrize(
    "shape", [KINDS[0], KINDS[3], KINDS[5], "surround", "from the middle", "twice"], ids=str
)
def test_positions_may_begin_anywhere(recordings, tmp_path, shape):
    """As in a stream that was recorded from the middle: all sound is where it is if they begin with 0."""
    path, later = tmp_path / "a.opus", tmp_path / "later.opus"
    path.write_bytes(
        _of_surround(tmp_path / "b") if shape == "surround" else recordings[_of(shape)].read_bytes()
    )
    found = list(pages(path.read_bytes()))
    gap = shape == "from the middle"
    content = [
        page_of(
            page.packets, page.number + 7 * gap * (at > 1), page.position + 100_000 * (at > 1), page.flags
        )
        for at, page in enumerate(found)
    ]
    later.write_bytes(b"".join(content) * (1 + (shape == "twice")))
    whole = decoded(path)
    assert np.abs(decoded(later) - np.concatenate([whole] * (1 + (shape == "twice")))).max() <= INAUDIBLE


def _of(shape: Kind | str) -> Kind:
    return KINDS[5] if isinstance(shape, str) else shape


def matroska(path: Path, to: Path, *options: object) -> Path:
    """The same packets in another container."""
    ffmpeg("-i", path, *options, "-c:a", "copy", to)
    return to


@pytest.mark.parametrize("name", ["a.webm", "video.mkv"])
def test_opus_in_webm_and_matroska_is_cut_by_its_packets(recordings, tmp_path, name):
    """As what it is made of would be, by libopus and by ffmpeg's own decoder."""
    kind = KINDS[0]
    video = ("-f", "lavfi", "-i", "testsrc=size=32x32:rate=5:duration=6", "-c:v", "libvpx", "-shortest")
    path = matroska(recordings[kind], tmp_path / name, *(video if name == "video.mkv" else ()))
    whole = soundfile.read(recordings[kind], dtype="float32")[0]
    outputs, about = chunks_of(path, seconds=0.7)
    assert (about["source_format"], about["source_subtype"]) == ("MATROSKA", "OPUS")
    assert set(ways(outputs)) == {"copied"}
    assert {Path(output.name).suffix for output in outputs} == {".ogg"}
    joined = np.concatenate([samples_of(output.content, "float32") for output in outputs])
    assert joined.shape == whole.shape
    assert np.abs(joined - whole).max() <= INAUDIBLE
    sound = matroska(recordings[kind], tmp_path / "sound.mka")
    (by_ffmpeg,) = decoded_by_ffmpeg([sound], kind.channels, tmp_path, "f32")
    for number, output in enumerate(outputs):
        (tmp_path / f"piece{number}.opus").write_bytes(output.content)
    paths = [tmp_path / f"piece{number}.opus" for number in range(len(outputs))]
    found = np.concatenate(list(decoded_by_ffmpeg(paths, kind.channels, tmp_path, "f32")))
    assert found.shape == by_ffmpeg.shape
    assert np.abs(found - by_ffmpeg).max() <= BY_FFMPEG


def test_opus_in_matroska_is_like_opus_in_ogg(recordings, tmp_path):
    """Of speech the same pieces are copied, and the same encoded, with the same bytes."""
    path = recordings[KINDS[6]]
    outputs, _ = chunks_of(matroska(path, tmp_path / "a.mka"), seconds=0.3)
    as_ogg, _ = chunks_of(path, seconds=0.3)
    assert set(ways(outputs)) == {"copied", "encoded"}
    assert [(one.metadata, one.content) for one in outputs] == [(one.metadata, one.content) for one in as_ogg]


def test_a_part_of_webm_has_the_length_that_it_states(recordings, tmp_path):
    """Without encoding anew: the container says what is left out at both ends."""
    path = matroska(recordings[KINDS[0]], tmp_path / "a.webm", "-ss", "1.3", "-t", "3")
    outputs, about = chunks_of(path, seconds=10.0)
    assert ways(outputs) == ["copied"]
    assert about["source_frames"] == len(decoded(path)) == len(samples_of(outputs[0].content, "float32"))


def test_webm_that_ends_early_is_an_error_as_before(recordings, tmp_path):
    """With --truncated keep, what is there is encoded."""
    path = matroska(recordings[KINDS[0]], tmp_path / "a.webm")
    path.write_bytes(path.read_bytes()[:-9000])
    with pytest.raises(InputError, match="ends early"):
        chunks_of(path)
    outputs, _ = chunks_of(path, truncated="keep")
    assert set(ways(outputs)) == {"encoded"}


@pytest.mark.parametrize(
    ("name", "options"), [("six.webm", ("-ac", "6")), ("vorbis.webm", ("-c:a", "libvorbis")), ("a.mp4", ())]
)
def test_what_has_no_packets_of_opus_to_copy_is_wav(recordings, tmp_path, name, options):
    """More than two channels, another encoding, another container."""
    ffmpeg("-i", recordings[KINDS[0]], "-c:a", "libopus", *options, tmp_path / name)
    outputs, _ = chunks_of(tmp_path / name, seconds=2.0)
    assert {Path(output.name).suffix for output in outputs} == {".wav"}


def test_a_recording_with_a_hole_is_an_error_as_before(recordings, tmp_path):
    """Or, with --truncated keep, what is left is encoded."""
    content = recordings[KINDS[0]].read_bytes()
    at = content.index(b"OggS", 20_000)
    (tmp_path / "hole.opus").write_bytes(content[: at + 50] + content[at + 60 :])
    with pytest.raises(InputError, match="is damaged in the middle"):
        chunks_of(tmp_path / "hole.opus")
    outputs, _ = chunks_of(tmp_path / "hole.opus", truncated="keep")
    assert set(ways(outputs)) == {"encoded"}


def test_an_index_finds_every_packet(recordings):
    """From any position on, also across pages: those that hold it and all that follow."""
    for kind in (KINDS[0], KINDS[1], KINDS[2]):
        index = OpusIndex(str(recordings[kind]))
        every = list(index.packets())
        recorded = [packet for page in pages(recordings[kind].read_bytes()) for packet in page.packets][2:]
        assert [packet for _, _, packet in every] == recorded
        assert [at for at, _, _ in every] == [0, *itertools.accumulate(size for _, size, _ in every)][:-1]
        for at, duration, _ in random.Random(0).sample(every, 20):
            for position in (at, at + duration - 1):
                assert next(index.packets(position))[0] == at
        index.close()


# -- decoding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_decoded_is_what_libsndfile_decodes(kind, recordings):
    """Whichever library is faster: as many samples, and the same but for the last bit."""
    whole = soundfile.read(recordings[kind], dtype="float32", always_2d=True)[0]
    found = decoded(recordings[kind])
    assert found.shape == whole.shape
    assert np.abs(found - whole).max() < 1e-6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.channels > 1], ids=str)
def test_mixed_is_the_mean_of_what_is_decoded(kind, recordings):
    """Also where libopus mixes: as the channels would be, once they are decoded."""
    mean = soundfile.read(recordings[kind], dtype="float32")[0].mean(axis=1)
    outputs, about = chunks_of(recordings[kind], seconds=60, channels="mono", format="wav", subtype="FLOAT")
    assert about["source_channels"] == 2
    assert np.abs(samples_of(outputs[0].content, "float32")[:, 0] - mean).max() < 1e-6


def test_without_pyav_opus_is_cut_and_decoded_as_well(recordings, monkeypatch):
    """By libsndfile: where there is no quicker proof, all is decoded."""
    whole = decoded(recordings[KINDS[0]])
    with_it, _ = chunks_of(recordings[KINDS[0]], seconds=1.5)
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.delitem(sys.modules, "splitter.audio.formats.ogg.decoder")
    assert np.abs(decoded(recordings[KINDS[0]]) - whole).max() < 1e-6
    without, _ = chunks_of(recordings[KINDS[0]], seconds=1.5)
    assert [output.content for output in without] == [output.content for output in with_it]
    sys.modules.pop("splitter.audio.formats.ogg.decoder", None)


def test_a_run_is_verified_to_the_bytes(recordings, tmp_path, capfd):
    """`verify --deep` makes the same pieces again, copied and encoded ones."""
    (tmp_path / "in").mkdir()
    for number, kind in enumerate((KINDS[0], KINDS[5])):
        shutil.copy(recordings[kind], tmp_path / "in" / f"{number}.opus")
    choice = ("run", tmp_path / "in", "--seconds", "0.5", "--workers", "1", "--output", tmp_path / "out")
    assert here(capfd, *choice).code == 0
    rows = read_table(tmp_path / "out/manifest.csv")
    assert {row["source_cut"] for row in rows} == {"copied", "encoded"}
    assert here(capfd, "verify", tmp_path / "out", "--deep").code == 0
