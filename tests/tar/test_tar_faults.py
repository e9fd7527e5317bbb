"""Hostile and damaged archives, wrong command lines, and kills: one line, and nothing half written."""

import gzip
import io
import os
import signal
import subprocess
import sys
import tarfile
import time

import pytest
from doors import CHECKOUT, program, tree
from tar_archives import read_tar, tar, tar_bytes, write_tar

from splitter.archives.reader import read_members
from splitter.errors import TarError

GOOD = [("a.txt", b"1"), ("a.cls", b"2"), ("b.txt", b"3" * 1000)]


def hostile(name="x.txt", kind=tarfile.REGTYPE, link="", pax=None):
    """An archive with one member that must not be."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.pax_headers = kind, link, pax or {}
        archive.addfile(info)
    return file.getvalue()


HOSTILE = {
    "parent": (hostile("../x.txt"), "leads out of its folder"),
    "parent within": (hostile("a/../../x.txt"), "leads out of its folder"),
    "absolute": (hostile("/tmp/x.txt"), "begins with a slash"),
    "dot absolute": (hostile(".//../x.txt"), "leads out"),
    "absolute by an extended header": (
        hostile("x.txt", pax={"path": "/tmp/" + "x" * 200}),
        "begins with a slash",
    ),
    "folder": (hostile("../x", tarfile.DIRTYPE), "leads out of its folder"),
    "symbolic link": (hostile("x.txt", tarfile.SYMTYPE, "/etc/passwd"), "is a symbolic link"),
    "hard link": (hostile("x.txt", tarfile.LNKTYPE, "a.txt"), "is a hard link"),
    "device": (hostile("x.txt", tarfile.CHRTYPE), "is a device"),
    "fifo": (hostile("x.txt", tarfile.FIFOTYPE), "is a FIFO"),
    "sparse": (hostile("x.txt", pax={"GNU.sparse.major": "1"}), "is a sparse file"),
    "unknown": (hostile("x.txt", b"Z"), "unknown kind"),
    "member twice": (tar_bytes([("a.txt", b""), ("a.txt", b"")]), "occurs twice"),
    "key twice": (tar_bytes([("a.txt", b""), ("b.txt", b""), ("a.txt", b"")]), ""),
    "a huge header": (
        tarfile.TarInfo.create_pax_global_header({"a": "b"})[:124] + b"77777777777\0" + bytes(376),
        "not a tar archive",
    ),
    "a little text": (b"key,txt\na,x\n", "is not a tar archive (plain or gzip)"),
    "not an archive": (b"hello " * 1000, "is not a tar archive"),
    "nothing": (b"", "is empty"),
    "what follows": (tar_bytes(GOOD) + b"x" * 512, "there is no tar header at byte"),
    "half a block": (tar_bytes(GOOD) + b"x" * 5, "is incomplete"),
    "no end": (tar_bytes(GOOD)[: 512 * 7], "is incomplete"),
    "cut gzip": (gzip.compress(tar_bytes(GOOD))[:-20], "is incomplete"),
    "broken gzip": (gzip.compress(os.urandom(2000))[:40] + bytes(40), ""),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("tool", ["cat", "split", "sort", "to-csv", "show", "map"])
def test_a_hostile_archive_is_one_clear_error(folder, capfd, name, tool):
    """It names the archive, and nothing is left but what was there."""
    data, expected = HOSTILE[name]
    room = folder / "room"
    room.mkdir()
    (room / "in.tar").write_bytes(data)
    given = {
        "cat": ["-o", room / "out.tar"],
        "split": ["-o", room / "out-{shard:06d}.tar"],
        "sort": ["-o", room / "out.tar"],
        "to-csv": ["-f", "txt", "-o", room / "out.csv", "--missing", ""],
        "show": [],
        "map": ["-o", room / "out.tar", "-c", "true"],
    }[tool]
    before = tree(folder)
    assert tar(tool, room / "in.tar", *given) == 1
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"splitter: {room}/in.tar: ")
    assert expected in said[0]
    assert tree(folder) == before


def test_an_archive_that_is_cut_anywhere_is_an_error(folder):
    """At every block and between; only the very end may lack zeros."""
    data = tar_bytes([*GOOD, ("é" * 80 + ".txt", b"4")])
    content = len(data.rstrip(b"\0")) // 512 * 512 + 512
    for cut in range(1, content + 1, 256):
        (folder / "in.tar").write_bytes(data[:cut])
        assert tar("sort", folder / "in.tar", "-o", folder / "out.tar") == 1, cut
        assert not (folder / "out.tar").exists()
    (folder / "in.tar").write_bytes(data[: content + 512])
    assert tar("sort", folder / "in.tar", "-o", folder / "out.tar") == 0


def test_a_pipe_that_does_not_wait_is_an_archive_cut_off():
    """As ssh or a program that shares the pipe may leave it: nothing has come yet, and nobody can tell."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, tar_bytes(GOOD)[:512])
    with open(reading, "rb") as stream, pytest.raises(TarError, match="cut off"):
        [*read_members(stream, "standard input")]
    os.close(writing)


