"""Sound goes through bit by bit where it can, and an error says so where it cannot."""

import io
import itertools
import subprocess
import time
import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import soxr
from doors import here, read_table, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from sounds import (
    chunks_of,
    decoded_by_ffmpeg,
    encoded_by_ffmpeg,
    half_even,
    needs_ffmpeg,
    needs_sox,
    noise,
    samples_of,
    tone,
    wav,
    write_sound,
)

from splitter import InputFile, OutputFile
from splitter.audio.decoders import SoundFormat
from splitter.audio.encode import encode
from splitter.audio.sources import open_source
from splitter.audio.target import Target
from splitter.errors import AudioError, Refused
from splitter.recipes.chunk import Chunk
from splitter.records import Scratch

# container and encoding of a recording, and how many channels it is tried with
RECORDINGS = [
    (container, subtype, channels)
    for (container, subtypes), counts in zip(
        {
            "WAV": "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW",
            "WAVEX": "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW",
            "RF64": "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW",
            "W64": "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW",
            "AIFF": "PCM_S8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW",
            "CAF": "PCM_S8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW",
            "AU": "PCM_S8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ALAW ULAW",
            "FLAC": "PCM_S8 PCM_16 PCM_24",
        }.items(),
        itertools.cycle([(1, 2), (2, 6), (6, 1)]),
        strict=False,
    )
    for subtype, channels in zip(subtypes.split(), itertools.cycle(counts), strict=False)
]
DEEPER_THAN_FLAC = {"PCM_32", "FLOAT", "DOUBLE"}
ENDINGS = {"WAVEX": "wav", "RF64": "wav"}


def written(outputs: list[OutputFile], folder: Path) -> list[Path]:
    paths = [folder / output.name for output in outputs]
    for path, output in zip(paths, outputs, strict=True):
        path.write_bytes(output.content)
    return paths


# -- bit by bit ---------------------------------------------------------------------------------------------


@needs_ffmpeg
@pytest.mark.parametrize(("container", "subtype", "channels"), RECORDINGS)
@pytest.mark.slow
def test_pieces_hold_every_bit(tmp_path, container, subtype, channels):
    """In the same format, as WAV and as FLAC, pieces joined are what ffmpeg has of the recording."""
    path = write_sound(tmp_path / "recording", noise(1001, channels, subtype), 8000, subtype, container)
    kind = "f64" if subtype in {"FLOAT", "DOUBLE"} else "s32"
    for format_ in ("same", "wav", "flac"):
        if format_ == "flac" and subtype in DEEPER_THAN_FLAC:
            continue
        outputs, about = chunks_of(path, seconds=0.05, format=format_)
        ending = ENDINGS.get(container, container.lower()) if format_ == "same" else format_
        assert {output.name.rpartition(".")[2] for output in outputs} == {ending}
        truth, *pieces = decoded_by_ffmpeg([path, *written(outputs, tmp_path)], channels, tmp_path, kind)
        assert [len(piece) for piece in pieces] == [400, 400, 201]
        assert np.array_equal(np.concatenate(pieces), truth)
        assert len(truth) == about["source_frames"] == 1001
        assert (about["source_format"], about["source_subtype"]) == (
            container.removesuffix("EX") if container == "WAVEX" else container,
            subtype,
        )
        if format_ == "same":
            made = soundfile.info(io.BytesIO(outputs[0].content))
            assert made.subtype == subtype


@pytest.mark.parametrize("channels", ["keep", "first", "split"])
@pytest.mark.parametrize(("container", "subtype", "count"), RECORDINGS)
@pytest.mark.slow
def test_pieces_hold_every_bit_or_say_so(tmp_path, container, subtype, count, channels):
    """Any encoding in any lossless format: bit by bit, also one channel of many, or an error that helps."""
    path = write_sound(tmp_path / "recording", noise(997, count, subtype), 8000, subtype, container)
    dtype = "float64" if subtype in {"FLOAT", "DOUBLE"} else "int32"
    truth = soundfile.read(path, dtype=dtype, always_2d=True)[0]
    for format_ in ("same", "wav", "flac"):
        if format_ == "flac" and subtype in DEEPER_THAN_FLAC:
            with pytest.raises(AudioError, match=r"choose a --subtype of .+, or --format wav"):
                chunks_of(path, format=format_, channels=channels)
            continue
        outputs, _ = chunks_of(path, seconds=0.05, format=format_, channels=channels)
        pieces = [samples_of(output.content, dtype) for output in outputs]
        wide = count if channels == "split" else 1
        joined = np.concatenate([np.hstack(pieces[at : at + wide]) for at in range(0, len(pieces), wide)])
        assert np.array_equal(joined, truth[:, :1] if channels == "first" else truth)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32"])
