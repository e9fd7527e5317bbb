"""Write the page about an output folder, or serve it."""

import contextlib
import os

from splitter.errors import Refused, StorageError
from splitter.ledger.manifest import MANIFEST
from splitter.outputs.files import Files
from splitter.outputs.frame import Manifest, read_manifest
from splitter.outputs.pieces import is_virtual
from splitter.outputs.reader import OutputReader
from splitter.outputs.tables import location_of
from splitter.report.looking import Effort
from splitter.report.page import Page, layout_of, page_of
from splitter.report.progress import RunWatch
from splitter.report.serving import Served, Server
from splitter.report.summary import RunFacts
from splitter.report.watching import WatchPage
from splitter.storage.layout import OWN_FOLDER, Layout, shard_of
from splitter.storage.opening import storage_of
from splitter.storage.tree import Tree
from splitter.text.content_types import REPORT
from splitter.text.urls import is_url, without_secrets


def write_report(output: str, to: str | None, effort: Effort) -> tuple[str, Page]:
    """Write a page about an output folder into it, or to another file; return the path and the page."""
    folder = location_of(output, "report").files.folder
    if to is None and is_url(folder):
        page = page_of(output, folder, effort)
        storage_of(folder, None).write(REPORT, page.content)
        return f"{without_secrets(folder)}/{REPORT}", page
    path = os.path.abspath(os.path.expanduser(to)) if to else os.path.join(folder, REPORT)
    if os.path.isdir(path):
        raise Refused(f"--output {path}: is a folder; name the file to write")
    if to and not os.path.isdir(os.path.dirname(path)):
        raise Refused(f"--output {path}: there is no folder {os.path.dirname(path)}; create it first")
    page = page_of(output, os.path.dirname(path), effort)
    _write(path, page.content)
    return path, page


def _write(path: str, content: bytes) -> None:
    folder, name = os.path.split(path)
    tree = Tree(folder)
    temporary = f"{name}.new"
    try:
        if tree.exists(OWN_FOLDER):
            # if the process is killed, the file remains where it disturbs nobody
            temporary = f"{OWN_FOLDER}/{temporary}"
        with open(temporary, "wb", opener=tree.create) as file:
            file.write(content)
        tree.rename(temporary, name)
    except OSError as error:
        with contextlib.suppress(OSError):
            tree.unlink(temporary)
        raise StorageError(f"cannot write {path}: {error.strerror}; choose another file with -o") from None


def server_of(output: str, effort: Effort, *, host: str, port: int, sources: bool) -> tuple[Server, str]:
    """Return a server for an output folder, and a note for the user.

    The server makes its own page if report.html is missing or older than the manifest.
    """
    served = _served(output, sources=sources)
    server = Server(served.body, host, port)
    try:
        note = _give_page(served, output, effort)
    except BaseException:
        server.server_close()
        raise
    return server, note


def watching_server_of(
    output: str, effort: Effort, *, host: str, port: int, sources: bool
) -> tuple[Server, RunWatch]:
    """Return a server that shows the progress of a run and then its report, and the watch that it reads."""

    def report() -> Served:
        served = _served(output, sources=sources)
        _give_page(served, output, effort)
        return served

    watch = RunWatch(output)
    return Server(WatchPage(watch, report).body, host, port), watch


def _served(output: str, *, sources: bool) -> Served:
    """Return the files of an output folder that has a manifest."""
    files = location_of(output, "serve").files
    manifest = read_manifest(output)
    # loose files on this machine are served as they are
    remote, reader = is_url(files.folder), OutputReader(files.folder)
    names = reader.columns_of_address([*manifest.columns])
    rows = (
        dict(zip(names, row, strict=True)) for row in zip(*(manifest[name] for name in names), strict=True)
    )
    members = {
        row["output"]: reader.address(row)._replace(checksum="")
        for row in rows
        if row["output"] and (remote or shard_of(row["output"])[0] or is_virtual(row))
    }
    return Served(files, members, _sources(files, manifest) if sources else None)


def _give_page(served: Served, output: str, effort: Effort) -> str:
    """Make a page if report.html is missing or older than the manifest; return a note for the user."""
    files = served.files
    there = files.exists(REPORT)
    old = there and not is_url(files.folder) and _is_older(files.location(REPORT), files.location(MANIFEST))
    if not there or old:
        served.page = page_of(output, files.folder, effort).content
    return f"{REPORT} is older than the manifest: a new one is shown but not written" if old else ""


def _is_older(one: str, other: str) -> bool:
    try:
        return os.stat(one).st_mtime_ns < os.stat(other).st_mtime_ns
    except OSError:
        return False


def _sources(files: Files, manifest: Manifest) -> tuple[Layout, frozenset[str]]:
    kept = RunFacts.of(files)
    layout = layout_of(kept)
    if layout is None:
        raise Refused(f"--sources: the inputs of {files.folder} are not on this machine; leave it out")
    column = str(kept.listed.get("column", ""))
    failed = manifest.failed[column] if column in manifest.failed.columns else ()
    names = manifest[column] if column in manifest.columns else ()
    return layout, frozenset([*names, *failed])
