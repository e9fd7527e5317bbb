"""`splitter report` and `splitter serve`: parse, call, print."""

import os
import shlex
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from splitter.cli.options import interruptible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from splitter.report.looking import Tell
    from splitter.report.page import Page

SAMPLE, PREVIEWS = 10_000, 3_000_000
_SAMPLE_HELP = "Maximum number of outputs to read for levels, waveforms and previews; counts cover all."
_SAMPLE = click.option(
    "--sample", type=click.IntRange(min=0), default=SAMPLE, show_default=True, help=_SAMPLE_HELP
)
_PREVIEWS_HELP = (
    "Maximum number of bytes of sound and images to embed in the page, for when it cannot read the files."
)
_PREVIEWS = click.option(
    "--previews", type=click.IntRange(min=0), default=PREVIEWS, show_default=True, help=_PREVIEWS_HELP
)
_ALL_ROWS = click.option("--all-rows", is_flag=True, help="Also show outputs that --keep left out.")


@click.command(short_help="Write a page to browse and play the outputs.")
@click.argument("output")
@click.option("to", "--output", "-o", metavar="FILE", help="Where to write it. Default: OUTPUT/report.html.")
@_SAMPLE
@_PREVIEWS
@_ALL_ROWS
@click.option("--quiet", is_flag=True, help="Print errors only.")
def report(  # noqa: PLR0913 - what click gives
    *, output: str, to: str | None, sample: int, previews: int, all_rows: bool, quiet: bool
) -> int:
    """Write a page about the output folder OUTPUT: plots, a table to browse and play outputs, failures.

    The page is one file that works in any browser without a network. Nothing else is written.
    """
    from splitter.report.looking import Effort
    from splitter.report.writing import write_report
    from splitter.text.show import one_line, show_bytes, show_count

    with interruptible("interrupted; no report was written"), _progress(quiet=quiet) as tell:
        path, page = write_report(output, to, Effort(sample, previews, tell, all_rows))
    if not quiet:
        line = f"{show_bytes(len(page.content))}, {show_count(page.outputs, 'output')}"
        if page.outputs:
            read = page.looked_at - len(page.unread)
            line += f", {'all' if read == page.outputs else f'{read:,}'} of them read"
        if page.left:
            line += f"; {page.left:,} of {show_count(page.inputs, 'input')} not tried yet"
        click.echo(f"{path}: {line}")
        click.echo(f"next: {_next_step(path, page, output)}")
    if page.unread:
        click.echo(f"splitter: {one_line(_unread(page))}", err=True)
    return int(bool(page.unread))


def _unread(page: "Page") -> str:
    """Say which outputs cannot be read, and why."""
    from splitter.text.show import NAMES_SHOWN, show_count

    few, count = page.unread[:NAMES_SHOWN], len(page.unread)
    named = "; ".join([*few, *([f"and {count - NAMES_SHOWN:,} more"] if count > NAMES_SHOWN else [])])
    verify = "run 'splitter verify' to see if they are unchanged"
    return f"{show_count(count, 'output')} cannot be read: {named}; {verify}"


def _next_step(path: str, page: "Page", output: str) -> str:
    """Say how to open the report."""
    from splitter.text.urls import is_url

    serve = f"splitter serve {shlex.quote(output)}"
    if is_url(path):
        return f"open it in a browser, if one can read the bucket; or: {serve}"
    why = "to play outputs in shards, or virtual ones" if page.in_shards else "over SSH"
    return f"open {Path(path).as_uri()} in a browser; {why}: {serve}"


@click.command(short_help="Serve that page to a browser; also plays shards.")
@click.argument("output")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="The port; 0 picks a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; 0.0.0.0 gives access to all who can reach this machine.",
)
@click.option("--sources", is_flag=True, help="Also serve the inputs that the dataset list names.")
@click.option(
    "--watch",
    is_flag=True,
    help="Show how far the current run in OUTPUT is, what fails, and what each worker does.",
)
@_SAMPLE
@_PREVIEWS
@_ALL_ROWS
def serve(  # noqa: PLR0913 - what click gives
    *,
    output: str,
    port: int,
    host: str,
    sources: bool,
    watch: bool,
    sample: int,
    previews: int,
    all_rows: bool,
) -> None:
    """Serve the output folder OUTPUT to a browser on this machine, until Ctrl-C.

    This way, the report plays all outputs, including those in shards, and shows their spectrograms. If
    report.html is missing or outdated, a new one is made in memory. Nothing outside OUTPUT is served, and
    links are not followed. With --watch, the first page shows the run, and leads to the report when the run
    has ended.
    """
    from splitter.report.looking import Effort
    from splitter.report.writing import server_of, watching_server_of

    with interruptible("stopped"), ExitStack() as at_end:
        with _progress(quiet=watch) as tell:
            effort, note = Effort(sample, previews, tell, all_rows), ""
            if watch:
                server, run = watching_server_of(output, effort, host=host, port=port, sources=sources)
                at_end.callback(run.close)
            else:
                server, note = server_of(output, effort, host=host, port=port, sources=sources)
        if note:
            click.echo(f"splitter: {note}", err=True)
        at_end.enter_context(server)
        click.echo(f"{os.path.abspath(output)}: at {server.url} until Ctrl-C")
        sys.stdout.flush()
        server.serve_forever()


@contextmanager
def _progress(*, quiet: bool) -> "Iterator[Tell]":
    """Show a bar on a terminal while outputs are read."""
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading outputs", total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)
