"""A recipe's parameters, read from its signature, its type hints and its docstring."""

import enum
import inspect
import re
import typing
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal

from splitter.errors import Refused

REQUIRED = inspect.Parameter.empty
_PLAIN = (bool, int, float, str, Path)


@dataclass(frozen=True)
class Parameter:
    """One parameter, as the command line shows it.

    Attributes:
        name: As it stands in the signature.
        kind: bool, int, float, str, Path, an Enum class, the tuple of a Literal's values, or list for
            a text that may be a list of texts as well.
        many: Whether it takes a list of these.
        default: What it is when it is not given, or REQUIRED.
        help: What the docstring says of it.
    """

    name: str
    kind: Any
    many: bool
    default: Any
    help: str


def recipe_parameters(recipe: type) -> list[Parameter]:
    """The parameters that a recipe takes after its inputs."""
    init = recipe.__init__  # type: ignore[misc]
    hints = _hints(recipe.__name__, init)
    help_texts = {**docstring_section(recipe.__doc__, "Args"), **docstring_section(init.__doc__, "Args")}
    found = []
    for parameter in list(inspect.signature(init).parameters.values())[2:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind, many = _kind(hints.get(parameter.name, REQUIRED), parameter.default)
        if kind is not None:
            text = help_texts.get(parameter.name, "")
            found.append(Parameter(parameter.name, kind, many, parameter.default, text))
        elif parameter.default is REQUIRED:
            hint = hints.get(parameter.name)
            message = f"its parameter {parameter.name!r} is a {getattr(hint, '__name__', hint)}"
            raise Refused(
                f"{recipe.__name__}: {message}, which the command line cannot give; give it a default"
            )
    return found


def field_parameters(options: type) -> list[Parameter]:
    """The fields of a dataclass as parameters."""
    hints = typing.get_type_hints(options)
    help_texts = docstring_section(options.__doc__, "Attributes")
    found = []
    for field in fields(options):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        kind, many = _kind(hints[field.name], default)
        if kind is list:
            # one text, or several: the option is repeated
            kind, many = str, True
        found.append(Parameter(field.name, kind, many, default, help_texts[field.name]))
    return found


def first_line(recipe: type) -> str:
    """What a recipe does, in one line."""
    return (inspect.getdoc(recipe) or "").partition("\n")[0]


def docstring_section(text: str | None, title: str) -> dict[str, str]:
    """The entries of a section such as `Args:` of a docstring."""
    lines = inspect.cleandoc(text or "").splitlines()
    if f"{title}:" not in lines:
        return {}
    entries: dict[str, str] = {}
    name = ""
    for line in lines[lines.index(f"{title}:") + 1 :]:
        if line and not line.startswith(" "):
            break
        match = re.match(r" {2,4}(\w+)(?: \([^)]*\))?: (.*)", line)
        if match:
            name = match[1]
            entries[name] = match[2]
        elif name and line.strip():
            entries[name] += " " + line.strip()
    return entries


def _hints(recipe: str, init: Any) -> dict[str, Any]:  # noqa: ANN401
    try:
        return typing.get_type_hints(init)
    except NameError as error:
        raise Refused(f"{recipe}: a type hint of __init__ cannot be read: {error}") from None


def _kind(hint: Any, default: Any) -> tuple[Any, bool]:  # noqa: ANN401
    """What the command line can make of a type hint: the kind (or None), and whether there are many."""
    if hint in (REQUIRED, Any):
        hint = type(default) if default not in (REQUIRED, None) else str
    origin = typing.get_origin(hint)
    if origin in (typing.Union, UnionType):
        rest = [one for one in typing.get_args(hint) if one is not NoneType]
        if len(rest) > 1 and str in rest:
            # text is what a command line has; a job file may have a list
            return (list if any(one in rest for one in (list, list[str])) else str), False
        return _kind(rest[0], default) if len(rest) == 1 else (None, False)
    if origin in (list, tuple, Sequence) or hint in (list, tuple):
        inner = [one for one in typing.get_args(hint) if one is not ...] or [str]
        kind, many = _kind(inner[0], REQUIRED)
        return (kind, True) if len(set(inner)) == 1 and not many else (None, False)
    if origin is Literal:
        return typing.get_args(hint), False
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint, False
    return (hint, False) if hint in _PLAIN else (None, False)
