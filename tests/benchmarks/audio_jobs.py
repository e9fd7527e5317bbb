"""The four jobs that sound is measured by."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from workload import read_list


@dataclass(frozen=True)
class Job:
    """One kind of work.

    Attributes:
        name: What it is called on the command line.
        title: What it is.
        small: Recordings in the small set; the large one has ten times as many.
        length: Seconds of a recording. The windows fill it: there is no tail, on which tools disagree.
        rate: Of the recordings.
        recorded_as: The ending of the recordings.
        window: Seconds of a piece.
        hop: Seconds from the start of a piece to that of the next.
        made_rate: Of the pieces, which are mono if it differs from that of the recordings.
        made_as: The ending of the pieces.
        per: What the cost of more work is counted by, seconds of sound or recordings.
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

    def windows(self, rate: int) -> list[tuple[int, int]]:
        """The first sample of each piece, and the one after its last."""
        count = int((self.length - self.window) / self.hop) + 1
        starts = [round(number * self.hop * rate) for number in range(count)]
        return [(start, start + self.window * rate) for start in starts]

    def options(self) -> list[str]:
        """Say it in splitter's words."""
        options = ["--seconds", str(self.window), "--overlap", str(float(self.window - self.hop))]
        if self.resamples:
            options += ["--sample-rate", str(self.made_rate), "--channels", "mono", "--format", self.made_as]
        return options

    def cost(self, seconds: float, recordings: int) -> float:
        """Put a time in the unit of this job's table."""
        if self.per == "hour":
            return seconds / (recordings * self.length / 3600)
        return seconds / recordings * 1e6

    @property
    def unit(self) -> str:
        """Name that unit."""
        return "s per more hour" if self.per == "hour" else "us per more file"


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


@dataclass(frozen=True)
class RecordingSet:
    """The recordings of one size of a job."""

    job: Job
    dataset: Path

    @property
    def names(self) -> list[str]:
        """The recordings, as listed."""
        return [name for name, _ in read_list(self.dataset)]

    @property
    def recordings(self) -> list[Path]:
        """Where they are."""
        return [self.dataset.parent / name for name in self.names]

    @property
    def originals(self) -> list[Path]:
        """The first of each group of links to the same file, in the order of the list."""
        return list({path.stat().st_ino: path for path in reversed(self.recordings)}.values())[::-1]
