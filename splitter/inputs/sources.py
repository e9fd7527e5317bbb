"""The kinds of input there are, and which of them reads what DATASET names.

Another package adds a kind with an entry point of the group `splitter.inputs`, whose name is the ending of
the paths, without the dot, or the scheme of the URLs that it reads.
"""

import os
from collections.abc import Iterator
from typing import Any

from splitter.errors import Refused
from splitter.inputs.dialects.source import DialectSource
from splitter.inputs.folders import FolderSource
from splitter.inputs.listing import InputList
from splitter.inputs.lists import LISTS, suffix_of
from splitter.inputs.next_stage import AnyListSource, ManifestSource
from splitter.inputs.objects import ObjectSource
from splitter.inputs.roots import absolute_path
from splitter.inputs.shards.scan import ShardSource
from splitter.inputs.source import InputSource, ListReading, SourceRows, refuse_others
from splitter.inputs.stages import StageSource
from splitter.registry import INPUTS

# asked in this order; a list reads any path
SOURCES: tuple[type[InputSource], ...] = (
    StageSource,
    ObjectSource,
    ShardSource,
    DialectSource,
    FolderSource,
    ManifestSource,
    AnyListSource,
)
# our own endings and schemes, which other packages cannot take over
_OWN = {
    *("tar", "gz", "tgz", "bz2", "xz", "zst", "http", "https", "file", "s3"),
    *(suffix.lstrip(".") for suffix in LISTS),
}


def source_of(listing: InputList) -> tuple[InputSource, Any]:
    """Return the source that reads a DATASET, and the DATASET as an absolute path, a URL or an object."""
    return next(_sources_of(listing))


def rows_of(listing: InputList, reading: ListReading) -> SourceRows:
    """Return the header and rows of a DATASET."""
    for source, location in _sources_of(listing):
        if not source.looks_inside:
            refuse_others(listing, source.takes)
        found = source.read(location, listing, reading)
        if found is not None:
            if source.looks_inside:
                refuse_others(listing, source.takes)
            return found
    raise Refused(f"{listing.shown()}: no kind of input reads it")


def _sources_of(listing: InputList) -> Iterator[tuple[InputSource, Any]]:
    location = listing.source
    if isinstance(location, (str, bytes, os.PathLike)):
        location = absolute_path(os.fsdecode(location), "DATASET")
    for kind in (*_added(location), *SOURCES):
        source = kind()
        if source.is_meant(location, listing):
            yield source, location


def _added(location: Any) -> Iterator[type[InputSource]]:  # noqa: ANN401 - whatever a user has
    """Yield the kinds of other packages that may read a path or URL."""
    if isinstance(location, str):
        scheme, sign, _ = location.partition("://")
        names = {suffix_of(location).lstrip("."), scheme if sign else ""} - _OWN - {""}
        for name in sorted(names & {*INPUTS.names()}) if names else ():
            if name != scheme or not _is_a_store(scheme):
                yield INPUTS.load(name, InputSource)


def _is_a_store(scheme: str) -> bool:
    """Return whether fsspec reads files from URLs of this scheme: no other package can take it over."""
    from fsspec.registry import known_implementations

    return scheme in known_implementations
