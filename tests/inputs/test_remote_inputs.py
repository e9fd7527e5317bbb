"""Inputs, lists and folders at URLs: a web server and an S3 server on loopback, real runs."""

import contextlib
import fcntl
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doors import program, read_table, tree, write_files, write_list
from faulty import noted
from launcher import FAULTY, Driver, Launcher, eventually
from object_store import Bucket
from web_server import Answer, Web, web_server

from splitter import InputFile, OutputFile, ProcessorDataset
from splitter.errors import UnreadableInput
from splitter.inputs import fetching
from splitter.inputs.fetching import Fetcher, RemoteInput
from splitter.records import Scratch
from splitter.stores.files import Found, look

TEXTS = {f"{letter}.txt": f"text {letter}" for letter in "abcdef"}


@pytest.fixture
def web() -> Iterator[Web]:
    """A web server."""
    with web_server() as server:
        yield server


@pytest.fixture
def texts(web: Web, folder: Path) -> Path:
    """A list of six files of the server, by their URLs."""
    web.files.update({f"/in/{name}": text.encode() for name, text in TEXTS.items()})
    return write_list(folder / "list.csv", [["input"], *([web.url(f"in/{name}")] for name in TEXTS)])


def words(launcher: Launcher, *arguments: object, **environ: str) -> Driver:
    run = launcher.run(
        *("run", *arguments, "--recipe", "words", "--num-chars", 99, "--overlap", 0, "--workers", 2),
        environ=environ,
    )
    run.check_gone()
    return run


def made(output: Path) -> dict[str, str]:
    """What became of each input: its word."""
    return {row["input"]: row["word"] for row in read_table(output / "manifest.csv")}


def errors(output: Path) -> dict[str, str]:
    return {row["input"]: row["message"] for row in read_table(output / "errors.csv")}


def left_over(output: Path) -> list[Path]:
    return [path for path in (output / ".splitter" / "staging").rglob("*") if path.is_file()]


# -- inputs -----------------------------------------------------------------------------------------------


def test_inputs_at_urls(launcher, folder, web, texts):
    """Each is fetched once; it keeps its name, and its outputs go to its path without the scheme."""
    run = words(launcher, texts)
    assert run.code == 0, run.stderr
    assert made(folder / "outputs") == {web.url(f"in/{name}"): text for name, text in TEXTS.items()}
    assert set(tree(folder / "outputs")) == {
        "manifest.csv",
        *(f"{web.key('in')}/{name[0]}/0.txt" for name in TEXTS),
    }
    assert web.count("GET") == len(TEXTS)
    assert left_over(folder / "outputs") == []


def test_beside_inputs_that_are_here(launcher, folder, web):
    """Relative paths start from the list's folder, and only what is elsewhere is fetched."""
    web.put(a_txt="far")
    write_files(folder, {"b.txt": "near"})
    words(launcher, write_list(folder / "list.csv", [["input"], ["b.txt"], [web.url("a.txt")]]))
    assert made(folder / "outputs") == {"b.txt": "near", web.url("a.txt"): "far"}


@pytest.mark.parametrize("root", ["in", "in/", "other/../in"])
def test_a_list_here_with_its_root_elsewhere(launcher, folder, web, root):
    """Relative paths start there, `..` resolved; keys are the paths below it, however they are written."""
    web.put(in__sub__a_txt="one", in__b_txt="two", c_txt="three")
    rows = [["sub/a.txt"], ["./sub/../b.txt"], [web.url("c.txt")]]
    run = words(launcher, write_list(folder / "list.csv", [["input"], *rows]), "--root", web.url(root))
    assert run.code == 0, run.stderr
    outputs = {"manifest.csv", "sub/a/0.txt", "b/0.txt", f"{web.key('c')}/0.txt"}
    assert set(tree(folder / "outputs")) == outputs


