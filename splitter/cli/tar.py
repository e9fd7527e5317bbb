"""`splitter tar`, the tools for tar shards: parse, call, print."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

import click

from splitter.archives.sources import STANDARD, sources_of
from splitter.cli.options import Single, interruptible
from splitter.errors import Refused, RunStopped
from splitter.tar.targets import check_target
from splitter.text.show import show_count
from splitter.text.sizes import parse_size

_BROKEN_PIPE = 128 + signal.SIGPIPE if sys.platform != "win32" else 1
TOLD_FAILURES = 20
_COUNT = click.IntRange(min=0)
_SOME = click.IntRange(min=1)
Tool = TypeVar("Tool", bound=Callable[..., Any])


class _Tools(click.Group):
    """The tools, which leave nothing behind when they are interrupted."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - what the command returns
        try:
            # signals raise, so that temporary files are removed
            with interruptible("interrupted; nothing half-finished is left"):
                return super().invoke(ctx)
        except BrokenPipeError:
            # the reader has enough; without this, Python complains again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _BROKEN_PIPE


@click.group(
    cls=_Tools,
    help="""Tools for tar shards in WebDataset's format.

    INPUTS are archives (plain or gzip): files, patterns such as 'a-*.tar', ranges such as
    'a-{0000..0147}.tar', URLs, or - for standard input. -o - writes to standard output.""",
)
def tar() -> None:
    """Tools for tar shards."""


def _say(line: str) -> None:
    click.echo(f"splitter: {' '.join(line.split())}", err=True)


