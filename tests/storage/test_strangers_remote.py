"""A folder of a stranger's in a bucket: no command touches what is beside it, and each says what is wrong."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from doors import here, write_files, write_list
from nightly import NIGHTLY
from object_store import Bucket, S3Server, bucket_of
from strangers import HOSTILE, OWN, pictured, victim_tree

import splitter
from splitter.errors import SplitterError
from splitter.storage.checked_file import sealed

# of the table so many pairs are tried in the gate: one in
SAMPLE = 1 if NIGHTLY else 12
BESIDE = {
    "victim/.bashrc": b"mine",
    "victim/x": b"mine",
    "victim/deep/er/file": b"mine",
    "x": b"mine",
    # a store takes such a name as it is
    "out/../victim/x": b"mine",
    "out/../victim/.bashrc": b"mine",
    "output/x": b"mine",
}
Plant = Callable[[Path, Path], None]


def _run_json(content: bytes) -> Plant:
    return lambda output, victim: (output / OWN / "run.json").write_bytes(content) and None


def _list_json(**values: object) -> Plant:
    content = {"column": "input", "root": "", "keep_extension": False, "group_rows": False, "member": None}
    return lambda output, victim: (
        (output / OWN / "list.json").write_bytes(sealed({**content, **values})) and None
    )


KINDS = ("a promise", "names", "an absolute", "a name ", "an empty", "half", "keys", "an output")

THINGS: dict[str, Plant] = {
    **{name: plant for name, plant in HOSTILE.items() if name.startswith(KINDS)},
    "a run.json that is nested": _run_json(b"[" * 100_000),
    "a run.json that is a list": _run_json(b"[1]"),
    "a run.json of another sink": _run_json(sealed({"sink": "../victim", "recipe": "../x", "outputs": -1})),
    "a run.json with a program": _run_json(
        sealed({"recipe": "command", "sink": "files", "parameter command": ["touch", "victim/touched"]})
    ),
    "a list.json that leads out": _list_json(root="../victim", column="../victim"),
}


def run(*options: str) -> Callable[[Path, str], list[str]]:
    return lambda folder, url: [
        "run",
        str(folder / "list.csv"),
        "--recipe=words",
        f"--root={folder / 'inputs'}",
        f"--output={url}",
        "--workers=0",
        *options,
    ]


COMMANDS: dict[str, Callable[[Path, str], list[str]]] = {
    "run": run(),
    "run --prune": run("--prune"),
    "run --retry-failed": run("--retry-failed"),
    "run --repair": run("--repair"),
    "run --fresh": run("--fresh"),
    "run with a change": run("--num-chars=3", "--prune"),
    "manifest": lambda folder, url: ["manifest", url],
    "verify": lambda folder, url: ["verify", url],
    "report": lambda folder, url: ["report", url, "-o", str(folder / "outputs.html")],
}
PAIRS = [
    (thing, command)
    for thing in THINGS
    for command in COMMANDS
    if zlib.crc32((thing + command).encode()) % SAMPLE == 0
]


@pytest.fixture(scope="module")
def made(s3_server: S3Server, tmp_path_factory) -> Iterator[tuple[Path, Bucket, dict[str, bytes]]]:
    """An output in a bucket, and its objects."""
    folder = tmp_path_factory.mktemp("made")
    write_files(folder / "inputs", {"a.txt": "simple", "b.txt": "word", "gone.txt": "removed"})
    write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["gone.txt"], ["missing.txt"]])
    with pytest.MonkeyPatch.context() as patch:
        bucket = bucket_of(s3_server, patch)
        assert splitter.cli.main.exit_code([*run("--quiet")(folder, bucket.url("out"))]) == 1
        write_list(folder / "list.csv", [["input"], ["a.txt"], ["b.txt"], ["missing.txt"]])
        yield folder, bucket, {key: bucket.read(key) for key in bucket.keys("out/")}


@pytest.fixture
def received(made, tmp_path: Path) -> tuple[Path, Bucket]:
    """The same output, beside what belongs to whoever received it."""
    folder, bucket, objects = made
    for key in bucket.keys(""):
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    for key, content in {**objects, **BESIDE}.items():
        bucket.write(key, content)
    victim_tree(tmp_path)
    return folder, bucket


def planted(bucket: Bucket, thing: str, folder: Path) -> None:
    """Have the hostile thing in the bucket, as it would be in a folder."""
    output = folder / "outputs"
    (output / OWN / "records").mkdir(parents=True)
    THINGS[thing](output, folder / "victim")
    for path in output.rglob("*"):
        if path.is_file():
            bucket.write(f"out/{path.relative_to(output)}", path.read_bytes())


def beside(bucket: Bucket) -> dict[str, bytes]:
    """All that is not in the output."""
    keys = (key for key in bucket.keys("") if not key.startswith("out/") or ".." in key)
    return {key: bucket.read(key) for key in keys}


@pytest.mark.parametrize(("thing", "command"), PAIRS)
def test_a_command_touches_nothing_beside(received, tmp_path: Path, capfd, thing: str, command: str):
    """Whatever a stranger has put into the output; and it says so in a line, without a traceback."""
    folder, bucket = received
    planted(bucket, thing, tmp_path)
    before = beside(bucket), pictured(tmp_path / "victim")
    said = here(capfd, *COMMANDS[command](folder, bucket.url("out")))
    assert (beside(bucket), pictured(tmp_path / "victim")) == before
    assert before[0] == BESIDE
    assert said.code in (0, 1, 2), said.err
    assert "Traceback" not in said.err
    if said.code == 2:
        assert len(said.lines) == 1, said.err


@pytest.mark.parametrize("thing", ["an output with ..", "an absolute output", "an output that is the lock"])
def test_a_name_that_leads_out_is_not_read(received, tmp_path: Path, thing: str):
    """Neither what is beside in the bucket, nor a file of this machine."""
    _, bucket = received
    planted(bucket, thing, tmp_path)
    names = {"an absolute output": f"{tmp_path}/victim/x", "an output with ..": "../victim/x"}
    row = {"input": "x.txt", "output": names.get(thing, f"{OWN}/lock")}
    with pytest.raises(SplitterError):
        splitter.read_output(row, bucket.url("out"))
