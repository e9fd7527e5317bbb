"""The command lines of the tools for tar shards."""

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from splitter.archives.sources import STANDARD, sources_of
from splitter.cli.options import Single
from splitter.errors import Interrupted, Refused, RunStopped
from splitter.tar.targets import check_target
from splitter.text.sizes import parse_size

_BROKEN_PIPE = 128 + signal.SIGPIPE if sys.platform != "win32" else 1
TOLD_FAILURES = 20
_COUNT = click.IntRange(min=0)
_SOME = click.IntRange(min=1)
Tool = TypeVar("Tool", bound=Callable[..., Any])


@click.group(
    help="""Tools for tar shards of samples, as WebDataset has them.

    INPUTS are archives (plain or gzip): files, patterns such as 'a-*.tar', lists such as
    'a-{0000..0147}.tar', URLs, or - for standard input. -o - is standard output."""
)
def tar() -> None:
    """Tools for tar shards."""


def _tool(function: Tool) -> Tool:
    """A command that leaves nothing behind when it is interrupted."""

    @functools.wraps(function)
    def run(*args: Any, **values: Any) -> int:  # noqa: ANN401 - what click has parsed
        from splitter.system.signals import signals_raise

        try:
            # signals raise, so that temporary files are removed
            with signals_raise():
                return function(*args, **values) or 0
        except Interrupted as interruption:
            _say("interrupted; nothing half done is left")
            return interruption.exit_code
        except BrokenPipeError:
            # whoever reads has enough; Python would complain once more at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _BROKEN_PIPE

    return run  # type: ignore[return-value]


def _say(line: str) -> None:
    click.echo(f"splitter: {' '.join(line.split())}", err=True)