def test_nothing_is_fetched_again_unless_it_has_changed(launcher, folder, web, texts):
    """Size and etag tell; one that is gone, or denied, keeps its outputs and is named."""
    words(launcher, texts)
    web.requests.clear()
    assert "nothing to do" in words(launcher, texts).stderr
    assert web.count("GET") == 0
    web.files["/in/a.txt"] = b"TEXT A"
    run = words(launcher, texts)
    assert "1 finished input changed" in run.stderr
    assert web.count("GET") == 1
    assert made(folder / "outputs")[web.url("in/a.txt")] == "TEXT A"
    del web.files["/in/b.txt"]
    run = words(launcher, texts)
    assert run.code == 1
    assert (
        f"make {web.url('in/b.txt')} readable (first: {web.url('in/b.txt')}: there is no such" in run.stderr
    )
    assert made(folder / "outputs")[web.url("in/b.txt")] == "text b"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "there is no such file"),
        (403, "access is denied; check the credentials"),
        (400, "400, message='Bad Request', url='{url}'"),
    ],
)
@pytest.mark.usefixtures("texts")
def test_what_cannot_be_read_is_one_error(launcher, folder, web, status, message):
    """It says why, and the others are done."""

    def refuse(answer: Answer) -> bool:
        if "c.txt" in answer.path:
            answer.refuse(status)
        return "c.txt" in answer.path

    web.fault = refuse
    assert words(launcher, "list.csv").code == 1
    url = web.url("in/c.txt")
    assert errors(folder / "outputs") == {url: f"{url}: {message.format(url=url)}"}
    assert len(made(folder / "outputs")) == len(TEXTS) - 1


def test_a_server_that_is_busy_is_asked_again(launcher, folder, web, texts):
    """Throttling, a connection that is cut, half an answer: the run comes through, and nothing is half."""
    seen: dict[str, int] = {}

    def sometimes(answer: Answer) -> bool:
        number = seen[answer.command + answer.path] = seen.get(answer.command + answer.path, 0) + 1
        if number == 1 and answer.command == "GET":
            answer.begin(web.files[answer.path])
            answer.wfile.write(web.files[answer.path][:3])
            answer.close_connection = True
            return True
        if number == 2:
            answer.refuse(503)
            return True
        return False

    web.fault = sometimes
    run = words(launcher, texts)
    assert run.code == 0, run.stderr
    assert made(folder / "outputs") == {web.url(f"in/{name}"): text for name, text in TEXTS.items()}


def test_one_that_changes_after_it_was_looked_at(launcher, folder, web):
    """What was read is recorded, not what was looked at: also when the old content comes back."""
    web.put(a_txt="old")
    dataset = write_list(folder / "list.csv", [["input"], [web.url("a.txt")]])

    def change(answer: Answer) -> bool:
        if answer.command == "GET":
            web.put(a_txt="newer")
        return False

    web.fault = change
    words(launcher, dataset)
    assert made(folder / "outputs") == {web.url("a.txt"): "newer"}
    web.fault = lambda _: False
    assert "nothing to do" in words(launcher, dataset).stderr
    web.put(a_txt="old")
    words(launcher, dataset)
    assert made(folder / "outputs") == {web.url("a.txt"): "old"}


def test_one_that_changes_all_the_time(launcher, folder, web):
    """Its copy may be a mixture, so it is an error."""
    web.put(a_txt="0")
    dataset = write_list(folder / "list.csv", [["input"], [web.url("a.txt")]])

    def change(answer: Answer) -> bool:
        web.put(a_txt=str(len(web.requests)))
        return False

    web.fault = change
    assert words(launcher, dataset).code == 1
    assert errors(folder / "outputs") == {web.url("a.txt"): f"{web.url('a.txt')}: changes while it is read"}


