"""Every tool that moves samples, against tarfile: nothing lost, nothing changed, the order kept."""

import gzip
import io
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from doors import CHECKOUT, program
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from tar_archives import (
    KINDS,
    SAMPLES,
    flat,
    grouped,
    key_of,
    members_of,
    read_tar,
    tar,
    tar_bytes,
    write_tar,
)

from splitter.tar import samples as module

few = settings(max_examples=depth(15))
TOOL = [sys.executable, "-m", "splitter", "tar"]


@pytest.fixture(scope="module")
def room():
    with tempfile.TemporaryDirectory(prefix="a tar's room ") as name:
        yield Path(name)


def in_order(count, fields=("txt", "cls"), start=0):
    """Samples with keys in order, as members."""
    return [
        (f"{n:05d}.{field}", f"{n} {field}".encode()) for n in range(start, start + count) for field in fields
    ]


@given(SAMPLES, KINDS, st.booleans())
@few
def test_cat_copies_every_member(room, samples, kind, packed):
    """Names of any letters and lengths, dots in fields and folders, empty contents, GNU and POSIX, gzip."""
    members = members_of(samples)
    data = tar_bytes(members, kind)
    (room / "in.tar").write_bytes(gzip.compress(data) if packed else data)
    assert tar("cat", room / "in.tar", "-o", room / "out.tar") == 0
    assert read_tar(room / "out.tar") == members


@given(SAMPLES, st.integers(0, 5), st.integers(0, 5), st.tuples(st.integers(1, 9), st.integers(1, 3)))
@few
def test_cat_chooses_and_mixes(room, samples, skip, count, mixing):
    """A slice by --skip and --count; --shuffle keeps each sample, also when it holds more than there are."""
    held, workers = mixing
    members = members_of(samples)
    expected = grouped(members)[skip : skip + count]
    half = len(samples) // 2
    write_tar(room / "1.tar", members_of(samples[:half]))
    write_tar(room / "2.tar", members_of(samples[half:]))
    chosen = ["--skip", skip, "--count", count, "--workers", workers]
    assert tar("cat", room / "1.tar", room / "2.tar", "-o", room / "out.tar", *chosen) == 0
    assert read_tar(room / "out.tar") == flat(expected)
    for target in ("mixed.tar", "again.tar"):
        flags = [*chosen, "--shuffle", held, "--seed", 3]
        assert tar("cat", room / "[12].tar", "-o", room / target, *flags) == 0
    assert sorted(grouped(read_tar(room / "mixed.tar"))) == sorted(expected)
    assert (room / "mixed.tar").read_bytes() == (room / "again.tar").read_bytes()


def test_many_readers_lose_nothing(folder):
    """Twenty archives, seven at a time: the bytes are those of one reader."""
    for shard in range(20):
        write_tar(folder / f"in-{shard:02d}.tar", in_order(57, start=57 * shard))
    for workers in (1, 7):
        given = ["-o", folder / f"{workers}.tar", "--workers", workers]
        assert tar("cat", folder / "in-{00..19}.tar", *given) == 0
    assert read_tar(folder / "7.tar") == in_order(20 * 57)
    assert (folder / "7.tar").read_bytes() == (folder / "1.tar").read_bytes()


def test_shuffle_mixes_and_depends_on_the_seed(folder):
    write_tar(folder / "in.tar", in_order(100))
    orders = []
    for seed in (0, 1):
        assert tar("cat", folder / "in.tar", "-o", folder / "out.tar", "--shuffle", 50, "--seed", seed) == 0
        orders.append([key for key, _ in grouped(read_tar(folder / "out.tar"))])
    assert sorted(orders[0]) == sorted(orders[1])
    assert len({tuple(orders[0]), tuple(orders[1]), tuple(sorted(orders[0]))}) == 3


