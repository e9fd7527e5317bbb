"""Contenders that listen: silero-vad finds speech; sox and auditok find everything but silence.

Each writes what it finds as WAV, with the sample rate and the channels of the recording.
"""

import os
from collections.abc import Callable
from functools import partial
from multiprocessing import Pool
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from audio_contenders import Task

RATE = 16_000
# silence lasts at least 0.3 s and stays 40 dB below the loudest sample; some of it is kept around each piece
SILENCE_SECONDS, SILENCE_SHARE, PAD_SECONDS = 0.3, "1%", 0.1
AUDITOK_ENERGY = 50


def silero(task: "Task") -> None:
    """Let silero-vad find speech in a multiprocessing.Pool, with one thread in each process."""
    in_pool(task, _with_silero, _load_silero)


def _load_silero() -> None:
    import silero_vad
    import torch

    torch.set_num_threads(1)
    _models.append(silero_vad.load_silero_vad())


_models: list[object] = []


def _with_silero(root: str, out: str, name: str) -> None:
    import silero_vad
    import soundfile
    import soxr
    import torch

    samples, rate = soundfile.read(f"{root}/{name}", dtype="float32", always_2d=True)
    heard = torch.from_numpy(soxr.resample(samples.mean(axis=1), rate, RATE))
    found = silero_vad.get_speech_timestamps(heard, _models[0], sampling_rate=RATE)
    folder = f"{out}/{os.path.splitext(name)[0]}"
    os.mkdir(folder)
    for number, piece in enumerate(found):
        start, stop = (round(piece[end] * rate / RATE) for end in ("start", "end"))
        soundfile.write(f"{folder}/{number:06d}.wav", samples[start:stop], rate, "PCM_16")


def auditok(task: "Task") -> None:
    """Let auditok.split find loud regions, and save each of them, in a multiprocessing.Pool."""
    in_pool(task, _with_auditok)


def _with_auditok(root: str, out: str, name: str) -> None:
    import auditok as library

    folder = f"{out}/{os.path.splitext(name)[0]}"
    os.mkdir(folder)
    regions = library.split(
        f"{root}/{name}",
        min_dur=0.01,
        max_dur=600,
        max_silence=SILENCE_SECONDS,
        energy_threshold=AUDITOK_ENERGY,
        use_channel="mix",
    )
    for number, region in enumerate(regions):
        region.save(f"{folder}/{number:06d}.wav")


def in_pool(
    task: "Task", cut: Callable[[str, str, str], None], begin: Callable[[], None] | None = None
) -> None:
    """Give each process one recording at a time."""
    with Pool(task.workers, begin) as processes:
        for _ in processes.imap_unordered(partial(cut, str(task.root), str(task.out)), task.names):
            pass


def silence_of_sox() -> list[str]:
    """Return the effects with which sox leaves out silence, and begins a new file after it."""
    return [
        "silence", "1", "0.01", SILENCE_SHARE, "1", str(SILENCE_SECONDS), SILENCE_SHARE,
        ":", "newfile", ":", "restart",
    ]  # fmt: skip
