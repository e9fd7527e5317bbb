"""`--to croissant`: `mlcroissant` validates the description, and loads the records that it describes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from spoken import TEXTS, contents, spoken_by_sink

import splitter
from splitter.errors import Refused

# of rdflib and pandas, for what mlcroissant does
pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated"),
    pytest.mark.filterwarnings("ignore:.*:pandas.errors.Pandas4Warning"),
]

ABOUT = {
    "name": "spoken",
    "description": "Some sentences.",
    "licence": "CC-BY-4.0",
    "url": "https://example.org/spoken",
    "creator": "Ann",
    "published": "2026-11-20",
    "cite_as": "@misc{spoken}",
    "data_version": "1.0.0",
    "rai": ["dataBiases=Mostly read speech", "rai:dataCollection=Read aloud = by two people"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder of two sinks."""
    return spoken_by_sink(tmp_path_factory.mktemp("described"), "files", "parquet")


def described(export: Path) -> Any:
    """Read the description; what reads it takes long to import."""
    import mlcroissant

    return mlcroissant.Dataset(jsonld=export / "croissant.json")


def text_of(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("layout", ["folder", "parquet"])
@pytest.mark.parametrize("sink", ["files", "parquet"])
def test_each_record_of_each_split(made: Path, sink: str, layout: str):
    """No error and no warning; all texts, numbers and contents are equal."""
    export = made / f"{sink} {layout}"
    done = splitter.export(made / sink, "croissant", export, layout=layout, **ABOUT)
    assert (done.copied == 0) == (sink == "files" or layout == "parquet")
    dataset = described(export)
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings
    manifest = splitter.read_manifest(made / sink).set_index("text")
    sound = contents(made / sink)
    seen = []
    for split in ("train", "test"):
        for record in dataset.records("pieces", filters={"pieces/split": split}):
            text = text_of(record["pieces/text"])
            expected = manifest.loc[text]
            assert text_of(record["pieces/speaker"]) == expected["speaker"]
            assert record["pieces/frames"] == expected["frames"]
            assert record["pieces/start_seconds"] == expected["start_seconds"]
            if layout == "parquet":
                content = record["pieces/audio"]
            else:
                content = (export / "files" / text_of(record["pieces/file_name"])).read_bytes()
            assert content == sound[" ".join(text.split())]
            seen.append(text)
    assert seen == [*TEXTS.values()]


def test_what_is_said_of_the_dataset(made: Path):
    """The properties that were given, and no others; each table has its checksum."""
    export = made / "about"
    splitter.export(made / "files", "croissant", export, layout="parquet", **ABOUT)
    metadata = described(export).metadata
    assert (metadata.name, metadata.description) == ("spoken", "Some sentences.")
    assert metadata.license == ["CC-BY-4.0"]
    assert metadata.creators[0].name == "Ann"
    assert metadata.data_biases == ["Mostly read speech"]
    assert metadata.data_collection == "Read aloud = by two people"
    assert json.loads((export / "croissant.json").read_text())["conformsTo"][0].endswith("/croissant/1.1")
    assert len(metadata.file_objects) == 2
    for table in metadata.file_objects:
        content = (export / table.content_url).read_bytes()
        assert table.sha256 == hashlib.sha256(content).hexdigest()
    splitter.export(made / "files", "croissant", export)
    assert described(export).metadata.name == "files"
    assert "license" not in (export / "croissant.json").read_text()


def test_unknown_properties_are_refused(made: Path):
    with pytest.raises(Refused, match=r"'dataBias=x': is not a property .* did you mean 'dataBiases'"):
        splitter.export(made / "files", "croissant", rai=["dataBias=x"])
