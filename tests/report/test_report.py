"""`splitter report`: what the page holds, and what it leaves alone."""

import json
import shutil
import tempfile

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile
from doors import here, program, read_table, tree, write_files, write_list
from report_pages import (
    HOSTILE,
    block,
    cells,
    column,
    many_rows,
    rows_of,
    speech,
    summary_of,
    troubled,
    write_manifest,
)
from sounds import noise, tone, write_sound
from written_shards import as_shards

import splitter
from splitter import OutputFile, ProcessorDataset


def run(capfd, *arguments):
    said = here(capfd, "run", *arguments, "--workers=0", "--quiet")
    assert said.code in (0, 1), said.err


def reported(capfd, output, *more):
    said = here(capfd, "report", output, *more)
    assert said.code == 0, said.err
    return output / "report.html"


@pytest.fixture
def flacs(folder, capfd):
    """A run over two short recordings, whose five outputs are FLAC."""
    write_sound(folder / "in" / "a.wav", noise(20_000, 2), 8000)
    write_sound(folder / "in" / "b.wav", tone(1.5, 8000), 8000)
    run(capfd, folder / "in", "--seconds=1", "--format=flac", "-o", folder / "loose")
    return folder / "loose"


@pytest.fixture
def talks(folder, capfd):
    """A run over recordings and inputs that fail."""
    run(capfd, troubled(folder), "--seconds=1", "-o", folder / "out")
    return folder / "out"


def test_the_page_says_what_ran_and_what_came_of_it(folder, capfd):
    """The recipe, its parameters, and the numbers of the manifest."""
    run(capfd, speech(folder), "-o", folder / "outputs")
    page = reported(capfd, folder / "outputs")
    manifest = splitter.read_manifest(folder / "outputs")
    summary, rows = summary_of(page), rows_of(page)
    assert (summary["title"], summary["recipe"]) == ("outputs", "chunk")
    assert summary["parameters"]["seconds"] == "10.0"
    numbers = summary["numbers"]
    assert (numbers["inputs"], numbers["outputs"], numbers["failed"]) == (8, 15, 0)
    assert numbers["bytes"] == manifest["size"].sum()
    assert numbers["seconds"] == pytest.approx((manifest["frames"] / manifest["sample_rate"]).sum(), abs=1e-3)
    assert numbers["run"]["inputs"] == 8
    assert numbers["run"]["sound_seconds"] == pytest.approx(numbers["source_seconds"], abs=1e-2)
    assert rows["count"] == 15
    assert column(rows, "output") == list(manifest["output"])
    assert column(rows, "text") == list(manifest["text"])
    assert [label["column"] for label in summary["labels"]][:2] == ["speaker", "language"]


def test_levels_are_those_of_the_samples(folder, capfd):
    """Of each output the length, RMS, peak, clipping and silence are what plain NumPy makes of it."""
    quiet = np.zeros(8000, np.int16)
    loud = noise(8000)[:, 0]
    half = np.concatenate([quiet, tone(1, 8000)[:, 0]])
    long = np.tile(tone(1.003, 8000)[:, 0], 300) // 7
    sounds = {"quiet": quiet, "loud": loud, "half": half, "short": loud[:7], "long": long}
    for name, samples in sounds.items():
        write_sound(folder / "in" / f"{name}.wav", samples, 8000)
    write_sound(folder / "in" / "two.flac", noise(4000, 2), 22050, container="FLAC")
    run(capfd, folder / "in", "--seconds=1000", "-o", folder / "out")
    rows = rows_of(reported(capfd, folder / "out"))
    assert rows["count"] == 6
    levels = {name: cells(values) for name, values in rows["levels"].items()}
    for at, output in enumerate(column(rows, "output")):
        samples, rate = soundfile.read(folder / "out" / output, always_2d=True)
        rms, peak = np.sqrt(np.mean(samples**2)), np.abs(samples).max()
        assert levels["seconds"][at] == pytest.approx(len(samples) / rate, rel=1e-6)
        assert levels["rms_db"][at] == pytest.approx(20 * np.log10(rms) if rms else -120, abs=0.051)
        assert levels["peak_db"][at] == pytest.approx(20 * np.log10(peak) if peak else -120, abs=0.051)
        assert levels["clipped"][at] == pytest.approx(np.mean(np.abs(samples) >= 0.9999), rel=0.01)
        window = rate // 200 * 4
        pieces = [samples[start : start + window] for start in range(0, len(samples), window)]
        silent = np.mean([np.mean(piece**2) < 10 ** (-50 / 10) for piece in pieces])
        assert levels["silence"][at] == pytest.approx(100 * silent, abs=0.06), output


