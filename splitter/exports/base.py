"""The seam of exports: a format reads a corpus and writes into a target."""

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from splitter.exports.corpus import Corpus
from splitter.exports.target import ExportTarget


class Export(ABC):
    """An export of one format; the first line of its docstring says what the format is for.

    The parameters of `__init__` after the corpus are options of the command line, with their types, defaults
    and help read from the signature and from `Args:` in the docstring, as with recipes.

    Attributes:
        unused: The options of `splitter export` that have no meaning for it, so that they are refused.
    """

    unused: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, corpus: Corpus) -> None:
        """Refuse here what the format cannot express: nothing is written yet."""
        self.corpus = corpus

    @abstractmethod
    def write(self, target: ExportTarget) -> None:
        """Write all pieces."""


# made once: an encoder with options of its own is not kept by `json.dumps`
_encoded = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def json_of(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return a value as JSON, in plain text where UTF-8 can encode it."""
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
