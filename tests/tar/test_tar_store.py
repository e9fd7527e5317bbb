"""The tools for tar shards, from an object store and into one."""

import io
import tarfile

import pytest
from doors import program
from object_store import Bucket
from tar_archives import read_tar, tar, tar_bytes, write_tar

from splitter.stores.objects import S3Objects

SHARDS = {f"in/s-{shard:03d}.tar": [(f"{shard}{n}.{field}", b"%d" % (9 - n) * 2000) for n in range(3)
                                    for field in ("n", "txt")] for shard in range(3)}  # fmt: skip
TOOLS = {
    "cat": ["cat", "{in}", "-o", "{out}/all.tar", "--workers", "2"],
    "split": ["split", "{in}", "-o", "{out}/s-{shard:03d}.tar", "--count", "2"],
    "sort": ["sort", "{in}", "-o", "{out}/sorted.tar", "--by", "n", "--memory", "10KB"],
    "to-csv": ["to-csv", "{in}", "-f", "n", "-o", "{out}/table.csv"],
    "first": ["first", "{in}", "--where", "key=21", "-o", "{out}/first.tar"],
    "map": ["map", "{in}", "-o", "{out}/m-{}.tar", "-c", "tr 9 x < sample.n > sample.m; rm sample.txt"],
    "packed": ["cat", "{in}", "-o", "{out}/all.tar.gz"],
}


def arguments(tool: str, source: str, target: str) -> list[str]:
    given = [one.replace("{in}", f"{source}/s-{{000..002}}.tar") for one in TOOLS[tool]]
    return [one.replace("{out}", target) for one in given]


def fill(s3: Bucket, folder) -> None:
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    for name, members in SHARDS.items():
        s3.write(name, tar_bytes(members))
        write_tar(folder / name, members)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_comes_out_is_what_files_give(folder, s3: Bucket, tool: str):
    """The same bytes; and none of the uploads is left open."""
    fill(s3, folder)
    assert tar(*arguments(tool, f"{folder}/in", f"{folder}/out")) == 0
    assert tar(*arguments(tool, s3.url("in"), s3.url("out"))) == 0
    files = {f"out/{path.name}": path.read_bytes() for path in (folder / "out").iterdir()}
    assert files
    assert {key: s3.read(key) for key in s3.keys("out/")} == files
    assert s3.uploads() == []


def test_patterns_and_what_is_there_already(folder, s3: Bucket):
    """A star is looked up in the store; map leaves alone what it has made."""
    fill(s3, folder)
    given = ["map", s3.url("in/s-*.tar"), "-o", s3.url("out/{}.tar"), "-c", "mv sample.n sample.m"]
    assert tar(*given) == 0
    s3.client.delete_object(Bucket=s3.name, Key="out/001.tar")
    before = s3.client.head_object(Bucket=s3.name, Key="out/000.tar")["LastModified"]
    assert tar(*given) == 0
    assert s3.keys("out/") == ["out/000.tar", "out/001.tar", "out/002.tar"]
    assert s3.client.head_object(Bucket=s3.name, Key="out/000.tar")["LastModified"] == before


def test_split_writes_over_no_later_shard(folder, s3: Bucket, capfd):
    """As in a folder: one with a later number is in the way, and an earlier one is not."""
    write_tar(folder / "in.tar", [(f"{n}.txt", b"") for n in range(3)])
    s3.write("s-1.tar", b"mine")
    given = ["split", folder / "in.tar", "-o", s3.url("s-{shard}.tar"), "--count", "1"]
    assert tar(*given) == 2
    assert f"{s3.url('s-1.tar')}: already exists; remove it" in capfd.readouterr().err
    assert tar(*given, "--start", 2) == 0
    assert (s3.read("s-1.tar"), s3.keys("s-")) == (b"mine", [f"s-{n}.tar" for n in range(1, 5)])


def test_split_into_folders_with_numbers(folder, s3: Bucket, capfd):
    """Only the first shard is looked for, because the others could be in any folder."""
    write_tar(folder / "in.tar", [(f"{n}.txt", b"") for n in range(2)])
    given = ["split", folder / "in.tar", "-o", s3.url("f/{shard}/x.tar"), "--count", "1"]
    assert tar(*given) == 0
    assert s3.keys("f/") == ["f/0/x.tar", "f/1/x.tar"]
    assert tar(*given) == 2
    assert f"{s3.url('f/0/x.tar')}: already exists; remove it" in capfd.readouterr().err


def test_split_where_nobody_may_list(folder, s3: Bucket, capfd, monkeypatch):
    """Nothing says which shards exist: S3 does not even answer whether there is a single object."""

    def denied(*_: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(S3Objects, "listed", denied)
    monkeypatch.setattr("splitter.tar.copying.exists", denied)
    write_tar(folder / "in.tar", [(f"{n}.txt", b"") for n in range(2)])
    for name, said in (("l-{shard}.tar", s3.url("")[:-1]), ("l/{shard}/x.tar", s3.url("l/0/x.tar"))):
        assert tar("split", folder / "in.tar", "-o", s3.url(name), "--count", "1") == 2
        why = "listing is not allowed; it is needed to find existing shards; check the credentials"
        assert f"{said}: {why}\n" in capfd.readouterr().err
    assert s3.keys("l") == []


def test_a_store_that_fails_now_and_then(folder, faulty_s3: Bucket):
    """A fifth of the requests fail, reads in the middle of an archive among them."""
    members = [(f"{n:03d}.bin", bytes([n]) * 300_000) for n in range(60)]
    faulty_s3.write("in.tar", tar_bytes(members))
    assert tar("cat", faulty_s3.url("in.tar"), "-o", faulty_s3.url("out.tar")) == 0
    with tarfile.open(fileobj=io.BytesIO(faulty_s3.read("out.tar"))) as archive:
        assert [(one.name, one.size) for one in archive] == [(name, len(data)) for name, data in members]
    assert faulty_s3.uploads() == []


def test_an_archive_that_is_not_there_is_one_line(folder, s3: Bucket):
    said = program("tar", "cat", s3.url("missing.tar"), "-o", "out.tar", cwd=folder, **s3.environment)
    assert (said.code, len(said.lines)) == (1, 1)
    assert f"{s3.url('missing.tar')}: cannot be read: there is no such file" in said.err
    assert list(folder.iterdir()) == []


def test_create_takes_its_files_from_here(folder, s3: Bucket):
    (folder / "a.txt").write_text("one")
    (folder / "plan.csv").write_text("key,@txt,cls\na,a.txt,1\n")
    assert tar("create", folder / "plan.csv", "-o", s3.url("made.tar")) == 0
    (folder / "made.tar").write_bytes(s3.read("made.tar"))
    assert read_tar(folder / "made.tar") == [("a.txt", b"one"), ("a.cls", b"1")]
