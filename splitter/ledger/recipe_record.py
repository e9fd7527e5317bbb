"""How inputs are processed: whatever changes the outputs.

It enters each fingerprint, and is kept beside the outputs.
"""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import xxhash

from splitter.errors import StorageError
from splitter.ledger.identity import Identity, file_of
from splitter.ledger.run_files import RUN
from splitter.storage.base import Storage
from splitter.storage.checked_file import sealed, unsealed

if TYPE_CHECKING:
    from splitter.dataset import ProcessorDataset


PARAMETER = "parameter "
LONGEST_VALUE = 100
# in RUN, beside how the run processes inputs
_EARLIER = "earlier"


def recipe_how(dataset: "ProcessorDataset", tell: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """What the recipe has to do with it; `tell` hears which parameters nothing can be said of."""
    how = {
        "recipe": type(dataset).__qualname__,
        "file of the recipe": file_of(type(dataset)),
        "group_rows": dataset.group_rows,
        "metadata_types": {key: kind.__name__ for key, kind in dataset.metadata_types.items()},
        "version": dataset.version,
        "device": dataset.device,
        **{f"{PARAMETER}{name}": _identity(name, dataset, tell) for name in dataset.parameters},
    }
    plain: dict[str, Any] = json.loads(json.dumps(how))
    return plain


def _identity(name: str, dataset: "ProcessorDataset", tell: Callable[[str], None]) -> Any:  # noqa: ANN401 - JSON
    """What stands for a parameter in fingerprints; says so where nothing can."""
    identity = Identity()
    plain = identity.of(dataset.parameters[name])
    if identity.unknown:
        kinds = ", ".join(identity.unknown)
        tell(
            f"parameter {name}: the content of a {kinds} cannot be compared, so a change of it will not be "
            "noticed; bump `version` when it changes"
        )
    return plain


def seed_of(how: dict[str, Any], header: Sequence[str]) -> int:
    """The part of every fingerprint that says how inputs are processed."""
    return xxhash.xxh3_64_intdigest(json.dumps([how, [*header]], sort_keys=True).encode())


def how_before(storage: Storage) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How the last run processed inputs, and how those did before it that made what is still there."""
    try:
        before = unsealed(storage.read(RUN))[0] if storage.exists(RUN) else {}
        earlier = [*map(dict, before.pop(_EARLIER, []))]
        for one in (before, *earlier):
            if not isinstance(one.get("sink", ""), str) or not isinstance(one.get("field", {}), dict):
                raise ValueError("its sinks are wrong")  # noqa: TRY301, TRY004 - as of what is no JSON
    except (ValueError, TypeError):
        # it serves to say what changed; what is done, and how, is in the commit records
        raise StorageError(
            f"{storage.path(RUN)}: is damaged; remove it, and run the same command again"
        ) from None
    return before, earlier


def what_changed(how: dict[str, Any], earlier: list[dict[str, Any]]) -> list[str]:
    """In words, what is processed in another way than by earlier runs, whose outputs are still there."""
    before = {name for one in earlier for name in one}
    names = before | {*how}
    if any(one.get("sink") != how["sink"] for one in earlier):
        # what only one of two sinks has is not worth a word beside that of the sink
        names = before & {*how}
    for name in ("file of the recipe", "recipe"):
        if any(one.get(name) != how[name] for one in earlier):
            # another recipe has other parameters
            names = {name} | {one for one in names if one in ("sink", "keep_extension")}
    changes = []
    for name in sorted(names):
        others = [_short(one.get(name)) for one in earlier if one.get(name) != how.get(name)]
        if others:
            changes.append(
                f"{name} changed from {' and '.join(dict.fromkeys(others))} to {_short(how.get(name))}"
            )
    return changes


def _short(value: object) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def note_how(storage: Storage, how: dict[str, Any], earlier: list[dict[str, Any]]) -> None:
    """Keep for the next run how this one processes inputs, and how what it has not replaced was made."""
    content = sealed({**how, _EARLIER: earlier}, pretty=True)
    if not storage.exists(RUN) or storage.read(RUN) != content:
        storage.write(RUN, content)


def forget_earlier(storage: Storage) -> None:
    """Nothing is left of what was made in another way than by the last run."""
    how, earlier = how_before(storage)
    if earlier:
        note_how(storage, how, [])
