"""How inputs are processed: everything in a run that changes the outputs.

This is a part of every fingerprint, and `run.json` stores it.
"""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import xxhash

from splitter.ledger.identity import Identity, file_of
from splitter.ledger.run_files import RUN
from splitter.storage.base import Storage
from splitter.text.show import shortened

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset


PARAMETER = "parameter "
# the key in RUN for the ways in which earlier runs processed inputs
_EARLIER = "earlier"
# the key in RUN for the state of the recipe's code, which is not part of any fingerprint
_CODE = "code"


def recipe_how(dataset: "ProcessorDataset", tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the recipe's part of how inputs are processed.

    `tell` is called for each parameter that cannot be compared.
    """
    how = {
        "recipe": type(dataset).__qualname__,
        "file of the recipe": file_of(type(dataset)),
        "group_rows": dataset.group_rows,
        "metadata_types": {key: kind.__name__ for key, kind in dataset.metadata_types.items()},
        "version": dataset.version,
        "device": dataset.device,
        **{f"{PARAMETER}{name}": _identity(name, dataset, tell) for name in dataset.parameters},
    }
    return json.loads(json.dumps(how))


def _identity(name: str, dataset: "ProcessorDataset", tell: Callable[[str], None]) -> Any:  # noqa: ANN401 - JSON
    """Return the description of a parameter for fingerprints."""
    identity = Identity()
    plain = identity.of(dataset.parameters[name])
    if identity.unknown:
        kinds = ", ".join(identity.unknown)
        tell(
            f"parameter {name}: the content of a {kinds} cannot be compared, so changes will not be "
            "noticed; increase `version` when it changes"
        )
    return plain


def seed_of(how: dict[str, Any], header: Sequence[str]) -> int:
    """Return the seed of all fingerprints, which stands for how inputs are processed, and for the columns."""
    return xxhash.xxh3_64_intdigest(json.dumps([how, [*header]], sort_keys=True).encode())


def how_before(storage: Storage) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return how the last run processed inputs, and how earlier runs did whose outputs are still there."""
    return RUN.load(storage, _how) or ({}, [])


def code_before(storage: Storage) -> str:
    """Return the state of the recipe's code at the last run; empty if it is unknown."""
    return RUN.load(storage, lambda before, _: str(before.get(_CODE, ""))) or ""


def _how(before: dict[str, Any], _: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    before.pop(_CODE, None)
    earlier = [*map(dict, before.pop(_EARLIER, []))]
    for one in (before, *earlier):
        if not isinstance(one.get("sink", ""), str) or not isinstance(one.get("field", {}), dict):
            raise ValueError("its sinks are wrong")  # noqa: TRY004 - as for invalid JSON
    return before, earlier


def what_changed(how: dict[str, Any], earlier: list[dict[str, Any]]) -> list[str]:
    """Return in words how this run differs from earlier runs whose outputs are still there."""
    before = {name for one in earlier for name in one}
    names = before | {*how}
    if any(one.get("sink") != how["sink"] for one in earlier):
        # if the sink changed, options that only one of the two sinks has are not worth mentioning
        names = before & {*how}
    for name in ("file of the recipe", "recipe"):
        if any(one.get(name) != how[name] for one in earlier):
            # another recipe has other parameters
            names = {name} | {one for one in names if one in ("sink", "name", "keep_extension")}
    changes = []
    for name in sorted(names):
        now = how.get(name)
        others = [shortened(repr(one.get(name))) for one in earlier if one.get(name) != now]
        if others:
            was = " and ".join(dict.fromkeys(others))
            changes.append(f"{name} changed from {was} to {shortened(repr(now))}")
    return changes


def note_how(storage: Storage, how: dict[str, Any], earlier: list[dict[str, Any]], code: str = "") -> None:
    """Store how this run processes inputs, and how earlier runs made the outputs that it has not replaced."""
    RUN.save(storage, {**how, _EARLIER: earlier, **({_CODE: code} if code else {})}, pretty=True)


def forget_earlier(storage: Storage) -> None:
    """Remove the notes on how earlier runs processed inputs, since all outputs are now as of the last run."""
    how, earlier = how_before(storage)
    if earlier:
        note_how(storage, how, [], code_before(storage))
