"""The recipe `chunk`: where it cuts, what it says of its pieces, and that nothing is lost between them."""

import itertools
import os
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doors import CHECKOUT, here, read_table, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from sounds import chunks_of, half_even, noise, samples_of, tone, wav, write_sound

from splitter import read_manifest
from splitter.audio.base import SoundSource
from splitter.audio.decoders import SoundFormat
from splitter.errors import AudioError, Refused
from splitter.recipes.chunk import Chunk
from splitter.recipes.sound import Span
from splitter.records import Content, InputFile, Scratch

TAILS = ("keep", "drop", "pad", "shift", "merge")


# -- where it cuts ------------------------------------------------------------------------------------------

# seconds as people write them: 7.3, 0.1, a third
lengths = st.one_of(
    st.decimals("0.001", "40", places=3),
    st.decimals("0.1", "40", places=1),
    st.sampled_from([Decimal(repr(number)) for number in (1 / 3, 2 / 3, 0.1 + 0.2, 1.0, 7.3, 10.0)]),
)


@st.composite
def cuts(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of the recipe."""
    seconds = draw(lengths)
    share = draw(st.sampled_from([Decimal(0), Decimal(0), Decimal("0.5"), Decimal("0.25"), Decimal("0.9")]))
    least = draw(st.none() | st.sampled_from([Decimal(0), seconds / 2, seconds]))
    return {
        "seconds": float(seconds),
        "overlap": float(round(seconds * share, 4)),
        "tail": draw(st.sampled_from(TAILS)),
        "min_seconds": None if least is None else float(least),
    }


def exact(seconds: float) -> Fraction:
    """The number as it is written."""
    return Fraction(Decimal(repr(seconds)))


def by_hand(  # noqa: PLR0913 - what it depends on
    frames: int, rate: int, *, seconds: float, overlap: float, tail: str, min_seconds: float | None
) -> list[tuple[int, int, int]]:
    """The first sample, the one after the last, and the silence after it: window by window, with sets."""
    length, hop = exact(seconds), exact(seconds) - exact(overlap)
    found: list[tuple[int, int]] = []
    before: set[int] = set()
    for number in itertools.count():
        first, stop = round(number * hop * rate), round((number * hop + length) * rate)
        held = set(range(first, min(stop, frames)))
        if first >= frames:
            break
        if held - before:
            found.append((first, stop))
            before = held
    if not found or found[-1][1] <= frames:
        return [(first, stop, 0) for first, stop in found]
    first, stop = found.pop()
    whole = [(first, stop, 0) for first, stop in found]
    is_little = min_seconds is not None and frames - first < round(exact(min_seconds) * rate)
    if tail == "merge" and whole and (min_seconds is None or is_little):
        return [*whole[:-1], (whole[-1][0], frames, 0)]
    if tail == "drop" or is_little:
        return whole
    if tail == "pad":
        return [*whole, (first, frames, stop - frames)]
    if tail == "shift" and whole:
        return [*whole, (round(frames - length * rate), frames, 0)]
    return [*whole, (first, frames, 0)]


class Heard(SoundSource):
    """A recording of any length, of which nothing is stored."""

    def __init__(self, frames: int, rate: int) -> None:
        self.recorded = self.made = SoundFormat("WAV", "PCM_16", 1, rate)
        self.length = frames
        self.furthest = 0

    def reach(self, frame: int) -> int:
        self.furthest = max(self.furthest, frame)
        return min(frame, self.length)

    def content(self, start: int, stop: int, silence: int = 0, channel: int | None = None) -> Content:
        raise NotImplementedError

    def frames(self, start: int, stop: int) -> Iterator[np.ndarray]:
        raise NotImplementedError

    @property
    def recorded_frames(self) -> int:
        assert self.furthest >= self.length, "nobody can know the length before the end"
        return self.length

    def close(self) -> None:
        pass


def spans_of(source: SoundSource, **parameters: Any) -> list[Span]:
    recipe = Chunk([], **parameters)
    return list(recipe.spans(source, InputFile("a.wav", "/a.wav", {}, (), Scratch())))


@settings(max_examples=depth(100))
@given(st.integers(0, 2500), st.sampled_from([1, 3, 8, 100, 999]), cuts())
def test_windows_of_any_recording(frames, rate, parameters):
    """They are those that are found by going through all windows, for any length, rate, overlap and tail."""
    source = Heard(frames, rate)
    if (exact(parameters["seconds"]) - exact(parameters["overlap"])) * rate < 1:
        with pytest.raises(AudioError, match=r"a\.wav: windows would be less than a sample apart at"):
            spans_of(source, **parameters)
        return
    found = []
    for span in spans_of(source, **parameters):
        first, stop = span.frames(rate)
        found.append((first, stop, round((span.stop + span.silence) * rate) - stop))
    assert found == by_hand(frames, rate, **parameters)


@settings(max_examples=depth(25))
@given(st.integers(0, 400), st.integers(1, 3), cuts(), st.integers(0, 2**32 - 1))
def test_pieces_of_any_recording(tmp_path_factory, frames, channels, parameters, seed):
    """Each holds exactly its window's samples, and says where it is, however a window falls."""
    rate = 20
    if (exact(parameters["seconds"]) - exact(parameters["overlap"])) * rate < 1:
        return
    samples = noise(frames, channels, seed=seed)
    path = write_sound(tmp_path_factory.mktemp("any") / "a.wav", samples, rate)
    outputs, about = chunks_of(path, **parameters)
    expected = by_hand(frames, rate, **parameters)
    assert len(outputs) == len(expected)
    for output, (first, stop, silence) in zip(outputs, expected, strict=True):
        piece = np.pad(samples[first:stop], ((0, silence), (0, 0)))
        assert np.array_equal(samples_of(output.content, "int16"), piece)
        said = output.metadata
        assert (said["start_sample"], said["stop_sample"], said["frames"]) == (first, stop, len(piece))
        assert (said["sample_rate"], said["channels"]) == (rate, channels)
        assert half_even(round(said["start_seconds"] * 10**6) * rate, 10**6) in {first, first - 1, first + 1}
    assert about["source_frames"] == frames
    assert len({output.name for output in outputs}) == len(outputs)
    assert [output.name for output in outputs] == sorted(output.name for output in outputs)


@settings(max_examples=depth(25))
@given(st.integers(0, 400), st.integers(1, 3), lengths, st.sampled_from([7, 8, 10, 16]))
def test_pieces_joined_are_the_recording(tmp_path, frames, channels, seconds, rate):
    """With nothing shared and the tail kept there is no gap, and no sample comes twice."""
    if seconds * rate < 1:
        return
    samples = noise(frames, channels, seed=frames)
    path = write_sound(tmp_path / "a.wav", samples, rate)
    outputs, _ = chunks_of(path, seconds=float(seconds))
    pieces = [samples_of(output.content, "int16") for output in outputs]
    assert np.array_equal(np.concatenate([*pieces, samples[:0]]), samples)


@pytest.mark.parametrize(
    ("seconds", "overlap", "rate"),
    [("7.3", "0", 44_100), ("7.3", "0", 192_000), ("10", "2.5", 11_025), ("29.97", "0.03", 48_000)],
)
def test_a_day_long_recording(seconds, overlap, rate):
    """After 24 hours windows still begin where whole numbers say that they do: nothing drifts."""
    frames = 24 * 3600 * rate
    length = int(Decimal(seconds) * 1000)
    hop = length - int(Decimal(overlap) * 1000)
    expected = []
    for number in itertools.count():
        first = half_even(number * hop * rate, 1000)
        stop = half_even((number * hop + length) * rate, 1000)
        expected.append((first, min(stop, frames)))
        if stop >= frames:
            break
    spans = spans_of(Heard(frames, rate), seconds=float(seconds), overlap=float(overlap))
    assert [span.frames(rate) for span in spans] == expected
    assert len(spans) >= 24 * 3600 / 30


def test_halves_go_to_the_even_sample(tmp_path):
    """2.5 samples are 2, and 7.5 are 8."""
    path = write_sound(tmp_path / "a.wav", noise(20), 10)
    outputs, _ = chunks_of(path, seconds=0.25)
    edges = [(output.metadata["start_sample"], output.metadata["stop_sample"]) for output in outputs]
    assert edges == [(0, 2), (2, 5), (5, 8), (8, 10), (10, 12), (12, 15), (15, 18), (18, 20)]


def test_a_last_window_that_is_full_is_the_last(tmp_path):
    """Another one that holds nothing new is not made, with whatever tail and overlap."""
    path = write_sound(tmp_path / "a.wav", noise(40), 10)
    for tail in TAILS:
        outputs, _ = chunks_of(path, seconds=2, overlap=1, tail=tail)
        assert [output.metadata["start_seconds"] for output in outputs] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("tail", "least", "expected"),
    [
        ("keep", None, [(0, 10), (10, 20), (20, 24)]),
        ("keep", 0.5, [(0, 10), (10, 20)]),
        ("keep", 0.4, [(0, 10), (10, 20), (20, 24)]),
        ("drop", None, [(0, 10), (10, 20)]),
        ("pad", None, [(0, 10), (10, 20), (20, 24)]),
        ("pad", 0.5, [(0, 10), (10, 20)]),
        ("shift", None, [(0, 10), (10, 20), (14, 24)]),
        ("shift", 0.5, [(0, 10), (10, 20)]),
        ("merge", None, [(0, 10), (10, 24)]),
        ("merge", 0.5, [(0, 10), (10, 24)]),
        ("merge", 0.4, [(0, 10), (10, 20), (20, 24)]),
    ],
)
def test_tails(tmp_path, tail, least, expected):
    """2.4 seconds in windows of one: what becomes of the 0.4."""
    samples = noise(24)
    path = write_sound(tmp_path / "a.wav", samples, 10)
    outputs, _ = chunks_of(path, seconds=1, tail=tail, min_seconds=least)
    assert [
        (output.metadata["start_sample"], output.metadata["stop_sample"]) for output in outputs
    ] == expected
    last = samples_of(outputs[-1].content, "int16")
    first, stop = expected[-1]
    assert np.array_equal(last[: stop - first], samples[first:stop])
    assert len(last) == (10 if tail == "pad" else stop - first)
    assert not last[stop - first :].any()
    assert outputs[-1].metadata["frames"] == len(last)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("frames", [0, 1, 9])
