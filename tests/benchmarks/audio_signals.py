"""Recordings that look like speech to a codec: voiced tones, noise bursts and pauses, from fixed seeds.

Recordings for contenders that detect speech are made of the voices in data_samples.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
from audio_jobs import CODECS, Job
from harness import CHECKOUT
from workload import Row, write_list

Signal = npt.NDArray[np.float32]

VOICES = CHECKOUT / "data_samples" / "speech"
# the number of long recordings that are made; a larger set has links to them
DISTINCT = 4
CLIPS_AT_ONCE = 250

PITCH_HZ = (90, 220)
HARMONICS = 12
FRICATIVE_HZ = 6000
SYLLABLE_SECONDS = (0.08, 0.35)
FRICATIVES = 0.25
BREATHS = 0.08
LOUDNESS, BACKGROUND = 20_000, 15  # in steps of 16 bits; as FLAC it takes 43 % of the bytes, like much speech


def make_recordings(folder: Path, files: int, job: Job) -> Path:
    """Make a set of stereo recordings, once; return the path of its dataset list."""
    kind = f"voices-{job.recorded_as}" if job.listens else job.recorded_as
    dataset = folder / f"{kind}-{files}" / "dataset.csv"
    if not dataset.exists():
        originals = [_make_original(folder / kind, seed, job) for seed in range(min(files, DISTINCT))]
        dataset.parent.mkdir(parents=True, exist_ok=True)
        write_list(dataset, _link(dataset.parent, originals, files))
    return dataset


def _make_original(folder: Path, seed: int, job: Job) -> Path:
    """Write one recording; it gets its name when it is complete."""
    path = folder / f"{seed}-{job.length}s.{job.recorded_as}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        signal = (voices if job.listens else speech)(job.length, job.rate, 2, seed)
        written = folder / f"{seed}.partial.{'wav' if job.is_lossy else job.recorded_as}"
        soundfile.write(written, signal, job.rate, "PCM_16")
        if job.is_lossy:
            encoded = written.with_suffix(path.suffix)
            codec = CODECS[job.recorded_as]
            subprocess.run(
                ["ffmpeg", "-nostdin", "-v", "error", "-y", "-i", written, *codec, encoded], check=True
            )
            written.unlink()
            written = encoded
        written.replace(path)
    return path


def _link(folder: Path, originals: list[Path], files: int) -> Iterator[Row]:
    for index in range(files):
        original = originals[index % len(originals)]
        name = f"speech-{index:05d}{original.suffix}"
        (folder / name).unlink(missing_ok=True)
        (folder / name).hardlink_to(original)
        yield name, f"voice-{index % len(originals)}"


def make_clips(folder: Path, files: int, seconds: int, rate: int) -> Path:
    """Make a set of short mono recordings, all different, once; return the path of its dataset list."""
    dataset = folder / f"clips-{files}" / "dataset.csv"
    if not dataset.exists():
        dataset.parent.mkdir(parents=True, exist_ok=True)
        write_list(dataset, _write_clips(dataset.parent, files, seconds, rate))
    return dataset


def _write_clips(folder: Path, files: int, seconds: int, rate: int) -> Iterator[Row]:
    for first in range(0, files, CLIPS_AT_ONCE):
        count = min(CLIPS_AT_ONCE, files - first)
        signal = speech(count * seconds, rate, 1, first)
        for index, clip in enumerate(np.split(signal, count), first):
            name = f"speech-{index:05d}.wav"
            soundfile.write(folder / name, clip, rate, "PCM_16")
            yield name, f"voice-{first}"


def speech(seconds: int, rate: int, channels: int, seed: int) -> npt.NDArray[np.int16]:
    """Make a signal of 16 bits: one voice, and a background that differs between channels."""
    generator = np.random.default_rng(seed)
    frames = seconds * rate
    voice = _voice(generator, frames, rate) * np.float32(LOUDNESS)
    made = np.empty((frames, channels), np.int16)
    for channel in range(channels):
        heard = np.roll(voice, 11 * channel) * np.float32(0.9**channel)
        heard += generator.standard_normal(frames, np.float32) * np.float32(BACKGROUND)
        made[:, channel] = np.clip(heard, -32_768, 32_767)
    return made


def voices(seconds: int, rate: int, channels: int, seed: int) -> npt.NDArray[np.int16]:
    """Put recorded voices one after another, in random order, with pauses of up to two seconds."""
    import librosa

    generator = np.random.default_rng(seed)
    heard = [librosa.load(path, sr=rate)[0] for path in sorted(VOICES.glob("*.[wf][al]*"))]
    made = generator.standard_normal((seconds * rate, channels), np.float32) * np.float32(BACKGROUND / 32768)
    at = 0
    while at < len(made):
        voice = heard[generator.integers(len(heard))][: len(made) - at]
        made[at : at + len(voice)] += voice[:, np.newaxis] * np.float32(0.9)
        at += len(voice) + int(generator.uniform(0, 2) * rate)
    return (made * 32767).clip(-32768, 32767).astype(np.int16)


def _hiss(generator: np.random.Generator, frames: int, rate: int) -> Signal:
    """Make noise up to the highest frequency of a fricative, so that resamplers agree on it."""
    spectrum = np.fft.rfft(generator.standard_normal(frames))
    spectrum[np.fft.rfftfreq(frames, 1 / rate) > FRICATIVE_HZ] = 0
    noise = np.fft.irfft(spectrum, frames)
    return (noise / np.abs(noise).max()).astype(np.float32)


def _voice(generator: np.random.Generator, frames: int, rate: int) -> Signal:
    """Put syllables one after another, with short pauses and sometimes a long one."""
    hiss = _hiss(generator, 10 * rate, rate)
    voice = np.zeros(frames, np.float32)
    at = 0
    while True:
        pause = generator.uniform(0.5, 1.5) if generator.random() < BREATHS else generator.exponential(0.06)
        at += int(pause * rate)
        length = int(generator.uniform(*SYLLABLE_SECONDS) * rate)
        if at + length > frames:
            return voice
        if generator.random() < FRICATIVES:
            start = generator.integers(len(hiss) - length)
            sound = hiss[start : start + length] * np.float32(0.2)
        else:
            sound = _vowel(generator, length, rate)
        voice[at : at + length] = sound * np.hanning(length).astype(np.float32)
        at += length


def _vowel(generator: np.random.Generator, length: int, rate: int) -> Signal:
    """Make harmonics of a gliding pitch, two of them as loud as formants are."""
    pitch = np.linspace(*generator.uniform(*PITCH_HZ, 2), length)
    phase = (2 * np.pi * np.cumsum(pitch) / rate).astype(np.float32)
    strengths = 0.3 / np.arange(1, HARMONICS + 1)
    strengths[generator.integers(1, HARMONICS, 2)] *= 3
    vowel = np.zeros(length, np.float32)
    for number, strength in enumerate(strengths, 1):
        vowel += np.float32(strength) * np.sin(np.float32(number) * phase)
    return vowel
