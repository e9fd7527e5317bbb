"""How often a border is inside a word: the recipe `pauses` and other ways to cut, on speech in noise.

    python tests/benchmarks/pauses.py [--minutes 10] [--noise white:10 pink:5 ...]

libespeak-ng makes the speech from the pages of docs/, and says when each word starts and ends. auditok and
pydub take part if they are installed.
"""

import argparse
import math
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
from espeak_words import RATE, Espeak, Speech

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))

from splitter.audio.levels import LevelMeter, decibels  # noqa: E402 - from the checkout, installed or not
from splitter.recipes.pauses import Pauses  # noqa: E402

VOICES = [
    ("en-us", 190),
    ("en+f3", 210),
    ("en-gb+f2", 180),
    ("en-gb", 170),
    ("en-us+m3", 230),
    ("en+m5", 200),
]
LEAST, WANTED, MOST = 5.0, 10.0, 15.0
NOISE = ["none", "white:20", "white:10", "white:5", "pink:10", "pink:5", "babble:10", "babble:5"]
# a border this near to the start or end of a word is not inside it
TOLERANCE = 0.02
# the shortest pause in which a border can be expected
PAUSE = 0.15
Cut = Callable[[Path], list[tuple[float, float]]]


def sentences() -> list[str]:
    """Return sentences of the documentation, as plain words with commas."""
    pages = " ".join(page.read_text(encoding="utf-8") for page in sorted((CHECKOUT / "docs").glob("*.md")))
    pages = re.sub(r"```.*?```", " ", pages, flags=re.DOTALL)
    found = (" ".join(re.sub(r"[^A-Za-z ,.']", " ", one).split()) for one in re.split(r"(?<=[.:])\s+", pages))
    return [one for one in found if 30 < len(one) < 220]


def speech(voice: str, words_per_minute: int, seconds: float, texts: list[str], espeak: Espeak) -> Speech:
    """Return sentences with pauses of many lengths between and in them, some softer than others."""
    generator = np.random.default_rng(words_per_minute)
    parts: list[np.ndarray] = []
    words: list[tuple[float, float]] = []
    at = 0.0
    while at < seconds:
        text = texts[generator.integers(len(texts))].split()
        if generator.random() < 0.5:
            text.insert(
                int(generator.integers(1, len(text))), f'<break time="{generator.integers(100, 500)}ms"/>'
            )
        one = espeak.say(" ".join(text), voice, words_per_minute)
        sound = one.sound[: round(one.words[-1][1] * RATE)] * 10 ** (generator.uniform(-6, 0) / 20)
        pause = np.zeros(round(generator.choice([0.12, 0.18, 0.25, 0.4, 0.7]) * RATE))
        words += [(at + start, at + end) for start, end in one.words]
        parts += [sound, pause]
        at += (len(sound) + len(pause)) / RATE
    return Speech(np.concatenate(parts), words)


