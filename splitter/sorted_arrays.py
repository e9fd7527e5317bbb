"""Find the indices of values in arrays."""

import numpy as np


def index_in_sorted(there: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the index of each value in a sorted array: the first of several, or -1 if it is absent."""
    if not len(there):
        return np.full(len(values), -1)
    at = np.minimum(np.searchsorted(there, values), len(there) - 1)
    at[there[at] != values] = -1
    return at


def index_of(there: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the index of each value in an unsorted array: the first of several, or -1 if it is absent."""
    order = np.argsort(there, kind="stable")
    at = index_in_sorted(there[order], values)
    return np.where(at < 0, -1, order[at]) if len(order) else at
