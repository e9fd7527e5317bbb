"""`--keep`: a condition over the columns of the manifest, applied late, and by all that read it."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from doors import Said, here, read_table
from nightly import NIGHTLY
from sounds import write_sound

import splitter
from splitter.errors import Refused
from splitter.options import RunOptions

QUIET = ("c.wav", "d.wav")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    """Four recordings of three seconds, two loud and two soft ones; the last second of each is soft."""
    folder = tmp_path_factory.mktemp("keep") / "in"
    chance = np.random.default_rng(1)
    for name in ("a.wav", "b.wav", *QUIET):
        frames = chance.normal(0, 500 if name in QUIET else 5000, (24000, 1))
        frames[16000:] /= 10
        write_sound(folder / name, frames.astype(np.int16))
    return folder


def run(capfd, recordings: Path, output: Path, *options: str, keep: str | None = "rms > -30") -> Said:
    asked = ["--seconds=1", "--measure=levels", "--workers=0", *([] if keep is None else ["--keep", keep])]
    return here(capfd, "run", recordings, "--output", output, *asked, *options)


def kept(output: Path) -> list[str]:
    return [row["kept"] for row in read_table(output / "manifest.csv")]


def state_of(output: Path) -> dict[str, tuple[int, int]]:
    """Return what tells whether a file was written again."""
    found = {}
    for path in output.rglob("*"):
        if path.is_file():
            about = path.stat()
            found[str(path.relative_to(output))] = (about.st_ino, about.st_mtime_ns)
    return found


LOUD = ["True", "True", "False"] * 2 + ["False"] * 6


def test_rows_are_marked_and_nothing_else_changes(recordings, tmp_path, capfd):
    """Another condition makes the tables again, and touches no output and no record."""
    output = tmp_path / "out"
    assert run(capfd, recordings, output, keep=None).code == 0
    assert "kept" not in read_table(output / "manifest.csv")[0]
    before = state_of(output)
    plain = (output / "manifest.csv").read_bytes()
    said = run(capfd, recordings, output)
    assert (said.code, "nothing to do" in said.err) == (0, True), said.err
    assert kept(output) == LOUD
    assert "--keep: 4 of 12 outputs kept" in said.lines
    changed = {name for name, state in state_of(output).items() if before.get(name) != state}
    tables = {"manifest.csv", ".splitter/keep.json", ".splitter/schema.json"}
    assert {name for name in changed if name.startswith(("a/", "b/", ".splitter/records"))} == set()
    assert tables <= changed
    assert run(capfd, recordings, output, keep="rms > -60 and peak < 0").code == 0
    assert kept(output) == ["True"] * 12
    assert here(capfd, "verify", output).code == 0
    # a later run without the option keeps the rule, and an empty one removes it
    assert run(capfd, recordings, output, keep=None).code == 0
    assert kept(output) == ["True"] * 12
    assert run(capfd, recordings, output, keep="").code == 0
    assert (output / "manifest.csv").read_bytes() == plain


def test_a_run_that_keeps_from_the_start_gives_the_same_manifest(recordings, tmp_path, capfd):
    assert run(capfd, recordings, tmp_path / "late", keep=None).code == 0
    assert run(capfd, recordings, tmp_path / "late").code == 0
    assert run(capfd, recordings, tmp_path / "first").code == 0
    first, late = (tmp_path / name / "manifest.csv" for name in ("first", "late"))
    assert first.read_bytes() == late.read_bytes()
    assert splitter.read_manifest(tmp_path / "first")["kept"].dtype == bool
    assert here(capfd, "manifest", tmp_path / "first", "--manifest-format=csv,jsonl").code == 0
    lines = (tmp_path / "first" / "manifest.jsonl").read_text().splitlines()
    assert [str(json.loads(line)["kept"]) for line in lines] == LOUD


@pytest.fixture(scope="module")
def outputs(recordings, tmp_path_factory) -> Path:
    """An output folder of which a third is kept."""
    output = tmp_path_factory.mktemp("kept") / "out"
    splitter.run(splitter_chunk(recordings), output, keep="rms > -30", workers=0, quiet=True)
    return output


def splitter_chunk(recordings: Path):
    from splitter.recipes.chunk import Chunk

    return Chunk(recordings, seconds=1, measure="levels")


def test_stats_and_split_count_what_is_kept(outputs, tmp_path, capfd):
    """An input of which nothing is kept is still an input that was done."""
    found = json.loads(here(capfd, "stats", outputs, "--json").out)
    assert (found["total"]["outputs"], found["total"]["done"], found["not_tried"]) == (4, 4, 0)
    assert found["total"]["hours"] * 3600 == pytest.approx(4)
    assert found["total"]["recorded_hours"] * 3600 == pytest.approx(12)
    found = json.loads(here(capfd, "stats", outputs, "--json", "--all-rows").out)
    assert found["total"]["outputs"] == 12
    folder = shutil.copytree(outputs, tmp_path / "out")
    said = here(capfd, "split", folder, "--train=1")
    assert [line.split()[:3] for line in said.out.splitlines()][1] == ["train", "2", "4"], said
    assert kept(folder) == LOUD
    splits = [row["split"] for row in read_table(folder / "manifest.csv")]
    assert splits == ["train" if one == "True" else "" for one in LOUD]
    assert "not in a split yet" not in said.out
    assert here(capfd, "verify", folder).code == 0


def test_groups_are_dealt_out_by_what_is_kept_and_stay(recordings, tmp_path, capfd):
    """A soft recording counts for nothing; a later condition moves no group."""
    output = tmp_path / "out"
    assert run(capfd, recordings, output).code == 0
    said = here(capfd, "split", output, "--train=0.5", "--test=0.5")
    assert said.code == 0, said.err
    splits = {row["input"]: row["split"] for row in read_table(output / "manifest.csv") if row["split"]}
    assert sorted(splits) == ["a.wav", "b.wav"]
    assert sorted(splits.values()) == ["test", "train"]
    assert run(capfd, recordings, output, keep="rms > -90").code == 0
    rows = read_table(output / "manifest.csv")
    assert all(row["split"] for row in rows)
    assert {row["input"]: row["split"] for row in rows}.items() >= splits.items()
    # and back
    assert run(capfd, recordings, output).code == 0
    rows = read_table(output / "manifest.csv")
    assert {row["input"]: row["split"] for row in rows if row["split"]} == splits
    assert here(capfd, "verify", output).code == 0


def test_the_function_splits_what_is_kept(outputs):
    """As the command does; an earlier result may have rows that were in no split."""
    manifest = splitter.read_manifest(outputs)
    found = splitter.split(manifest, train=0.5, test=0.5)
    assert [split == "" for split in found["split"]] == [one == "False" for one in LOUD]
    assert sorted({*found["split"]}) == ["", "test", "train"]
    again = splitter.split(manifest, train=0.5, test=0.5, earlier=found)
    assert [*again["split"]] == [*found["split"]]


@pytest.mark.parametrize("streaming", [False, True])
def test_open_gives_what_is_kept(outputs, streaming):
    def names(**options):
        opened = splitter.open(outputs, streaming=streaming, decode=False, **options)
        return [
            one["output"] for one in (opened if streaming else map(opened.__getitem__, range(len(opened))))
        ]

    assert [name.split("/")[0] for name in names()] == ["a", "a", "b", "b"]
    assert len(names(all_rows=True)) == 12
    assert len(names(where="kept == False", all_rows=True)) == 8
    manifest = splitter.read_manifest(outputs)
    assert len(manifest) == 12
    assert len(splitter.open(manifest[manifest["input"] == "a.wav"])) == 2


def test_a_second_stage_takes_what_is_kept(outputs, tmp_path, capfd):
    """Its own column may be called the same."""
    options = ("--column=output", "--seconds=0.5", "--workers=0")
    said = here(capfd, "run", outputs / "manifest.csv", *options, "--output", tmp_path / "two")
    assert (said.code, "8 outputs are not kept" in said.err) == (0, True), said.err
    rows = read_table(tmp_path / "two" / "manifest.csv")
    assert len({row["input"] for row in rows}) == 4
    assert {row["from_kept"] for row in rows} == {"True"}
    options = (*options, "--all-rows", "--measure=levels", "--keep", "from_kept == 'False' or rms > -20")
    said = here(capfd, "run", outputs / "manifest.csv", *options, "--output", tmp_path / "all")
    assert said.code == 0, said.err
    rows = read_table(tmp_path / "all" / "manifest.csv")
    assert len({row["input"] for row in rows}) == 12
    assert {row["kept"] for row in rows if row["from_kept"] == "False"} == {"True"}


def test_all_rows_is_only_for_a_manifest(recordings, tmp_path, capfd):
    """No option is taken and ignored."""
    listed = tmp_path / "list.csv"
    listed.write_text(f"input,output\n{recordings}/a.wav,{recordings}/b.wav\n")
    for source, column in ((recordings, "input"), (listed, "input"), (listed, "output")):
        rest = ("--column", column, "--all-rows", "--output", tmp_path / "out")
        said = here(capfd, "run", source, *rest)
        assert (said.code, "--all-rows is only for the outputs of a run" in said.err) == (2, True), said.err


def test_the_report_shows_what_is_kept(outputs, tmp_path, capfd):
    said = here(capfd, "report", outputs, "-o", tmp_path / "page.html")
    assert (said.code, "4 outputs" in said.out) == (0, True), said
    said = here(capfd, "report", outputs, "-o", tmp_path / "all.html", "--all-rows")
    assert (said.code, "12 outputs" in said.out) == (0, True), said


def test_a_column_of_that_name_from_elsewhere_is_a_label(tmp_path, capfd, recordings):
    """It leaves nothing out; with --keep it must have another name."""
    (tmp_path / "list.csv").write_text(f"input,kept\n{recordings}/a.wav,False\n")
    options = ("--seconds=1", "--workers=0", "--output", tmp_path / "out")
    assert here(capfd, "run", tmp_path / "list.csv", *options).code == 0
    assert len(splitter.open(tmp_path / "out")) == 3
    assert json.loads(here(capfd, "stats", tmp_path / "out", "--json").out)["total"]["outputs"] == 3
    said = here(capfd, "run", tmp_path / "list.csv", *options, "--keep", "frames > 1")
    assert (said.code, "--rename kept=NEW" in said.err) == (2, True), said.err
    said = here(capfd, "run", tmp_path / "list.csv", *options, "--keep", "frames > 1", "--rename", "kept=was")
    assert (said.code, kept(tmp_path / "out")) == (0, ["True"] * 3), said.err


@pytest.mark.parametrize("keep", ["snr >", "snr = 3", "import os", "a" * 10_001])
def test_what_is_no_condition_is_refused_before_work(keep):
    with pytest.raises(Refused, match=r"^--keep"):
        RunOptions(keep=keep)


def test_a_column_that_does_not_exist_is_named(recordings, tmp_path, capfd):
    """Nothing is left out because of it."""
    said = run(capfd, recordings, tmp_path / "out", keep="snr > 15")
    assert said.code == 0
    assert "--keep names 'snr', which the manifest does not have" in said.err
    assert {*kept(tmp_path / "out")} == {""}
    assert len(splitter.open(tmp_path / "out")) == 12


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
def test_a_shard_holds_what_is_kept(recordings, tmp_path, capfd, sink):
    """The manifest has a row for the rest; another condition makes shards again, and says so first."""
    output = tmp_path / "out"
    said = run(capfd, recordings, output, "--sink", sink)
    assert said.code == 0, said.err
    rows = read_table(output / "manifest.csv")
    assert [row["kept"] for row in rows] == LOUD
    assert [bool(row["output"]) for row in rows] == [value == "True" for value in LOUD]
    assert all(float(row["rms"]) < 0 for row in rows)
    assert len(splitter.open(output)) == 4
    for deep in ((), ("--deep=all", "--workers=1")):
        said = here(capfd, "verify", output, *deep)
        assert said.code == 0, said
    if sink == "webdataset":
        import tarfile

        (shard,) = output.rglob("*.tar")
        with tarfile.open(shard) as tar:
            assert sum(name.endswith(".wav") for name in tar.getnames()) == 4
    before = state_of(output)
    # without the option the rule stays
    said = run(capfd, recordings, output, "--sink", sink, keep=None)
    assert "nothing to do" in said.err
    said = run(capfd, recordings, output, "--sink", sink, keep="rms > -60")
    assert "keep changed from 'rms > -30' to 'rms > -60'" in said.err
    assert "4 finished inputs changed and will be redone" in said.err
    assert {*kept(output)} == {"True"}
    assert len(splitter.open(output)) == 12
    assert state_of(output) != before
    assert here(capfd, "verify", output).code == 0


def test_shards_can_only_be_made_by_what_is_known_of_an_output(recordings, tmp_path, capfd):
    said = run(capfd, recordings, tmp_path / "out", "--sink=webdataset", keep="source_seconds > 1")
    assert (said.code, "--keep names 'source_seconds', which this output does not have" in said.err) == (
        1,
        True,
    )


@pytest.mark.parametrize("sink", ["files", "webdataset"])
@pytest.mark.parametrize(("keep", "count"), [("kind == 'high'", 2), ("level == '3.0'", 1), ("part < 1", 1)])
def test_a_shard_keeps_by_the_text_of_the_manifest(tmp_path, capfd, sink, keep, count):
    """Whatever Python calls the value: an Enum, a declared type, a number of numpy."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    recipe = tmp_path / "kinds.py"
    recipe.write_text(
        "import enum, numpy\n"
        "from splitter import OutputFile, ProcessorDataset\n"
        "Kind = enum.Enum('Kind', {'LOW': 'low', 'HIGH': 'high'}, type=str)\n"
        "class Kinds(ProcessorDataset):\n"
        "    metadata_types = {'level': float}\n"
        "    def process(self, input_file):\n"
        "        kinds = [Kind.LOW, Kind.LOW, Kind.HIGH, Kind.HIGH]\n"
        "        metadata = [{'kind': kinds[i], 'level': i, 'part': numpy.int64(i)} for i in range(4)]\n"
        "        return [OutputFile(f'{i}.txt', 'text', metadata[i]) for i in range(4)], {}\n"
    )
    options = ("--workers=0", "--sink", sink, "--output", tmp_path / "out", "--keep", keep)
    said = here(capfd, "run", tmp_path / "in", f"--recipe={recipe}:Kinds", *options)
    assert said.code == 0, said.err
    assert kept(tmp_path / "out").count("True") == len(splitter.open(tmp_path / "out")) == count


