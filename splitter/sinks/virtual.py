"""The sink of virtual pieces: no sound is written, and each row says how to cut its piece when it is read."""

from collections.abc import Collection

from splitter.audio.pieces import UncutPiece
from splitter.errors import BadResult
from splitter.inputs.pieces import CUT, SOURCE_CHECKSUM, SOURCE_SIZE
from splitter.records import Content, Scratch
from splitter.sinks.base import OutputOwner, Sink, SinkWriter, StoredOutput
from splitter.storage.base import Storage
from splitter.storage.content import measure


class VirtualSink(Sink):
    """A sink that makes each output a row, named as a loose file would be."""

    columns = ((CUT, "str"), (SOURCE_SIZE, "int"), (SOURCE_CHECKSUM, "str"))
    makes_files = False

    def open(
        self,
        storage: Storage,  # noqa: ARG002 - nothing is staged
        batch: str,  # noqa: ARG002
        stale: Collection[str] = (),  # noqa: ARG002
        group: int = 0,  # noqa: ARG002
    ) -> "VirtualWriter":
        return VirtualWriter()


class VirtualWriter(SinkWriter):
    """A writer that records how to cut each piece, and the size and checksum of its recording."""

    def __init__(self) -> None:
        self._path = ""
        self._source = 0, ""

    def store(self, folder: str, name: str, content: Content, scratch: Scratch) -> StoredOutput:  # noqa: ARG002
        if not isinstance(content, UncutPiece):
            raise BadResult(
                f"--sink virtual: {name!r:.100} is not a piece of its recording, and cannot be cut out of it "
                "when it is read; use --sink files"
            )
        if self._path != content.source.path:
            self._path = content.source.path
            self._source = measure(self._path)
        size, checksum = self._source
        return StoredOutput(f"{folder}/{name}", None, "", (str(content.cut), str(size), checksum))

    def drop_input(self) -> None:
        self._path = ""

    def keep_input(self, owner: OutputOwner | None = None) -> None:  # noqa: ARG002 - only for shards
        self._path = ""

    def names(self) -> list[str]:
        """Return no names: there will be no files."""
        return []

    def publish(self) -> None:
        """Publish nothing: the rows are in the commit record."""
