"""Shards of a pipeline: made of ranges of the first stage's inputs, each as soon as its range is complete."""

import contextlib
import time
from pathlib import Path

import numpy as np
import pytest
from doors import write_files
from hypothesis import given
from hypothesis import strategies as st

import splitter
from splitter import InputFile, OutputFile, Pipeline, ProcessorDataset, Skip
from splitter.inputs.survey import Survey
from splitter.ledger import shard_groups, shard_ranges
from splitter.ledger.shard_groups import Groups
from splitter.ledger.shard_ranges import Descent, deal_any, deal_ranges
from splitter.recipes.copy import Copy
from splitter.storage.opening import storage_of
from splitter.testing.published import read_table

INPUTS, PARTS, IN_RANGE = 12, 4, 2


class Parts(ProcessorDataset):
    """Some parts of a text; the last of all texts has metadata that no other has, and may be waited with."""

    watched: Path | None = None
    seconds_to_wait = 20.0

    def process(self, input_file: InputFile):
        text = input_file.read_text()
        if "skip" in text:
            raise Skip("as it says")
        metadata = {"count": len(text)}
        if "last" in text:
            metadata = {"late": "yes", **metadata}
            self._wait()
        return [OutputFile(f"{at}.txt", f"{text} {at}") for at in range(PARTS)], metadata

    def _wait(self) -> None:
        """Note which shard another stage has made already, whose files are gone."""
        end = time.monotonic() + self.seconds_to_wait
        while self.watched and time.monotonic() < end:
            shards = sorted(path.name for path in self.watched.glob("train/shards/*.tar"))
            # a folder may go while it is listed
            with contextlib.suppress(FileNotFoundError):
                if shards and (self.watched / "pick").is_dir() and not _files_of_first_range(self.watched):
                    (self.watched / "seen.txt").write_text(shards[0])
                    return
            time.sleep(0.02)


def _files_of_first_range(output: Path) -> list[Path]:
    return [path for number in range(IN_RANGE) for path in output.glob(f"pick/{number:02}/**/*.txt")]


class Judge(ProcessorDataset):
    """Which part of a text this is."""

    def process(self, input_file: InputFile):
        return [], {"part": int(input_file.read_text()[-1])}


def chain(folder: Path, output: Path) -> Pipeline:
    """Four stages: cut -> judge, of which pick takes most -> train, in shards."""
    pipeline = Pipeline(output)
    cut = pipeline.stage("cut", Parts(str(folder / "in")), workers=0, batch_size=1)
    judged = pipeline.columns("judge", Judge(cut), workers=0)
    picked = pipeline.stage("pick", Copy(judged.where("part != 1")), workers=0, until_used=True)
    pipeline.stage("train", Copy(picked), sink="webdataset", workers=0)
    return pipeline


def shards(output: Path) -> dict[str, bytes]:
    """The content of each shard."""
    return {path.name: path.read_bytes() for path in (output / "train" / "shards").iterdir()}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few inputs make several ranges."""
    monkeypatch.setattr(shard_groups, "MOST_SMALL", IN_RANGE)
    monkeypatch.setattr(shard_ranges, "FEWEST_RANGES", 2)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_shard_is_there_and_its_files_are_gone_while_the_first_stage_is_at_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """And in the end shards are those of stages run one by one, with a column that came last of all."""
    texts = {f"in/{number:02}.txt": f"text {number}" for number in range(INPUTS)}
    texts |= {"in/03.txt": "skip", f"in/{INPUTS - 1:02}.txt": "last of all"}
    write_files(folder, texts)
    output, other = folder / "out", folder / "one by one"
    with monkeypatch.context() as patch:
        patch.setattr(Parts, "watched", output)
        chain(folder, output).run(quiet=True)
    assert (output / "seen.txt").read_text() == "shard-000000.tar"
    chain(folder, other).run(until="pick", quiet=True)
    chain(folder, other).run(only="train", quiet=True)
    found = shards(output)
    assert [*sorted(found)] == [f"shard-{number:06}.tar" for number in range(INPUTS // IN_RANGE)]
    assert found == shards(other)
    for table in (output, other):
        assert splitter.verify(table / "train", workers=1).findings == []
    rows = [read_table(one / "train" / "manifest.csv") for one in (output, other)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == (INPUTS - 1) * (PARTS - 1)
    assert {row["from_late"] for row in rows[0]} == {"", "yes"}
    keys = [row["output"].rpartition("/")[2] for row in rows[0]]
    assert keys == sorted({*keys})
    # what is there stays when the first list grows
    write_files(folder, {"in/more.txt": "more"})
    chain(folder, output).run(quiet=True)
    grown = shards(output)
    assert {name: grown[name] for name in found} == found
    assert len(grown) == len(found) + 1


@pytest.mark.usefixtures("small")
def test_a_field_or_a_condition_of_a_column_that_comes_late(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Its stage waits for it, where inputs without it would fail; and tables are not dealt in ranges."""
    monkeypatch.setattr(Parts, "watched", folder)
    monkeypatch.setattr(Parts, "seconds_to_wait", 1.0)
    write_files(
        folder, {f"in/{number:02}.txt": f"text {number}" for number in range(8)} | {"in/z.txt": "last"}
    )
    pipeline = Pipeline(folder / "out")
    cut = pipeline.stage("cut", Parts(str(folder / "in")), workers=0, batch_size=1)
    more = {"field": ["late=from_late"], "max_failures": 1}
    pipeline.stage("train", Copy(cut), sink="webdataset", workers=0, **more)
    pipeline.stage("late", Copy(cut.where("from_late == 'yes'")), workers=0)
    pipeline.stage("table", Copy(cut), sink="parquet", workers=0)
    manifests = pipeline.run(quiet=True)
    assert (len(manifests["train"]), len(manifests["late"])) == (9 * PARTS, PARTS)
    dealt = [Groups.stored(storage_of(f"{pipeline.output}/{name}")) for name in ("train", "table")]
    assert [one and one.first is None for one in dealt] == [False, True]
    assert not (folder / "out" / "train" / "errors.csv").exists()


