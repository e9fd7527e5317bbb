"""The measures that `--measure` names."""

from collections.abc import Iterable
from importlib.util import find_spec

from splitter.errors import Refused
from splitter.measures.base import Measure
from splitter.registry import MEASURES


def chosen_measures(names: str | None) -> tuple[Measure, ...]:
    """Return the measures in a text such as 'levels,snr'; refuse any that is unknown or not installed."""
    listed = [name.strip() for name in (names or "").split(",")] if names is not None else []
    twice = next((name for name in listed if listed.count(name) > 1), None)
    if twice is not None:
        raise Refused(f"--measure {names}: {twice!r} is given twice; name each measure once")
    return tuple(map(_measure, listed))


def columns_of(measures: Iterable[Measure]) -> list[str]:
    """Return the columns of some measures."""
    return [column for measure in measures for column in measure.columns]


def _measure(name: str) -> Measure:
    found: Measure = MEASURES.load_object(name, Measure)
    missing = [package for package in found.needs if find_spec(package) is None]
    if missing:
        install = f"pip install 'splitter-ml[{name}]'"
        raise Refused(f"--measure {name}: needs {' and '.join(missing)}; install with: {install}")
    return found