def test_a_flipped_bit_in_a_header_is_an_error(folder):
    """Python's tarfile takes such a header for the end."""
    data = bytearray(tar_bytes(GOOD))
    data[512 * 8 + 3] ^= 1
    (folder / "in.tar").write_bytes(data)
    assert tar("cat", folder / "in.tar", "-o", folder / "out.tar") == 1
    with tarfile.open(folder / "in.tar") as taken:
        assert taken.getnames() == ["a.txt", "a.cls"]


def test_members_that_stand_apart_are_not_taken_for_samples(folder, capfd):
    """Copying refuses a sample in pieces, and says that sort puts it together; so it does."""
    apart = [("a.txt", b"1"), ("b.txt", b"2"), ("a.cls", b"3"), ("b.cls", b"4")]
    write_tar(folder / "in.tar", apart)
    assert tar("cat", folder / "in.tar", "-o", folder / "out.tar") == 1
    assert "splitter tar sort" in capfd.readouterr().err
    assert tar("sort", folder / "in.tar", "-o", folder / "out.tar") == 0
    assert read_tar(folder / "out.tar") == sorted(apart)
    assert tar("split", folder / "in.tar", "--gather", "-o", folder / "s-{shard}.tar") == 0
    assert read_tar(folder / "s-0.tar") == sorted(apart)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["cat", "gone.tar", "-o", "o.tar"], "gone.tar: cannot be read: No such file"),
        (["cat", "gone-*.tar", "-o", "o.tar"], "no file matches this pattern"),
        (["cat", "in-{0..3}.tar", "-o", "o.tar"], "in-0.tar: cannot be read"),
        (["cat", "in{.tar", "-o", "o.tar"], "in{.tar: cannot be read"),
        (["cat", "{a}.tar", "-o", "o.tar"], "is neither a range"),
        (["cat", "{0..99999999}{0..99999}.tar", "-o", "o.tar"], "names"),
        (["cat", "pipe:echo owned > owned", "-o", "o.tar"], "commands are not run"),
        (["cat", "in.tar", "-o", "pipe:cat > owned"], "commands are not run"),
        (["cat", "-", "-", "-o", "o.tar"], "can only be read once"),
        (["cat", "folder", "-o", "o.tar"], "is a folder"),
        (["cat", "in.tar", "-o", "folder"], "is a folder"),
        (["cat", "in.tar", "-o", "gone/o.tar"], "there is no such folder"),
        (["cat", "in.tar", "-o", "/dev/null"], "is not a plain file"),
        (["cat", "in.tar", "-o", "o.tar", "--shuffle", "0"], "--shuffle"),
        (["split", "in.tar", "-o", "o.tar"], "has no number in it"),
        (["split", "in.tar", "-o", "{shard.__class__}.tar"], "has no number in it"),
        (["split", "in.tar", "--size", "many"], "--size 'many'"),
        (["sort", "in.tar", "-o", "o.tar", "--shuffle", "--by", "cls"], "remove --by"),
        (["first", "in.tar", "-w", "cls"], "--where 'cls': cls must be compared with something"),
        (["first", "in.tar", "-w", "cls~["], "is not a regular expression"),
        (["map", "in.tar", "-o", "o.tar"], "give a script"),
        (["map", "in.tar", "-o", "o.tar", "-c", "true", "--", "true"], "give a script"),
        (["map", "in.tar", "-o", "o.tar", "--", "no-such-program-here"], "there is no such program"),
        (["map", "in.tar", "-o", "o-{}.tar", "-c", "true"], "has no braces"),
        (["map", "i{n,m}.tar", "-o", "i{}.tar", "-c", "true"], "choose another -o"),
        (["map", "in.tar", "-o", "o.tar", "-c", "true", "--fresh"], "need -o with {}"),
        (["map", "in.tar", "-o", "o.tar", "-c", "true", "--timeout", "nan"], "--timeout nan"),
        (["map", "in.tar", "-o", "o.tar", "-c", "true", "--timeout", "0"], "--timeout"),
    ],
)
def test_what_cannot_be_is_refused(folder, capfd, monkeypatch, given, expected):
    """Before any work, in one line, with exit code 2."""
    monkeypatch.chdir(folder)
    write_tar(folder / "in.tar", GOOD)
    write_tar(folder / "im.tar", GOOD)
    (folder / "folder").mkdir()
    before = tree(folder)
    assert tar(*given) == 2
    said = capfd.readouterr().err
    assert len(said.splitlines()) == 1
    assert expected in said
    assert tree(folder) == before


