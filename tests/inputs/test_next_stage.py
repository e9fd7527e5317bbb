"""From one recipe to the next: the outputs of one run are the inputs of another."""

import csv
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from doors import CHECKOUT, here, read_table, tree, write_files, write_list
from report_pages import summary_of

import splitter
from splitter import InputList, OutputFile, ProcessorDataset, Skip
from splitter.recipes.words import Words

OWN = {"output", "size", "checksum"}


def run(capfd, dataset: Path, output: Path, *options: str) -> Path:
    said = here(capfd, "run", dataset, "--output", output, "--workers", "0", *options)
    assert said.code == 0, said.err
    return output / "manifest.csv"


def header_of(manifest: Path) -> list[str]:
    with manifest.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def from_rows(first: Path) -> list[dict[str, str]]:
    """What a second stage must say of its inputs, by the manifest of the first, whose labels are known."""
    rows = []
    for row in read_table(first):
        if row["output"]:
            names = {name: name if name in LABELS else f"from_{name}" for name in row}
            rows.append({**{names[name]: text for name, text in row.items()}, "input": row["output"]})
            del rows[-1]["from_output"]
    return rows


LABELS = {"speaker", "language", "text", "label"}


@pytest.mark.parametrize(("sound", "one", "two"), [(True, "silence", "chunk"), (False, "words", "words")])
def test_the_second_stage_knows_where_its_inputs_are_from(capfd, folder, sound, one, two):
    """Each row has the labels as they were, and the first stage's own columns with a prefix."""
    write_files(folder / "inputs", {"a.txt": "simple", "b.txt": "scaleable"})
    words = write_list(
        folder / "l.csv", [["input", "label"], ["inputs/a.txt", "007"], ["inputs/b.txt", "x,\ny"]]
    )
    dataset = CHECKOUT / "data_samples" / "dataset.csv" if sound else words
    first = run(capfd, dataset, folder / "one", "--recipe", one, *["--limit=2"] * sound)
    second = run(capfd, first, folder / "two", "--recipe", two, "--column", "output")
    expected = from_rows(first)
    assert len(expected) > 3
    rows = read_table(second)
    came = [{name: row[name] for name in expected[0]} for row in rows]
    assert [row for at, row in enumerate(came) if not at or came[at - 1] != row] == expected
    # what is not from the first stage is of this one
    assert {*header_of(second)} - {*expected[0]} >= OWN
    for row in rows:
        assert (folder / "one" / row["input"]).stat().st_size == int(row["from_size"])
        assert row["output"].startswith(row["input"].rpartition(".")[0] + "/")


def test_a_third_stage_keeps_the_names_of_the_second(capfd, folder, words):
    """`from_input` is what all began with; a name that is taken gets another prefix, and nothing is lost."""
    first = run(
        capfd, words, folder / "one", "--recipe=words", "--root=inputs", "--num-chars=5", "--overlap=2"
    )
    second = run(
        capfd, first, folder / "two", "--recipe=words", "--column=output", "--num-chars=3", "--overlap=2"
    )
    third = run(capfd, second, folder / "three", "--recipe=words", "--column=output")
    by_output = [{row["output"]: row for row in read_table(one)} for one in (first, second)]
    rows = read_table(third)
    assert len(rows) > len(by_output[1]) > len(by_output[0]) > 4
    for row in rows:
        before = by_output[1][row["input"]]
        begin = by_output[0][before["input"]]
        assert row["from_input"] == begin["input"] in {"a.txt", "b.txt", "c.txt", "d.txt"}
        assert (row["from_size"], row["from_part"], row["from_word"]) == (
            begin["size"],
            begin["part"],
            begin["word"],
        )
        again = [row[f"from_from_{name}"] for name in ("input", "size", "checksum", "part", "word")]
        assert again == [before[name] for name in ("input", "size", "checksum", "part", "word")]


class Some(ProcessorDataset):
    """Some inputs are left out, some have metadata only, some outputs have no file."""

    def process(self, input_file):
        text = input_file.read_text()
        if text == "skip":
            raise Skip("not wanted")
        files = (
            [OutputFile("0.txt", "whole"), OutputFile(metadata={"kind": "no file"})] if text == "file" else []
        )
        return files, {"found": len(files)}