def test_a_signed_url(launcher, folder, web):
    """Signed anew it is the same input; its signature names no output and stands in no message."""
    web.put(a_txt="signed")

    def run(signature: str) -> Driver:
        rows = [["input"], *([web.url(f"{name}.txt?v=1&X-Amz-Signature={signature}")] for name in "an")]
        return words(launcher, write_list(folder / "list.csv", rows))

    first = run("5ec2e7")
    name = web.url("n.txt?v=1")
    assert f"first: UnreadableInput: {name}: there is no such file" in first.stderr
    assert "5ec2e7" not in first.stderr + str(errors(folder / "outputs").values())
    assert [path for path in tree(folder / "outputs") if path.endswith("/0.txt")] == [f"{web.key('a')}/0.txt"]
    web.requests.clear()
    assert "nothing to do" in run("07e2").stderr
    assert not [request for request in web.requests if request.startswith("GET /a.txt")]
    assert made(folder / "outputs") == {web.url("a.txt?v=1&X-Amz-Signature=5ec2e7"): "signed"}


def test_inputs_of_a_batch_that_is_done_together(launcher, folder, web, texts):
    """`process_batch` has all of them at once, and the names that they have on the server."""
    recipe = write_files(
        folder,
        {
            "together.py": "from splitter import ProcessorDataset\n"
            "class Names(ProcessorDataset):\n"
            "    def process_batch(self, inputs):\n"
            "        names = '+'.join(one.path.name for one in inputs if one.path.exists())\n"
            "        return [((), {'names': names}) for one in inputs]\n"
        },
    )
    run = launcher.run("run", texts, "--recipe", recipe / "together.py:Names", "--workers", 1)
    assert run.code == 0, run.stderr
    assert {row["names"] for row in read_table(folder / "outputs" / "manifest.csv")} == {"+".join(TEXTS)}


def test_in_this_process(folder, web, texts):
    """`dataset[i]` and `workers=0` fetch too, and leave nothing behind."""

    class Read(ProcessorDataset):
        def process(self, input_file: InputFile):
            assert input_file.path.name in TEXTS
            # one that was done with takes no room any more
            assert os.listdir(input_file.path.parent.parent) == [input_file.path.parent.name]
            return [OutputFile("copy.txt", input_file.path)], {"text": input_file.read_text()}

    dataset = Read(texts)
    ((output,), metadata) = dataset[1]
    assert metadata == {"text": "text b"}
    assert output.name == "copy.txt"
    manifest = dataset.run(folder / "outputs", workers=0, batch_size=6)
    assert list(manifest["text"]) == list(TEXTS.values())
    assert (folder / "outputs" / web.key("in") / "f" / "copy.txt").read_text() == "text f"
    assert left_over(folder / "outputs") == []


def test_a_recipe_that_opens_no_files_has_none_fetched(folder, web, texts):
    """It gets names and columns; asking for the file is an error, and one that is missing is, too."""

    class Named(ProcessorDataset):
        opens_files = False

        def process(self, input_file: InputFile):
            if input_file.name == "c.txt":
                input_file.read_bytes()
            return [], {"letter": input_file.name[0]}

    del web.files["/in/b.txt"]
    dataset = Named(texts)
    assert dataset[0] == ((), {"letter": "a"})
    manifest = dataset.run(folder / "outputs", workers=0, max_failures=6)
    assert list(manifest["letter"]) == ["a", "d", "e", "f"]
    # the one that is missing is asked for, to say why
    assert {request for request in web.requests if request.startswith("GET")} <= {"GET /in/b.txt"}
    assert errors(folder / "outputs") == {
        web.url("in/b.txt"): f"{web.url('in/b.txt')}: there is no such file",
        web.url("in/c.txt"): f"{web.url('in/c.txt')}: cannot be opened, since the recipe says "
        "opens_files = False; leave that line out",
    }


# -- ahead of use -----------------------------------------------------------------------------------------


