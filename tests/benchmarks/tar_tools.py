"""What the tools for tar shards cost: their memory for streams of ten gigabytes, and their time.

    python tests/benchmarks/tar_tools.py memory
    python tests/benchmarks/tar_tools.py speed

`memory` lets a process write samples to each tool's standard input, and adds up the memory of the tool and of
all processes that it has started. `speed` lets each tool take turns with a loop over Python's own tarfile and
with `cp`, on an archive in memory.
"""

import argparse
import contextlib
import csv
import io
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import BinaryIO, NamedTuple

import psutil
from harness import (
    DEFAULT_SCRATCH,
    SPLITTER,
    CommandFailedError,
    clear,
    describe_machine,
    environment,
    format_table,
    time_command,
)
from rounds import place_for_pieces

TAR = (*SPLITTER, "tar")
GIGABYTE = 10**9
LOOKS_PER_SECOND = 50
SHARD_BYTES = 250_000_000
SCRIPT = "mv sample.bin sample.out"
MOST_TO_MAP = 10_000  # samples, as each starts a shell


# -- archives ----------------------------------------------------------------------------------------------


def content(size: int) -> bytes:
    """Return bytes that do not look like parts of an archive."""
    return (bytes(range(1, 251)) * (size // 250 + 1))[:size]


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """Append a member."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def write_samples(file: BinaryIO, total: int, size: int) -> None:
    """Write an archive of about `total` bytes; each sample has a content of `size` bytes and a text."""
    data = content(size)
    for number in range(max(1, total // size)):
        # the order that gives a sort the most work
        key = f"{(number * 7_919) % 10_000_019:09d}"
        for name, member in ((f"{key}.bin", data), (f"{key}.txt", f"number {number}\n".encode())):
            info = tarfile.TarInfo(name)
            info.size = len(member)
            file.write(info.tobuf(tarfile.USTAR_FORMAT))
            file.write(member)
            file.write(bytes(-len(member) % tarfile.BLOCKSIZE))
    file.write(bytes(2 * tarfile.BLOCKSIZE))


def write_plan(folder: Path, total: int, size: int) -> Path:
    """Write a plan for as many samples, all of which have the same file as content."""
    (folder / "content.bin").write_bytes(content(size))
    plan = folder / "plan.csv"
    with plan.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["key", "@bin", "txt"])
        rows.writerows(
            [f"{number:09d}", "content.bin", f"number {number}"] for number in range(total // size)
        )
    return plan


# -- memory ------------------------------------------------------------------------------------------------


class Peak(NamedTuple):
    """The largest memory of a tool, and how long it took."""

    megabytes: float
    seconds: float


def memory_command(tool: str, folder: Path) -> list[str]:
    """Return the command that runs a tool on its standard input."""
    return {
        "cat": [*TAR, "cat", "-", "-o", "-"],
        "split": [*TAR, "split", "-", "-o", f"{folder}/s-{{shard:06d}}.tar", "--size", str(SHARD_BYTES)],
        "sort": [*TAR, "sort", "-", "-o", "-"],
        "create": [*TAR, "create", f"{folder}/plan.csv", "-o", "-"],
        "to-csv": [*TAR, "to-csv", "-", "-f", "txt"],
        "show": [*TAR, "show", "-"],
        "map": [*TAR, "map", "-", "-o", "-", "-c", SCRIPT, "--workers", "2"],
    }[tool]


def peak_of(tool: str, total: int, size: int, folder: Path) -> Peak:
    """Run a tool on a stream that is made while it is read."""
    clear(folder).mkdir(parents=True)
    if tool == "create":
        write_plan(folder, total, size)
    feed = [sys.executable, __file__, "--write", str(total), str(size)]
    began = time.perf_counter()
    with (
        subprocess.Popen(feed, stdout=subprocess.PIPE) as feeder,
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            memory_command(tool, folder),
            stdin=subprocess.DEVNULL if tool == "create" else feeder.stdout,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**environment(), "TMPDIR": str(folder)},
        ) as process,
    ):
        if feeder.stdout:
            feeder.stdout.close()
        with discarding(folder):
            peak = max(watch(process), default=0.0)
        if process.returncode:
            said.seek(0)
            raise CommandFailedError(f"{tool}: {said.read()[-500:]!r}")
    seconds = time.perf_counter() - began
    clear(folder)
    return Peak(peak, seconds)


def watch(process: "subprocess.Popen[bytes]") -> Iterator[float]:
    """Yield the memory of a process and of all that it has started, in MB, again and again until it ends."""
    known = psutil.Process(process.pid)
    while process.poll() is None:
        yield sum(map(resident, [known, *descendants(known)])) / 1e6
        time.sleep(1 / LOOKS_PER_SECOND)


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return all processes below one; none if it has ended."""
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def resident(process: psutil.Process) -> int:
    """Return the memory of a process in bytes, including shared memory; 0 if it has ended."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


@contextlib.contextmanager
def discarding(folder: Path) -> Iterator[None]:
    """Remove shards as soon as they are complete, since nobody will read them."""
    ended = threading.Event()

    def discard() -> None:
        while not ended.wait(0.1):
            for path in folder.glob("s-*.tar"):
                path.unlink()

    thread = threading.Thread(target=discard)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# -- time --------------------------------------------------------------------------------------------------


def samples_of(tar: tarfile.TarFile) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Yield keys, and the fields of each, as simple code would read them."""
    held: list[tuple[str, bytes]] = []
    last = ""
    for info in tar:
        key, _, field = info.name.partition(".")
        if held and key != last:
            yield last, held
            held = []
        last = key
        file = tar.extractfile(info)
        held.append((field, file.read() if file else b""))
        tar.members = []  # otherwise, it would keep every header
    if held:
        yield last, held


def put(tar: tarfile.TarFile, key: str, fields: list[tuple[str, bytes]]) -> None:
    """Write a sample."""
    for field, data in fields:
        add(tar, f"{key}.{field}", data)
    tar.members = []


def loop_cat(source: Path, out: Path) -> None:
    """Copy member after member."""
    with tarfile.open(source, "r|") as given, tarfile.open(out / "all.tar", "w|") as made:
        for key, fields in samples_of(given):
            put(made, key, fields)


def loop_split(source: Path, out: Path) -> None:
    """Copy member after member, and begin a new archive when one is full."""
    with tarfile.open(source, "r|") as given, contextlib.ExitStack() as shard:
        made, number = None, 0
        for key, fields in samples_of(given):
            if made is None or made.offset > SHARD_BYTES:
                shard.close()
                made = shard.enter_context(tarfile.open(out / f"s-{number:06d}.tar", "w|"))
                number += 1
            put(made, key, fields)


def loop_sort(source: Path, out: Path) -> None:
    """Read the names first, then copy the contents in their order."""
    with tarfile.open(source) as given, tarfile.open(out / "sorted.tar", "w|") as made:
        for info in sorted(given.getmembers(), key=lambda info: info.name):
            made.addfile(info, given.extractfile(info))


def loop_create(source: Path, out: Path) -> None:
    """Write a file and a text for each row of a plan."""
    with (source / "plan.csv").open(newline="") as rows, tarfile.open(out / "made.tar", "w|") as made:
        for row in csv.DictReader(rows):
            data = (source / row["@bin"]).read_bytes()
            put(made, row["key"], [("bin", data), ("txt", row["txt"].encode())])


def loop_to_csv(source: Path, out: Path) -> None:
    """Write a row for each sample."""
    with tarfile.open(source, "r|") as given, (out / "table.csv").open("w", newline="") as table:
        rows = csv.writer(table)
        for key, fields in samples_of(given):
            rows.writerow([key, dict(fields)["txt"].decode().strip()])


def loop_show(source: Path, out: Path) -> None:
    """Print lines for each sample."""
    del out
    with tarfile.open(source, "r|") as given:
        for key, fields in samples_of(given):
            print(key)
            for field, data in fields:
                print(f"  {field} {len(data)}", data.decode().strip() if field == "txt" else "")


def loop_map(source: Path, out: Path) -> None:
    """Make a folder and run a shell for each sample."""
    with tarfile.open(source, "r|") as given, tarfile.open(out / "mapped.tar", "w|") as made:
        for key, fields in samples_of(given):
            with tempfile.TemporaryDirectory() as folder:
                for field, data in fields:
                    Path(folder, f"sample.{field}").write_bytes(data)
                subprocess.run(["sh", "-e", "-c", SCRIPT], cwd=folder, check=True)
                found = sorted(Path(folder).iterdir())
                put(made, key, [(path.name.removeprefix("sample."), path.read_bytes()) for path in found])


LOOPS: dict[str, Callable[[Path, Path], None]] = {
    "cat": loop_cat,
    "split": loop_split,
    "sort": loop_sort,
    "create": loop_create,
    "to-csv": loop_to_csv,
    "show": loop_show,
    "map": loop_map,
}


def speed_command(tool: str, contender: str, source: Path, out: Path) -> list[str]:
    """Return the command that runs a contender on a file."""
    if contender == "cp":
        return ["cp", "--sparse=never", "--reflink=never", str(source), str(out / "copy")]
    if contender == "tarfile":
        return [sys.executable, __file__, "--loop", tool, str(source), str(out)]
    options = {
        "cat": ["-o", f"{out}/all.tar"],
        "split": ["-o", f"{out}/s-{{shard:06d}}.tar", "--size", str(SHARD_BYTES)],
        "sort": ["-o", f"{out}/sorted.tar"],
        "create": ["-o", f"{out}/made.tar"],
        "to-csv": ["-o", f"{out}/table.csv", "-f", "txt"],
        "show": [],
        "map": ["-o", f"{out}/mapped.tar", "-c", SCRIPT],
    }[tool]
    return [*TAR, tool, str(source / "plan.csv" if tool == "create" else source), *options]


def names_in(out: Path, tool: str, log: Path) -> list[str]:
    """Return what a contender has made: names of members, or lines."""
    if tool == "to-csv":
        lines = (out / "table.csv").read_text().splitlines()
        return [line for line in lines if not line.startswith("key,")]
    if tool == "show":
        return [line for line in log.read_text().splitlines() if not line.startswith(" ")]
    found = []
    for path in sorted(out.glob("*.tar")):
        with tarfile.open(path) as tar:
            found += tar.getnames()
    return found


def compare(tool: str, source: Path, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Let the contenders take turns, and check that all have made the same; return their times."""
    out, log = arguments.place / "tar-tools-out", arguments.scratch / "tar-tools.log"
    times: dict[str, list[float]] = {name: [] for name in ("splitter", "tarfile", "cp")}
    if tool == "create":
        del times["cp"]
    made: dict[str, list[str]] = {}
    for _ in range(arguments.rounds):
        for contender, taken in times.items():
            clear(out).mkdir(parents=True)
            taken.append(time_command(speed_command(tool, contender, source, out), log))
            if contender != "cp" and contender not in made:
                made[contender] = names_in(out, tool, log)
    clear(out)
    if made["splitter"] != made["tarfile"]:
        raise CommandFailedError(f"{tool}: WRONG: the contenders have made different things")
    return times


# -- the tables --------------------------------------------------------------------------------------------


def show_memory(arguments: argparse.Namespace) -> None:
    """Measure the memory for a tenth of the stream and for all of it, to show what grows with the input."""
    rows = []
    folder = arguments.scratch / "tar-tools"
    for size in arguments.sizes:
        for tool in arguments.tools:
            if tool == "map" and arguments.total // size > MOST_TO_MAP:
                continue
            part, whole = (
                peak_of(tool, total, size, folder) for total in (arguments.total // 10, arguments.total)
            )
            rows.append(
                [
                    f"{tool}, samples of {size:,} bytes",
                    f"{part.megabytes:.0f}",
                    f"{whole.megabytes:.0f}",
                    f"{whole.seconds:.0f}",
                ]
            )
            print(*rows[-1], sep="  ", file=sys.stderr)
    print(f"streams of {arguments.total / 10 / GIGABYTE:g} and {arguments.total / GIGABYTE:g} GB\n")
    print(format_table(["tool", "a tenth: MB", "all: MB", "seconds"], rows))


def show_speed(arguments: argparse.Namespace) -> None:
    """Compare the time of each tool with the loop, and with copying the file."""
    rows = []
    for size in arguments.sizes:
        for tool in arguments.tools:
            total = (
                size * min(arguments.total // size, MOST_TO_MAP // 10) if tool == "map" else arguments.total
            )
            source = make_source(arguments.place / "tar-tools-in", tool, total, size)
            times = compare(tool, source, arguments)
            ours, loop = median(times["splitter"]), median(times["tarfile"])
            rows.append(
                [
                    f"{tool}, samples of {size:,} bytes",
                    f"{ours:.2f}",
                    f"{min(times['splitter']):.2f}-{max(times['splitter']):.2f}",
                    f"{loop:.2f}",
                    f"{ours / loop:.2f}x",
                    f"{median(times['cp']):.2f}" if "cp" in times else "-",
                    f"{total / ours / 1e6:,.0f}",
                ]
            )
            print(*rows[-1], sep="  ", file=sys.stderr)
    clear(arguments.place / "tar-tools-in")
    header = ["tool", "splitter s", "range", "tarfile s", "to tarfile", "cp s", "splitter MB/s"]
    print(f"archives of {arguments.total / GIGABYTE:g} GB in {arguments.place}, {arguments.rounds} rounds\n")
    print(format_table(header, rows))


def make_source(folder: Path, tool: str, total: int, size: int) -> Path:
    """Make the input of a tool: an archive, or the folder of a plan."""
    folder = folder / f"{total}-{size}"
    archive = folder / "in.tar"
    if not archive.exists():
        clear(folder.parent)
        folder.mkdir(parents=True)
        with archive.open("wb") as file:
            write_samples(file, total, size)
        write_plan(folder, total, size)
    return folder if tool == "create" else archive


def main() -> None:
    """Measure what the command line asks for."""
    if sys.argv[1:2] == ["--write"]:
        # a tool that fails closes the pipe, and reports its own error
        with contextlib.suppress(BrokenPipeError):
            write_samples(sys.stdout.buffer, int(sys.argv[2]), int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["--loop"]:
        LOOPS[sys.argv[2]](Path(sys.argv[3]), Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["memory", "speed"])
    parser.add_argument("--tools", nargs="+", choices=LOOPS, default=list(LOOPS))
    parser.add_argument("--gigabytes", type=float, help="default: 10 for memory, 0.5 for speed")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000_000, 100_000], help="of the samples")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=DEFAULT_SCRATCH)
    arguments = parser.parse_args()
    arguments.total = int((arguments.gigabytes or {"memory": 10, "speed": 0.5}[arguments.what]) * GIGABYTE)
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    arguments.place = place_for_pieces(arguments.scratch)
    print(describe_machine())
    (show_memory if arguments.what == "memory" else show_speed)(arguments)


if __name__ == "__main__":
    main()