@pytest.fixture
def some(folder) -> Path:
    """The manifest of a run with rows of all kinds."""
    write_files(folder / "inputs", {"a.txt": "file", "b.txt": "skip", "c.txt": "none"})
    Some(folder / "inputs").run(folder / "one", workers=0, quiet=True)
    return folder / "one" / "manifest.csv"


def test_rows_without_an_output_file_are_left_out_and_counted(capfd, folder, some):
    """Skipped inputs, metadata only; what they had in columns of their own stays there for the others."""
    said = here(capfd, "run", some, "--column=output", "--recipe=words", "-o", folder / "two", "--workers=0")
    assert said.lines[0] == "3 rows of the manifest have no output file: left out"
    assert said.lines[2].startswith("1 of 1 input done")
    rows = read_table(folder / "two" / "manifest.csv")
    assert {(row["from_input"], row["input"], row["from_found"], row["from_skipped"]) for row in rows} == {
        ("a.txt", "a/0.txt", "2", "")
    }


@pytest.mark.parametrize("listing", ["options", "InputList"])
def test_stages_from_python(folder, some, listing):
    """With `column` as an option of the run, or in the list; the list knows its length and its columns."""
    if listing == "options":
        manifest = splitter.run(Words(some), folder / "two", column="output", workers=0, quiet=True)
    else:
        dataset = Words(InputList(some, column="output"))
        assert len(dataset) == 1
        assert dataset[0][1] == {"word": "whole"}
        manifest = dataset.run(folder / "two", workers=0, quiet=True)
    assert manifest["input"].unique().tolist() == ["a/0.txt"]
    assert manifest["from_found"].unique().tolist() == ["2"]
    assert manifest["part"].tolist() == ["wh", "ho", "ol", "le"]


def test_renaming_goes_by_the_names_in_the_manifest(capfd, folder, some):
    """--rename comes before the prefixes, also for the outputs; what is taken is prefixed again."""
    options = ["--rename=input=song", "--rename=output=from_size", "--rename=found=n"]
    second = run(capfd, some, folder / "two", "--column=output", "--recipe=words", *options)
    assert header_of(second)[:4] == ["song", "from_size", "from_from_size", "from_checksum"]
    assert "n" in header_of(second)
    assert {row["from_size"] for row in read_table(second)} == {"a/0.txt"}


def test_a_stage_is_done_again_where_the_one_before_has_changed(capfd, folder, words):
    """The checksum of an input is among its columns."""
    options = ["--recipe=words", "--root=inputs", "--num-chars=4", "--overlap=1"]
    first = run(capfd, words, folder / "one", *options)
    second = run(capfd, first, folder / "two", "--recipe=words", "--column=output")
    before = read_table(second)
    (folder / "inputs" / "a.txt").write_text("SIMPLE")
    run(capfd, words, folder / "one", *options)
    said = here(capfd, "run", first, "--column=output", "--recipe=words", "-o", folder / "two", "--workers=0")
    assert "finished inputs changed and will be redone" in said.err
    after = read_table(second)
    assert [row["part"] for row in after] == [
        row["part"].upper() if row["from_input"] == "a.txt" else row["part"] for row in before
    ]


def test_a_filtered_manifest_beside_the_first_is_one_too(capfd, folder, words):
    """Rows may be taken out, and columns added: these are labels."""
    first = run(capfd, words, folder / "one", "--recipe=words", "--root=inputs")
    rows = read_table(first)[:3]
    chosen = write_list(
        folder / "one" / "good.csv", [[*rows[0], "by"], *([*row.values(), "ear"] for row in rows)]
    )
    second = run(capfd, chosen, folder / "two", "--column=output", "--recipe=words")
    assert [(row["input"], row["by"]) for row in read_table(second)] == [
        (row["output"], "ear") for row in rows
    ]


