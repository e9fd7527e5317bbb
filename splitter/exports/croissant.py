"""croissant: a description of the dataset in JSON-LD, which crawlers and `mlcroissant` read."""

import hashlib
import json
from typing import Any, ClassVar, Literal

from splitter.errors import Refused
from splitter.exports.base import Export
from splitter.exports.corpus import Corpus
from splitter.exports.tables import PieceTables, column_types, columns_of, kind_of
from splitter.exports.target import ExportTarget
from splitter.ledger.formats import FILE_NAME
from splitter.ledger.splits import COLUMN as SPLIT
from splitter.text.spelling import nearest

_TYPES = {"string": "sc:Text", "int64": "cr:Int64", "float64": "sc:Float", "bool": "sc:Boolean"}
VERSIONS = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
# properties of the vocabulary for responsible AI
RAI = (  # noqa: SIM905
    "annotationsPerItem annotatorDemographics dataAnnotationAnalysis dataAnnotationPlatform "
    "dataAnnotationProtocol dataBiases dataCollection dataCollectionMissingData dataCollectionRawData "
    "dataCollectionTimeframe dataCollectionType dataImputationProtocol dataLimitations "
    "dataManipulationProtocol dataPreprocessingProtocol dataReleaseMaintenancePlan dataSocialImpact "
    "dataUseCases machineAnnotationTools personalSensitiveInformation"
).split()
# the context of the specification, written out so that readers need not fetch it
_OF_CR = (  # noqa: SIM905
    "arrayShape citeAs column containedIn equivalentProperty extract field fileProperty fileObject fileSet "
    "format includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex "
    "repeated replace samplingRate separator source subField transform"
).split()
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{name: f"cr:{name}" for name in _OF_CR},
}
_FORMAT = "application/x-parquet"


class CroissantExport(Export):
    """A description in Croissant 1.1, with tables of the pieces that it describes.

    Args:
        name: The name of the dataset.
        description: What the dataset is.
        licence: Its licence: a URL, or an identifier from SPDX.
        url: Where it is published.
        creator: Who made it.
        published: The date of publication, such as 2026-11-20.
        cite_as: How to cite it, in BibTeX.
        data_version: Its version, such as 1.0.0.
        rai: A property for responsible AI and its text, such as `dataBiases=Read speech`; can be repeated.
        layout: folder: the outputs as files. parquet: the outputs in the tables; mlcroissant can load them.
    """

    unused: ClassVar[frozenset[str]] = frozenset({"absolute", "speaker", "text"})

    def __init__(  # noqa: PLR0913, PLR0917 - each is a property
        self,
        corpus: Corpus,
        name: str = "",
        description: str = "",
        licence: str = "",
        url: str = "",
        creator: str = "",
        published: str = "",
        cite_as: str = "",
        data_version: str = "",
        rai: list[str] | None = None,
        layout: Literal["folder", "parquet"] = "folder",
    ) -> None:
        super().__init__(corpus)
        given = {
            "description": description,
            "license": licence,
            "url": url,
            "creator": {"@type": "Person", "name": creator} if creator else "",
            "datePublished": published,
            "citeAs": cite_as,
            "version": data_version,
        }
        self._about = {key: value for key, value in given.items() if value}
        self._about |= dict(_property(text) for text in rai or [])
        self._name = name or corpus.output.rstrip("/").rpartition("/")[2]
        self._in_tables = layout == "parquet"
        self._columns = columns_of(corpus)

    def write(self, target: ExportTarget) -> None:
        """Write the tables, then the description of them."""
        tables: dict[str, PieceTables] = {}
        formats: dict[str, None] = {}
        kind = ""
        for piece in self.corpus.pieces():
            kind = kind_of(piece, kind)
            split = piece.split
            if split not in tables:
                name, content = f"data/{split or 'all'}-{{}}.parquet", kind if self._in_tables else ""
                tables[split] = PieceTables(name, self._columns, self.corpus, target, content)
            name = f"{piece.key}{piece.ending}"
            tables[split].add(piece, name)
            formats[f"{kind}/{piece.ending[1:].lower()}"] = None
            if not self._in_tables:
                target.add(piece, f"files/{name}")
        for table in tables.values():
            table.close()
        if tables:
            described = self._described(tables, kind, [*formats])
            with open(target.path("croissant.json"), "x", encoding="utf-8") as file:
                json.dump(described, file, indent=2)
                file.write("\n")

    def _described(self, tables: dict[str, PieceTables], kind: str, formats: list[str]) -> dict[str, Any]:
        files = [_file(name, path) for table in tables.values() for name, path in table.paths.items()]
        splits = [*filter(None, tables)]
        table = {
            "@type": "cr:FileSet",
            "@id": "tables",
            "encodingFormat": _FORMAT,
            "includes": "data/*.parquet",
        }
        folder = {"@type": "cr:FileSet", "@id": "files", "encodingFormat": formats, "includes": "files/*"}
        sets: list[dict[str, Any]] = [_splits(splits)] if splits else []
        return {
            "@context": CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": VERSIONS,
            "name": self._name,
            **self._about,
            "distribution": [*files, table, *([] if self._in_tables else [folder])],
            "recordSet": [
                *sets,
                {"@type": "cr:RecordSet", "@id": "pieces", "field": self._fields(kind, splits)},
            ],
        }

    def _fields(self, kind: str, splits: list[str]) -> list[dict[str, Any]]:
        fields = [
            _field(name, _TYPES[dtype])
            for name, dtype in column_types(self._columns, self.corpus.types).items()
            if name != SPLIT
        ]
        if splits:
            # read from the name of a table, so that readers of one split need not open the others
            field = _field(SPLIT, "sc:Text")
            field["source"] |= {
                "extract": {"fileProperty": "filename"},
                "transform": {"regex": r"^(.+)-.+\.parquet$"},
            }
            field["references"] = {"field": {"@id": "splits/name"}}
            fields.append(field)
        if not self._in_tables:
            return [_field(FILE_NAME, "sc:Text"), *fields]
        content = _field(kind, f"sc:{kind.capitalize()}Object")
        content["source"]["transform"] = {"jsonPath": "bytes"}
        return [content, *fields]


def _property(text: str) -> tuple[str, str]:
    """Return the name of a property for responsible AI, and its text; refuse an unknown one."""
    name, equals, value = text.partition("=")
    name = name.removeprefix("rai:")
    if not equals or name not in RAI:
        hint = nearest(name, RAI) or f"; choose from {', '.join(RAI)}"
        raise Refused(
            f"croissant --rai {text!r:.100}: is not a property and its text, such as dataBiases=...{hint}"
        )
    return f"rai:{name}", value


def _file(name: str, path: str) -> dict[str, Any]:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name.rpartition("/")[2],
        "contentUrl": name,
        "encodingFormat": _FORMAT,
        "sha256": digest.hexdigest(),
    }


def _field(name: str, kind: str) -> dict[str, Any]:
    source = {"fileSet": {"@id": "tables"}, "extract": {"column": name}}
    return {
        "@type": "cr:Field",
        "@id": f"pieces/{name}",
        "name": name,
        "dataType": kind,
        "source": source,
    }


def _splits(names: list[str]) -> dict[str, Any]:
    """Return the record set of splits that the specification asks for."""
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [{"@type": "cr:Field", "@id": "splits/name", "dataType": "sc:Text"}],
        "data": [{"splits/name": name} for name in names],
    }
