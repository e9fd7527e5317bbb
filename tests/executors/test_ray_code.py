"""A recipe's code travels to nodes that do not have its files, and what cannot work there is refused."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from doors import program, read_table, write_files
from executors.ray_nodes import PATH_OF_WORKERS, RayNodes, write_nodes_with_torch
from launcher import CHECKOUT, Launcher, make_inputs, published

import splitter
from splitter.registry import RECIPES
from splitter.system.recipe_code import code_beside

pytestmark = pytest.mark.skipif(
    sys.platform != "linux"
    or shutil.which("unshare") is None
    or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs unshare (Debian: util-linux), and a container that may unshare its mounts",
)

FILES = {
    "recipe.py": """
import os
import beside
from own.package import doubled
from splitter import OutputFile, ProcessorDataset

SEEN = []

class Travelling(ProcessorDataset):
    def __init__(self, inputs=(), times: int = 2):
        super().__init__(inputs)
        self.times = times

    def process(self, input_file):
        import later, plain.module
        text = input_file.read_text()
        SEEN.append(text)
        if text == "bad":
            beside.fail(text)
        metadata = {"seen": SEEN[-1], "later": later.WORD, "plain": plain.module.WORD, "beside": beside.WORD}
        metadata["path"] = os.environ["PYTHONPATH"]
        return [OutputFile("0.txt", doubled(text) * self.times)], metadata
""",
    "beside.py": """
WORD = "beside"

def fail(text):
    raise ValueError(f"no good: {text}")
""",
    "later.py": "WORD = 'later'\n",
    "plain/module.py": "WORD = 'plain'\n",
    "own/__init__.py": "",
    "own/package.py": "from .inner import BETWEEN\n\ndef doubled(text):\n    return text + BETWEEN + text",
    "own/inner.py": "BETWEEN = '-'\n",
    "broken.py": "this is no Python\n",
    # of this name there is one in Python's own library, which torch imports
    "queue.py": "raise ImportError('the wrong one')\n",
}

SCRIPT = """
import sys
import beside
from splitter import OutputFile, ProcessorDataset

COUNTS = {"calls": 0}

class Rows(list):
    def __reduce_ex__(self, protocol):
        raise TypeError("the inputs must not travel")

class InScript(ProcessorDataset):
    def process(self, input_file):
        COUNTS["calls"] += 1
        assert COUNTS["calls"] >= 1
        return [OutputFile("0.txt", helper(input_file.read_text()))], {"word": beside.WORD}

def helper(text):
    return f"<{text}>"

rows = Rows({"input": path} for path in sys.argv[3:])
options = {"executor": "ray", "address": sys.argv[2]} if sys.argv[2] != "local" else {}
manifest = InScript(rows).run(sys.argv[1], workers=2, quiet=True, **options)
assert manifest.failed.empty, manifest.failed
print(len(manifest))

class Arrays:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return beside.WORD.encode() * index, COUNTS["calls"] * 0 + index

class Whole(ProcessorDataset):
    def process(self, input_file):
        return [OutputFile("0.txt", input_file.read_bytes())], {}

Whole(Arrays()).run(sys.argv[1] + " items", workers=2, quiet=True, **options)

if options:
    # who is connected already stays so
    import ray

    ray.init(address=sys.argv[2], logging_level="CRITICAL")
InScript(rows).run(sys.argv[1] + " again", workers=2, quiet=True, **options)
print(ray.is_initialized() if options else True)
"""


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that no node sees."""
    return tmp_path_factory.mktemp("hidden")


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory, hidden: Path) -> Iterator[RayNodes]:
    """A cluster whose nodes see an empty folder in the place of the hidden one."""
    covered = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden)]
    cluster = RayNodes(tmp_path_factory.mktemp("blind"), [2], within=covered, PYTHONPATH=PATH_OF_WORKERS)
    yield cluster
    cluster.end()