def test_a_manifest_that_was_copied_away_is_an_ordinary_list(capfd, folder, some):
    """Nobody knows which of its columns are labels, so they need other names."""
    shutil.copy(some, folder / "copy.csv")
    command = ["run", folder / "copy.csv", "--column=output", "--recipe=words", "-o", folder / "two"]
    said = here(capfd, *command)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.endswith("which the manifest uses itself; use --rename output=NEW\n")


def test_a_manifest_without_its_column_is_told_of_it(capfd, folder, some):
    """Without --column the inputs would be those of the first stage, each as often as it has outputs."""
    said = here(capfd, "run", some, "--recipe=words", "-o", folder / "two")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "or --column output to process the output files" in said.err


def test_a_stage_does_not_go_into_the_folder_that_it_reads(capfd, folder, some):
    """What --prune would remove there is what it reads."""
    before = tree(some.parent)
    (folder / "link").symlink_to(some.parent)
    for output in (some.parent, folder / "link"):
        said = here(capfd, "run", some, "--column=output", "--recipe=words", "-o", output, "--fresh")
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert "holds the run that" in said.err
    assert tree(some.parent) == before


def test_a_damaged_schema_is_one_line(capfd, folder, some):
    (some.parent / ".splitter" / "schema.json").write_text("{")
    said = here(capfd, "run", some, "--column=output", "--recipe=words", "-o", folder / "two")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "schema.json: cannot be read" in said.err


@pytest.fixture
def pieces(folder, capfd) -> Path:
    """The manifest of a first stage whose pieces have labels: of four seconds, the first three have some."""
    sound = CHECKOUT / "data_samples/speech/greeting.wav"
    write_files(folder / "in", {"r.wav": sound.read_bytes(), "r.txt": "0\t1\thello\n0.5\t2.5\tbo|th\n"})
    how = ("--recipe", "chunk", "--seconds", "1", "--annotations", "beside")
    return run(capfd, folder / "in", folder / "one", *how)


def test_stats_and_report_count_the_labels_of_the_first_stage(capfd, folder, pieces):
    """Each of several labels, and the most useful column first; numbers and names of files are no labels."""
    second = run(capfd, pieces, folder / "two", "--column=output", "--recipe=chunk", "--seconds=0.5")
    third = run(capfd, second, folder / "three", "--column=output", "--recipe=chunk", "--seconds=0.5")
    for manifest in (second, third):
        rows = read_table(manifest)
        expected = {
            label: sum(label in cell for cell in (row["from_labels"].replace("\\", "") for row in rows))
            for label in ("hello", "bo|th")
        } | {"": sum(not row["from_labels"] for row in rows)}
        assert min(expected.values()) > 1
        said = here(capfd, "stats", manifest.parent, "--by", "from_labels", "--json")
        assert {one["value"]: one["outputs"] for one in json.loads(said.out)["groups"]} == expected
        page = manifest.parent / "report.html"
        assert here(capfd, "report", manifest.parent).code == 0
        found = {label["column"]: label["values"] for label in summary_of(page)["labels"]}
        assert [name for name in found if name.startswith("from_")] == ["from_labels"] == [*found][:1]
        assert {one["value"]: one["outputs"] for one in found["from_labels"]} == expected


@pytest.mark.parametrize(
    ("where", "column", "hint"),
    [
        ("labels == 'x'", ["--column=output"], "no column 'labels'; did you mean 'from_labels'?"),
        ("part == 'x'", ["--column=output"], "no column 'part'; there is 'from_input', 'input'"),
        (
            "from_labels == 'x'",
            [],
            "did you mean 'labels'? (write text in quotes); names with from_ need --column output",
        ),
    ],
)
def test_conditions_on_labels_of_the_first_stage(pieces, capfd, where, column, hint):
    """The hint names the column that this command has, and what else it takes."""
    said = here(capfd, "run", pieces, "--where", where, *column, "--output", pieces.parent / "two")
    assert said.code == 2
    assert hint in said.err


def test_stats_name_the_column_of_the_first_stage(capfd, folder, pieces):
    """What was called labels there has another name now."""
    second = run(capfd, pieces, folder / "two", "--column=output", "--recipe=chunk")
    said = here(capfd, "stats", second.parent, "--by", "labels")
    assert said.lines == [
        "splitter: --by labels: the manifest has no such column; did you mean 'from_labels'?"
    ]


