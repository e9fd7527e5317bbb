"""Imports go one way, through the rooms of docs/design.md, and no module reaches into another."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import splitter

PACKAGE = Path(splitter.__file__).parent
DESIGN = PACKAGE.parent / "docs" / "design.md"

# A room imports only rooms above it.
ROOMS = re.findall(r"^\| `(\w+)` \|", DESIGN.read_text(encoding="utf-8"), re.MULTILINE)
# Doors that lead down the list, opened only when used: `dataset.run(...)` is `splitter.run(dataset, ...)`.
DOORS = {("dataset", "engine.entry_points"), ("dataset", "forecast.entry_points")}
# What a type checker sees, one by one.
TYPES = {
    ("dataset", "forecast.forecast"),
    ("ledger.recipe_record", "dataset"),
    ("outputs.frame", "engine.summary"),
}
MOST_FILES_AT_THE_TOP = 8

# Of these packages no module imports another, but for the seams that several of them share.
SEPARATE = {"executors", "exports", "measures", "recipes", "sinks"}
SEAMS = {
    "base",
    "corpus",
    "piece",
    "keys",
    "target",
    "sorting",
    "annotation",
    "tables",
    "chosen",
    "registry",
    "parameters",
    "shards",
    "columns",
    "spans",
    "sound",
    "chunk",
    "normalising",
}

# What takes long to import, and where it is imported at once since nothing works there without it.
HEAVY = {
    "av": {
        "audio.formats.av",
        "audio.formats.matroska",
        "audio.formats.ogg.decoder",
        "audio.formats.whole_stream",
    },
    "librosa": set(),
    "pandas": {"outputs.frame", "report.looking", "report.summary", "report.table"},
    "pyarrow": set(),
    "ray": {"executors.ray.cluster", "executors.ray.executor"},
    "rich": set(),
    "soundfile": {
        "audio.decoders",
        "audio.encode",
        "audio.probe",
        "audio.sniff",
        "audio.copying",
        "audio.target",
    },
    "torch": {"audio.speech_model", "dataset", "executors.local", "outputs.dataset", "outputs.streaming"},
}
QUICK = [
    "splitter",
    "splitter.cli.main",
    "splitter.options",
    "splitter.recipes.parameters",
    "splitter.recipes.registry",
    "splitter.registry",
    "splitter.cli.report",
    "splitter.records",
]


@dataclass(frozen=True)
class Import:
    """An import of a module, by its name below `splitter` or its full name elsewhere."""

    module: str
    ours: bool
    names: tuple[str, ...]
    at_once: bool
    typing: bool

    @property
    def room(self) -> str:
        return self.module.partition(".")[0]


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module, by its name below `splitter`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path
    return found


def tree_of(module: str) -> ast.Module:
    """Parse a module each time: all trees, if kept, would slow down each fork of the tests."""
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports_of(module: str) -> tuple[Import, ...]:
    """Return all imports of a module."""
    return tuple(imports(tree_of(module)))


def imports(node: ast.AST, *, at_once: bool = True, typing: bool = False) -> Iterator[Import]:
    """Yield the imports below a node."""
    for child in ast.iter_child_nodes(node):
        only = typing or (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"))
        if isinstance(child, ast.Import):
            yield from (_import(alias.name, (), at_once=at_once, typing=only) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, "relative imports hide where a name comes from"
            names = tuple(alias.name for alias in child.names)
            for module in _modules_of(child.module or "", names):
                yield _import(module, names, at_once=at_once, typing=only)
        deferred = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from imports(child, at_once=at_once and not deferred, typing=only)


def _modules_of(module: str, names: tuple[str, ...]) -> list[str]:
    """Return what is imported: a package's module may be imported by its name, too."""
    below = [
        f"{module}.{name}" for name in names if f"{module}.{name}".removeprefix("splitter.") in modules()
    ]
    return below if len(below) == len(names) else [module, *below]


def _import(name: str, names: tuple[str, ...], *, at_once: bool, typing: bool) -> Import:
    top, _, rest = name.partition(".")
    if top != "splitter":
        return Import(name, ours=False, names=names, at_once=at_once, typing=typing)
    return Import(rest or "__init__", ours=True, names=names, at_once=at_once, typing=typing)


