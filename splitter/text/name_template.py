"""Templates of output names, such as `{speaker}/{source}_{index:06d}`: fields between fixed text.

A template is only read, never executed. It can name fields, but not reach into their values.
"""

import math
import re
from string import Formatter
from typing import NamedTuple

from splitter.errors import Refused

OPTION = "--name"
# fields that every output has: the file name and the path of its input; its own name and number
SOURCE, PATH, NAME, INDEX = BUILT_IN = ("source", "path", "name", "index")
_NUMBER_FORMAT = re.compile(r"(?:0\d{1,2})?(?:d|(?:\.\d{1,2})?f)?")
_DIGITS = "0123456789"


class NameField(NamedTuple):
    """A field and the fixed text before it; the last one of a part has only text.

    Attributes:
        literal: The text before the field.
        field: The name of the field; empty at the end of a part.
        format: The format of a number, such as 06d.
        default: The text for an empty value; empty if the value must not be empty.
    """

    literal: str
    field: str = ""
    format: str = ""
    default: str = ""

    @property
    def number_characters(self) -> str:
        """The characters that the field can have if it is a number; empty if it can be any text."""
        if self.field == INDEX:
            return _DIGITS
        return f"{_DIGITS}.-" if self.format else ""

    def show(self, value: str) -> str:
        """Return a value in the format of the field; raise ValueError if it must be a number and is not."""
        if not self.format:
            return value
        number = float(value) if self.format.endswith("f") else int(value)
        if not math.isfinite(number):
            raise ValueError(value)
        return format(number, self.format)


def parse_name(template: str) -> tuple[tuple[NameField, ...], ...]:
    """Return the parts of a template between slashes; refuse impossible names, and all but plain fields.

    >>> parse_name("{source}_{index:06d}")[0][1]
    NameField(literal='_', field='index', format='06d', default='')
    >>> parse_name("{speaker|unknown}")[0][0]
    NameField(literal='', field='speaker', format='', default='unknown')
    """
    parts: list[list[NameField]] = [[]]
    literal = ""
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        raise _refused(template, f"{error}; write fields as {{source}}, and a brace itself as {{{{") from None
    for text, field, number_format, conversion in pieces:
        *folders, literal = (literal + text).split("/")
        for folder in folders:
            parts[-1].append(NameField(folder))
            parts.append([])
        if field is not None:
            parts[-1].append(_field(template, literal, field, number_format or "", conversion or ""))
            literal = ""
    parts[-1].append(NameField(literal))
    for part in parts:
        text = "".join(one.literal or one.field for one in part)
        if text in ("", ".", "..") or "\0" in text:
            raise _refused(template, f"{text!r} cannot be a file or a folder; write a name between slashes")
    if sum(one.field == PATH for part in parts for one in part) > 1:
        raise _refused(template, "names {path} twice; once is enough")
    return tuple(map(tuple, parts))


def _field(template: str, literal: str, name: str, number_format: str, conversion: str) -> NameField:
    shown = "{" + name + (f"!{conversion}" if conversion else "") + "}"
    field, bar, default = name.partition("|")
    if not field or conversion or {".", "[", "]"} & {*field}:
        raise _refused(template, f"{shown} is not the name of a column; write it as {{source}}")
    known = _NUMBER_FORMAT.fullmatch(number_format)
    if not known or (field in BUILT_IN and number_format and (field != INDEX or "f" in number_format)):
        raise _refused(
            template,
            f"{{{name}:{number_format}}}: formats are for numbers, as in {{index:06d}} or {{start:.1f}}",
        )
    found = NameField(literal, field, number_format, default)
    if bar and (field in BUILT_IN or not default or {"/", "\0"} & {*default}):
        why = "is never empty; leave the | out"
        if field not in BUILT_IN:
            why = "needs a text without a slash after the |, as in {speaker|unknown}"
        raise _refused(template, f"{shown} {why}")
    try:
        found.show(default or "0")
    except ValueError:
        raise _refused(
            template, f"{{{name}:{number_format}}}: {default!r} is not such a number; use one"
        ) from None
    return found


def _refused(template: str, why: str) -> Refused:
    return Refused(f"{OPTION} {template!r}: {why}")
