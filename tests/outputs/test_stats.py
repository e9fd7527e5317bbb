"""`splitter stats`: what the tables of a run come to, by any column."""

import json
import uuid
from pathlib import Path

import fsspec
import numpy as np
import pytest
from doors import here, program, read_table, write_files, write_list
from hypothesis import given
from hypothesis import strategies as st
from sounds import tone, write_sound

import splitter
from splitter import OutputFile, ProcessorDataset, Skip
from splitter.ledger.journal import FEW_RECORDS
from splitter.outputs.stats import MOST_SHOWN
from splitter.text.labels import join_labels, labels_in
from splitter.text.show import show_hours


@pytest.fixture
def outputs(folder: Path, capfd) -> Path:
    """Chunks of recordings of two speakers; one recording is damaged, one is silent to nobody."""
    rows = [["input", "speaker"]]
    for number in range(5):
        write_sound(folder / f"{number}.wav", tone(1 + number, 8000), 8000)
        rows.append([f"{number}.wav", "ann" if number % 2 else "bob, jr"])
    write_files(folder, {"bad.wav": "not sound"})
    listed = write_list(folder / "list.csv", [*rows, ["bad.wav", "ann"], ["lost.wav", "eve"]])
    here(capfd, "run", listed, "--seconds", "2", "--workers", "0", "--quiet", "--output", folder / "outputs")
    return folder / "outputs"


def by_hand(outputs: Path, column: str | None) -> dict[str, dict[str, float]]:
    """The same from the tables, with other means."""
    manifest = splitter.read_manifest(outputs)
    found = {}
    values = (
        [None] if column is None else [*dict.fromkeys([*manifest[column], *manifest.failed.get(column, [])])]
    )
    for value in values:
        own = manifest if column is None else manifest[manifest[column] == value]
        failed = manifest.failed
        if column is not None:
            failed = failed[failed[column] == value] if column in failed else failed[:0]
        found["" if value is None else str(value)] = {
            "inputs": own["input"].nunique() + len(failed),
            "done": own["input"].nunique(),
            "outputs": int((own["output"] != "").sum()),
            "bytes": int(own["size"].sum()),
            "hours": pytest.approx((own["frames"] / own["sample_rate"]).sum() / 3600),
            "recorded_hours": pytest.approx(own.groupby("input")["source_seconds"].first().sum() / 3600),
            "skipped": 0,
            "failed": len(failed),
        }
    return found


def test_the_summary_of_a_run_says_how_much_of_the_sound_is_kept(folder: Path, capfd):
    """Of what this run has cut, as the manifest has it; of other files there is nothing to say."""
    for name in ("a.wav", "b.wav"):
        write_sound(folder / "in" / name, np.pad(tone(2, 8000), ((0, 16000), (0, 0))), 8000)
    write_files(folder / "in", {"bad.wav": "not sound"})
    options = ["--recipe", "silence", "--output", folder / "out"]
    for workers, first in (("0", ["--limit", "1"]), ("2", [])):
        said = here(capfd, "run", folder / "in", *options, "--workers", workers, *first)
        own = splitter.read_manifest(folder / "out").tail(1)
        kept = (own["frames"] / own["sample_rate"]).sum()
        line = f"sound: 4.0 s recorded, {kept:.1f} s in outputs ({kept / 4:.1%} kept)"
        line += "" if first else ", failed inputs not counted"
        assert [text for text in said.err.splitlines() if text.startswith("sound:")] == [line]
        assert 1.9 < kept < 3
    again = here(capfd, "run", folder / "in", *options, "--workers=0")
    words = here(
        capfd,
        "run",
        folder / "in",
        "--recipe",
        "command",
        "--command",
        "true {output}",
        "--workers=0",
        "--output",
        folder / "o",
    )
    assert "\nsound:" not in again.err + words.err