def test_no_more_is_fetched_ahead_than_is_allowed(launcher, folder, web):
    """While one input is processed a few more come; they lie in the output's own temporary space."""
    web.files.update({f"/{number}.txt": b"x" * 1000 for number in range(40)})
    dataset = write_list(folder / "list.csv", [["input"], *([web.url(f"{n}.txt")] for n in range(40))])
    log = folder / "log"
    recipe = ("--recipe", f"{FAULTY}:Faulty", "--log", log, "--seconds", 1.0)
    run = launcher.start("run", dataset, *recipe, "--workers", 1, "--batch-size", 40)
    run.until(lambda: noted(log, "process"))
    time.sleep(0.5)
    # counted before what is done, which may become more; the trial of one input is no part of it
    fetched = web.count("GET")
    assert fetched <= len(noted(log, "process")) + 1 + fetching.MOST_AHEAD
    assert len(left_over(folder / "outputs")) <= fetching.MOST_AHEAD + 2
    run.signal(2)
    assert run.wait() == 130
    run.check_gone()
    assert left_over(folder / "outputs") == []


@pytest.mark.slow
def test_as_many_are_fetched_ahead_as_are_allowed(folder, web):
    """And one that is not wanted any more goes when it comes, before the batch is over."""
    release = threading.Event()
    web.fault = lambda answer: answer.command == "GET" and "1.txt" in answer.path[:6] and not release.wait(20)
    web.files.update({f"/{number}.txt": b"x" * 1000 for number in range(20)})
    wanted = {
        number: RemoteInput(web.url(f"{number}.txt"), look(web.url(f"{number}.txt"))) for number in range(20)
    }
    web.requests.clear()
    fetcher = Fetcher(Scratch(str(folder)), ahead=True)
    fetcher.begin(wanted)
    try:
        fetcher.take(0)
        eventually(lambda: web.count("GET") == 1 + fetching.MOST_AHEAD, lambda: f"{web.requests}")
        time.sleep(0.5)
        assert web.count("GET") == 1 + fetching.MOST_AHEAD
        fetcher.drop(1)
        release.set()
        for number in range(2, 20):
            time.sleep(0.3)
            fetcher.take(number)
            if not list(folder.rglob("1.txt")):
                break
        assert list(folder.rglob("1.txt")) == []
    finally:
        release.set()
        fetcher.close()


class Walked(dict[int, RemoteInput]):
    """Counts the inputs that are looked at."""

    count = 0

    def items(self) -> Any:
        for pair in super().items():
            self.count += 1
            yield pair

    def __getitem__(self, index: int) -> RemoteInput:
        self.count += 1
        return super().__getitem__(index)


def test_what_comes_next_is_found_without_a_walk_over_the_batch(folder, web):
    """However many inputs a batch has: each that is taken looks at the few that follow."""
    web.put(x_txt="x")
    wanted = Walked(dict.fromkeys(range(5000), RemoteInput(web.url("x.txt"), Found(1, 1))))
    fetcher = Fetcher(Scratch(str(folder)), ahead=True)
    fetcher.begin(wanted)
    try:
        for number in range(4995, 5000):
            fetcher.take(number)
    finally:
        fetcher.close()
    assert 5 <= wanted.count <= 100


def test_large_ones_are_not_fetched_ahead(folder, web, monkeypatch):
    """The bytes that may come ahead are bounded too, and one of unknown size waits for its turn."""
    monkeypatch.setattr(fetching, "MOST_BYTES_AHEAD", 2500)
    web.files.update({f"/{number}.txt": b"x" * 1000 for number in range(6)})
    wanted = {
        number: RemoteInput(web.url(f"{number}.txt"), look(web.url(f"{number}.txt"))) for number in range(6)
    }
    unknown = {**wanted, 2: RemoteInput(web.url("2.txt"), None)}
    scratch = Scratch(str(folder))
    for files, most in ((wanted, 3), (unknown, 2)):
        web.requests.clear()
        fetcher = Fetcher(scratch, ahead=True)
        fetcher.begin(files)
        try:
            assert Path(fetcher.take(0).path).read_bytes() == b"x" * 1000
            eventually(lambda: web.count("GET") == most, lambda: f"{web.requests}")  # noqa: B023
            time.sleep(0.2)
            assert web.count("GET") == most
            assert [Path(fetcher.take(number).path).name for number in range(1, 6)] == [
                f"{number}.txt" for number in range(1, 6)
            ]
            assert web.count("GET") == 6
            for number in range(6):
                fetcher.drop(number)
            assert [path for path in folder.rglob("*") if path.is_file()] == []
        finally:
            fetcher.close()
    assert list(folder.iterdir()) == []


