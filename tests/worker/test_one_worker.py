"""Inputs that share a worker: each comes out as if it had been alone, whatever came before it.

A worker lives long, and much in it outlives an input or a batch: what the sink has staged, scratch, fetched
files, the last words of a runner, counters. So inputs of all fates go through one worker in any order, and
rows, outputs, errors and tracebacks are those of runs that have a single input each.
"""

import io
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from doors import SHARED, read_table, tree, write_files, write_list
from fates import FAILING, FATES, TOGETHER
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from launcher import Launcher, LauncherProcess, check_manifest
from nightly import NIGHTLY
from web_server import Answer, Web, web_server

RECIPES = SHARED / "fates.py"
TIMEOUT = 4
OWN = ("manifest.csv", "errors.csv")
# what stands at a URL: there, not there, and there when it is asked for again
REMOTE = ("fetched", "missing", "half fetched")
# what a row says that depends on which inputs share a shard
OF_SHARDS = ("output", "shard_offset")
_THREAD = re.compile(r"0x[0-9a-f]+")
_ALONE = "this one is from trying the input alone:\n\n"
Fate = str


class Worlds:
    """A server for inputs at URLs, and runs of one worker; those of a single input are done once."""

    def __init__(self, process: LauncherProcess, home: Path, web: Web) -> None:
        self._process, self._home, self._web = process, home, web
        self._alone: dict[tuple[str, str], dict[str, list[dict[str, str]]]] = {}
        self._halved: set[str] = set()
        web.fault = self._halve

    def _halve(self, answer: Answer) -> bool:
        """The first answer breaks off in the middle."""
        path = answer.path
        if answer.command != "GET" or "half" not in path or path in self._halved:
            return False
        self._halved.add(path)
        content = self._web.files[path]
        answer.begin(content)
        answer.wfile.write(content[: len(content) // 2])
        answer.close_connection = True
        return True

    def listed(self, fate: Fate, number: int) -> str:
        """The input of a fate as it stands in the list; made if it is not there."""
        name = f"{fate} {number}.txt".replace(",", "").replace(" ", "-")
        text = f"{fate} {number}"
        if fate not in REMOTE:
            write_files(self._home / "inputs", {name: text})
            return name
        if fate != "missing":
            self._web.files[f"/{name}"] = text.encode()
        return self._web.url(name)

    def run(
        self, listed: Sequence[str], recipe: str, sink: str, batch_size: int
    ) -> dict[str, list[dict[str, str]]]:
        """What a run with one worker says of each input; all that it leaves is checked on the way."""
        folder = Path(tempfile.mkdtemp(dir=self._home)) / "here"
        folder.mkdir()
        temporary = folder / "temporary"
        temporary.mkdir()
        self._halved.clear()
        dataset = write_list(folder / "list.csv", [["input"], *([one] for one in listed)])
        launcher = Launcher(self._process, folder)
        options = ["--recipe", f"{RECIPES}:{recipe}", "--root", self._home / "inputs", "--sink", sink]
        options += ["--workers", 1, "--timeout", TIMEOUT, "--max-failures", "100%"]
        options += ["--batch-size", batch_size] if sink == "files" else []
        output = folder / "outputs"
        environ = {"TMPDIR": str(temporary)}
        ended = launcher.run("run", dataset, *options, "--output", output, environ=environ)
        try:
            failed = {row["input"] for row in read_table(output / "errors.csv")}
            assert ended.code == bool(failed), ended.stderr
            assert list(temporary.iterdir()) == []
            own = output / ".splitter"
            assert [str(path) for path in (own / "staging").rglob("*")] == []
            assert [path.name for path in (own / "records").glob("*.begun")] == []
            rows = check_manifest(output) if sink == "files" else check_samples(output, sink)
            outputs = {row["output"] for row in rows if row["output"]}
            assert len(outputs) == sum(bool(row["output"]) for row in rows)
            if sink == "files":
                assert set(tree(output)) - {*OWN} == outputs
            found: dict[str, list[dict[str, str]]] = {one: [] for one in listed}
            for row in [*rows, *read_table(output / "errors.csv")]:
                found[row["input"]].append(comparable(row, sink))
            return found
        finally:
            launcher.end()
            shutil.rmtree(folder.parent)

    def alone(self, listed: str, recipe: str, sink: str) -> list[dict[str, str]]:
        """What a run says that has only this input."""
        if (listed, recipe + sink) not in self._alone:
            self._alone[listed, recipe + sink] = self.run([listed], recipe, sink, 1)
        return self._alone[listed, recipe + sink][listed]

    def check(self, fates: Sequence[Fate], recipe: str, sink: str, batch_size: int) -> None:
        """Together in one worker as each alone."""
        listed = [self.listed(fate, fates[:place].count(fate)) for place, fate in enumerate(fates)]
        found = self.run(listed, recipe, sink, batch_size)
        for fate, one in zip(fates, listed, strict=True):
            assert found[one] == self.alone(one, recipe, sink), fate
            assert ("error" in found[one][0]) == (fate in FAILING)


def comparable(row: dict[str, str], sink: str) -> dict[str, str]:
    """A row without what is empty, and what may differ between two runs."""
    kept = {name: text for name, text in row.items() if text and (sink == "files" or name not in OF_SHARDS)}
    if "traceback" in kept:
        # of a batch done together, its own error comes first
        kept["traceback"] = _THREAD.sub("0x", kept["traceback"].rpartition(_ALONE)[2])
    return kept


def check_samples(output: Path, sink: str) -> list[dict[str, str]]:
    """Every sample of the shards has a row and every row its sample; returns the rows."""
    samples: dict[str, int] = {}
    for name, shard in tree(output).items():
        if name in OWN:
            continue
        if sink == "parquet":
            rows = pq.read_table(io.BytesIO(shard)).to_pylist()
            samples.update({f"{name}/{row['file']['path']}": len(row["file"]["bytes"]) for row in rows})
            continue
        with tarfile.open(fileobj=io.BytesIO(shard)) as tar:
            sizes = {member.name: member.size for member in tar if not member.name.endswith(".json")}
            samples.update({f"{name}/{member}": size for member, size in sizes.items()})
    rows = read_table(output / "manifest.csv")
    assert samples == {row["output"]: int(row["size"]) for row in rows if row["output"]}
    return rows


@pytest.fixture(scope="module")
def worlds(launcher_process: LauncherProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    home = tmp_path_factory.mktemp("it's naïve")
    (home / "inputs").mkdir()
    with web_server() as web:
        yield Worlds(launcher_process, home, web)


# each a failure, and then another, or none, of what might still be there from the first
SEQUENCES = {
    "last words": ("dies loudly", "dies silently", "good", "dies loudly", "dies silently", "raises"),
    "last words of one that hangs": ("hangs", "dies silently", "good"),
    "outputs": (
        "two, then raises",
        "good",
        "half a content",
        "one, then skips",
        "good",
        "garbage",
        "nothing",
    ),
    "outputs of the dead": ("dies silently", "good", "dies loudly", "nothing", "one, then skips", "good"),
    "scratch": ("fills scratch", "dies silently", "fills scratch", "raises", "fills scratch"),
    "fetched": ("half fetched", "missing", "fetched", "dies silently", "half fetched", "missing", "fetched"),
    "the process": ("changes the process", "changes the process", "good", "fills scratch"),
    "errors": ("raises", "raises otherwise", "skips", "raises", "good", "raises otherwise"),
}
TOGETHERS = {
    "a batch that stops within an input": ("good", "stops together", "nothing", "good", "skips"),
    "a batch that raises, and one that does not": ("good", "raises together", "good", "good", "good", "good"),
    "a batch that dies, and one that raises": ("good", "dies together", "good", "raises", "good", "good"),
    "scratch of a batch": ("fills scratch", "good", "good", "fills scratch"),
    "batches that fail one after the other": ("two, then raises", "good", "stops together", "stops together"),
}


@pytest.mark.parametrize("fates", SEQUENCES.values(), ids=SEQUENCES)
def test_an_input_after_another_is_as_if_it_were_alone(worlds: Worlds, fates: tuple[Fate, ...]):
    """A failure, and then success or another failure, in the same process."""
    worlds.check(fates, "Fated", "files", 3)


@pytest.mark.parametrize("name", ["outputs", "outputs of the dead"])
def test_an_input_after_another_in_a_shard_is_as_if_it_were_alone(worlds: Worlds, name: str):
    worlds.check(SEQUENCES[name], "Fated", "webdataset", 1)


@pytest.mark.parametrize("sink", ["files", "webdataset"])
@pytest.mark.parametrize("fates", TOGETHERS.values(), ids=TOGETHERS)
def test_a_batch_that_goes_wrong_leaves_nothing_to_the_next(
    worlds: Worlds, fates: tuple[Fate, ...], sink: str
):
    """What `process_batch` had stored of an input is of no batch, and of no other input."""
    worlds.check(fates, "FatedTogether", sink, 3)


# one that hangs takes seconds
fates = st.sampled_from([*(set(FATES) - {"hangs"}), *REMOTE, *TOGETHER])
SETTINGS = settings(phases=(Phase.generate, Phase.shrink))


@settings(SETTINGS, max_examples=300 if NIGHTLY else 5)
@given(
    st.lists(fates, min_size=4, max_size=14),
    st.sampled_from(["Fated", "FatedTogether"]),
    st.sampled_from([1, 3, 20]),
)
def test_any_inputs_of_one_worker_are_as_if_each_were_alone(worlds: Worlds, some, recipe, batch_size):
    """In any order, in batches of any size, one by one or together."""
    worlds.check(some, recipe, "files", batch_size)


@settings(SETTINGS, max_examples=100 if NIGHTLY else 2)
@given(
    st.lists(fates, min_size=4, max_size=14),
    st.sampled_from(["Fated", "FatedTogether"]),
    st.sampled_from(["webdataset", "parquet"]),
)
def test_and_so_they_are_in_shards(worlds: Worlds, some, recipe, sink):
    worlds.check(some, recipe, sink, 1)
