"""Runs over shards: Parquet, shards of earlier runs, shards at URLs, and runs that are killed."""

import contextlib
import gzip
import io
import json
import random
import signal
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from copying import Copy
from doors import SHARED, here, read_table, tree
from launcher import FAULTY, Launcher, check_complete
from object_store import Bucket
from tar_archives import tar_bytes
from web_server import Web, web_server

import splitter
from splitter import InputList
from splitter.errors import Refused, UnreadableInput
from splitter.inputs.shards import parquet as parquet_inputs
from splitter.inputs.shards.parquet import look_at_parquet

COPY = ("--recipe", f"{SHARED}/copying.py:Copy")
HERE = ("--workers", "0", "--quiet")


def samples(keys: str, size: int = 1) -> list[tuple[str, bytes]]:
    """A sample for each letter."""
    return [
        member
        for key in keys
        for member in ((f"{key}.bin", f"content {key} ".encode() * size), (f"{key}.txt", key.encode()))
    ]


# -- Parquet -----------------------------------------------------------------------------------------------


def write_parquet(path: Path, table: pa.Table, rows: int = 3) -> Path:
    pq.write_table(table, path, row_group_size=rows)
    return path


def rows_of(table: pa.Table, column: str) -> list[bytes]:
    """The contents that a column holds, by pyarrow."""
    return [value["bytes"] if isinstance(value, dict) else value for value in table[column].to_pylist()]


def embedded(count: int, *, paths: bool = True, start: int = 0) -> pa.Table:
    """A table as `datasets` writes it."""
    contents = [
        {"bytes": f"{number} ".encode() * (number + 1), "path": f"deep/{number}.wav" if paths else None}
        for number in range(start, start + count)
    ]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    return pa.table(
        {
            "audio": pa.array(contents, kind),
            "label": [f"{number:03d}" for number in range(count)],
            "tags": [[number] for number in range(count)],
        }
    )


@pytest.mark.parametrize("workers", ["0", "1", "4"])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_each_row_of_parquet_is_an_input(folder, capfd, workers, rows):
    """Several files, row groups of any size, any number of workers: by pyarrow."""
    tables = [embedded(10), embedded(7, start=20)]
    for number, table in enumerate(tables):
        write_parquet(folder / f"p-{number}.parquet", table, rows)
    out = folder / "out"
    arguments = ("run", f"{folder}/p-*.parquet", *COPY, "--output", out, "--workers", workers, "--quiet")
    assert here(capfd, *arguments).code == 0
    found = read_table(out / "manifest.csv")
    expected = [
        (f"p-{number}.parquet/{one['audio']['path']}", one["audio"]["bytes"], one["label"], str(one["tags"]))
        for number, table in enumerate(tables)
        for one in table.to_pylist()
    ]
    assert [
        (row["input"], (out / row["output"]).read_bytes(), row["label"], row["tags"]) for row in found
    ] == expected
    assert {row["file_name"] for row in found} == {Path(name).name for name, *_ in expected}


def test_rows_without_paths_of_their_own_are_called_by_number(folder):
    path = write_parquet(folder / "p.parquet", embedded(4, paths=False))
    dataset = Copy(str(path))
    assert [dataset._table.listed(number) for number in range(len(dataset))] == [
        f"p.parquet/{number:08d}" for number in range(4)
    ]
    table = pa.table({"image": [{"bytes": b"1", "path": "x.png"}, {"bytes": b"2", "path": "x.png"}]})
    dataset = Copy(str(write_parquet(folder / "q.parquet", table)))
    assert [dataset._opened().listed(number) for number in range(2)] == [
        "q.parquet/00000000.png",
        "q.parquet/00000001.png",
    ]


def test_plain_binary_large_contents_and_other_columns_of_bytes(folder, capfd):
    rng = np.random.default_rng(3)
    contents = [rng.bytes(size) for size in (0, 10, 5 << 20, 100)]
    table = pa.table({"content": contents, "mask": [b"m"] * 4, "n": [1.5, None, 2.0, 3.0]})
    path = write_parquet(folder / "p.parquet", table, rows=2)
    with pytest.raises(Refused, match="has bytes in 'content', 'mask'; choose the input with --member"):
        len(Copy(str(path)))
    said = here(
        capfd, "run", path, *COPY, "--member", "content", "--output", folder / "out", "--workers", "0"
    )
    assert said.code == 0
    assert "so not made into columns: mask (1)" in said.err
    found = read_table(folder / "out" / "manifest.csv")
    assert [(folder / "out" / row["output"]).read_bytes() for row in found] == contents
    assert [row["n"] for row in found] == ["1.5", "", "2.0", "3.0"]


