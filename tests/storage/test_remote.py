"""Runs whose output is in an object store: the same as in a folder, whatever fails on the way."""

import contextlib
import gc
import json
import os
import random
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
from doors import Said, here, tree, write_files, write_list
from faulty import HOLD
from launcher import FAULTY, Driver, Launcher, eventually, left_in, make_inputs, signal_all
from nightly import depth
from object_store import ACCESS, Bucket, S3Server, bucket_of

import splitter
from splitter.errors import Refused
from splitter.storage import ownership, remote
from splitter.stores import objects

OUTPUT = "it's/out put"
LOCK = ".splitter/lock-"
TEXTS = {f"part {number % 3}/wörd {number}.txt": f"text {number} " * (number % 6) for number in range(12)}

LAST = "text 11"


class Work:
    """Some inputs, what they must become, and runs over them that have a temporary folder of their own."""

    undisturbed: ClassVar[dict[tuple[int, int], dict[str, bytes]]] = {}

    def __init__(self, launcher: Launcher, folder: Path, bucket: Bucket) -> None:
        self.launcher, self.folder, self.bucket = launcher, folder, bucket
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        launcher.environ = {**bucket.environment, "TMPDIR": str(self.temporary)}
        self.dataset = make_inputs(folder / "data", TEXTS)

    def start(self, *options: object, output: object = None, size: int = 3, seconds: float = 0.01) -> Driver:
        recipe = ("--recipe", f"{FAULTY}:Parts", "--size", size, "--seconds", seconds)
        target = self.bucket.url(OUTPUT) if output is None else output
        environ = {HOLD: str(self.folder / "hold")}
        fixed = ("--output", target, "--workers", 2, "--batch-size", 2)
        return self.launcher.start("run", self.dataset, *recipe, *fixed, *options, environ=environ)

    def hold(self, text: str = "") -> None:
        """Inputs with this text are not done, however slow this test is."""
        (self.folder / "hold").write_text(text)

    def let_go(self) -> None:
        (self.folder / "hold").unlink()

    def expected(self, size: int = 3, limit: int = len(TEXTS)) -> dict[str, bytes]:
        """What a run into a folder makes, that nobody disturbs; the same in every test."""
        if (size, limit) not in self.undisturbed:
            output = self.folder / f"expected {size}"
            run = self.start("--limit", limit, output=output, size=size, seconds=0)
            assert run.wait() == 0, run.stderr
            self.undisturbed[size, limit] = tree(output)
        return self.undisturbed[size, limit]

    def records(self) -> list[str]:
        return [key for key in self.bucket.keys(OUTPUT) if "/records/" in key]

    def check(self, run: Driver, size: int = 3, limit: int = len(TEXTS)) -> None:
        """The run has come through, and all is as if nothing had happened."""
        assert run.wait() == 0, run.stderr
        assert self.bucket.tree(OUTPUT) == self.expected(size, limit)
        assert not [name for name in self.records() if name.endswith(".begun")]
        assert self.bucket.uploads() == []
        assert left_in(self.temporary) == []


@pytest.fixture
def work(launcher: Launcher, folder: Path, s3: Bucket) -> Work:
    return Work(launcher, folder, s3)


@pytest.fixture
def faulty_work(launcher: Launcher, folder: Path, faulty_s3: Bucket) -> Work:
    return Work(launcher, folder, faulty_s3)