def noisy(one: Speech, how: str, others: list[Speech]) -> np.ndarray:
    """Return the speech with noise, as `how` says: its kind, and how many decibels it is below the speech."""
    kind, _, ratio = how.partition(":")
    generator = np.random.default_rng(len(one.sound))
    count = len(one.sound)
    if kind == "none":
        return one.sound
    noise = generator.standard_normal(count)
    if kind == "pink":
        noise = np.fft.irfft(np.fft.rfft(noise) / np.sqrt(np.arange(1, count // 2 + 2)), count)
    if kind == "babble":
        noise = sum(np.roll(np.resize(other.sound, count), generator.integers(count)) for other in others)
    scale = np.sqrt(np.mean(one.sound**2) / np.mean(noise**2)) / 10 ** (float(ratio) / 20)
    mixed = one.sound + scale * noise
    return mixed / np.abs(mixed).max()


# -- ways to cut ---------------------------------------------------------------------------------------------


def by_pauses(by: str) -> Cut:
    """Return a function that cuts as the recipe does."""

    def cut(path: Path) -> list[tuple[float, float]]:
        outputs, _ = Pauses([str(path)], WANTED, LEAST, MOST, by)[0]
        return [(one.metadata["start_seconds"], one.metadata["end_seconds"]) for one in outputs]

    return cut


def greedy(path: Path) -> list[tuple[float, float]]:
    """Cut at the quietest 20 ms that the bounds allow, one border after the other."""
    sound, rate = soundfile.read(path, dtype="float32", always_2d=True)
    hop = rate // 100
    meter = LevelMeter(hop, 2)
    meter.add(sound)
    levels, edges = decibels(meter.levels()), [0.0]
    while len(sound) / rate - edges[-1] > MOST:
        first, last = (math.ceil((edges[-1] + length) * rate / hop) for length in (LEAST, MOST))
        edges.append((first + int(levels[first:last].argmin())) * hop / rate)
    return list(zip(edges, [*edges[1:], len(sound) / rate], strict=True))


def auditok(path: Path) -> list[tuple[float, float]]:
    """Cut with auditok's own threshold for silence, and our bounds."""
    import auditok

    found = auditok.split(str(path), min_dur=LEAST, max_dur=MOST, max_silence=0.3)
    return [(one.start, one.end) for one in found]


def pydub(path: Path) -> list[tuple[float, float]]:
    """Cut with pydub at 150 ms of silence, 16 dB below the recording; pydub has no bounds."""
    from pydub import AudioSegment, silence

    sound = AudioSegment.from_wav(str(path))
    found = silence.detect_nonsilent(sound, 150, sound.dBFS - 16, 10)
    return [(start / 1000, stop / 1000) for start, stop in found]


CONTENDERS: dict[str, Cut] = {
    "pauses --by level": by_pauses("level"),
    "pauses --by speech": by_pauses("speech"),
    "quietest 20 ms, greedy": greedy,
    "auditok": auditok,
    "pydub": pydub,
}


def score(pieces: list[tuple[float, float]], one: Speech) -> np.ndarray:
    """Count borders with a pause in reach, those inside a word, pieces, those within bounds, and seconds."""
    starts, ends = np.array(one.words).T
    is_pause = starts[1:] - ends[:-1] >= PAUSE
    pauses = ((starts[1:] + ends[:-1]) / 2)[is_pause]
    total = len(one.sound) / RATE
    borders = inside = 0
    for start, stop in pieces:
        # the start of a piece after sound that was left out is a border, too
        for border in {start, stop} if start not in {end for _, end in pieces} else {stop}:
            if not TOLERANCE < border < total - TOLERANCE:
                continue
            if border == stop and not ((pauses >= start + LEAST) & (pauses <= start + MOST)).any():
                continue
            borders += 1
            word = int(np.searchsorted(starts, border)) - 1
            inside += word >= 0 and starts[word] + TOLERANCE < border < ends[word] - TOLERANCE
    lengths = np.array([stop - start for start, stop in pieces])
    within = ((lengths >= LEAST - 0.001) & (lengths <= MOST + 0.001)).sum() if len(lengths) else 0
    return np.array([borders, inside, len(pieces), within, lengths.sum(), total])


def main() -> None:
    """Print a table for each kind of noise."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="of each of the voices")
    parser.add_argument("--noise", nargs="*", default=NOISE, help="none, white:DB, pink:DB or babble:DB")
    options = parser.parse_args()
    espeak, texts = Espeak(), sentences()
    spoken = [speech(voice, speed, options.minutes * 60, texts, espeak) for voice, speed in VOICES]
    print("| noise | contender | borders inside a word | borders | pieces within bounds | sound in pieces |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.wav")
        for how in options.noise:
            sums = {name: np.zeros(6) for name in CONTENDERS}
            for one in spoken:
                others = [other for other in spoken if other is not one]
                soundfile.write(path, noisy(one, how, others), RATE, "PCM_16")
                for name, cut in CONTENDERS.items():
                    try:
                        sums[name] += score(cut(path), one)
                    except ImportError:
                        sums[name] *= np.nan
            for name, (borders, inside, pieces, within, seconds, total) in sums.items():
                shares = [inside / max(1, borders), within / max(1, pieces), seconds / total]
                first, second, third = (f"{100 * share:.1f} %" for share in shares)
                print(f"| {how} | {name} | {first} | {borders:.0f} | {second} | {third} |", flush=True)


if __name__ == "__main__":
    main()
