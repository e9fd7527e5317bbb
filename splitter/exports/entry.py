"""`splitter.export`: write what a run made in the form that another tool opens."""

import inspect
import os
from dataclasses import dataclass
from typing import Any

from splitter.errors import Refused
from splitter.exports.base import Export
from splitter.exports.corpus import Corpus
from splitter.exports.target import ExportTarget
from splitter.outputs.tables import folder_of
from splitter.registry import EXPORTS
from splitter.text.show import show_bytes, show_count
from splitter.text.urls import file_name, is_url


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes:
        folder: The folder that was written.
        pieces: The number of pieces in it.
        files: The number of files, not counting those of single pieces.
        linked: The number of files that are hard links to outputs.
        copied: The number of bytes of content that were copied.
        note: A warning for the user; empty if there is none.
    """

    folder: str
    pieces: int
    files: int
    linked: int
    copied: int
    note: str = ""

    def line(self) -> str:
        """Return one line that tells the user what was written."""
        line = f"{self.folder}: {show_count(self.pieces, 'piece')} in {show_count(self.files, 'file')}"
        if self.linked:
            line += f", {show_count(self.linked, 'hard link')}"
        return f"{line}; {show_bytes(self.copied) if self.copied else 'no'} content copied"


def export(  # noqa: PLR0913 - each is an option
    output: str | os.PathLike[str],
    to: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    where: str | None = None,
    all_rows: bool = False,
    absolute: bool = False,
    text: str | None = None,
    speaker: str | None = None,
    **options: Any,  # noqa: ANN401 - those of the format
) -> Exported:
    """Write an index of what a run made, in the form that another tool opens, to a folder next to it.

    Args:
        output: The output folder of a run, or its URL.
        to: The format; `splitter export --list` names them.
        folder: The folder to write; it replaces all of an earlier export. Default: `<output>-<format>`.
        where: Only the pieces whose row matches a condition, such as "split == 'train'".
        all_rows: Also the pieces that `--keep` left out.
        absolute: Write absolute paths. Default: relative to the folder.
        text: The column that holds what is spoken. Default: `text`, or another usual name.
        speaker: The column that holds who speaks. Default: `speaker` or `speaker_id`.
        options: The options of the format.
    """
    kind = EXPORTS.load(to, Export)
    for name, value in (("absolute", absolute), ("text", text), ("speaker", speaker)):
        if value and name in kind.unused:
            raise Refused(f"--{name}: has no meaning for --to {to}; leave it out")
    given = os.fsdecode(output)
    new = _folder_for(given, to, folder)
    corpus = Corpus(given, where=where, all_rows=all_rows, text=text, speaker=speaker)
    _refuse_overlap(corpus.output, new)
    try:
        inspect.signature(kind).bind(corpus, **options)
    except TypeError as error:
        raise Refused(f"splitter.export: {to}: {error}") from None
    written = kind(corpus, **options)
    target = ExportTarget(new, corpus, to, absolute=absolute)
    try:
        written.write(target)
        _refuse_nothing(corpus, given, where)
        target.publish()
    except BaseException:
        target.discard()
        raise
    note = "" if "text" in kind.unused else _note(corpus)
    return Exported(new, corpus.count, target.files, target.linked, target.copied, note)


def _note(corpus: Corpus) -> str:
    """Return a warning if pieces have the text of their whole recording; empty if they do not."""
    if not corpus.repeated:
        return ""
    return (
        f"{show_count(corpus.repeated, 'piece')} with the same text as the piece before, because the dataset "
        "list has texts of whole recordings; name a column with the texts of pieces with --text, or cut with "
        "--annotations"
    )


def _refuse_nothing(corpus: Corpus, output: str, where: str | None) -> None:
    if not corpus.count:
        why = "no output matches --where" if where else "has no outputs to export"
        raise Refused(f"{output}: {why}")


def _folder_for(output: str, to: str, folder: str | os.PathLike[str] | None) -> str:
    """Return the absolute path of the folder to write."""
    if folder is None:
        beside = folder_of(output)
        folder = f"{file_name(beside) if is_url(beside) else os.path.abspath(beside)}-{to}"
    text = os.fsdecode(folder)
    if is_url(text) or not text or "\0" in text:
        raise Refused(f"-o {text!r}: pass the path of a folder on this machine")
    return os.path.realpath(os.path.expanduser(text))


def _refuse_overlap(output: str, folder: str) -> None:
    """Refuse a folder that is inside the output folder, or contains it."""
    if is_url(output):
        return
    own = os.path.realpath(output)
    if os.path.commonpath([own, folder]) in (own, folder):
        raise Refused(
            f"{folder}: is in the output folder {output}, or contains it; choose a folder next to it with -o"
        )
