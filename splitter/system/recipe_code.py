"""A recipe's code: send it to a machine that does not have its file, and tell whether it has changed.

The Python files in the recipe's folder are sent as text, and imported from memory on the other machine.
"""

import ast
import contextlib
import functools
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import NamedTuple

import xxhash

from splitter.system.package import PACKAGE_FOLDER

MOST_BYTES = 10_000_000
MOST_FILES = 2_000
_PACKAGES = {"site-packages", "dist-packages"}
_WITH_DOCSTRING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class ModuleText(NamedTuple):
    """The source text of a module, and its path on the machine that it comes from."""

    text: str
    path: str
    package: bool


def code_beside(recipe: type) -> dict[str, ModuleText]:
    """Return the modules that a recipe can import from its folder; none if the recipe is installed."""
    module = sys.modules[recipe.__module__]
    root = _root_of(module)
    # every machine has the built-in recipes; in a checkout, their root would be the checkout, with its tests
    if not root or _is_installed(root) or _is_below(module.__file__ or root, PACKAGE_FOLDER):
        return {}
    found = _all_below(root)
    if found is None:
        # a folder with too many files: send only the modules that are already imported
        found = {name: source for name, source in _loaded() if _is_below(source.path, root)}
    if module.__name__ not in {"__main__", *found} and module.__file__:
        found[module.__name__] = _read(module.__file__)
    return found


def code_state(recipe: type) -> str:
    """Return a checksum of a recipe's classes and what they use of their files; empty if it is installed.

    Comments and docstrings do not count; neither do other files that it imports.
    """
    found: list[str] = []
    with contextlib.suppress(OSError, SyntaxError, UnicodeDecodeError, RecursionError):
        for one in recipe.__mro__:
            file = getattr(sys.modules.get(one.__module__), "__file__", None) or ""
            # Python does not list the folders of a user's packages, nor those of a cluster's modules
            is_package = not _PACKAGES.isdisjoint(file.split(os.sep))
            if file.endswith(".py") and not is_package and not _is_installed(os.path.dirname(file)):
                found += _definitions(_read(file).text, one.__qualname__.partition(".")[0])
    version = "{}.{}".format(*sys.version_info)
    return f"{version} {xxhash.xxh3_128_hexdigest(chr(0).join(found).encode())}" if found else ""


def _definitions(text: str, name: str) -> list[str]:
    """Return the definition of a name in a file, and those in the same file that it uses, as trees."""
    named: dict[str, list[ast.stmt]] = {}
    for statement in ast.parse(text).body:
        for target in getattr(statement, "targets", [getattr(statement, "target", statement)]):
            named.setdefault(getattr(target, "name", getattr(target, "id", "")), []).append(statement)
    used, trees = [name], []
    # more are added meanwhile
    for one in used:
        for statement in named.get(one, ()):
            for node in ast.walk(statement):
                if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False):
                    del node.body[0]
                elif isinstance(node, ast.Name) and node.id in named and node.id not in used:
                    used.append(node.id)
            trees.append(ast.dump(statement))
    return trees


class TextImporter(MetaPathFinder, InspectLoader):
    """An importer of modules from texts that came from another machine."""

    def __init__(self, sources: Mapping[str, ModuleText]) -> None:
        self._sources = sources

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """Return the spec of a module, or of a package without `__init__.py`, if the texts have it."""
        source = self._sources.get(name)
        if source is None:
            if not any(other.startswith(f"{name}.") for other in self._sources):
                return None
            # a folder without __init__.py
            return ModuleSpec(name, None, is_package=True)
        spec = importlib.util.spec_from_loader(name, self, origin=source.path, is_package=source.package)
        if spec is not None:
            spec.has_location = True
        return spec

    def get_source(self, name: str) -> str:
        """Return the text of a module; tracebacks show lines of it."""
        return self._sources[name].text

    def get_code(self, name: str) -> CodeType:
        source = self._sources[name]
        return compile(source.text, source.path, "exec", dont_inherit=True)

    def is_package(self, name: str) -> bool:
        return self._sources[name].package


def _root_of(module: ModuleType) -> str:
    """Return the folder that contains a module's top-level package, or its file if it is in none."""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" and not file:
        return os.getcwd()
    if not file:
        return ""
    folder: str = os.path.dirname(os.path.abspath(file))
    levels = module.__name__.count(".") + (os.path.basename(file) == "__init__.py")
    for _ in range(levels):
        folder = os.path.dirname(folder)
    return folder


def _is_installed(folder: str) -> bool:
    """Return whether a folder belongs to Python, its packages or splitter, which every machine has."""
    return any(_is_below(folder, one) for one in _folders_of_packages())


@functools.cache
def _folders_of_packages() -> tuple[str, ...]:
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return (PACKAGE_FOLDER, *filter(None, folders))


def _is_below(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path == folder or path.startswith(f"{folder}{os.sep}")


def _all_below(root: str) -> dict[str, ModuleText] | None:
    """Return every Python file that can be imported from a folder; None if there are too many."""
    found: dict[str, ModuleText] = {}
    size = 0
    for name, path in _python_files(root, ""):
        size += os.path.getsize(path)
        if size > MOST_BYTES or len(found) == MOST_FILES:
            return None
        # a file that is not valid Python could not be imported from its folder either
        with contextlib.suppress(OSError, SyntaxError, UnicodeDecodeError):
            found[name] = _read(path)
    return found


def _python_files(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield names and paths of the modules in a folder, and in its subfolders that contain modules."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    files = [entry for entry in entries if entry.name.endswith(".py") and entry.is_file()]
    for entry in files:
        stem = entry.name.removesuffix(".py")
        if stem == "__init__" and prefix:
            yield prefix.removesuffix("."), entry.path
        elif stem.isidentifier() and not stem.startswith("__"):
            yield prefix + stem, entry.path
    if prefix and not files:
        return
    for entry in entries:
        if entry.name.isidentifier() and entry.is_dir(follow_symlinks=False):
            own = not prefix and entry.name == __name__.partition(".")[0]
            if not own and entry.name != "__pycache__":
                yield from _python_files(entry.path, f"{prefix}{entry.name}.")


def _loaded() -> Iterator[tuple[str, ModuleText]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.endswith(".py") and os.path.isfile(file) and not _is_installed(os.path.dirname(file)):
            yield name, _read(file)


def _read(path: str) -> ModuleText:
    with open(path, "rb") as file:
        text = importlib.util.decode_source(file.read())
    return ModuleText(text, os.path.abspath(path), os.path.basename(path) == "__init__.py")