def test_the_size_of_contents_in_a_column_with_a_dot(folder):
    """As other tools write a struct with its fields side by side: without sizes, all rows were one batch."""
    table = pa.table({"audio.bytes": [bytes(5000), bytes(7000)], "audio.path": ["a.wav", "b.wav"]})
    found = look_at_parquet(str(write_parquet(folder / "p.parquet", table, 1)), "audio.bytes")
    assert [5000 <= row[2] < 6000 for row in found.rows] == [True, False]
    assert 7000 <= found.rows[1][2] < 8000


def test_a_parquet_list_of_paths_stays_one(folder):
    (folder / "a.txt").write_text("A")
    path = write_parquet(folder / "list.parquet", pa.table({"input": ["a.txt"], "thumbnail": [b"\x89"]}))
    (output,), _ = Copy(str(path))[0]
    assert output.content == b"A"
    with pytest.raises(Refused, match=r"--member audio: .* has no such column of bytes; it has 'thumbnail'"):
        len(Copy(InputList(str(path), member="audio")))


def test_an_input_of_bytes_is_contents(folder):
    """Only text can be a list of paths."""
    path = write_parquet(folder / "p.parquet", pa.table({"input": [b"A"], "n": [1]}))
    (output,), _ = Copy(str(path))[0]
    assert output.content == b"A"


def test_what_is_wrong_with_parquet(folder, capfd):
    """A row without bytes is one error; hostile paths lead nowhere; a damaged file is refused."""
    paths = ["../../x", "/etc/passwd", "a/b", "c"]
    contents = [{"bytes": None if number == 3 else b"x", "path": path} for number, path in enumerate(paths)]
    path = write_parquet(folder / "p.parquet", pa.table({"audio": contents}))
    assert here(capfd, "run", path, *COPY, "--output", folder / "out", *HERE).code == 1
    (error,) = read_table(folder / "out" / "errors.csv")
    assert (error["input"], error["error"]) == ("p.parquet/00000003", "UnreadableInput")
    assert error["message"] == f"{path}: row 3 has no bytes in 'audio'; embed its bytes, or leave the row out"
    assert {name.split("/")[0] for name in tree(folder / "out")} == {
        "manifest.csv",
        "errors.csv",
        "p.parquet",
    }
    content = path.read_bytes()
    for damage in (content[: len(content) // 2], b"", b"PAR1" + bytes(100) + b"PAR1"):
        path.write_bytes(damage)
        said = here(capfd, "run", path, *COPY, "--output", folder / "other", *HERE)
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert (
            f"{path}: is {'damaged' if damage.startswith(b'PAR1' + bytes(4)) else 'not'} Parquet" in said.err
        )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"audio audio": [b"x"]}, "has two columns 'audio'; rename one"),
        ({"text": ["y" * 101]}, "the labels next to the bytes have more than 100 characters; split it"),
        ({"audio": [{"bytes": b"x", "path": "y" * 101}]}, "its paths are more than 100 bytes; split it"),
    ],
)
def test_parquet_that_cannot_be_taken_is_refused(folder, capfd, monkeypatch, columns, message):
    """Columns of one name, and labels that would fill the memory."""
    monkeypatch.setattr(parquet_inputs, "MOST_LABELS", 100)
    table = pa.table({"audio": [{"bytes": b"x", "path": "a"}]} | columns)
    table = table.rename_columns([name.partition(" ")[0] for name in table.column_names])
    path = write_parquet(folder / "p.parquet", table)
    said = here(capfd, "run", path, *COPY, "--output", folder / "out", *HERE)
    assert (said.code, len(said.lines)) == (2, 1)
    assert f"{path}: {message}" in said.err


def test_a_date_beyond_pythons_is_a_label(folder, capfd):
    table = pa.table({"audio": [b"x"], "day": pa.array([10_000_000], pa.date32())})
    path = write_parquet(folder / "p.parquet", table)
    assert here(capfd, "run", path, *COPY, "--output", folder / "out", *HERE).code == 0
    assert [row["day"] for row in read_table(folder / "out" / "manifest.csv")] == ["29349-01-26"]