@pytest.fixture
def denying_s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket where nothing is allowed."""
    return bucket_of(s3_server, monkeypatch, share=100, kind="denied")


@pytest.mark.quick
def test_the_objects_of_a_run_are_the_files_of_a_local_one(s3: Bucket, words: Path, folder: Path, capfd):
    """Byte for byte, the manifest too; a second run finds nothing to do."""
    options = ["--recipe", "words", "--root", "inputs", "--workers", "2", "--batch-size", "1"]
    there = here(capfd, "run", words, *options, "--output", s3.url(OUTPUT))
    assert (there.code, here(capfd, "run", words, *options, "--output", folder / "local").code) == (0, 0)
    assert s3.tree(OUTPUT) == tree(folder / "local")
    assert s3.url(f"{OUTPUT}/manifest.csv") in there.err
    again = here(capfd, "run", words, *options, "--output", s3.url(OUTPUT))
    assert (again.code, again.lines[0][:13]) == (0, "nothing to do")
    assert s3.tree(OUTPUT) == tree(folder / "local")


def test_a_store_that_fails_a_fifth_of_the_requests(faulty_work: Work):
    """Throttled, reset, half answered, or done without an answer: nobody notices but the clock."""
    faulty_work.check(faulty_work.start("--limit", 6), limit=6)
    faulty_work.check(faulty_work.start("--limit", 6, size=5), 5, limit=6)


# -- deaths -----------------------------------------------------------------------------------------------


def test_a_driver_killed_at_random_moments(work: Work, chance: random.Random):
    """The next run continues, and leaves what an undisturbed one leaves, on local disk too: nothing."""
    began = time.monotonic()
    work.check(work.start())
    seconds = time.monotonic() - began
    for _ in range(depth(2)):
        driver = work.start(size=chance.choice([3, 5]))
        time.sleep(chance.uniform(0.2, seconds))
        driver.kill()
        assert driver.wait() in (-signal.SIGKILL, 0)
    size = chance.choice([3, 5])
    work.check(work.start(size=size), size)


@pytest.mark.parametrize("victims", ["guards", "runners"])
def test_workers_killed_at_random_moments(work: Work, chance: random.Random, victims: str):
    """What they held is done again by others, in the same run."""
    driver = work.start(seconds=0.05)
    find = getattr(driver, victims)
    # twice: what is killed outside of any input three times in a row ends the run, and rightly
    for _ in range(2):
        driver.until(lambda: find() or driver.poll() is not None)
        time.sleep(chance.uniform(0, 0.3))
        for process in find()[:1]:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if driver.poll() is not None:
            break
    work.check(driver)


def test_a_store_that_fails_and_a_driver_that_is_killed(faulty_work: Work, chance: random.Random):
    """Both at once."""
    for _ in range(2):
        driver = faulty_work.start("--limit", 8)
        time.sleep(chance.uniform(0.5, 4))
        driver.kill()
        driver.wait()
    faulty_work.check(faulty_work.start("--limit", 8), limit=8)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_has(work: Work, number: int):
    """Its workers are gone within seconds, the manifest is valid, the lock free, and nothing is on disk."""
    work.hold(LAST)
    driver = work.start()
    driver.until(lambda: any(key.endswith("/0.txt") for key in work.bucket.keys(OUTPUT)))
    workers = driver.others()
    driver.signal(number)
    eventually(lambda: not any(process.is_running() for process in workers), lambda: f"{workers}")
    assert driver.wait() == 128 + number, driver.stderr
    made = work.bucket.tree(OUTPUT)
    manifest = splitter.read_manifest(work.bucket.url(OUTPUT))
    assert {name for name in made if name != "manifest.csv"} == {*manifest["output"]} - {""}
    assert left_in(work.temporary) == []
    work.let_go()
    work.check(work.start())


# -- two runs ---------------------------------------------------------------------------------------------


def locks(bucket: Bucket) -> dict[str, dict[str, object]]:
    found = [key for key in bucket.keys(OUTPUT) if LOCK in key]
    return {key.rpartition("/")[2]: json.loads(bucket.read(key)) for key in found}


def write_lock(bucket: Bucket, number: int, **owner: object) -> None:
    content = {"host": "elsewhere", "process": 4711, "run": "0123456789abcdef", **owner}
    bucket.write(f"{OUTPUT}/{LOCK}{number:06d}", json.dumps(content).encode())


def test_a_second_run_is_refused_while_the_first_is_at_work(work: Work):
    """It is named; the first notices nothing."""
    work.hold()
    first = work.start()
    first.until(first.runners)
    second = work.start()
    assert second.wait() == 2
    assert f"{work.bucket.url(OUTPUT)}: is in use by process {first.pid} on " in second.stderr
    assert second.stderr.count("\n") == 1
    work.let_go()
    work.check(first)


def test_of_two_that_come_together_one_works(work: Work):
    """Also where both find the lock of a run that is dead."""
    for _ in range(2):
        work.hold()
        both = [work.start("--fresh"), work.start("--fresh")]
        eventually(lambda: any(run.poll() is not None for run in both), lambda: f"{both}")  # noqa: B023
        work.let_go()
        codes = sorted(run.wait() for run in both)
        assert codes == [0, 2], [run.stderr for run in both]
        work.hold()
        dead = work.start(size=2)
        dead.until(dead.runners)
        dead.kill()
        dead.wait()
    work.let_go()
    work.check(work.start())


def test_a_new_run_waits_for_the_workers_of_a_dead_one(work: Work):
    """Those of this machine hold a folder on local disk, which goes with the last of them."""
    work.hold()
    dead = work.start()
    dead.until(dead.runners)
    workers = dead.others()
    signal_all(workers, signal.SIGSTOP)
    dead.kill()
    dead.wait()
    work.let_go()
    new = work.start()
    time.sleep(2)
    assert new.guards() == []
    signal_all(workers, signal.SIGCONT)
    work.check(new)


def test_workers_of_a_dead_driver_leave_nothing_on_disk(work: Work):
    """No later run is needed for that."""
    driver = work.start(seconds=0.2)
    driver.until(driver.runners)
    driver.kill()
    driver.wait()
    driver.check_gone()
    eventually(lambda: not left_in(work.temporary), lambda: str([*work.temporary.rglob("*")]))


def test_a_run_on_another_machine_that_is_silent_is_taken_over(
    s3: Bucket, words: Path, capfd, monkeypatch: pytest.MonkeyPatch
):
    """And not before it has been silent for long."""
    monkeypatch.setattr(ownership, "SECONDS_OF_SILENCE", 2.0)
    write_lock(s3, 7, beat=3)
    began = time.monotonic()
    run = [
        "run",
        words,
        "--recipe",
        "words",
        "--root",
        "inputs",
        "--output",
        s3.url(OUTPUT),
        "--workers",
        "0",
    ]
    assert here(capfd, *run).code == 0
    assert time.monotonic() - began > 2
    assert locks(s3)["lock-000008"]["free"] is True


def test_a_run_on_another_machine_that_lives_is_not_disturbed(s3: Bucket, words: Path, capfd):
    """Its beat is seen to change."""
    write_lock(s3, 7, beat=3)
    child = os.fork()
    if not child:
        for beat in range(4, 100):
            time.sleep(0.3)
            write_lock(s3, 7, beat=beat)
        os._exit(0)
    try:
        said = here(capfd, "run", words, "--recipe", "words", "--root", "inputs", "--output", s3.url(OUTPUT))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "is in use by process 4711 on elsewhere; wait for it or choose another --output" in said.err
    assert s3.tree(OUTPUT) == {}


def test_a_run_that_was_taken_over_stops(work: Work):
    """In one line; it changes nothing any more, not even the manifest or the lock."""
    work.hold(LAST)
    driver = work.start()
    driver.until(lambda: any(key.endswith("/0.txt") for key in work.bucket.keys(OUTPUT)))
    write_lock(work.bucket, 2, beat=1)
    assert driver.wait() == 1
    assert driver.stderr.count("was taken over by process 4711 on elsewhere") == 1, driver.stderr
    assert "Traceback" not in driver.stderr
    assert f"{OUTPUT}/manifest.csv" not in work.bucket.keys(OUTPUT)
    assert locks(work.bucket)["lock-000002"]["host"] == "elsewhere"
    assert left_in(work.temporary) == []
    write_lock(work.bucket, 2, free=True)
    work.let_go()
    work.check(work.start())


# -- changes ----------------------------------------------------------------------------------------------


def test_what_changes_between_runs_changes_as_in_a_folder(s3: Bucket, folder: Path, capfd):
    """Labels, texts, rows, parameters; failures that are mended; --prune and --fresh."""
    data = write_files(
        folder / "data", {"a.txt": "aaaa", "b.txt": "hang", "c/d.txt": "raise", "e.txt": "skip"}
    )
    steps = [
        ({}, ["a.txt", "c/d.txt", "e.txt"], []),
        ({"c/d.txt": "mended"}, ["a.txt", "c/d.txt", "e.txt"], ["--retry-failed"]),
        ({"a.txt": "aa bb cc dd", "b.txt": "bbbb"}, ["a.txt", "b.txt"], []),
        ({}, ["b.txt", "a.txt"], ["--prune"]),
        ({}, ["b.txt", "c/d.txt"], ["--fresh"]),
    ]
    for texts, names, options in steps:
        write_files(data, texts)
        write_list(folder / "dataset.csv", [["input", "label"], *([name, f"of {name}"] for name in names)])
        codes = [
            here(
                capfd,
                *("run", folder / "dataset.csv", "--root", data, "--recipe", f"{FAULTY}:Faulty"),
                *("--workers", "0", "--batch-size", "2", "--output", output, *options),
            ).code
            for output in (s3.url(OUTPUT), folder / "local")
        ]
        assert codes[0] == codes[1]
        there, local = s3.tree(OUTPUT), tree(folder / "local")
        assert there.keys() == local.keys()
        assert {name for name in there if there[name] != local[name]} <= {"errors.csv"}


# -- what is refused, before any work ---------------------------------------------------------------------


def refusal(capfd, words: Path, output: str, *options: str) -> str:
    """The one line that a run is refused with."""
    recipe = ("--recipe", "words", "--root", "inputs")
    said = here(capfd, "run", words, *recipe, "--output", output, *options)
    assert (said.code, said.err.count("\n")) == (2, 1), said.err
    return said.err


def test_a_bucket_that_is_not_there_is_refused(s3: Bucket, words: Path, capfd):
    said = refusal(capfd, words, "s3://no-such-bucket/out")
    assert (
        said
        == "splitter: s3://no-such-bucket/out: there is no such bucket; create it first, or fix the URL\n"
    )
    for command in ("verify", "stats", "report", "split", "manifest"):
        # in the same words
        assert here(capfd, command, "s3://no-such-bucket/out") == Said(2, "", said), command


def test_a_prefix_that_holds_something_else_is_refused_and_left_alone(s3: Bucket, words: Path, capfd):
    s3.write("mine/thesis.doc", b"years of work")
    said = refusal(capfd, words, s3.url("mine"))
    assert "contains something else (thesis.doc); choose an empty or new folder as --output" in said
    assert s3.keys() == ["mine/thesis.doc"]


def test_a_refused_run_leaves_nothing_in_a_new_place(s3: Bucket, folder: Path, capfd):
    """Not even its lock."""
    dataset = make_inputs(folder / "data", {"a.txt": "1", "a.md": "2"})
    refusal(capfd, dataset, s3.url("out"))
    assert s3.keys() == []


def test_without_credentials_it_is_said_how_to_give_them(
    s3: Bucket, words: Path, capfd, monkeypatch: pytest.MonkeyPatch
):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    said = refusal(capfd, words, s3.url("out"))
    assert "there are no credentials for it; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or" in said


def test_a_store_that_denies_access_is_refused(denying_s3: Bucket, words: Path, capfd):
    said = refusal(capfd, words, denying_s3.url("out"))
    assert "access is denied (AccessDenied); set AWS_ACCESS_KEY_ID" in said


def test_a_store_that_is_not_there_is_refused_soon(
    s3: Bucket, words: Path, capfd, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(remote, "FIRST_PATIENCE", 0.5)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    said = refusal(capfd, words, s3.url("out"))
    assert "the store cannot be reached, or is busy" in said
    assert "check the network and the address of the store" in said


@pytest.mark.parametrize("url", ["s3://AKIA:the-secret@bucket/out", "gs://me:the-secret@bucket/out"])
def test_credentials_in_a_url_are_refused_and_not_repeated(words: Path, capfd, url: str):
    assert "the-secret" not in (said := refusal(capfd, words, url))
    assert "contains credentials, which others would see" in said


REFUSED = {
    "https://host/out": "splitter cannot write there; use a folder, or a URL of s3://",
    "sftp://host/out": "splitter cannot write there",
    "zip://a::s3://bucket/x.zip": "splitter cannot write there",
    "s3://": "names no folder in a store; write s3://bucket/folder",
    "s3://bucket/../out": "names no folder in a store",
    "gs://bucket/out": "a package for gs:// is missing; run: pip install gcsfs",
    "memory://out": "exists only in this process; use --workers 0 with it",
}


@pytest.mark.parametrize("url", REFUSED)
def test_where_splitter_cannot_write_is_refused(words: Path, capfd, url: str):
    assert REFUSED[url] in refusal(capfd, words, url)


def test_parts_are_for_folders(s3: Bucket, words: Path, capfd):
    assert "use --executor ray, which divides the work" in refusal(capfd, words, s3.url("o"), "--part", "1/2")


def test_a_missing_package_is_named_with_what_brings_it(
    s3: Bucket, words: Path, capfd, monkeypatch: pytest.MonkeyPatch
):
    """As in an interpreter that finds no s3fs."""
    from fsspec.registry import _registry

    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(_registry, "s3", raising=False)
    assert "run: pip install 'splitter-ml[s3]'" in refusal(capfd, words, s3.url("out"))


# -- names and sizes --------------------------------------------------------------------------------------


def test_names_that_hurt_are_kept_as_they_are(s3: Bucket, folder: Path, capfd):
    """Of inputs and outputs, when they come, and when they go again."""
    names = [
        "a b+c%20&d=e.txt",
        "x?versionId=3.txt",
        "*[a-z]{0}.txt",
        "ü🎈/#.txt",
        "c\x01\x7f.txt",
    ]
    dataset = make_inputs(folder / "data", dict.fromkeys(names, "simple"))
    for output in (s3.url(OUTPUT), folder / "local"):
        assert (
            here(capfd, "run", dataset, "--recipe", "words", "--workers", "0", "--output", output).code == 0
        )
    assert s3.tree(OUTPUT) == tree(folder / "local")
    assert len(s3.tree(OUTPUT)) == len(names) * 5 + 1
    write_list(dataset, [["input"], [names[0]]])
    run = ("run", dataset, "--recipe", "words", "--workers", "0", "--prune", "--output")
    assert here(capfd, *run, s3.url(OUTPUT)).code == 0
    assert len(s3.tree(OUTPUT)) == 5 + 1


def test_a_name_that_no_store_takes_is_that_inputs_error(s3: Bucket, folder: Path, capfd):
    long = "/".join(["x" * 200] * 5) + "/a.txt"
    dataset = make_inputs(folder / "data", {long: "simple", "b.txt": "simple"})
    run = ("run", dataset, "--recipe", "words", "--workers", "0", "--output", s3.url(OUTPUT))
    assert here(capfd, *run).code == 1
    failed = splitter.read_manifest(s3.url(OUTPUT)).failed
    assert [*failed["error"]] == ["BadResult"]
    assert "is too long for an object store" in failed["message"][0]


def test_what_is_too_large_for_one_request_goes_in_parts(
    recorded_s3: Bucket, folder: Path, capfd, monkeypatch: pytest.MonkeyPatch
):
    """None of them stays behind: not when it succeeds, and not when a part cannot be sent."""
    monkeypatch.setattr(objects, "LARGEST_PUT", 6 << 20)
    monkeypatch.setattr(objects, "PART_BYTES", 5 << 20)
    dataset = make_inputs(folder / "data", {"a.txt": "0123456789" * (1 << 20)})
    run = ["run", dataset, "--recipe", "command", "--command", "cp {input} {output}"]
    run += ["--workers", "0", "--output"]
    # as if the answer to the first request for an upload had been lost
    recorded_s3.client.create_multipart_upload(Bucket=recorded_s3.name, Key="large/a/a.txt")
    for output in (recorded_s3.url("large"), folder / "local"):
        assert here(capfd, *run, output).code == 0
    assert recorded_s3.tree("large") == tree(folder / "local")
    parts = [request for request in recorded_s3.requests() if "partNumber" in request]
    assert len(parts) == 2
    assert recorded_s3.uploads() == []


def test_an_upload_that_a_dead_process_has_left_open_is_ended(s3: Bucket, words: Path, capfd):
    """That of a batch which was begun, and those of the run's own files; nobody else's."""
    run = ("run", words, "--recipe", "words", "--root", "inputs", "--workers", "0", "--output", s3.url("out"))
    assert here(capfd, *run).code == 0
    begun = json.dumps({"keys": [], "names": ["a/large.bin"]}).encode()
    s3.write("out/.splitter/records/000009-000000.begun", begun)
    own = ("out/.splitter/staging/000009-0/shards/shard-000000.tar", "out/manifest.csv")
    for key in ("out/a/large.bin", "out/mine.bin", *own):
        s3.client.create_multipart_upload(Bucket=s3.name, Key=key)
    assert here(capfd, *run).code == 0
    assert s3.uploads() == ["out/mine.bin"]


def test_a_small_output_is_one_put_and_a_batch_a_few_requests_more(
    recorded_s3: Bucket, folder: Path, capfd, monkeypatch: pytest.MonkeyPatch
):
    """However many inputs it has; a run that takes long asks now and then whether it still has its lock."""
    monkeypatch.setattr(remote, "SECONDS_OF_TRUST", 1e6)
    monkeypatch.setattr(ownership, "SECONDS_BETWEEN_BEATS", 1e6)
    counts = {}
    for inputs in (1, 40):
        texts = {f"{number}.txt": "simple" for number in range(inputs)}
        dataset = make_inputs(folder / f"data {inputs}", texts)
        run = ("run", dataset, "--recipe", "words", "--batch-size", inputs, "--workers", "0")
        recorded_s3.requests()
        assert here(capfd, *map(str, run), "--output", recorded_s3.url(f"out {inputs}")).code == 0
        counts[inputs] = recorded_s3.requests()
    assert len(counts[40]) - len(counts[1]) == 39 * 5
    assert not [one for one in counts[40] if one.startswith("POST") and "uploads" in one]


# -- strangers, readers -----------------------------------------------------------------------------------


def test_an_object_that_no_run_has_made_is_left_alone(s3: Bucket, words: Path, capfd):
    """What is the same is taken for an output; what differs is that input's error."""
    run = ("run", words, "--recipe", "words", "--root", "inputs", "--workers", "0", "--output", s3.url("out"))
    assert here(capfd, *run, "--limit", "1").code == 0
    s3.write("out/b/0.txt", b"mine")
    s3.write("out/c/0.txt", b"pre")
    assert here(capfd, *run, "--num-chars", "3", "--limit", "4").code == 1
    assert s3.read("out/b/0.txt") == b"mine"
    manifest = splitter.read_manifest(s3.url("out"))
    assert [*manifest.failed["error"]] == ["NameTaken"]
    assert {*manifest["input"]} == {"a.txt", "c.txt", "d.txt"}


