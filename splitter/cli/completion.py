"""What a shell offers to complete: recipes, and their options, without importing or running a recipe."""

import ast
import contextlib
import importlib.util
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from splitter.recipes.parameters import Parameter, docstring_section
from splitter.recipes.registry import RECIPES


def files(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Where a file is wanted: the shell knows them itself."""
    return [CompletionItem(incomplete, type="file")]


def recipes_and_files(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The recipes that come along, or else files."""
    names = [CompletionItem(name) for name in RECIPES if name.startswith(incomplete)]
    return names or files(context, param, incomplete)


def parameters_in_text(recipe: str) -> list[Parameter]:
    """The parameters of a recipe as its file says them; none if that cannot be told.

    The file is read and not run: a key that is pressed in a shell is no reason to do that, and torch alone
    would take a second.
    """
    location, _, name = RECIPES.get(recipe, recipe).rpartition(":")
    with contextlib.suppress(OSError, SyntaxError, ValueError, ImportError):
        body = ast.parse(_file_of(location).read_text(encoding="utf-8")).body
        for kind in (one for one in body if isinstance(one, ast.ClassDef) and one.name == name):
            return _parameters(kind)
    return []


def _file_of(location: str) -> Path:
    """The file of a module, found without importing it."""
    if location.endswith(".py"):
        return Path(location).expanduser()
    first, *rest = location.split(".")
    spec = importlib.util.find_spec(first)
    if spec is None or spec.origin is None:
        raise ImportError(location)
    return Path(spec.origin).parent.joinpath(*rest).with_suffix(".py") if rest else Path(spec.origin)


def _parameters(kind: ast.ClassDef) -> list[Parameter]:
    for method in kind.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            texts = docstring_section(ast.get_docstring(kind), "Args")
            found = [*method.args.posonlyargs, *method.args.args][2:] + method.args.kwonlyargs
            return [_parameter(one, texts.get(one.arg, "")) for one in found]
    return []


def _parameter(argument: ast.arg, text: str) -> Parameter:
    hint = "" if argument.annotation is None else ast.unparse(argument.annotation)
    return Parameter(argument.arg, bool if hint == "bool" else str, many=False, default=None, help=text)