def test_pieces_as_python_reads_them(tmp_path, subtype, channels):
    """Python's wave module, which knows neither libsndfile nor ffmpeg, finds the bytes of the recording."""
    bits = int(subtype.removeprefix("PCM_").removeprefix("U"))
    content = np.random.default_rng(0).integers(0, 256, 777 * channels * bits // 8, np.uint8).tobytes()
    (tmp_path / "a.wav").write_bytes(wav(content, channels=channels, bits=bits))
    found = b""
    for output in chunks_of(tmp_path / "a.wav", seconds=0.03)[0]:
        with wave.open(io.BytesIO(output.content)) as sound:
            assert (sound.getnchannels(), sound.getsampwidth() * 8, sound.getframerate()) == (
                channels,
                bits,
                8000,
            )
            found += sound.readframes(10**6)
    assert found == content


@needs_ffmpeg
@pytest.mark.parametrize(
    "options",
    [
        ("-c:a", "pcm_s24be", "a.aiff"),
        ("-c:a", "pcm_s16le", "-f", "aiff", "-c:a", "pcm_s16be", "a.aif"),
        ("-c:a", "pcm_s24le", "-rf64", "always", "a.wav"),
        ("-c:a", "pcm_s32le", "a.w64"),
        ("-c:a", "pcm_s24le", "a.caf"),
        ("-c:a", "pcm_alaw", "a.caf"),
        ("-c:a", "pcm_mulaw", "a.au"),
        ("-c:a", "flac", "-sample_fmt", "s32", "a.flac"),
        ("-c:a", "flac", "-frame_size", "500", "a.flac"),
        ("-c:a", "flac", "-f", "ogg", "a.oga"),
        ("-c:a", "adpcm_ms", "a.wav"),
        ("-c:a", "adpcm_ima_wav", "a.wav"),
    ],
    ids=lambda options: f"{options[1]} {options[-1]}",
)
@pytest.mark.slow
def test_recordings_that_ffmpeg_wrote(tmp_path, options):
    """Not only libsndfile's: also codecs whose samples have 16 bits without having a depth."""
    sound = noise(5000, 2) if "adpcm" not in options[1] else tone(0.7, 8000, 2)
    path = encoded_by_ffmpeg(sound, 8000, tmp_path / options[-1], *options[:-1])
    outputs, about = chunks_of(path, seconds=0.11, format="wav")
    truth, *pieces = decoded_by_ffmpeg([path, *written(outputs, tmp_path)], 2, tmp_path)
    joined = np.concatenate(pieces)
    assert about["source_frames"] == len(joined)
    # IMA's decoders round in ways of their own, by some of 65536 steps
    tolerance = 20 << 16 if "ima" in options[1] else 0
    assert joined.shape == truth.shape
    assert np.abs(joined.astype(np.int64) - truth).max() <= tolerance


@needs_sox
@needs_ffmpeg
@pytest.mark.parametrize(
    ("name", "bits"), [("a.wav", 24), ("a.aiff", 32), ("a.au", 24), ("a.flac", 24), ("a.caf", 16)]
)
def test_recordings_that_sox_wrote(tmp_path, name, bits):
    """With the chunks and comments that it adds."""
    source = write_sound(tmp_path / "source.wav", noise(2000, 3, "PCM_24"), 44_100, "PCM_24")
    add = ["--add-comment", "Titel=Ä"]
    subprocess.run(["sox", "-D", source, "-b", str(bits), *add, tmp_path / name], check=True)
    outputs, _ = chunks_of(tmp_path / name, seconds=0.01)
    truth, *pieces = decoded_by_ffmpeg([tmp_path / name, *written(outputs, tmp_path)], 3, tmp_path)
    assert np.array_equal(np.concatenate(pieces), truth)


def test_extensible_headers_go_along(tmp_path):
    """Which loudspeaker a channel is for stands in each piece, as in the recording."""
    path = write_sound(tmp_path / "a.wav", noise(100, 6), 8000, "PCM_16", "WAVEX")
    with path.open("r+b") as file:
        # the channel mask: front left and right, center, low frequencies, back left and right
        file.seek(40)
        file.write((0x3F).to_bytes(4, "little"))
    head = path.read_bytes()[20:60]
    for output in chunks_of(path, seconds=0.005)[0]:
        assert output.content[20:60] == head


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF"])
def test_numbers_that_are_none(tmp_path, container, subtype):
    """NaN, infinities and numbers far beyond 1 go through as they are."""
    kind = np.float32 if subtype == "FLOAT" else np.float64
    odd = np.array([np.nan, np.inf, -np.inf, 1e30, -5, 0, 1e-40], kind).repeat(10)[:, np.newaxis]
    path = write_sound(tmp_path / "a", odd, 100, subtype, container)
    for format_ in ("same", "wav"):
        pieces = [
            samples_of(output.content, kind.__name__)
            for output in chunks_of(path, seconds=0.2, format=format_)[0]
        ]
        assert np.array_equal(np.concatenate(pieces), odd, equal_nan=True)


@pytest.mark.parametrize(
    "options",
    [
        {"sample_rate": 5000},
        {"format": "flac", "subtype": "PCM_16"},
        {"format": "ogg"},
        {"format": "mp3", "sample_rate": 8000},
        {"channels": "mono"},
    ],
)
def test_numbers_that_are_none_in_other_formats(tmp_path, options):
    """They are no reason to fail: what holds no such numbers holds some other."""
    odd = np.array([np.nan, np.inf, -np.inf, 1e30, -5, 0], np.float32).repeat(2000).reshape(-1, 2)
    path = write_sound(tmp_path / "a", odd, 8000, "FLOAT")
    outputs, _ = chunks_of(path, seconds=0.5, **options)
    assert len(outputs) == 2
    if options.get("subtype"):
        pieces = np.concatenate([samples_of(output.content, "int16") for output in outputs])
        expected = np.array([0, 32767, -32768, 32767, -32768, 0], np.int16).repeat(1000)
        assert np.array_equal(pieces, np.stack([expected, expected], axis=1))


# -- depth --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtype", sorted(DEEPER_THAN_FLAC))
@pytest.mark.parametrize("container", ["WAV", "AIFF"])
def test_more_bits_than_flac_holds(tmp_path, folder, capfd, container, subtype):
    """An error of that recording, which says what to choose; with an explicit subtype it is done."""
    write_sound(folder / "deep.wav", noise(100, 1, subtype), 100, subtype, container)
    write_sound(folder / "fine.wav", noise(100), 100)
    write_list(folder / "l.csv", [["input"], ["deep.wav"], ["fine.wav"]])
    options = ("--recipe", "chunk", "--format", "flac", "--workers", "0", "--quiet")
    said = here(capfd, "run", folder / "l.csv", *options, "--output", tmp_path / "out")
    assert said.code == 1
    [row] = read_table(tmp_path / "out/errors.csv")
    assert (row["input"], row["error"], row["traceback"]) == ("deep.wav", "AudioError", "")
    assert row["message"].endswith(
        f"deep.wav: FLAC cannot hold {subtype} without loss; choose a --subtype of PCM_16, PCM_24, PCM_S8, "
        "or --format wav"
    )
    assert [row["input"] for row in read_table(tmp_path / "out/manifest.csv")] == ["fine.wav"]
    outputs, _ = chunks_of(folder / "deep.wav", format="flac", subtype="PCM_24")
    assert soundfile.info(io.BytesIO(outputs[0].content)).subtype == "PCM_24"


def test_flac_with_more_bits_than_can_be_written(tmp_path):
    """Pieces of a FLAC file with 32 bits are WAV; as FLAC they would have to lose some, which is said."""
    frames = noise(20_000, 2, "PCM_32")
    with av.open(str(tmp_path / "a.flac"), "w") as file:
        stream = file.add_stream("flac", rate=8000, format="s32", layout="stereo")
        stream.codec_context.options = {"strict": "experimental"}
        block = av.AudioFrame.from_ndarray(frames.reshape(1, -1), format="s32", layout="stereo")
        block.sample_rate = 8000
        for packet in (*stream.encode(block), *stream.encode(None)):
            file.mux(packet)
    outputs, about = chunks_of(tmp_path / "a.flac", seconds=1)
    assert {output.name[-4:] for output in outputs} == {".wav"}
    assert {soundfile.info(io.BytesIO(output.content)).subtype for output in outputs} == {"PCM_32"}
    assert np.array_equal(np.concatenate([samples_of(output.content) for output in outputs]), frames)
    assert about["source_format"] == "FLAC"
    expected = Chunk([str(tmp_path / "a.flac")], seconds=1.0)
    found = expected.expect(InputFile("a.flac", str(tmp_path / "a.flac"), {}, (), Scratch()))
    assert found is not None
    assert (found.outputs, found.content) == (3, 40_000)
    with pytest.raises(
        AudioError, match=r"a\.flac: FLAC cannot hold PCM_32 without loss; choose a --subtype of PCM"
    ):
        chunks_of(tmp_path / "a.flac", format="flac")
    made = chunks_of(tmp_path / "a.flac", format="flac", subtype="PCM_24")[0]
    assert soundfile.info(io.BytesIO(made[0].content)).subtype == "PCM_24"


@pytest.mark.parametrize("source", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_an_explicit_encoding(tmp_path, source, subtype):
    """Each sample is the nearest there is; one with as many bits is the same."""
    path = write_sound(tmp_path / "a.wav", noise(500, 2, source), 100, source)
    outputs, _ = chunks_of(path, format="wav", subtype=subtype)
    assert soundfile.info(io.BytesIO(outputs[0].content)).subtype == subtype
    made = samples_of(outputs[0].content, "float64")
    truth = soundfile.read(path, always_2d=True)[0]
    if subtype in {"FLOAT", "DOUBLE"}:
        assert np.array_equal(made, truth.astype(np.float32) if subtype == "FLOAT" else truth)
        return
    steps = 1 << {"PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}[subtype] - 1
    nearest = np.clip(np.rint(truth * steps), -steps, steps - 1) / steps
    # of 32 bits in 24 the rest is cut off, which nobody hears
    tolerance = 1 / steps if (source, subtype) == ("PCM_32", "PCM_24") else 0
    assert np.abs(made - nearest).max() <= tolerance


@pytest.mark.slow
@needs_ffmpeg
@pytest.mark.parametrize("name", ["a.mp3", "a.ogg", "a.opus"])
def test_what_has_no_depth(tmp_path, name):
    """Lossy recordings become 16 bits, each the nearest to what was decoded."""
    path = encoded_by_ffmpeg(tone(1.2, 48_000, 2), 48_000, tmp_path / name)
    for format_ in ("wav", "flac"):
        outputs, _ = chunks_of(path, seconds=0.5, format=format_)
        assert soundfile.info(io.BytesIO(outputs[0].content)).subtype == "PCM_16"
        joined = np.concatenate([samples_of(output.content, "int16") for output in outputs])
        (floats,) = decoded_by_ffmpeg([path], 2, tmp_path, "f32")
        assert joined.shape == floats.shape
        assert np.abs(joined - floats.astype(float) * 32768).max() < 0.6


@pytest.mark.parametrize("format_", ["mp3", "ogg", "opus"])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "FLOAT", "DOUBLE"])
def test_lossy_pieces_sound_like_the_recording(tmp_path, format_, channels, subtype):
    """Whatever its samples are; of two channels with 16 bits libsndfile makes MP3 that is mere noise."""
    truth = tone(1, 16_000, channels) / 32768
    path = write_sound(tmp_path / "a.wav", truth, 16_000, subtype)
    kind = {"format": "ogg", "subtype": "OPUS"} if format_ == "opus" else {"format": format_}
    outputs, _ = chunks_of(path, **kind)
    made = samples_of(outputs[0].content, "float64")
    assert made.shape == truth.shape
    assert np.sqrt(np.mean((made - truth) ** 2)) < 0.15 * np.sqrt(np.mean(truth**2))


def test_formats_that_cannot_hold_a_recording(tmp_path):
    """Too many channels for FLAC, a rate that Opus or MP3 does not have: one clear line."""
    many = write_sound(tmp_path / "many.wav", noise(100, 9), 8000)
    with pytest.raises(
        AudioError, match=r"many\.wav: FLAC PCM_16 cannot hold 9 channels at 8000 Hz: .+; choose another "
    ):
        chunks_of(many, format="flac")
    with pytest.raises(AudioError, match=r"many\.wav: MP3 MPEG_LAYER_III cannot hold 9 channels at 8000 "):
        chunks_of(many, format="mp3")
    fast = write_sound(tmp_path / "fast.wav", noise(100), 768_000)
    with pytest.raises(AudioError, match=r"fast\.wav: MP3 MPEG_LAYER_III cannot hold 1 channels.+: MPEG-1"):
        chunks_of(fast, format="mp3")
    with pytest.raises(AudioError, match=r"fast\.wav: OGG OPUS cannot hold 1 channels at 768000 Hz: "):
        chunks_of(fast, format="ogg", subtype="OPUS")
    with pytest.raises(AudioError, match=r"fast\.wav: FLAC PCM_16 cannot hold 1 channels at 768000 Hz: "):
        chunks_of(fast, format="flac")
    # libvorbis would end the process
    message = r"fast\.wav: OGG VORBIS cannot hold 1 channels at 768000 Hz: it has at most 200000 Hz; choose "
    with pytest.raises(AudioError, match=message):
        chunks_of(fast, format="ogg")
    wide = write_sound(tmp_path / "wide.wav", noise(10, 256), 8000)
    message = r"wide\.wav: OGG VORBIS cannot hold 256 channels at 8000 Hz: it has at most 255 channels"
    with pytest.raises(AudioError, match=message):
        chunks_of(wide, format="ogg")
    with pytest.raises(
        AudioError, match=r"many\.wav: WAV cannot hold --subtype VORBIS; choose from ALAW, .+, or another"
    ):
        chunks_of(many, subtype="VORBIS")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"format": "mp3", "sample_rate": 96_000},
            "--sample-rate 96000: mp3 supports only 8000, 11025, .+, 48000",
        ),
        (
            {"format": "ogg", "subtype": "OPUS", "sample_rate": 44_100},
            "--sample-rate 44100: OPUS supports only 8000, 12000, 16000, 24000, 48000",
        ),
        ({"format": "flac", "sample_rate": 655_351}, "--sample-rate 655351: flac supports at most 655350"),
        ({"format": "ogg", "sample_rate": 200_001}, "--sample-rate 200001: ogg supports at most 200000"),
    ],
)
def test_rates_that_a_format_does_not_have(options, message):
    """They are refused before work, since no recording could be made so."""
    with pytest.raises(Refused, match=f"^{message}$"):
        Target(**options)
    Target(**{**options, "sample_rate": 16_000})


