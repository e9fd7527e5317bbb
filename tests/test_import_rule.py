"""Imports point down the way data takes, and no module reaches into another."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import splitter

PACKAGE = Path(splitter.__file__).parent

# A module imports only from lines above its own; a package that is named stands for all its modules.
ROOMS = """
    content_types ending audio.endings errors audio.hush importing parts row_groups single
    urls
    table_names
    csv_text audio.flac identity audio.mp3 audio.ogg options parameters progress records audio.wav
    columns audio.decoders inputs.joining keeper processes storage.stores travel inputs.where
    inputs.places programs
    storage.names
    storage.tree
    storage.content inputs.fetching storage.listings storage.objects storage.power slices surroundings voice
    storage.sealed temporary
    storage.ownership stages storage.base
    commits
    journal
    standing unsynced
    storage.locks
    storage.folder
    storage.remote
    formats splits
    audio.av_decoder audio.resampling audio.tape
    audio.recordings
    audio.sound
    tar
    outputs.contents inputs.shards
    inputs.archives inputs.members
    inputs.parquet
    inputs.shard_inputs
    sinks inputs.sources
    inputs.table
    annotations dataset manifest
    groups
    jobs outputs.tables rows tables
    outputs.decoded failures losses state
    audio.cutting outputs.frame audio.headers inputs.kept task
    batch
    outputs.opened outputs.stats
    outputs.streaming
    outputs.opening
    guard how plan recipes summary
    relay
    executors
    apart tar.on_ray trial
    verification.findings rehearsal verification.reshard
    verification.own_files
    verification.check
    verification.repair
    outlook work
    engine
    assembly forecast
    verification.again
    run
    report
    __init__
    completion tar.commands
    cli
    __main__
"""
LINE_OF = {room: number for number, line in enumerate(ROOMS.split("\n")) for room in line.split()}

# Doors that lead up, opened only when they are used: `dataset.run(...)` is `splitter.run(dataset, ...)`.
DOORS = {("dataset", "run"), ("dataset", "plan")}

# Of these packages no module imports another, but for the seams that several of them share.
APART = {"executors", "recipes", "sinks"}
SEAMS = {"base", "shards"}

# What takes long to import, and where it is imported at once since nothing works there without it.
HEAVY = {
    "librosa": set(),
    "pandas": {"outputs.frame", "report.looking", "report.summary", "report.table"},
    "pyarrow": set(),
    "ray": {"executors.ray"},
    "rich": set(),
    "soundfile": {"audio.sound", "audio.decoders", "audio.recordings"},
    "torch": {"dataset", "executors.local", "outputs.opened", "outputs.streaming"},
}
QUICK = [
    "splitter",
    "splitter.cli.main",
    "splitter.options",
    "splitter.recipes.parameters",
    "splitter.cli.report",
    "splitter.recipes",
    "splitter.records",
]


@dataclass(frozen=True)
class Import:
    """An import of a module, by its name below `splitter` or its full name elsewhere."""

    module: str
    ours: bool
    names: tuple[str, ...]
    at_once: bool

    @property
    def room(self) -> str:
        return room_of(self.module) if self.ours else self.module.partition(".")[0]


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module, by its name below `splitter`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(node: ast.AST, *, at_once: bool = True) -> Iterator[Import]:
    """The imports below a node, but for those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import):
            yield from (_import(alias.name, (), at_once=at_once) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, "relative imports hide where a name comes from"
            names = tuple(alias.name for alias in child.names)
            for module in _modules_of(child.module or "", names):
                yield _import(module, names, at_once=at_once)
        deferred = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from imports(child, at_once=at_once and not deferred)


def _modules_of(module: str, names: tuple[str, ...]) -> list[str]:
    """`from splitter.engine import main as engine` imports a module by its name, too."""
    below = [
        f"{module}.{name}" for name in names if f"{module}.{name}".removeprefix("splitter.") in modules()
    ]
    return below if len(below) == len(names) else [module, *below]


def _import(name: str, names: tuple[str, ...], *, at_once: bool) -> Import:
    top, _, rest = name.partition(".")
    if top != "splitter":
        return Import(name, ours=False, names=names, at_once=at_once)
    return Import(rest or "__init__", ours=True, names=names, at_once=at_once)


def room_of(module: str) -> str:
    """The module, or the package around it, that has a place in ROOMS."""
    return next((name for name in _around(module) if name in LINE_OF), module)


def _around(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


@pytest.mark.parametrize("module", modules())
def test_imports_point_down(module: str):
    """From the command line to the errors; a new module is given its place in ROOMS."""
    room, imported = room_of(module), [*imports(modules()[module])]
    assert room in LINE_OF or not imported, f"{module} has no place in ROOMS"
    for one in imported:
        if one.ours and one.room != room and ((module, one.module) not in DOORS or one.at_once):
            assert LINE_OF[one.room] < LINE_OF[room], f"{module} imports {one.module}"


@pytest.mark.parametrize("module", [name for name in modules() if room_of(name) in APART])
def test_executors_sinks_and_recipes_do_not_import_each_other(module: str):
    """Each is a file that can be added and removed by itself."""
    room = room_of(module)
    for one in imports(modules()[module]):
        if one.ours and one.room in APART:
            is_list_of_all = module == room and one.room == room
            assert is_list_of_all or one.module.removeprefix(f"{room}.") in SEAMS, (
                f"{module} imports {one.module}"
            )


@pytest.mark.parametrize("module", modules())
def test_what_takes_long_to_import_is_imported_where_it_is_used(module: str):
    for one in imports(modules()[module]):
        if not one.ours and one.at_once and one.room in HEAVY:
            assert module in HEAVY[one.room], f"{module} imports {one.module} at once"


@pytest.mark.parametrize("module", QUICK)
def test_help_is_there_at_once(module: str):
    """None of what is heavy comes with the modules that every call of the program needs."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert not {*HEAVY, "numpy", "psutil"} & {*done.stdout.split()}


@pytest.mark.parametrize("module", modules())
def test_no_module_reaches_into_another(module: str):
    """A name with an underscore belongs to its module, an attribute with one to the classes of its module."""
    tree = modules()[module]
    for one in imports(tree):
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
    """The names that a definition or an assignment gives, attributes of `self` included."""
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
    found = {name: {one.module for one in imports(tree)} for name, tree in modules().items()}
    assert "engine" in found["run"]
    assert "work" in found["engine"]
    assert "splitter.engine.main" not in found["errors"]
    assert "engine" not in found["errors"]
    assert not [one for one in imports(modules()["run"]) if one.module == "engine" and one.at_once]