def against_the_order() -> Iterator[tuple[str, Import]]:
    """Yield the imports of a room from rooms that are not above its own."""
    for module in modules():
        room = module.partition(".")[0]
        for one in imports_of(module):
            if one.ours and one.room != room and ROOMS.index(one.room) > ROOMS.index(room):
                yield module, one


def test_every_room_has_its_place_in_the_order():
    """The list in docs/design.md is whole, and the top of the package is short."""
    assert {*ROOMS} == {name.partition(".")[0] for name in modules()}
    assert len(ROOMS) == len({*ROOMS})
    assert len([*PACKAGE.glob("*.py")]) <= MOST_FILES_AT_THE_TOP


def test_imports_go_one_way():
    """A room imports only rooms above it, but for what DOORS and TYPES name."""
    for module, one in against_the_order():
        known = TYPES if one.typing else DOORS
        assert (module, one.module) in known, f"{module} imports {one.module}, whose room comes later"
        assert one.typing or not one.at_once, f"{module} opens the door to {one.module} at once"


def test_no_exception_is_there_in_vain():
    found = {(module, one.module) for module, one in against_the_order()}
    assert found == DOORS | TYPES


PACKAGES = [name for name in modules() if (PACKAGE / name.replace(".", "/") / "__init__.py").exists()]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_its_modules(package: str):
    """The docstring says in one sentence what the package is for, and then has a line for each module."""
    sentence, listed = (ast.get_docstring(tree_of(package)) or "").split("\n\n")
    below = [name.rpartition(".")[2] for name in modules() if name.rpartition(".")[0] == package]
    assert sentence.endswith(".")
    assert sorted(line.split()[0] for line in listed.splitlines()) == sorted(below)


@pytest.mark.parametrize("module", [name for name in modules() if name.partition(".")[0] in SEPARATE])
def test_executors_sinks_and_recipes_do_not_import_each_other(module: str):
    """Each is a file that can be added and removed by itself."""
    room = module.partition(".")[0]
    own = ".".join(module.split(".")[:2])
    # what normalises builds on two of the measures
    if own.rpartition(".")[2] in {"registry", "temporary", "normalising", room}:
        return
    for one in imports_of(module):
        if one.ours and one.room in SEPARATE:
            parts = one.module.split(".")
            seam = len(parts) > 1 and parts[1] in SEAMS
            assert seam or ".".join(parts[:2]) == own, f"{module} imports {one.module}"


@pytest.mark.parametrize("module", modules())
def test_what_takes_long_to_import_is_imported_where_it_is_used(module: str):
    for one in imports_of(module):
        if not one.ours and one.at_once and not one.typing and one.room in HEAVY:
            assert module in HEAVY[one.room], f"{module} imports {one.module} at once"


def test_help_is_there_at_once():
    """None of what is heavy comes with the modules that every call of the program needs."""
    program = f"import sys, {', '.join(QUICK)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert not {*HEAVY, "numpy", "psutil"} & {*done.stdout.split()}


@pytest.mark.parametrize("module", modules())
def test_no_module_reaches_into_another(module: str):
    """A name with an underscore belongs to its module, an attribute with one to the classes of its module."""
    tree = tree_of(module)
    for one in imports_of(module):
        taken = [name for name in one.names if name.startswith("_") and not name.startswith("__")]
        assert not (one.ours and taken), f"{module} imports {taken} from {one.module}"
    own = {name for node in ast.walk(tree) for name in _defined(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            assert node.attr in PYTHONS_OWN, f"{module}, line {node.lineno}: {ast.unparse(node)}"


# names of Python's own library that are public in all but their look
PYTHONS_OWN = {"_exit", "_replace", "_asdict", "_fields"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _defined(node: ast.AST) -> Iterator[str]:
    """Yield the names that a definition or an assignment gives, attributes of `self` included."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    ):
        yield node.attr


def test_no_module_is_a_drawer_for_all_sorts():
    """A name says what is in it."""
    assert not {"utils", "util", "helpers", "common", "misc"} & {
        part for name in modules() for part in name.split(".")
    }


def test_this_test_can_fail():
    """The walk over the modules finds what is there."""
    found = {name: {one.module for one in imports_of(name)} for name in modules()}
    assert "engine.main" in found["engine.entry_points"]
    assert "engine.rounds" in found["engine.main"]
    assert "engine.main" not in found["errors"]
    assert not [
        one for one in imports_of("engine.entry_points") if one.module == "engine.main" and one.at_once
    ]
