"""A pipeline whose stages are folders of an object store."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from doors import write_files, write_list
from launcher import Launcher, signal_all
from object_store import Bucket
from pipeline.one_by_one import one_by_one, write_pipeline

import splitter
from splitter.ledger.run_files import DROPPED
from splitter.testing.published import published

if TYPE_CHECKING:
    from pipeline.chains import Spec

INPUTS = 10


def test_killed_and_continued_with_files_kept_until_they_are_used(
    folder: Path, launcher: Launcher, s3: Bucket
):
    """All of it dies at once while both stages are at work; the next run leaves what stages alone make."""
    names = [f"in/{number}.txt" for number in range(INPUTS)]
    write_files(folder, {name: f"a{name} b c d" for name in names})
    first: Spec = {
        "name": "cut",
        "recipe": "Cut",
        "list": str(write_list(folder / "list.csv", [["input"], *([name] for name in names)])),
        "parameters": {"mark": "cut", "seconds": 0.3},
        "version": 1,
        "until_used": True,
    }
    second: Spec = {
        "name": "change",
        "recipe": "Change",
        "from": "cut",
        "parameters": {"mark": "change"},
        "version": 1,
    }
    spec: Spec = {"output": s3.url("voices"), "stages": [first, second]}
    launcher.environ |= s3.environment
    command = ("pipeline", "run", write_pipeline(spec, folder / "line.toml"), "--workers", 1)
    run = launcher.start(*command)
    run.until(lambda: [key for key in s3.keys("voices/change") if key.endswith("/out.txt")])
    driver = psutil.Process(run.pid)
    signal_all([*driver.children(recursive=True), driver], signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    again = launcher.run(*command)
    assert again.code == 0, again.stderr
    assert f"{INPUTS} of {INPUTS} inputs done; {2 * INPUTS} outputs" not in again.stderr
    first["parameters"]["seconds"] = 0.0
    expected = {stage["name"]: published(output) for stage, output in one_by_one(spec, folder / "expected")}
    assert s3.tree("voices/change") == expected["change"]
    assert s3.tree("voices/cut") == {"manifest.csv": expected["cut"]["manifest.csv"]}
    assert f"voices/cut/{DROPPED.name}" in s3.keys("voices/cut")
    assert [splitter.verify(s3.url(f"voices/{name}"), workers=1).findings for name in expected] == [[], []]
    assert s3.uploads() == []