def test_the_manifest_is_put_together_at_the_url(s3: Bucket, words: Path, folder: Path, capfd):
    """`splitter manifest URL`, and `read_manifest` of the folder and of the file."""
    run = ("run", words, "--recipe", "words", "--root", "inputs", "--workers", "0", "--output", s3.url("out"))
    assert here(capfd, *run).code == 0
    made = s3.read("out/manifest.csv")
    s3.client.delete_object(Bucket=s3.name, Key="out/manifest.csv")
    with pytest.raises(Refused, match="there is no manifest"):
        splitter.read_manifest(s3.url("out"))
    assert here(capfd, "manifest", s3.url("out/")).code == 0
    assert s3.read("out/manifest.csv") == made
    manifest = splitter.read_manifest(s3.url("out"))
    assert manifest.equals(splitter.read_manifest(s3.url("out/manifest.csv")))
    assert manifest["size"].sum() == sum(len(content) for content in s3.tree("out").values()) - len(made)
    assert splitter.read_output(manifest.iloc[0]) == s3.read(f"out/{manifest['output'][0]}")
    nothing = here(capfd, "manifest", s3.url("nothing"))
    assert (nothing.code, nothing.err.count("\n")) == (2, 1)
    # browsers show what they are told is a page or a text, and download the rest
    assert here(capfd, "report", s3.url("out")).code == 0
    for name, kind in ("report.html", "text/html"), (manifest["output"][0], "text/plain"):
        told = s3.client.head_object(Bucket=s3.name, Key=f"out/{name}")["ContentType"]
        assert told == f"{kind}; charset=utf-8"


