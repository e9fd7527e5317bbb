"""The base class of export formats: a format reads a corpus and writes into a target."""

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from splitter.exports.corpus import Corpus
from splitter.exports.target import ExportTarget


class Export(ABC):
    """An export of one format; the first line of a subclass's docstring says what the format is for.

    The parameters of `__init__` after the corpus become options of the command line. As for recipes, their
    types and defaults come from the signature, and their help from `Args:` in the docstring.

    Attributes:
        unused: The options of `splitter export` that the format refuses, because they mean nothing to it.
    """

    unused: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, corpus: Corpus) -> None:
        """Refuse what the format cannot express, before anything is written."""
        self.corpus = corpus

    @abstractmethod
    def write(self, target: ExportTarget) -> None:
        """Write all pieces."""


# made once, because `json.dumps` makes a new encoder for each call with options
_encoded = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def json_of(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return a value as JSON, without escapes unless UTF-8 cannot encode it."""
    text = _encoded(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return json.dumps(value)
    return text


def json_line(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return a value as one line of JSON."""
    return f"{json_of(value)}\n"