def test_a_fetcher_that_is_killed_is_replaced(folder, web):
    """What was on its way is asked for again; who asks does not notice."""
    web.put(a_txt="a", b_txt="b")
    announced: list[int] = []
    fetcher = Fetcher(Scratch(str(folder)), ahead=True, announce=announced.append)
    fetcher.begin(
        {number: RemoteInput(web.url(f"{name}.txt"), Found(1, 1)) for number, name in enumerate("ab")}
    )
    try:
        assert Path(fetcher.take(0).path).read_text() == "a"
        os.kill(announced[0], 9)
        assert Path(fetcher.take(1).path).read_text() == "b"
    finally:
        fetcher.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list what is open")
def test_a_fetcher_keeps_no_file_of_its_worker_open(folder, web):
    """Who waits for the end of a pipe or a lock of the worker does not wait for the fetcher, too."""
    web.put(a_txt="a")
    announced: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard <= 4096:
        pytest.skip("the system allows no file of that number")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    with (folder / "held").open("w") as file, contextlib.ExitStack() as numbers:
        for least in (100, 4096):
            numbers.callback(os.close, fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, least))
        fetcher = Fetcher(Scratch(str(folder)), ahead=True, announce=announced.append)
        fetcher.begin({0: RemoteInput(web.url("a.txt"), Found(1, 1))})
        try:
            fetcher.take(0)
            links = []
            for one in Path(f"/proc/{announced[0]}/fd").iterdir():
                # the connection to the server may close just now
                with contextlib.suppress(FileNotFoundError):
                    links.append(os.readlink(one))
        finally:
            fetcher.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert links
    assert str(folder / "held") not in links


def test_a_fetcher_where_the_system_does_not_list_what_is_open(folder, web, monkeypatch):
    """It fetches as anywhere else."""

    def listed(path: Any = ".", of_system: Any = os.listdir) -> list[str]:
        if path == "/dev/fd":
            raise FileNotFoundError(path)
        return of_system(path)

    web.put(a_txt="a")
    fetcher = Fetcher(Scratch(str(folder)), ahead=True)
    fetcher.begin({0: RemoteInput(web.url("a.txt"), Found(1, 1))})
    monkeypatch.setattr(os, "listdir", listed)
    try:
        assert Path(fetcher.take(0).path).read_text() == "a"
    finally:
        fetcher.close()


def test_an_error_comes_to_the_one_that_it_is_of(folder, web):
    """And to it each time that it is asked for."""
    fetcher = Fetcher(Scratch(str(folder)), ahead=True)
    fetcher.begin({0: RemoteInput(web.url("none"), None)})
    try:
        for _ in range(2):
            with pytest.raises(UnreadableInput, match="there is no such file"):
                fetcher.take(0)
    finally:
        fetcher.close()


class Hold:
    """Holds the answer of one file in its middle, until it is let go."""

    def __init__(self, web: Web, name: str) -> None:
        self.began, self.free = threading.Event(), threading.Event()
        self._web, self._name = web, name
        web.fault = self

    def __call__(self, answer: Answer) -> bool:
        if answer.command != "GET" or answer.path != f"/{self._name}" or self.free.is_set():
            return False
        content = self._web.files[answer.path]
        answer.begin(content)
        answer.wfile.write(content[:2])
        answer.wfile.flush()
        self.began.set()
        self.free.wait(60)
        answer.wfile.write(content[2:])
        return True