class _FirstFew:
    """A printer of failures that prints the first few and counts the rest."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, line: str) -> None:
        self._count += 1
        if self._count <= TOLD_FAILURES:
            _say(line)

    def end(self) -> None:
        """Print how many more there were."""
        if self._count > TOLD_FAILURES:
            _say(f"and {show_count(self._count - TOLD_FAILURES, 'more failure')}")


_inputs = click.argument("inputs", nargs=-1, required=True)
_same_keys = click.option(
    "--same-keys",
    type=click.Choice(["refuse", "number"]),
    default="refuse",
    show_default=True,
    help="What to do with a sample whose key is already taken: report an error, or name it KEY-2.",
)
_delimiter = click.option("--delimiter", help="Column delimiter. Default: a comma, or a tab in .tsv files.")
_memory = click.option(
    "--memory",
    default="256MB",
    show_default=True,
    help="Memory to use for sorting; the rest goes to temporary files.",
)


def _output(default: str | None = None, text: str = "Archive to write.") -> Callable[[Tool], Tool]:
    # click would take a default of None for a given value and not report the option as missing
    given: dict[str, Any] = {"required": True} if default is None else {"default": default}
    return click.option("output", "--output", "-o", show_default=True, help=text, **given)


@tar.command(short_help="Join archives into one.")
@_inputs
@_output()
@click.option("--count", type=_COUNT, help="Take only this many samples.")
@click.option("--skip", type=_COUNT, default=0, help="Skip this many samples first.")
@click.option("--shuffle", type=_SOME, help="Shuffle within a buffer of this many samples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --shuffle.")
@click.option(
    "--workers", type=_SOME, default=1, show_default=True, help="Number of archives to read at a time."
)
@_same_keys
def cat(inputs: Sequence[str], output: str, **options: Any) -> None:  # noqa: ANN401 - what click has parsed
    """Write the samples of INPUTS to one archive, in order."""
    from splitter.tar.copying import read_together, shuffled, write_archive

    sources = sources_of(inputs)
    check_target(output)
    skip, count = options["skip"], options["count"]
    with contextlib.closing(read_together(sources, options["workers"])) as samples:
        chosen = islice(samples, skip, None if count is None else skip + count)
        mixed = shuffled(chosen, options["shuffle"], options["seed"]) if options["shuffle"] else chosen
        write_archive(mixed, output, number_same=options["same_keys"] == "number")


@tar.command(short_help="Split a stream of samples into shards.")
@_inputs
@_output("shard-{shard:06d}.tar", "Pattern for the names of the shards.")
@click.option("--size", default="1GB", show_default=True, help="Maximum size of a shard.")
@click.option("--count", type=_SOME, help="Maximum number of samples in a shard.")
@click.option("--start", type=_COUNT, default=0, show_default=True, help="Number of the first shard.")
@click.option("--max-shards", type=_SOME, help="Write at most this many shards.")
@click.option(
    "--gather/--no-gather",
    default=None,
    help="Sort by key first, to bring scattered members of a sample together. Default: only for an archive "
    "that begins with a folder, as from 'tar -cf - FOLDER'.",
)
@_memory
@_same_keys
def split(inputs: Sequence[str], output: str, **options: Any) -> None:  # noqa: ANN401 - what click has parsed
    """Split the samples of INPUTS into shards, in order."""
    from splitter.tar import copying
    from splitter.tar.ordering import gathered

    sources = sources_of(inputs)
    size, memory = (parse_size(f"--{name}", options[name]) for name in ("size", "memory"))
    shards = copying.Shards(
        output,
        size,
        options["count"],
        options["start"],
        options["max_shards"],
        number_same=options["same_keys"] == "number",
    )
    shards.check()
    names, count, more = copying.split(gathered(sources, memory, always=options["gather"]), shards)
    span = " to ".join(dict.fromkeys(names[:1] + names[-1:]))
    made = show_count(len(names), "shard")
    _say(f"{show_count(count, 'sample')} in {made}" + (f": {span}" if span else ""))
    if more:
        _say(f"stopped after {made} (--max-shards); there are more samples")


@tar.command(short_help="Sort or shuffle samples, even more than fit in memory.")
@_inputs
@_output()
@click.option("--by", cls=Single, help="A field to sort by, or alternatives as 'cls;json'. Default: by key.")
@click.option(
    "kind",
    "--as",
    type=click.Choice(["text", "int", "float"]),
    default="text",
    show_default=True,
    help="Type of the field's values.",
)
@click.option("--reverse", is_flag=True, help="Sort in descending order.")
@click.option("--shuffle", is_flag=True, help="Put samples in random order instead.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --shuffle.")
@_memory
@_same_keys
def sort(inputs: Sequence[str], output: str, **options: Any) -> None:  # noqa: ANN401 - what click has parsed
    """Sort the samples of INPUTS into one archive; equal samples keep their order."""
    from splitter.tar.copying import write_archive
    from splitter.tar.ordering import Order, ordered

    by, kind, reverse = options["by"], options["kind"], options["reverse"]
    if options["shuffle"] and (by or reverse):
        raise Refused("--shuffle puts samples in random order; remove --by and --reverse")
    sources = sources_of(inputs)
    check_target(output)
    order = Order(by, kind, reverse, options["seed"] if options["shuffle"] else None)
    samples = ordered(sources, order, parse_size("--memory", options["memory"]))
    write_archive(samples, output, number_same=options["same_keys"] == "number")


@tar.command(short_help="Make an archive from a table of files and texts.")
@click.argument("plan")
@_output()
@_delimiter
def create(plan: str, output: str, delimiter: str | None) -> None:
    """Make an archive from PLAN, a CSV or TSV file with a row for each sample.

    The column 'key' holds the keys; without it, samples are numbered. The other columns are fields: a column
    such as '@wav' holds paths of files, relative to PLAN's folder, and one such as 'cls' the text itself.
    """
    from splitter.tar.copying import write_archive
    from splitter.tar.tables import check_plan, open_plan, planned

    check_target(output)
    table = open_plan(plan, delimiter)
    with table.file:
        check_plan(table)
        write_archive(planned(table), output)


@tar.command("to-csv", short_help="Write fields of the samples as a table.")
@_inputs
@_output("-", "Table to write.")
@click.option(
    "fields",
    "--field",
    "-f",
    multiple=True,
    required=True,
    help="A field to write as a column, or alternatives as 'cls;json'. May be repeated.",
)
@click.option("--missing", help="Text to write if a sample lacks the field. Default: report an error.")
@_delimiter
def to_csv(
    inputs: Sequence[str], output: str, fields: Sequence[str], missing: str | None, delimiter: str | None
) -> None:
    """Write the keys and some fields of the samples of INPUTS as a table."""
    from splitter.tar.samples import samples_of
    from splitter.tar.tables import write_table

    sources = sources_of(inputs)
    if output != STANDARD:
        check_target(output)
    write_table(samples_of(sources), fields, output, delimiter=delimiter, missing=missing)


@tar.command(short_help="Find the first sample that matches conditions.")
@_inputs
@click.option(
    "conditions",
    "--where",
    "-w",
    multiple=True,
    required=True,
    help="FIELD=VALUE, FIELD~EXPRESSION with a regular expression, or a condition over the fields, such as "
    "\"cls in ('3', '5')\"; the field 'key' is the key. May be repeated: all conditions must match.",
)
@click.option("output", "--output", "-o", help="Archive to write the sample to. Default: show it.")
def first(inputs: Sequence[str], conditions: Sequence[str], output: str | None) -> None:
    """Find the first sample of INPUTS that matches all conditions."""
    from splitter.tar.copying import write_archive
    from splitter.tar.samples import samples_of
    from splitter.tar.showing import condition, described

    tests = [condition(text) for text in conditions]
    sources = sources_of(inputs)
    if output is not None:
        check_target(output)
    with contextlib.closing(samples_of(sources)) as samples:
        found = next((sample for sample in samples if all(test(sample) for test in tests)), None)
        if found is None:
            raise RunStopped(f"no sample has {' and '.join(conditions)}")
        if output is not None:
            write_archive([found], output)
        else:
            click.echo("\n".join(described(found)))


@tar.command(short_help="List samples with their fields, texts, images and sounds.")
@_inputs
@click.option("--count", type=_COUNT, help="Show only this many samples.")
@click.option("--preview", is_flag=True, help="Draw images in the terminal; needs the package Pillow.")
@click.option("--width", type=_SOME, default=40, show_default=True, help="Width of the images.")
def show(inputs: Sequence[str], count: int | None, preview: bool, width: int) -> None:  # noqa: FBT001 - click's
    """List the samples of INPUTS: sizes of fields, texts, and properties of images and sounds."""
    from splitter.tar.samples import samples_of
    from splitter.tar.showing import described

    with contextlib.closing(samples_of(sources_of(inputs))) as samples:
        for sample in islice(samples, count):
            click.echo("\n".join(described(sample, preview=width if preview else 0)))


class _MapCommand(click.Command):
    """The command `map`, which takes a program and its arguments after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the program before click takes it for inputs."""
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show the program in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM ARGUMENTS...]"]


@tar.command("map", cls=_MapCommand, short_help="Run a script or a program on each sample.")
@_inputs
@_output(text="Archive to write; with {} in the name, one for each of INPUTS.")
@click.option("script", "-c", "--script", help="A script for sh; it stops at the first command that fails.")
@click.option(
    "--workers",
    type=_SOME,
    help="Number of samples to work on at a time; default: 1. On Ray, number of archives; default: as many "
    "as fit.",
)
@click.option(
    "--executor",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where to run; ray runs one task for each archive and needs {}.",
)
@click.option(
    "--address", help="Address of a running Ray cluster, or auto. Default: a private Ray on this machine."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    help="Seconds allowed for one sample; a sample that takes longer fails.",
)
@click.option("--max-failures", type=_COUNT, help="Stop when more samples than this fail. Default: never.")
@click.option("--retry-failed", is_flag=True, help="With {}: redo archives in which samples failed.")
@click.option("--fresh", is_flag=True, help="With {}: redo all archives.")
@_same_keys
def map_(inputs: Sequence[str], output: str, **options: Any) -> int:  # noqa: ANN401 - what click has parsed
    """Run a script or a program on each sample of INPUTS, each in a separate folder.

    The folder holds the sample's fields as sample.FIELD. When the program ends, the files sample.* make up
    the new sample, and other files NAME.FIELD become additional samples with the key KEY-NAME.
    """
    from splitter.tar import mapping

    program = mapping.Program(
        _program(options["script"], click.get_current_context().meta.get("program")),
        options["workers"] or 1,
        options["timeout"],
    )
    if options["timeout"] is not None and not options["timeout"] < threading.TIMEOUT_MAX:
        raise Refused(
            f"--timeout {options['timeout']}: must be a number of seconds; leave it out for no limit"
        )
    on_ray = _is_on_ray(options["executor"], options["address"], inputs, output)
    program.check()
    sources = sources_of(inputs)
    failures = _FirstFew()
    job = mapping.Mapping(
        program,
        _say,
        failures,
        options["max_failures"],
        options["retry_failed"],
        options["fresh"],
        number_same=options["same_keys"] == "number",
    )
    counts = mapping.Counts()
    if "{}" in output:
        pairs = mapping.pairs_of(sources, output)
        for _, target in pairs:
            check_target(target)
        if on_ray:
            from splitter.tar.ray_map import map_on_ray

            map_on_ray(job, pairs, counts, options["workers"], options["address"])
        else:
            job.one_by_one(pairs, counts)
    else:
        if options["retry_failed"] or options["fresh"]:
            raise Refused("--retry-failed and --fresh need -o with {}; a single archive is always redone")
        check_target(output)
        job.into_one(sources, output, counts)
    failures.end()
    see = f"; see {output}{mapping.ERRORS}" if counts.failed and output != STANDARD else ""
    _say(_summary(counts) + see)
    return 1 if counts.failed or counts.damaged else 0


def _is_on_ray(executor: str, address: str | None, inputs: Sequence[str], output: str) -> bool:
    """Return whether to run on Ray; refuse options that do not fit together."""
    if executor != "ray":
        if address is not None:
            raise Refused(f"--address {address}: needs --executor ray")
        return False
    if "{}" not in output or STANDARD in inputs:
        raise Refused(
            "--executor ray: runs one task for each archive; give INPUTS as 'in-{0000..0999}.tar' "
            "and -o as 'out-{}.tar', or leave it out"
        )
    return True


def _program(script: str | None, arguments: Sequence[str] | None) -> Sequence[str]:
    """Return the program and its arguments."""
    if script is not None and not arguments:
        return ["sh", "-e", "-c", script, "sh"]
    if script is None and arguments:
        return arguments
    raise Refused("map: give a script with -c, or a program after --; see splitter tar map --help")


def _summary(counts: Any) -> str:  # noqa: ANN401 - mapping.Counts, imported when it is used
    parts = [f"{show_count(counts.done, 'sample')} done, {counts.made:,} made, {counts.failed:,} failed"]
    if counts.skipped:
        parts.append(f"{show_count(counts.skipped, 'archive')} already done")
    if counts.damaged:
        parts.append(f"{show_count(counts.damaged, 'archive')} not done")
    return "; ".join(parts)
