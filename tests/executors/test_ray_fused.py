"""Fused stages where workers share nothing with drivers but a cluster, and where outputs are in a store."""

from pathlib import Path

import pytest
from doors import write_files, write_list
from executors.ray_nodes import RayNodes
from launcher import Launcher
from nightly import NIGHTLY
from object_store import Bucket

from splitter.testing.published import read_table
from splitter.worker.fused import MARK

pytestmark = pytest.mark.skipif(not NIGHTLY, reason="nightly")

RECIPES = """
from splitter import OutputFile, ProcessorDataset

class Halves(ProcessorDataset):
    def process(self, input_file):
        text = input_file.read_text()
        return [OutputFile(f"{at}.txt", text[at::2]) for at in range(2)], {}

class Length(ProcessorDataset):
    def process(self, input_file):
        return [], {"length": len(input_file.read_text())}
"""
PIPELINE = """
output = "out"
[[stage]]
name = "halves"
dataset = "list.csv"
recipe = "recipes.py:Halves"
[[stage]]
name = "length"
from = "halves"
recipe = "recipes.py:Length"
adds = "columns"
fuse = true
[[stage]]
name = "copy"
from = "length"
where = "length > 3"
recipe = "copy"
fuse = true
"""


@pytest.fixture
def file(folder: Path) -> Path:
    names = [f"in/{number}.txt" for number in range(10)]
    write_files(folder, {name: name * 3 for name in names} | {"recipes.py": RECIPES})
    write_list(folder / "list.csv", [["input"], *([name] for name in names)])
    path = folder / "line.toml"
    path.write_text(PIPELINE)
    return path


def test_on_a_cluster(file: Path, launcher: Launcher, cluster: RayNodes):
    """The recipes are sent to the workers of the first stage, which do the work of all."""
    launcher.environ.update(cluster.environ)
    launcher.elsewhere = cluster
    run = launcher.run("pipeline", "run", file, "--executor", "ray", "--address", cluster.address)
    assert run.code == 0, run.stderr
    out = file.parent / "out"
    assert len(read_table(out / "copy" / "manifest.csv")) == 20
    for stage in ("length", "copy"):
        assert all(MARK in path.name for path in (out / stage / ".splitter" / "records").iterdir())
    assert [path for path in (out / "halves").rglob("*.txt") if ".splitter" not in path.parts] == []


def test_in_a_store(file: Path, launcher: Launcher, s3: Bucket):
    """Nothing of the first stage is sent there, and nothing is left in the temporary folder."""
    (file.parent / "tmp").mkdir()
    launcher.environ.update(s3.environment, TMPDIR=str(file.parent / "tmp"))
    run = launcher.run("pipeline", "run", file, "--output", f"s3://{s3.name}/out")
    assert run.code == 0, run.stderr
    names = [one["Key"] for one in s3.client.list_objects_v2(Bucket=s3.name)["Contents"]]
    assert len([name for name in names if name.startswith("out/copy/in/")]) == 20
    assert not [name for name in names if name.startswith("out/halves/in/")]
    records = [name for name in names if name.startswith("out/length/.splitter/records/")]
    assert records
    assert all(MARK in name for name in records)
    assert [*(file.parent / "tmp").iterdir()] == []
