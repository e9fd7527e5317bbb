"""Archives made and read by Python's own tarfile, as an oracle for the tools; and random archives."""

import io
import itertools
import re
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from hypothesis import strategies as st

from splitter.cli.main import exit_code

Members = list[tuple[str, bytes]]


def tar_bytes(members: Iterable[tuple[str, bytes]], kind: int = tarfile.PAX_FORMAT) -> bytes:
    """Return an archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind, encoding="utf-8", errors="surrogateescape") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.uname = len(content), 1.5, "someone"
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def write_tar(path: Path, members: Iterable[tuple[str, bytes]], kind: int = tarfile.PAX_FORMAT) -> Path:
    path.write_bytes(tar_bytes(members, kind))
    return path


def read_tar(path: Path) -> Members:
    """Return the files of an archive; check that each has the headers that never change."""
    found = []
    with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            assert (info.mtime, info.mode, info.uid, info.gid, info.uname) == (0, 0o644, 0, 0, "")
            file = tar.extractfile(info)
            assert file is not None
            found.append((info.name, file.read()))
    return found


def key_of(name: str) -> str:
    """Return the key of a name, by WebDataset's own expression."""
    match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name, re.DOTALL)
    return match[1] if match else name


def grouped(members: Members) -> list[tuple[str, Members]]:
    """Return neighboring members of the same key as groups."""
    return [(key, list(group)) for key, group in itertools.groupby(members, lambda one: key_of(one[0]))]


def flat(samples: Iterable[tuple[str, Members]]) -> Members:
    return [member for _, members in samples for member in members]


def tar(*arguments: str | Path | int) -> int:
    """Run a tool in this process."""
    return exit_code(["tar", *map(str, arguments)])


LETTERS = st.characters(exclude_characters="/\0.", exclude_categories=["Cs"])
PARTS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=6),
    st.sampled_from(["a", "b", "ab", "a b", "it's", "ä", "-", "{0}", "*", "é" * 60, "x" * 98, "y" * 250]),
    st.just("\udcff"),
)
FOLDERS = st.lists(st.one_of(PARTS, st.sampled_from(["v1.0", ".x", "..."])), max_size=2)
KEYS = st.builds(lambda folders, base: "/".join([*folders, base]), FOLDERS, PARTS)
FIELDS = st.one_of(st.sampled_from(["wav", "cls", "json", "seg.png", "", "a..b", "z" * 120]), PARTS)
CONTENTS = st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"q" * 512, b"r" * 513, b"s" * 10240]))
SAMPLES = st.lists(
    st.tuples(KEYS, st.dictionaries(FIELDS, CONTENTS, min_size=1, max_size=4)),
    min_size=1,
    max_size=8,
    unique_by=lambda sample: sample[0],
)
KINDS = st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])


def members_of(samples: Sequence[tuple[str, dict[str, bytes]]]) -> Members:
    return [(f"{key}.{field}", content) for key, fields in samples for field, content in fields.items()]
