"""The names that a template gives to outputs, and the proof that no two inputs share one.

A name is complete only when its output is made, but much of it is known earlier: fixed text, columns,
{source} and {path} follow from the row of the list. The part of a template up to its first other field is its
*head*. If only numbers follow a head, each after a character that no number contains, the head can be
recovered from the name:

    {speaker} / {source}_ {index:06d}  .wav
    head        head      number       extension, which is cut off at the last dot

The heads of all such parts are the *claim* of an input. So the claim follows from any of its names, and
inputs with different claims never share a name. With {path}, which may be several folders, only the part that
contains it is the claim.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from splitter.errors import BadResult, Refused
from splitter.storage.layout import RESERVED_FOLDERS, folders_around, same_name
from splitter.storage.names import is_clean
from splitter.text.name_template import BUILT_IN, INDEX, NAME, OPTION, PATH, SOURCE, NameField, parse_name
from splitter.text.urls import LONGEST_NAME


@dataclass(frozen=True)
class NamePart:
    """The part of a template between two slashes.

    Attributes:
        fields: Its fields, with the text before each.
        head: The fields at its start that follow from the row, and the text before the first number.
        numbers: A pattern for what follows the head in a name; None if nothing does, or it is no claim.
        is_claim: Whether the head can be recovered from a name.
    """

    fields: tuple[NameField, ...]
    head: tuple[NameField, ...]
    numbers: re.Pattern[str] | None
    is_claim: bool

    @classmethod
    def of(cls, fields: tuple[NameField, ...], metadata: set[str]) -> "NamePart":
        """Divide a part; `metadata` are the fields that do not follow from the row."""
        known = next((at for at, one in enumerate(fields) if one.field in metadata), len(fields))
        if known == len(fields):
            return cls(fields, fields, None, is_claim=True)
        numbers = fields[known:]
        pattern = ""
        for at, one in enumerate(numbers):
            pattern += re.escape(same_name(one.literal)) if at else ""
            pattern += f"[{re.escape(one.number_characters)}]+" if one.field else ""
        is_claim = all(not one.field or _is_delimited(one) for one in numbers)
        head = (*fields[:known], NameField(numbers[0].literal))
        return cls(fields, head, re.compile(pattern + r"\Z") if is_claim else None, is_claim)

    def head_in(self, text: str) -> str | None:
        """Return the head in a part of a name; None if the part does not match this template."""
        if self.numbers is None:
            return text
        found = self.numbers.search(text)
        return text[: found.start()] if found else None


def _is_delimited(number: NameField) -> bool:
    """Return whether a field is a number, and the text before it ends in a character that no number has."""
    return bool(number.literal and number.number_characters) and (
        number.literal[-1] not in number.number_characters
    )


class Naming:
    """A template for the names of outputs, over the columns of a dataset list.

    Attributes:
        template: The template as it was given.
        metadata: The fields that are metadata of an output or of its input.
        formats: Those of them that have a format, so their values must be numbers.
    """

    def __init__(self, template: str, header: Sequence[str], column: str) -> None:
        """Parse a template; `column` is the column of the list with the paths."""
        parts = parse_name(template)
        self.template = template
        fields = [one for part in parts for one in part if one.field]
        for one in fields:
            if one.field in header and one.field in BUILT_IN and one.field != column:
                raise Refused(
                    f"{OPTION} {template!r}: {{{one.field}}} could be the column of that name; use --rename "
                    f"{one.field}=NEW, and {{NEW}} for the column"
                )
            if one.field in header and one.format and one.field != INDEX:
                raise Refused(
                    f"{OPTION} {template!r}: {{{one.field}:{one.format}}}: columns of the dataset list are "
                    f"text, which has no format; write {{{one.field}}}"
                )
        names = {one.field for one in fields}
        # the fields whose values must not be empty
        self._needed = {PATH, *(one.field for one in fields if not one.default)}
        self._at = {name: header.index(name) for name in names if name in header and name not in BUILT_IN}
        self.metadata = sorted(names - {*self._at, *BUILT_IN})
        self.formats = [one for one in fields if one.format and one.field in self.metadata]
        self._parts = [NamePart.of(part, {*self.metadata, NAME, INDEX}) for part in parts]
        self._path = next((at for at, part in enumerate(parts) if any(f.field == PATH for f in part)), None)
        if self._path is not None and not self._parts[self._path].is_claim:
            raise Refused(
                f"{OPTION} {template!r}: write only text, columns and numbers beside {{path}}, as in "
                "{path}_{index}; put other fields after a slash"
            )

    # -- before the work: what follows from a row

    def claim(self, row: Sequence[str], folder: str) -> str:
        """Return the claim of an input; raise ValueError if its row cannot give valid names.

        `folder` is the path of the input below the root, without its extension.
        """
        self._check_values(row, folder)
        heads = [self._head(part, row, folder) for part in self._parts]
        for at, (part, head) in enumerate(zip(self._parts, heads, strict=True)):
            is_all = part.head == part.fields
            _check_head(head, self._tops(at, head) if is_all else "", whole=is_all)
        if self._path is not None:
            return same_name(heads[self._path])
        return "/".join(
            same_name(head) for head, part in zip(heads, self._parts, strict=True) if part.is_claim
        )

    def outer_claims(self, row: Sequence[str], folder: str) -> Iterator[str]:
        """Yield the claims of inputs that could have a file where this one needs a folder."""
        if self._path is not None:
            head = same_name(self._head(self._parts[self._path], row, folder))
            yield from filter(None, (self._head_in(self._path, outer) for outer in folders_around(head)))

    def claim_in(self, name: str) -> str | None:
        """Return the claim of any input whose output could have this name; None if none could."""
        found = same_name(name).split("/")
        more = len(found) - len(self._parts)
        if more < 0 or (more and self._path is None):
            return None
        if self._path is not None:
            return self._head_in(self._path, "/".join(found[self._path : self._path + more + 1]))
        heads = [self._head_in(at, found[at]) for at, part in enumerate(self._parts) if part.is_claim]
        there = [head for head in heads if head is not None]
        return "/".join(there) if len(there) == len(heads) else None

    def example(self, row: Sequence[str], folder: str) -> str:
        """Return the name of an input's first output as far as the row determines it, without extension."""

        def shown(one: NameField) -> str:
            if one.field in (NAME, *self.metadata):
                return f"{{{one.field}}}"
            return one.show("0") if one.field == INDEX else self._value(one, row, folder)

        return self._filled(shown)

    def _filled(self, text_of: Callable[[NameField], str]) -> str:
        return "/".join("".join(one.literal + text_of(one) for one in part.fields) for part in self._parts)

    def _value(self, one: NameField, row: Sequence[str], folder: str) -> str:
        if one.field in (SOURCE, PATH):
            return folder if one.field == PATH else folder.rpartition("/")[2]
        return row[self._at[one.field]] or one.default if one.field else ""

    def _check_values(self, row: Sequence[str], folder: str) -> None:
        values = [(name, row[at]) for name, at in self._at.items()] + [(PATH, folder.replace("/", ""))]
        for field, value in values:
            if (value or field in self._needed) and (why := self._unfit(field, value)):
                raise ValueError(why)

    def _unfit(self, field: str, value: str) -> str:
        """Say why a value cannot be part of a name, and what to do about it; empty if it can."""
        what = "a slash" if "/" in value else "a NUL" if "\0" in value else ""
        if value and not what:
            return ""
        why = f"contains {what}, {value!r:.100}" if value else "is empty"
        remedy = "change it"
        if not (value or field in BUILT_IN):
            remedy = f"write {{{field}|none}} to use 'none' in its place"
        return (
            f"its {field!r} {why}, and {OPTION} {self.template!r} needs it for a name; "
            f"{remedy}, or leave {{{field}}} out of {OPTION}"
        )

    def _head(self, part: NamePart, row: Sequence[str], folder: str) -> str:
        return "".join(one.literal + self._value(one, row, folder) for one in part.head)

    def _tops(self, at: int, head: str) -> str:
        """Return the top folder of the names, if a head determines it; empty otherwise."""
        top, slash, _ = head.partition("/")
        return top if at == 0 and (slash or len(self._parts) > 1) else ""

    def _head_in(self, at: int, text: str) -> str | None:
        dot = text.rfind(".") if at == len(self._parts) - 1 else -1
        return self._parts[at].head_in(text[:dot] if dot > text.rfind("/") else text)

    # -- during the work: what an output adds

    def name(
        self, row: Sequence[str], folder: str, own: str, index: int, value_of: Callable[[str], str]
    ) -> str:
        """Return the name of an output; raise BadResult if it is not valid.

        `own` is the name that the recipe gave, and `value_of` returns the text of a metadata value.
        """
        stem, extension = os.path.splitext(own)
        known = {NAME: stem, INDEX: str(index)}

        def text_of(one: NameField) -> str:
            field = one.field
            if field in known:
                value = known[field]
            elif field in self.metadata:
                value = value_of(field) or one.default
            else:
                value = self._value(one, row, folder)
            if field and field != PATH and (why := self._unfit(field, value)):
                raise BadResult(f"output {own!r}: {why}")
            try:
                return one.show(value)
            except ValueError:
                raise BadResult(
                    f"output {own!r}: its {field!r} is {value!r:.100}, which cannot be written as "
                    f"{{{field}:{one.format}}}; change the value, or the format in {OPTION}"
                ) from None

        name = self._filled(text_of) + extension
        if why := _fault(name, extension):
            raise BadResult(
                f"output {own!r}: {OPTION} {self.template!r} gives it the name {name!r:.300}, {why}"
            )
        return name