def test_a_run_of_many_batches_says_it_too(folder: Path, capfd):
    """Their records are merged at the end, after they have been added up."""
    sound = tone(0.1, 8000)
    for number in range(FEW_RECORDS + 1):
        write_sound(folder / "in" / f"{number}.wav", sound, 8000)
    out = folder / "out"
    options = [
        "--recipe",
        "chunk",
        "--seconds",
        "0.05",
        "--batch-size",
        "1",
        "--workers",
        "0",
        "--output",
        out,
    ]
    said = here(capfd, "run", folder / "in", *options)
    assert "sound: 6.5 s recorded, 6.5 s in outputs (100.0% kept)" in said.err
    assert len([*(out / ".splitter/records").iterdir()]) == 1


def as_json(capfd, *arguments: object) -> dict[str, dict[str, float]]:
    content = json.loads(here(capfd, "stats", *arguments, "--json").out)
    groups = content.get("groups", [{"value": "", **content["total"]}])
    return {group.pop("value"): group for group in groups}


@pytest.mark.parametrize("column", [None, "speaker", "source_frames", "channels", "input"])
def test_counts_are_those_of_the_tables(outputs: Path, column, capfd):
    """By any column: of the dataset, of metadata, or none."""
    found = as_json(capfd, outputs, *([] if column is None else ["--by", column]))
    assert found == by_hand(outputs, column)


