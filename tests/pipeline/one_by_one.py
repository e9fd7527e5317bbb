"""The stages of a pipeline run one after the other, each by the door of a single run: what it must make."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import chains
from pipeline.chains import Spec, recipe_of

from splitter.inputs.listing import InputList
from splitter.testing.published import published, read_table

# columns that say where a sample is: a change of the list may group samples in another way
WHERE_IN_SHARD = ("output", "shard_offset", "shard", "row")


def one_by_one(spec: Spec, folder: Path) -> Iterator[tuple[Spec, Path]]:
    """Run stage after stage; yield the output folder of each."""
    lists: dict[str, InputList] = {}
    for stage in spec["stages"]:
        inputs = lists[stage["from"]] if "from" in stage else InputList(stage["list"])
        output = folder / stage["name"]
        recipe = recipe_of(stage, inputs.with_options(where=stage.get("where")))
        recipe.run(output, **{**stage.get("options", {}), "workers": 0, "quiet": True})
        yield stage, output
        lists[stage["name"]] = _list_after(output, inputs, stage, folder)


def _list_after(output: Path, inputs: InputList, stage: Spec, folder: Path) -> InputList:
    """The list that follows a stage, made by hand from its manifest."""
    manifest, adds_columns = output / "manifest.csv", stage["recipe"] == "Judge"
    rows = read_table(manifest)
    # what was skipped is no output, so that this says nothing; a stage that follows never sees it
    own = ("output", "size", "checksum", "skipped") if adds_columns else ("skipped",)
    with manifest.open(newline="") as file:
        header = [name for name in next(csv.reader(file)) if name not in own]
    path = folder / f"{stage['name']}.csv" if adds_columns else manifest
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if not row.get("skipped"))
    if not adds_columns:
        return InputList(str(path), column="output")
    # the list of the stage before may be beside its files
    home = Path(inputs.source).parent
    return InputList(str(path), root=inputs.root or str(home))


def content_of(output: Path) -> dict[str, Any]:
    """What a stage has published; samples of shards without saying in which shard they are."""
    found: dict[str, Any] = published(output)
    if not (output / "shards").exists():
        return found
    found = {name: content for name, content in found.items() if not name.startswith("shards/")}
    rows = read_table(output / "manifest.csv")
    found["manifest.csv"] = [
        {name: value for name, value in row.items() if name not in WHERE_IN_SHARD} for row in rows
    ]
    return found


def write_pipeline(spec: Spec, path: Path) -> Path:
    """Write the file that describes a pipeline."""
    lines = [f"output = {json.dumps(spec['output'])}"]
    for stage in spec["stages"]:
        table = {"name": stage["name"], "recipe": f"{chains.__file__}:{stage['recipe']}"}
        table |= {"from": stage["from"]} if "from" in stage else {"dataset": stage["list"]}
        table |= {"adds": "columns"} if stage["recipe"] == "Judge" else {}
        table |= {"where": stage["where"]} if "where" in stage else {}
        table |= {**stage["parameters"], **stage.get("options", {})}
        lines += ["[[stage]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    dropped = [stage["name"] for stage in spec["stages"] if stage.get("until_used")]
    lines += ["[keep]", *(f'{json.dumps(name)} = "until used"' for name in dropped)]
    path.write_text("\n".join(lines))
    return path
