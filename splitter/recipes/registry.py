"""Recipes by name: the shipped ones, and a user's own."""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from splitter.errors import Refused
from splitter.registry import RECIPES
from splitter.system.imports import quick_imports
from splitter.text.spelling import nearest

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset

DEFAULT = "chunk"


def load_recipe(name: str) -> "type[ProcessorDataset]":
    """Return the class of a recipe, from a name in the registry, `module:Class` or `file.py:Class`."""
    with quick_imports():
        from splitter.dataset import ProcessorDataset

    # a name with a colon is never looked up in the registry
    target = name if ":" in name else RECIPES.target(name) or name
    location, colon, class_name = target.rpartition(":")
    if not (location and colon):
        if name.endswith(".py"):
            there = _recipes_in(_import_file(name))
            write = f"; write {name}:{there[0] if len(there) == 1 else 'Class'}" if there else ""
            raise Refused(f"--recipe {name}: names a file{write}; {_listed(there)}")
        names = RECIPES.names()
        hint = (
            nearest(name, names)
            or f"; choose from {', '.join(names)}, or write module:Class or path/to/file.py:Class"
        )
        raise Refused(f"--recipe {name}: is not a recipe{hint}")
    module = _import_file(location) if location.endswith(".py") else _import_module(location)
    recipe = getattr(module, class_name, None)
    if not (isinstance(recipe, type) and issubclass(recipe, ProcessorDataset)):
        found = _listed(_recipes_in(module))
        problem = "is not a ProcessorDataset" if recipe is not None else "does not exist"
        raise Refused(f"--recipe {name}: {class_name} {problem} in {location}; {found}")
    return recipe


def _recipes_in(module: ModuleType) -> list[str]:
    """Return the names of the recipes that a module defines."""
    from splitter.dataset import ProcessorDataset

    classes = ((name, value) for name, value in vars(module).items() if isinstance(value, type))
    return [
        name
        for name, kind in classes
        if issubclass(kind, ProcessorDataset) and kind.__module__ == module.__name__
    ]


def _listed(recipes: list[str]) -> str:
    return f"it has {', '.join(recipes)}" if recipes else "it has no subclass of ProcessorDataset"


def _import_file(path: str) -> ModuleType:
    path = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise Refused(f"--recipe {path}: there is no such file")
    _look_in(os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"recipe_file_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused(f"--recipe {path}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _importing(path), quick_imports():
        spec.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    _look_in(os.getcwd())
    with _importing(name), quick_imports():
        return importlib.import_module(name)


def _look_in(folder: str) -> None:
    """Let a recipe import the modules beside it."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


@contextmanager
def _importing(name: str) -> Iterator[None]:
    """Turn errors of importing a user's module into one line with file and line number."""
    try:
        yield
    except (Refused, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        of = "" if error.filename == name else f" of {error.filename}"
        raise Refused(f"--recipe {name}: line {error.lineno}{of}: {error.msg}") from error
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
        if not own and isinstance(error, ModuleNotFoundError):
            raise Refused(
                f"--recipe {name}: there is no such module; for a file, write path/to/file.py:Class"
            ) from error
        where = f" (line {own[-1].lineno} of {own[-1].filename})" if own else ""
        raise Refused(f"--recipe {name}: {type(error).__name__}: {error}{where}") from error
