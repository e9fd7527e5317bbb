"""Decode what libsndfile does not read, such as M4A, WebM and WMA, through PyAV."""

import errno
import io
from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from fractions import Fraction
from typing import Any

import av
import av.error
import numpy as np

from splitter.audio.decoders import Decoder, Truncated, ends_early
from splitter.audio.formats.asf import seconds_before_cut
from splitter.audio.formats.base import SoundFormat
from splitter.audio.formats.flac import unpacked
from splitter.audio.formats.mp3 import bit_rate_of
from splitter.audio.formats.mp4 import lacks_index, seconds_of_plain_edit
from splitter.audio.formats.ogg.counted import CountedOgg
from splitter.audio.formats.whole_stream import blocks_of, can_be_rounded, planes_of, rounds_to_even
from splitter.errors import AudioError

# recordings only: a playlist would make FFmpeg open, or even download, other files
_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,iff,matroska,mov,mp3,mpc,mpc8,"
    "mpeg,mpegts,nistsphere,oga,ogg,oma,qcp,rm,shn,tak,tta,voc,w64,wav,webm,wsd,wv,xwma"
)
_NO_PROTOCOL = "none"
_NO_INDEX = "it ends before its index (moov), which is written last: copy it again, or repair it"
_CONTAINERS = {"mov": "MP4", "asf": "WMA", "nistsphere": "NIST"}
# FFmpeg's sample formats -> libsndfile's names of the encodings that hold them exactly
_HOLDING = {"u8": "PCM_U8", "s16": "PCM_16", "s32": "PCM_32", "dbl": "DOUBLE"}
_FLOATS = "fltp"
# so many samples of a block stay in the processor's cache while they are rounded and written
_ROUNDED_AT_ONCE = 1 << 16
_ALAC_DEPTH_AT = 17
# follows edit lists with less memory: correct for those that only leave out the first samples
_SIMPLE_EDITS = {"advanced_editlist": "0"}
# the container and encoding to read in blocks of seconds; others have larger packets, or are rare
_IN_SECONDS = ("mov", "aac")
# stated lengths are not exact: less than this, in seconds or in blocks, does not count as missing
_SHORT_SECONDS, _FEW_BLOCKS = 0.1, 2


