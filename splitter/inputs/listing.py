"""What a user may give as inputs: one list or several, and how to read them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from splitter.errors import Refused
from splitter.text.urls import without_secrets


@dataclass(frozen=True)
class InputList:
    """The source of the inputs, and how to read it.

    Attributes:
        source: A CSV, TSV, JSONL or Parquet file, a folder, the URL of one of these, or from Python a list of
            paths or of row dicts, a DataFrame, or a dataset of paths.
        column: The column that holds the paths.
        root: The folder or URL that relative paths start from, itself relative to the list's folder.
        delimiter: Column delimiter of a CSV list.
        pattern: Which files of a folder source to take: one or several patterns, any of which may match.
        rename: New names for columns.
        folder_label: The name of a new column for the folder that each file of a folder source is in.
        labels: A file, or a Python object such as a DataFrame, whose columns are joined to the rows.
        on: The column to join them on, or two as COLUMN=ITS-COLUMN.
        where: A condition over the columns; other rows are left out.
        member: Which field of each sample in a tar archive is the input, or which column of a Parquet file;
            alternatives separated by semicolons, such as `flac;wav`.
        all_rows: Whether to take also the outputs of a run that `--keep` left out.
        not_inputs: The endings of files that a folder source leaves out, each with the kind of such files.
        from_: The tool that wrote the source, as for `--from`; needed only if the content does not show it.
    """

    source: Any
    column: str = "input"
    root: str | os.PathLike[str] | None = None
    delimiter: str | None = None
    pattern: str | Sequence[str] | None = None
    rename: Mapping[str, str] | None = None
    folder_label: str | None = None
    labels: Any = None
    on: str | None = None
    where: str | None = None
    member: str | None = None
    all_rows: bool | None = None
    not_inputs: Mapping[str, str] | None = None
    from_: str | None = None

    def __post_init__(self) -> None:
        """Refuse values of the wrong type, and `on` without `labels`."""
        path, text = (str, os.PathLike, type(None)), (str, type(None))
        kinds_of = {"column": (str,), "root": path}
        kinds_of |= dict.fromkeys(("from_", "delimiter", "folder_label", "on", "where", "member"), text)
        for name, kinds in kinds_of.items():
            if not isinstance(getattr(self, name), kinds):
                raise Refused(f"InputList: {name}={getattr(self, name)!r:.100} is not text")
        several = isinstance(self.pattern, Sequence) and all(isinstance(one, str) for one in self.pattern)
        if self.pattern is not None and not several:
            raise Refused(f"InputList: pattern={self.pattern!r:.100} is neither text nor a list of texts")
        rename: object = self.rename or {}
        names = [name for pair in rename.items() for name in pair] if isinstance(rename, Mapping) else [None]
        if not all(isinstance(name, str) for name in names):
            raise Refused(f"InputList: rename={rename!r:.100} is not a dict of old names and new ones")
        if self.on is not None and self.labels is None:
            raise Refused(f"--on {self.on!r} only works with --labels; add --labels, or leave it out")

    def __add__(self, other: "InputList") -> "InputList":
        """Return both lists as one: the inputs of this list, then those of the other."""
        if not isinstance(other, InputList):
            return NotImplemented
        return InputList(ListSequence((*_parts_of(self), *_parts_of(other))), column=self.path_column)

    def shown(self) -> str:
        """Return a short description of the source, for messages."""
        if isinstance(self.source, ListSequence):
            return " + ".join(part.shown() for part in self.source.parts)
        if isinstance(self.source, (str, bytes, os.PathLike)):
            return repr(without_secrets(os.fsdecode(self.source)))
        kind = type(self.source).__name__
        # the __len__ of a user's dataset may do anything
        has_length = isinstance(self.source, (list, tuple)) or hasattr(self.source, "itertuples")
        return f"<{kind} of {len(self.source):,}>" if has_length else f"<{kind}>"

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return the patterns, one of which the name of a file must match; empty if any name will do."""
        return (self.pattern,) if isinstance(self.pattern, str) else tuple(self.pattern or ())

    @property
    def path_column(self) -> str:
        """Return the name of the column of paths after renaming."""
        return (self.rename or {}).get(self.column, self.column)

    def with_options(self, **given: Any) -> "InputList":  # noqa: ANN401 - fields of this class
        """Return the list with other options; if it is several lists, each gets the options of its kind."""
        rename = {**(self.rename or {}), **given.pop("rename", {})}
        if not isinstance(self.source, ListSequence):
            return replace(self, **given, rename=rename)
        whole = {name: given.pop(name) for name in ("labels", "on", "where") if name in given}
        takes = [_options_of(part) for part in self.source.parts]
        # an option that no list takes goes to all of them, and each refuses it
        for_all = given.keys() - set[str]().union(*takes)
        parts = tuple(
            part.with_options(**{name: given[name] for name in given if name in own | for_all}, rename=rename)
            for part, own in zip(self.source.parts, takes, strict=True)
        )
        return replace(self, source=ListSequence(parts), column=parts[0].path_column, **whole)


@dataclass(frozen=True)
class ListSequence:
    """Lists that are read one after the other."""

    parts: tuple[InputList, ...]


def _parts_of(listing: InputList) -> tuple[InputList, ...]:
    plain = isinstance(listing.source, ListSequence) and listing.labels is None and listing.where is None
    return listing.source.parts if plain else (listing,)


def _options_of(part: InputList) -> set[str]:
    """Return the options that make sense for a source."""
    if isinstance(part.source, ListSequence):
        return {"column"}.union(*map(_options_of, part.source.parts))
    # `sources` imports this module
    from splitter.inputs.sources import source_of

    source, location = source_of(part)
    return source.options(location)
