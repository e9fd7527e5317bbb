"""Pickle a value together with the code of its class."""

import importlib.util
import sys
from types import ModuleType
from typing import cast


def by_value(content: object, code: type) -> bytes:
    """Pickle a value together with the code of a class that another process may not be able to import."""
    import cloudpickle

    module = sys.modules[code.__module__]
    if module.__name__ != "__main__" and not _is_importable(module):
        cloudpickle.register_pickle_by_value(module)
    return cast("bytes", cloudpickle.dumps(content))


def _is_importable(module: ModuleType) -> bool:
    """Return whether another process gets this module when it imports its name."""
    try:
        found = importlib.util.find_spec(module.__name__)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin == module.__file__
