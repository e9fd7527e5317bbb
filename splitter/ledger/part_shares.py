"""Which part of a run takes which input: decided once, so that parts agree without talking to each other."""

import contextlib
from typing import Protocol

import numpy as np

from splitter.ledger.run_files import SHARES
from splitter.sorted_arrays import index_of
from splitter.storage.base import Storage

# an input, and the part that takes it
_SHARE = np.dtype([("key", "<u8"), ("part", "<u2")])


class Measured(Protocol):
    """Inputs in the order of the list, with their keys and sizes."""

    @property
    def keys(self) -> np.ndarray:
        """The hash of each input's key."""

    @property
    def sizes(self) -> np.ndarray:
        """The bytes of each input."""


def bytes_together(sizes: np.ndarray) -> int:
    """Return the total size of inputs, as far as their sizes are known."""
    return int(sizes[sizes > 0].sum())


def inputs_of_part(storage: Storage, found: Measured, *, keep: bool = True) -> np.ndarray | None:
    """Return which inputs belong to this part of the run; None if the run has no parts.

    The first part to start divides the inputs and, with `keep`, stores the shares for the others.
    """
    part = storage.part
    if part is None:
        return None
    file = SHARES.named(SHARES.name.replace("<parts>", str(part.of)))
    with storage.gate() if keep else contextlib.nullcontext():
        shares = file.load(storage, lambda _, rest: np.frombuffer(rest, _SHARE))
        shares = np.empty(0, _SHARE) if shares is None else shares
        part_of, now = _shares(shares, found.keys, found.sizes, part.of)
        if keep and len(now) > len(shares):
            file.save(storage, {"of": part.of}, now.tobytes())
    return part_of == part.number


def _shares(
    shares: np.ndarray, keys: np.ndarray, sizes: np.ndarray, of: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of each input, and the known shares with the new ones added.

    New inputs are dealt out in turn, the largest first. After that, an input stays with its part, even if
    its size changes or cannot be seen: no two parts ever work on the same input.
    """
    # an input without a share has the index -1, which finds the 0 at the end: no part
    part_of = np.append(shares["part"], 0)[index_of(shares["key"], keys)]
    new = np.flatnonzero(part_of == 0)
    order = new[np.argsort(-sizes[new], kind="stable")]
    part_of[order] = np.arange(len(order)) % of + 1
    added = np.empty(len(new), _SHARE)
    added["key"], added["part"] = keys[new], part_of[new]
    shares = np.concatenate((shares, added))
    return part_of, shares[np.argsort(shares["key"], kind="stable")] if len(new) else shares
