"""Output folders that an earlier version made, or left half-done, go on under this one.

`earlier/folders-0.1.0.tar.xz` was made at commit 41196b1, before begun records had checksums. For each sink
it has a finished run (one input is missing), a run of the same folder with two rows appended that was killed
right after it had said what it would do (`-begun`), and one that was killed half-way (`-half`).
"""

import os
import tarfile
from pathlib import Path

import pytest
from crashes import contents, read_rows, undisturbed
from engine.test_protocol import everything

ARCHIVE = Path(__file__).parents[1] / "earlier" / "folders-0.1.0.tar.xz"
SINKS = ["files", "webdataset", "parquet"]


@pytest.fixture(params=[f"{sink}{state}" for sink in SINKS for state in ("", "-begun", "-half")])
def earlier(request, folder: Path, monkeypatch) -> str:
    """The name of an unpacked folder; the working directory is in it."""
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    monkeypatch.chdir(folder / request.param)
    return request.param


def _arguments(name: str, output: str = "outputs") -> list[str]:
    sink = name.partition("-")[0]
    options = ["--recipe=words", "--root=inputs", f"--output={output}", "--workers=0", "--num-chars=3"]
    return ["run", "dataset.csv", *options, f"--sink={sink}"]


def made(output: Path) -> dict[str, bytes]:
    """All but errors.csv, which names the folder of the missing input."""
    return {name: content for name, content in contents(output).items() if name != "errors.csv"}


@pytest.mark.slow
def test_a_folder_of_an_earlier_version_goes_on_to_the_same_bytes(earlier: str):
    """What is finished stays, what is half-done is completed, and all is as if this version had made it."""
    finished = "-" not in earlier
    before = made(Path("outputs"))
    ended = undisturbed(_arguments(earlier))
    assert ended.code == 1, ended.said
    if finished:
        # what a file that is missing was found as is stated in another way now
        said = ended.said.removeprefix("1 failed input changed and will be tried again (bad.txt: its file)\n")
        assert said.startswith("1 input (0 bytes) to do\n4 of 5 inputs done, 1 failed; 0 outputs"), ended.said
        assert made(Path("outputs")) == before
    fresh = undisturbed(_arguments(earlier, "fresh"))
    assert fresh.code == 1, fresh.said
    assert everything(Path("outputs")) == everything(Path("fresh"))
    assert len({row["input"] for row in read_rows(Path("outputs", "manifest.csv"))}) == (4 if finished else 6)
    checked = undisturbed(["verify", "outputs"])
    assert checked.code == 0, checked.said


@pytest.mark.slow
def test_damage_in_a_folder_of_an_earlier_version_is_found_and_repaired(earlier: str):
    """An output or a shard that was cut is found by verify, and --repair makes it again."""
    undisturbed(_arguments(earlier))
    whole = everything(Path("outputs"))
    name = max(name for name in contents(Path("outputs")) if not name.endswith(".csv"))
    os.truncate(Path("outputs", name), 1)
    assert undisturbed(["verify", "outputs"]).code == 1
    assert undisturbed([*_arguments(earlier), "--repair"]).code == 1
    assert everything(Path("outputs")) == whole
    assert undisturbed(["verify", "outputs"]).code == 0