def test_a_sample_that_is_only_just_clipped(folder, capfd):
    """It counts, whether or not something louder is near it."""
    (folder / "out").mkdir()
    for name, most in (("just", 0.9999), ("loud", 1.0)):
        samples = np.full(8000, 0.5, "f4")
        samples[-2:] = 0.9999, most
        soundfile.write(folder / "out" / f"{name}.wav", samples, 8000, subtype="FLOAT")
    rows = [[f"{name}.mp3", f"{name}.wav", 0, "xxh128:0"] for name in ("just", "loud")]
    write_manifest(folder / "out", ["input", "output", "size", "checksum"], rows)
    rows = rows_of(reported(capfd, folder / "out"))
    assert cells(rows["levels"]["clipped"]) == [2 / 8000] * 2


def test_samples_that_are_no_numbers_are_named(folder, capfd):
    """They count as silence, and the row says that they are there; nothing else suffers from it."""
    good = np.linspace(-0.5, 0.5, 8000, dtype="f4")
    bad = np.where(np.arange(8000) % 4000 == 7, np.float32("nan"), good)
    sounds = {"nan": bad, "inf": bad[:8] * np.float32("inf"), "none": good[:0], "loud": 4 * good}
    (folder / "out").mkdir()
    for name, samples in sounds.items():
        soundfile.write(folder / "out" / f"{name}.wav", samples, 8000, subtype="FLOAT")
    rows = [[f"{name}.mp3", f"{name}.wav", 0, "xxh128:0"] for name in sounds]
    write_manifest(folder / "out", ["input", "output", "size", "checksum"], rows)
    rows = rows_of(reported(capfd, folder / "out"))
    assert rows["unread"]["0"].startswith("2 samples are not numbers")
    assert rows["unread"].keys() == {"0", "1"}
    rms = 20 * np.log10(np.sqrt(np.mean(np.square(good))))
    assert cells(rows["levels"]["rms_db"])[::3] == pytest.approx([rms, rms + 20 * np.log10(4)], abs=0.06)
    assert cells(rows["levels"]["peak_db"])[1:3] == [-120, -120]
    summary = summary_of(folder / "out" / "report.html")
    assert [plot["values"] for plot in summary["plots"]] == [4, 4, 4, 4]
    assert summary["clipping"] == {"clipped": 1, "measured": 4}


def test_failures_stand_by_their_causes(talks, capfd):
    """Messages that differ in the input only are one cause, the most frequent first; all inputs are named."""
    page = reported(capfd, talks)
    causes = summary_of(page)["causes"]
    assert [(cause["error"], cause["count"]) for cause in causes] == [
        ("AudioError", 3),
        ("UnreadableInput", 2),
    ]
    assert causes[0]["inputs"] == ["text-0.mp3", "text-1.mp3", "text-2.mp3"]
    assert "is not sound" in causes[0]["message"]
    rows = rows_of(page)
    assert rows["causes"] == [0, 0, 0, 1, 1]
    assert (summary_of(page)["more_causes"], cells(rows["errors"])[-1]) == (
        {"causes": 0, "count": 0},
        "UnreadableInput",
    )
    failed = read_table(talks / "errors.csv")
    assert column(rows, "input")[-5:] == [row["input"] for row in failed]
    assert cells(rows["message"])[-5:] == [row["message"] for row in failed]