def test_from_python_the_manifest_comes_from_the_store(s3: Bucket, words: Path):
    from splitter.recipes.words import Words

    manifest = Words(words).run(s3.url("out"), root="inputs", workers=2, quiet=True)
    assert len(manifest) == len(s3.tree("out")) - 1
    assert manifest.summary.output == s3.url("out")


def test_credentials_are_in_nothing_that_is_stored_or_said(faulty_s3: Bucket, words: Path, capfd):
    run = ("run", words, "--recipe", "words", "--root", "inputs", "--workers", "0", "--output")
    said = here(capfd, *run, faulty_s3.url("out"))
    assert said.code == 0
    stored = b"".join(faulty_s3.read(key) for key in faulty_s3.keys("out/"))
    for text in (stored, said.err.encode(), said.out.encode()):
        assert ACCESS["AWS_SECRET_ACCESS_KEY"].encode() not in text
        assert faulty_s3.environment["AWS_ENDPOINT_URL"].encode() not in text


def test_a_store_in_memory_is_one_as_well(words: Path, folder: Path, capfd):
    """Through what fsspec has for all stores."""
    import fsspec

    memory = fsspec.filesystem("memory")
    run = ("run", words, "--recipe", "words", "--root", "inputs", "--workers", "0", "--output")
    assert here(capfd, *run, folder / "local").code == 0
    assert here(capfd, *run, "memory://a/b").code == 0
    assert here(capfd, *run, "memory://a/b").lines[0].startswith("nothing to do")
    names = {name.removeprefix("/a/b/"): memory.cat_file(name) for name in memory.find("/a/b")}
    assert {name: content for name, content in names.items() if name[0] != "."} == tree(folder / "local")
    assert here(capfd, *run, "memory://a/b", "--num-chars", "3", "--overlap", "2").code == 0
    assert here(capfd, *run, folder / "local", "--num-chars", "3", "--overlap", "2").code == 0
    names = {name.removeprefix("/a/b/"): memory.cat_file(name) for name in memory.find("/a/b")}
    assert {name: content for name, content in names.items() if name[0] != "."} == tree(folder / "local")
    memory.rm("/a", recursive=True)