def test_the_table_for_people(outputs: Path):
    """The largest first, the sum of all below; failures that cannot be told apart are a question mark."""
    said = program("stats", outputs, "--by", "speaker", COLUMNS="120")
    assert said.code == 0
    lines = [line.split("  ") for line in said.out.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[0] == [
        "speaker",
        "inputs",
        "done",
        "outputs",
        "size",
        "recorded",
        "length",
        "kept",
        "skipped",
        "failed",
    ]
    assert [line[0] for line in cells[1:]] == ["bob, jr", "ann", "eve", "all"]
    # as the summary counts them; 15 seconds are not 0.00 hours
    assert cells[-1][1:4] == ["7", "5", "9"]
    assert cells[-1][5:8] == ["15.0 s", "15.0 s", "100.0%"]
    assert [line[-1] for line in cells[1:]] == ["0", "1", "1", "2"]
    by_metadata = program("stats", outputs, "--by", "channels").out.splitlines()
    assert (by_metadata[1].split()[-1], by_metadata[-2].split()[-1]) == ("?", "2")
    assert by_metadata[-1].startswith("failed ?: channels is not a column of errors.csv")


def test_several_labels_in_a_cell_count_each(folder: Path, capfd):
    """As the report has them, in `stats --by labels` and `split --label labels`; `|` may be part of one."""
    write_sound(folder / "r.wav", tone(4, 8000), 8000)
    (folder / "r.txt").write_text("0.5\t1.5\tcat\\\n0.6\t2.5\ta|b\n0.7\t0.8\tcat\\\n")
    listed = write_list(folder / "list.csv", [["input"], ["r.wav"]])
    base = ["run", listed, "--seconds", "1", "--annotations", "beside", "--workers", "0", "--quiet"]
    here(capfd, *base, "--output", folder / "out")
    assert {row["labels"] for row in read_table(folder / "out/manifest.csv")} == {
        "cat\\\\|a\\|b|cat\\", "cat\\\\|a\\|b", "a\\|b", "",
    }  # fmt: skip
    found = as_json(capfd, folder / "out", "--by", "labels")
    assert {label: tally["outputs"] for label, tally in found.items()} == {"cat\\": 2, "a|b": 3, "": 1}
    lines = here(capfd, "split", folder / "out", "--train", "1", "--label", "labels").out.splitlines()
    assert [line.split()[:2] for line in lines[-3:]] == [["a|b", "3"], ["cat\\", "2"], ['""', "1"]]


@given(st.lists(st.text("a|\\", min_size=1), max_size=4))
def test_labels_of_one_cell_come_back(labels: list[str]):
    assert labels_in("labels", join_labels(labels)) == labels


def test_how_much_sound_a_recipe_left_out(folder: Path, capfd):
    """The length of the recordings, each once, beside that of what was cut from them."""
    write_sound(folder / "r.wav", tone(4, 8000), 8000)
    rows = [["input", "start", "end"], ["r.wav", "0", "1"], ["r.wav", "2", "2.5"]]
    listed = write_list(folder / "cuts.csv", rows)
    base = ["run", listed, "--recipe", "segments", "--workers", "0", "--quiet"]
    here(capfd, *base, "--output", folder / "cuts")
    header, total = (line.split("  ") for line in here(capfd, "stats", folder / "cuts").out.splitlines())
    cells = dict(zip(filter(None, header), filter(None, total[1:]), strict=True))
    found = {name.strip(): cell.strip() for name, cell in cells.items()}
    assert (found["recorded"], found["length"], found["kept"]) == ("4.0 s", "1.5 s", "37.5%")


def test_inputs_that_were_left_out_or_made_nothing(folder: Path, capfd):
    """Skipped inputs are counted, and metadata without a file is no output."""

    class Some(ProcessorDataset):
        def process(self, input_file):
            if input_file.input == "skip.txt":
                raise Skip("no")
            return [OutputFile("", None, {"n": 1}), OutputFile("a", b"abc", {"n": 2})], {}

    listed = [{"input": name, "kind": "x"} for name in ("a.txt", "skip.txt", "b.txt")]
    write_files(folder, {row["input"]: "" for row in listed})
    Some(listed).run(folder / "out", root=str(folder), workers=0, quiet=True)
    assert as_json(capfd, folder / "out", "--by", "kind") == {
        "x": {
            "inputs": 3,
            "done": 2,
            "outputs": 2,
            "bytes": 6,
            "hours": 0,
            "recorded_hours": 0,
            "skipped": 1,
            "failed": 0,
        }
    }
    # an input has rows in two groups
    assert {key: tally["inputs"] for key, tally in as_json(capfd, folder / "out", "--by", "n").items()} == {
        "1": 2,
        "": 1,
        "2": 2,
    }


def test_inputs_that_were_not_tried_are_counted(folder: Path, outputs: Path, capfd):
    """Of a run that did not come to its end; the rows of a group are one input."""
    base = ["run", folder / "list.csv", "--seconds", "2", "--workers", "0", "--quiet"]
    here(capfd, *base, "--limit", "3", "--output", folder / "some")
    lines = here(capfd, "stats", folder / "some").out.splitlines()
    assert (lines[1].split()[1], lines[2:]) == ("3", ["4 of 7 inputs not tried yet"])
    assert json.loads(here(capfd, "stats", folder / "some", "--json").out)["not_tried"] == 4
    assert json.loads(here(capfd, "stats", outputs, "--json").out)["not_tried"] == 0
    assert len(here(capfd, "stats", outputs).out.splitlines()) == 2
    rows = [["input", "start", "end"], *([f"{n}.wav", "0", str(end)] for n in (3, 4) for end in (1, 2))]
    listed = write_list(folder / "cuts.csv", rows)
    base = ["run", listed, "--recipe", "segments", "--workers", "0", "--quiet"]
    here(capfd, *base, "--limit", "1", "--output", folder / "cuts")
    assert here(capfd, "stats", folder / "cuts").out.splitlines()[-1] == "1 of 2 inputs not tried yet"


def test_more_values_than_can_be_shown(folder: Path, capfd):
    """The table ends somewhere, the sum does not; --json has them all."""
    names = [f"{number:03d}.txt" for number in range(MOST_SHOWN + 5)]
    write_files(folder / "inputs", dict.fromkeys(names, "word"))
    listed = write_list(folder / "list.csv", [["input"], *([name] for name in names)])
    base = ["run", listed, "--root", "inputs", "--recipe", "words", "--workers", "0", "--quiet"]
    here(capfd, *base, "--output", folder / "out")
    lines = here(capfd, "stats", folder / "out", "--by", "input").out.splitlines()
    assert len(lines) == MOST_SHOWN + 3
    assert lines[-2] == "... and 5 more; --json has them all"
    assert lines[-1].split()[:2] == ["all", str(len(names))]
    assert len(as_json(capfd, folder / "out", "--by", "input")) == len(names)


class Immeasurable(ProcessorDataset):
    """A recipe that divides by zero where it measures."""

    def process(self, input_file):
        outputs = [
            OutputFile("0.bin", b"0", {"frames": 8000.0, "sample_rate": 8000.0}),
            OutputFile("1.bin", b"1", {"frames": float("inf"), "sample_rate": 8000.0}),
            OutputFile("2.bin", b"2", {"frames": 8000.0, "sample_rate": 0.0}),
            OutputFile("3.bin", b"3", {"frames": float("nan"), "sample_rate": float("nan")}),
        ]
        return outputs, {"source_seconds": float("inf")}


def test_numbers_that_are_not_finite_are_not_counted(folder: Path, capfd):
    """Neither in stats, whose JSON has no word for them, nor in the report."""
    write_files(folder, {"a.txt": "a"})
    Immeasurable([folder / "a.txt"]).run(folder / "outputs", workers=0)
    said = here(capfd, "stats", folder / "outputs", "--json").out
    total = json.loads(said, parse_constant=pytest.fail)["total"]
    assert (total["outputs"], total["hours"], total["recorded_hours"]) == (4, 1 / 3600, 0)
    assert here(capfd, "report", folder / "outputs").code == 0


def test_an_output_folder_at_a_url(outputs: Path, capfd):
    """The same numbers, without a copy on this machine."""
    url = f"memory://{uuid.uuid4().hex}/out"
    fsspec.filesystem("memory").put(f"{outputs}/", url, recursive=True)
    assert as_json(capfd, url, "--by", "speaker") == as_json(capfd, outputs, "--by", "speaker")
    assert splitter.read_manifest(url).equals(splitter.read_manifest(outputs))
    assert splitter.read_output(splitter.read_manifest(url).iloc[0])[:4] == b"RIFF"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["outputs", "--by", "nobody"],
            "--by nobody: the manifest has no such column; it has input, speaker, output",
        ),
        (["nowhere"], "nowhere: there is no manifest; pass the output folder of a finished run"),
        (["memory://nowhere"], "memory://nowhere/manifest.csv: there is no manifest"),
    ],
)
def test_what_cannot_be_counted_is_refused(outputs: Path, arguments, message, monkeypatch, capfd):
    monkeypatch.chdir(outputs.parent)
    said = here(capfd, "stats", *arguments)
    assert (said.code, message in said.err, len(said.lines)) == (2, True, 1)


