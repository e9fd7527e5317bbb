"""From one recipe to the next: what the columns of a manifest are called in the run over its outputs.

manifest of the first stage     label  input       output  size       checksum       part
dataset list of the second      label  from_input  input   from_size  from_checksum  from_part
"""

import json
import os
from collections.abc import Mapping, Sequence

from splitter.errors import Refused
from splitter.stores.listings import content_beside
from splitter.text.urls import is_url, parent

SCHEMA_BESIDE = ".splitter/schema.json"
PREFIX = "from_"
OUTPUT, INPUT = "output", "input"


def labels_of_manifest(path: str, header: Sequence[str]) -> list[str] | None:
    """The dataset columns of a list that is a manifest in its output folder; None for any other list."""
    if not {OUTPUT, "size", "checksum"} <= {*header}:
        return None
    schema = (
        f"{parent(path)}/{SCHEMA_BESIDE}"
        if is_url(path)
        else os.path.join(os.path.dirname(path), SCHEMA_BESIDE)
    )
    try:
        content = content_beside(schema) if is_url(path) else _read(schema)
        if content is None:
            return None
        fields = json.loads(content)
        own = {OUTPUT, "size", "checksum", "skipped", *fields["types"]} - {*fields["columns"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{schema}: cannot be read ({error}); run that stage again") from None
    # what somebody has added is a label
    return [name for name in header if name not in own]


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def names_in_next_stage(
    header: Sequence[str], labels: Sequence[str], rename: Mapping[str, str]
) -> dict[str, str]:
    """The new name of each column that has one: the stage's own are prefixed, and its outputs are the inputs.

    What `rename` says comes first. Labels keep their names; so do those of the stages before, which came
    along as labels, and a name that is taken gets another prefix.
    """
    kept = [name for name in labels if name != INPUT]
    names = {OUTPUT: INPUT, **rename}
    taken = {*(name for name in kept if name not in names), *names.values()}
    for name in header:
        if name in names or name in kept:
            continue
        new = PREFIX + name
        while new in taken:
            new = PREFIX + new
        taken.add(new)
        names[name] = new
    return names