class _FirstFew:
    """Says the first of what may be many failures, and counts the rest."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, line: str) -> None:
        self._count += 1
        if self._count <= TOLD_FAILURES:
            _say(line)

    def end(self) -> None:
        """Say how many more there were."""
        if self._count > TOLD_FAILURES:
            _say(f"and {_counted(self._count - TOLD_FAILURES, 'more failure')}")


_inputs = click.argument("inputs", nargs=-1, required=True)
_same_keys = click.option(
    "--same-keys",
    type=click.Choice(["refuse", "number"]),
    default="refuse",
    show_default=True,
    help="What becomes of a sample whose key another one has taken: an error, or KEY-2.",
)
_delimiter = click.option(
    "--delimiter", help="What stands between two columns. Default: a comma, in .tsv files a tab."
)
_memory = click.option(
    "--memory",
    default="256MB",
    show_default=True,
    help="How much to sort at a time; the rest is in temporary files.",
)


def _output(default: str | None = None, text: str = "The archive to write.") -> Callable[[Tool], Tool]:
    # a default that is None would count as given, and nothing would be missing
    given: dict[str, Any] = {"required": True} if default is None else {"default": default}
    return click.option("output", "--output", "-o", show_default=True, help=text, **given)


@tar.command(short_help="Put the samples of archives into one.")
@_inputs
@_output()
@click.option("--count", type=_COUNT, help="Take only this many samples.")
@click.option("--skip", type=_COUNT, default=0, help="Leave this many samples out first.")
@click.option("--shuffle", type=_SOME, help="Mix the samples, of which this many wait at a time.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which order --shuffle gives.")
@click.option("--workers", type=_SOME, default=1, show_default=True, help="Archives to read at a time.")
@_same_keys
@_tool
def cat(inputs: Sequence[str], output: str, **options: Any) -> None:  # noqa: ANN401 - what click has parsed
    """Put the samples of INPUTS into one archive, in their order."""
    from splitter.tar.copying import cut, read_together, shuffled, write_archive

    sources = sources_of(inputs)
    check_target(output)
    with contextlib.closing(read_together(sources, options["workers"])) as samples:
        chosen = cut(samples, skip=options["skip"], count=options["count"])
        if options["shuffle"]:
            chosen = shuffled(chosen, options["shuffle"], options["seed"])
        write_archive(chosen, output, number_same=options["same_keys"] == "number")


@tar.command(short_help="Divide a stream of samples into shards.")
@_inputs
@_output("shard-{shard:06d}.tar", "The names of the shards.")
@click.option("--size", default="1GB", show_default=True, help="The most bytes of a shard.")
@click.option("--count", type=_SOME, help="The most samples of a shard.")
@click.option("--start", type=_COUNT, default=0, show_default=True, help="The number of the first shard.")
@click.option("--max-shards", type=_SOME, help="Write at most this many shards.")
@click.option(
    "--gather/--no-gather",
    default=None,
    help="Sort by key first, so that members that stand apart come together. Default: for an archive "
    "that begins with a folder, as from 'tar -cf - FOLDER'.",
)
@_memory
@_same_keys
@_tool
def split(inputs: Sequence[str], output: str, **options: Any) -> None:  # noqa: ANN401 - what click has parsed
    """Divide the samples of INPUTS into shards, in their order."""
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
    divided = copying.split(gathered(sources, memory, always=options["gather"]), shards)
    first, last = (divided.names[at] if divided.names else "" for at in (0, -1))
    names = first if first == last else f"{first} to {last}"
    counted = f"{_counted(divided.samples, 'sample')} in {_counted(len(divided.names), 'shard')}"
    _say(counted + (f": {names}" if names else ""))
    if divided.more:
        _say(f"stopped after {_counted(len(divided.names), 'shard')} (--max-shards); there are more samples")


@tar.command(short_help="Sort samples, or shuffle them; larger than memory.")
@_inputs
@_output()
@click.option("--by", cls=Single, help="A field to sort by, or alternatives as 'cls;json'. Default: by key.")
@click.option(
    "kind",
    "--as",
    type=click.Choice(["text", "int", "float"]),
    default="text",
    show_default=True,
    help="What the values of the field are.",
)
@click.option("--reverse", is_flag=True, help="The largest first.")
@click.option("--shuffle", is_flag=True, help="Sort by chance instead.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which order --shuffle gives.")
@_memory
@_same_keys
@_tool
def sort(inputs: Sequence[str], output: str, **options: Any) -> None:  # noqa: ANN401 - what click has parsed
    """Sort the samples of INPUTS into one archive; equal ones keep their order."""
    from splitter.tar.copying import write_archive
    from splitter.tar.ordering import Order, ordered

    by, kind, reverse = options["by"], options["kind"], options["reverse"]
    if options["shuffle"] and (by or reverse):
        raise Refused("--shuffle: sorts by chance; leave --by and --reverse out")
    sources = sources_of(inputs)
    check_target(output)
    order = Order(by, kind, reverse, options["seed"] if options["shuffle"] else None)
    samples = ordered(sources, order, parse_size("--memory", options["memory"]))
    write_archive(samples, output, number_same=options["same_keys"] == "number")


@tar.command(short_help="Make an archive from a table of files and texts.")
@click.argument("plan")
@_output()
@_delimiter
@_tool
def create(plan: str, output: str, delimiter: str | None) -> None:
    """Make an archive from PLAN, a CSV or TSV file with a row for each sample.

    The column 'key' holds the keys; without it samples are numbered. The others are fields: '@wav' holds
    paths of files, from PLAN's folder on, and 'cls' what is to stand in the archive itself.
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
@_output("-", "The table to write.")
@click.option(
    "fields",
    "--field",
    "-f",
    multiple=True,
    required=True,
    help="A field that becomes a column, or alternatives as 'cls;json'. May be repeated.",
)
@click.option("--missing", help="What stands where a sample lacks the field. Default: that is an error.")
@_delimiter
@_tool
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


@tar.command(short_help="Find the first sample that meets conditions.")
@_inputs
@click.option(
    "conditions",
    "--where",
    "-w",
    multiple=True,
    required=True,
    help="FIELD=VALUE, or FIELD~EXPRESSION with a regular expression; the field 'key' is the key. May be "
    "repeated: all must hold.",
)
@click.option("output", "--output", "-o", help="An archive for the sample. Default: show it.")
@_tool
def first(inputs: Sequence[str], conditions: Sequence[str], output: str | None) -> None:
    """Find the first sample of INPUTS that meets all conditions."""
    from splitter.tar.copying import write_archive
    from splitter.tar.samples import samples_of
    from splitter.tar.showing import condition, described, first_match

    tests = [condition(text) for text in conditions]
    sources = sources_of(inputs)
    if output is not None:
        check_target(output)
    with contextlib.closing(samples_of(sources)) as samples:
        found = first_match(samples, tests)
        if found is None:
            raise RunStopped(f"no sample has {' and '.join(conditions)}")
        if output is not None:
            write_archive([found], output)
        else:
            click.echo("\n".join(described(found)))


