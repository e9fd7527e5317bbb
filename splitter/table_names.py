"""The files that a run leaves to be read, beside manifest.csv and errors.csv."""

from splitter.errors import Refused

PARQUET, JSONL = "manifest.parquet", "manifest.jsonl"
# what Hugging Face's audiofolder and imagefolder look for
FOLDER_CSV, FOLDER_PARQUET = "metadata.csv", "metadata.parquet"
OTHERS = (PARQUET, JSONL, FOLDER_CSV, FOLDER_PARQUET)
_FORMATS = {"csv": "", "parquet": PARQUET, "jsonl": JSONL}


def other_tables(formats: str, *, audiofolder: bool = False) -> list[str]:
    """What `--manifest-format` and `--audiofolder` ask for.

    >>> other_tables("csv,jsonl"), other_tables("parquet", audiofolder=True)
    (['manifest.jsonl'], ['manifest.parquet', 'metadata.parquet'])
    """
    asked = [one.strip() for one in formats.split(",")]
    for one in asked:
        if one not in _FORMATS:
            known = ", ".join(_FORMATS)
            raise Refused(f"--manifest-format {formats!r}: {one!r} is unknown; choose from {known}")
    names = [name for one, name in _FORMATS.items() if one in asked and name]
    return [*names, FOLDER_PARQUET if PARQUET in names else FOLDER_CSV] if audiofolder else names
