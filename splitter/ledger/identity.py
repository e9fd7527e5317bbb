"""Descriptions of parameter values: the same in every run, and different if the value is different.

A parameter enters the fingerprint of every input, so its description depends on its value alone: not on
an address, a hash seed, the process, or whether a class was imported or is in a script.
"""

import dis
import enum
import functools
import json
import math
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import xxhash

from splitter.system.package import PACKAGE_FOLDER

LONGEST = 1000
_NOT_SET = "not set"


class Identity:
    """A description of values in JSON; `unknown` names the types that could not be described."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self._around: list[Any] = []

    def of(self, value: Any) -> Any:  # noqa: ANN401 - whatever parameter a recipe takes
        """Return the description of a value; if that is long, the name of the type and a checksum."""
        try:
            plain = self._plain(value)
        except RecursionError:
            self._around.clear()
            return self._give_up(value)
        text = _json(plain)
        return plain if len(text) <= LONGEST else f"{type(value).__qualname__} {_checksum(text.encode())}"

    def _plain(self, value: Any) -> Any:  # noqa: ANN401, PLR0911
        if value is None or isinstance(value, (str, bool)):
            return value
        if isinstance(value, enum.Enum):
            # combined flags have no name in Python 3.10
            return value.name or str(value)
        if isinstance(value, (int, float)):
            return value if isinstance(value, int) or math.isfinite(value) else repr(float(value))
        if isinstance(value, PurePath):
            return str(value)
        if isinstance(value, (bytes, bytearray)):
            return f"{type(value).__name__} {len(value)} {_checksum(value)}"
        if isinstance(value, (type, ModuleType)):
            return _name(value)
        if any(value is one for one in self._around):
            return f"itself, {len(self._around) - [*map(id, self._around)].index(id(value))} up"
        self._around.append(value)
        try:
            return self._compound(value)
        finally:
            if self._around:
                self._around.pop()

    def _compound(self, value: Any) -> Any:  # noqa: ANN401, PLR0911
        if isinstance(value, Mapping):
            return self._mapping([*value.items()])
        if isinstance(value, (list, tuple)):
            return [self._plain(one) for one in value]
        if isinstance(value, (set, frozenset)):
            return sorted(_json(self._plain(one)) for one in value)
        if isinstance(value, np.generic) and not isinstance(item := value.item(), np.generic):
            return self._plain(item)
        if type(value) in (np.ndarray, np.memmap):
            return self._array(value)
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            return self._tensor(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        return self._object(value)

    def _mapping(self, items: list[tuple[Any, Any]]) -> Any:  # noqa: ANN401
        parts = [(key, self._plain(key), self._plain(one)) for key, one in items]
        described = {key if isinstance(key, str) else _json(plain): one for key, plain, one in parts}
        if len(described) == len(parts):
            return described
        # keys that look the same in JSON, such as 1 and "1"
        return sorted(([type(key).__qualname__, plain, one] for key, plain, one in parts), key=_json)

    def _array(self, array: np.ndarray) -> Any:  # noqa: ANN401
        shape = "x".join(map(str, array.shape))
        if array.dtype.hasobject or array.dtype.names:
            return [f"array {array.dtype} {shape}", self._plain(array.tolist())]
        return f"array {array.dtype.str} {shape} {_checksum(np.ascontiguousarray(array).tobytes())}"

    def _tensor(self, tensor: Any) -> Any:  # noqa: ANN401
        try:
            return ["tensor", str(tensor.dtype), self._array(_array_of(tensor))]
        except (TypeError, RuntimeError, KeyError):
            return self._give_up(tensor)

    def _object(self, value: Any) -> Any:  # noqa: ANN401
        """Describe an object by what pickle would store."""
        if hasattr(value, "to_numpy") and hasattr(value, "index") and hasattr(value, "dtypes"):
            return self._frame(value)
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - a user's class may raise anything, and some cannot be pickled
            return self._give_up(value)
        name = _name(type(value))
        if isinstance(reduced, str):
            # such as a function wrapped by a cache
            inner = None if _is_of_a_library(value) else getattr(value, "__wrapped__", None)
            return f"{name} {reduced}" if inner is None else [name, reduced, self._plain(inner)]
        maker, arguments, state, items, pairs = [*reduced, None, None, None][:5]
        parts = [self._plain(maker), self._plain(arguments), self._plain(state)]
        parts += [self._plain(list(more)) for more in (items, pairs) if more is not None]
        return {name: parts[2] if maker is _NEW and pairs is items is None and len(arguments) == 1 else parts}

    def _frame(self, table: Any) -> Any:  # noqa: ANN401 - a DataFrame or a Series of pandas
        columns = [table[name] for name in table.columns] if hasattr(table, "columns") else [table]
        names = [self._plain(getattr(column, "name", None)) for column in columns]
        parts = [[str(column.dtype), self._array(np.asarray(column))] for column in columns]
        return [_name(type(table)), names, parts, self._array(np.asarray(table.index))]

    def _give_up(self, value: Any) -> str:  # noqa: ANN401
        name = type(value).__qualname__
        if name not in self.unknown:
            self.unknown.append(name)
        return name

    # -- functions: their code, not where they are defined ----------------------------------------------

    def _function(self, function: FunctionType) -> str:
        name = f"{function.__module__}.{function.__qualname__}"
        if _is_of_a_library(function):
            return name
        cells = [_content(cell) for cell in function.__closure__ or ()]
        there = function.__globals__
        used = {name: self._plain(there[name]) for name in _globals_of(function.__code__) if name in there}
        parts = [
            self._code(function.__code__),
            self._plain(function.__defaults__),
            self._plain(function.__kwdefaults__),
            [self._plain(content) for content in cells],
            used,
            self._plain(function.__dict__),
        ]
        return f"{function.__name__} {_checksum(_json(parts).encode())}"

    def _code(self, code: CodeType) -> list[Any]:
        """Describe the code of a function, without its name and line numbers."""
        constants = [
            self._code(one) if isinstance(one, CodeType) else self._constant(one) for one in code.co_consts
        ]
        names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
        counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
        table = getattr(code, "co_exceptiontable", b"")
        return [code.co_code.hex(), table.hex(), constants, [list(one) for one in names], counts]

    def _constant(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, tuple):
            return [self._constant(one) for one in value]
        return repr(value) if isinstance(value, (complex, type(...))) else self._plain(value)


_NEW = object().__reduce_ex__(4)[0]


def _globals_of(code: CodeType) -> list[str]:
    """Return the global names that code reads, including those in nested functions."""
    found = {
        one.argval: None for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= dict.fromkeys(_globals_of(constant))
    return list(found)


def _content(cell: Any) -> Any:  # noqa: ANN401
    try:
        return cell.cell_contents
    except ValueError:
        return _NOT_SET


def _array_of(tensor: Any) -> np.ndarray:  # noqa: ANN401
    """Return the numbers of a tensor without letting torch start threads: workers are yet to be forked."""
    tensor = tensor.detach().cpu()
    try:
        array: np.ndarray = tensor.numpy()
    except TypeError:
        # NumPy does not have this type: take its bits
        torch = sys.modules["torch"]
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        array = tensor.view(bits[tensor.element_size()]).numpy()
    return array


def file_of(recipe: Any) -> str:  # noqa: ANN401 - a class or a function
    """Return the stem of the file that defines a class; it is the same for a script and for file.py:Class."""
    path = getattr(sys.modules.get(recipe.__module__), "__file__", None) or ""
    return os.path.splitext(os.path.basename(path))[0]


def _name(thing: Any) -> str:  # noqa: ANN401 - a class or a module
    if isinstance(thing, ModuleType):
        return thing.__name__
    return f"{file_of(thing) or thing.__module__}.{thing.__qualname__}"


def _is_of_a_library(function: Any) -> bool:  # noqa: ANN401 - or what wraps one
    """Return whether a function's name identifies it: installed code does not change as a user's does."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    path = getattr(module, "__file__", None) or ""
    if not path.startswith(_libraries()):
        return False
    found: Any = module
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


@functools.cache
def _libraries() -> tuple[str, ...]:
    folders = {
        PACKAGE_FOLDER,
        *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    }
    return tuple(f"{folder}/" for folder in folders)


def _json(plain: Any) -> str:  # noqa: ANN401
    return json.dumps(plain, sort_keys=True)


def _checksum(content: bytes | bytearray) -> str:
    return f"xxh128:{xxhash.xxh3_128_hexdigest(content)}"