def test_a_damaged_condition_is_found_before_work(recordings, tmp_path, capfd):
    """And another one replaces it."""
    output = tmp_path / "out"
    assert run(capfd, recordings, output, "--limit=1").code == 0
    (output / ".splitter" / "keep.json").write_text('{"where": "rms >')
    before = state_of(output)
    said = run(capfd, recordings, output, keep=None)
    assert (said.code, "keep.json: is damaged" in said.err) != (0, False), said.err
    assert "to do" not in said.err
    changed = {name for name, state in state_of(output).items() if before.get(name) != state}
    assert {name for name in changed if name.endswith(".wav") or "records" in name} == set()
    assert run(capfd, recordings, output).code == 0
    assert kept(output) == LOUD


def test_a_second_stage_over_the_folder_takes_what_is_kept(outputs, tmp_path, capfd):
    """With --all-rows it takes all; a file that the manifest does not know is taken."""
    folder = shutil.copytree(outputs, tmp_path / "out")
    shutil.copy(next(folder.glob("c/*.wav")), folder / "c" / "added.wav")

    def second_stage(*options: str) -> tuple[Said, list[str]]:
        output = tmp_path / f"two{len(options)}"
        said = here(capfd, "run", folder, "--workers=0", "--output", output, *options)
        assert said.code == 0, said.err
        return said, [row["input"] for row in read_table(output / "manifest.csv")]

    said, inputs = second_stage()
    assert "8 outputs are not kept, as --keep says: left out; --all-rows takes them, too" in said.err
    assert [name.split("/")[0] for name in inputs] == ["a", "a", "b", "b", "c"]
    assert inputs[-1] == "c/added.wav"
    said, inputs = second_stage("--all-rows")
    assert ("not kept" in said.err, len(inputs)) == (False, 13)
    (folder / "manifest.csv").unlink()
    said = here(capfd, "run", folder, "--workers=0", "--output", tmp_path / "none")
    assert (said.code, "finish the run that made it, or use --all-rows" in said.err) == (2, True), said.err
    said = here(capfd, "run", folder / "a", "--all-rows", "--output", tmp_path / "none")
    assert (said.code, "--all-rows is only for the outputs of a run" in said.err) == (2, True), said.err


