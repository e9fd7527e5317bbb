"""Train, validation and test: no group on two sides, and no group that moves."""

import itertools
import json
import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random

import pandas as pd
import pytest
from doors import Said, here, read_table, tree, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st

import splitter
from splitter import InputFile, ProcessorDataset
from splitter.errors import Refused
from splitter.ledger.splits import SplitRule

SPEAKERS = {f"{number:02d}.txt": f"speaker {number % 12}" for number in range(40)}

EVEN = ("--train", "0.4", "--validation", "0.3", "--test", "0.3")


@pytest.fixture
def listed(folder: Path) -> Path:
    """Forty words of a dozen speakers; of some nobody is known."""
    write_files(folder / "inputs", {name: f"word{name}" for name in SPEAKERS})
    rows = [
        [name, speaker, "dog" if number % 3 else "cat"]
        for number, (name, speaker) in enumerate(SPEAKERS.items())
    ]
    return write_list(folder / "list.csv", [["input", "speaker", "label"], *rows, ["lost.txt", "", "dog"]])


def run(capfd, listed: Path, *more: str) -> Said:
    base = ["run", listed, "--recipe", "words", "--root", "inputs", "--workers", "0", "--quiet"]
    return here(capfd, *base, "--num-chars", "4", "--output", listed.parent / "outputs", *more)


@pytest.fixture
def outputs(listed: Path, capfd) -> Path:
    assert run(capfd, listed).code == 1
    return listed.parent / "outputs"