def test_of_very_many_the_most_frequent_are_shown(folder, capfd, monkeypatch):
    """A hundred causes of failures and a thousand values of a label, and of the rest how many there are."""
    (folder / "out").mkdir()
    header = ["input", "speaker", "split", "output", "size", "checksum"]
    rows = [[f"{n}.x", f"s{n % 1500}", "ab"[n % 3 == 0], f"{n}/0.bin", 7, "xxh128:0"] for n in range(2500)]
    write_manifest(folder / "out", header, rows)
    failed = [
        [f"in it/{n}.wav", "", "", f"Error{n % 120}", f"/data/here/in it/{n}.wav: no, {n}", "", 1]
        for n in range(360)
    ]
    columns = ["input", "speaker", "split", "error", "message", "traceback", "attempts"]
    write_list(folder / "out" / "errors.csv", [columns, *failed])
    page = reported(capfd, folder / "out", "--sample=0")
    summary = summary_of(page)
    assert [cause["count"] for cause in summary["causes"]] == [3] * 100
    assert summary["more_causes"] == {"causes": 20, "count": 60}
    assert cells(rows_of(page)["errors"]) == [row[3] for row in failed]
    [speakers] = [one for one in summary["labels"] if one["column"] == "speaker"]
    assert [one["outputs"] for one in speakers["values"]] == [2] * 1000
    assert speakers["others"] == {"values": 500, "outputs": 500}
    assert speakers["values"][0] == {"value": "s0", "outputs": 2, "seconds": 0.0, "split": {"b": 2}}
    # whole inputs, but of one that has more than can be listed the first
    monkeypatch.setattr("splitter.report.page.MOST_ROWS", 10)
    rows = [["a.x", "", "", f"a/{n}.bin", 7, "xxh128:0"] for n in range(12)]
    shutil.rmtree(folder / "out")
    (folder / "out").mkdir()
    write_manifest(folder / "out", header, rows)
    page = reported(capfd, folder / "out", "--sample=0")
    assert column(rows_of(page), "output") == [row[3] for row in rows[:10]]
    assert (summary_of(page)["rows"], summary_of(page)["rows_total"]) == (10, 12)


def test_text_from_data_ends_no_script(talks, capfd):
    """A label may be markup, and hold what ends a line of JavaScript: in the page it is neither."""
    page = reported(capfd, talks)
    text = page.read_text(encoding="utf-8")
    assert text.count("</script>") == 5
    assert "<img src=x" not in text
    assert not {"\u2028", "\u2029"} & set(text)
    assert HOSTILE in {one["value"] for label in summary_of(page)["labels"] for one in label["values"]}
    assert HOSTILE in column(rows_of(page), "note")


def test_labels_are_counted_and_divided_by_split(talks, capfd):
    """How many outputs of each value there are, how long, and in which split."""
    labels = {label["column"]: label["values"] for label in summary_of(reported(capfd, talks))["labels"]}
    yes = next(one for one in labels["label"] if one["value"] == "yes")
    assert (yes["outputs"], yes["seconds"], yes["split"]) == (6, 5.0, {"train": 6})
    assert {one["value"]: one["outputs"] for one in labels["split"]} == {"train": 9, "test": 3}
    assert {one["value"]: one["outputs"] for one in labels["sample_rate"]} == {"8000": 12}


def test_a_bar_counts_the_rows_it_leads_to(talks, capfd):
    """Levels that look the same in the table are the same in the plot; all values are between its ends."""
    page = reported(capfd, talks)
    length, level = summary_of(page)["plots"][:2]
    assert level["least"] == pytest.approx(level["most"], abs=0.05)
    assert "edges" not in level
    assert {*cells(rows_of(page)["levels"]["rms_db"])} == {level["least"], None}
    seconds = [one for one in cells(rows_of(page)["levels"]["seconds"]) if one is not None]
    assert np.histogram(seconds, length["edges"])[0].tolist() == length["counts"]
    assert sum(length["counts"]) == len(seconds) == 12


def test_the_same_outputs_give_the_same_page(talks, capfd):
    """Byte for byte, on any day, as the page has no clock but that of the last run."""
    first = reported(capfd, talks).read_bytes()
    assert reported(capfd, talks).read_bytes() == first
    (talks / ".splitter" / "last_run.json").write_text(json.dumps({"seconds": 1e5, "inputs": 7}))
    assert reported(capfd, talks).read_bytes() != first


