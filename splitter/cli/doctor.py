"""`splitter doctor`: what is installed, what it can read and write, and what the machine has."""

import importlib.metadata
import io
import os
import platform
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from typing import NamedTuple, get_args

import click

from splitter import __version__
from splitter.errors import Refused
from splitter.text.columns import NO_BREAK
from splitter.text.show import show_bytes, show_count

PACKAGES = ("torch", "ray", "soundfile", "av", "soxr", "silero-vad", "numpy", "pandas", "pyarrow", "fsspec")
OPTIONAL = ("s3fs", "librosa", "pillow", "webdataset", "datasets")
# decoders by FFmpeg's names for them, each with the format that needs it
DECODERS = {
    "aac": "M4A (AAC)",
    "alac": "M4A (ALAC)",
    "opus": "WebM",
    "wmav2": "WMA",
    "wavpack": "WavPack",
    "ape": "Monkey's Audio",
    "tta": "True Audio",
    "amrnb": "AMR",
    "ac3": "AC-3",
}
MOST_COLUMNS, FEWEST_COLUMNS = 80, 40
LEAST_SPACE = 1e9


class Line(NamedTuple):
    """One line of the output; `is_fault` marks one that needs attention."""

    name: str
    text: str
    is_fault: bool = False


@click.command(short_help="Show what a bug report needs: versions, formats, CPUs, space.")
@click.option("--address", help="Also try to reach a Ray cluster: auto, HOST:PORT or ray://HOST:PORT.")
@click.option("--url", help="Also try to reach a folder in an object store, such as s3://bucket/folder.")
def doctor(address: str | None, url: str | None) -> int:
    """Show versions, the formats of sound that can be read and written, CPUs, memory and space.

    It exits with code 1 if something is wrong. It writes nothing, and uses no network unless --address or
    --url ask for it.
    """
    is_faulty = False
    width = max(FEWEST_COLUMNS, min(MOST_COLUMNS, shutil.get_terminal_size().columns))
    for line in _lines(address, url):
        is_faulty |= line.is_fault
        mark = "! " if line.is_fault else ""
        text = textwrap.fill(
            f"{line.name:<10}{mark}{line.text}",
            width,
            subsequent_indent=" " * 10,
            break_long_words=False,
            break_on_hyphens=False,
        )
        click.echo(text.replace(NO_BREAK, " "))
    return int(is_faulty)


