"""`splitter.read_output`: any output of any sink, read back by its row of the manifest."""

import contextlib
import os
import pickle
import random
import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doors import here, program, read_table, write_files, write_list
from web_server import Answer, web_server
from written_shards import as_shards

import splitter
from splitter.errors import Refused, StorageError
from splitter.outputs import reader
from splitter.outputs.reader import Address, OutputReader, TarShardReader, shard_of
from splitter.stores import retries

PARTS = {"a.txt": "abcdefg", "b.txt": "hijkl", "sub/c.txt": "mnöp", "d.txt": ""}
KINDS = ["files", "tar", "parquet"]


@pytest.fixture
def files(folder: Path, capfd) -> Path:
    """The outputs of a run with loose files; one input has made none."""
    write_files(folder / "inputs", PARTS)
    listed = write_list(folder / "list.csv", [["input", "label"], *([name, "007"] for name in PARTS)])
    run = ["run", listed, "--recipe", "words", "--num-chars", "3", "--overlap", "1", "--root", "inputs"]
    assert here(capfd, *run, "--workers", "0", "--quiet", "--output", folder / "files").code == 0
    return folder / "files"


@pytest.fixture(params=KINDS)
def outputs(request, files: Path, folder: Path) -> Path:
    """The same outputs in each sink's form, several shards of them."""
    return files if request.param == "files" else as_shards(files, folder / "shards", request.param)


@pytest.fixture
def expected(files: Path) -> list[bytes]:
    """The content of each output, in the order of the manifest."""
    return [
        (files / row["output"]).read_bytes() for row in read_table(files / "manifest.csv") if row["output"]
    ]


def with_output(outputs: Path) -> pd.DataFrame:
    manifest = splitter.read_manifest(outputs)
    return manifest[manifest["output"] != ""]


# -- every kind of row ---------------------------------------------------------------------------------------


def test_every_kind_of_row_reads_its_output(outputs: Path, expected: list[bytes]):
    """A Series knows its folder, however it was taken from the manifest; others are told it."""
    manifest = with_output(outputs)
    assert len(expected) > 5
    assert [splitter.read_output(manifest.iloc[number]) for number in range(len(manifest))] == expected
    assert [splitter.read_output(row) for _, row in manifest.iterrows()] == expected
    assert [splitter.read_output(row, outputs) for row in manifest.itertuples()] == expected
    assert [splitter.read_output(row, str(outputs)) for row in manifest.to_dict("records")] == expected
    assert [
        splitter.read_output(row, outputs) for row in read_table(outputs / "manifest.csv") if row["output"]
    ] == expected
    no_size = {**manifest.iloc[0], "size": float("inf")}
    assert splitter.read_output(no_size, outputs) == expected[0]


def test_threads_share_what_is_open(folder: Path):
    """Each gets what it has asked for, from more folders than stay open."""
    names = [f"{number:02d}/deep/out.txt" for number in range(40)]
    write_files(folder / "outputs", {name: name * 10 for name in names})
    rows = [{"output": name, "size": len(name) * 10} for name in names]

    def read(seed: int) -> list[str]:
        chosen = random.Random(seed).choices(rows, k=400)
        contents = [(row["output"], splitter.read_output(row, folder / "outputs")) for row in chosen]
        return [name for name, content in contents if content != name.encode() * 10]

    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(read, range(8))] == [[]] * 8


def test_selections_and_copies_know_the_folder(outputs: Path, expected: list[bytes]):
    """As far as pandas passes attributes on."""
    manifest = splitter.read_manifest(outputs)
    chosen = [
        manifest.query("label == '007' and output != ''").iloc[0],
        manifest.sort_values("size", kind="stable", ascending=False).loc[0],
        manifest.copy().assign(more=1).loc[0],
        manifest[[name for name in manifest if name not in ("input", "label", "part", "word")]].loc[0],
        pickle.loads(pickle.dumps(manifest)).loc[0],  # noqa: S301 - our own
        manifest.reset_index().loc[0],
    ]
    assert [splitter.read_output(row) for row in chosen] == [expected[0]] * len(chosen)


