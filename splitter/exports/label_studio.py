"""Label Studio: tasks with regions to look at and correct."""

from typing import Any, ClassVar
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from splitter.exports.annotation import BILLION, AnnotationExport, Content, Mark, MarkedRecording
from splitter.exports.base import json_line
from splitter.exports.corpus import Corpus
from splitter.exports.target import ExportTarget
from splitter.text.csv import ENCODING, ESCAPE

_KINDS = {"text": "Speech", "name": "Piece"}


class LabelStudioExport(AnnotationExport):
    """A Label Studio task for each recording, with its regions as predictions."""

    unused: ClassVar[frozenset[str]] = frozenset()

    name = "label-studio"
    # labels become part of XML, which cannot hold these
    cannot_hold = r"[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
    holds_empty = True
    names_speakers = True

    def __init__(self, corpus: Corpus, content: Content | None = None, prefix: str | None = None) -> None:
        """Take the text that comes before the paths of recordings.

        Args:
            corpus: The pieces.
            content: What a region says: the text of a piece; its labels, each with its own times; who
                speaks; or the name of the piece. Default: the first of these that the manifest has.
            prefix: Text before the path of a recording below its root, such as /data/local-files/?d= or
                https://host/recordings/. Default: the paths on this machine.
        """
        super().__init__(corpus, content)
        self._prefix = prefix
        # dicts, because they keep the order
        self._names: dict[str, None] = {}
        self._speakers: dict[str, None] = {}

    def write(self, target: ExportTarget) -> None:
        """Write the tasks, and the labeling interface that they need."""
        tasks = target.open("tasks.json")
        before = "[\n"
        for recording in self.recordings():
            tasks.write(before + json_line(self._task(recording, target)).rstrip("\n"))
            before = ",\n"
        tasks.write("\n]\n")
        target.open("interface.xml").write(self._interface())

    def lines(self, recording: MarkedRecording) -> list[str]:
        raise NotImplementedError  # all recordings are in one file

    def _task(self, recording: MarkedRecording, target: ExportTarget) -> dict[str, Any]:
        piece = recording.marks[0].piece
        if self._prefix is None:
            audio = target.source_path(piece)
        else:
            audio = self._prefix + quote(recording.path, encoding=ENCODING, errors=ESCAPE)
        results = []
        for number, mark in enumerate(recording.marks, 1):
            about = {"id": f"region-{number}", "to_name": "audio"}
            length = {"original_length": recording.length / BILLION}
            results += [{**about, **result, **length} for result in self._results(mark)]
        return {"data": {"audio": audio}, "predictions": [{"model_version": "splitter", "result": results}]}

    def _results(self, mark: Mark) -> list[dict[str, Any]]:
        """Return the results for a region: its label and, if there are any, its text and its speaker."""
        where = {"start": mark.start / BILLION, "end": mark.end / BILLION, "channel": mark.channel}
        name = _KINDS.get(self.content, mark.label)
        self._names[name] = None
        region = {"from_name": "label", "type": "labels", "value": {**where, "labels": [name]}}
        if self.content == "name":
            region["meta"] = {"text": [mark.label]}
        found = [region]
        if self.content == "text" and mark.label:
            value = {**where, "text": [mark.label]}
            found.append({"from_name": "transcription", "type": "textarea", "value": value})
        if mark.speaker:
            self._speakers[mark.speaker] = None
            value = {**where, "choices": [mark.speaker]}
            found.append({"from_name": "speaker", "type": "choices", "value": value})
        return found

    def _interface(self) -> str:
        lines = ["<View>", '  <Labels name="label" toName="audio">']
        lines += [f"    <Label value={quoteattr(name)}/>" for name in self._names]
        lines += ["  </Labels>", '  <Audio name="audio" value="$audio"/>']
        if self.content == "text":
            lines.append('  <TextArea name="transcription" toName="audio" perRegion="true" editable="true"/>')
        if self._speakers:
            lines.append('  <Choices name="speaker" toName="audio" perRegion="true">')
            lines += [f"    <Choice value={quoteattr(name)}/>" for name in self._speakers]
            lines.append("  </Choices>")
        return "\n".join([*lines, "</View>", ""])
