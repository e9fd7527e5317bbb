"""`splitter verify` and `splitter plan` look at an output in an object store as at a folder."""

import errno
import json
import os
from pathlib import Path

import pytest
from doors import here, program, write_files, write_list
from launcher import Launcher
from nightly import NIGHTLY
from object_store import Bucket, S3Server, bucket_of

import splitter

SINKS = ["files", "webdataset", "parquet"]
# what one sink of the gate leaves out, the next one tries
KINDS_OF_DAMAGE = [
    *("flip", "row", "own", "cut", "swap", "own"),
    *("empty", "flip", "append", "stranger", "delete"),
]


@pytest.fixture(scope="module", params=SINKS)
def made(request, s3_server: S3Server, tmp_path_factory) -> tuple[Path, Bucket, str]:
    """A run into a bucket; the dataset list, the bucket, and how one of the inputs is made known."""
    folder = tmp_path_factory.mktemp("verify-remote")
    texts = {f"{number:02d}.txt": f"wörd{number}" for number in range(12)}
    write_files(folder / "inputs", texts)
    write_list(folder / "list.csv", [["input", "label"], *([name, f"{name}, loud"] for name in texts)])
    with pytest.MonkeyPatch.context() as patch:
        bucket = bucket_of(s3_server, patch)
        said = program(*arguments(folder, bucket, request.param), **bucket.environment)
    assert said.code == 0, said.err
    return folder, bucket, request.param


def arguments(folder: Path, bucket: Bucket, sink: str) -> list[str]:
    more = [] if sink == "files" else ["--shard-maxcount", "30"]
    run = ["run", str(folder / "list.csv"), "--root", str(folder / "inputs"), "--recipe", "words"]
    return [*run, "--sink", sink, *more, "--output", bucket.url("out"), "--workers", "2", "--quiet"]