def test_a_list_whose_bytes_nobody_knows_has_no_ranges():
    """As where an earlier version has kept it: by their number alone, a group could be huge."""
    assert shard_ranges.inputs_in_range(1_000_000, 0, 1 << 30) is None
    assert shard_ranges.inputs_in_range(1_000_000, 1 << 40, 1 << 30) == 976


@given(st.data())
def test_groups_are_the_same_in_any_order(data: st.DataObject):
    """Whichever ranges come first, and however many at once, each input gets the same group and number."""
    fan_out = data.draw(st.lists(st.integers(0, 4), min_size=4, max_size=20))
    ancestors = np.repeat(np.arange(len(fan_out)), fan_out)
    first, keys = np.arange(len(fan_out), dtype="u8") + 1000, np.arange(len(ancestors), dtype="u8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_groups, "MOST_SMALL", data.draw(st.integers(1, 3)))
        patch.setattr(shard_ranges, "FEWEST_RANGES", 2)
        whole = deal_ranges(None, keys, lambda: Descent(first, 1, keys, ancestors), 100)
        assert whole is not None
        ranges = data.draw(st.permutations(range(len(fan_out) // whole.size + 1)))
        waves = data.draw(st.lists(st.integers(0, len(ranges)), max_size=4))
        dealt: Groups | None = None
        for some in np.split(np.array(ranges), sorted(waves)):
            now = np.concatenate([[], *(np.flatnonzero(ancestors // whole.size == one) for one in some)])
            chosen = now.astype("i8")
            descent = Descent(first, 1, keys[chosen], ancestors[chosen])
            dealt = deal_ranges(dealt, keys[chosen], lambda descent=descent: descent, 100)
    assert dealt is not None
    assert (dealt.keys.tolist(), dealt.numbers.tolist()) == (whole.keys.tolist(), whole.numbers.tolist())
    # an oracle: the group follows from the ancestor alone, the number from the order in it
    found = dealt.groups_of(dealt.ranks(keys))
    assert found.tolist() == (ancestors // whole.size).tolist()
    assert len({*dealt.numbers.tolist()}) == len(keys)
    for group in {*found.tolist()}:
        assert dealt.keys[dealt.members(group)].tolist() == keys[found == group].tolist()


def test_groups_stay_as_they_were_stored(tmp_path: Path):
    """What is new joins its range, what is gone keeps its group, and what was dealt before stays so."""
    storage = storage_of(str(tmp_path))
    storage.prepare()
    first, keys = np.array([7, 8, 9, 10], "u8"), np.array([70, 80, 90], "u8")
    Groups(2, keys, np.array([0, 1, shard_groups.NUMBERS_IN_RANGE]), first).write(storage)
    before = Groups.stored(storage)
    assert before is not None
    # 8 is gone with 80; 7 has one more; 11 is new, and takes the number after all others
    now = Descent(
        np.array([11, 7, 9, 10], "u8"), 0, np.array([110, 70, 71, 90], "u8"), np.array([0, 1, 1, 2])
    )
    dealt = deal_ranges(before, np.array([110, 70, 71, 90, 5], "u8"), lambda: now, 100)
    assert dealt is not None
    named = dict(zip(dealt.keys.tolist(), dealt.numbers.tolist(), strict=True))
    step = shard_groups.NUMBERS_IN_RANGE
    # 5 comes of nothing that is known
    assert named == {70: 0, 71: 1, 80: 2, 90: step, 110: 2 * step, 5: 2 * step + 1}
    # by a run of its own, new inputs join what is there, as if they were of the first stage
    dealt.write(storage)
    found = Survey(np.append(dealt.keys, [6, 4]).astype("u8"), *[np.zeros(8, "i8")] * 6)
    alone = deal_any(storage, found, None, 100, seed=None, afresh=False, keep=False)
    assert alone.keys.tolist() == [*dealt.keys.tolist(), 6, 4]
    assert alone.numbers.tolist() == [*dealt.numbers.tolist(), 2 * step + 2, 3 * step]
    # what an earlier version has dealt
    Groups(2, keys, np.arange(3)).write(storage)
    found = Survey(np.append(keys, 5).astype("u8"), *[np.zeros(4, "i8")] * 6)
    older = deal_any(storage, found, lambda: now, 100, seed=None, afresh=False, keep=False)
    assert (older.first, older.size, older.keys.tolist()) == (None, 2, found.keys.tolist())