def test_rows_of_a_damaged_row_group_are_errors_and_all_others_are_done(folder, capfd):
    """Each names the file, in one line; a path that is no text is none."""
    contents = [{"bytes": bytes([number]) * 5000, "path": number} for number in range(6)]
    table = pa.table({"audio": contents})
    pq.write_table(table, folder / "p.parquet", row_group_size=2, compression="none", use_dictionary=False)
    content = bytearray((folder / "p.parquet").read_bytes())
    # the head of the page that has the bytes of the third and the fourth row
    at = content.index(bytes([2]) * 5000)
    content[at - 30 : at - 10] = b"\xff" * 20
    (folder / "p.parquet").write_bytes(content)
    assert here(capfd, "run", folder / "p.parquet", *COPY, "--output", folder / "out", *HERE).code == 1
    done = [row["input"] for row in read_table(folder / "out" / "manifest.csv")]
    failed = read_table(folder / "out" / "errors.csv")
    assert (done, [row["input"] for row in failed]) == (
        [f"p.parquet/0000000{number}" for number in (0, 1, 4, 5)],
        [f"p.parquet/0000000{number}" for number in (2, 3)],
    )
    for row in failed:
        assert row["error"] == "UnreadableInput"
        assert row["message"].startswith(f"{folder / 'p.parquet'}: is damaged Parquet (")
        assert "\n" not in row["message"]


# -- shards of earlier runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("sink", ["webdataset", "parquet"])
def test_the_shards_of_a_run_are_the_inputs_of_the_next(folder, capfd, sink):
    """Contents are those that the manifest of the first run names; its labels keep their names."""
    sounds = Path(__file__).parents[3] / "data_samples" / "dataset.csv"
    first, second = folder / "first", folder / "second"
    assert here(capfd, "run", sounds, "--seconds", "2", "--sink", sink, "--output", first, *HERE).code == 0
    kind = "tar" if sink == "webdataset" else "parquet"
    said = here(capfd, "run", f"{first}/shards/*.{kind}", "--seconds", "1", "--output", second, *HERE)
    assert (said.code, said.err) == (0, "")
    made = read_table(first / "manifest.csv")
    rows = {row["input"]: row for row in read_table(second / "manifest.csv")}
    assert len(rows) == len(made)
    for before, after in zip(made, rows.values(), strict=True):
        assert (after["speaker"], after["from_input"]) == (before["speaker"], before["input"])
        assert (after["from_checksum"], after["from_end_seconds"]) == (
            before["checksum"],
            before["end_seconds"],
        )
        assert f"shards/{after['input']}" == before["output"]


# -- runs that are killed, verified, planned ---------------------------------------------------------------


@pytest.fixture
def shards(folder: Path) -> str:
    """Three archives, one of them packed, and one with an input that ends its process."""
    for number in range(3):
        texts = {f"{letter}{number}.txt": f"text {letter} {number}".encode() for letter in "abcdefghij"}
        content = tar_bytes([*texts.items()])
        (folder / f"s-{number}.tar").write_bytes(gzip.compress(content) if number == 1 else content)
    return f"{folder}/s-{{0..2}}.tar"


PARTS = ("--recipe", f"{FAULTY}:Parts", "--size", 4, "--batch-size", 3, "--member", "txt")


def test_killed_at_random_moments_and_continued(
    launcher: Launcher, folder: Path, shards, chance: random.Random
):
    """The tree is that of a run that nobody disturbed; nothing stays in scratch space."""
    whole = folder / "whole"
    began = time.monotonic()
    run = launcher.run("run", shards, *PARTS, "--seconds", 0.01, "--output", whole, "--workers", 2)
    assert run.code == 0, run.stderr
    seconds = time.monotonic() - began
    for trial in range(2):
        output = folder / f"outputs {trial}"
        arguments = ("run", shards, *PARTS, "--seconds", 0.01, "--output", output, "--workers", 2)
        driver = launcher.start(*arguments)
        time.sleep(chance.uniform(0.3, 1) * seconds)
        victims = [driver.kill] if trial else [one.kill for one in (*driver.runners(), *driver.guards())]
        for kill in victims:
            with contextlib.suppress(psutil.Error):
                kill()
        assert driver.wait() in (0, -signal.SIGKILL), driver.stderr
        last = launcher.run(*arguments)
        assert last.code == 0, last.stderr
        check_complete(output, tree(whole))
        assert not [path for path in (output / ".splitter" / "staging").rglob("*") if path.is_file()]