def test_what_does_not_know_the_folder_is_one_clear_error(outputs: Path, expected: list[bytes]):
    """Namedtuples, dicts and merged tables know it not; with the folder they are read."""
    manifest = with_output(outputs)
    labels = pd.DataFrame({"label": ["007"], "more": [1]})
    without = [
        next(manifest.itertuples()),
        manifest.iloc[0].to_dict(),
        labels.merge(manifest, on="label").iloc[0],
    ]
    for row in without:
        with pytest.raises(Refused, match=r"does not know its output folder; pass it"):
            splitter.read_output(row)
        assert splitter.read_output(row, outputs) == expected[0]


def test_a_manifest_copied_elsewhere_is_told_its_folder(outputs: Path, folder: Path, expected: list[bytes]):
    """Without its folder beside it there is nothing that says where the outputs are."""
    shutil.copy(outputs / "manifest.csv", folder / "copy.csv")
    row = splitter.read_manifest(folder / "copy.csv").iloc[0]
    with pytest.raises(Refused, match="does not know its output folder"):
        splitter.read_output(row)
    assert splitter.read_output(row, outputs) == expected[0]


def test_the_folder_may_be_relative_and_the_process_elsewhere(outputs: Path, expected, monkeypatch, tmp_path):
    """A manifest keeps the place that its path meant when it was read."""
    monkeypatch.chdir(outputs.parent)
    manifest = splitter.read_manifest(outputs.name)
    monkeypatch.chdir(tmp_path)
    assert splitter.read_output(manifest.iloc[0]) == expected[0]


def test_a_row_without_an_output_is_refused(outputs: Path):
    """It names the input that made none."""
    manifest = splitter.read_manifest(outputs)
    empty = manifest[manifest["output"] == ""].iloc[0]
    with pytest.raises(Refused, match=r"the row of d\.txt has no output file"):
        splitter.read_output(empty)


@pytest.mark.parametrize("row", [7, "a/0.txt", ("a", "b"), pd.DataFrame({"output": ["a/0.txt"]})])
def test_what_is_no_row_is_refused(row, outputs: Path):
    with pytest.raises(Refused, match=r"is not a row of the manifest; pass one row"):
        splitter.read_output(row, outputs)


# -- what is not as the manifest says ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_without_an_offset_an_output_is_looked_up_by_its_name(kind: str, files: Path, folder: Path, expected):
    """The name in the shard says which it is, too."""
    outputs = as_shards(files, folder / "shards", kind)
    rows = with_output(outputs).drop(columns="shard_offset")
    assert [splitter.read_output(row) for _, row in rows.iterrows()] == expected
    unknown = {"output": rows["output"].iloc[0].replace("00000000-", "00000099-")}
    with pytest.raises(StorageError, match=r"does not contain '00000099-000000\.txt'"):
        splitter.read_output(unknown, outputs)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("checksum", "xxh128:" + "0" * 32, "its checksum differs from the manifest.s"),
        ("size", "2", r"(has 3 bytes where the manifest says 2|its checksum differs)"),
        ("size", "1000000", r"has [\d,]+ bytes where the manifest says 1,000,000"),
        ("shard_offset", "1", "its checksum differs"),
        ("shard_offset", "99999999", r"(has 0 bytes where|does not contain '[^']+')"),
        ("shard_offset", "-3", r"does not contain '[^']+'"),
    ],
)
def test_a_content_that_is_not_what_the_manifest_says_is_an_error(column, value, said, outputs: Path):
    """One line that names the file; never another content."""
    row = with_output(outputs).iloc[0].to_dict()
    if column not in row:
        return
    if value == "-3" and row["output"].startswith("shards/shard-000000.tar"):
        # no place in a file: looked up by its name
        assert splitter.read_output({**row, column: value}, outputs)
        return
    with pytest.raises(StorageError, match=said) as caught:
        splitter.read_output({**row, column: value}, outputs)
    assert str(caught.value).startswith((str(outputs), "cannot read"))
    assert "\n" not in str(caught.value)