def sides(rows: list[dict[str, str]], by: str) -> dict[str, set[str]]:
    """The splits that each group has rows in."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row[by], set()).add(row["split"])
    return found


# -- the rule ------------------------------------------------------------------------------------------------

FRACTIONS = st.lists(st.integers(0, 20), min_size=1, max_size=4).filter(sum)


@given(
    st.sets(st.text(max_size=8), max_size=60),
    st.sets(st.text(max_size=8), max_size=60),
    FRACTIONS,
    st.integers(0, 9),
)
def test_adding_groups_moves_none_of_those_that_were_there(old, new, parts, seed):
    """Whatever is added, and in what order."""
    fractions = {f"s{number}": part / sum(parts) for number, part in enumerate(parts)}
    before = pd.DataFrame({"input": sorted(old)})
    after = pd.DataFrame({"input": [*sorted(new, reverse=True), *sorted(old, reverse=True)]})
    first = splitter.split(before, fractions, seed=seed)
    second = splitter.split(after, fractions, seed=seed, earlier=first)
    known = dict(zip(second["input"], second["split"], strict=True))
    assert all(known[group] == side for group, side in zip(first["input"], first["split"], strict=True))
    assert set(known.values()) <= {name for name, part in fractions.items() if part}


@given(st.lists(st.tuples(st.text(max_size=4), st.sampled_from("xyz")), max_size=40), st.randoms())
def test_the_order_of_rows_does_not_matter(rows, random):
    """Two computers that list files in different order make the same split."""
    shuffled = random.sample(rows, len(rows))
    options = {"by": "speaker", "balance": "label", "seed": 3}
    found = [
        splitter.split(pd.DataFrame(some, columns=["speaker", "label"]), **options)
        for some in (rows, shuffled)
    ]
    first, second = ({*zip(table["speaker"], table["split"], strict=True)} for table in found)
    assert first == second


def table_of(outputs: dict[str, list[str]]) -> pd.DataFrame:
    """A manifest with a row for each label of each group."""
    rows = [(group, label) for group, labels in outputs.items() for label in labels]
    return pd.DataFrame(rows, columns=["input", "label"])


def badness(outputs: dict[str, list[str]], split_of: dict[str, str], fractions, *, labels: bool) -> tuple:
    """Empty splits, then what is missing or too much: in all splits, and in the labels of each."""

    def off(wanted: list[str]) -> Fraction:
        many = Counter(split_of[group] for group in wanted)
        return sum(abs(many[name] - share * len(wanted)) for name, share in fractions.items())

    all_of = [group for group, own in outputs.items() for _ in own]
    found = off(all_of) / len(all_of)
    for label in {label for own in outputs.values() for label in own} if labels else ():
        found += off([group for group, own in outputs.items() for one in own if one == label]) / len(all_of)
    return len({*fractions} - {split_of[group] for group in all_of}), found


GROUPS = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.sampled_from("xy"), min_size=1, max_size=9), min_size=1
)


@given(GROUPS, st.lists(st.integers(1, 9), min_size=1, max_size=3), st.booleans())
@settings(max_examples=30)
def test_no_other_assignment_comes_nearer(outputs, parts, balanced):
    """All assignments are tried here, with exact numbers."""
    fractions = {f"s{number}": Fraction(part, sum(parts)) for number, part in enumerate(parts)}
    asked = {name: float(share) for name, share in fractions.items()}
    table = splitter.split(table_of(outputs), asked, balance="label" if balanced else None)
    split_of = dict(zip(table["input"], table["split"], strict=True))
    empty, off = badness(outputs, split_of, fractions, labels=balanced)
    best = min(
        badness(outputs, dict(zip(outputs, one, strict=True)), fractions, labels=balanced)
        for one in itertools.product(fractions, repeat=len(outputs))
    )
    assert empty == best[0]
    # the search counts in 1/100,000
    assert off <= best[1] + Fraction(1, 1000)


def test_a_hundred_groups_of_very_different_sizes_come_within_a_thousandth():
    """Too many for all to be tried."""
    random = Random(5)
    outputs = {f"g{at}": ["x"] * int(random.lognormvariate(3, 1) + 1) for at in range(100)}
    rows = splitter.split(table_of(outputs))
    for name, share in {"train": 0.8, "validation": 0.1, "test": 0.1}.items():
        assert abs((rows["split"] == name).mean() - share) < 0.001


def test_few_groups_fill_all_splits():
    """One speaker in five for test, and not 100/0/0."""
    five = table_of({name: ["x"] * 10 for name in "abcde"})
    assert Counter(splitter.split(five)["split"]) == {"train": 30, "validation": 10, "test": 10}
    assert {*splitter.split(five[five["input"] == "a"])["split"]} == {"train"}
    # another seed takes another speaker
    assert len({tuple(splitter.split(five, seed=seed)["split"]) for seed in range(5)}) > 1


def test_outputs_count_and_not_rows():
    """A skipped input has a row, and nothing to share."""
    rows = [(group, f"{group}{at}") for group in "ab" for at in range(5)] + [("c", "")] * 10
    found = splitter.split(pd.DataFrame(rows, columns=["input", "output"]), a=0.5, b=0.5)
    assert Counter(found["split"][:10]) == {"a": 5, "b": 5}


def test_the_splits_have_labels_in_the_same_proportions():
    """Shares alone could put all dogs into train."""
    outputs = {f"g{at}": ["dog" if at < 10 else "cat"] * 4 for at in range(20)}
    rows = splitter.split(table_of(outputs), balance="label")
    assert Counter(zip(rows["split"], rows["label"], strict=True)) == {
        ("train", "dog"): 32, ("validation", "dog"): 4, ("test", "dog"): 4,
        ("train", "cat"): 32, ("validation", "cat"): 4, ("test", "cat"): 4,
    }  # fmt: skip
    # of several labels, each counts
    several = rows.assign(labels=[f"{label}|pet" for label in rows["label"]]).drop(columns="split")
    assert [*splitter.split(several, balance="labels")["split"]] == [*rows["split"]]


@pytest.mark.slow
def test_of_many_groups_a_hash_decides():
    """It needs no memory; those that were assigned while there were few stay where they were."""
    groups = [f"{number}.wav" for number in range(1010)]
    few = splitter.split(pd.DataFrame({"input": groups[:990]}))
    many = splitter.split(pd.DataFrame({"input": groups}), earlier=few)
    assert [*many["split"][:990]] == [*few["split"]]
    by_hash = SplitRule("input", tuple({"train": 0.8, "validation": 0.1, "test": 0.1}.items()))
    assert [*many["split"][990:]] == [by_hash.of(group) for group in groups[990:]]
    alone = splitter.split(pd.DataFrame({"input": groups}))
    assert [*alone["split"]] == [by_hash.of(group) for group in groups]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3)), max_size=40), st.integers(0, 99))
def test_no_group_stands_on_two_sides(pieces, seed):
    """However many rows it has, and wherever they are."""
    manifest = pd.DataFrame({"input": [name for name, _ in pieces], "part": [part for _, part in pieces]})
    for by in ("input", "part"):
        rows = splitter.split(manifest, train=0.5, test=0.5, by=by, seed=seed)
        assert {len(splits) for splits in sides(rows.to_dict("records"), by).values()} <= {1}


def test_fractions_are_met():
    """As near as chance comes, with any names."""
    manifest = pd.DataFrame({"input": [f"{number}.wav" for number in range(5000)]})
    counts = Counter(splitter.split(manifest, {"train": 0.7, "dev": 0.2, "eval": 0.1})["split"])
    for name, share in {"train": 0.7, "dev": 0.2, "eval": 0.1}.items():
        assert abs(counts[name] / 5000 - share) < 0.015
    usual = Counter(splitter.split(manifest)["split"])
    assert {name: round(count / 5000, 1) for name, count in usual.items()} == {
        "train": 0.8, "validation": 0.1, "test": 0.1,
    }  # fmt: skip
    assert not splitter.split(manifest, seed=1)["split"].equals(splitter.split(manifest)["split"])


def test_a_larger_test_set_takes_from_its_neighbour_only():
    """What was in test stays there when its share grows."""
    groups = [f"{number}.wav" for number in range(3000)]
    small = SplitRule("input", (("train", 0.8), ("validation", 0.1), ("test", 0.1)))
    large = SplitRule("input", (("train", 0.75), ("validation", 0.1), ("test", 0.15)))
    moved = Counter(
        (small.of(group), large.of(group)) for group in groups if small.of(group) != large.of(group)
    )
    assert set(moved) == {("train", "validation"), ("validation", "test")}


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ({"train": 0.8, "test": 0.1}, "train 0.8, test 0.1: must sum to 1, not 0.9"),
        ({"train": 1.2, "test": -0.2}, "train 1.2: write a fraction from 0 to 1"),
        ({"train": "0.8", "test": 0.2}, "train '0.8': write a fraction"),
        ({"train": float("nan")}, "train nan: write a fraction"),
        ({"train": True}, "train True: write a fraction"),
    ],
)
def test_fractions_that_are_no_division_are_refused(fractions, message):
    with pytest.raises(Refused) as caught:
        splitter.split(pd.DataFrame({"input": ["a"]}), fractions)
    assert message in str(caught.value)


def test_what_cannot_be_split_is_refused():
    manifest = pd.DataFrame({"input": ["a"], "split": ["mine"]})
    for given_, options, message in [
        (manifest, {}, "has a column 'split' already"),
        (manifest[["input"]], {"by": "speaker"}, "the manifest has no such column; it has input"),
        (pd.DataFrame({"path": ["a"]}), {}, "name the column of the groups"),
        ("outputs", {}, "is not a manifest; pass the result of read_manifest"),
        (manifest[["input"]], {"seed": -1}, "seed -1: must be an integer"),
        (manifest[["input"]], {"seed": float("inf")}, "seed inf: must be an integer"),
        (manifest[["input"]], {"seed": float("nan")}, "seed nan: must be an integer"),
        (manifest[["input"]], {"balance": "label"}, "balance 'label': the manifest has no such column"),
        (manifest[["input"]], {"earlier": manifest[["input"]]}, "earlier: has no column 'split'"),
        (manifest[["input"]], {"earlier": manifest}, "earlier: has the split 'mine', but the fractions are"),
        (
            manifest[["input"]],
            {"earlier": pd.DataFrame({"input": ["a", "a"], "split": ["train", "test"]})},
            "earlier: has 'a' both in train and in test",
        ),
    ]:
        with pytest.raises(Refused) as caught:
            splitter.split(given_, **options)
        assert message in str(caught.value)
    with pytest.raises(Refused, match="not both"):
        splitter.split(manifest[["input"]], {"a": 1.0}, b=1.0)


def test_thirds_are_a_whole():
    """Fractions that a computer cannot write exactly."""
    third = 1 / 3
    assert len(splitter.split(pd.DataFrame({"input": ["a"]}), a=third, b=third, c=third)) == 1
    assert SplitRule("input", (("a", 0.1),) * 9 + (("b", 0.1),)).of("x") in "ab"


# -- the column in an output folder --------------------------------------------------------------------------


def test_the_column_is_that_of_python(outputs: Path, capfd):
    """`splitter split` and `splitter.split` say the same of each row, and nothing else has changed."""
    before, parts = splitter.read_manifest(outputs), {"train": 0.4, "validation": 0.3, "test": 0.3}
    assert here(capfd, "split", outputs, "--by", "speaker", *EVEN).code == 0
    after = splitter.read_manifest(outputs)
    assert after["split"].tolist() == splitter.split(before, by="speaker", **parts)["split"].tolist()
    assert after.drop(columns="split").equals(before)
    assert len({*after["split"]}) == 3
    assert splitter.read_output(splitter.split(before).iloc[3]) == splitter.read_output(before.iloc[3])


class Numbers(ProcessorDataset):
    """Metadata of whole numbers and floats, in columns that pandas has as floats."""

    def process(self, input_file: InputFile):
        n = int(input_file.input[:2])
        years = {"year": 2000 + n if n % 3 else 2000.5 + n, "floats": n / 2, "some": None if n % 2 else n}
        return [], {**years, "both": n if n % 2 else float(n), "large": 2**60 + n if n % 2 else 0.5}


@pytest.mark.slow
def test_whole_numbers_among_floats_are_in_the_same_split_in_python(listed: Path, capfd):
    """As they stand in manifest.csv, 2001 and not 2001.0; where a DataFrame cannot tell, it says so."""
    outputs = listed.parent / "numbers"
    before = Numbers(str(listed)).run(
        outputs, workers=0, quiet=True, root="inputs", where="input != 'lost.txt'"
    )
    assert before["year"].dtype == before["both"].dtype == float
    for by in ("year", "floats", "some"):
        assert here(capfd, "split", outputs, "--by", by, *EVEN).code == 0
        after = read_table(outputs / "manifest.csv")
        for manifest, earlier in (
            (before, None),
            (before[before["year"] > 2010], splitter.read_manifest(outputs)),
        ):
            found = splitter.split(manifest, train=0.4, validation=0.3, test=0.3, by=by, earlier=earlier)
            sides_of = {row["input"]: row["split"] for row in after}
            assert [*found["split"]] == [sides_of[name] for name in found["input"]]
    for by in ("both", "large"):
        with pytest.raises(Refused, match=f"by '{by}': manifest.csv has both 2001 and 2001.0"):
            splitter.split(before, by=by)
        assert here(capfd, "split", outputs, "--by", by, *EVEN).code == 0
    before.to_parquet(outputs.with_name("copy.parquet"))


def test_no_speaker_and_no_recording_stands_on_two_sides(outputs: Path, capfd):
    for by in ("speaker", "input"):
        assert here(capfd, "split", outputs, "--by", by, *EVEN).code == 0
        found = sides(read_table(outputs / "manifest.csv"), by)
        assert {len(splits) for splits in found.values()} == {1}
        assert len({split for splits in found.values() for split in splits}) == 3


def test_later_runs_keep_the_column(outputs: Path, listed: Path, capfd):
    """With more inputs, after --retry-failed, and in `splitter manifest`: no group has moved."""
    here(capfd, "split", outputs, "--by", "speaker", "--train", "0.6", "--test", "0.4", "--seed", "5")
    first = sides(read_table(outputs / "manifest.csv"), "speaker")
    write_files(listed.parent / "inputs", {"new.txt": "something", "newer.txt": "else", "lost.txt": "found"})
    rows = [[*row.values()] for row in read_table(listed)]
    write_list(
        listed,
        [["input", "speaker", "label"], ["new.txt", "speaker 3", "dog"], *rows, ["newer.txt", "me", "cat"]],
    )
    assert run(capfd, listed, "--retry-failed").code == 0
    table = read_table(outputs / "manifest.csv")
    again = sides(table, "speaker")
    assert {speaker: again[speaker] for speaker in first} == first
    assert set(again) - set(first) == {"me", ""}
    assert {row["split"] for row in table if row["input"] == "new.txt"} == first["speaker 3"]
    (outputs / "manifest.csv").unlink()
    assert here(capfd, "manifest", outputs, "--quiet").code == 0
    assert read_table(outputs / "manifest.csv") == table


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [(), ("--quiet",)], ids=["loud", "quiet"])
def test_a_column_to_go_by_that_is_gone_is_said(listed: Path, folder: Path, quiet, capfd):
    """By the run that no longer has it and by `splitter manifest`, until there is another or no split."""
    out = folder / "outputs"
    command = [
        "run",
        listed,
        "--recipe",
        "words",
        "--root",
        "inputs",
        "--workers",
        "0",
        "--output",
        out,
        *quiet,
    ]
    here(capfd, *command)
    here(capfd, "split", out, "--by", "speaker", *EVEN)
    said = here(capfd, *command)
    assert "note: " not in said.err
    line = (
        "note: the column 'split' is empty in every row: it depends on 'speaker', which the "
        f"manifest no longer has; split again by another column (as in splitter split {out} --by COLUMN), "
        "or run: "
        f"splitter split {out} --remove"
    )
    for arguments in ([*command, "--rename", "speaker=voice"], ["manifest", out, *quiet]):
        said = here(capfd, *arguments)
        assert said.lines.count(line) == 1
        assert {row["split"] for row in read_table(out / "manifest.csv")} == {""}
        assert here(capfd, "verify", out).code == 0
    here(capfd, "split", out, "--by", "voice", *EVEN)
    said = here(capfd, "manifest", out)
    assert "note: " not in said.err
    assert {row["split"] for row in read_table(out / "manifest.csv")} == {"train", "validation", "test"}


def test_the_column_is_the_same_for_a_run_that_is_split_before_or_after(outputs: Path, listed: Path, capfd):
    """The manifest is a function of the inputs and the rule, not of what was done first."""
    here(capfd, "split", outputs, "--by", "speaker")
    early = tree(outputs)
    shutil.rmtree(outputs)
    run(capfd, listed, "--workers", "2", "--batch-size", "3")
    here(capfd, "split", outputs, "--by", "speaker")
    assert tree(outputs) == early


def test_new_groups_fill_up_the_splits_and_the_old_ones_stay(outputs: Path, listed: Path, capfd):
    """Until --rebalance: with what has come meanwhile, another assignment is better."""
    here(capfd, "split", outputs, "--by", "speaker", *EVEN)
    first = sides(read_table(outputs / "manifest.csv"), "speaker")
    # a speaker who has as much as all others
    write_files(listed.parent / "inputs", {f"new{at}.txt": "something" for at in range(50)})
    rows = [[*row.values()] for row in read_table(listed)]
    new = [[f"new{at}.txt", "speaker 99", "dog"] for at in range(50)]
    write_list(listed, [["input", "speaker", "label"], *new, *rows])
    assert run(capfd, listed).code == 1
    again = sides(read_table(outputs / "manifest.csv"), "speaker")
    assert {speaker: again[speaker] for speaker in first} == first
    assert len(again["speaker 99"]) == 1
    before = tree(outputs)
    said = here(capfd, "split", outputs, "--by", "speaker", *EVEN)
    assert tree(outputs) == before
    [far] = [line for line in said.out.splitlines() if "asked for" in line]
    assert "there are only 13 speakers, and the largest has" in far
    assert far.endswith("they stay in their splits, --rebalance assigns them again")
    said = here(capfd, "split", outputs, "--by", "speaker", *EVEN, "--rebalance")
    rows = splitter.read_manifest(outputs)
    afresh = splitter.split(rows.drop(columns="split"), train=0.4, validation=0.3, test=0.3, by="speaker")
    assert [*rows["split"]] == [*afresh["split"]]
    assert sides(read_table(outputs / "manifest.csv"), "speaker") != again
    assert "--rebalance" not in said.out
    assert here(capfd, "verify", outputs).code == 0


def test_a_split_that_was_killed_is_made_by_the_next_command(outputs: Path, capfd):
    """The rule is stored before the groups are assigned, and these before the column is written."""
    plain = (outputs / "manifest.csv").read_bytes()
    here(capfd, "split", outputs, "--by", "speaker", *EVEN)
    whole = tree(outputs)
    rule = outputs / ".splitter/split.json"
    content = json.loads(rule.read_bytes())
    assert len(content["groups"]) == 12
    for groups in ({}, content["groups"]):
        rule.write_text(
            json.dumps({key: content[key] for key in content if key != "checksum"} | {"groups": groups})
        )
        (outputs / "manifest.csv").write_bytes(plain)
        assert here(capfd, "manifest", outputs, "--quiet").code == 1
        assert (outputs / "manifest.csv").read_bytes() == whole["manifest.csv"]
    rule.write_text(
        json.dumps({key: content[key] for key in content if key != "checksum"} | {"groups": {"a": "dev"}})
    )
    said = here(capfd, "manifest", outputs)
    assert "split.json: is damaged (it assigns groups to a split without a fraction)" in said.err
    assert here(capfd, "split", outputs, "--by", "speaker", *EVEN).code == 0
    assert tree(outputs) == whole


def test_an_interruption_does_not_decide_where_new_groups_go(outputs: Path, listed: Path, capfd):
    """They have no split until all inputs are done, so that none moves either."""
    here(capfd, "split", outputs, "--by", "label", "--quiet")
    with listed.open("a") as rows:
        for number in range(12):
            name = f"new{number}.txt"
            write_files(listed.parent / "inputs", {name: "long word " * (number % 5 + 1)})
            rows.write(f"{name},someone,label {number}\n")
    early = listed.parent / "early"
    shutil.copytree(outputs, early)
    assert run(capfd, listed).code == 1
    for limit in ("46", "49"):
        run(capfd, listed, "--output", str(early), "--limit", limit)
        new = [row["split"] for row in read_table(early / "manifest.csv") if row["label"] > "label"]
        assert {*new} == {""}
    said = here(capfd, "split", early, "--by", "label")
    assert "8 new groups not in a split yet; finish the run that adds them" in said.out
    run(capfd, listed, "--output", str(early))
    assert (early / "manifest.csv").read_bytes() == (outputs / "manifest.csv").read_bytes()
    assert "" not in {row["split"] for row in read_table(early / "manifest.csv")}


@pytest.mark.parametrize(
    "forged",
    [
        '"fractions": {"train": 1}, "seed": 0, "open": true, "groups": {"\\ud800": "train"}',
        '"fractions": {"\\ud800": 1}, "seed": 0',
    ],
)
def test_a_rule_that_no_manifest_can_hold_is_damaged(outputs: Path, forged, capfd):
    rule = outputs / ".splitter/split.json"
    rule.write_text(f'{{"by": "speaker", {forged}}}')
    said = here(capfd, "manifest", outputs)
    assert said.code
    assert "split.json: is damaged" in said.err
    assert said.err.count("\n") == 1


def test_a_split_of_an_earlier_version_stays_until_rebalance(outputs: Path, listed: Path, capfd):
    """It was made by a hash alone."""
    fractions = {"train": 0.4, "validation": 0.3, "test": 0.3}
    (outputs / ".splitter/split.json").write_text(
        json.dumps({"by": "speaker", "fractions": fractions, "seed": 0})
    )
    rule = SplitRule("speaker", tuple(fractions.items()))
    for command in (["manifest", outputs], ["split", outputs, "--by", "speaker", *EVEN]):
        here(capfd, *command)
        assert all(row["split"] == rule.of(row["speaker"]) for row in read_table(outputs / "manifest.csv"))
    here(capfd, "split", outputs, "--by", "speaker", *EVEN, "--rebalance")
    rows = splitter.read_manifest(outputs)
    afresh = splitter.split(rows.drop(columns="split"), fractions, by="speaker")
    assert [*rows["split"]] == [*afresh["split"]] != [rule.of(speaker) for speaker in rows["speaker"]]


def test_a_folder_that_grows_beyond_few_groups(outputs: Path, listed: Path, capfd, monkeypatch):
    """From then on the hash decides for new groups, also when there are fewer again."""
    for module in ("ledger.splits", "ledger.manifest", "outputs.stats"):
        monkeypatch.setattr(f"splitter.{module}.FEW_GROUPS", 14)
    here(capfd, "split", outputs, "--by", "speaker", *EVEN)
    first = sides(read_table(outputs / "manifest.csv"), "speaker")
    rows = [["input", "speaker", "label"], *([*row.values()] for row in read_table(listed))]
    names = [f"new{at}.txt" for at in range(9)]
    write_files(listed.parent / "inputs", dict.fromkeys(names, "something"))
    rule = SplitRule("speaker", (("train", 0.4), ("validation", 0.3), ("test", 0.3)))
    for many in (9, 1):
        write_list(listed, [*rows, *([name, f"new {name}", "cat"] for name in names[:many])])
        assert run(capfd, listed, "--prune").code == 1
        found = sides(read_table(outputs / "manifest.csv"), "speaker")
        assert {speaker: found[speaker] for speaker in first} == first
        new = {speaker: splits for speaker, splits in found.items() if speaker not in first}
        assert new == {f"new {name}": {rule.of(f"new {name}")} for name in names[:many]}


def test_a_balanced_split_is_that_of_python(outputs: Path, capfd):
    """With --balance, whose distribution is shown."""
    before, parts = splitter.read_manifest(outputs), {"train": 0.4, "validation": 0.3, "test": 0.3}
    said = here(capfd, "split", outputs, "--by", "speaker", "--balance", "label", *EVEN)
    assert said.code == 0
    after = splitter.split(before, parts, by="speaker", balance="label")
    assert [*splitter.read_manifest(outputs)["split"]] == [*after["split"]]
    assert [*after["split"]] != [*splitter.split(before, parts, by="speaker")["split"]]
    assert any(line.split()[:1] == ["dog"] for line in said.out.splitlines())


def test_remove_takes_it_away(outputs: Path, listed: Path, capfd):
    before = tree(outputs)
    here(capfd, "split", outputs)
    assert tree(outputs) != before
    assert here(capfd, "split", outputs, "--remove").code == 0
    assert tree(outputs) == before
    run(capfd, listed)
    assert tree(outputs) == before


def test_pieces_of_pieces_go_with_the_recording_that_all_began_with(outputs: Path, folder: Path, capfd):
    """In a second stage the input is a piece itself; its neighbours must not stand on the other side."""
    command = ["run", outputs / "manifest.csv", "--column", "output", "--recipe", "words", "--num-chars", "2"]
    assert here(capfd, *command, "--output", folder / "again", "--workers", "0", "--quiet").code == 0
    assert here(capfd, "split", folder / "again", "--train", "0.5", "--test", "0.5").code == 0
    rows = read_table(folder / "again" / "manifest.csv")
    assert len({row["input"] for row in rows}) > len({row["from_input"] for row in rows}) == 40
    assert {len(splits) for splits in sides(rows, "from_input").values()} == {1}
    assert splitter.split(
        splitter.read_manifest(folder / "again").drop(columns="split"), train=0.5, test=0.5
    )["split"].tolist() == [row["split"] for row in rows]


def test_the_report_says_how_much_is_where(outputs: Path, capfd):
    """Counted by hand from the manifest, classes included."""
    said = here(capfd, "split", outputs, "--by", "speaker", "--label", "label")
    rows = read_table(outputs / "manifest.csv")
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["split", "speaker", "outputs", "share"]
    # of a dozen speakers nobody can make tenths
    far = "".join(line for line in said.out.splitlines() if "asked for" in line)
    assert not far or far.endswith("there are only 12 speakers")
    for name, asked in (("train", 80), ("validation", 10), ("test", 10)):
        share = sum(row["split"] == name for row in rows) / len(rows) * 100
        assert (f"{name} got {share:.1f}% (asked for {asked}.0%)" in far) == (abs(share - asked) > 5)
    for name, line in zip(("train", "validation", "test"), lines[1:4], strict=True):
        own = [row for row in rows if row["split"] == name]
        speakers = len({row["speaker"] for row in own})
        assert line == [name, str(speakers), str(len(own)), f"{len(own) / len(rows):.1%}"]
    at = next(number for number, line in enumerate(lines) if line and line[0] == "label")
    for line in lines[at + 1 :]:
        shares = []
        for name in ("train", "validation", "test"):
            own = [row["label"] for row in rows if row["split"] == name]
            shares.append(f"{own.count(line[0]) / len(own):.1%}" if own else "-")
        assert line[1:] == [str(sum(row["label"] == line[0] for row in rows)), *shares]
    assert {line[0] for line in lines[at + 1 :]} == {"dog", "cat"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "nobody"], "by 'nobody': the manifest has no such column; it has input, speaker"),
        (
            ["--by", "nobody"],
            "(to keep the labels of an earlier run: splitter run DIR/manifest.csv --column",
        ),
        (["--train", "0.8"], "train 0.8: must sum to 1, not 0.8; add --validation 0.2 or --test 0.2\n"),
        (["--label", "nobody"], "--label nobody: the manifest has no such column; it has input, speaker"),
        (["--balance", "nobody"], "--balance nobody: the manifest has no such column; it has input, speaker"),
        (["--remove", "--by", "speaker"], "leave out the other options"),
        (["--remove", "--rebalance"], "leave out the other options"),
    ],
)
def test_what_is_asked_wrongly_is_refused_and_changes_nothing(outputs: Path, arguments, message, capfd):
    before = tree(outputs)
    said = here(capfd, "split", outputs, *arguments)
    assert said.code == 2
    assert message in said.err
    assert len(said.lines) == 1
    assert tree(outputs) == before
    assert not (outputs / ".splitter/split.json").exists()


def test_a_column_of_that_name_is_never_hidden(outputs: Path, listed: Path, folder: Path, capfd):
    """Neither one that the dataset has, nor one that it gets later."""
    own = write_list(folder / "own.csv", [["input", "split"], ["00.txt", "mine"]])
    base = ["run", own, "--recipe", "words", "--root", "inputs", "--workers", "0", "--quiet"]
    assert here(capfd, *base, "--output", folder / "own").code == 0
    said = here(capfd, "split", folder / "own")
    assert (said.code, "already has a column 'split', which comes from the dataset list" in said.err) == (
        2,
        True,
    )
    assert read_table(folder / "own/manifest.csv")[0]["split"] == "mine"
    assert "run again with --rename split=NEW, which redoes the inputs (metadata: in the recipe)" in said.err
    said = here(capfd, *base[:-1], "--output", folder / "own", "--rename", "split=own")
    assert (said.code, "1 finished input changed and will be redone" in said.err) == (0, True), said.err
    assert here(capfd, "split", folder / "own").code == 0
    row = read_table(folder / "own/manifest.csv")[0]
    assert (row["own"], row["split"] in ("train", "validation", "test")) == ("mine", True)
    here(capfd, "split", outputs)
    before = tree(outputs)
    rows = read_table(listed)
    write_list(listed, [[*rows[0], "split"], *([*row.values(), "mine"] for row in rows)])
    said = run(capfd, listed)
    assert (said.code, "use --rename split=NEW" in said.err) == (2, True)
    assert tree(outputs) == before


def test_what_is_no_output_folder_is_refused(folder: Path, capfd):
    write_files(folder / "plain", {"manifest.csv": "input,output,size,checksum\n"})
    said = here(capfd, "split", folder / "plain")
    assert (said.code, "is not a splitter output folder" in said.err) == (2, True)