def test_a_recording_shorter_than_a_window(tmp_path, tail, frames):
    """It is its only piece, padded if that is asked for; dropped is dropped, and nothing gives nothing."""
    path = write_sound(tmp_path / "a.wav", noise(frames), 10)
    outputs, about = chunks_of(path, seconds=1, tail=tail)
    lengths_found = [output.metadata["frames"] for output in outputs]
    assert lengths_found == ([] if tail == "drop" or not frames else [10] if tail == "pad" else [frames])
    assert about["source_frames"] == frames


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "--seconds 0: must be more than 0"),
        ({"seconds": -1}, "--seconds -1: must be more than 0"),
        ({"seconds": float("nan")}, "--seconds nan: must be more than 0"),
        ({"seconds": float("inf")}, "--seconds inf: must be more than 0"),
        ({"overlap": 10}, "--overlap 10: must be at least 0 and less than --seconds, which is 10"),
        ({"overlap": -0.1}, "--overlap -0.1: must be at least 0 and less than --seconds, which is 10"),
        ({"min_seconds": 11}, "--min-seconds 11: must be from 0 to --seconds, which is 10"),
        ({"sample_rate": 0}, "--sample-rate 0: must be from 1,000 to 1,000,000 Hz"),
        ({"subtype": "PCM_17"}, "--subtype PCM_17: is unknown; choose from ALAC_16"),
        (
            {"subtype": "FLOAT", "format": "flac"},
            "--subtype FLOAT: cannot be used in flac; choose from PCM_16",
        ),
    ],
)
def test_parameters_that_make_no_sense(tmp_path, capfd, options, message):
    """They are refused before work, by the class and by the command line."""
    with pytest.raises(Refused) as refused:
        Chunk([], **options)
    assert str(refused.value).startswith(message)
    listed = write_list(tmp_path / "l.csv", [["input"], ["a.wav"]])
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    said = here(capfd, "run", listed, "--recipe", "chunk", "--output", tmp_path / "out", *words)
    assert said.code == 2
    assert said.lines[0].startswith(f"splitter: {message}")
    assert not (tmp_path / "out").exists()


