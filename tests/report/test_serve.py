"""`splitter serve`: its folder and nothing else, by range, to this machine only."""

import http.client
import os
import shutil
import signal
import socket
import threading
from contextlib import closing
from urllib.parse import quote, urlsplit

import fsspec
import pytest
from doors import here, program, read_table, write_files, write_list
from report_pages import serving as serve
from report_pages import speech, write_manifest
from written_shards import as_shards

from splitter.report.looking import Effort
from splitter.report.writing import server_of

pytestmark = pytest.mark.slow

LISTING = "input\nspeech/greeting.wav\nspeech/studio.wav\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Outputs with a report, beside files that are nobody's business."""
    folder = tmp_path_factory.mktemp("it's a naïve folder")
    speech(folder)
    write_files(folder, {"secret.txt": "secret", "list.csv": LISTING})
    said = program(
        "run", folder / "list.csv", "--root", folder / "data_samples", "-o", folder / "out", "--workers=1"
    )
    assert said.code == 0, said.err
    assert program("report", folder / "out").code == 0
    os.symlink(folder / "secret.txt", folder / "out" / "link.txt")
    os.symlink(folder, folder / "out" / "up")
    os.symlink("manifest.csv", folder / "out" / "inside.csv")
    os.mkfifo(folder / "out" / "pipe")
    (folder / "out" / "page.html").write_text("<script>alert(1)</script>")
    return folder


@pytest.fixture(scope="module")
def server(home):
    with serve(home / "out") as server:
        yield server


@pytest.fixture(scope="module")
def served(server):
    """Ask a server for something; the status, the headers and the content of the answer."""
    return asking(server.url)


def asking(url):
    address = urlsplit(url)

    def ask(path, method="GET", **headers):
        with closing(http.client.HTTPConnection(address.hostname, address.port, timeout=120)) as connection:
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    return ask


def test_it_gives_the_files_of_the_folder(home, served):
    """Outputs, the manifest, and the page, which then knows that it is served."""
    for row in read_table(home / "out" / "manifest.csv"):
        status, headers, content = served(f"/{quote(row['output'])}")
        assert (status, content) == (200, (home / "out" / row["output"]).read_bytes())
        assert headers["Content-Type"] == "audio/wav"
    assert served("/manifest.csv")[2] == (home / "out" / "manifest.csv").read_bytes()
    status, headers, content = served("/")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    page = (home / "out" / "report.html").read_bytes()
    assert content == page.replace(b'<html lang="en"', b'<html lang="en" data-server="outputs"', 1)
    assert served("/report.html")[2] == content
    status, headers, content = served("/report.html", "HEAD")
    assert (status, int(headers["Content-Length"]) > len(page), content) == (200, True, b"")


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=44-", 44, None),
        ("bytes=-7", -7, None),
        ("bytes=100-99999999", 100, None),
        ("bytes=-99999999", 0, None),
    ],
)
def test_it_gives_parts_by_range(home, served, asked, start, stop):
    """As players ask for them."""
    output = read_table(home / "out" / "manifest.csv")[0]["output"]
    whole = (home / "out" / output).read_bytes()
    status, headers, content = served(f"/{output}", Range=asked)
    assert (status, content) == (206, whole[start:stop])
    first = start % len(whole)
    assert headers["Content-Range"] == f"bytes {first}-{first + len(content) - 1}/{len(whole)}"
    assert served(f"/{output}", "HEAD", Range=asked)[2] == b""


def test_a_range_that_is_not_there_is_refused(home, served):
    """Past the end is an error; what is no range, or several, gives the whole."""
    output = read_table(home / "out" / "manifest.csv")[0]["output"]
    size = (home / "out" / output).stat().st_size
    for asked in (f"bytes={size}-", "bytes=-0"):
        status, headers, _ = served(f"/{output}", Range=asked)
        assert (status, headers["Content-Range"]) == (416, f"bytes */{size}")
    for asked in ("bytes=-", "bytes=9-5", "lines=1-2", "bytes=0-1,4-5", "bytes=a-b", f"bytes=0-{'9' * 5000}"):
        assert served(f"/{output}", Range=asked)[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2E%2E%2Fsecret.txt",
        "/speech/../../secret.txt",
        "/speech/%2e%2e/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/up/secret.txt",
        "/link.txt",
        "/inside.csv",
        "/pipe",
        "/speech",
        "/speech/",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/.splitter/run.json",
        "/.SPLITTER/run.json",
        "/%2esplitter/list.json",
        "/speech/./greeting",
        "/manifest.csv%00.txt",
        "/.sources/speech/greeting.wav",
        "/shards/shard-000000.tar/00000000-000000.wav",
        "http://127.0.0.1/../secret.txt",
        "/%ff%fe",
        "/" + "a" * 5000,
    ],
)
def test_nothing_else_is_served(served, path):
    """Not what is above, not through links, not the run's own records, however it is written."""
    status, _, content = served(path)
    assert status in (400, 404, 414)
    assert b"secret" not in content
    assert b"root:" not in content