@pytest.mark.parametrize(("format_", "rate"), [("flac", 655_350), ("ogg", 200_000)])
def test_the_largest_rates(tmp_path, format_, rate):
    """What is not refused can be written."""
    path = write_sound(tmp_path / "a.wav", noise(1000), 8000)
    outputs, _ = chunks_of(path, format=format_, sample_rate=rate)
    assert soundfile.info(io.BytesIO(outputs[0].content)).samplerate == rate


@pytest.mark.parametrize(
    ("format_", "subtype", "there"),
    [
        ("mp3", "MPEG_LAYER_I", "MPEG_LAYER_III"),
        ("mp3", "MPEG_LAYER_II", "MPEG_LAYER_III"),
        ("wav", "MPEG_LAYER_III", ".+"),
    ],
)
def test_encodings_that_are_only_read(tmp_path, format_, subtype, there):
    """It is said that they could be written, and then they cannot: refused before work."""
    with pytest.raises(
        Refused, match=f"^--subtype {subtype}: cannot be used in {format_}; choose from {there}$"
    ):
        Target(format=format_, subtype=subtype)
    path = write_sound(tmp_path / "a.wav", noise(100), 8000)
    with pytest.raises(AudioError, match=rf"a\.wav: WAV cannot hold --subtype {subtype}; choose from ALAW, "):
        chunks_of(path, subtype=subtype)


