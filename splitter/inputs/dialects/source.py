"""Which tool wrote the file or folder that DATASET names, and the rows in it."""

import collections
import os
from typing import Any

from splitter.errors import Refused
from splitter.inputs.dialects.base import INPUT, Dialect, Written
from splitter.inputs.dialects.files import lines, look
from splitter.inputs.listing import InputList
from splitter.inputs.source import InputSource, ListReading, SourceRows, refuse_others
from splitter.registry import DIALECTS
from splitter.stores.listings import fetched_list
from splitter.text.urls import is_url, parent, without_secrets

# no other source reads files with this ending
_PACKED_LINES = ".jsonl.gz"


class DialectSource(InputSource):
    """A file or folder that another tool wrote: recognized by its content, or named with --from."""

    takes = Dialect.takes | {"member"}
    looks_inside = True

    def is_meant(self, location: Any, listing: InputList) -> bool:  # noqa: ANN401 - as the seam
        """Accept everything with --from, any .jsonl.gz, and local data that a dialect recognizes."""
        if not isinstance(location, str):
            return False
        if listing.from_ is not None:
            return True
        if listing.column != INPUT:
            return False
        if (listing.patterns or listing.folder_label) and os.path.isdir(location):
            # the files in it are the inputs, even if a tool wrote the folder
            return False
        if location.lower().endswith(_PACKED_LINES) and (is_url(location) or os.path.isfile(location)):
            return True
        return not is_url(location) and dialect_of(look(location, location)) is not None

    def read(self, location: Any, listing: InputList, reading: ListReading) -> SourceRows:  # noqa: ANN401
        """Return a row for each recording; if the recipe groups rows, return one for each of its parts."""
        if listing.column != INPUT:
            raise Refused(f"--column {listing.column}: is only for a dataset list; leave it out")
        there, home = _fetched(location, reading)
        dialect = _named(listing.from_, there) if listing.from_ is not None else dialect_of(there)
        if dialect is None:
            advice = "name one with --from"
            if there.name.lower().endswith(_PACKED_LINES):
                # a damaged file is not recognized; reading all of it finds the damage
                collections.deque(lines(there.path, there.name), maxlen=0)
                advice += ", or unpack it"
            raise Refused(f"{there.name}: is not in the format of a known tool; {advice}")
        refuse_others(listing, dialect.takes)
        return dialect.read(there, home, listing, reading)


def dialect_of(there: Written) -> Dialect | None:
    """Return the dialect that recognizes the content; None if none does."""
    if not there.head and not there.is_folder:
        return None
    if INPUT in (there.fields or {}):
        return None
    kinds = (DIALECTS.load(name, Dialect)() for name in DIALECTS.own)
    return next((kind for kind in kinds if kind.is_written(there)), None)


def _named(name: str, there: Written) -> Dialect:
    """Return the dialect that --from names; refuse a file if it reads a folder, and the reverse."""
    dialect: Dialect = DIALECTS.load(name, Dialect)()
    if not os.path.exists(there.path):
        raise Refused(f"{there.name}: does not exist; check DATASET")
    if dialect.reads_folder not in (None, there.is_folder):
        raise Refused(f"{there.name}: --from {name} reads {dialect.shape}")
    return dialect


def _fetched(location: str, reading: ListReading) -> tuple[Written, str]:
    """Return the file or folder, copied if it is at a URL, and the folder that relative paths start from."""
    if not is_url(location):
        is_folder = os.path.isdir(location)
        return look(location, location), location if is_folder else os.path.dirname(location)
    file, path = fetched_list(location)
    reading.held.enter_context(file)
    return look(path, without_secrets(location)), parent(location)