def test_an_input_that_ends_its_process_is_one_error(launcher: Launcher, folder: Path):
    """Its neighbours in the shard are done, in a packed one as well."""
    for name, text in {"a": "one", "b": "segfault", "c": "two", "d": "os._exit", "e": "three"}.items():
        (folder / f"{name}.txt").write_text(text)
    for path, mode in (("s.tar", "w"), ("t.tar.gz", "w:gz")):
        with tarfile.open(folder / path, mode) as tar:
            for name in "abcde":
                tar.add(folder / f"{name}.txt", f"{name}.txt")
    recipe = ("--recipe", f"{FAULTY}:Faulty", "--member", "txt")
    run = launcher.run("run", f"{folder}/*.tar*", *recipe, "--output", folder / "out", "--workers", 2)
    assert run.code == 1, run.stderr
    shards = ("s.tar", "t.tar.gz")
    errors = read_table(folder / "out" / "errors.csv")
    assert [row["input"] for row in errors] == [f"{shard}/{name}.txt" for shard in shards for name in "bd"]
    done = dict.fromkeys(row["input"] for row in read_table(folder / "out" / "manifest.csv"))
    assert [*done] == [f"{shard}/{name}.txt" for shard in shards for name in "ace"]


def test_verify_makes_outputs_again_from_shards(folder, capfd, shards):
    """A shard that has changed or is gone is named."""
    recipe = ("--recipe", "words", "--num-chars", "5")
    assert here(capfd, "run", shards, *recipe, "--output", folder / "out", *HERE).code == 0
    assert splitter.verify(folder / "out", deep=30).made_again == 30
    (folder / "s-0.tar").unlink()
    said = here(capfd, "verify", folder / "out", "--deep", "all")
    assert said.code == 1
    assert "s-0.tar/a0.txt" in said.out + said.err


def test_plan_counts_the_inputs_of_shards(folder, capfd, shards):
    said = here(capfd, "plan", shards, "--recipe", "words", "--json", "--output", folder / "out")
    assert said.code == 0
    plan = json.loads(said.out)
    assert (plan["inputs"], plan["new"], plan["missing"]) == (30, 30, 0)
    assert not (folder / "out").exists()


def test_sources_of_all_kinds_go_together(folder, capfd, shards):
    """Shards beside a folder; labels are joined, and rows left out, as for any other source."""
    (folder / "more").mkdir()
    (folder / "more" / "x.txt").write_text("text x")
    labels = folder / "labels.csv"
    labels.write_text("input,who\ns-0.tar/a0.txt,me\nmore/x.txt,you\n")
    said = here(
        capfd,
        *("run", shards, folder / "more", *COPY, "--labels", labels, "--on", "input", "--where", "who != ''"),
        *("--output", folder / "out", "--workers", "0"),
    )
    assert said.code == 0, said.err
    rows = read_table(folder / "out" / "manifest.csv")
    assert [(row["input"], row["who"]) for row in rows] == [("s-0.tar/a0.txt", "me"), ("more/x.txt", "you")]
    assert [(folder / "out" / row["output"]).read_bytes() for row in rows] == [b"text a 0", b"text x"]


# -- at URLs -----------------------------------------------------------------------------------------------


@pytest.fixture
def web() -> Iterator[Web]:
    with web_server() as server:
        yield server


def test_a_server_that_gives_no_parts_is_asked_for_a_shard_once(launcher: Launcher, folder: Path, web: Web):
    """Once to look, once to read; plain and packed."""
    content = tar_bytes(samples("abc"))
    web.files |= {"/in/s-0.tar": content, "/in/s-1.tar": gzip.compress(content)}
    arguments = ("run", web.url("in/s-{0..1}.tar"), *COPY, "--output", folder / "out", "--workers", 2)
    run = launcher.run(*arguments)
    assert run.code == 0, run.stderr
    names = [f"s-{number}.tar/{key}.bin" for number in range(2) for key in "abc"]
    rows = read_table(folder / "out" / "manifest.csv")
    assert [row["input"] for row in rows] == names
    assert [row["txt"] for row in rows] == [*"abcabc"]
    for row in rows:
        assert (folder / "out" / row["output"]).read_bytes() == f"content {row['txt']} ".encode()
    web.files["/in/s-0.tar"] = tar_bytes(samples("ab", 2))
    run = launcher.run(*arguments)
    assert "2 finished inputs changed" in run.stderr