@given(SAMPLES, st.integers(1, 4), st.integers(1024, 30000))
@few
def test_split_fills_shards_in_order(samples, count, size):
    """Whole samples; no shard beyond its count, or beyond its size but for a single sample."""
    with tempfile.TemporaryDirectory() as name:
        room, members = Path(name), members_of(samples)
        write_tar(room / "in.tar", members)
        assert (
            tar("split", room / "in.tar", "-o", room / "s-{shard:03d}.tar", "--count", count, "--size", size)
            == 0
        )
        shards = [grouped(read_tar(path)) for path in sorted(room.glob("s-*.tar"))]
        assert flat(sample for shard in shards for sample in shard) == members
        for number, shard in enumerate(shards):
            path = room / f"s-{number:03d}.tar"
            assert 1 <= len(shard) <= count
            assert path.stat().st_size <= size or len(shard) == 1
            if number + 1 < len(shards) and len(shard) < count:
                following = room / f"s-{number + 1:03d}.tar"
                (room / "both.tar").unlink(missing_ok=True)
                first = [shards[number + 1][0]]
                write_tar(room / "first.tar", flat(first))
                assert tar("cat", path, room / "first.tar", "-o", room / "both.tar") == 0
                assert (room / "both.tar").stat().st_size > size, following


def test_split_numbers_and_stops(folder, capfd):
    """--start and --max-shards; what is left is said, and a shard that is there is not written over."""
    write_tar(folder / "in.tar", in_order(10))
    given = ["split", folder / "in.tar", "-o", folder / "s-{shard:04d}.tar", "--count", 3]
    assert tar(*given, "--start", 7, "--max-shards", 2) == 0
    assert sorted(path.name for path in folder.glob("s-*")) == ["s-0007.tar", "s-0008.tar"]
    assert "there are more samples" in capfd.readouterr().err
    assert tar(*given, "--start", 8) == 2
    assert "s-0008.tar: already exists" in capfd.readouterr().err
    assert tar(*given, "--start", 9) == 0
    assert flat(grouped(read_tar(folder / "s-0009.tar"))) == in_order(3)


@given(SAMPLES, st.randoms(use_true_random=False), st.sampled_from([1, 300, 20000, 10**9]))
@few
def test_sort_puts_members_together(room, samples, chance, memory):
    """Members in any order come out by key, whether they fit into memory or not.

    Those of a sample that stood together keep their order, as they do by a field.
    """
    members = members_of(samples)
    chance.shuffle(members)
    write_tar(room / "in.tar", members)
    assert tar("sort", room / "in.tar", "-o", room / "out.tar", "--memory", memory) == 0
    pieces = Counter(key for key, _ in grouped(members))
    expected = sorted(members, key=lambda one: (key_of(one[0]), one[0] if pieces[key_of(one[0])] > 1 else ""))
    assert read_tar(room / "out.tar") == expected