def test_a_report_is_in_nobodys_way(talks, folder, capfd):
    """The next run, verify, and a run over the folder of outputs take no notice of it."""
    before = tree(talks)
    page = reported(capfd, talks)
    assert {*tree(talks)} - {*before} == {"report.html"}
    said = here(capfd, "run", folder / "in" / "dataset.csv", "--seconds=1", "-o", talks)
    assert "4 of 9 inputs done" in said.err
    assert page.exists()
    assert here(capfd, "verify", talks).code == 0
    run(capfd, talks, "-o", folder / "again")
    assert "report.html" not in {row["input"] for row in read_table(folder / "again" / "manifest.csv")}
    assert read_table(folder / "again" / "errors.csv") == []


def test_written_elsewhere_it_finds_its_way_to_the_outputs(talks, folder, capfd, monkeypatch):
    """With -o nothing is written into the output folder; links lead from the page to the files."""
    before = tree(talks)
    (folder / "pages").mkdir()
    said = here(capfd, "report", talks, "-o", folder / "pages" / "talks.html")
    assert said.code == 0
    assert tree(talks) == before
    summary = summary_of(folder / "pages" / "talks.html")
    assert (summary["folder"], summary["sources"]) == ("../out/", "../in/")
    first, then = said.out.splitlines()
    assert first.startswith(f"{folder}/pages/talks.html: ")
    assert then.startswith(f"next: open {(folder / 'pages' / 'talks.html').as_uri()} in a browser; ")
    # also where the recordings are too much to read
    monkeypatch.setattr("splitter.report.looking.SOURCE_BYTES", 10)
    summary, rows = (read(reported(capfd, talks)) for read in (summary_of, rows_of))
    assert (summary["sources"], rows["sources"]) == ("../in/", {})