class AvDecoder(Decoder):
    """FFmpeg as a decoder, which leaves out what the encoder added before the sound."""

    _blocks: Generator[av.AudioFrame, None, None]
    _first: av.AudioFrame
    _seconds: float

    def __init__(self, path: str, truncated: Truncated) -> None:
        self._path, self._truncated = path, truncated
        # the second that decoding has reached, whether sound before it could not be decoded, and for Ogg the
        # sign that pages are missing
        self._reached, self._is_damaged, self._loss = 0.0, False, ""
        # whether all blocks come from FFmpeg's filters, some of them as 16-bit integers
        self._is_rounding = False
        self._opened, self._edited = ExitStack(), seconds_of_plain_edit(path)
        self._options = _SIMPLE_EDITS if self._edited else {}
        with ExitStack() as opened:
            file = opened.enter_context(SeekableFile(path))
            try:
                container = opened.enter_context(open_container(file, **self._options))
                stream = self._open(container)
            except av.error.FFmpegError as error:
                raise AudioError(_NO_INDEX if lacks_index(path) else error.strerror or str(error)) from error
            kind = container.format.name.partition(",")[0]
            if (kind, stream.codec_context.name) == _IN_SECONDS and self._seconds:
                self._blocks = self._in_seconds(kind, stream.index)
            else:
                self._add(self._first)
                self._opened = opened.pop_all()

    def _open(self, container: Any) -> Any:  # noqa: ANN401 - PyAV's
        """Examine the stream of sound, and decode its first block; return the stream."""
        if not container.streams.audio:
            raise AudioError("there is no sound in it")
        if container.format.name == "mp3" and bit_rate_of(self._path) == "none":
            raise AudioError("it contains no whole frame of sound")
        stream = container.streams.audio[0]
        if stream.codec_context is None:
            raise AudioError("there is no decoder for its sound")
        self._blocks = self._decoded(container, stream)
        first = next(self._blocks, None)
        if first is None:
            raise AudioError("none of its sound can be decoded")
        self._first, self._stated = first, _stated(stream, first.sample_rate)
        if container.format.name == "ogg":
            with open(self._path, "rb") as file:
                self._loss = CountedOgg(file.fileno()).loss
        is_asf = container.format.name == "asf"
        stated = seconds_before_cut(self._path) if is_asf else seconds_stated(container, stream)
        self._seconds = self._edited or stated
        self.format = _format_of(container, stream, first)
        self._kind = _kind(first)
        self._decoded_samples = av.AudioFifo()
        return stream

    def read(self, frames: int) -> np.ndarray:
        block = self._next(frames) if frames else None
        if block is None:
            if frames:
                self._check_end()
            return np.empty((0, self.format.channels), self.format.dtype)
        self.frames += block.samples
        return self._numbers(block)

    def _next(self, frames: int) -> av.AudioFrame | None:
        waiting = self._decoded_samples
        while waiting.samples < frames and (block := next(self._blocks, None)) is not None:
            is_whole = not waiting.samples and block.samples == frames and _kind(block) == self._kind
            if is_whole or self._is_rounding:
                # saves copying it
                return block
            self._add(block)
        return waiting.read(frames, partial=True)

    def _check_end(self) -> None:
        rate = self.format.rate
        stated = self._stated or round(self._seconds * rate)
        is_short = lacks_sound(self._seconds, self._reached, self._first.samples / rate)
        if not (is_short or self.frames < self._stated or self._is_damaged or self._loss):
            return
        self.lacks_sound = True
        if self._truncated == "error":
            how = "is damaged in the middle" if self._is_damaged else self._loss or "ends early"
            raise ends_early(self._path, how, self.frames, stated if stated > self.frames else 0)

    def _add(self, block: av.AudioFrame) -> None:
        """Add a decoded block to those that wait; raise AudioError if its format is not that of the first."""
        if _kind(block) != self._kind:
            raise AudioError(
                f"{self._path}: changes from {_in_words(self._kind)} to {_in_words(_kind(block))} "
                f"after {self.frames + self._decoded_samples.samples:,} samples"
            )
        # its time was used before, and AudioFifo would refuse one that does not follow from the block before
        block.pts = None
        self._decoded_samples.write(block)

    def _numbers(self, block: av.AudioFrame) -> np.ndarray:
        """Return decoded samples, channels in columns."""
        planes = planes_of(block)
        numbers = (
            np.vstack(planes).T if block.format.is_planar else planes[0].reshape(-1, self.format.channels)
        )
        return (numbers.astype(np.int16) - 128) << 8 if numbers.dtype == np.uint8 else numbers

    def _in_seconds(self, kind: str, index: int) -> Generator[av.AudioFrame, None, None]:
        """Yield what FFmpeg decodes by itself; from the first fault on, decode packet by packet."""
        rate, frames, count, begin = self.format.rate, self.format.frames_at_once, 0, 0.0
        rounded = self._is_rounding = self.may_round and self._kind[2] == _FLOATS and rounds_to_even()
        if rounded:
            frames = min(frames, _ROUNDED_AT_ONCE // self.format.channels)
        blocks = blocks_of(self._path, kind, index, frames, self._options, rounded=rounded)
        with suppress(av.error.FFmpegError, ValueError):
            for block, integers in blocks:
                if _kind(block) != self._kind:
                    break
                if not count:
                    begin = block.time or 0.0
                count += block.samples
                self._reached = begin + count / rate
                yield integers if rounded and can_be_rounded(block) else block
            if count and self._reached + 1 / rate > self._seconds:
                return
        yield from self._after(count, index)

    def _after(self, count: int, index: int) -> Iterator[av.AudioFrame]:
        """Decode packet by packet; yield what comes after `count` frames."""
        self._reached, self._is_rounding, waiting = 0.0, False, av.AudioFifo()
        with SeekableFile(self._path) as file, open_container(file, **self._options) as container:
            stream = container.streams[index]
            for block in self._decoded(container, stream):
                if block.samples <= count:
                    count -= block.samples
                elif not count:
                    yield block
                else:
                    block.pts = None
                    waiting.write(block)
                    waiting.read(count)
                    yield from filter(None, [waiting.read()])
                    count = 0

    def _decoded(self, container: Any, stream: Any) -> Generator[av.AudioFrame, None, None]:  # noqa: ANN401 - PyAV's
        """Yield all blocks that can be decoded; skip the others, as FFmpeg does."""
        stream.codec_context.thread_count = 1
        failed = False
        for packet in packets_of(self._path, container, stream):
            try:
                blocks = stream.codec_context.decode(packet)
            except av.error.FFmpegError:
                # a stream recorded from the middle may begin with packets that cannot be decoded
                failed = self._reached > 0
                continue
            for block in blocks:
                self._is_damaged = self._is_damaged or (failed and packet is not None)
                begin = self._reached if block.time is None else block.time
                self._reached = begin + block.samples / block.sample_rate
                yield block

    def close(self) -> None:
        self._blocks.close()
        self._opened.close()


class SeekableFile(io.FileIO):
    """A file in which FFmpeg may seek to any offset that a damaged header states."""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Return an error code of FFmpeg on failure: an exception would be printed, and raised much later."""
        try:
            return super().seek(offset, whence)
        except (OSError, OverflowError):
            return -errno.EINVAL


def open_container(file: SeekableFile, **more: str) -> Any:  # noqa: ANN401 - PyAV's
    """Open a recording; FFmpeg must not open any other file."""
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": _NO_PROTOCOL, **more}
    # tags may not be UTF-8, and nobody needs them
    return av.open(file, options=options, metadata_errors="replace")


def packets_of(path: str, container: Any, stream: Any) -> Iterator[Any]:  # noqa: ANN401 - PyAV's
    """Yield all packets, then None, which makes the decoder return all that it still has."""
    try:
        # a file may end in the middle of a packet
        with suppress(av.error.FFmpegError):
            yield from (packet for packet in container.demux(stream) if packet.size)
    except IndexError:
        raise AudioError(
            f"{path}: another stream begins in the middle of it, which PyAV does not read; convert it first, "
            "for example with ffmpeg"
        ) from None
    yield None


def _kind(block: av.AudioFrame) -> tuple[int, int, str]:
    """Return the rate, channels and sample format of a block, which must not change in a recording."""
    return block.sample_rate, block.layout.nb_channels, block.format.name


def _in_words(kind: tuple[int, int, str]) -> str:
    return "{} Hz, {} channels, {}".format(*kind)


def _format_of(container: Any, stream: Any, first: av.AudioFrame) -> SoundFormat:  # noqa: ANN401 - PyAV's
    name = container.format.name.partition(",")[0]
    codec = stream.codec_context
    kind = first.format.name.removesuffix("p")
    if kind not in {*_HOLDING, "flt"}:
        raise AudioError(f"its sample format is not supported: {first.format.name}")
    holding = _HOLDING.get(kind, "FLOAT" if codec.codec.lossless else "")
    if kind == "s32" and _depth(codec) <= 24:  # noqa: PLR2004
        holding = "PCM_24"
    return SoundFormat(
        _CONTAINERS.get(name, name.upper()),
        codec.name.upper(),
        len(first.layout.channels),
        first.sample_rate,
        holding=holding,
    )


def _depth(codec: Any) -> int:  # noqa: ANN401 - PyAV's
    """Return how many of 32 bits a lossless codec uses, as far as that is known."""
    about = bytes(codec.extradata or b"")
    if codec.name == "alac" and len(about) > _ALAC_DEPTH_AT:
        return about[_ALAC_DEPTH_AT]
    if codec.name == "flac" and about:
        return unpacked(about[10:18])[0]
    return 24 if "24" in codec.name else 32


def _stated(stream: Any, rate: int) -> int:  # noqa: ANN401 - PyAV's
    """Return how many frames a lossless recording states; 0 if it states no exact number."""
    about = bytes(stream.codec_context.extradata or b"")
    if stream.codec_context.name == "flac" and about:
        # in any container, only the number in the header of FLAC itself is exact
        return unpacked(about[10:18])[-1]
    exact = stream.codec_context.codec.lossless and stream.time_base == Fraction(1, rate)
    return stream.duration if exact and stream.duration else 0


def seconds_stated(container: Any, stream: Any) -> float:  # noqa: ANN401 - PyAV's
    """Return how many seconds of sound an MP4 or Matroska file states; 0 if it does not."""
    kind = container.format.name.partition(",")[0]
    if kind == "mov" and stream.duration:
        return float(stream.duration * stream.time_base)
    # Matroska states the length of all streams together; that of a single stream may be FFmpeg's guess
    if kind == "matroska" and len(container.streams) == 1 and not stream.duration and container.duration:
        return float(container.duration / av.time_base)
    return 0.0


def lacks_sound(stated: float, reached: float, block: float) -> bool:
    """Return whether sound ends earlier than stated by more than a few blocks; all three are in seconds."""
    return stated - reached > max(_SHORT_SECONDS, _FEW_BLOCKS * block)