def test_a_table_that_was_cut_short_is_refused(outputs: Path, capfd):
    """It counts nothing rather than too little."""
    text = (outputs / "manifest.csv").read_text()
    (outputs / "manifest.csv").write_text(text[:-30])
    assert read_table(outputs / "errors.csv")
    said = here(capfd, "stats", outputs)
    assert (said.code, "columns where the first line has" in said.err) == (2, True)


@pytest.mark.parametrize("columns", [80, 64, 40])
def test_the_table_fits_the_terminal(outputs, capfd, monkeypatch, columns):
    """Names are cut, or numbers stand below them; no number is lost."""
    monkeypatch.setenv("COLUMNS", str(columns))
    said = here(capfd, "stats", outputs, "--by", "speaker")
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= columns
    text = " ".join(said.out.split())
    for value, total in by_hand(outputs, "speaker").items():
        assert value in text
        expected = f"{total['inputs']} {total['done']} {total['outputs']}"
        if columns < 80:
            expected = f"inputs {total['inputs']}, done {total['done']}, outputs {total['outputs']}"
        assert expected in text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(59.9, "59.9 s"), (612, "10:12 min"), (3599, "59:59 min"), (3600, "1.00 h"), (4_500_000, "1,250.00 h")],
)
def test_hours_are_shown_in_smaller_units_if_there_are_none(seconds, shown):
    assert show_hours(seconds) == shown