def test_shards_in_s3_are_read_part_by_part(launcher: Launcher, folder: Path, recorded_s3: Bucket):
    """No byte of a content is fetched twice, and each member is one request for its range."""
    recorded_s3.write("in/s-0.tar", tar_bytes(samples("abcdef", 10)))
    recorded_s3.write("in/s-1.tar.gz", gzip.compress(tar_bytes(samples("gh"))))
    table = io.BytesIO()
    pq.write_table(embedded(5), table)
    recorded_s3.write("in/p.parquet", table.getvalue())
    recorded_s3.requests()
    output = folder / "out"
    run = launcher.run(
        *("run", recorded_s3.url("in/s-*.tar*"), recorded_s3.url("in/p.parquet")),
        *(*COPY, "--output", output, "--workers", 2),
        environ=recorded_s3.environment,
    )
    assert run.code == 0, run.stderr
    rows = read_table(output / "manifest.csv")
    assert len(rows) == 8 + 5
    fetched = [one for one in recorded_s3.requests() if one.startswith("GET") and "/in/s-0.tar" in one]
    # the look, whether there are parts, and the six members
    assert len(fetched) == 8
    expected = {key: f"content {key} ".encode() * (10 if key < "g" else 1) for key in "abcdefgh"}
    expected |= {one["label"]: one["audio"]["bytes"] for one in embedded(5).to_pylist()}
    assert {row["txt"] or row["label"]: (output / row["output"]).read_bytes() for row in rows} == expected


def test_a_shard_in_a_store_that_fails_a_fifth(launcher: Launcher, folder: Path, faulty_s3: Bucket):
    """A request that fails is no damage of the archive."""
    faulty_s3.write("s.tar", tar_bytes(samples("abcdefgh", 1000)))
    faulty_s3.write("t.tar.gz", gzip.compress(tar_bytes(samples("ij", 1000))))
    run = launcher.run(
        *("run", faulty_s3.url("*.tar*"), *COPY, "--output", folder / "out", "--workers", 2),
        environ=faulty_s3.environment,
    )
    assert run.code == 0, run.stderr
    assert [row["txt"] for row in read_table(folder / "out" / "manifest.csv")] == [*"abcdefghij"]


def test_a_shard_that_is_not_there_is_refused(folder, capfd, web: Web, monkeypatch):
    said = here(capfd, "run", web.url("s.tar"), *COPY, "--output", folder / "out", *HERE)
    assert (said.code, said.err) == (2, f"splitter: {web.url('s.tar')}: there is no such file\n")
    assert not (folder / "out").exists()


def test_a_dataset_reads_a_shard_at_a_url(web: Web):
    web.files["/s.tar"] = tar_bytes(samples("ab"))
    dataset = Copy(web.url("s.tar"), how="path")
    assert [dataset[number][0][0].content for number in (1, 0)] == [b"content b ", b"content a "]
    web.files["/s.tar"] = tar_bytes(samples("abc"))
    with pytest.raises(UnreadableInput, match=r"s\.tar: has changed since the run began"):
        dataset[0]


def test_packed_shards_are_read_on_and_on_where_samples_are_shuffled(folder):
    """An input that stands before the last one read would be sought from the beginning of its shard."""
    names = [f"k{number:02d}" for number in range(20)]
    content = tar_bytes([(f"{name}.txt", name.encode()) for name in names])
    (folder / "s.tar.gz").write_bytes(gzip.compress(content))
    (folder / "s.tar").write_bytes(content)
    taken = []

    class Noted(Copy):
        def process(self, input_file):
            taken.append(input_file.read_text())
            return super().process(input_file)

    def shuffled(kind: str) -> list[str]:
        inputs = InputList(str(folder / kind), member="txt")
        options = {"sink": "webdataset", "shuffle": 7, "workers": 0, "quiet": True}
        manifest = Noted(inputs).run(folder / f"out-{kind}", **options)
        made = manifest.sort_values("shard_offset")
        return [splitter.read_output(row).decode() for _, row in made.iterrows()]

    order = shuffled("s.tar.gz")
    assert taken == names
    assert order != names
    assert order == shuffled("s.tar")


def test_another_sink_and_prune(folder, capfd):
    """What is no longer in the list goes with the shards of the other kind; a refused run removes nothing."""
    for name in "abc":
        (folder / f"{name}.txt").write_text(name)
    listing = folder / "list.csv"
    arguments = ("run", listing, *COPY, "--output", folder / "out", *HERE)
    listing.write_text("input\na.txt\nb.txt\nc.txt\n")
    assert here(capfd, *arguments, "--sink=webdataset").code == 0
    listing.write_text("input\na.txt\nb.txt\n")
    before = tree(folder / "out")
    assert here(capfd, *arguments, "--sink=parquet").code == 2
    (folder / "b.txt").rename(folder / "away")
    assert here(capfd, *arguments, "--sink=parquet", "--prune").code == 2
    assert tree(folder / "out") == before
    (folder / "away").rename(folder / "b.txt")
    assert here(capfd, *arguments, "--sink=parquet", "--prune").code == 0
    assert [row["input"] for row in read_table(folder / "out" / "manifest.csv")] == ["a.txt", "b.txt"]
    assert [path.name for path in (folder / "out" / "shards").iterdir()] == ["shard-000000.parquet"]