def test_sort_keeps_fields_as_they_stand(folder):
    """But not of an archive that begins with a folder, which has its files in any order."""
    members = [(f"{key}.{field}", b"1") for key in "ba" for field in ("wav", "json", "cls")]
    write_tar(folder / "in.tar", members)
    assert tar("sort", folder / "in.tar", "-o", folder / "out.tar") == 0
    assert read_tar(folder / "out.tar") == members[3:] + members[:3]
    assert tar("sort", folder / "in.tar", "-o", folder / "by.tar", "--by", "cls") == 0
    assert read_tar(folder / "by.tar") == members
    with tarfile.open(folder / "folder.tar", "w") as archive:
        top = tarfile.TarInfo("x")
        top.type = tarfile.DIRTYPE
        archive.addfile(top)
        for name, content in members:
            info = tarfile.TarInfo(f"x/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    assert tar("sort", folder / "folder.tar", "-o", folder / "sorted.tar") == 0
    assert read_tar(folder / "sorted.tar") == sorted((f"x/{name}", content) for name, content in members)


@pytest.mark.parametrize("memory", ["1", "40kB", "1GB"])
@pytest.mark.parametrize(("kind", "python"), [("int", int), ("float", float), ("text", str)])
@pytest.mark.parametrize("reverse", [False, True])
def test_sort_by_a_field_is_stable(folder, memory, kind, python, reverse):
    """Samples of equal values are all kept, in their order; 150 runs are merged in several steps."""
    chance = random.Random(1)
    rows = [(f"{n:04d}", chance.choice(["7", "10", "-3", "+5", " 12\n"])) for n in range(150)]
    write_tar(
        folder / "in.tar",
        [(f"{key}.{f}", v.encode()) for key, value in rows for f, v in [("n", value), ("z", key)]],
    )
    flags = ["--reverse"] if reverse else []
    given = ["--by", "count;n", "--as", kind, "--memory", memory, *flags]
    assert tar("sort", folder / "in.tar", "-o", folder / "out.tar", *given) == 0
    expected = sorted(rows, key=lambda row: python(row[1]), reverse=reverse)
    assert [key for key, _ in grouped(read_tar(folder / "out.tar"))] == [key for key, _ in expected]


def test_equal_keys_of_two_archives_are_all_kept(folder, capfd):
    """They are refused, or numbered; never dropped, and never one sample."""
    write_tar(folder / "1.tar", [("a.txt", b"1"), ("a-2.txt", b"x"), ("b.txt", b"1")])
    write_tar(folder / "2.tar", [("a.txt", b"2"), ("b.cls", b"2")])
    for tool in ("cat", "sort"):
        given = [tool, folder / "1.tar", folder / "2.tar", "-o", folder / "out.tar"]
        assert tar(*given) == 1
        assert "twice" in capfd.readouterr().err
        assert not (folder / "out.tar").exists()
        assert tar(*given, "--same-keys", "number") == 0
        found = sorted(read_tar(folder / "out.tar"))
        expected = [("a-2.txt", b"x"), ("a-3.txt", b"2"), ("a.txt", b"1"), ("b-2.cls", b"2"), ("b.txt", b"1")]
        if tool == "sort":
            # here the second `a` comes before the `a-2` that there was
            expected[:2] = [("a-2-2.txt", b"x"), ("a-2.txt", b"2")]
        assert found == expected
        (folder / "out.tar").unlink()


def test_equal_keys_are_numbered_by_split_and_map(folder, capfd):
    """They take samples of several archives into one as well."""
    for name in "12":
        write_tar(folder / f"{name}.tar", [("a.txt", name.encode())])
    for options in (["split", "-o", folder / "o{shard}.tar"], ["map", "-o", folder / "o0.tar", "-c", ":"]):
        assert tar(*options, folder / "1.tar", folder / "2.tar") == 1
        assert "--same-keys number" in capfd.readouterr().err
        assert tar(*options, folder / "1.tar", folder / "2.tar", "--same-keys", "number") == 0
        assert read_tar(folder / "o0.tar") == [("a.txt", b"1"), ("a-2.txt", b"2")]
        (folder / "o0.tar").unlink()


def test_sort_by_chance(folder):
    """The same order for the same seed, whatever fits into memory."""
    write_tar(folder / "in.tar", in_order(60))
    for name, seed, memory in [("a", 1, "1GB"), ("b", 1, "1"), ("c", 2, "1GB")]:
        given = ["--shuffle", "--seed", seed, "--memory", memory]
        assert tar("sort", folder / "in.tar", "-o", folder / f"{name}.tar", *given) == 0
    assert (folder / "a.tar").read_bytes() == (folder / "b.tar").read_bytes()
    orders = [[key for key, _ in grouped(read_tar(folder / f"{name}.tar"))] for name in "ac"]
    assert orders[0] != orders[1] != sorted(orders[0])
    assert sorted(orders[0]) == sorted(orders[1])


# -- pipes ------------------------------------------------------------------------------------------------


def piped(command, cwd):
    """A line for the shell, in which `splitter` is this one."""
    line = command.replace("splitter tar", f'"{sys.executable}" -m splitter tar')
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


def test_tools_are_joined_by_pipes(folder):
    """What cat, sort and split hand on goes from one to the next, with nothing in between."""
    write_tar(folder / "1.tar", in_order(20, start=20))
    write_tar(folder / "2.tar", in_order(20))
    done = piped(
        "splitter tar cat [12].tar -o - | splitter tar sort - -o - | splitter tar split - --count 15", folder
    )
    assert done.returncode == 0, done.stderr
    shards = sorted(folder.glob("shard-*.tar"))
    assert [len(grouped(read_tar(shard))) for shard in shards] == [15, 15, 10]
    expected = in_order(40)
    assert [member for shard in shards for member in read_tar(shard)] == expected


def test_a_folder_is_split(folder):
    """`tar -cf - FOLDER` takes files as the folder has them: their members are gathered all the same."""
    (folder / "data" / "dir").mkdir(parents=True)
    names = [f"data/dir/{n}-{'x' * (n % 3 * 60)}.{kind}" for n in range(40) for kind in ("cls", "wav")]
    random.Random(2).shuffle(names)
    for name in names:
        (folder / name).write_text(name)
    done = piped("tar -cf - data | splitter tar split - -o 's-{shard:06d}.tar' --count 17", folder)
    assert done.returncode == 0, done.stderr
    found = [grouped(read_tar(shard)) for shard in sorted(folder.glob("s-*.tar"))]
    assert [len(shard) for shard in found] == [17, 17, 6]
    expected = sorted(((name, name.encode()) for name in names), key=lambda one: (key_of(one[0]), one[0]))
    assert flat(sample for shard in found for sample in shard) == expected


def test_a_reader_that_has_enough_ends_the_writer(folder):
    """Nothing is said when the pipe is closed early, and the code is that of a broken pipe."""
    write_tar(folder / "in.tar", [(f"{n}.bin", bytes(50000)) for n in range(40)])
    done = piped("splitter tar cat in.tar -o - | head -c 1000 > part", folder)
    assert (done.returncode, done.stderr) == (141, "")


def test_archives_in_a_row_are_read_as_one(folder):
    """`cat a.tar b.tar` joins files, and with them archives."""
    data = tar_bytes(in_order(3)) + tar_bytes(in_order(3, start=3))
    done = (
        piped("splitter tar cat - -o out.tar < in.tar", folder)
        if (folder / "in.tar").write_bytes(data)
        else None
    )
    assert done is not None
    assert done.returncode == 0, done.stderr
    assert read_tar(folder / "out.tar") == in_order(6)


def test_urls_are_read_and_written(folder):
    """Through fsspec; the protocol of files stands for all."""
    write_tar(folder / "in-0.tar", in_order(3))
    write_tar(folder / "in-1.tar", in_order(3, start=3))
    assert tar("cat", f"file://{folder}/in-{{0..1}}.tar", "-o", f"file://{folder}/out.tar.gz") == 0
    with tarfile.open(folder / "out.tar.gz", "r:gz") as found:
        assert found.getnames() == [name for name, _ in in_order(6)]


def test_a_missing_package_is_named(folder):
    """A protocol whose package is not there, or that nobody knows, is refused in one line."""
    write_tar(folder / "in.tar", in_order(1))
    hidden = "import sys; sys.modules['s3fs'] = None; from splitter.cli.main import main; main(sys.argv[1:])"
    for places in (["s3://b/in.tar", "-o", "out.tar"], ["in.tar", "-o", "s3://b/out.tar"]):
        said = program("tar", "cat", *places, cwd=folder, python=("-c", hidden))
        assert said.code == 2
        assert len(said.lines) == 1
        assert "pip install 'splitter-ml[s3]'" in said.err
    said = program("tar", "cat", "nobody://x/in.tar", "-o", "out.tar", cwd=folder)
    assert (said.code, len(said.lines)) == (2, 1)
    assert "nobody" in said.err


@pytest.mark.parametrize("again", [0, 7, 28])
def test_a_key_is_known_again_however_many_there_are(folder, capfd, monkeypatch, again):
    """Those of large archives are put away in sorted arrays, of which the smaller are made into larger."""
    monkeypatch.setattr(module, "SOME_KEYS", 3)
    names = [f"{key:02d}.txt" for key in range(30)]
    write_tar(folder / "in.tar", [(name, b"") for name in names])
    assert tar("cat", folder / "in.tar", "-o", folder / "out.tar") == 0
    assert [name for name, _ in read_tar(folder / "out.tar")] == names
    write_tar(folder / "in.tar", [(name, b"") for name in [*names, names[again]]])
    assert tar("cat", folder / "in.tar", "-o", folder / "other.tar") == 1
    assert f"sample '{again:02d}' comes a second time" in capfd.readouterr().err
