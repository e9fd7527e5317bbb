"""`--name`: where outputs go by a template, and that no two inputs ever share a name."""

import itertools
import json
import re
import tempfile
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from doors import Said, here, read_table, tree, write_files, write_list
from hypothesis import event, given, settings
from hypothesis import strategies as st
from nightly import depth
from object_store import Bucket
from sounds import tone, write_sound

from splitter import OutputFile, ProcessorDataset
from splitter.errors import BadResult, Refused, RunStopped
from splitter.storage.naming import Naming

HEADER = ["input", "speaker", "site"]

# -- random templates, rows and metadata --------------------------------------------------------------------

FIELDS = [
    *["{source}", "{speaker}"] * 3,
    "{index}",
    "{index}",
    "{site}",
    "{path}",
    "{name}",
    "{label}",
    "{kind}",
]
FIELDS += ["{site|none}", "{kind|none}", "{index:03d}", "{start:.1f}", "{start:05.1f}", "{number:02d}"]
TEXTS = ["_", "-", "x", "1", "_", ".", "e", "\u0301", "é_", "a.b"]
# what many would write
TEMPLATES = ["{path}", "{path}_{index}", "{path}/{label}-{index}", "{speaker}/{source}_{index:06d}"]
TEMPLATES += ["{label}/{source}_{index:04d}", "{source}_{start:.1f}_{number:02d}", "{label}/{name}/{path}"]
TEMPLATES += ["{speaker}/{label}_{index}", "{site}{speaker}/{index}", "{source}_{name}/{path}"]
PATHS = [
    "a.txt",
    "b/a.txt",
    "b/A.md",
    "a1.txt",
    "a.b.txt",
    "a_0.txt",
    "a_0.wav/c.txt",
    "a.wav/c.txt",
    "b.txt",
]
PATHS += ["a/0.txt", "a/b.txt", "a-", "shards/a.txt", "c/d/e.txt"]

parts = st.lists(st.sampled_from(FIELDS) | st.sampled_from(TEXTS), min_size=1, max_size=5).map("".join)
templates = st.sampled_from(TEMPLATES) | st.lists(parts, min_size=1, max_size=3).map("/".join)
values = st.sampled_from(["s", "s", "t", "t", "S", "s1", "s_", "é", "e\u0301", "1", "s_0", "s.wav", "shards"])
odd_values = values | st.sampled_from(["", "x/y", "..", ".", ".splitter", "v" * 254])
paths = st.sampled_from(PATHS)
own_names = st.sampled_from(["0.wav", "1.wav", "0.txt", "1.WAV", "0", "0.b", "a.tar.gz", ".0", "x_1.0"])
numbers = st.sampled_from([0, 1, 7, -1, 0.5, -2.25, 10.0, 1e3])


@st.composite
def outputs(draw: st.DrawFn) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]:
    """Names in the recipe with metadata, and the metadata of the input."""
    names = draw(st.lists(own_names, max_size=4, unique_by=str.lower))
    about = [
        {"label": draw(values), "start": draw(numbers), "number": draw(st.integers(-3, 120))} for _ in names
    ]
    return list(zip(names, about, strict=True)), {"kind": draw(odd_values)}


@st.composite
def lists(draw: st.DrawFn) -> list[list[str]]:
    listed = draw(st.lists(paths, min_size=1, max_size=4, unique=True))
    one = draw(st.sampled_from([values, values, values, odd_values]))
    return [[path, draw(one), draw(one)] for path in listed]


def filled(template: str, row: list[str], number: int, own: str, about: dict[str, Any]) -> str:
    """What the template says, by other means than those of the product."""
    stem, _, ending = own.rpartition(".")
    path = without_extension(row[0])
    known = {**about, "speaker": row[1], "site": row[2], "path": path, "source": re.sub(".*/", "", path)}
    known |= {"index": number, "name": stem or own}

    def value(found: re.Match[str]) -> str:
        text, form = known[found[1]], found[3] or ""
        if text == "":
            text = found[2]
        if form.endswith("d"):
            return f"%{form}" % text
        return f"%{form}" % float(text) if form else str(text)

    return re.sub(r"{(\w+)(?:\|(\w+))?(?::([^}]*))?}", value, template) + ("." + ending if stem else "")


def without_extension(path: str) -> str:
    return re.sub(r"\.[^./]*$", "", path)