@tar.command(short_help="List samples, their fields, texts, images and sounds.")
@_inputs
@click.option("--count", type=_COUNT, help="Show only this many samples.")
@click.option("--preview", is_flag=True, help="Draw images in the terminal; needs the package Pillow.")
@click.option("--width", type=_SOME, default=40, show_default=True, help="How wide to draw them.")
@_tool
def show(inputs: Sequence[str], count: int | None, preview: bool, width: int) -> None:  # noqa: FBT001 - click's
    """List the samples of INPUTS with the sizes of their fields, texts, and what images and sounds are."""
    from splitter.tar.copying import cut
    from splitter.tar.samples import samples_of
    from splitter.tar.showing import described

    with contextlib.closing(samples_of(sources_of(inputs))) as samples:
        for sample in cut(samples, count=count):
            click.echo("\n".join(described(sample, preview=width if preview else 0)))


class _MapCommand(click.Command):
    """`map`: what stands after `--` is the program and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take them away before click makes inputs of them."""
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Name them in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM ARGUMENTS...]"]


@tar.command("map", cls=_MapCommand, short_help="Run a script or a program on each sample.")
@_inputs
@_output(text="The archive to write; with {} in it one for each of INPUTS.")
@click.option("script", "-c", "--script", help="A script for sh; it ends at the first command that fails.")
@click.option(
    "--workers",
    type=_SOME,
    help="Samples to work on at a time, by default 1; on Ray archives, as many as there is room for.",
)
@click.option(
    "--executor",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where to work; ray takes each archive as one task, and needs {}.",
)
@click.option("--address", help="Of a running Ray cluster, or auto. Default: a private Ray on this machine.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    help="Seconds for one sample; one that takes longer fails.",
)
@click.option("--max-failures", type=_COUNT, help="Stop when more samples than this fail. Default: never.")
@click.option("--retry-failed", is_flag=True, help="With {}: do archives again in which samples failed.")
@click.option("--fresh", is_flag=True, help="With {}: do all archives again.")
@_same_keys
@_tool
def map_(inputs: Sequence[str], output: str, **options: Any) -> int:  # noqa: ANN401 - what click has parsed
    """Run a script or a program on each sample of INPUTS, in a folder of its own.

    The folder holds the sample's fields as sample.FIELD. What stands there as sample.* at the end is the new
    sample; other files NAME.FIELD become samples of their own with the key KEY-NAME.
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
            raise Refused("--retry-failed and --fresh are for -o with {}; one archive is always made again")
        check_target(output)
        job.into_one(sources, output, counts)
    failures.end()
    see = f"; see {output}{mapping.ERRORS}" if counts.failed and output != STANDARD else ""
    _say(_summary(counts) + see)
    return 1 if counts.failed or counts.damaged else 0


def _is_on_ray(executor: str, address: str | None, inputs: Sequence[str], output: str) -> bool:
    """Whether the archives go to Ray; refuses what cannot."""
    if executor != "ray":
        if address is not None:
            raise Refused(f"--address {address}: needs --executor ray")
        return False
    if "{}" not in output or STANDARD in inputs:
        raise Refused(
            "--executor ray: takes each archive of a list as one task; give INPUTS as 'in-{0000..0999}.tar' "
            "and -o as 'out-{}.tar', or leave it out"
        )
    return True


def _program(script: str | None, arguments: Sequence[str] | None) -> Sequence[str]:
    """The program and its arguments."""
    if script is not None and not arguments:
        return ["sh", "-e", "-c", script, "sh"]
    if script is None and arguments:
        return arguments
    raise Refused("map: give a script with -c, or a program after --; see splitter tar map --help")


def _counted(number: int, things: str) -> str:
    return f"{number:,} {things}{'s' * (number != 1)}"


def _summary(counts: Any) -> str:  # noqa: ANN401 - mapping.Counts, imported when it is used
    parts = [f"{_counted(counts.done, 'sample')} done, {counts.made:,} made, {counts.failed:,} failed"]
    if counts.skipped:
        parts.append(f"left alone since they were there: {_counted(counts.skipped, 'archive')}")
    if counts.damaged:
        parts.append(f"not done: {_counted(counts.damaged, 'archive')}")
    return "; ".join(parts)