def test_a_stage_after_one_that_keeps_nothing_says_so(recordings, outputs, tmp_path, capfd):
    """It has no inputs, and whose --keep is to blame."""
    folder = shutil.copytree(outputs, tmp_path / "out")
    assert "--keep: 0 of 12 outputs kept" in run(capfd, recordings, folder, keep="rms > 0").lines
    assert "0.0 s" in here(capfd, "stats", folder).out.splitlines()[-1]
    for source in ([folder], [folder / "manifest.csv", "--column=output"]):
        for command in ("plan", "run"):
            said = here(capfd, command, *source, "--workers=0", "--output", tmp_path / "two")
            why = "nothing to do: --keep of the earlier run keeps none of its 12 outputs"
            assert why in (said.out if command == "plan" else said.err).splitlines()
        assert said.lines[-1].startswith("next: change --keep of the earlier run, or use --all-rows")


@pytest.mark.parametrize(
    ("keep", "hint"), [("peaks > 15", "did you mean 'peak'?"), ("loudness > -30", "--measure")]
)
def test_a_column_that_will_not_be_there_is_named_before_work(recordings, tmp_path, capfd, keep, hint):
    said = run(capfd, recordings, tmp_path / "out", "--limit=1", keep=keep)
    warning = said.err.find(f"--keep names {keep.split()[0]!r}, which this recipe is not known to make")
    work = said.err.find("to do")
    assert 0 <= warning < work, said.err
    assert hint in said.err[warning:work]
    said = run(
        capfd, recordings, tmp_path / "other", "--limit=1", keep="rms > -30 and frames > 3 and size > 1"
    )
    assert "--keep names" not in said.err


def test_a_changed_condition_over_many_rows_is_quick(tmp_path, capfd):
    """100,000 rows in less than 5 seconds, without the recipe; the gate tries a fifth of them."""
    rows = 20_000 if NIGHTLY else 4_000
    (tmp_path / "in").mkdir()
    recipe = tmp_path / "many_rows.py"
    recipe.write_text(
        f"ROWS = {rows}\n"
        "from splitter import OutputFile, ProcessorDataset\n"
        "class Many(ProcessorDataset):\n"
        "    def process(self, input_file):\n"
        "        return [OutputFile('', None, {'snr': i % 40, 'text': 'a, b'}) for i in range(ROWS)], {}\n"
    )
    for name in "abcde":
        (tmp_path / "in" / f"{name}.txt").write_text(name)
    command = ("run", tmp_path / "in", f"--recipe={recipe}:Many", "--workers=0", "--output", tmp_path / "out")
    assert here(capfd, *command).code == 0
    began = time.process_time()
    said = here(capfd, *command, "--keep", "snr > 15")
    assert time.process_time() - began < (5 if NIGHTLY else 2)
    assert (said.code, "nothing to do" in said.err) == (0, True), said.err
    assert len(kept(tmp_path / "out")) == 5 * rows