def test_the_rate_that_a_recording_has(tmp_path):
    """To ask for it changes nothing: pieces are the same bytes, and nobody resampled."""
    for container in ("FLAC", "WAV"):
        path = write_sound(tmp_path / "a", noise(9000, 2), 8000, container=container)
        outputs, about = chunks_of(path, seconds=0.3)
        again, about_again = chunks_of(path, seconds=0.3, sample_rate=8000)
        assert [output.content for output in again] == [output.content for output in outputs]
        assert about_again == {**about, "source_resampler": None}


# -- channels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("channels", [2, 3, 6])
def test_one_channel_of_many(tmp_path, subtype, channels):
    """Mono is the mean, to the nearest step, halves to the even one; `first` and `split` change nothing."""
    samples = noise(300, channels, subtype)
    path = write_sound(tmp_path / "a.wav", samples, 100, subtype)
    dtype = samples.dtype.name
    mono = np.concatenate(
        [samples_of(o.content, dtype) for o in chunks_of(path, seconds=0.7, channels="mono")[0]]
    )
    first = np.concatenate(
        [samples_of(o.content, dtype) for o in chunks_of(path, seconds=0.7, channels="first")[0]]
    )
    split = chunks_of(path, seconds=4, channels="split")[0]
    assert np.array_equal(first, samples[:, :1])
    assert len(split) == channels
    assert np.array_equal(np.hstack([samples_of(output.content, dtype) for output in split]), samples)
    mean = samples.astype(np.float64).mean(axis=1, keepdims=True)
    if samples.dtype.kind == "f":
        assert np.abs(mono - mean).max() < 1e-6
        return
    bits = {"PCM_U8": 8, "PCM_24": 24}.get(subtype, 8 * samples.dtype.itemsize)
    # 8 and 24 bits are mixed with more, and then lose these
    step = 1 << 8 * samples.dtype.itemsize - bits
    assert np.abs(mono.astype(np.float64) - mean).max() <= step * (0.51 if subtype != "PCM_24" else 1.01)
    if step == 1:
        assert np.array_equal(mono, np.rint(mean).astype(samples.dtype))