# -- what it says -------------------------------------------------------------------------------------------


def test_the_rows_of_a_run(folder, tmp_path):
    """Labels, places in seconds and in the recording's own samples, and what the recording is."""
    write_sound(folder / "Ä b.wav", noise(25_000, 2), 10_000)
    write_list(folder / "l.csv", [["input", "speaker"], ["Ä b.wav", "007"]])
    recipe = Chunk(
        folder / "l.csv",
        seconds=1.5,
        overlap=0.25,
        tail="pad",
        sample_rate=8000,
        channels="mono",
        format="flac",
    )
    manifest = recipe.run(tmp_path / "out", workers=0, quiet=True)
    about = {
        "source_rate": 10_000,
        "source_channels": 2,
        "source_frames": 25_000,
        "source_format": "WAV",
        "source_subtype": "PCM_16",
        "source_seconds": 2.5,
    }
    pieces = [
        ("Ä b/000000_0.000s.flac", 0.0, 1.5, 0, 15_000, 8000, 1, 12_000),
        ("Ä b/000001_1.250s.flac", 1.25, 2.5, 12_500, 25_000, 8000, 1, 12_000),
    ]
    names = ("output", "start_seconds", "end_seconds", "start_sample", "stop_sample", "sample_rate")
    for (_, row), piece in zip(manifest.iterrows(), pieces, strict=True):
        assert tuple(row[[*names, "channels", "frames"]]) == piece
        assert row[list(about)].to_dict() == about
        assert (row["input"], row["speaker"]) == ("Ä b.wav", "007")
        assert len(samples_of((tmp_path / "out" / row["output"]).read_bytes())) == row["frames"]


