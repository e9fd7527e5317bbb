"""Recipes, measures, sinks, executors, exports and input sources by name, to which other packages can add.

A package adds a name with an entry point in its pyproject.toml:

    [project.entry-points."splitter.sinks"]
    flat = "their_package.flat:FlatSink"
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from splitter.errors import Refused
from splitter.text.spelling import nearest


@dataclass(frozen=True)
class Registry:
    """Classes, or measures, by name: our own, and those of installed packages.

    Searching the installed packages takes about 20 ms, so it is done only for a name that is not one of ours,
    or to show all names.

    Attributes:
        group: The entry point group of the names that packages add.
        option: The option that takes a name.
        own: Our own names, each with its `module:Class`; a module is imported only when its class is loaded.
    """

    group: str
    option: str
    own: Mapping[str, str]

    def names(self) -> list[str]:
        """Return all names, ours first."""
        return [*self.own, *sorted(self._added().keys() - self.own.keys())]

    def target(self, name: str) -> str | None:
        """Return the `module:Class` of a name, or None; refuse a name that several packages add."""
        if name in self.own:
            return self.own[name]
        targets = sorted(self._added().get(name, ()))
        if len(targets) > 1:
            raise Refused(
                f"{self.option} {name!r}: several installed packages add this name "
                f"({', '.join(targets)}); uninstall all but one"
            )
        return targets[0] if targets else None

    def check(self, name: str) -> str:
        """Return the `module:Class` of a name; refuse an unknown name."""
        target = self.target(name)
        if target is None:
            names = self.names()
            hint = nearest(name, names) or f"; choose from {', '.join(names)}"
            raise Refused(f"{self.option} {name!r}: is unknown{hint}")
        return target

    def load(self, name: str, base: type[Any]) -> type[Any]:
        """Return the class of that name; refuse it if it is not a `base`, or cannot be imported."""
        found, target = self._imported(name)
        if not (isinstance(found, type) and issubclass(found, base)):
            raise Refused(f"{self.option} {name}: {target} is not a subclass of {base.__name__}")
        return found

    def load_object(self, name: str, kind: type[Any]) -> Any:  # noqa: ANN401 - of that kind
        """Return the object of that name; refuse it if it is of another kind, or cannot be imported."""
        found, target = self._imported(name)
        if not isinstance(found, kind):
            raise Refused(f"{self.option} {name}: {target} is not a {kind.__name__}")
        return found

    def _imported(self, name: str) -> tuple[Any, str]:
        """Import the object of a name; return it with its `module:attribute`."""
        target = self.check(name)
        module, _, attribute = target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute), target
        except Exception as error:
            if name in self.own:
                raise
            raise Refused(
                f"{self.option} {name}: {target} cannot be imported: {type(error).__name__}: {error}"
            ) from error

    def _added(self) -> dict[str, set[str]]:
        """Return the names that installed packages add, each with its targets; several are a conflict."""
        from importlib.metadata import entry_points

        added: dict[str, set[str]] = {}
        for one in entry_points(group=self.group):
            added.setdefault(one.name, set()).add(one.value)
        return added


RECIPES = Registry(
    "splitter.recipes",
    "--recipe",
    {
        "chunk": "splitter.recipes.chunk:Chunk",
        "command": "splitter.recipes.command:Command",
        "copy": "splitter.recipes.copy:Copy",
        "pauses": "splitter.recipes.pauses:Pauses",
        "segments": "splitter.recipes.segments:Segments",
        "silence": "splitter.recipes.silence:Silence",
        "spectrogram": "splitter.recipes.spectrogram:Spectrogram",
        "speech": "splitter.recipes.speech:Speech",
        "words": "splitter.recipes.words:Words",
    },
)
SINKS = Registry(
    "splitter.sinks",
    "--sink",
    {
        "files": "splitter.sinks.files:FilesSink",
        "webdataset": "splitter.sinks.webdataset:WebDatasetSink",
        "parquet": "splitter.sinks.parquet:ParquetSink",
        "virtual": "splitter.sinks.virtual:VirtualSink",
    },
)
EXECUTORS = Registry(
    "splitter.executors",
    "--executor",
    {
        "local": "splitter.executors.local:LocalExecutor",
        "ray": "splitter.executors.ray.executor:RayExecutor",
    },
)
MEASURES = Registry(
    "splitter.measures",
    "--measure",
    {
        "levels": "splitter.measures.levels:levels",
        "loudness": "splitter.measures.loudness:loudness",
        "true_peak": "splitter.measures.true_peak:true_peak",
        "clipping": "splitter.measures.clipping:clipping",
        "snr": "splitter.measures.snr:snr",
        "bandwidth": "splitter.measures.bandwidth:bandwidth",
        "speech": "splitter.measures.speech:speech",
        "dnsmos": "splitter.measures.dnsmos:dnsmos",
    },
)
EXPORTS = Registry(
    "splitter.exports",
    "--to",
    {
        "lhotse": "splitter.exports.lhotse:LhotseExport",
        "nemo": "splitter.exports.nemo:NemoExport",
        "kaldi": "splitter.exports.kaldi:KaldiExport",
        "ljspeech": "splitter.exports.metadata_csv:LjspeechExport",
        "piper": "splitter.exports.metadata_csv:PiperExport",
        "coqui": "splitter.exports.metadata_csv:CoquiExport",
        "huggingface": "splitter.exports.huggingface:HuggingfaceExport",
        "croissant": "splitter.exports.croissant:CroissantExport",
        "webdataset": "splitter.exports.shards:WebdatasetExport",
        "wids": "splitter.exports.shards:WidsExport",
        "energon": "splitter.exports.shards:EnergonExport",
        "audacity": "splitter.exports.audacity:AudacityExport",
        "raven": "splitter.exports.raven:RavenExport",
        "textgrid": "splitter.exports.textgrid:TextGridExport",
        "rttm": "splitter.exports.rttm:RttmExport",
        "ctm": "splitter.exports.ctm:CtmExport",
        "srt": "splitter.exports.srt:SrtExport",
        "vtt": "splitter.exports.vtt:VttExport",
        "label-studio": "splitter.exports.label_studio:LabelStudioExport",
    },
)
# a name is the ending of a path, without the dot, or the scheme of a URL; our own kinds look at more
INPUTS = Registry("splitter.inputs", "DATASET", {})
# the formats of other tools; without --from, each is asked in this order whether it can read the dataset
DIALECTS = Registry(
    "splitter.dialects",
    "--from",
    {
        "lhotse": "splitter.inputs.dialects.lhotse:Lhotse",
        "nemo": "splitter.inputs.dialects.nemo:Nemo",
        "kaldi": "splitter.inputs.dialects.kaldi:Kaldi",
        "common-voice": "splitter.inputs.dialects.commonvoice:Commonvoice",
        "ljspeech": "splitter.inputs.dialects.ljspeech:LjSpeech",
        "piper": "splitter.inputs.dialects.ljspeech:Piper",
        "huggingface": "splitter.inputs.dialects.huggingface:HuggingFace",
        "label-studio": "splitter.inputs.dialects.label_studio:LabelStudio",
    },
)
# run options whose value is a name in a registry
OF_OPTIONS = {"sink": SINKS, "executor": EXECUTORS, "from_": DIALECTS}