def test_two_channels_of_one(tmp_path):
    """Where a recording has one channel, nothing needs to be mixed, and its pieces are its bytes."""
    path = write_sound(tmp_path / "a.wav", noise(100, 1, "PCM_24"), 100, "PCM_24")
    kept = [output.content for output in chunks_of(path, seconds=0.3)[0]]
    for channels in ("mono", "first", "split"):
        assert [output.content for output in chunks_of(path, seconds=0.3, channels=channels)[0]] == kept


# -- another rate -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "FLOAT", "ULAW", "PCM_U8"])
@pytest.mark.parametrize(("old", "new"), [(44_100, 16_000), (16_000, 44_100), (48_000, 8000)])
def test_pieces_are_slices_of_the_whole(tmp_path, subtype, old, new):
    """As soxr makes them of the whole recording at once: no seams, no ringing where a piece begins."""
    path = write_sound(tmp_path / "a.wav", noise(old * 5 // 2, 2, subtype), old, subtype)
    dtype = {"FLOAT": "float32", "PCM_24": "int32", "PCM_32": "int32"}.get(subtype, "int16")
    samples = soundfile.read(path, dtype=dtype, always_2d=True)[0]
    if dtype == "int16":
        # soxr's own way to 16 bits adds noise; the nearest numbers do not
        whole = np.rint(soxr.resample(samples.astype(np.float32), old, new, "HQ")).clip(-32768, 32767)
    else:
        whole = soxr.resample(samples, old, new, "HQ")
    kept = {"float32": "FLOAT", "int32": "PCM_32", "int16": "PCM_16"}[dtype]
    outputs, _ = chunks_of(path, seconds=0.7, overlap=0.2, sample_rate=new, subtype=kept)
    for output in outputs:
        start = half_even(round(output.metadata["start_seconds"] * 10) * new, 10)
        found = samples_of(output.content, dtype)
        assert len(found) == output.metadata["frames"]
        assert np.array_equal(found, whole[start : start + len(found)].astype(dtype))
    assert output.metadata["frames"] + start == half_even(len(samples) * new, old)


def test_close_to_what_soxr_itself_makes_of_16_bits(tmp_path):
    """The nearest numbers are as near to soxr's as its noise allows."""
    samples = noise(20_000) // 2
    path = write_sound(tmp_path / "a.wav", samples, 44_100)
    outputs, _ = chunks_of(path, sample_rate=16_000)
    found = samples_of(outputs[0].content, "int16").astype(int)
    assert np.abs(found - soxr.resample(samples, 44_100, 16_000, "HQ")[: len(found)]).max() <= 2


@settings(max_examples=depth(20))
@given(
    st.integers(0, 300),
    st.sampled_from(
        [(8000, 11_025), (48_000, 1007), (7, 1000), (3000, 2000), (44_100, 44_099), (2000, 1000)]
    ),
)
def test_lengths_at_another_rate(tmp_path_factory, frames, rates):
    """So many samples become round(so many * new / old), halves to even; also one sample, and none."""
    old, new = rates
    path = write_sound(tmp_path_factory.mktemp("rate") / "a.wav", noise(frames), old)
    outputs, about = chunks_of(path, seconds=1000, sample_rate=new)
    made = sum(len(samples_of(output.content, "int16")) for output in outputs)
    assert made == half_even(frames * new, old) == round(Fraction(frames * new, old))
    assert about["source_frames"] == frames


def test_rates_too_far_apart(tmp_path):
    """A clear error, where soxr would take all memory or crash."""
    path = write_sound(tmp_path / "a.wav", noise(10), 1)
    with pytest.raises(AudioError, match=r"a\.wav: cannot be resampled from 1 Hz to 1000000 Hz"):
        chunks_of(path, sample_rate=1_000_000)


# -- lossy recordings ---------------------------------------------------------------------------------------


@needs_ffmpeg
@pytest.mark.parametrize(
    ("name", "options", "rate"),
    [
        ("a.ogg", ("-c:a", "libvorbis"), 44_100),
        ("a.ogg", ("-c:a", "libvorbis", "-q:a", "9"), 22_050),
        ("a.opus", ("-c:a", "libopus"), 48_000),
        ("a.opus", ("-c:a", "libopus", "-frame_duration", "60"), 16_000),
        ("a.opus", ("-c:a", "libopus", "-frame_duration", "2.5"), 8000),
    ],
)
@pytest.mark.parametrize("frames", [1, 1000, 100_001])
@pytest.mark.slow
def test_ogg_is_read_to_its_end(tmp_path, name, options, rate, frames):
    """As many samples as were encoded, which is what ffmpeg has, but for Vorbis in a single page."""
    path = encoded_by_ffmpeg(tone(13, rate, 2)[:frames], rate, tmp_path / name, *options)
    with open_source(str(path), Target(format="wav", subtype="FLOAT")) as source:
        source.finish()
        count = source.recorded_frames
    (truth,) = decoded_by_ffmpeg([path], 2, tmp_path, "f32")
    assert source.recorded.rate == rate
    assert count == frames
    # of Opus, ffmpeg makes 48 kHz
    decoded = half_even(len(truth) * rate, 48_000 if name == "a.opus" else rate)
    if name == "a.opus" or frames > 10_000:
        assert count == decoded


@pytest.mark.slow
@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
@pytest.mark.parametrize("seconds", [(2, 1), (1, 2, 1), (1, 0.1, 0.3)], ids=str)
def test_ogg_streams_that_follow_each_other(tmp_path, subtype, seconds):
    """Stations record a stream for each title: all are read, where libsndfile ends with the first."""
    parts = []
    for number, length in enumerate(seconds):
        file = io.BytesIO()
        soundfile.write(file, tone(length, 16_000, 2, 300 + 200 * number), 16_000, subtype, format="OGG")
        parts.append(file.getvalue())
    (tmp_path / "a.ogg").write_bytes(b"".join(parts))
    outputs, about = chunks_of(tmp_path / "a.ogg", seconds=0.7, format="wav", subtype="FLOAT")
    truth = np.concatenate([samples_of(part, "float32") for part in parts])
    assert np.array_equal(np.concatenate([samples_of(each.content, "float32") for each in outputs]), truth)
    assert about["source_frames"] == len(truth)
    # what was cut within its head holds no sound; what is of another kind is an error
    (tmp_path / "a.ogg").write_bytes(parts[0] + parts[1][:40])
    whole = round(seconds[0] * 16_000)
    with pytest.raises(AudioError, match=rf"a\.ogg: ends early: {whole:,} samples exist; use --truncated"):
        chunks_of(tmp_path / "a.ogg")
    assert chunks_of(tmp_path / "a.ogg", truncated="keep")[1]["source_frames"] == whole
    file = io.BytesIO()
    soundfile.write(file, tone(1, 16_000), 16_000, subtype, format="OGG")
    (tmp_path / "a.ogg").write_bytes(parts[0] + file.getvalue())
    there = f"{whole:,} samples exist; use --truncated keep to keep them, which redoes all inputs$"
    with pytest.raises(AudioError, match=f"changes its sample rate or channels: {there}"):
        chunks_of(tmp_path / "a.ogg")


@needs_ffmpeg
@pytest.mark.parametrize("codec", ["libvorbis", "libopus"])
def test_ogg_that_was_cut(tmp_path, codec):
    """What decodes is there if it is asked for; half a page is not."""
    path = encoded_by_ffmpeg(noise(240_000), 48_000, tmp_path / "a.ogg", "-c:a", codec)
    content = path.read_bytes()
    counts = []
    for share in (0.4, 0.7, 1):
        path.write_bytes(content[: int(len(content) * share)])
        outputs, about = chunks_of(path, seconds=1, format="wav", truncated="keep" if share < 1 else "error")
        counts.append(about["source_frames"])
        assert sum(output.metadata["frames"] for output in outputs) == about["source_frames"]
    assert 0 < counts[0] < counts[1] < counts[2] == 240_000


# -- bytes --------------------------------------------------------------------------------------------------


def test_the_same_bytes_at_any_time():
    """No clock and no chance stand in what is written, in any format there is."""
    all_formats = [
        SoundFormat(container, subtype, 1, 8000)
        for container in soundfile.available_formats()
        if container not in {"RAW", "SD2", "MAT5", "WAVEX"}
        for subtype in soundfile.available_subtypes(container)
    ]
    first = [bytes_of(made) for made in all_formats]
    # the clock of these headers counts seconds
    time.sleep(1.1)
    for made, content in zip(all_formats, first, strict=True):
        assert bytes_of(made) == content, made
    assert sum(content is not None for content in first) > 80


def bytes_of(made: SoundFormat) -> bytes | None:
    """A file of some format; None if libsndfile can only read it."""
    kind = made.dtype if made.subtype in {"FLOAT", "DOUBLE"} else "int16"
    sound = tone(0.3, 8000).astype(kind)
    content = encode(lambda: [sound], len(sound), made)
    if isinstance(content, bytes):
        return content
    assert callable(content)
    file = io.BytesIO()
    try:
        content(file)
    except AudioError as error:
        assert "cannot hold 1 channels at 8000 Hz" in str(error)  # noqa: PT017 - either is right
        return None
    return file.getvalue()


@pytest.mark.slow
def test_what_is_recorded_in_a_format_with_a_date(tmp_path):
    """MATLAB's holds the time when it was written: its pieces are WAV."""
    path = write_sound(tmp_path / "a.mat", noise(100, 2), 100, "PCM_16", "MAT5")
    outputs, about = chunks_of(path, seconds=0.6)
    assert about["source_format"] == "MAT5"
    assert [output.name[-4:] for output in outputs] == [".wav", ".wav"]
    joined = np.concatenate([samples_of(output.content, "int16") for output in outputs])
    assert np.array_equal(joined, noise(100, 2))
