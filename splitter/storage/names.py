"""The one check of which names may be opened, written, moved or removed in an output folder.

Names come from commit records, small files of `.splitter` and manifests, and an output folder may come from a
stranger. A name that leads out of the folder, or into splitter's own files, is never used.
"""

import os
import re
from collections.abc import Iterable

from splitter.errors import StorageError
from splitter.storage.layout import OWN_FOLDER, same_name
from splitter.text.show import shortened

# a NUL, or a component that is empty, `.` or `..`; this includes absolute names, and a slash at the end
_UNCLEAN = re.compile(r"\0|(?:\A|/)\.{0,2}(?:/|\Z)")


def is_clean(name: object) -> bool:
    """Return whether a name stays below the folder that it is relative to.

    >>> [is_clean(name) for name in ("a/0.txt", "a/..b", "../a", "/etc/passwd", "a//b", "a/", ".", 7)]
    [True, True, False, False, False, False, False, False]
    """
    if not isinstance(name, str) or _UNCLEAN.search(name):
        return False
    if name.isascii():
        return True
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        # half a surrogate pair, which JSON can contain
        return False
    return True


def is_output(name: object) -> bool:
    """Return whether an output file may have a name: it is clean, and outside splitter's own folder.

    >>> [is_output(name) for name in ("a/0.txt", ".splitter/lock", ".Splitter/lock", "a/../.splitter/lock")]
    [True, False, False, False]
    """
    # some file systems ignore case
    return is_clean(name) and same_name(str(name).partition("/")[0]) != OWN_FOLDER


def refuse_unclean(root: str, names: Iterable[str]) -> None:
    """Raise StorageError if a name leads out of the folder `root`."""
    for name in names:
        if not is_clean(name):
            raise StorageError(
                f"{root}: {shown(name)} leads out of the output folder; no run has written such a name, so "
                "do not use this folder"
            )


def shown(name: object) -> str:
    """Return a name for a message, on one line and shortened."""
    return shortened(ascii(name) if isinstance(name, str) and not name.isprintable() else repr(name))
