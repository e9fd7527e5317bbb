"""A recipe's parameters, read from its signature, its type hints and its docstring."""

import enum
import functools
import inspect
import re
import textwrap
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
        name: Its name in the signature.
        kind: bool, int, float, str, Path, an Enum class, the tuple of a Literal's values, or list for
            a text that may also be a list of texts.
        many: Whether it takes a list of values of this kind.
        default: Its value when it is not given, or REQUIRED.
        help: Its entry in the docstring.
    """

    name: str
    kind: Any
    many: bool
    default: Any
    help: str


def recipe_parameters(recipe: type) -> list[Parameter]:
    """Return the parameters that a recipe takes after its inputs."""
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
                f"{recipe.__name__}: {message}, which the command line cannot pass; give it a default"
            )
    return found


def take_parameters_of_base(recipe: type) -> None:
    """Give an `__init__` that ends with `**shared` the parameters of the base class, as if it declared them.

    They come after its own parameters, but before its keyword-only ones. Their entries take the same position
    in the docstring, whose last section must be `Args:`; its own entries have precedence. Parameters named in
    `not_shared` are left out.
    """
    init: Any = vars(recipe).get("__init__")
    own = list(inspect.signature(init).parameters.values()) if init else []
    if not own or own[-1].kind != own[-1].VAR_KEYWORD or own[-1].name != "shared":
        return
    # the class whose __init__ super() calls
    base: Any = next(one for one in recipe.__mro__[1:] if "__init__" in vars(one))
    names = {parameter.name for parameter in own} | getattr(recipe, "not_shared", frozenset())
    of_base = list(inspect.signature(base.__init__).parameters.values())[2:]
    last = [one for one in own if one.kind == one.KEYWORD_ONLY]
    first = [one for one in own[:-1] if one not in last]
    merged = [
        one.replace(kind=one.POSITIONAL_OR_KEYWORD)
        for one in (*first, *(one for one in of_base if one.name not in names), *last)
    ]
    signature = inspect.Signature(merged, return_annotation=None)

    @functools.wraps(init)
    def with_shared(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the signature says
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{recipe.__name__}.__init__() {error}") from None
        init(**bound.arguments)

    attributes: Any = with_shared
    attributes.__signature__ = signature
    attributes.__annotations__ = {one.name: one.annotation for one in merged[1:]}
    recipe.__init__ = with_shared  # type: ignore[misc]
    texts = {**docstring_section(base.__doc__, "Args"), **docstring_section(recipe.__doc__, "Args")}
    if recipe.__doc__:
        about = inspect.cleandoc(recipe.__doc__).partition("\n\nArgs:")[0]
        entries = [_entry(one.name, texts[one.name]) for one in merged if one.name in texts]
        recipe.__doc__ = "\n".join([f"{about}\n\nArgs:", *entries])


def _entry(name: str, text: str) -> str:
    return textwrap.fill(f"{name}: {text}", 106, initial_indent="    ", subsequent_indent="        ")


def field_parameters(options: type) -> list[Parameter]:
    """Return the fields of a dataclass as parameters."""
    hints = typing.get_type_hints(options)
    help_texts = docstring_section(options.__doc__, "Attributes")
    found = []
    for field in fields(options):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        kind, many = _kind(hints[field.name], default)
        if kind is list:
            # one text or several: an option that may be repeated
            kind, many = str, True
        found.append(Parameter(field.name, kind, many, default, help_texts[field.name]))
    return found


def first_line(recipe: type) -> str:
    """Return what a recipe does, in one line."""
    return (inspect.getdoc(recipe) or "").partition("\n")[0]


def docstring_section(text: str | None, title: str) -> dict[str, str]:
    """Return the entries of a section such as `Args:` of a docstring."""
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
    """Return what the command line makes of a type hint: its kind, or None, and whether it takes a list."""
    if hint in (REQUIRED, Any):
        hint = type(default) if default not in (REQUIRED, None) else str
    origin = typing.get_origin(hint)
    if origin in (typing.Union, UnionType):
        rest = [one for one in typing.get_args(hint) if one is not NoneType]
        if len(rest) > 1 and str in rest:
            # the command line only gives text; a job file may give a list
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