def test_outputs_of_earlier_runs_in_a_folder_of_a_store_are_no_inputs(folder, capfd):
    """As in a folder of a disk; a note counts them."""
    import fsspec

    url = f"memory://{uuid.uuid4().hex}"
    memory = fsspec.filesystem("memory")
    for name in ("a.txt", "deep/b.txt"):
        memory.pipe_file(f"{url}/{name}", name.encode())
    for number in (1, 2):
        out = f"{url}/deep/out{number}"
        run = ("run", f"{url}/", "--recipe", "words", "--pattern", "*.txt", "--workers", "0", "--output", out)
        said = here(capfd, *run)
        assert said.code == 0
        assert list(splitter.read_manifest(out)["input"].unique()) == ["a.txt", "deep/b.txt"]
        assert ("note: not taken as inputs: 1 output folder" in said.err) == (number == 2)
    again = ("run", f"{out}/", "--recipe", "words", "--workers", "0", "--output", folder / "again")
    assert here(capfd, *again).code == 0


def test_what_only_looks_leaves_nothing_open_or_behind(s3: Bucket, words: Path, capfd):
    """`--dry-run` over a run that is there and one that is not; no lock, no temporary file."""
    run = ("run", words, "--recipe", "words", "--root", "inputs", "--workers", "1", "--output", s3.url("out"))
    assert here(capfd, *run, "--dry-run").code == 0
    assert s3.keys() == []
    assert here(capfd, *run).code == 0
    before = s3.keys()
    # a file that is left open is a warning, and so an error
    assert "nothing to do" in here(capfd, *run, "--dry-run").out
    gc.collect()
    assert s3.keys() == before


def test_a_stopped_run_says_where_its_manifest_is(folder, capfd):
    """In a store, too: what is done and what failed is listed there already."""
    files = {f"{number}.txt": "fail" if number else "one" for number in range(4)}
    write_files(folder / "inputs", files)
    url = f"memory://{uuid.uuid4().hex}/out"
    recipe = ("--recipe", f"{Path(__file__).parents[1]}/verification/test_reproduce.py:Letters")
    run = ("run", folder / "inputs", *recipe, "--workers", "0", "--max-failures", "0", "--output", url)
    said = here(capfd, *run)
    assert said.code == 1
    assert f"manifest: {url}/manifest.csv   errors: {url}/errors.csv" in said.lines
    assert "see errors.csv" in said.lines[-1]
    assert splitter.read_manifest(url).failed["error"].tolist() == ["ValueError"]