def test_of_many_outputs_a_sample_is_read_and_that_is_said(folder, capfd):
    """Counts, lengths and labels are of all rows; which outputs were read depends on their names only."""
    output = many_rows(folder / "out", 1000)
    page = reported(capfd, output, "--sample=50", "--previews=0")
    summary, rows = summary_of(page), rows_of(page)
    assert (summary["measured"], summary["rows"], summary["numbers"]["outputs"]) == (50, 1000, 1000)
    read = rows["measured"]
    assert len(read) == 50
    assert sum(summary["plots"][0]["counts"]) == 1000
    assert sum(one["outputs"] for one in summary["labels"][1]["values"]) == 1000
    # of no place in a recording, and of no recording, there are many
    assert len({row % 100 for row in read}) > 30
    assert len({row // 100 for row in read}) == 10
    names = [column(rows, "output")[row] for row in read]
    reported(capfd, output, "--sample=51", "--previews=0")
    assert {*names} < {column(rows, "output")[row] for row in rows_of(page)["measured"]}


def test_an_output_that_cannot_be_read_is_named(talks, capfd):
    """One that is gone, or is damaged, has no levels, and the row says why; the exit code tells."""
    first, second = (talks / row["output"] for row in read_table(talks / "manifest.csv")[:2])
    first.unlink()
    second.write_bytes(b"no sound")
    said = here(capfd, "report", talks)
    assert said.code == 1
    assert "12 outputs, 10 of them read" in said.out
    gone = f"{first}: does not exist"
    why = "run 'splitter verify' to see if they are unchanged"
    line = f"splitter: 2 outputs cannot be read: {gone}; {second}: is not sound: it is text; {why}"
    assert said.lines == [line]
    rows = rows_of(talks / "report.html")
    assert {*rows["unread"]} == {"0", "1"}
    assert len(rows["measured"]) == 10


@pytest.mark.parametrize("sink", ["files", "webdataset", "parquet"])
def test_outputs_that_are_no_sound_are_named(folder, capfd, sink):
    """The first few, by the names that the manifest has; they are as the recipe made them."""

    class Text(ProcessorDataset):
        def process(self, input_file):
            return [OutputFile("0.wav", b"not sound at all")], {}

    write_files(folder / "in", {f"{number}.txt": "" for number in range(5)})
    manifest = Text(str(folder / "in")).run(folder / "out", workers=0, quiet=True, sink=sink)
    said = here(capfd, "report", folder / "out")
    where = f"{folder}/out/" if sink == "files" else ""
    named = "; ".join(f"{where}{name}: is not sound: it is text" for name in manifest["output"][:3])
    why = "run 'splitter verify' to see if they are unchanged"
    line = f"splitter: 5 outputs cannot be read: {named}; and 2 more; {why}"
    assert (said.code, said.lines) == (1, [line])
    page = (folder / "out" / "report.html").read_bytes()
    assert here(capfd, "verify", folder / "out").code == 0
    here(capfd, "report", folder / "out")
    assert (folder / "out" / "report.html").read_bytes() == page


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_shards_give_the_same_levels(flacs, folder, capfd, kind):
    """What is in shards is read like loose files, and copies of it go into the page."""
    shards = as_shards(flacs, folder / "shards", kind)
    loose, packed = (rows_of(reported(capfd, one)) for one in (flacs, shards))
    assert packed["levels"] == loose["levels"]
    assert packed["unread"] == {}
    summary = summary_of(shards / "report.html")
    assert (summary["shards"], summary["numbers"]["outputs"]) == (True, 5)


def test_outputs_in_shards_after_an_input_without_any(folder, capfd):
    """The page and the command know where they are."""

    class Some(ProcessorDataset):
        def process(self, input_file):
            return [OutputFile("0.txt", input_file.read_text())] if input_file.read_text() else [], {}

    write_files(folder / "in", {"a.txt": "", "b.txt": "text"})
    Some(str(folder / "in")).run(folder / "out", workers=0, quiet=True, sink="webdataset")
    said = here(capfd, "report", folder / "out")
    assert "to play outputs in shards" in said.out
    assert summary_of(folder / "out" / "report.html")["shards"]


@pytest.mark.parametrize("kind", ["tar", ""])
def test_a_report_makes_at_most_one_temporary_folder(flacs, folder, capfd, kind, monkeypatch):
    """For what is in shards; loose files need none."""
    output = as_shards(flacs, folder / "shards", kind) if kind else flacs
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))
    (folder / "temporary").mkdir()
    made, mkdtemp = [], tempfile.mkdtemp

    def noted(**how: str) -> str:
        made.append(mkdtemp(**how))
        return made[-1]

    monkeypatch.setattr("tempfile.mkdtemp", noted)
    reported(capfd, output)
    assert len(made) == (1 if kind else 0)
    assert not [*(folder / "temporary").iterdir()]


def test_an_output_of_which_less_can_be_decoded_cannot_be_read(folder, capfd):
    """The manifest says how many samples it has; a column of the dataset list that is called so does not."""
    for name in ("short", "whole"):
        write_sound(folder / "in" / f"{name}.wav", tone(1, 8000), 8000)
    run(capfd, folder / "in", "-o", folder / "out")
    [short] = (folder / "out" / "short").iterdir()
    for samples in (0, 5000):
        write_sound(short, tone(1, 8000)[:samples], 8000)
        said = here(capfd, "report", folder / "out")
        assert (said.code, said.out.splitlines()[0].endswith("2 outputs, 1 of them read")) == (1, True)
        [line] = said.lines
        assert (
            f": short/{short.name}: {samples:,} of 8,000 samples can be read; run 'splitter verify'" in line
        )
        rows = rows_of(folder / "out" / "report.html")
        assert rows["unread"] == {"0": f"{samples:,} of 8,000 samples can be read"}
        assert [why["row"] for why in summary_of(folder / "out" / "report.html")["worth"]] == [1]
    header = ["input", "frames", "sample_rate", "output", "size", "checksum"]
    (folder / "other").mkdir()
    size = write_sound(folder / "other" / "0.wav", tone(1, 8000), 8000).stat().st_size
    write_manifest(folder / "other", header, [["a.wav", "9000", "8000", "0.wav", size, "xxh128:0"]])
    assert rows_of(reported(capfd, folder / "other"))["unread"] == {}