def test_channels_in_files_of_their_own(tmp_path):
    """Each says that it has one channel; their names differ, and sort beside each other."""
    samples = noise(30, 3)
    path = write_sound(tmp_path / "a.wav", samples, 10)
    outputs, about = chunks_of(path, seconds=2, channels="split")
    assert [output.name for output in outputs] == [
        f"{number:06d}_{2 * number}.000s_channel{channel}.wav" for number in (0, 1) for channel in (1, 2, 3)
    ]
    assert {output.metadata["channels"] for output in outputs} == {1}
    assert about["source_channels"] == 3
    for output, (first, channel) in zip(outputs, itertools.product((0, 20), range(3)), strict=True):
        piece = samples[first : first + 20, channel : channel + 1]
        assert np.array_equal(samples_of(output.content, "int16"), piece)


def test_one_channel_needs_no_number(tmp_path):
    """A recording with one channel is cut the same way, whatever is to become of channels."""
    path = write_sound(tmp_path / "a.wav", noise(30), 10)
    kept = [(output.name, output.content) for output in chunks_of(path, seconds=2)[0]]
    for channels in ("mono", "split", "first"):
        found = chunks_of(path, seconds=2, channels=channels)[0]
        assert [(output.name, output.content) for output in found] == kept


def test_places_with_resampling(tmp_path):
    """`start_sample` and `stop_sample` count the recording's samples and never go beyond it."""
    for frames in range(9_990, 10_011):
        path = write_sound(tmp_path / "a.wav", noise(frames), 10_000)
        outputs, about = chunks_of(path, seconds=0.5, sample_rate=1000)
        assert outputs[-1].metadata["stop_sample"] <= about["source_frames"] == frames
        assert sum(output.metadata["frames"] for output in outputs) == half_even(frames * 1000, 10_000)


# -- names --------------------------------------------------------------------------------------------------