def test_an_output_may_be_an_input(folder):
    """It is replaced when all is read."""
    path = write_tar(folder / "in.tar", GOOD)
    assert tar("cat", path, "-o", path, "--skip", 1) == 0
    assert read_tar(path) == GOOD[2:]


# -- kills ------------------------------------------------------------------------------------------------


def started(folder, *arguments):
    """A tool as a process that waits for what comes on its standard input."""
    return subprocess.Popen(
        [sys.executable, "-m", "splitter", "tar", *map(str, arguments)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # what a killed one leaves there goes with the test's own folder
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(folder.parent)},
    )


def wait_until(condition):
    give_up = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "tool",
    ["split", pytest.param("cat", marks=pytest.mark.slow), pytest.param("map", marks=pytest.mark.slow)],
)
def test_a_kill_leaves_no_half_shard(folder, number, tool):
    """What has its name is whole; a signal that can be heard leaves nothing else, and the next run works."""
    data = tar_bytes([(f"{n}.bin", bytes(200_000)) for n in range(12)])
    given = {
        "split": ["-", "-o", "s-{shard:03d}.tar", "--count", "4"],
        "cat": ["-", "-o", "s-000.tar"],
        "map": ["-", "-o", "s-000.tar", "-c", "true"],
    }[tool]
    process = started(folder, tool, *given)
    process.stdin.write(data[: len(data) * 11 // 12])
    process.stdin.flush()
    wait_until(
        lambda: list(folder.glob(".s-*.partial")) and (tool != "split" or (folder / "s-001.tar").exists())
    )
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number), said
    shards = sorted(folder.glob("s-*.tar"))
    assert [len(read_tar(shard)) for shard in shards] == ([4, 4] if tool == "split" else [])
    if number != signal.SIGKILL:
        assert len(said.splitlines()) == 1
        assert [path for path in folder.iterdir() if path not in shards] == []
    for shard in shards:
        shard.unlink()
    again = started(folder, tool, *given)
    again.communicate(data)
    assert again.returncode == 0
    assert sum(len(read_tar(shard)) for shard in folder.glob("s-*.tar")) == 12
    assert not list(folder.glob(".s-*"))


def test_two_writers_do_not_mix(folder):
    """The second is refused while the first one writes."""
    first = started(folder, "cat", "-", "-o", "out.tar")
    first.stdin.write(tar_bytes(GOOD))
    first.stdin.flush()
    wait_until((folder / ".out.tar.partial").exists)
    write_tar(folder / "other.tar", [("z.txt", b"")])
    said = program("tar", "cat", "other.tar", "-o", "out.tar", cwd=folder)
    assert (said.code, len(said.lines)) == (2, 1)
    assert "another process is writing it" in said.err
    first.communicate(timeout=60)
    assert read_tar(folder / "out.tar") == GOOD


# -- memory -----------------------------------------------------------------------------------------------

MEASURED = """
import sys
from splitter.cli.main import exit_code
code = exit_code(sys.argv[1:])
with open("/proc/self/status") as status:
    peak = next(line for line in status if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024, file=sys.stderr)
sys.exit(code)
"""


# getrusage counts what the process that started this one had
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux to tell the peak")
@pytest.mark.parametrize("tool", ["cat", "split", "sort"])
@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream(folder, tool):
    """300 MB, some members of 30 MB among them, go through in less than 100 MB; so do 120 MB of headers."""
    given = {
        "cat": ["-o", "out.tar"],
        "split": ["-o", "s-{shard}.tar", "--size", "100MB"],
        "sort": ["-o", "out.tar", "--memory", "20MB", "--shuffle"],
    }[tool]
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURED, "tar", tool, "-", *given],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    assert process.stdin
    for number in range(130):
        # what stands in it holds for all that follows
        header = {f"name {number}": "x" * 900_000}
        process.stdin.write(tarfile.TarInfo.create_pax_global_header(header))
    with tarfile.open(fileobj=process.stdin, mode="w|") as stream:
        for number in range(610):
            info = tarfile.TarInfo(f"{number:04d}.bin")
            info.size = 30_000_000 if number % 100 == 50 else 200_000
            stream.addfile(info, io.BytesIO(bytes(info.size)))
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0, said
    assert int(said.splitlines()[-1]) < 100
    assert sum(path.stat().st_size for path in folder.glob("*.tar")) > 300_000_000
