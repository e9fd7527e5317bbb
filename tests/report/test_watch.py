"""`splitter serve --watch`: the page of a run that is going on, from what the run writes."""

import http.client
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from urllib.parse import urlsplit

import fsspec
import pytest
from doors import CHECKOUT, here, write_files, write_list
from report_pages import HOSTILE, needs_chromium, serving

from splitter.ledger.journal import Journal
from splitter.ledger.worker_notes import Notebook, ask_for_notes, worker_notes
from splitter.report.progress import RunWatch
from splitter.storage.folder import LocalStorage

RECIPE = """
import os, time
from splitter import OutputFile, ProcessorDataset

class Waits(ProcessorDataset):
    def process(self, input_file):
        text = input_file.read_text()
        while text == "wait" and not os.path.exists(os.environ["GO"]):
            time.sleep(0.05)
        if text.startswith("fail"):
            raise ValueError(text)
        return [OutputFile("0.txt", text)], {}
"""


@needs_chromium
def test_the_page_follows_a_run_to_its_report(chromium, folder):
    """Progress, a failure, what each worker does; when it has ended, the report."""
    texts = {"a.txt": "one", "b.txt": "two", "c.txt": f"fail {HOSTILE}", "x.txt": "wait", "d.txt": "three"}
    write_files(folder, {f"in/{name}": text for name, text in texts.items()})
    write_files(folder, {"waits.py": RECIPE})
    command = [sys.executable, "-m", "splitter", "run", "in", "--recipe=waits.py:Waits", "--output=out"]
    go = folder / "go"
    run = subprocess.Popen(
        [*command, "--workers=2", "--batch-size=1", "--quiet"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "GO": str(go)},
    )
    try:
        eventually((folder / "out/.splitter/list.json").exists)
        with serving(folder / "out", "--watch") as server:
            chromium.open(server.url)
            chromium.wait("document.querySelector('.workers td:nth-child(2)')?.textContent === 'x.txt'")
            assert chromium.value("document.documentElement.dataset.state") == "running"
            # the other worker may still be at one of the others
            eventually(lambda: numbers(chromium) == ("4", "1", "3"))
            (failure,) = chromium.texts("#causes .why")
            assert failure == f"c.txt: fail {HOSTILE}"
            assert status(server.url, "/watch.json", Host="evil.example") == 403
            assert status(server.url, "/manifest.csv") == 404
            go.touch()
            chromium.wait("document.documentElement.dataset.state === 'ended'")
            chromium.click("#report")
            chromium.wait("document.documentElement.dataset.ready")
            assert chromium.value("document.querySelectorAll('#body .row').length") == len(texts)
        assert chromium.complaints() == []
        assert run.wait(120) == 1
        assert os.listdir(folder / "out/.splitter/staging") == []
    finally:
        run.kill()
        run.wait()


def numbers(chromium) -> tuple[str, ...]:
    found = dict(zip(chromium.texts("dt"), chromium.texts("dd:not(.more)"), strict=True))
    return found["inputs tried"], found["failed"], found["outputs"]


def eventually(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def status(url: str, path: str, **headers: str) -> int:
    address = urlsplit(url)
    with closing(http.client.HTTPConnection(address.hostname, address.port, timeout=120)) as connection:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


@pytest.mark.parametrize("output", ["outputs", "memory://watched/outputs"])
def test_it_counts_as_the_tables_do(folder, capfd, monkeypatch, output):
    """After each of several runs, by one watcher; what was retried and done has not failed any more."""
    monkeypatch.chdir(folder)
    if "://" not in output:
        output = str(folder / output)
    write_files(folder, {"in/a.txt": "simple", "in/b.txt": "word"})
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["c.txt"]])
    run = ["run", folder / "list.csv", "--root=in", "--recipe=words", f"--output={output}", "--workers=0"]
    assert here(capfd, *run).code == 1
    watch = RunWatch(output)

    def seen() -> tuple[int, ...]:
        # a look that took long, as on a busy machine, would otherwise be shown for longer
        monkeypatch.setattr(watch, "_next_look", 0.0)
        look = watch.look()
        assert (look["who"], look["workers"], look["has_report"], look["trouble"]) == ("", [], True, "")
        with fsspec.open(f"{output}/manifest.csv") as file:
            rows = file.read().decode().splitlines()[1:]
        assert look["outputs"] == len(rows)
        return look["inputs"], look["done"], look["failed"], look["left"], len(look["failures"])

    assert seen() == (3, 2, 1, 0, 1)
    assert watch.look()["failures"][0]["input"] == "c.txt"
    write_files(folder, {"in/c.txt": "more"})
    assert here(capfd, *run, "--retry-failed").code == 0
    assert seen() == (3, 3, 0, 0, 0)
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["c.txt"], ["d.txt"]])
    assert here(capfd, *run).code == 1
    assert seen() == (4, 3, 1, 0, 1)


def test_a_worker_notes_what_it_does_only_if_somebody_watches(folder):
    """In a place that the next run clears; what a stranger has put there is no note."""
    storage = LocalStorage(str(folder / "outputs"))
    storage.prepare()
    notebook = Notebook(storage)
    notebook.write("a.txt", 2.5, 7, 1)
    assert [*worker_notes(storage)] == []
    ask_for_notes(storage)
    notebook.write("a.txt", 2.5, 7, 1)
    endless = dict.fromkeys(("host", "process", "doing", "seconds", "inputs", "failed", "noted"), math.inf)
    strange = {"worker-1": "[]", "worker-2": '{"host": "a"}', "worker-3": json.dumps(endless)}
    write_files(folder / "outputs/.splitter/staging", strange)
    (note,) = worker_notes(storage)
    assert (note.process, note.doing, note.seconds, note.inputs, note.failed) == (
        os.getpid(),
        "a.txt",
        2.5,
        7,
        1,
    )
    notebook.rest(8, 1)
    (note,) = worker_notes(storage)
    assert (note.doing, note.inputs) == ("", 8)
    Journal(storage).recover()
    assert os.listdir(folder / "outputs/.splitter/staging") == []


def test_a_note_that_goes_while_staging_is_cleared_does_not_end_the_run(folder, monkeypatch):
    """The watcher may take its mark away at that moment."""
    storage = LocalStorage(str(folder / "outputs"))
    storage.prepare()
    monkeypatch.setattr(storage, "names", lambda _: ["watched"])
    storage.clear_staging()


def test_there_must_be_a_run_to_watch(folder, capfd):
    said = here(capfd, "serve", folder / "none", "--watch", "--port=0")
    assert (said.code, len(said.lines)) == (2, 1)
    assert "no run has started there yet" in said.err