def _check_head(head: str, top: str, *, whole: bool) -> None:
    """Raise ValueError if no name can have this head; a `whole` one is all there is between two slashes."""
    remedy = f"change the row, or {OPTION}"
    if (whole and not is_clean(head)) or same_name(top) in RESERVED_FOLDERS:
        raise ValueError(
            f"{OPTION} would give its outputs the name {top or head!r}, which is reserved; {remedy}"
        )
    if _longest_part(head) > LONGEST_NAME:
        raise ValueError(f"{OPTION} would give its outputs a name that is too long, {head[:40]!r}…; {remedy}")


def _fault(name: str, extension: str) -> str:
    """Say why an output cannot have a name; empty if it can."""
    top, last = name.partition("/")[0], name.rpartition("/")[2]
    if not is_clean(name):
        return "which cannot be used; use other fields"
    if same_name(top) in RESERVED_FOLDERS:
        return "which is reserved; use other fields, or begin with a folder"
    if _longest_part(name) > LONGEST_NAME:
        return f"in which a part has more than {LONGEST_NAME} bytes; use fewer fields"
    if not extension and "." in last:
        # otherwise, an output of input `a` with extension .b and one of input `a.b` without one would clash
        return "in which the text after the dot could be an extension; give the output an extension"
    return ""


def _longest_part(name: str) -> int:
    return max(len(part.encode("utf-8", "surrogateescape")) for part in name.split("/"))
