"""The jobs of the benchmarks of sound."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from workload import read_list


@dataclass(frozen=True)
class Job:
    """One kind of work.

    Attributes:
        name: Its name on the command line.
        title: Its description.
        small: Recordings in the small set; the large one has ten times as many.
        length: Seconds of a recording. The windows fill it, because tools disagree on the tail.
        rate: The sample rate of the recordings.
        recorded_as: The ending of the recordings.
        window: Seconds of a piece.
        hop: Seconds from the start of a piece to the start of the next.
        made_rate: The sample rate of the pieces, which are mono if it differs from that of the recordings.
        made_as: The ending of the pieces.
        per: The unit of the cost of more work: an hour of sound, or a file.
    """

    name: str
    title: str
    small: int
    length: int
    rate: int
    recorded_as: str
    window: int
    hop: Fraction
    made_rate: int
    made_as: str
    per: str = "hour"

    @property
    def resamples(self) -> bool:
        """Whether the pieces have another rate, and one channel."""
        return self.made_rate != self.rate

    @property
    def is_lossy(self) -> bool:
        """Whether the recordings are in a lossy format."""
        return self.recorded_as in CODECS

    @property
    def keeps_format(self) -> bool:
        """Whether the pieces have the format of the recordings."""
        return self.made_as == self.recorded_as

    @property
    def listens(self) -> bool:
        """Whether the sound decides where to cut."""
        return self.name in LISTENING

    def windows(self, rate: int) -> list[tuple[int, int]]:
        """Return the first sample of each piece, and the one after its last."""
        count = int((self.length - self.window) / self.hop) + 1
        starts = [round(number * self.hop * rate) for number in range(count)]
        return [(start, start + self.window * rate) for start in starts]

    @property
    def recipe(self) -> str:
        """The recipe that does the job."""
        return self.name if self.listens else "chunk"

    def options(self) -> list[str]:
        """Return the options of splitter for the job."""
        if self.listens:
            return []
        options = ["--seconds", str(self.window), "--overlap", str(float(self.window - self.hop))]
        if self.resamples:
            options += ["--sample-rate", str(self.made_rate), "--channels", "mono"]
        if not self.keeps_format or self.resamples:
            options += ["--format", self.made_as]
        return options

    def cost(self, seconds: float, recordings: int) -> float:
        """Return a time in the unit of this job's table."""
        if self.per == "hour":
            return seconds / (recordings * self.length / 3600)
        return seconds / recordings * 1e6

    @property
    def unit(self) -> str:
        """The unit of this job's table."""
        return "s per more hour" if self.per == "hour" else "us per more file"


# how ffmpeg encodes the lossy recordings, by their endings
CODECS = {
    "mp3": ("-c:a", "libmp3lame", "-b:a", "192k"),
    "opus": ("-c:a", "libopus", "-b:a", "64k"),
    "ogg": ("-c:a", "libvorbis", "-q:a", "5"),
    "m4a": ("-c:a", "aac", "-b:a", "128k"),
}
COPIED = ("mp3", "opus")
_LONG = {"length": 600, "rate": 44_100, "window": 10, "hop": Fraction(10)}
JOBS = {
    job.name: job
    for job in (
        Job(
            name="wav",
            title="WAV, 10 min stereo 44.1 kHz 16 bit, in 10 s WAV",
            small=2,
            recorded_as="wav",
            made_rate=44_100,
            made_as="wav",
            **_LONG,
        ),
        Job(
            name="resample",
            title="WAV, 10 min stereo 44.1 kHz 16 bit, in 10 s FLAC of 16 kHz mono",
            small=4,
            recorded_as="wav",
            made_rate=16_000,
            made_as="flac",
            **_LONG,
        ),
        Job(
            name="many",
            title="WAV, 2 s mono 16 kHz 16 bit, in windows of 1 s with half overlap",
            small=400,
            length=2,
            rate=16_000,
            recorded_as="wav",
            window=1,
            hop=Fraction(1, 2),
            made_rate=16_000,
            made_as="wav",
            per="file",
        ),
        Job(
            name="flac",
            title="FLAC, 10 min stereo 44.1 kHz 16 bit, in 10 s FLAC",
            small=4,
            recorded_as="flac",
            made_rate=44_100,
            made_as="flac",
            **_LONG,
        ),
    )
}
LOSSLESS = tuple(JOBS)


def _lossy_jobs(ending: str, title: str, rate: int) -> Iterator[Job]:
    """Yield the jobs on recordings in a lossy format."""
    about = f"{title}, 10 min stereo, in 10 s"
    common = {**_LONG, "rate": rate, "recorded_as": ending}
    if ending != "m4a":
        # copying takes so little time that a few recordings would not show it
        small = 8 if ending in COPIED else 2
        yield Job(
            name=ending, title=f"{about} of the same", small=small, made_rate=rate, made_as=ending, **common
        )
    common["small"] = 2
    yield Job(name=f"{ending}-wav", title=f"{about} WAV", made_rate=rate, made_as="wav", **common)
    yield Job(
        name=f"{ending}-16k", title=f"{about} FLAC, 16 kHz mono", made_rate=16_000, made_as="flac", **common
    )


JOBS |= {
    job.name: job
    for ending, title, rate in (
        ("mp3", "MP3 of 192 kbit/s", 44_100),
        ("opus", "Opus of 64 kbit/s", 48_000),
        ("ogg", "Ogg Vorbis of quality 5", 44_100),
        ("m4a", "M4A (AAC) of 128 kbit/s", 44_100),
    )
    for job in _lossy_jobs(ending, title, rate)
}
LISTENING = ("speech", "silence")
JOBS |= {
    name: Job(
        name=name,
        title=f"WAV, 10 min stereo 44.1 kHz 16 bit, cut where there is {what}",
        small=2,
        recorded_as="wav",
        made_rate=44_100,
        made_as="wav",
        **_LONG,
    )
    for name, what in zip(LISTENING, ("speech", "no silence"), strict=True)
}


@dataclass(frozen=True)
class RecordingSet:
    """The recordings of one size of a job."""

    job: Job
    dataset: Path

    @property
    def names(self) -> list[str]:
        """The recordings, as the list names them."""
        return [name for name, _ in read_list(self.dataset)]

    @property
    def recordings(self) -> list[Path]:
        """The paths of the recordings."""
        return [self.dataset.parent / name for name in self.names]

    @property
    def originals(self) -> list[Path]:
        """The first of each group of links to the same file, in the order of the list."""
        return list({path.stat().st_ino: path for path in reversed(self.recordings)}.values())[::-1]