def _lines(address: str | None, url: str | None) -> Iterator[Line]:
    yield Line("splitter", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    yield from _packages()
    yield _readable()
    yield from _writable()
    yield _processors()
    yield _memory()
    yield from _spaces()
    if address:
        yield _tried("ray", address, _reach_ray)
    if url:
        yield _tried("url", url, _reach_store)


def _packages() -> Iterator[Line]:
    versions = {name: _version(name) for name in (*PACKAGES, *OPTIONAL)}
    installed = (f"{name}{NO_BREAK}{version}" for name, version in versions.items() if version)
    yield Line("packages", ", ".join(installed))
    missing = [name for name in PACKAGES if not versions[name]]
    if missing:
        yield Line("", f"not installed: {', '.join(missing)}; reinstall splitter", is_fault=True)
    if not versions["s3fs"]:
        yield Line("", "for s3:// URLs run: pip install 'splitter-ml[s3]'")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _readable() -> Line:
    import soundfile

    from splitter.audio.formats.registry import OF_LIBSNDFILE

    known = soundfile.available_formats()
    # several entries have the same name
    own = dict.fromkeys(_with_codecs(one.name) for one in OF_LIBSNDFILE if one.name in known)
    others: list[str] = []
    missing: list[str] = []
    try:
        import av
    except ImportError as error:
        return Line("reads", f"{', '.join(own)}; no formats of FFmpeg: {error}", is_fault=True)
    for codec, name in DECODERS.items():
        (others if codec in av.codecs_available else missing).append(name)
    lacking = f"; this build of PyAV lacks {', '.join(missing)}" if missing else ""
    version = soundfile.__libsndfile_version__
    text = f"{', '.join(own)} (libsndfile {version}); {', '.join(others)} (PyAV {av.__version__}){lacking}"
    return Line("reads", text, is_fault=bool(missing))


def _with_codecs(name: str) -> str:
    """Return the name of a format; for Ogg, which is only a container, add the codecs that it can hold."""
    import soundfile

    return f"{name} ({', '.join(soundfile.available_subtypes(name).values())})" if name == "OGG" else name


def _writable() -> Iterator[Line]:
    """Try each format that recipes write, by writing a moment of silence and reading it back."""
    from splitter.audio.target import FileFormat

    fine, faults = [], []
    for name in get_args(FileFormat):
        if name == "same":
            continue
        try:
            _write_and_read(name)
            fine.append(name)
        except Exception as error:  # noqa: BLE001 - whatever a broken library raises
            faults.append(f"{name}: {error}")
    yield Line("writes", ", ".join(fine))
    for fault in faults:
        yield Line("", f"cannot write {fault}; reinstall soundfile", is_fault=True)


def _write_and_read(name: str) -> None:
    import numpy as np
    import soundfile

    file, rate = io.BytesIO(), 16_000
    soundfile.write(file, np.zeros(rate // 4, "f4"), rate, format=name.upper())
    file.seek(0)
    soundfile.read(file)


def _processors() -> Line:
    import torch

    from splitter.system.cpus import usable_cpus

    gpus = [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]
    return Line(
        "CPUs", f"{usable_cpus()} of {os.cpu_count()} usable; GPUs for --device: {', '.join(gpus) or 'none'}"
    )


def _memory() -> Line:
    import psutil

    there = psutil.virtual_memory()
    return Line("memory", f"{show_bytes(there.available)} available of {show_bytes(there.total)}")


def _spaces() -> Iterator[Line]:
    """Yield the free space in the folders that a run writes to; workers share /dev/shm."""
    places = dict.fromkeys((os.getcwd(), tempfile.gettempdir(), "/dev/shm"))  # noqa: S108 - only looked at
    for place in filter(os.path.isdir, places):
        free = shutil.disk_usage(place).free
        is_writable = os.access(place, os.W_OK)
        text = f"{place}: {show_bytes(free)} free{'' if is_writable else ', not writable'}"
        # the current folder may be read-only if outputs go elsewhere
        is_needed = place == tempfile.gettempdir()
        yield Line("space", text, is_fault=is_needed and not (is_writable and free > LEAST_SPACE))


def _tried(name: str, asked: str, reach: Callable[[str], str]) -> Line:
    from splitter.stores.faults import reason
    from splitter.text.urls import without_secrets

    try:
        return Line(name, f"{without_secrets(asked)}: {reach(asked)}")
    except Refused as refusal:
        return Line(name, str(refusal), is_fault=True)
    except Exception as error:  # noqa: BLE001 - clients raise what they like
        return Line(name, f"{without_secrets(asked)}: {reason(error)}", is_fault=True)


def _reach_ray(address: str) -> str:
    import ray

    from splitter.executors.base import Cluster
    from splitter.executors.ray.cluster import joined_cluster

    with joined_cluster(address, Cluster(address=address)):
        nodes = sum(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]
        cpus = ray.cluster_resources().get("CPU", 0)  # type: ignore[no-untyped-call]
    return f"Ray answers: {show_count(nodes, 'node')} with {show_count(round(cpus), 'CPU')}"


def _reach_store(url: str) -> str:
    from splitter.stores.clients import client
    from splitter.text.urls import is_url

    if not is_url(url):
        raise Refused(f"--url {url}: is not a URL, such as s3://bucket/folder")
    store, path = client(url)
    try:
        return f"answers: {show_count(len(store.ls(path, detail=False)), 'name')}"
    except FileNotFoundError:
        return "answers, but nothing is there"