def test_names_of_any_kind(tmp_path, folder, capfd):
    """Not UTF-8, 250 bytes, upper case, a wrong ending, none: the content says what it is."""
    names = [
        b"caf\xe9 \xff.wav",
        b"LOUD.WAV",
        b"really.mp3",
        b"no ending",
        b"x.vox",
        b"x.raw",
        b"-",
        b"--help.wav",
        b"%s.wav",
        b"n" * 246 + b".wav",
        "語".encode() * 82 + b".wav",
    ]
    samples = noise(30)
    for number, name in enumerate(names):
        path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        write_sound(path, samples + number, 10)
    write_list(folder / "l.csv", [["input"], *([os.fsdecode(name)] for name in names)])
    options = ("--recipe", "chunk", "--seconds", "2", "--workers", "0", "--keep-extension", "--quiet")
    said = here(capfd, "run", folder / "l.csv", *options, "--output", tmp_path / "out")
    assert said.code == 0, said.err
    rows = read_table(tmp_path / "out/manifest.csv")
    assert [row["input"] for row in rows] == [os.fsdecode(name) for name in names for _ in range(2)]
    for number, row in enumerate(rows):
        piece = (samples + number // 2)[20 * (number % 2) :][:20]
        content = (tmp_path / "out" / row["output"]).read_bytes()
        assert np.array_equal(samples_of(content, "int16"), piece)
        assert row["output"].endswith(".wav")


# -- at the door --------------------------------------------------------------------------------------------


def test_the_sample_data(tmp_path, capfd):
    """The recordings that come with splitter become chunks that can be listened to."""
    dataset = CHECKOUT / "data_samples/dataset.csv"
    options = ("--recipe", "chunk", "--workers", "2", "--output", tmp_path / "out")
    said = here(capfd, "run", dataset, *options)
    assert said.code == 0, said.err
    manifest = read_manifest(tmp_path / "out")
    inputs = [row["input"] for row in read_table(dataset)]
    assert list(manifest["input"].unique()) == inputs
    loudest: dict[str, int] = {}
    for _, row in manifest.iterrows():
        samples = samples_of((tmp_path / "out" / row["output"]).read_bytes(), "int16")
        assert len(samples) == row["frames"]
        assert row["end_seconds"] - row["start_seconds"] <= 10
        loudest[row["input"]] = max(loudest.get(row["input"], 0), int(abs(samples.astype(int)).max()))
    assert min(loudest.values()) > 2000


def test_the_same_bytes_for_any_workers(tmp_path, folder):
    """Whoever cut it, in which batch, and when: the pieces and the manifest are the same."""
    for number, (container, subtype) in enumerate(
        [
            ("WAV", "FLOAT"),
            ("AIFF", "FLOAT"),
            ("OGG", "VORBIS"),
            ("FLAC", "PCM_16"),
            ("CAF", "PCM_24"),
            ("MP3", "MPEG_LAYER_III"),
        ]
    ):
        write_sound(folder / f"{number}.bin", tone(1.3, 16_000) / 32768, 16_000, subtype, container)
    trees = []
    for workers, size in ((0, 1), (2, 2)):
        out = tmp_path / f"out {workers}"
        Chunk(folder, seconds=0.5).run(out, workers=workers, batch_size=size, quiet=True)
        trees.append(
            {
                path.relative_to(out): path.read_bytes()
                for path in out.rglob("*.*")
                if path.is_file() and ".splitter" not in path.parts
            }
        )
    assert trees[0] == trees[1]
    assert len(trees[0]) == 6 * 3 + 1


def test_long_pieces_are_copied(tmp_path):
    """A piece that is too large to be held in memory has all its bytes, too."""
    content = np.random.default_rng(0).integers(0, 256, 3_000_000, np.uint8).tobytes()
    (tmp_path / "a.wav").write_bytes(wav(content, rate=8000, bits=8))
    manifest = Chunk([str(tmp_path / "a.wav")], seconds=200).run(tmp_path / "out", workers=1, quiet=True)
    pieces = [(tmp_path / "out" / name).read_bytes() for name in manifest["output"]]
    assert [len(piece) for piece in pieces] == [1_600_044, 1_400_044]
    assert b"".join(piece[44:] for piece in pieces) == content
