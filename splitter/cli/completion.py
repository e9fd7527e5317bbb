"""Suggestions for the Tab key: recipes and their options, without importing or running a recipe."""

import ast
import contextlib
import importlib.util
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from splitter.errors import Refused
from splitter.recipes.parameters import Parameter, docstring_section
from splitter.registry import RECIPES

# files, which the shell completes itself
files = click.Path().shell_complete


def recipes_and_files(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the names of recipes, or else files."""
    names = [CompletionItem(name) for name in RECIPES.names() if name.startswith(incomplete)]
    return names or files(context, param, incomplete)


def parameters_in_text(recipe: str) -> list[Parameter]:
    """Return the parameters of a recipe from the text of its file; none if it cannot be parsed.

    The file is parsed, not run: pressing a key must not run code, and importing torch alone takes a second.
    """
    with contextlib.suppress(OSError, SyntaxError, ValueError, ImportError, Refused):
        location, _, name = (RECIPES.target(recipe) or recipe).rpartition(":")
        return _parameters_in(location, name)
    return []


def _parameters_in(location: str, name: str) -> list[Parameter]:
    """Return the parameters of the class of that name in a file or module."""
    body = ast.parse(_file_of(location).read_text(encoding="utf-8")).body
    for kind in (one for one in body if isinstance(one, ast.ClassDef) and one.name == name):
        first, last, takes_shared = _parameters(kind)
        names = {one.name for one in (*first, *last)}
        shared = _of_base(location, body, kind) if takes_shared else []
        return [*first, *(one for one in shared if one.name not in names), *last]
    return []


def _of_base(location: str, body: list[ast.stmt], kind: ast.ClassDef) -> list[Parameter]:
    """Return the parameters that `**shared` stands for, as in `take_parameters_of_base`."""
    base = ast.unparse(kind.bases[0]) if kind.bases else ""
    for one in body:
        if isinstance(one, ast.ImportFrom) and base in {alias.name for alias in one.names}:
            location = one.module or location
    return _parameters_in(location, base)


def _file_of(location: str) -> Path:
    """Return the file of a module, found without importing it."""
    if location.endswith(".py"):
        return Path(location).expanduser()
    first, *rest = location.split(".")
    spec = importlib.util.find_spec(first)
    if spec is None or spec.origin is None:
        raise ImportError(location)
    return Path(spec.origin).parent.joinpath(*rest).with_suffix(".py") if rest else Path(spec.origin)


def _parameters(kind: ast.ClassDef) -> tuple[list[Parameter], list[Parameter], bool]:
    """Return the parameters of `__init__`: plain ones, keyword-only ones, and whether it takes `**shared`."""
    texts = docstring_section(ast.get_docstring(kind), "Args")
    for method in kind.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            given = method.args
            first, last = (
                [_parameter(one, texts.get(one.arg, "")) for one in some]
                for some in ([*given.posonlyargs, *given.args][2:], given.kwonlyargs)
            )
            return first, last, given.kwarg is not None
    return [], [], False


def _parameter(argument: ast.arg, text: str) -> Parameter:
    hint = "" if argument.annotation is None else ast.unparse(argument.annotation)
    return Parameter(argument.arg, bool if hint == "bool" else str, many=False, default=None, help=text)