def test_a_recipe_from_a_file(launcher: Launcher, folder: Path, hidden: Path, blind: RayNodes):
    """With the modules beside it, whenever they are imported; errors have the same tracebacks as here.

    Torch is there, which imports much of Python's own library.
    """
    write_files(hidden, FILES)
    dataset = make_inputs(folder / "data", {"a.txt": "one", "b.txt": "bad", "c.txt": "two"})
    nodes = write_nodes_with_torch(folder)
    found = []
    for options in ([], ["--executor", "ray", "--address", blind.address, "--runtime-env", nodes]):
        output = folder / f"outputs {len(options)}"
        recipe = ("--recipe", f"{hidden}/recipe.py:Travelling", "--times", 3)
        run = launcher.run(
            "run", dataset, *recipe, "--output", output, "--workers", 1, *options, environ=blind.environ
        )
        assert run.code == 1, run.stderr
        assert "1 failed" in run.stderr
        found.append((published(output), read_table(output / "errors.csv")))
    assert found[0] == found[1]
    assert found[0][0]["a/0.txt"] == b"one-one" * 3
    assert 'raise ValueError(f"no good: {text}")' in found[0][1][0]["traceback"]


def test_a_class_of_a_script(folder: Path, hidden: Path, blind: RayNodes):
    """A script without a main guard, with state of its own; the list of its inputs stays where it is."""
    write_files(hidden / "scripts", {"beside.py": FILES["beside.py"], "a script.py": SCRIPT})
    make_inputs(folder / "data", {"a.txt": "one", "b.txt": "two"})
    paths = [str(folder / "data" / name) for name in ("a.txt", "b.txt")]
    for where in ("local", blind.address):
        arguments = [str(hidden / "scripts" / "a script.py"), str(folder / where), where, *paths]
        said = program(python=arguments, cwd=folder, **blind.environ)
        assert (said.code, said.out) == (0, "2\nTrue\n"), said.err
        assert published(folder / where) == published(folder / f"{where} again")
    assert published(folder / "local") == published(folder / blind.address)
    items = published(folder / "local items")
    assert items == published(folder / f"{blind.address} items")
    assert [items[f"{index:08d}/0.txt"] for index in range(3)] == [b"", b"beside", b"besidebeside"]


@pytest.mark.parametrize("name", RECIPES.own)
def test_a_shipped_recipe_of_a_checkout_stays_where_it_is(name: str):
    """Its modules alone would hide the others of splitter, which is there anyway."""
    assert code_beside(RECIPES.load(name, splitter.ProcessorDataset)) == {}


def test_a_recipe_that_cannot_travel(launcher: Launcher, folder: Path, blind: RayNodes):
    """What holds a lock, or a connection, is refused by name."""
    text = "import threading\nfrom splitter import ProcessorDataset\n\nclass Locked(ProcessorDataset):\n"
    text += "    def __init__(self, inputs=()):\n        super().__init__(inputs)\n"
    text += (
        "        self.lock = threading.Lock()\n    def process(self, input_file):\n        return [], {}\n"
    )
    write_files(folder, {"locked.py": text})
    said = refusal(launcher, folder, blind, folder / "outputs", recipe="locked.py:Locked")
    assert said.startswith("splitter: Locked: cannot be sent to the workers: cannot pickle '_thread.lock'")


def test_a_node_that_does_not_see_the_output_folder(
    launcher: Launcher, folder: Path, hidden: Path, blind: RayNodes
):
    output = hidden / "outputs"
    said = refusal(launcher, folder, blind, output)
    node = blind.address.partition(":")[0]
    assert said == (
        f"splitter: node {node}: cannot access {output}; use an --output on a shared file system "
        "that every node can access"
    )
    assert not output.exists()


def test_a_node_with_another_version(launcher: Launcher, folder: Path, blind: RayNodes, tmp_path: Path):
    """It is named, with what it has and what it needs."""
    shutil.copytree(CHECKOUT / "splitter", tmp_path / "old" / "splitter")
    file = tmp_path / "old" / "splitter" / "__init__.py"
    file.write_text(file.read_text() + '\n__version__ = "0.0.1"\n')
    node = blind.add(num_cpus=1, environ={"PYTHONPATH": str(tmp_path / "old")}, folder=tmp_path)
    try:
        said = refusal(launcher, folder, blind, folder / "outputs")
    finally:
        blind.remove(node)
    where = blind.address.partition(":")[0]
    has = f"has splitter 0.0.1, but the run has {splitter.__version__}; install the same version there"
    assert said == f"splitter: node {where}: {has}"


def refusal(launcher: Launcher, folder: Path, cluster: RayNodes, output: Path, recipe: str = "words") -> str:
    dataset = make_inputs(folder / "data", {"a.txt": "one"})
    options = ("--recipe", recipe, "--executor", "ray", "--address", cluster.address, "--output", output)
    run = launcher.run("run", dataset, *options, environ=cluster.environ)
    assert run.code == 2, run.stderr
    [line] = run.stderr.splitlines()
    return line