def test_a_folder_of_outputs_has_no_labels(capfd, folder, pieces):
    """They are in the manifest, which a run of the folder names; the run goes on without."""
    said = here(
        capfd, "run", pieces.parent, "--recipe", "chunk", "--output", folder / "two", "--workers", "0"
    )
    assert said.code == 0
    note = f"to keep their labels, pass {pieces} with --column output instead"
    assert [line for line in said.lines if "labels" in line] == [
        f"{pieces.parent}: holds the outputs of an earlier run; {note}"
    ]
    assert "from_labels" not in header_of(folder / "two/manifest.csv")
    said = here(capfd, "run", pieces.parent, "--recipe", "chunk", "--output", folder / "quiet", "--quiet")
    assert (said.code, said.err) == (0, "")


# -- after a stage of metadata only -------------------------------------------------------------------------


class Length(ProcessorDataset):
    """Judges, and makes no file; what is called skip is skipped."""

    def process(self, input_file):
        content = input_file.read_bytes()
        if content == b"skip":
            raise Skip("not wanted")
        return [], {"length": len(content)}


@pytest.fixture
def judged(folder) -> Path:
    """The manifest of a run that made metadata only, over a list with labels and another root."""
    write_files(folder / "inputs", {"a.txt": "simple", "b.txt": "skip", "c.txt": "scaleable"})
    words = [["input", "label"], ["a.txt", "007"], ["b.txt", "y"], ["c.txt", "x,\ny"]]
    dataset = write_list(folder / "list.csv", words)
    Length(dataset).run(folder / "judged", root="inputs", workers=0, quiet=True)
    return folder / "judged" / "manifest.csv"


def test_a_stage_of_metadata_only_is_followed_by_its_inputs(capfd, folder, judged):
    """The same paths, below the same root; the metadata are labels, also for --where, and nothing is lost."""
    said = here(capfd, "run", judged, "--recipe=words", "-o", folder / "two", "--workers=0")
    assert (said.code, said.lines[0]) == (0, "1 row of the manifest was skipped: left out")
    header = ["input", "label", "length", "output", "size", "checksum", "part", "word"]
    assert header_of(folder / "two/manifest.csv") == header
    rows = read_table(folder / "two/manifest.csv")
    assert {(row["input"], row["label"], row["length"], row["word"]) for row in rows} == {
        ("a.txt", "007", "6", "simple"),
        ("c.txt", "x,\ny", "9", "scaleable"),
    }
    # as if the labels had stood in the first list
    listed = write_list(
        folder / "l.csv",
        [["input", "label", "length"], ["a.txt", "007", "6"], ["c.txt", "x,\ny", "9"]],
    )
    same = run(capfd, listed, folder / "same", "--recipe=words", "--root=inputs")
    assert same.read_bytes() == (folder / "two/manifest.csv").read_bytes()
    where = ("--where", "length > 6", "--rename", "length=n")
    assert "no column 'length'" in here(capfd, "run", judged, *where, "-o", folder / "none").err
    long = run(capfd, judged, folder / "long", "--recipe=words", *where[:2])
    assert {row["input"] for row in read_table(long)} == {"c.txt"}


class First(ProcessorDataset):
    """Makes no file, and has metadata under another name."""

    def process(self, input_file):
        return [], {"first": input_file.read_text()[0]}


def test_a_stage_after_two_of_metadata_only(capfd, folder, judged):
    """What both found goes along, in order or joined; --keep cannot keep an input without a file."""
    First(judged).run(folder / "second", workers=0, quiet=True, keep="length > 6")
    third = run(capfd, folder / "second/manifest.csv", folder / "three", "--recipe=words")
    First(folder / "inputs").run(folder / "other", workers=0, quiet=True)
    labels = ("--labels", folder / "other/manifest.csv")
    joined = run(capfd, judged, folder / "joined", "--recipe=words", *labels)
    for manifest in (third, joined):
        assert header_of(manifest)[:5] == ["input", "label", "length", "first", "output"]
        assert {row["input"]: row["first"] for row in read_table(manifest)} == {"a.txt": "s", "c.txt": "s"}


