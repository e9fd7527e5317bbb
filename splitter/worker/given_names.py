"""The names that --name gives to the outputs of an input, when all of its metadata is known."""

from collections.abc import Sequence
from functools import partial

from splitter.errors import BadResult
from splitter.storage.layout import same_name
from splitter.storage.naming import Naming
from splitter.text.name_template import OPTION
from splitter.text.spelling import nearest
from splitter.worker.rows import Metadata, OutputRow, RowMaker


def named_outputs(
    naming: Naming, folder: str, made: Sequence[OutputRow], metadata: Metadata, rows: RowMaker
) -> list[OutputRow]:
    """Return outputs, which have the names of the recipe, under those that a template gives them.

    `folder` is the path of the input below the root, without its extension.
    """
    taken: dict[str, str] = {}
    named: list[OutputRow] = []
    for where, own_metadata, row in made:
        own = where[0]
        if not own:
            named.append((where, own_metadata, row))
            continue
        text_of = partial(_text_of, own=own_metadata, shared=metadata, rows=rows)
        name = naming.name(row, folder, own, len(taken), text_of)
        if (other := taken.setdefault(same_name(name), own)) != own:
            raise BadResult(
                f"outputs {other!r} and {own!r} would both get the name {name!r}; add {{index}} to {OPTION}"
            )
        named.append(((name, *where[1:]), own_metadata, row))
    return named


def _text_of(key: str, own: Metadata, shared: Metadata, rows: RowMaker) -> str:
    """Return the text of a value as the manifest has it, of an output or else its input; or BadResult."""
    for values in (own, shared):
        if key in (values or ()):
            return rows.text_of(key, values[key])
    hint = nearest(key, [*own, *shared])
    raise BadResult(
        f"{OPTION}: neither the dataset list nor the metadata of the outputs has {key!r}{hint}; choose "
        "another field"
    )
