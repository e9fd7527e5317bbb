"""Names for pieces that all tools accept: unique, and without characters that mean something to a tool."""

import re

from splitter.storage.layout import key_hash, shard_of

ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.]+(?:-[A-Za-z0-9_.]+)*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")


class UniqueKeys:
    """Unique keys of pieces, even if names in a folder differ only in their endings."""

    def __init__(self) -> None:
        self._folder = ""
        # hashes take less memory than texts; one folder suffices, since the files of an input are consecutive
        self._digests: set[int] = set()

    def key(self, name: str) -> str:
        folder = name.rpartition("/")[0]
        if folder != self._folder:
            self._folder, self._digests = folder, set()
        key = key_of(name)
        if (digest := key_hash(key)) in self._digests:
            key = f"{key}-{key_hash(name):016x}"
        self._digests.add(digest)
        return key


def key_of(name: str, *, whole: bool = False) -> str:
    """Return a key for a file name without its ending or, with `whole`, including it.

    If possible, the key is the name itself, with `--` for slashes; otherwise, a hash makes it unique.

    >>> key_of("speech/a/000001_1.5s.wav"), key_of("shards/shard-000000.tar/00000000-000000.flac")
    ('speech--a--000001_1.5s', '00000000-000000')
    """
    stem = shard_of(name)[1] if whole else ENDING.sub("", shard_of(name)[1])
    if all(map(_PLAIN_KEY.fullmatch, stem.split("/"))):
        return stem.replace("/", "--")
    return f"{_NOT_PLAIN.sub('_', stem).strip('-_')}-{key_hash(name):016x}"
