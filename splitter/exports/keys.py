"""Names for pieces that tools take: unique, and of signs that mean nothing to any of them."""

import re

from splitter.storage.layout import key_hash, shard_of

ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.]+(?:-[A-Za-z0-9_.]+)*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")


class UniqueKeys:
    """The keys of pieces; names of one folder may differ in nothing but their endings."""

    def __init__(self) -> None:
        self._folder = ""
        # numbers take less memory than texts, and the files of one input are together
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
    """Return a name for a piece, from that of its file without the ending, or the `whole` of it.

    It is the name as it stands, with `--` for slashes, where no other can become the same.

    >>> key_of("speech/a/000001_1.5s.wav"), key_of("shards/shard-000000.tar/00000000-000000.flac")
    ('speech--a--000001_1.5s', '00000000-000000')
    """
    stem = shard_of(name)[1] if whole else ENDING.sub("", shard_of(name)[1])
    if all(map(_PLAIN_KEY.fullmatch, stem.split("/"))):
        return stem.replace("/", "--")
    return f"{_NOT_PLAIN.sub('_', stem).strip('-_')}-{key_hash(name):016x}"