def test_shards_that_were_made_anew_are_opened_anew(
    outputs: Path, expected: list[bytes], folder: Path, files
):
    """A process that has read the old ones reads the new ones with the new manifest."""
    manifest = with_output(outputs)
    assert splitter.read_output(manifest.iloc[0]) == expected[0]
    if outputs == files:
        (files / manifest["output"].iloc[0]).write_bytes(expected[0])
    else:
        kind = manifest["output"].iloc[0].rpartition("/")[0].rpartition(".")[2]
        shutil.rmtree(outputs)
        as_shards(files, outputs, kind, per_shard=2)
    again = with_output(outputs)
    assert [splitter.read_output(row) for _, row in again.iterrows()] == expected


def test_of_many_shards_those_used_last_stay_open(files: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """One that is read all the time is not closed for others that are read once."""
    outputs = as_shards(files, folder / "shards", "tar", per_shard=2)
    opened: list[str] = []
    monkeypatch.setattr(reader, "MOST_OPEN", {".tar": 2})
    monkeypatch.setattr(
        reader, "TarShardReader", lambda *given: opened.append(given[1]) or TarShardReader(*given)
    )
    rows = {shard_of(row["output"])[0]: row for _, row in with_output(outputs).iterrows()}
    first, second, third, *_ = rows.values()
    for row in (first, second, first, third, first):
        assert splitter.read_output(row)
    assert opened == [*rows][:3]


def test_a_file_that_is_gone_is_one_clear_error(outputs: Path):
    manifest = with_output(outputs)
    shard, name = shard_of(manifest["output"].iloc[0])
    (outputs / (shard or name)).unlink()
    with pytest.raises(StorageError, match=r"cannot read .*: does not exist"):
        splitter.read_output(manifest.iloc[0])


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_a_shard_that_is_damaged_is_one_clear_error(kind: str, files: Path, folder: Path):
    outputs = as_shards(files, folder / "shards", kind)
    row = with_output(outputs).iloc[0]
    (outputs / shard_of(row["output"])[0]).write_bytes(b"not a shard, and long enough to be looked into")
    with pytest.raises(
        StorageError, match=rf"shard-000000\.{kind}.*: (cannot be read|has \d+ bytes)"
    ) as caught:
        splitter.read_output(row)
    assert "\n" not in str(caught.value)


# -- an edited manifest --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/etc/passwd",
        "./../secret.txt",
        "a//../../secret.txt",
        "..",
        "shards/../../secret.txt",
        "shards/shard-000000.tar/../../../secret.txt",
        "file:///etc/passwd",
        "http://localhost:1/a",
        "memory://secret.txt",
        "a\0/../secret.txt",
    ],
)
def test_no_name_leads_out_of_the_output_folder(name: str, outputs: Path, folder: Path):
    """Whatever an edited manifest says, nothing outside of the folder is read."""
    (folder / "secret.txt").write_bytes(b"secret")
    for row in ({"output": name}, {"output": name, "size": 6, "shard_offset": 0}):
        with pytest.raises((Refused, StorageError)) as caught:
            splitter.read_output(row, outputs)
        assert "\n" not in str(caught.value)


def test_a_pipe_is_never_waited_for(files: Path):
    """It would block for ever."""
    os.mkfifo(files / "pipe.txt")
    with pytest.raises(StorageError, match="is a named pipe, not a plain file"):
        splitter.read_output({"output": "pipe.txt"}, files)


# -- the reader ----------------------------------------------------------------------------------------------


def test_a_reader_keeps_few_files_open(files: Path, folder: Path, expected: list[bytes]):
    """However many shards there are, and none of them after it is gone."""
    outputs = as_shards(files, folder / "shards", "tar", per_shard=1)
    for number in range(len(expected), 40):
        shutil.copy(outputs / "shards/shard-000000.tar", outputs / f"shards/shard-{number:06d}.tar")
    before = len(os.listdir("/dev/fd"))
    reader = OutputReader(outputs)
    row = with_output(outputs).iloc[0]
    for number in [*range(40), 0]:
        if number == 0 or number >= len(expected):
            name = row["output"].replace("shard-000000", f"shard-{number:06d}")
            assert reader.read(Address(name, row["size"], "", row["shard_offset"])) == expected[0]
    assert before < len(os.listdir("/dev/fd")) <= before + 16 + len(["the output folder", "shards"])
    del reader
    assert len(os.listdir("/dev/fd")) == before


