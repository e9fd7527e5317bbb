"""`splitter verify` finds whatever was done to an output folder, and nothing else."""

import csv
import errno
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import soundfile
import xxhash
from doors import WORDS, here, program, read_table, write_files, write_list
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import depth
from parquet_footers import (
    PACKED,
    PAGES_AT,
    ROWS_OF_FILE,
    ROWS_OF_GROUP,
    SIZE_OF_GROUP,
    UNPACKED,
    VALUES,
    lie,
)
from strangers import at_most

import splitter
import splitter.engine.decide
from splitter import InputFile, OutputFile, ProcessorDataset, Skip
from splitter.errors import Refused
from splitter.ledger import list_copy
from splitter.storage.checked_file import sealed
from splitter.storage.content import READ_AT_ONCE
from splitter.verification.findings import Verdict

# more than there is now
MOST_MEMORY = 1 << 30
MORE = {"deep/er/e.txt": "naïve", "deep/f g.txt": "comma,word", "empty.txt": "", "deep/lost.txt": None}
LIAR = '''
import io
import numpy as np
import soundfile
from splitter import OutputFile, ProcessorDataset

class Liar(ProcessorDataset):
    """Says something else of a recording than its header does."""

    def __init__(self, inputs, key: str = "", ending: str = "wav", more: bool = False):
        super().__init__(inputs)
        self.key, self.ending, self.more = key, ending, more

    def process(self, input_file):
        content = io.BytesIO()
        soundfile.write(content, np.zeros((4000, 2)), 16000, format=self.ending)
        about = {"sample_rate": 16000, "channels": 2, "frames": 4000}
        if self.key:
            about[self.key] += 1
        if self.more:
            about["more"] = 1.5
        return [OutputFile(f"0.{self.ending}", content.getvalue(), about)], {}
'''
SIGNER = '''
from splitter import OutputFile, ProcessorDataset, Skip

SIGN = "!"

class Signer(ProcessorDataset):
    """Signs each text."""

    def __init__(self, inputs, times: int = 1):
        super().__init__(inputs)
        self.times = times

    def process(self, input_file):
        text = input_file.read_text()
        if not text:
            raise Skip("it is empty")
        return [OutputFile("signed.txt", text + SIGN * self.times, {"length": len(text)})], {}
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The outputs of a run over words in several folders; one of the inputs is missing, so it failed."""
    folder = tmp_path_factory.mktemp("verify") / "it's a naïve folder"
    texts = {**WORDS, **MORE}
    write_files(folder / "inputs", {name: text for name, text in texts.items() if text is not None})
    write_list(folder / "list.csv", [["input", "label"], *([name, f"{name}, loud"] for name in texts)])
    done = program(
        *("run", folder / "list.csv", "--root", "inputs", "--recipe", "words"),
        *("--output", folder / "outputs", "--quiet", "--workers", "2"),
        *("--manifest-format", "csv,parquet,jsonl", "--audiofolder"),
    )
    assert done.code == 1, done
    return folder / "outputs"


@pytest.fixture
def outputs(made, folder) -> Path:
    """A copy of them, to be damaged."""
    return Path(shutil.copytree(made, folder / "outputs", symlinks=True))


def found(verdict: Verdict, name: str) -> bool:
    """Whether a finding names a file."""
    return any(finding.file == name or name in finding.message for finding in verdict.findings)


def output_names(outputs: Path) -> list[str]:
    return [row["output"] for row in read_table(outputs / "manifest.csv") if row["output"]]


def test_nothing_is_found_where_nothing_is_wrong(outputs, capfd):
    said = here(capfd, "verify", outputs)
    assert (said.code, said.err) == (0, "")
    (line,) = said.out.splitlines()
    assert "no problems found: 8 inputs, " in line
    assert "1 failed (see errors.csv)" in line


def test_nothing_is_written(outputs):
    """The folder can be somebody else's, on a disk that cannot be written."""
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in outputs.rglob("*")}
    for path in [*outputs.rglob("*"), outputs]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert splitter.verify(outputs).ok
    finally:
        for path in [outputs, *outputs.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in outputs.rglob("*")}


def test_the_json_is_one_object_of_a_fixed_shape(outputs, capfd):
    (outputs / "a/0.txt").unlink()
    said = here(capfd, "verify", outputs, "--json")
    content = json.loads(said.out)
    assert (said.code, content["ok"], content["inputs"], content["failed"]) == (1, False, 8, 1)
    assert content["findings"] == [{"kind": "missing", "file": "a/0.txt", "message": "does not exist"}]
    assert list(content) == [
        *("output", "ok", "inputs", "done", "skipped", "failed", "outputs", "bytes", "made_again", "gone"),
        *("dropped", "inputs_dropped", "unstated", "seconds", "findings"),
    ]


# -- damage ------------------------------------------------------------------------------------------------


TABLES = ["manifest.csv", "errors.csv", "manifest.parquet", "manifest.jsonl", "metadata.parquet"]


def flip(outputs: Path, draw: Callable) -> str:
    """One byte of an output or a table is another."""
    name = draw(st.sampled_from([*output_names(outputs), *TABLES]))
    content = bytearray((outputs / name).read_bytes())
    place = draw(st.integers(0, len(content) - 1))
    content[place] ^= draw(st.integers(1, 255))
    (outputs / name).write_bytes(content)
    return name


def cut(outputs: Path, draw: Callable) -> str:
    name = draw(st.sampled_from([*output_names(outputs), *TABLES]))
    os.truncate(outputs / name, draw(st.integers(0, (outputs / name).stat().st_size - 1)))
    return name


def append(outputs: Path, draw: Callable) -> str:
    name = draw(st.sampled_from([*output_names(outputs), *TABLES]))
    with (outputs / name).open("ab") as file:
        file.write(draw(st.binary(min_size=1, max_size=9)))
    return name


def delete(outputs: Path, draw: Callable) -> str:
    name = draw(st.sampled_from([*output_names(outputs), *TABLES]))
    (outputs / name).unlink()
    return name


def put_a_stranger(outputs: Path, draw: Callable) -> str:
    """Anything that no run has made: a file, an empty one, a link, deep down or in a folder of its own."""
    folder = draw(st.sampled_from(["", "a/", "deep/er/e/", "new/folder/", "deep/"]))
    name = f"{folder}{draw(st.sampled_from(['0.txt.bak', '.hidden', 'ü', 'manifest.csv.old', '9.txt']))}"
    (outputs / name).parent.mkdir(parents=True, exist_ok=True)
    what = draw(st.sampled_from(["file", "link", "folder"]))
    if what == "file":
        (outputs / name).write_bytes(draw(st.binary(max_size=3)))
    elif what == "link":
        (outputs / name).symlink_to("nowhere")
    else:
        (outputs / name).mkdir()
        name += "/"
    return name


def swap(outputs: Path, draw: Callable) -> str:
    """Two outputs have each other's names."""
    contents = {name: (outputs / name).read_bytes() for name in output_names(outputs)}
    one = draw(st.sampled_from(sorted(contents)))
    other = draw(st.sampled_from([name for name in sorted(contents) if contents[name] != contents[one]]))
    (outputs / one).write_bytes(contents[other])
    (outputs / other).write_bytes(contents[one])
    return one


def replace(outputs: Path, draw: Callable) -> str:
    """Something else has the name of an output."""
    name = draw(st.sampled_from(output_names(outputs)))
    content = (outputs / name).read_bytes()
    (outputs / name).unlink()
    kind = draw(st.sampled_from(["folder", "pipe", "link to the same content"]))
    if kind == "folder":
        (outputs / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(outputs / name)
    else:
        (outputs.parent / "elsewhere").write_bytes(content)
        (outputs / name).symlink_to(outputs.parent / "elsewhere")
    return name


def edit_rows(outputs: Path, draw: Callable) -> str:
    """A row of a table is edited, removed, doubled or moved, by a CSV library."""
    table = draw(st.sampled_from(["manifest.csv", "errors.csv"]))
    with (outputs / table).open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    at = draw(st.integers(0, len(rows) - 1))
    row = rows[at]
    what = draw(st.sampled_from(["edit", "remove", "double", "move", "rename a column"]))
    name = row[header.index("output")] if table == "manifest.csv" else row[0]
    if what == "edit":
        column = draw(st.integers(0, len(row) - 1))
        rows[at] = [
            *row[:column],
            row[column] + draw(st.sampled_from(["x", ",", "0", "\n"])),
            *row[column + 1 :],
        ]
        name = table
    elif what == "remove":
        rows.remove(row)
    elif what == "double":
        rows.insert(draw(st.integers(0, len(rows))), row)
    elif what == "move" and len(rows) > 1:
        other = draw(st.sampled_from([place for place in range(len(rows)) if rows[place] != row]))
        rows[at], rows[other] = rows[other], rows[at]
        name = table
    else:
        header[draw(st.integers(0, len(header) - 1))] += "2"
        name = table
    with (outputs / table).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return name or table


def own_files(outputs: Path) -> list[str]:
    """Those of .splitter that say anything of the outputs: not a lock, nor what a run took."""
    own = sorted(path for path in (outputs / ".splitter").rglob("*") if path.is_file())
    return [str(path.relative_to(outputs)) for path in own if path.name not in ("lock", "last_run.json")]


def harm_an_own_file(outputs: Path, draw: Callable) -> str:
    """What all else is held against is flipped, cut, appended to, replaced by a folder, or not there."""
    name = draw(st.sampled_from(own_files(outputs)))
    path = outputs / name
    content = path.read_bytes()
    what = draw(st.sampled_from(["flip", "flip", "cut", "append", "delete", "folder"]))
    if what == "flip":
        place = draw(st.integers(0, len(content) - 1))
        flipped = bytes([content[place] ^ draw(st.integers(1, 255))])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
    elif what == "cut":
        os.truncate(path, draw(st.integers(0, len(content) - 1)))
    elif what == "append":
        path.write_bytes(content + draw(st.sampled_from([b"\n", b" ", b"}", b"\0"])))
    else:
        path.unlink()
        if what == "folder":
            path.mkdir()
        elif "/records/" in name or name.endswith("tables.json"):
            # its inputs are not done, and what it names is strange
            name = ""
    return name


def edit_the_kept_list(outputs: Path, draw: Callable) -> str:
    """A row of the copy of the list is another, as CSV."""
    path = outputs / ".splitter/dataset.csv"
    rows = read_lists(path)
    at = draw(st.integers(1, len(rows) - 1))
    what = draw(st.sampled_from(["path", "label", "remove", "double"]))
    if what in ("path", "label"):
        rows[at][what == "label"] += "x"
    elif what == "remove":
        del rows[at]
    else:
        rows.insert(at, rows[at])
    write_list(path, rows)
    return ".splitter/dataset.csv"


def read_lists(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


DAMAGE = [
    *(flip, cut, append, delete, put_a_stranger, swap, replace, edit_rows),
    *(harm_an_own_file, edit_the_kept_list),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
@settings(max_examples=depth(15))
@given(data=st.data())
def test_all_damage_is_found_and_the_file_named(made, folder, damage, data):
    """Of any kind, at any place."""
    shutil.rmtree(folder / "outputs", ignore_errors=True)
    outputs = Path(shutil.copytree(made, folder / "outputs"))
    name = damage(outputs, data.draw)
    verdict = splitter.verify(outputs, workers=1)
    assert verdict.exit_code == 1
    assert found(verdict, name), (name, verdict.findings)


def test_each_finding_is_one_line_that_names_the_file(outputs, capfd):
    (outputs / "a/0.txt").unlink()
    (outputs / "b/1.txt").write_text("xx")
    (outputs / "a/new\nline").write_text("")
    said = here(capfd, "verify", outputs)
    assert said.code == 1
    *lines, last, following = said.out.splitlines()
    (row,) = (row for row in read_table(outputs / "manifest.csv") if row["output"] == "b/1.txt")
    checksums = f"the checksum xxh128:{xxhash.xxh3_128_hexdigest(b'xx')}", row["checksum"]
    assert lines == [
        f"{outputs}/a/0.txt: does not exist",
        f"{outputs}/b/1.txt: has {checksums[0]} where the manifest says {checksums[1]}",
        f"{outputs}/a/new\\nline: is not listed in the manifest",
    ]
    assert "3 findings" in last
    assert (
        following
        == "next: run the same 'splitter run' command with --repair to redo what is damaged or missing"
    )


def test_an_edited_row_is_told_by_its_line_and_column(outputs, capfd):
    path = outputs / "manifest.csv"
    path.write_text(path.read_text().replace(",si,simple", ",sí,simple"))
    said = here(capfd, "verify", outputs)
    assert said.lines == []
    assert said.out.splitlines()[0] == (
        f"{path}: line 2, the row of a/0.txt: part is 'sí' where 'si' is committed"
    )


def test_a_table_saved_with_other_line_ends_is_found(outputs):
    path = outputs / "manifest.csv"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert not splitter.verify(outputs).ok


def test_a_lost_commit_record_is_inputs_that_are_not_accounted_for(outputs):
    records = sorted((outputs / ".splitter/records").iterdir())
    records[0].unlink()
    kinds = {finding.kind for finding in splitter.verify(outputs).findings}
    assert "input" in kinds


def test_a_damaged_commit_record_is_a_finding(outputs):
    record = min((outputs / ".splitter/records").iterdir())
    os.truncate(record, record.stat().st_size - 1)
    damaged, all_else = splitter.verify(outputs).findings
    assert (damaged.kind, damaged.file) == ("record", f".splitter/records/{record.name}")
    assert all_else.message.startswith("nothing else was checked")


def test_a_list_that_cannot_be_read_is_a_finding(outputs, monkeypatch):
    """As from a disk with a bad sector: the file is named, and the rest of the findings are there."""

    def unreadable(_: object) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(list_copy, "measure_file", unreadable)
    (finding,) = splitter.verify(outputs).findings
    assert ".splitter/dataset.csv: Input/output error" in finding.message


@pytest.mark.slow
def test_what_a_limited_run_has_left_for_later_is_one_line(words, folder, capfd):
    """However many inputs that are; --verbose and --json name each."""
    out = folder / "out"
    again = "run the same 'splitter run' command to continue"
    for limit, line in (
        ("3", "d.txt: is not done"),
        ("2", f"{out}: 2 of 4 inputs (c.txt, d.txt) are not done"),
    ):
        here(
            capfd,
            "run",
            words,
            "--root",
            "inputs",
            "--recipe",
            "words",
            "--limit",
            limit,
            "-o",
            out,
            "--fresh",
        )
        said = here(capfd, "verify", out)
        assert (said.code, said.out.splitlines()[0]) == (1, f"{line}; {again}")
    assert f"{out}: 2 inputs not done; 4 inputs, " in said.out.splitlines()[1]
    each = [f"{name}: is not done; {again}" for name in ("c.txt", "d.txt")]
    assert here(capfd, "verify", out, "--verbose").out.splitlines()[:-1] == each
    findings = json.loads(here(capfd, "verify", out, "--json").out)["findings"]
    assert [(one["kind"], one["file"]) for one in findings] == [("input", "c.txt"), ("input", "d.txt")]


def test_of_very_many_findings_the_first_are_told_and_the_rest_counted(outputs, capfd):
    lost = output_names(outputs)
    for name in lost:
        (outputs / name).unlink()
    (outputs / "stranger").touch()
    *lines, more, last, _ = here(capfd, "verify", outputs).out.splitlines()
    assert len(lost) > len(lines) == 20 + 1
    assert more == (
        f"{outputs}: {len(lost) - 20} more findings of kind 'missing'; use --verbose or --json to "
        "see them all"
    )
    assert f"{len(lost) + 1} findings; " in last
    assert len(here(capfd, "verify", outputs, "--verbose").out.splitlines()) == len(lost) + 3
    for table in ("manifest.csv", "errors.csv"):
        (outputs / table).write_text("input\n")
    said = here(capfd, "verify", outputs).out
    assert f"{outputs}/errors.csv: " in said
    assert f"{outputs}/manifest.csv: {len(lost) - 20 + 2} more findings of kind 'row'; " in said


def test_a_run_that_was_interrupted_is_said(outputs):
    """What the batch was to publish is nobody's fault; its inputs are not done."""
    record = max((outputs / ".splitter/records").iterdir())
    begun = record.with_name("000009-000000.begun")
    begun.write_bytes(sealed({"keys": [1], "names": ["half/done.txt"]}))
    write_files(outputs, {"half/done.txt": "x"})
    assert [finding.kind for finding in splitter.verify(outputs).findings] == ["batch"]


@pytest.fixture
def shorter_lists_are_taken(monkeypatch):
    """Runs as they were once: shards may keep samples of inputs that are no longer listed."""
    monkeypatch.setattr(splitter.engine.decide, "refuse_samples_without_rows", lambda *_: None)


@pytest.mark.usefixtures("shorter_lists_are_taken")
@pytest.mark.parametrize(
    "sink",
    [
        "files",
        pytest.param("webdataset", marks=pytest.mark.slow),
        pytest.param("parquet", marks=pytest.mark.slow),
    ],
)
def test_what_has_no_rows_in_the_manifest_is_looked_at_too(folder, words, capfd, sink):
    """It comes back, with its rows, when its input is listed again, or the change is taken back."""
    # a shard for each input
    options = ("--root", "inputs", "--recipe", "words", "-o", folder / "out", "--sink", sink)
    options += () if sink == "files" else ("--shard-size", "1")
    assert here(capfd, "run", words, *options).code == 0
    table = read_table(folder / "out/manifest.csv")
    write_list(words, [["input"], *([name] for name in WORDS if name != "a.txt")])
    assert here(capfd, "run", words, *options, "--num-chars", "3", "--limit", "1").code == 0
    kinds = [one.kind for one in splitter.verify(folder / "out").findings]
    assert kinds.count("input") == len(WORDS) - 2
    # a shard must not hold what has no row; a loose file may stay
    assert ("extra" in kinds) == (sink != "files")
    changed = [*WORDS][-1]
    for listed in ("a.txt", changed):
        (name, *_) = (row["output"] for row in table if row["input"] == listed)
        path = folder / "out" / (name if sink == "files" else name.rpartition("/")[0])
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        left = [one for one in splitter.verify(folder / "out").findings if one.kind not in ("input", "extra")]
        # a table that cannot be read is told of by the outputs in it
        assert {one.kind for one in left} == {"left"}
        assert {path} <= {folder / "out" / one.file for one in left} | {
            (folder / "out" / one.file).parent for one in left
        }
        assert "the next run replaces it, or --prune removes it" in left[0].message
        path.unlink()
        assert any(one.kind == "left" for one in splitter.verify(folder / "out").findings)
        path.write_bytes(content)
    assert "next:" not in here(capfd, "verify", folder / "out").out


@pytest.mark.usefixtures("shorter_lists_are_taken")
def test_shards_of_inputs_no_longer_listed_are_as_they_were_written(folder, capfd):
    """With the options of their own time, whatever those of the last run are."""
    write_files(folder, {f"{number}.txt": str(number) * 600 for number in range(8)})
    rows = [[f"{number}.txt", f"label {number}"] for number in range(8)]
    listed = write_list(folder / "list.csv", [["input", "label"], *rows])
    options = ("--recipe", "words", "--num-chars", "600", "--sink", "webdataset", "--shard-size", "1200")
    run = ("run", listed, *options, "-o", folder / "out", "--workers", "0")
    assert here(capfd, *run, "--field", "a=label").code == 0
    write_list(listed, [["input", "label"], *rows[2:]])
    assert here(capfd, *run, "--field", "b=label").code == 0
    for _ in range(2):
        verdict = splitter.verify(folder / "out")
        assert ({one.kind for one in verdict.findings}, verdict.gone) == ({"extra"}, 2)
        assert here(capfd, "manifest", folder / "out").code == 0


def test_outputs_of_inputs_no_longer_listed_are_no_damage(folder, words, capfd):
    here(capfd, "run", words, "--root", "inputs", "--recipe", "words", "-o", folder / "out")
    write_list(words, [["input"], ["a.txt"]])
    here(capfd, "run", words, "--root", "inputs", "--recipe", "words", "-o", folder / "out")
    said = here(capfd, "verify", folder / "out")
    assert said.code == 0
    assert "3 no longer in the list" in said.out


def test_a_run_at_work_is_left_alone(launcher, words, folder, capfd):
    """Verify says so, and the run does not wait for it either."""
    recipe = write_files(folder, {"slow.py": SLOW}) / "slow.py"
    run = launcher.start(
        "run", words, "--root", "inputs", "--recipe", f"{recipe}:Slow", "--output", folder / "out"
    )
    run.until((folder / "began").exists)
    said = here(capfd, "verify", folder / "out")
    assert said.code == 2
    assert "is in use by process" in said.err
    assert said.err.endswith("verify it when that run has ended\n")


SLOW = """
import time
from pathlib import Path
from splitter import ProcessorDataset

class Slow(ProcessorDataset):
    def process(self, input_file):
        Path(__file__).with_name("began").touch()
        time.sleep(60)
"""


@pytest.mark.parametrize("place", ["missing", "empty", "strange"])
def test_what_is_no_output_folder_is_refused(folder, place, capfd):
    write_files(folder, {"strange/file.txt": "x"})
    (folder / "empty").mkdir()
    said = here(capfd, "verify", folder / place)
    assert (said.code, len(said.lines)) == (2, 1)
    assert "is not a splitter output folder" in said.err


# -- headers of recordings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "aiff"])
@pytest.mark.parametrize("key", ["", "sample_rate", "channels", "frames"])
def test_a_header_that_disagrees_with_its_row_is_found(folder, ending, key, capfd):
    write_files(folder, {"liar.py": LIAR, "inputs/a.txt": "x"})
    recipe = ["--recipe", f"{folder}/liar.py:Liar", "--key", key, "--ending", ending, "--workers", "0"]
    assert here(capfd, "run", folder / "inputs", *recipe, "-o", folder / "out").code == 0
    findings = splitter.verify(folder / "out").findings
    assert [finding.kind for finding in findings] == (["header"] if key else [])
    assert not key or key in findings[0].message


class Streamed(ProcessorDataset):
    """A FLAC file that states no length, as a stream does."""

    def process(self, input_file: InputFile):
        content, sound = io.BytesIO(), np.random.default_rng(1).uniform(-1, 1, (1 << 20, 1))
        soundfile.write(content, sound, 16000, format="flac")
        flac = bytearray(content.getvalue())
        # the last 36 bits are the number of samples
        flac[21:26] = bytes([flac[21] & 0xF0, 0, 0, 0, 0])
        return [OutputFile("0.flac", bytes(flac), {"sample_rate": 16000, "frames": len(sound)})], {}


def test_the_header_of_a_large_recording_without_a_length_agrees(folder):
    write_files(folder, {"inputs/a.txt": "x"})
    manifest = Streamed(folder / "inputs").run(folder / "out", workers=0, quiet=True)
    assert int(manifest["size"][0]) > READ_AT_ONCE
    assert splitter.verify(folder / "out").ok


@pytest.mark.parametrize("made_as", ["wav", "flac", "ogg", "mp3"])
def test_the_headers_of_our_own_recordings_agree(folder, made_as, capfd):
    """Of whatever kind, cut from a recording with an odd number of samples."""
    (folder / "in").mkdir()
    soundfile.write(folder / "in/a.wav", np.random.default_rng(1).uniform(-1, 1, (30_001, 2)), 16000)
    run = ["run", folder / "in", "--seconds", "0.7", "--format", made_as, "--workers", "0"]
    assert here(capfd, *run, "-o", folder / "out").code == 0
    assert here(capfd, "verify", folder / "out").code == 0


# -- made again --------------------------------------------------------------------------------------------


@pytest.fixture
def signed(folder, capfd) -> Path:
    """The outputs of a recipe of the user's own."""
    write_files(folder, {"signer.py": SIGNER, **{f"inputs/{name}": text for name, text in WORDS.items()}})
    write_files(folder / "inputs", {"empty.txt": ""})
    recipe = ["--recipe", f"{folder}/signer.py:Signer", "--times", "3"]
    assert here(capfd, "run", folder / "inputs", *recipe, "-o", folder / "signed").code == 0
    return folder / "signed"


def test_outputs_made_again_are_the_same(outputs, made, capfd):
    """With the recipe and the parameters of the run, from the kept list; nothing else has to be given."""
    said = here(capfd, "verify", outputs, "--deep", "all")
    assert (said.code, said.err) == (0, "")
    assert "7 inputs made again" in said.out


def test_a_sample_is_spread_over_the_list(outputs, capfd):
    assert splitter.verify(outputs, deep=3).made_again == 3
    # the folder in the place of the number, which may be left out
    assert "7 inputs made again" in here(capfd, "verify", "--deep", outputs).out
    assert "2 inputs made again" in here(capfd, "verify", "--deep", "2", outputs).out


@pytest.mark.slow
def test_code_that_has_changed_unnoticed_is_found(signed, folder, capfd):
    """The version is what it was, so a run would not notice."""
    own = ["--deep", "all", "--recipe", f"{folder}/signer.py:Signer"]
    assert here(capfd, "verify", signed, *own).code == 0
    recipe = folder / "signer.py"
    recipe.write_text(recipe.read_text().replace('SIGN = "!"', 'SIGN = "?"'))
    said = here(capfd, "verify", signed, *own)
    assert said.code == 1
    assert len(said.out.splitlines()) == 5
    assert said.out.startswith(f"{signed}/a/signed.txt: made again, its checksum is ")


@pytest.mark.slow
def test_a_column_that_came_later_is_no_difference(signed, folder, capfd):
    """Outputs of an earlier version stay as they are; a column that is missing is found."""
    recipe, own = folder / "signer.py", ["--deep", "all", "--recipe", f"{folder}/signer.py:Signer"]
    text = recipe.read_text()
    recipe.write_text(text.replace('{"length": ', '{"later": 1, "length": '))
    assert recipe.read_text() != text
    said = here(capfd, "verify", signed, *own)
    assert (said.code, said.err) == (0, "")
    recipe.write_text(text.replace('{"length": ', '{"other": '))
    assert here(capfd, "verify", signed, *own).code == 1


def test_one_s_own_recipe_has_to_be_named(signed, capfd):
    """No code is run because an output folder says so."""
    said = here(capfd, "verify", signed, "--deep")
    assert (said.code, len(said.lines)) == (2, 1)
    assert "--recipe path/to/signer.py:Signer" in said.err


def test_another_version_is_refused(signed, folder, capfd):
    recipe = folder / "signer.py"
    recipe.write_text(
        recipe.read_text().replace("    def __init__", "    version = 2\n\n    def __init__", 1)
    )
    said = here(capfd, "verify", signed, "--deep", "--recipe", f"{recipe}:Signer")
    assert said.code == 2
    assert "version is 2 and was 1 when the outputs were made" in said.err


@pytest.mark.slow
def test_a_source_that_is_gone_or_changed_is_named(signed, folder, capfd):
    (folder / "inputs/a.txt").unlink()
    (folder / "inputs/b.txt").write_text("another text")
    said = here(capfd, "verify", signed, "--deep", "all", "--recipe", f"{folder}/signer.py:Signer")
    assert said.code == 1
    assert f"a.txt: cannot be made again: {folder}/inputs/a.txt: does not exist" in said.out
    assert "b.txt: cannot be made again: it has changed since" in said.out
    assert "2 inputs made again" in said.out
    shutil.rmtree(folder / "inputs")
    (signed / ".splitter/last_run.json").write_text("{")
    said = here(capfd, "verify", signed, "--deep", "all", "--recipe", f"{folder}/signer.py:Signer")
    assert (said.code, said.err, said.out.count(": cannot be made again: ")) == (1, "", 4)
    (signed / ".splitter/run.json").write_text("{")
    said = here(capfd, "verify", signed, "--deep", "all", "--recipe", f"{folder}/signer.py:Signer")
    assert (said.code, said.err) == (1, "")
    assert said.out.startswith(f"{signed}/.splitter/run.json: is damaged (")


def test_nothing_is_left_in_the_temporary_folder(outputs, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert splitter.verify(outputs, deep="all").ok
    assert not [*temporary.iterdir()]


class Halves(ProcessorDataset):
    """Both halves of a word."""

    group_rows = True

    def process(self, input_file: InputFile):
        text = input_file.read_text()
        if not text:
            raise Skip("nothing")
        return [OutputFile(f"{row['half']}.txt", text[: len(text) // 2], {}, number)
                for number, row in enumerate(input_file.rows)], {}  # fmt: skip


class Parts(ProcessorDataset):
    """The first letters of a word."""

    def __init__(self, inputs, size: int = 2):
        super().__init__(inputs)
        self.size = size

    def process(self, input_file: InputFile):
        return [OutputFile("0.txt", input_file.read_text()[: self.size])], {}


def test_a_recipe_from_python_that_groups_rows_is_made_again(folder):
    write_files(folder, {"a.txt": "simple", "b.txt": "scaleable", "c.txt": ""})
    rows = [
        {"input": str(folder / name), "half": half} for half in "12" for name in ("a.txt", "b.txt", "c.txt")
    ]
    Halves(rows).run(folder / "out", workers=0, quiet=True)
    verdict = splitter.verify(folder / "out", deep="all", recipe=Halves(()))
    assert (verdict.ok, verdict.made_again, verdict.skipped) == (True, 2, 1)


def test_the_device_of_a_recipe_from_python_stays(folder):
    """Whatever device the outputs were made on."""
    write_files(folder, {"a.txt": "scaleable"})
    Parts([str(folder / "a.txt")]).run(folder / "out", workers=0, quiet=True)
    mine = Parts(())
    mine.device = "cuda"
    assert splitter.verify(folder / "out", deep=1, recipe=mine).ok
    assert mine.device == "cuda"


def test_a_recipe_is_given_as_a_class(folder):
    """It gets the parameters of the run, as by its name; what is no recipe is refused."""
    write_files(folder, {"a.txt": "scaleable"})
    Parts([str(folder / "a.txt")], size=4).run(folder / "out", workers=0, quiet=True)
    verdict = splitter.verify(folder / "out", deep=1, recipe=Parts)
    assert (verdict.ok, verdict.made_again) == (True, 1)
    for what in (int, 7, folder):
        with pytest.raises(Refused) as caught:
            splitter.verify(folder / "out", deep=1, recipe=what)
        assert str(caught.value) == (
            f"splitter.verify: recipe {what!r:.100}: is not a ProcessorDataset; pass the dataset, "
            "its class, or a name as for --recipe"
        )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--deep", "0"], "--deep 0: write a number of inputs to make again, or all"),
        (["--deep", "some"], "--deep some: write a number of inputs to make again, or all"),
        (["--workers", "0"], "--workers 0: must be at least 1"),
        (["--recipe", "words"], "--recipe words: only works with --deep; add --deep, or leave --recipe out"),
        (["--deep", "--recipe", "chunk"], "--deep: Chunk: recipe is 'Chunk' and was 'Words' when"),
    ],
)
def test_what_makes_no_sense_is_refused(outputs, arguments, text, capfd):
    said = here(capfd, "verify", outputs, *arguments)
    assert said.code == 2
    assert said.err.startswith(f"splitter: {text}")


# -- shards ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["webdataset", "parquet"])
def sharded(request, tmp_path_factory) -> Path:
    """The outputs of a run into several shards."""
    folder = tmp_path_factory.mktemp("sharded")
    texts = {f"{number:02d}.txt": f"wörd-{number}-" * 3 for number in range(30)}
    write_files(folder / "inputs", texts)
    write_list(folder / "list.csv", [["input", "label"], *([name, f"{name}, loud"] for name in texts)])
    run = ["run", folder / "list.csv", "--root", "inputs", "--recipe", "words", "--sink", request.param]
    said = program(*run, "--shard-maxcount", "200", "--output", folder / "outputs", "--workers", "2")
    assert said.code == 0, said
    return folder / "outputs"


@pytest.fixture(scope="module")
def parquet(tmp_path_factory) -> Path:
    """The outputs of a run into a table."""
    folder = tmp_path_factory.mktemp("parquet")
    write_files(folder, {f"inputs/{number}.txt": f"wörd-{number}" for number in range(3)})
    run = ["run", folder / "inputs", "--recipe", "words", "--sink", "parquet", "--workers", "0"]
    said = program(*run, "--output", folder / "outputs")
    assert said.code == 0, said
    return folder / "outputs"


def test_nothing_is_found_in_whole_shards(sharded):
    verdict = splitter.verify(sharded)
    assert verdict.findings == []
    assert verdict.outputs == len(read_table(sharded / "manifest.csv"))
    assert splitter.verify(sharded, deep=2).ok


@pytest.mark.usefixtures("shorter_lists_are_taken")
@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
def test_shards_with_what_has_no_rows_in_the_manifest_are_well(folder, sink, capfd):
    """An input that is no longer listed; one that cannot be read, and stays as an earlier run had it."""
    write_files(folder, {"liar.py": LIAR, **{f"inputs/{name}.txt": "x" * 9000 for name in "abc"}})
    names = [[f"{name}.txt"] for name in "abc"]
    run = ["run", folder / "list.csv", "--root", folder / "inputs", "--sink", sink, "--shard-size", "9000"]
    run += ["--recipe", f"{folder}/liar.py:Liar", "--workers", "0", "-o", folder / "out", "--quiet"]
    write_list(folder / "list.csv", [["input"], *names])
    assert here(capfd, *run).code == 0
    write_list(folder / "list.csv", [["input"], *names[1:]])
    (folder / "inputs/b.txt").rename(folder / "b.txt")
    assert here(capfd, *run, "--more").code == 1
    verdict = splitter.verify(folder / "out")
    assert ([one.kind for one in verdict.findings], verdict.outputs, verdict.gone) == (["extra"], 3, 1)
    shard = max((folder / "out/shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1])
    assert len(splitter.verify(folder / "out").findings) > 1


@settings(max_examples=depth(10))
@given(data=st.data())
def test_all_damage_to_shards_is_found(sharded, folder, data):
    """Any byte of any shard, also of a header or of what fills up; what is cut, appended, lost, swapped."""
    shutil.rmtree(folder / "outputs", ignore_errors=True)
    shards = Path(shutil.copytree(sharded, folder / "outputs")) / "shards"
    one, other = data.draw(st.permutations(sorted(shards.iterdir())))[:2]
    content = bytearray(one.read_bytes())
    what = data.draw(st.sampled_from(["flip", "flip", "flip", "cut", "append", "delete", "swap", "stranger"]))
    named = one
    if what == "flip":
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        one.write_bytes(content)
    elif what == "cut":
        os.truncate(one, data.draw(st.integers(0, len(content) - 1)))
    elif what == "append":
        one.write_bytes(content + data.draw(st.binary(min_size=1, max_size=9)))
    elif what == "delete":
        one.unlink()
    elif what == "swap":
        one.write_bytes(other.read_bytes())
        other.write_bytes(content)
    else:
        named = one.with_name(f"shard-000077{one.suffix}")
        shutil.copy(one, named)
    verdict = splitter.verify(folder / "outputs", workers=1)
    assert verdict.exit_code == 1
    assert found(verdict, f"shards/{named.name}") or any(
        finding.file.startswith(f"shards/{named.name}/") for finding in verdict.findings
    )


def test_a_shard_that_cannot_be_read_is_one_finding_with_what_it_held(sharded, folder):
    """A cut table cannot be read at all; of a cut archive each output that is lost is named."""
    shards = Path(shutil.copytree(sharded, folder / "outputs")) / "shards"
    shard = shards / f"shard-000000{next(shards.iterdir()).suffix}"
    rows = [row for row in read_table(sharded / "manifest.csv") if f"/{shard.name}/" in row["output"]]
    last = max(rows, key=lambda row: int(row["shard_offset"]))
    os.truncate(shard, int(last["shard_offset"]) if shard.suffix == ".tar" else shard.stat().st_size - 100)
    verdict = splitter.verify(folder / "outputs", workers=1)
    if shard.suffix == ".tar":
        assert [finding.file for finding in verdict.findings] == [last["output"]]
    else:
        [finding] = verdict.findings
        assert finding.file == f"shards/{shard.name}"
        assert finding.message.endswith(f"{len(rows)} outputs are in it")


def test_temporary_space_that_runs_out_says_nothing_of_a_shard(sharded, tmp_path, monkeypatch, capfd):
    """The check ends with one line, and `--repair` does no whole shard again."""
    outputs = Path(shutil.copytree(sharded, tmp_path / "outputs"))
    shards = sorted((outputs / "shards").iterdir())
    before = [one.stat().st_ino for one in shards]

    def gone(**_):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr("tempfile.mkdtemp", gone)
    said = here(capfd, "verify", outputs, "--workers", "1")
    assert (said.code, said.out) == (1, "")
    [line] = said.err.splitlines()
    assert line.startswith("splitter: cannot write temporary files in ")
    assert "No such file or directory" in line
    run = ["run", sharded.parent / "list.csv", "--root", sharded.parent / "inputs", "--recipe", "words"]
    sink = "webdataset" if shards[0].suffix == ".tar" else "parquet"
    how = ["--sink", sink, "--shard-maxcount", "200", "--workers", "0", "--output", outputs, "--repair"]
    said = here(capfd, *run, *how)
    assert said.code == 1
    assert "No such file or directory" in said.err
    monkeypatch.undo()
    assert [one.stat().st_ino for one in shards] == before
    assert splitter.verify(outputs).ok


def state_nothing_of_shards(record: Path) -> None:
    """Make a commit record one of an earlier version."""
    line, _, rest = record.read_bytes().partition(b"\n")
    content = json.loads(line)
    del content["shards"]
    text = json.dumps(content).encode() + b"\n" + rest[:-16]
    record.write_bytes(text + xxhash.xxh3_128_digest(text))


def test_a_record_without_a_digest_may_have_a_column_of_that_name(folder):
    """The earliest versions wrote no digest."""
    write_files(folder, {"a.txt": "simple"})
    Parts([{"input": str(folder / "a.txt"), "xxh128": "x"}]).run(folder / "out", workers=0, quiet=True)
    (record,) = (folder / "out" / ".splitter/records").iterdir()
    line, _, rest = record.read_bytes().partition(b"\n")
    content = json.loads(line)
    del content["digest"]
    record.write_bytes(json.dumps(content).encode() + b"\n" + rest[:-16])
    assert splitter.verify(folder / "out").ok


def padded(shard: Path) -> None:
    """Change a byte of a shard that no output has."""
    content = bytearray(shard.read_bytes())
    at = -1 if shard.suffix == ".tar" else content.rindex(b"parquet-cpp-arrow")
    content[at] ^= 1
    shard.write_bytes(content)


def test_of_shards_that_an_earlier_version_made_the_outputs_are_checked(sharded, folder):
    """Its commit records do not state what a shard is as a whole."""
    outputs = Path(shutil.copytree(sharded, folder / "outputs"))
    shard = min((outputs / "shards").iterdir())
    padded(shard)
    [finding] = splitter.verify(outputs).findings
    assert (finding.kind, finding.file) == ("shard", f"shards/{shard.name}")
    assert finding.message == "is not what was written, though each output in it is whole"
    for record in (outputs / ".splitter/records").iterdir():
        state_nothing_of_shards(record)
    verdict, shards = splitter.verify(outputs), len([*(outputs / "shards").iterdir()])
    assert (verdict.ok, verdict.unstated) == (True, shards)
    assert str(verdict).endswith(
        f"; no checksum is recorded for {shards} shards made by an earlier version: only the outputs there "
        "were checked"
    )
    assert "no checksum" not in str(splitter.verify(sharded))
    content = bytearray(shard.read_bytes())
    row = next(row for row in read_table(outputs / "manifest.csv") if f"/{shard.name}/" in row["output"])
    # in a table a content has its length before it
    length = int(row["size"]).to_bytes(4, "little")
    at = content.index(length + row["part"].encode()) + 4 if shard.suffix == ".parquet" else 0
    content[at or int(row["shard_offset"])] ^= 1
    shard.write_bytes(content)
    assert [finding.kind for finding in splitter.verify(outputs).findings] == ["checksum"]


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
def test_what_is_stated_of_shards_outlives_the_merging_of_records(folder, sink, monkeypatch, capfd):
    """Also where an earlier version has replaced a shard since, and stated nothing of it."""
    outputs, stated_there = folder / "out", []

    def run(inputs: int) -> None:
        write_files(folder / "inputs", {f"{inputs - 1}.txt": str(inputs) * 600})
        write_list(folder / "list.csv", [["input"], *([f"{number}.txt"] for number in range(inputs))])
        how = ["--recipe", "words", "--num-chars", "600", "--sink", sink, "--shard-size", "9000"]
        arguments = ["run", folder / "list.csv", "--root", folder / "inputs", *how, "--workers", "0"]
        assert here(capfd, *arguments, "--output", outputs).code == 0
        assert splitter.verify(outputs).ok
        newest = max((outputs / ".splitter/records").iterdir())
        stated_there.append(json.loads(newest.read_bytes().partition(b"\n")[0])["shards"])

    monkeypatch.setattr("splitter.ledger.shard_groups.inputs_in_group", lambda *_, **__: 2)
    monkeypatch.setattr("splitter.ledger.journal.FEW_RECORDS", 0)
    for inputs in (1, 2, 3):
        run(inputs)
    monkeypatch.setattr("splitter.ledger.journal.FEW_RECORDS", 64)
    run(4)
    merged, newest = stated_there[-2:]
    assert (len(merged), len(newest)) == (2, 1)
    assert {*newest} < {*merged}
    state_nothing_of_shards(max((outputs / ".splitter/records").iterdir()))
    assert splitter.verify(outputs).ok
    monkeypatch.setattr("splitter.ledger.journal.FEW_RECORDS", 0)
    run(5)
    assert stated_there[-1].keys() == {*merged, "shards/shard-000002" + Path(*newest).suffix} - {*newest}
    for name in stated_there[-1]:
        padded(outputs / name)
    assert {finding.file for finding in splitter.verify(outputs).findings} == {*stated_there[-1]}


@pytest.mark.parametrize("value", [-1, 0, 1 << 40])
@pytest.mark.parametrize(
    "field", [ROWS_OF_FILE, SIZE_OF_GROUP, ROWS_OF_GROUP, VALUES, UNPACKED, PACKED, PAGES_AT]
)
def test_the_footer_of_a_table_that_lies_is_found_in_little_memory(parquet, folder, field, value, capfd):
    """Of rows, of sizes, or of where they are: what is read of it is compared, and nothing is made of it."""
    outputs = Path(shutil.copytree(parquet, folder / "outputs"))
    shard = min((outputs / "shards").iterdir())
    lie(shard, field, value)
    with at_most(MOST_MEMORY):
        said = here(capfd, "verify", outputs, "--workers", "1")
    assert (said.code, said.err) == (1, "")
    assert f"{outputs}/shards/{shard.name}" in said.out


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
@pytest.mark.parametrize("key", ["", "sample_rate", "channels", "frames"])
def test_a_header_in_a_shard_that_disagrees_with_its_row_is_found(folder, sink, key, capfd):
    write_files(folder, {"liar.py": LIAR, "inputs/a.txt": "x"})
    recipe = ["--recipe", f"{folder}/liar.py:Liar", "--key", key, "--sink", sink, "--workers", "0"]
    assert here(capfd, "run", folder / "inputs", *recipe, "-o", folder / "out").code == 0
    findings = splitter.verify(folder / "out").findings
    assert [finding.kind for finding in findings] == (["header"] if key else [])