def test_metadata_of_a_run_is_joined_without_its_other_columns(capfd, folder, judged):
    """What the list has itself stays as it is there; inputs that were skipped have no metadata."""
    listed = write_list(folder / "l.csv", [["input", "label"], *([f"{one}.txt", "own"] for one in "abc")])
    joined = run(capfd, listed, folder / "two", "--recipe=words", "--root=inputs", "--labels", judged)
    assert header_of(joined)[:4] == ["input", "label", "length", "output"]
    assert {(row["input"], row["label"], row["length"]) for row in read_table(joined)} == {
        ("a.txt", "own", "6"),
        ("b.txt", "own", ""),
        ("c.txt", "own", "9"),
    }


@pytest.mark.parametrize("kind", ["tar", "virtual"])
def test_inputs_that_are_no_files_are_found_again(capfd, folder, kind):
    """Members of shards, and virtual pieces of the stage before."""
    sound = CHECKOUT / "data_samples/speech/greeting.wav"
    write_files(folder / "in", {"r.wav": sound.read_bytes()})
    if kind == "tar":
        with tarfile.open(folder / "in.tar", "w") as archive:
            archive.add(folder / "in/r.wav", "r.wav")
        Length(folder / "in.tar").run(folder / "judged", workers=0, quiet=True)
    else:
        cut = run(capfd, folder / "in", folder / "cut", "--seconds=1", "--sink=virtual")
        Length(InputList(cut, column="output")).run(folder / "judged", workers=0, quiet=True)
    judged = read_table(folder / "judged/manifest.csv")
    again = splitter.run(
        Length(folder / "judged/manifest.csv"),
        folder / "again",
        workers=0,
        quiet=True,
        rename=["length=before"],
    )
    assert len(judged) == len(again) == (1 if kind == "tar" else 6)
    assert [str(length) for length in again["length"]] == [row["length"] for row in judged]
    assert [*again["before"]] == [row["length"] for row in judged]


def test_what_cannot_follow_a_stage_of_metadata_only(capfd, folder, judged):
    """Each in one line, which says what does."""
    for options, output, why in (
        (["--column=output"], "two", "no row has an output file; leave out --column output"),
        (["--where=length > 6", "--column=output"], "two", "no row has an output file; leave out --column"),
        (["--all-rows"], "two", "--all-rows is only for the outputs of a run"),
        ([], "judged", "holds the run that"),
    ):
        said = here(capfd, "run", judged, "--recipe=words", "-o", folder / output, *options)
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert why in said.err
    said = here(capfd, "run", judged.parent, "--recipe=words", "-o", folder / "two")
    assert said.err == (
        f"splitter: {judged.parent}: it holds no file; use {judged} to take the inputs of that run again, "
        "with its metadata as labels\n"
    )


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
def test_the_folder_of_a_run_into_shards_stands_for_its_shards(capfd, folder, sink):
    """Also its folder `shards`; and nothing of it is ever the output."""
    write_files(folder / "in", {"a.txt": "simple", "b.txt": "word"})
    one = run(capfd, folder / "in", folder / "one", "--recipe=words", f"--sink={sink}").parent
    again = ["--recipe=words", "--num-chars=1", "--overlap=0"]
    # beside its labels, a text in an archive has to be named
    again += ["--member=txt"] if sink == "webdataset" else []
    pattern = f"{one}/shards/*.{'tar' if sink == 'webdataset' else 'parquet'}"
    expected = tree(run(capfd, Path(pattern), folder / "two", *again).parent)
    assert len(expected) > 4
    for number, dataset in enumerate((one, one / "shards")):
        assert tree(run(capfd, dataset, folder / f"more-{number}", *again).parent) == expected
    said = here(capfd, "run", one, "--output", one, *again, "--workers=0")
    assert (said.code, "is the input folder; choose another --output" in said.err) == (2, True)
