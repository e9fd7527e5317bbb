"""Pipelines as data, so that a test can change them and run them in a process of its own.

{"output": ..., "stages": [{"name", "recipe", "parameters", "version", "from" or "list", "where", "options"}]}
"""

import json
import os
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faulty import wait_while_held

import splitter
from splitter import InputFile, OutputFile, ProcessorDataset, Skip
from splitter.errors import Interrupted, SplitterError
from splitter.inputs.listing import InputList
from splitter.pipeline.running import run_stages

REPAIRED = "SPLITTER_TEST_REPAIRED"


def _number(text: str) -> int:
    return zlib.crc32(text.encode()) % 10


class _Step(ProcessorDataset):
    """What all stages here do with words that stand for a fate."""

    def __init__(self, inputs, size: int = 2, seconds: float = 0.0, mark: str = ""):
        super().__init__(inputs)
        self.size, self.seconds, self.mark = size, seconds, mark

    def text_of(self, input_file: InputFile) -> str:
        time.sleep(self.seconds)
        text = input_file.read_text()
        wait_while_held(text)
        if f"fail-{self.mark}" in text and not os.environ.get(REPAIRED):
            raise ValueError(f"no good: {text[:20]}")
        if f"skip-{self.mark}" in text:
            raise Skip(f"not wanted: {text[:20]}")
        return text


class Cut(_Step):
    """Some files of a few words each, with names that are no plain ones."""

    def process(self, input_file):
        words = self.text_of(input_file).split()
        return self._parts(words), {"words": len(words)}

    def _parts(self, words):
        for at in range(0, len(words), self.size):
            part = " ".join(words[at : at + self.size])
            metadata = {"at": at, "score": _number(part)}
            if "late" in part:
                metadata["late"] = part
            yield OutputFile(f"{at}, 'ü'.{'txt' if self.size % 2 else 'md'}", part, metadata)


class CutLast(Cut):
    """The same names as with words in pairs, but for those of a text that says so."""

    def _parts(self, words):
        # so late that what follows is at work
        time.sleep(0.5 if ".md" in words else 0)
        ending = "md" if "last" in words and ".md" not in words else "txt"
        for output in super()._parts(words):
            yield OutputFile(f"{output.name.rpartition('.')[0]}.{ending}", output.content, output.metadata)


class Broken(_Step):
    """Works for nothing."""

    def process(self, input_file):
        raise KeyError(self.mark)


class Change(_Step):
    """One file of the same name, whatever the input's: its text in another form."""

    def process(self, input_file):
        text = self.text_of(input_file)
        return (OutputFile("out.txt", f"{text} {self.size}", {f"n{self.mark}": len(text)}),), {}


class Judge(_Step):
    """Metadata only."""

    def process(self, input_file):
        text = self.text_of(input_file)
        metadata = {f"q{self.mark}": (_number(text) * self.size) % 10}
        return (), {**metadata, f"late{self.mark}": 1} if "late" in text else metadata


RECIPES = {one.__name__: one for one in (Cut, CutLast, Change, Judge, Broken)}
Spec = dict[str, Any]


def recipe_of(stage: Spec, inputs: Any) -> ProcessorDataset:
    """The recipe of a stage."""
    recipe = RECIPES[stage["recipe"]](inputs, **stage["parameters"])
    recipe.version = stage["version"]
    return recipe


def pipeline_of(spec: Spec) -> splitter.Pipeline:
    """The pipeline."""
    pipeline = splitter.Pipeline(spec["output"], queue=spec.get("queue", "1GB"))
    made: dict[str, Any] = {}
    for stage in spec["stages"]:
        source = made[stage["from"]] if "from" in stage else stage["list"]
        recipe = recipe_of(stage, InputList(source, where=stage.get("where")))
        add = pipeline.columns if stage["recipe"] == "Judge" else pipeline.stage
        more = {name: stage[name] for name in ("until_used", "fuse") if name in stage}
        made[stage["name"]] = add(stage["name"], recipe, **stage.get("options", {}), **more)
    return pipeline


def main(arguments: list[str]) -> int:
    """Run the pipeline in a file; what it says is standard error's."""
    request = json.loads(Path(arguments[0]).read_text())
    try:
        pipeline = pipeline_of(request["spec"]).with_options(request["options"])
        return run_stages(pipeline, pipeline.stages).exit_code
    except Interrupted as interruption:
        return interruption.exit_code
    except SplitterError as error:
        sys.stderr.write(f"splitter: {error}\n")
        return 2


def environ_of(*, repaired: bool) -> Mapping[str, str]:
    """The environment in which failing inputs fail no more."""
    return {REPAIRED: "1"} if repaired else {}