@pytest.mark.parametrize("victim", ["driver", "runner"])
def test_killed_while_a_file_is_on_its_way(launcher, folder, web, texts, victim):
    """No process stays, and the run that comes through has it all, and nothing half."""
    hold = Hold(web, "in/d.txt")
    options = ("--recipe", "words", "--num-chars", 99, "--overlap", 0, "--workers", 1, "--batch-size", 6)
    run = launcher.start("run", texts, *options)
    run.until(hold.began.is_set)
    if victim == "driver":
        run.kill()
        run.wait()
        run.check_gone()
        hold.free.set()
        run = launcher.run("run", texts, *options)
    else:
        (runner,) = run.runners()
        hold.free.set()
        runner.kill()
    assert run.wait() == 0, run.stderr
    run.check_gone()
    assert made(folder / "outputs") == {web.url(f"in/{name}"): text for name, text in TEXTS.items()}
    assert left_over(folder / "outputs") == []


def test_a_server_that_says_nothing_more(launcher, folder, web, texts):
    """The wait for a file is part of --timeout; the others are done."""
    Hold(web, "in/d.txt")
    options = ("--recipe", "words", "--workers", 1, "--timeout", 1, "--batch-size", 6)
    run = launcher.run("run", texts, *options)
    assert run.code == 1
    (row,) = read_table(folder / "outputs" / "errors.csv")
    assert (row["input"], row["error"]) == (web.url("in/d.txt"), "TimedOut")
    run.check_gone()


# -- lists and folders ------------------------------------------------------------------------------------


def test_a_list_at_a_url(launcher, folder, web):
    """It is read once; its relative paths start from where it is, and messages call it by its URL."""
    web.put(
        data__list_csv='input,n\nin/a.txt,1\n"in/b.txt",2\n', data__in__a_txt="one", data__in__b_txt="two"
    )
    run = words(launcher, web.url("data/list.csv"))
    assert run.code == 0, run.stderr
    assert made(folder / "outputs") == {"in/a.txt": "one", "in/b.txt": "two"}
    assert web.requests.count("GET /data/list.csv") == 1
    web.put(bad_csv="input,n\nin/a.txt\n", none_jsonl="{}\n")
    said = words(launcher, web.url("bad.csv?sig=5ec2e7"), "-o", "bad").stderr
    assert said.startswith(f"splitter: {web.url('bad.csv')}: line 2 has 1 columns")
    assert f"{web.url('none.jsonl')}: is empty" in words(launcher, web.url("none.jsonl"), "-o", "bad").stderr


def test_a_folder_in_s3(launcher, folder, recorded_s3: Bucket):
    """One listing gives names, sizes and versions; hidden files and those of runs are left out."""
    names = [
        "a.txt",
        "sub/b.txt",
        "subs.txt",
        "c.wav",
        ".hidden.txt",
        "run/.splitter/run.json",
        "run/errors.csv",
    ]
    for name in names:
        recorded_s3.write(f"in/{name}", name.encode())
    arguments = (recorded_s3.url("in/"), "--pattern", "*.txt", "--folder-label", "label")
    recorded_s3.requests()
    run = words(launcher, *arguments, **recorded_s3.environment)
    assert run.code == 0, run.stderr
    rows = read_table(folder / "outputs" / "manifest.csv")
    assert [(row["input"], row["label"]) for row in rows] == [
        ("a.txt", ""),
        ("sub/b.txt", "sub"),
        ("subs.txt", ""),
    ]
    asked = recorded_s3.requests()
    assert any("/in/.splitter/schema.json" in request for request in asked), "what an earlier run kept"
    asked = [request for request in asked if "schema.json" not in request]
    assert len([request for request in asked if "list-type" in request]) == 1, asked
    # each was looked at once, after it was read
    assert len([request for request in asked if request.startswith("HEAD")]) == 3, asked
    assert "nothing to do" in words(launcher, *arguments, **recorded_s3.environment).stderr
    asked = [request for request in recorded_s3.requests() if "schema.json" not in request]
    assert not [request for request in asked if request.startswith(("HEAD", "GET /in/"))]