@pytest.fixture
def bucket(made: tuple[Path, Bucket, str], monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The bucket, which the environment leads to."""
    for name, value in made[1].environment.items():
        monkeypatch.setenv(name, value)
    return made[1]


def test_whole_outputs_are_well_and_nothing_is_written(bucket: Bucket, capfd):
    before = {key: bucket.read(key) for key in bucket.keys("out")}
    said = here(capfd, "verify", bucket.url("out"), "--deep", "2", "--json")
    verdict = json.loads(said.out)
    assert (said.code, verdict["findings"]) == (0, [])
    assert (verdict["output"], verdict["inputs"], verdict["made_again"]) == (bucket.url("out"), 12, 2)
    assert verdict["outputs"] == len(splitter.read_manifest(bucket.url("out")))
    assert {key: bucket.read(key) for key in bucket.keys("out")} == before


def test_all_damage_is_found_and_the_file_named(made, bucket: Bucket, chance, monkeypatch, capfd):
    """A byte flipped, an object lost, cut, appended to, swapped, strange; a row edited; in .splitter, too."""
    # shards are fetched in pieces
    monkeypatch.setattr("splitter.storage.remote.READ_AT_ONCE", 4096)
    names = [name for name in bucket.tree("out") if "/" in name]
    assert len(names) > 1
    own = [
        key.removeprefix("out/") for key in bucket.keys("out") if "/.splitter/" in key and "lock" not in key
    ]
    for what in KINDS_OF_DAMAGE if NIGHTLY else KINDS_OF_DAMAGE[SINKS.index(made[2]) % 2 :: 2]:
        one, other = chance.sample(own if what == "own" else names, 2)
        content, another = bucket.read(f"out/{one}"), bucket.read(f"out/{other}")
        table = bucket.read("out/manifest.csv")
        at = chance.randrange(len(content))
        named = one
        if what in ("flip", "own"):
            bucket.write(f"out/{one}", content[:at] + bytes([content[at] ^ 1 + at % 255]) + content[at + 1 :])
        elif what == "cut":
            bucket.write(f"out/{one}", content[:at])
        elif what == "empty":
            bucket.write(f"out/{one}", b"")
        elif what == "append":
            bucket.write(f"out/{one}", content + b"\0")
        elif what == "delete":
            bucket.client.delete_object(Bucket=bucket.name, Key=f"out/{one}")
        elif what == "swap":
            while content == another:
                other = chance.choice(names)
                another = bucket.read(f"out/{other}")
            bucket.write(f"out/{one}", another)
            bucket.write(f"out/{other}", content)
        elif what == "stranger":
            named = "strange/0.txt"
            bucket.write(f"out/{named}", b"strange")
        else:
            named = "manifest.csv"
            bucket.write("out/manifest.csv", table.replace(b"loud", b"soft", 1))
        said = here(capfd, "verify", bucket.url("out"))
        assert said.code == 1, what
        findings = said.out.partition(f"\n{bucket.url('out')}: ")[0].splitlines()
        assert any(line.startswith(bucket.url(f"out/{named}")) for line in findings), (what, said)
        assert len(findings) <= 1 or what in ("swap", "own") or "shards/" in named, (what, said)
        assert "splitter-tmp-" not in said.out
        bucket.write(f"out/{one}", content)
        bucket.write(f"out/{other}", another)
        bucket.write("out/manifest.csv", table)
        bucket.client.delete_object(Bucket=bucket.name, Key="out/strange/0.txt")
    assert here(capfd, "verify", bucket.url("out")).code == 0


def test_loose_files_are_one_request_each(recorded_s3: Bucket, folder: Path, monkeypatch, capfd):
    """A GET; larger ones are read in pieces."""
    write_files(folder / "inputs", {f"{number}.txt": f"naïve {number}" for number in range(2)})
    write_list(folder / "list.csv", [["input"], *([f"{number}.txt"] for number in range(2))])
    assert here(capfd, *arguments(folder, recorded_s3, "files")).code == 0
    names = [name for name in recorded_s3.tree("out") if "/" in name]
    recorded_s3.requests()
    assert splitter.verify(recorded_s3.url("out")).ok
    asked = recorded_s3.requests()
    for name in names:
        assert [line.split()[0] for line in asked if line.endswith(f"/out/{name}")] == ["GET"], asked
    assert {line.split()[0] for line in asked} <= {"GET", "HEAD"}
    # in pieces: what ends with one, in the middle of one, and what has many
    monkeypatch.setattr("splitter.storage.remote.READ_AT_ONCE", 2)
    assert splitter.verify(recorded_s3.url("out")).ok


def test_a_copy_of_a_shard_without_room_says_nothing_of_the_shard(
    s3: Bucket, folder: Path, monkeypatch, capfd
):
    """The check ends with one line."""
    write_files(folder / "inputs", {"a.txt": "naïve", "b.txt": "text"})
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"]])
    assert here(capfd, *arguments(folder, s3, "webdataset")).code == 0

    makedirs = os.makedirs

    def full(path, *how, **named):
        if "/splitter-tmp-" in path:
            raise OSError(errno.ENOSPC, "No space left on device")
        makedirs(path, *how, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "makedirs", full)
        said = here(capfd, "verify", s3.url("out"))
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("splitter: cannot write a temporary file for ")
    assert "No space left on device" in said.err
    assert splitter.verify(s3.url("out")).ok


def test_what_is_no_output_is_refused(s3: Bucket, capfd):
    s3.write("other/file", b"1")
    said = here(capfd, "verify", s3.url("other"))
    assert said.code == 2
    assert said.err.startswith(f"splitter: {s3.url('other')}: is not a splitter output folder")
    assert here(capfd, "verify", "s3://no-such-bucket-here/out").code == 2


SLOW = """
import time
from pathlib import Path
from splitter import ProcessorDataset

class Slow(ProcessorDataset):
    def process(self, input_file):
        Path(__file__).with_name("began").touch()
        time.sleep(60)
"""


def test_a_run_at_work_is_left_alone(s3: Bucket, words: Path, folder: Path, launcher: Launcher, capfd):
    write_files(folder, {"slow.py": SLOW})
    run = ["run", words, "--root", folder / "inputs", "--recipe", f"{folder / 'slow.py'}:Slow"]
    at_work = launcher.start(*run, "--output", s3.url("out"), environ=s3.environment)
    at_work.until((folder / "began").exists)
    said = here(capfd, "verify", s3.url("out"))
    assert said.code == 2
    assert "is in use by process" in said.err
    assert said.err.endswith("verify it when that run has ended\n")


def test_a_plan_over_an_output_is_right_and_changes_nothing(s3: Bucket, words: Path, capfd):
    """Unfinished at first, then finished."""
    run = [words, "--root", "inputs", "--recipe", "words", "--output", s3.url("out")]
    for limit, done in ((["--limit", "2"], 2), ([], 4)):
        assert here(capfd, "run", *run, *limit, "--quiet").code == 0
        before = {key: s3.read(key) for key in s3.keys("out")}
        said = here(capfd, "plan", *run, "--json")
        assert said.code == 0, said.err
        plan = json.loads(said.out)
        assert (plan["inputs"], plan["done"], plan["new"], plan["to_do"]) == (4, done, 4 - done, 4 - done)
        assert {key: s3.read(key) for key in s3.keys("out")} == before


def test_a_store_without_words_of_its_own(words: Path, capfd):
    """What fsspec has for every store is enough."""
    run = ["run", words, "--root", words.parent / "inputs", "--recipe", "words", "--workers", "0", "--quiet"]
    assert here(capfd, *run, "--output", "memory://verify/out").code == 0
    assert here(capfd, "verify", "memory://verify/out").code == 0