def test_what_has_left_the_folder_is_not_served(home, server):
    """Nor by a connection that stays open, as those of browsers do."""
    inside, outside = home / "out" / "moved", home / "moved"
    write_files(inside, {"a.txt": "one"})
    address = urlsplit(server.url)
    with closing(http.client.HTTPConnection(address.hostname, address.port, timeout=120)) as connection:

        def ask():
            connection.request("GET", "/moved/a.txt")
            answer = connection.getresponse()
            return answer.status, answer.read()

        assert ask() == (200, b"one")
        inside.rename(outside)
        assert ask()[0] == 404
        write_files(inside, {"a.txt": "two"})
        assert ask() == (200, b"two")


def test_pages_from_elsewhere_cannot_ask(served):
    """Under another name than this machine's own nothing is given: no name server opens the folder."""
    assert served("/manifest.csv", Host="attacker.example")[0] == 403
    assert served("/manifest.csv", Host="attacker.example:8765")[0] == 403
    assert served("/manifest.csv", Host="localhost:8765")[0] == 200
    assert served("/manifest.csv", Host="[::1]:8765")[0] == 200
    assert served("/manifest.csv")[1]["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in served("/manifest.csv")[1]


def test_an_output_that_is_a_page_does_nothing(served):
    """It is sent as bytes, without leave to run."""
    _, headers, content = served("/page.html")
    assert content == b"<script>alert(1)</script>"
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("sandbox;")


def test_only_reading_is_possible(served):
    for method in ("POST", "PUT", "DELETE"):
        assert served("/manifest.csv", method)[0] == 501


def test_sources_are_served_when_asked_for(home, serving):
    """The inputs that the list names, and no others beside them."""
    with serving(home / "out", "--sources") as server:
        ask = asking(server.url)
        whole = (home / "data_samples" / "speech" / "greeting.wav").read_bytes()
        assert ask("/.sources/speech/greeting.wav")[2] == whole
        assert ask("/.sources/speech/greeting.wav", Range="bytes=5-8")[2] == whole[5:9]
        for other in ("speech/lecture.flac", "dataset.csv", "../secret.txt", "%2e%2e/secret.txt", ""):
            assert ask(f"/.sources/{other}")[0] == 404
        assert b'data-server="sources"' in ask("/")[2][:200]


def test_sources_may_lie_anywhere(home, tmp_path, serving):
    """An input that is listed with its whole path, or above the root, has an address like the others."""
    whole = home / "data_samples" / "speech" / "greeting.wav"
    (tmp_path / "lists").mkdir()
    (tmp_path / "two.wav").write_bytes(whole.read_bytes())
    names = [str(whole), "../two.wav"]
    listing = write_list(tmp_path / "lists" / "list.csv", [["input"], *([name] for name in names)])
    said = program("run", listing, "-o", tmp_path / "out", "--workers=1", "--quiet")
    assert said.code == 0, said.err
    with serving(tmp_path / "out", "--sources", "--sample=0") as server:
        ask = asking(server.url)
        for name in names:
            assert ask(f"/.sources/{quote(name, safe='')}", Range="bytes=5-8")[2] == whole.read_bytes()[5:9]
        assert ask(f"/.sources/{quote(str(home / 'secret.txt'), safe='')}")[0] == 404
        assert ask("/.sources/..%2Flists%2Flist.csv")[0] == 404


def test_members_of_archives_are_not_read_into_memory(tmp_path, serving):
    """A part of one is sent from where it is, however large it is; so is a file in a store."""
    size, offset = 1 << 40, 512
    out = tmp_path / "out"
    (out / "shards").mkdir(parents=True)
    with (out / "shards" / "shard-000000.tar").open("wb") as file:
        file.truncate(offset + size - 4)
        file.seek(offset + size - 4)
        file.write(b"ends" + b"not of it")
    name = "shards/shard-000000.tar/00000000-000000.bin"
    header = ["input", "output", "size", "checksum", "shard_offset"]
    write_manifest(out, header, [["a.wav", name, size, "xxh128:0", offset]])
    with serving(out) as server:
        ask = asking(server.url)
        assert ask(f"/{name}", Range="bytes=-8")[2] == b"\0\0\0\0ends"
        assert ask(f"/{name}", "HEAD")[1]["Content-Length"] == str(size)


def test_an_output_folder_in_a_store_is_served(home):
    """Outputs whole and by range, also more than is fetched at a time; what is gone is not found."""
    store = fsspec.filesystem("memory")
    url = "memory://served-from-a-store/out"
    large = os.urandom((9 << 20) + 5)
    store.pipe(f"{url}/large.bin", large)
    store.pipe(f"{url}/secret.txt", b"secret")
    # beside loose files a column `shard_offset` is somebody's own
    manifest = (
        "input,shard_offset,output,size,checksum\n"
        f"a,5,large.bin,{len(large)},xxh128:0\nb,5,gone.bin,9,xxh128:0\n"
    )
    store.pipe(f"{url}/manifest.csv", manifest.encode())
    server, note = server_of(url, Effort(0, 0), host="127.0.0.1", port=0, sources=False)
    assert note == ""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        ask = asking(server.url)
        assert ask("/large.bin")[2] == large
        assert ask("/large.bin", Range="bytes=4194300-4194310")[2] == large[4194300:4194311]
        for name in ("gone.bin", "secret.txt", "manifest.csv"):
            assert ask(f"/{name}")[0] == 404
        assert b"splitter report" in ask("/")[2]
    finally:
        server.shutdown()
        server.server_close()


def test_an_old_report_is_not_shown(home, tmp_path, serving):
    """One that is older than the manifest tells of another run: a new one is shown, and nothing written."""
    shutil.copytree(home / "out", tmp_path / "out", symlinks=True, ignore=shutil.ignore_patterns("pipe"))
    page = tmp_path / "out" / "report.html"
    page.write_text("<html>of yesterday</html>")
    os.utime(page, (1, 1))
    with serving(tmp_path / "out", "--host=127.0.0.2") as server:
        # an address of this machine like any other
        assert server.url.startswith("http://127.0.0.2:")
        assert b"splitter report" in asking(server.url)("/")[2]
        server.process.terminate()
        _, err = server.process.communicate(timeout=120)
    old = "splitter: report.html is older than the manifest: a new one is shown but not written"
    assert err.splitlines() == [old, "splitter: stopped"]
    assert page.read_text() == "<html>of yesterday</html>"


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_outputs_in_shards_have_addresses(home, tmp_path, serving, kind):
    """Each member by the name in the manifest, whole and by range, many at the same time."""
    shards = as_shards(home / "out", tmp_path / "shards", kind, per_shard=1)
    loose = [(home / "out" / row["output"]).read_bytes() for row in read_table(home / "out" / "manifest.csv")]
    rows = read_table(shards / "manifest.csv")
    with serving(shards) as server:
        ask = asking(server.url)
        found = {}

        def get(row):
            found[row["output"]] = ask(f"/{row['output']}")[2]

        threads = [threading.Thread(target=get, args=[row]) for row in rows * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[row["output"]] for row in rows] == loose
        assert ask(f"/{rows[0]['output']}", Range="bytes=4-11")[2] == loose[0][4:12]
        assert ask(f"/{rows[0]['output']}x")[0] == 404
        # there was no report, and none is written
        assert b"splitter report" in ask("/")[2]
        assert not (shards / "report.html").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_in_one_line(home, serving, number, code):
    """Ctrl-C while somebody is connected: no traceback."""
    with serving(home / "out") as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port)) as idle:
            idle.send(b"GET / HT")
            server.process.send_signal(number)
            out, err = server.process.communicate(timeout=120)
    assert (server.process.returncode, out, err) == (code, "", "splitter: stopped\n")


def test_a_port_that_is_taken_is_named(home, capfd):
    """In one line that says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = here(capfd, "serve", home / "out", f"--port={port}")
    assert (said.code, len(said.lines)) == (2, 1)
    assert f"--port {port}: Address already in use; choose another --port, or 0 for a free one" in said.err


@pytest.mark.parametrize(
    ("host", "message"),
    [
        (
            "",
            "--host: is empty; leave it out, or use 0.0.0.0 to give access to all who can reach this machine",
        ),
        ("192.0.2.1", "--host 192.0.2.1: Cannot assign requested address; use an address of this machine"),
    ],
)
def test_an_address_that_is_not_here_is_named(home, capfd, host, message):
    """In one line that says what to do; no address at all is not taken for all of them."""
    said = here(capfd, "serve", home / "out", f"--host={host}")
    assert (said.code, len(said.lines)) == (2, 1)
    assert message in said.err