def test_a_list_in_s3_names_the_same_versions_as_a_listing(launcher, folder, s3: Bucket):
    """What a listing says of an object is what the object says: one is not taken for another."""
    s3.write("in/a.txt", b"one")
    words(launcher, s3.url("in/"), **s3.environment)
    write_list(folder / "list.csv", [["input"], ["a.txt"]])
    run = words(launcher, folder / "list.csv", "--root", s3.url("in"), **s3.environment)
    assert "nothing to do" in run.stderr


def test_through_a_store_that_fails_a_fifth(launcher, folder, faulty_s3: Bucket):
    """Throttled, reset, cut off and half answered: the run is what it is over a good line."""
    for name, text in TEXTS.items():
        faulty_s3.write(f"in/{name}", text.encode() * 1000)
    faulty_s3.write("list.csv", "\n".join(["input", *(f"in/{name}" for name in TEXTS)]).encode())
    run = words(launcher, faulty_s3.url("list.csv"), **faulty_s3.environment)
    assert run.code == 0, run.stderr
    assert made(folder / "outputs") == {f"in/{name}": text * 1000 for name, text in TEXTS.items()}


def test_from_a_store_to_a_store(launcher, s3: Bucket):
    """Inputs, their list, and all that is made of them; nothing is left here."""
    for name, text in TEXTS.items():
        s3.write(f"in/{name}", text.encode())
    run = words(launcher, s3.url("in/"), "--output", s3.url("out"), **s3.environment)
    assert run.code == 0, run.stderr
    made = {f"{name[0]}/0.txt": text.encode() for name, text in TEXTS.items()}
    assert {name: content for name, content in s3.tree("out").items() if name != "manifest.csv"} == made
    assert "nothing to do" in words(launcher, s3.url("in/"), "-o", s3.url("out"), **s3.environment).stderr
    # the output may lie in the folder of the inputs, and beside others
    again = words(launcher, s3.url(), "--pattern", "*.txt", "--output", s3.url("out2"), **s3.environment)
    assert again.code == 0, again.stderr
    assert len(s3.tree("out2")) == len(TEXTS) + 1
    assert "not taken as inputs: 1 output folder" in again.stderr
    again = words(launcher, s3.url(), "--pattern", "in/*.txt", "-o", s3.url("out2"), **s3.environment)
    assert "nothing to do" in again.stderr


def test_the_memory_of_the_client_is_not_the_input_s(launcher, folder, s3: Bucket):
    """--memory is for what inputs take; a store's client takes tens of megabytes."""
    s3.write("a.txt", b"small")
    run = words(launcher, s3.url(), "--memory", "20MB", **s3.environment)
    assert run.code == 0, run.stderr


def test_a_package_that_is_missing(folder):
    """It is named, with the command that brings it; a process of its own has imported neither yet."""
    write_files(folder, {"s3fs.py": "raise ImportError", "gcsfs.py": "raise ImportError"})
    code = (
        "import sys; from splitter.cli.main import exit_code; "
        "print(*[exit_code(['run', one]) for one in sys.argv[1:]])"
    )
    run = program("s3://b/x.csv", "gs://b/x/", python=["-c", code], cwd=folder)
    assert run.out == "2 2\n"
    packages = {"s3": "'splitter-ml[s3]'", "gs": "gcsfs"}
    for (scheme, package), line in zip(packages.items(), run.lines, strict=True):
        assert f"a package for {scheme}:// is missing; run: pip install {package}" in line