def test_a_reader_can_be_pickled_and_forked(outputs: Path, expected: list[bytes]):
    """What is open stays in its process."""
    row = with_output(outputs).iloc[-1]
    reader = OutputReader(outputs)
    wanted = Address(row["output"], row["size"], row["checksum"], row.get("shard_offset"))
    assert reader.read(wanted) == expected[-1]
    again = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    assert again.read(wanted) == expected[-1]
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(BaseException):
            code = int(reader.read(wanted) != expected[-1])
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_outputs_are_read_from_a_url(outputs: Path, expected: list[bytes]):
    """A loose file is one object, a member of an archive one range of it."""
    url = f"memory://{uuid.uuid4().hex}/out"
    fsspec.filesystem("memory").put(f"{outputs}/", url, recursive=True)
    rows = [row for row in read_table(outputs / "manifest.csv") if row["output"]]
    assert [splitter.read_output(row, url) for row in rows] == expected
    many = [
        Address(row["output"], int(row["size"]), row["checksum"], int(row.get("shard_offset", 0)))
        for row in rows
    ]
    for chosen in (many, many[::2], many[::-1], many[:1] * 3 + many[-1:]):
        contents = [expected[many.index(one)] for one in chosen]
        assert [*OutputReader(url).read_in_order(chosen)] == contents
        assert [*OutputReader(outputs).read_in_order(chosen)] == contents
    with pytest.raises(StorageError, match=r"cannot read memory://.*/out/gone\.txt: "):
        splitter.read_output({"output": "gone.txt"}, url)


@pytest.mark.parametrize("times", [1, 99])
def test_a_table_in_a_store_that_is_busy_is_read_on(
    times: int, files: Path, expected: list[bytes], monkeypatch
):
    """What fails for a moment is asked for again; what goes on failing is one clear error."""
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    refused: list[str] = []

    def busy(answer: Answer) -> bool:
        if "Range" not in answer.headers or not answer.path.endswith("manifest.csv") or len(refused) == times:
            return False
        refused.append(answer.path)
        answer.refuse(503)
        return True

    with web_server() as web:
        for path in filter(Path.is_file, files.rglob("*")):
            web.files[f"/out/{path.relative_to(files)}"] = path.read_bytes()
        web.fault = busy
        if times == 1:
            assert splitter.read_manifest(web.url("out")).equals(splitter.read_manifest(files))
        else:
            with pytest.raises(Refused, match=r"manifest\.csv: cannot be read: .*503"):
                splitter.read_manifest(web.url("out"))
    assert refused


@pytest.mark.slow
def test_a_program_that_has_read_outputs_ends_in_silence(files: Path, folder: Path, expected: list[bytes]):
    """What it has open is closed in time."""
    outputs = as_shards(files, folder / "shards", "tar")
    text = "import sys, splitter; m = splitter.read_manifest(sys.argv[1])"
    said = program(outputs, python=("-c", f"{text}; print(len(splitter.read_output(m.iloc[0])))"))
    assert (said.out, said.err) == (f"{len(expected[0])}\n", "")


def test_a_name_in_a_damaged_table_that_is_no_text(folder):
    """Where a flipped bit makes a name that is not UTF-8, it is the shard that cannot be read."""
    buffers = [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xf3")]
    text = pa.Array.from_buffers(pa.string(), 1, buffers)
    content = pa.StructArray.from_arrays([pa.array([b"content"]), text], ["bytes", "path"])
    (folder / "shards").mkdir()
    table = pa.table({"key": ["00000000-000000"], "audio": content})
    pq.write_table(table, folder / "shards/shard-000000.parquet")
    address = Address("shards/shard-000000.parquet/00000000-000000.wav", 7, shard_offset=0)
    with pytest.raises(StorageError, match=r"shard-000000\.parquet: cannot be read"):
        OutputReader(folder).read(address)