def test_what_stands_out_is_the_extreme_of_all(folder, capfd):
    """One output may be so in several ways; what is alike in all stands out in none."""
    half = np.concatenate([tone(0.5, 8000), np.zeros((6000, 1), np.int16)])
    sounds = {"a": tone(1, 8000) // 9, "b": half // 30, "c": tone(3, 8000), "d": tone(1, 8000) // 2}
    for name, samples in sounds.items():
        write_sound(folder / "in" / f"{name}.wav", samples, 8000)
    run(capfd, folder / "in", "--seconds=100", "-o", folder / "out")
    worth = {one["row"]: one["why"] for one in summary_of(reported(capfd, folder / "out"))["worth"]}
    assert worth == {0: "shortest", 1: "quietest, most silence", 2: "loudest, longest", 3: "random"}


def test_what_is_unusual_for_its_label_is_worth_a_listen(folder, capfd):
    """What would be usual elsewhere: a loud one among quiet ones, and a quiet one among loud ones."""
    rows = [["input", "speaker", "split"]]
    for number in range(20):
        loud = (number % 2 == 0) != (number in (7, 12))
        samples = tone(1, 8000, hertz=200 + number) // (2 if loud else 20)
        if number < 4:
            # the extremes of all
            samples = [samples // 9, 2 * samples, samples[:4000], np.tile(samples, (2, 1))][number]
        write_sound(folder / "in" / f"{number}.wav", samples, 8000)
        rows.append([f"{number}.wav", ["anna", "ben"][number % 2], "train"])
    run(capfd, write_list(folder / "in" / "list.csv", rows), "--seconds=100", "-o", folder / "out")
    worth = {one["row"]: one["why"] for one in summary_of(reported(capfd, folder / "out"))["worth"]}
    assert {row: why for row, why in worth.items() if " for " in why} == {
        7: "loud for ben",
        12: "quiet for anna",
    }
    assert len(worth) == 8


def test_texts_are_told_from_labels(folder, capfd):
    """By their names or by what they are; keywords and long labels stay labels."""
    (folder / "out").mkdir()
    header = ["input", "caption", "text", "sentence", "species", "output", "size", "checksum", "from_text"]
    words = ["all", "that", "he", "ever", "said", "was", "that", "it", "is", "so"]
    rows = [
        [
            *(f"{n}.x", " ".join(words[n % 5 :]) + f" {n}", ["yes", "no"][n % 2], f"hi{n}"),
            f"one of the {['mammals', 'birds'][n % 3 == 0]}",
            *(f"{n}/0.bin", 7, "xxh128:0", f"it {n}"),
        ]
        for n in range(30)
    ]
    write_manifest(folder / "out", header, rows)
    schema = folder / "out" / ".splitter" / "schema.json"
    schema.write_text(schema.read_text().replace('"from_text": "int"', '"from_text": "str"'))
    summary = summary_of(reported(capfd, folder / "out"))
    assert summary["texts"] == ["caption", "sentence", "from_text"]
    assert [one["column"] for one in summary["labels"]] == ["text", "species"]


def test_outputs_without_a_length_have_a_report(folder, capfd):
    """Arrays have no length: the time of a label is that of the outputs that have one."""
    write_sound(folder / "in" / "a.wav", tone(1, 8000), 8000)
    dataset = write_list(folder / "in" / "list.csv", [["input", "speaker"], ["a.wav", "anna"]])
    run(capfd, dataset, "--recipe=spectrogram", "--n-fft=256", "-o", folder / "out")
    summary = summary_of(reported(capfd, folder / "out"))
    assert summary["kinds"] == {"other": 1, "image": 1}
    [speaker] = [one for one in summary["labels"] if one["column"] == "speaker"]
    assert [(one["value"], one["outputs"], one["seconds"]) for one in speaker["values"]] == [("anna", 2, 1.0)]


def test_the_report_of_a_run_into_a_store_stands_beside_it(folder, capfd):
    """At a URL it is made and written like in a folder; one that stands elsewhere has copies to play."""
    url = "memory://report-of-a-run/out"
    run(capfd, troubled(folder), "--seconds=1", "-o", folder / "out")
    run(capfd, folder / "in" / "dataset.csv", "--seconds=1", "-o", url)
    local = reported(capfd, folder / "out").read_bytes()
    said = here(capfd, "report", url)
    assert said.code == 0, said.err
    assert said.out.startswith(f"{url}/report.html: ")
    page = folder / "page.html"
    page.write_bytes(fsspec.filesystem("memory").cat_file("/report-of-a-run/out/report.html"))
    (folder / "local.html").write_bytes(local)
    assert rows_of(page)["levels"] == rows_of(folder / "local.html")["levels"]
    assert summary_of(page)["folder"] == ""
    assert here(capfd, "report", url, "-o", page).code == 0
    assert summary_of(page)["folder"] is None
    assert len(json.loads(block(page, "previews"))) == 12
    said = here(capfd, "run", folder / "in" / "dataset.csv", "--seconds=1", "--workers=0", "-o", url)
    assert "4 of 9 inputs done" in said.err


def test_inputs_that_were_not_tried_are_counted(folder, capfd):
    """Of a run that did not come to its end the page says so, and so does the command."""
    arguments = ["run", troubled(folder), "--seconds=1", "--workers=0", "--quiet", "-o", folder / "out"]
    here(capfd, *arguments, "--limit=2")
    said = here(capfd, "report", folder / "out")
    assert "; 7 of 9 inputs not tried yet" in said.out.splitlines()[0]
    numbers = summary_of(folder / "out" / "report.html")["numbers"]
    assert (numbers["inputs"], numbers["left"], numbers["failed"]) == (9, 7, 0)
    here(capfd, *arguments)
    numbers = summary_of(reported(capfd, folder / "out"))["numbers"]
    assert (numbers["inputs"], numbers["left"], numbers["failed"]) == (9, 0, 5)
    (folder / "out" / "manifest.csv").unlink()
    said = here(capfd, "report", folder / "out")
    assert (said.code, len(said.lines)) == (2, 1)
    assert "out/manifest.csv: there is no manifest, because the run has not ended; run again with" in said.err


def test_texts_and_images_are_previewed(folder, capfd):
    """Of a recipe that is not sound the page shows how texts begin, sizes, labels and its own numbers."""
    write_files(folder / "in", {"a.txt": "simple", "b.txt": "<b>scaleable</b>" * 100})
    run(capfd, folder / "in", "--recipe=words", "--num-chars=700", "--overlap=0", "-o", folder / "out")
    page = reported(capfd, folder / "out")
    summary, rows = summary_of(page), rows_of(page)
    assert summary["kinds"] == {"text": 4}
    assert rows["texts"]["0"] == "simple"
    assert rows["texts"]["1"] == ("<b>scaleable</b>" * 100)[:600] + "…"
    assert [plot["title"] for plot in summary["plots"]] == ["Size", "Outputs per input"]
    assert summary["worth"] == []


def test_what_was_skipped_is_shown_with_its_reason(folder, capfd):
    """An input that the recipe left out is a row of its own, not a failure."""
    write_sound(folder / "in" / "a.wav", tone(1, 8000), 8000)
    run(capfd, folder / "in", "--recipe=segments", "-o", folder / "out")
    page = reported(capfd, folder / "out")
    assert (summary_of(page)["numbers"]["skipped"], summary_of(page)["numbers"]["failed"]) == (1, 0)
    rows = rows_of(page)
    assert rows["state"] == [2]
    assert "it has no annotations" in cells(rows["message"])[0]


@pytest.mark.parametrize("name", [b"caf\xe9.wav", b"/".join([b"n" * 200] * 6) + b".wav"])
def test_odd_names_come_through(folder, capfd, name):
    """The bytes of a file name stand in the page as Python has them; long ones are not cut."""
    name = name.decode("utf-8", "surrogateescape")
    write_sound(folder / "in" / name, tone(1, 8000), 8000)
    write_list(folder / "list.csv", [["input"], [name]])
    run(capfd, folder / "list.csv", f"--root={folder / 'in'}", "-o", folder / "out")
    rows = rows_of(reported(capfd, folder / "out"))
    assert column(rows, "input") == [name]
    assert column(rows, "output") == [f"{name[:-4]}/000000_0.000s.wav"]
    assert len(rows["measured"]) == 1


def test_an_empty_manifest_has_a_page(folder, capfd):
    """A run over no inputs, and one of which every input failed."""
    (folder / "out").mkdir()
    write_manifest(folder / "out", ["input", "output", "size", "checksum"], [])
    assert summary_of(reported(capfd, folder / "out"))["numbers"]["outputs"] == 0
    write_files(folder / "in", {"a.wav": "no sound"})
    run(capfd, folder / "in", "-o", folder / "failed")
    assert summary_of(reported(capfd, folder / "failed"))["numbers"]["failed"] == 1


REFUSED = {
    "no manifest": (["report", "{folder}"], "there is no manifest; pass the output folder of a finished run"),
    "a folder to write to": (["report", "{out}", "-o", "{folder}"], "is a folder; name the file"),
    "no such folder": (["report", "{out}", "-o", "{folder}/no/page.html"], "there is no folder {folder}/no"),
    "nothing to serve": (["serve", "{folder}"], "there is no manifest"),
    "no such port": (["serve", "{out}", "--port=70000"], "70000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_one_line(talks, folder, capfd, case):
    """Refused with exit code 2; nothing is written."""
    arguments, message = REFUSED[case]
    before = tree(folder)
    said = here(capfd, *(one.format(folder=folder, out=talks) for one in arguments))
    assert (said.code, len(said.lines)) == (2, 1)
    assert message.format(folder=folder) in said.err
    assert tree(folder) == before


def test_a_folder_that_cannot_be_written_is_named(talks, capfd):
    """The old report stays as it was."""
    page = reported(capfd, talks)
    before = page.read_bytes()
    shutil.move(talks / ".splitter", talks / "kept")
    (talks / "report.html.new").mkdir()
    said = here(capfd, "report", talks)
    assert (said.code, len(said.lines)) == (1, 1)
    assert f"cannot write {page}" in said.err
    assert page.read_bytes() == before


# Ctrl-C when a hundred outputs were read, however fast the machine is
INTERRUPTED = """
import itertools, os, signal, sys
from splitter.cli.main import exit_code
from splitter.report import looking

measure, numbers = looking.measure, itertools.count()

def measured(*arguments):
    if next(numbers) == 100:
        os.kill(os.getpid(), signal.SIGINT)
    return measure(*arguments)

looking.measure = measured
sys.exit(exit_code(sys.argv[1:]))
"""


@pytest.mark.slow
def test_interrupted_it_leaves_nothing(folder, tmp_path):
    """While outputs are read: one line, and no page, nor a part of one."""
    many = many_rows(folder / "outputs", 1000)
    (page := tmp_path / "page").mkdir()
    said = program("report", many, "-o", page / "page.html", python=["-c", INTERRUPTED])
    assert (said.code, said.err) == (130, "splitter: interrupted; no report was written\n")
    assert list(page.iterdir()) == []


def test_help_comes_at_once():
    """The two commands explain themselves."""
    for name in ("report", "serve"):
        said = program(name, "--help")
        assert said.code == 0
        assert "--sample" in said.out


def test_a_column_whose_name_is_not_utf8(folder, capfd):
    """Old lists have such, and fields of archives: the page and the other tables spell it out."""
    write_files(folder, {"a.txt": "hello"})
    (folder / "list.csv").write_bytes("input,café\na.txt,x\ngone.txt,y\n".encode("latin-1"))
    run = ("run", folder / "list.csv", "--recipe", "words", "-o", folder / "out", "--workers", "0")
    assert here(capfd, *run, "--manifest-format", "csv,parquet,jsonl").code == 1
    assert pq.read_table(folder / "out/manifest.parquet")["caf\\xe9"].to_pylist() == ["x"] * 4
    lines = (folder / "out/manifest.jsonl").read_text().splitlines()
    assert [json.loads(line)["caf\udce9"] for line in lines] == ["x"] * 4
    assert here(capfd, "report", folder / "out").code == 0
