"""Encode pieces ahead in threads, on CPUs without a worker: the bytes and their order stay the same.

this thread    decodes 0, 1, 2, 3   stores 0   decodes 4   stores 1   decodes 5   stores 2
a thread               encodes 0, 2                   encodes 4
a thread                  encodes 1, 3                   encodes 5
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from splitter.audio.base import MANY_SAMPLES
from splitter.audio.pieces import UncutPiece
from splitter.records import Content, Deferred, OutputFile, content_bytes

# the most samples in all pieces that wait to be stored
_MOST_WAITING = 2 * MANY_SAMPLES


@dataclass(frozen=True, slots=True)
class EncodedPiece(Deferred):
    """A piece that another thread encodes.

    Attributes:
        content: The bytes, as soon as they exist.
        samples: How many samples it has, in all channels.
    """

    content: Future[bytes]
    samples: int

    def made(self) -> Content:
        """Wait for the bytes and return them; raise the exception of the encoder, if there was one."""
        return self.content.result()


def encoded_ahead(outputs: Iterator[OutputFile], threads: int) -> Iterator[OutputFile]:
    """Yield the outputs; while the caller stores one, threads encode those that follow."""
    waiting: deque[OutputFile] = deque()
    with ThreadPoolExecutor(threads, "encoder") as pool:
        try:
            for output in _in_threads(outputs, pool):
                waiting.append(output)
                while waiting and not _may_wait(waiting, 2 * threads):
                    yield waiting.popleft()
        except Exception:
            # as without threads: outputs before the fault are stored first, and may raise an error themselves
            yield from waiting
            raise
        else:
            yield from waiting
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_threads(outputs: Iterator[OutputFile], pool: ThreadPoolExecutor) -> Iterator[OutputFile]:
    """Yield the outputs; let threads encode those that any thread can encode."""
    for output in outputs:
        piece = output.content
        encode = piece.encoder() if isinstance(piece, UncutPiece) else None
        if isinstance(piece, UncutPiece) and encode:
            samples = piece.cut.samples * piece.source.recorded.channels
            yield output._replace(content=EncodedPiece(pool.submit(_in_memory, encode), samples))
        else:
            yield output


def _may_wait(waiting: deque[OutputFile], most: int) -> bool:
    """Return whether all waiting outputs may be stored later, and are not too many."""
    pieces = [output.content for output in waiting if isinstance(output.content, EncodedPiece)]
    # any other output must be stored before more of the recording is read
    return len(pieces) == len(waiting) <= most and sum(one.samples for one in pieces) <= _MOST_WAITING


def _in_memory(encode: Callable[[], Content]) -> bytes:
    return content_bytes(encode())