def same(name: str) -> str:
    """Equal for names that some disk takes for one."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def around(name: str) -> Iterable[str]:
    pieces = name.split("/")
    return ("/".join(pieces[:count]) for count in range(1, len(pieces)))


@settings(max_examples=depth(200))
@given(templates, lists(), st.data())
def test_a_name_tells_whose_it_is(template: str, rows: list[list[str]], data: st.DataObject):
    """From each name follows the claim of its input; who needs a folder tells who may have a file there."""
    try:
        naming = Naming(template, HEADER, "input")
        folders = [without_extension(row[0]) for row in rows]
        claims = [naming.claim(row, folder) for row, folder in zip(rows, folders, strict=True)]
    except (Refused, ValueError):
        event("refused")
        return
    made: list[tuple[str, int]] = []
    for number, (row, folder) in enumerate(zip(rows, folders, strict=True)):
        some, shared = data.draw(outputs())
        for index, (own, about) in enumerate(some):
            known = {key: str(value) for key, value in {**shared, **about}.items()}
            try:
                name = naming.name(row, folder, own, index, known.__getitem__)
            except BadResult:
                event("an output that has no name")
                continue
            assert name == filled(template, row, index, own, {**shared, **about})
            assert naming.claim_in(name) == claims[number]
            made.append((name, number))
    needs = [{*naming.outer_claims(row, folder)} for row, folder in zip(rows, folders, strict=True)]
    for (name, one), (other, two) in itertools.permutations(made, 2):
        if claims[one] != claims[two]:
            event("two claims")
            assert same(name) != same(other)
            if same(name) in map(same, around(other)):
                assert claims[one] in needs[two]


class Told(ProcessorDataset):
    """Makes the outputs that each input tells it to make."""

    def process(self, input_file):
        made, shared = json.loads(input_file.read_text())
        return (OutputFile(own, f"{input_file.input} {own}", about) for own, about in made), shared


def done(folder: Path, out: Path, template: str) -> dict[str, str] | None:
    """Run it; what has failed and why, or None if it was refused."""
    try:
        Told(folder / "list.csv").run(out, name=template, workers=0, quiet=True, max_failures="100%")
    except Refused:
        return None
    errors = out / "errors.csv"
    return {row["input"]: row["message"] for row in read_table(errors)} if errors.exists() else {}


@settings(max_examples=depth(20))
@given(templates, lists(), st.data())
def test_outputs_are_where_the_template_says_or_nothing_is_done(template, rows, data):
    """Refused before work, or every input is done or failed, and no output was taken for that of another."""
    told = {row[0]: data.draw(outputs()) for row in rows}
    with tempfile.TemporaryDirectory(prefix="splitter test 'é ") as home:
        folder, out = Path(home, "in"), Path(home, "out")
        write_files(folder, {path: json.dumps(one) for path, one in told.items()})
        write_list(folder / "list.csv", [HEADER, *rows])
        failed = done(folder, out, template)
        if failed is None:
            event("refused")
            assert not out.exists()
            return
        assert all("--name" in message for message in failed.values())
        expected = [
            (
                filled(template, row, index, own, {**shared, **about}),
                f"{row[0]} {own}",
            )
            for row in rows
            if row[0] not in failed
            for made, shared in [told[row[0]]]
            for index, (own, about) in enumerate(made)
        ]
        event(f"{len(expected) > 1} with {len(rows)} inputs")
        there = [(name, text.decode()) for name, text in tree(out).items() if not name.endswith(".csv")]
        assert sorted(there) == sorted(expected)
        assert len({same(name) for name, _ in expected}) == len(expected)


# -- at the command line ------------------------------------------------------------------------------------

FILES = {"a.txt": "abc", "b/a.txt": "bcd", "c.txt": "cde"}
ROWS = [["a.txt", "s1", "x"], ["b/a.txt", "s2", "x"], ["c.txt", "s1", "y"]]
BY_SPEAKER = "{speaker}/{source}_{index:03d}"


def run(
    capfd: Any,
    folder: Path,
    template: str,
    *options: str,
    rows: list[list[str]] = ROWS,
    recipe: str = "words",
) -> Said:
    if not (folder / "in" / "c.txt").exists():
        write_files(folder / "in", FILES)
    write_list(folder / "in" / "list.csv", [HEADER, *rows])
    name = [f"--name={template}"] if template else []
    fixed = [f"--recipe={recipe}", "--workers=0", f"--output={folder / 'out'}"]
    return here(capfd, "run", folder / "in" / "list.csv", *fixed, *name, *options)


def made(folder: Path) -> dict[str, str]:
    """The outputs that the manifest names; nothing else is there."""
    rows = read_table(folder / "out" / "manifest.csv")
    there = {name: text.decode() for name, text in tree(folder / "out").items() if not name.endswith(".csv")}
    assert there.keys() == {row["output"] for row in rows if row["output"]}
    assert all(there[row["output"]] == row["part"] for row in rows if row["output"])
    return there


def test_a_folder_for_each_speaker(folder: Path, capfd):
    """Its outputs are read, checked, made again and processed further like any others."""
    assert run(capfd, folder, BY_SPEAKER).code == 0
    expected = {
        f"{speaker}/{source}_00{number}.txt": part
        for speaker, source, parts in [("s1", "a", "ab bc"), ("s2", "a", "bc cd"), ("s1", "c", "cd de")]
        for number, part in enumerate(parts.split())
    }
    assert made(folder) == expected
    assert run(capfd, folder, BY_SPEAKER).err.startswith("nothing to do")
    assert here(capfd, "verify", folder / "out", "--deep").code == 0
    second = here(capfd, "run", folder / "out", "--recipe=words", "--workers=0", f"--output={folder / 'two'}",
                  "--name={path}", "--num-chars=1", "--overlap=0", "--limit=1")  # fmt: skip
    assert second.code == 1
    assert "'1.txt' would both get the name 's1/a_000.txt'; add {index} to --name" in second.err
    (folder / "out" / "s1" / "a_001.txt").write_text("??")
    assert run(capfd, folder, BY_SPEAKER, "--repair").code == 0
    assert made(folder) == expected


def test_a_text_stands_for_an_empty_value(folder: Path, capfd):
    """The same for all inputs, so that names of two that have none are still known to differ."""
    rows = [["a.txt", "", "x"], ["b/a.txt", "none", "x"], ["c.txt", "", "y"]]
    said = run(capfd, folder, "{speaker|none}/{source}_{index}", rows=rows)
    assert (said.code, "a.txt and b/a.txt both give 'none/a_0'" in said.err) == (2, True)
    said = run(capfd, folder, "{speaker}/{path}_{index}", rows=rows)
    assert "its 'speaker' is empty" in said.err
    assert "write {speaker|none} to use" in said.err
    assert run(capfd, folder, "{speaker|none}/{path}_{index}", rows=rows).code == 0
    assert sorted(made(folder)) == [
        *("none/a_0.txt", "none/a_1.txt", "none/b/a_0.txt", "none/b/a_1.txt"),
        *("none/c_0.txt", "none/c_1.txt"),
    ]


def test_a_plan_shows_the_first_name(folder: Path, capfd):
    """Without its extension, which only the recipe knows, and what is not known before the work."""
    write_files(folder / "in", FILES)
    write_list(folder / "in" / "list.csv", [HEADER, *ROWS])
    said = here(capfd, "plan", folder / "in" / "list.csv", "--recipe=words", f"--output={folder / 'out'}",
                "--name={speaker}/{part}/{source}_{index:03d}")  # fmt: skip
    assert "first name: s1/{part}/a_000" in said.out.splitlines()


REFUSED = {
    "two of one name": ("{source}_{index}", "a.txt and b/a.txt both give 'a_0'; use {path}"),
    "by case": (
        "{source}_{index}",
        "a.txt and A.md give 'a_0' and 'A_0'; use",
        [["a.txt", "", ""], ["A.md", "", ""]],
    ),
    "text and a number that run together": ("{source}{index}", "two inputs could get the same name"),
    "pieces that could be equal": ("{part}_{source}", "two inputs could get the same name"),
    "a file where another needs a folder": (
        "{path}",
        "a.txt and a.wav/c.txt give 'a' and 'a.wav/c'",
        [["a.txt", "", ""], ["a.wav/c.txt", "", ""]],
    ),
    "an empty value": ("{speaker}/{path}", "row 2 of the dataset list: its 'speaker' is empty", "s  s"),
    "a slash": (
        "{speaker}/{path}",
        "row 2 of the dataset list: its 'speaker' contains a slash, 'x/y'",
        "s x/y",
    ),
    "the folder above": ("{speaker}/{path}", "row 1 of the dataset list: --name would give", ".. s"),
    "a reserved folder": ("{speaker}/{path}", "'SHARDS', which is reserved; change the row", "s SHARDS"),
    "a long value": ("{speaker}_{index}/{path}", "a name that is too long", "s " + "é" * 128),
    "an attribute": ("{path}{speaker.__class__}", "{speaker.__class__} is not the name of a column"),
    "an item": ("{path}{speaker[0]}", "{speaker[0]} is not the name of a column"),
    "a conversion": ("{path}{speaker!r}", "{speaker!r} is not the name of a column"),
    "a format of a format": ("{path}_{index:{speaker}}", "formats are for numbers"),
    "a format of text": ("{path}_{speaker:>10}", "formats are for numbers"),
    "a format of a column": ("{path}_{speaker:03d}", "columns of the dataset list are text"),
    "no field": ("{path}_{}", "{} is not the name of a column"),
    "an open brace": ("{path}_{index", "expected '}' before end of string"),
    "nothing": ("/", "'' cannot be a file or a folder"),
    "a way out": ("../{path}", "'..' cannot be a file or a folder"),
    "{path} beside what is known later": ("{path}_{part}", "put other fields after a slash"),
    "shards": (BY_SPEAKER, "--name is only for loose files", None, "--sink=webdataset"),
    "an unknown field of a recipe that is known": (
        "{sorce}/{path}",
        "nor metadata that this recipe makes; did you mean 'source'?",
        None,
        "--recipe=chunk",
    ),
    "whole seconds": (
        "{start_seconds:d}/{path}",
        "start_seconds has decimals; write {start_seconds:.0f} or",
        None,
        "--recipe=chunk",
    ),
    "a number of text": ("{source_format:02d}/{path}", "source_format is text", None, "--recipe=chunk"),
    "nothing for an empty value": ("{speaker|}/{path}", "needs a text without a slash after the |"),
    "a folder for an empty value": ("{speaker|a/b}/{path}", "needs a text without a slash after the |"),
    "another value for what is never empty": ("{path|none}", "{path|none} is never empty; leave the | out"),
    "a text for a number": ("{path}_{start|none:.1f}", "'none' is not such a number"),
    "a column with the name of a field": (
        "{name}/{path}",
        "use --rename name=NEW",
        None,
        "--rename=site=name",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_could_go_wrong_is_refused_before_the_work(folder: Path, capfd, case):
    """In one line, and nothing is written."""
    template, expected, *more = case
    rows, options = more[0] if more else None, more[1:]
    if isinstance(rows, str):
        rows = [[name, value, ""] for name, value in zip(FILES, rows.split(" "), strict=False)]
    said = run(capfd, folder, template, *options, rows=rows or ROWS)
    assert (said.code, said.err.count("\n")) == (2, 1), said.err
    assert expected in said.err
    assert not (folder / "out").exists()


TOLD = {
    "no such metadata": (
        "{lable}/{path}",
        "neither the dataset list nor the metadata of the outputs has 'lable'; did",
    ),
    "an empty value": ("{empty}/{path}", "output '0.txt': its 'empty' is empty, and --name"),
    "a slash": ("{slash}/{path}", "its 'slash' contains a slash, 'x/y'"),
    "the folder above": ("{up}/{path}", "the name '../a.txt', which cannot be used"),
    "a reserved folder": ("{own}/{path}", "the name '.Splitter/a.txt', which is reserved"),
    "a reserved file": ("{table}", "the name 'manifest.csv', which is reserved"),
    "a long name": ("{long}/{path}", "in which a part has more than 255 bytes"),
    "no number": ("{label:03d}/{path}", "its 'label' is 'owl', which cannot be written as {label:03d}"),
    "no finite number": ("{endless:.1f}/{path}", "its 'endless' is 'inf', which cannot"),
}


@pytest.mark.parametrize("case", TOLD.values(), ids=TOLD)
def test_what_only_a_piece_tells_is_the_error_of_its_input(folder: Path, case):
    """It says which output, and what to do; nothing of the input is left."""
    template, expected = case
    about = {"label": "owl", "empty": "", "slash": "x/y", "up": "..", "own": ".Splitter", "table": "manifest"}
    outputs = [["0.csv" if "table" in template else "0.txt", about]]
    shared = {"long": "x" * 256, "endless": float("inf")}
    write_files(folder, {"a.txt": json.dumps([outputs, shared])})
    write_list(folder / "list.csv", [["input"], ["a.txt"]])
    failed = done(folder, folder / "out", template)
    assert failed
    assert expected in failed["a.txt"]
    assert {*tree(folder / "out")} == {"manifest.csv", "errors.csv"}


def test_metadata_of_the_input_is_known_when_outputs_get_their_names(folder: Path):
    """Also that which is known only after the last output; numbers are as the manifest has them."""
    outputs = [["x.wav", {"start": 0.0}], ["y.flac", {"start": 2.5}]]
    write_files(folder, {"a.txt": json.dumps([outputs, {"kind": "bird"}])})
    write_list(folder / "list.csv", [["input"], ["a.txt"]])
    assert done(folder, folder / "out", "{kind}/{name}/{source}_{start:04.1f}") == {}
    rows = [(row["output"], row["start"]) for row in read_table(folder / "out" / "manifest.csv")]
    assert rows == [("bird/x/a_00.0.wav", "0.0"), ("bird/y/a_02.5.flac", "2.5")]


def test_each_row_of_an_input_fills_in_its_own_columns(folder: Path, capfd):
    """With a recipe that groups rows."""
    write_sound(folder / "a.wav", tone(1, 16000), 16000)
    annotations = [["0", "0.5", "owl"], ["0.5", "1", "jay"], ["0.2", "0.4", "owl"]]
    rows = [["a.wav", *annotation] for annotation in annotations]
    write_list(folder / "list.csv", [["input", "start", "end", "label"], *rows])
    options = [f"--output={folder / 'out'}", "--name={label}/{source}_{index:02d}", "--workers=0"]
    said = here(capfd, "run", folder / "list.csv", "--recipe=segments", *options)
    assert said.code == 0, said.err
    named = sorted((row["output"], row["label"]) for row in read_table(folder / "out" / "manifest.csv"))
    assert named == [("jay/a_02.wav", "jay"), ("owl/a_00.wav", "owl"), ("owl/a_01.wav", "owl")]


# -- from run to run ----------------------------------------------------------------------------------------


def test_another_template_moves_the_outputs_and_says_so(folder: Path, capfd):
    """Also to none and back; nothing of what was there before stays."""
    assert run(capfd, folder, "").code == 0
    moves = ["x/{speaker}/{path}_{index}", "y/{path}/{index}", ""]
    for before, template in itertools.pairwise(["", *moves]):
        said = run(capfd, folder, template)
        assert said.code == 0, said.err
        assert f"name changed from {before or None!r} to {template or None!r}" in said.err
        assert "3 finished inputs changed and will be redone" in said.err
        tops = {name.split("/")[0] for name in made(folder)}
        assert tops == ({template[0]} if template else {"a", "b", "c"})


HELD = {
    "columns that change places": (
        BY_SPEAKER,
        [["a.txt", "s2", "x"], ["b/a.txt", "s1", "x"], ROWS[2]],
        "--fresh",
    ),
    "an input that is gone": (BY_SPEAKER, [["b/a.txt", "s1", "x"]], "--prune"),
    "another template": (
        "{site}/{speaker}_{index:03d}",
        [["c.txt", "a", "s1"], ["a.txt", "q", "q"]],
        "--fresh",
    ),
    "none, and an input that is gone": ("", [["s1.md", "", ""]], "--prune"),
    "none": ("", [*ROWS, ["s1.md", "", ""]], "--fresh"),
}


@pytest.mark.parametrize("case", HELD.values(), ids=HELD)
def test_names_that_another_input_still_has_are_refused(folder: Path, capfd, case):
    """It could be done later, or never: what it has must not be replaced, nor removed with what is stale."""
    template, rows, remedy = case
    write_files(folder / "in", {"s1.md": "xyz"})
    assert run(capfd, folder, BY_SPEAKER).code == 0
    before = tree(folder / "out")
    said = run(capfd, folder, template, rows=rows)
    assert (said.code, said.err.count("\n")) == (2, 1), said.err
    assert remedy in said.err
    assert tree(folder / "out") == before
    assert run(capfd, folder, template, remedy, rows=rows).code == 0
    assert len(made(folder)) == 2 * len(rows)


def test_outputs_at_the_top_of_an_input_that_is_gone(folder: Path, capfd):
    """They are in no folder that an input could have."""
    assert run(capfd, folder, "{speaker}-{source}_{index}").code == 0
    said = run(capfd, folder, "", rows=ROWS[1:])
    assert said.code == 0, said.err
    assert "kept: the outputs of 1 input that is no longer in the list (a.txt)" in said.err
    rows = read_table(folder / "out" / "manifest.csv")
    gone = {"s1-a_0.txt", "s1-a_1.txt"}
    assert {row["output"] for row in rows} | gone == {
        one for one in tree(folder / "out") if ".csv" not in one
    }


def test_an_input_that_cannot_be_read_keeps_its_names(folder: Path, capfd):
    """Another one is refused as long as it has them, though its row says that it would get others."""
    assert run(capfd, folder, BY_SPEAKER).code == 0
    before = made(folder)
    (folder / "in" / "a.txt").unlink()
    write_files(folder / "in", {"d/a.txt": "xyz"})
    now = [["a.txt", "s3", "x"], *ROWS[1:]]
    said = run(capfd, folder, BY_SPEAKER, rows=[*now, ["d/a.txt", "s1", "x"]])
    assert said.code == 2
    assert "d/a.txt: its outputs could get names that outputs of a.txt still have; use --fresh" in said.err
    assert run(capfd, folder, BY_SPEAKER, rows=[*now, ["d/a.txt", "s4", "x"]]).code == 1
    assert made(folder) == before | {"s4/a_000.txt": "xy", "s4/a_001.txt": "yz"}


def test_a_file_that_no_run_made_is_left_alone(folder: Path, capfd):
    """In a folder that inputs share, too."""
    assert run(capfd, folder, BY_SPEAKER, rows=ROWS[:1]).code == 0
    mine = folder / "out" / "s1" / "c_001.txt"
    mine.write_text("mine")
    assert run(capfd, folder, BY_SPEAKER).code == 1
    (failed,) = read_table(folder / "out" / "errors.csv")
    assert failed["message"].startswith(
        "s1/c_001.txt in the output folder already exists, and no run made it"
    )
    assert mine.read_text() == "mine"
    mine.unlink()
    assert run(capfd, folder, BY_SPEAKER, "--retry-failed").code == 0
    assert len(made(folder)) == 6


class Sweeping(ProcessorDataset):
    """A recipe whose second input removes what the first has staged, as a program that cleans up might."""

    def process(self, input_file):
        if input_file.columns["staging"]:
            for path in Path(input_file.columns["staging"]).rglob("0.txt"):
                path.unlink()
        return [OutputFile("0.txt", input_file.input)], {}


def test_a_staged_file_that_was_removed_is_not_committed(folder: Path):
    """As for outputs with a folder of their own; the next run makes it again."""
    write_files(folder / "in", FILES)
    out = folder / "out"

    def run(staging: str) -> None:
        write_list(folder / "list.csv", [["input", "staging"], ["in/a.txt", ""], ["in/b/a.txt", staging]])
        Sweeping(folder / "list.csv").run(out, name="{path}_{index}", workers=0, batch_size=2, quiet=True)

    with pytest.raises(RunStopped, match="the files staged there are gone"):
        run(str(out / ".splitter" / "staging"))
    assert read_table(out / "manifest.csv") == []
    run("")
    assert [(out / row["output"]).read_text() for row in read_table(out / "manifest.csv")] == [
        "in/a.txt",
        "in/b/a.txt",
    ]


def test_in_a_store(folder: Path, capfd, s3: Bucket, monkeypatch: pytest.MonkeyPatch):
    """Outputs are sent to their names, those of a changed row are removed, and a stranger's object stays."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    output = f"--output={s3.url('out')}"
    assert run(capfd, folder, BY_SPEAKER, output).code == 0
    expected = {f"{speaker}_00{number}.txt" for speaker in ("s1/a", "s2/a", "s1/c") for number in (0, 1)}
    assert s3.tree("out").keys() - {"manifest.csv"} == expected
    s3.write("out/s3/c_001.txt", b"a stranger's")
    rows = [*ROWS[:1], ["b/a.txt", "s3", "x"], ["c.txt", "s3", "y"]]
    said = run(capfd, folder, BY_SPEAKER, output, rows=rows)
    assert said.code == 1
    assert "s3/c_001.txt in the output folder already exists" in said.err
    kept = {"s1/a_000.txt", "s1/a_001.txt", "s3/a_000.txt", "s3/a_001.txt", "s3/c_001.txt"}
    assert s3.tree("out").keys() - {"manifest.csv", "errors.csv"} == kept
    assert here(capfd, "verify", s3.url("out")).code == 1


@pytest.mark.slow
def test_workers_share_folders(folder: Path, capfd):
    """They make, fill and remove the same ones at the same time."""
    names = [f"{number:02d}.txt" for number in range(40)]
    rows = [[name, f"s{number % 3}", "x"] for number, name in enumerate(names)]
    write_files(folder / "in", dict.fromkeys(names, "abcd"))
    for template in ("{source}_{index}", "{site}/{speaker}/{part}/{source}"):
        said = run(capfd, folder, template, "--workers=2", "--batch-size=3", rows=rows)
        assert said.code == 0, said.err
        assert len(made(folder)) == 120
