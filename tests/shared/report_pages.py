"""What the tests of the report share: its page as data, output folders to report on, and a server."""

import base64
import contextlib
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import soundfile
from doors import CHECKOUT, write_list
from sounds import tone, write_sound

needs_chromium = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="needs a browser (Debian: chromium chromium-driver)",
)
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>\u2028\u2029&amp;"
_BLOCK = '<script type="text/plain" id="{}">(.*?)</script>'


def block(page: Path, name: str) -> str:
    """Return one of the pieces of data in a page."""
    found = re.findall(_BLOCK.format(name), page.read_text(encoding="ascii", errors="replace"), re.DOTALL)
    assert len(found) == 1
    return found[0]


def summary_of(page: Path) -> Any:
    """Return the data that the top of the page is made from."""
    return json.loads(block(page, "summary"))


def rows_of(page: Path) -> Any:
    """Return the data that the table is made from."""
    return json.loads(zlib.decompress(base64.b64decode(block(page, "rows"))))


def cells(packed: Any) -> list[Any]:
    """Return the values of a column, in whichever way they are stored."""
    return packed if isinstance(packed, list) else [packed["values"][code] for code in packed["codes"]]


def column(rows: Any, name: str) -> list[Any]:
    """Return the values of the column of the table with this name."""
    return next(cells(one["cells"]) for one in rows["columns"] if one["name"] == name)


def speech(folder: Path) -> Path:
    """Copy the recordings of data_samples to a folder that will also have the outputs; return their list."""
    shutil.copytree(
        CHECKOUT / "data_samples", folder / "data_samples", ignore=shutil.ignore_patterns("words")
    )
    return folder / "data_samples" / "dataset.csv"


def troubled(folder: Path) -> Path:
    """Make a list with recordings that can be cut, inputs that fail for two reasons, and hostile labels."""
    rows = [["input", "split", "label", "note"]]
    for number in range(4):
        name = f"talk {number}#?%41.wav"
        write_sound(folder / "in" / name, tone(2.5, 8000, hertz=300 + 100 * number), 8000)
        listed = str(folder / "in" / name) if number == 2 else name
        rows.append([listed, "test" if number == 3 else "train", ["yes", HOSTILE][number % 2], HOSTILE])
    for number in range(3):
        (folder / "in" / f"text-{number}.mp3").write_text("The microphone was broken.")
        rows.append([f"text-{number}.mp3", "train", "yes", ""])
    rows += [[f"lost-{number}.wav", "test", HOSTILE, ""] for number in range(2)]
    return write_list(folder / "in" / "dataset.csv", rows)


def many_rows(output: Path, count: int) -> Path:
    """Make an output folder with `count` outputs, which are links to a few files."""
    per_input, rate = 100, 8000
    pool = [write_sound(output.parent / f"pool-{n}.wav", tone(0.2 + 0.05 * n, rate), rate) for n in range(5)]
    frames = [soundfile.info(path).frames for path in pool]
    header = "input,label,split,output,size,checksum,start_seconds,end_seconds,sample_rate,channels,frames"
    rows: list[list[Any]] = []
    for recording in range(count // per_input):
        folder = output / f"{recording:05d}"
        folder.mkdir(parents=True)
        at = 0.0
        for number in range(per_input):
            kind = (recording * 7 + number * 3) % len(pool)
            os.link(pool[kind], folder / f"{number}.wav")
            end = at + frames[kind] / rate
            labels = [
                f"{recording:05d}.wav",
                f"label {number % 11}",
                "test" if recording % 5 == 0 else "train",
            ]
            size = pool[kind].stat().st_size
            rows.append(
                [*labels, f"{folder.name}/{number}.wav", size, "xxh128:0", at, end, rate, 1, frames[kind]]
            )
            at = end
    write_manifest(output, header.split(","), rows)
    return output


def write_manifest(output: Path, header: list[str], rows: Iterable[list[Any]]) -> None:
    """Write a manifest as a run would, with the types of its columns."""
    with (output / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    at = header.index("output")
    types = {name: "float" if name.endswith("seconds") else "int" for name in header[at + 3 :]}
    (output / ".splitter").mkdir()
    (output / ".splitter" / "schema.json").write_text(json.dumps({"columns": header[:at], "types": types}))


@dataclass
class Serving:
    """`splitter serve` in a separate process."""

    process: "subprocess.Popen[str]"
    url: str


@contextlib.contextmanager
def serving(output: Path, *options: str) -> Iterator[Serving]:
    """Serve a folder on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "splitter", "serve", output, "--port=0", *options],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert " at http" in line, process.stderr.read() if process.stderr else ""
        yield Serving(process, line.split(" at ")[1].split()[0])
    finally:
        process.kill()
        process.communicate()
