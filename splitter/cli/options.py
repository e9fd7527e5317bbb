"""Options of the command line: those of recipes and runs, and job files."""

import contextlib
import enum
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from splitter.errors import Interrupted, Refused
from splitter.options import flag
from splitter.recipes.parameters import REQUIRED, Parameter, first_line, recipe_parameters
from splitter.registry import OF_OPTIONS, Registry

_CLICK_TYPES: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, str: click.STRING}


def recipe_option(parameter: Parameter) -> click.Option:
    """Return a parameter as an option of the command line."""
    names = [parameter.name, flag(parameter.name)]
    shared: dict[str, Any] = {"help": parameter.help, "required": parameter.default is REQUIRED}
    if parameter.default not in (REQUIRED, None) and not isinstance(parameter.default, (list, tuple)):
        shared["default"] = parameter.default
        shared["show_default"] = not isinstance(parameter.default, bool) or parameter.default
    if parameter.kind is bool and not parameter.many:
        return click.Option(
            [parameter.name, f"{flag(parameter.name)}/{flag('no_' + parameter.name)}"], **shared
        )
    return click.Option(names, type=_click_type(parameter.kind), multiple=parameter.many, **shared)


def echo_with_options(name: str, kind: type, *, levels: int) -> None:
    """Print what a recipe or a format is for, then its options, indented by `levels`."""
    context = click.get_current_context()
    click.echo(f"{name}: {first_line(kind)}")
    records = [recipe_option(one).get_help_record(context) for one in recipe_parameters(kind)]
    if records:
        formatter = context.make_formatter()
        formatter.current_indent = levels * formatter.indent_increment
        formatter.write_dl([record for record in records if record])
        click.echo(formatter.getvalue(), nl=False)


# options that users may try to repeat, and the advice on what to write instead
_ONCE = {"where": ", with 'and' between the conditions", "labels": ""}
# shown instead of the possible values, where these are too many for one line
_METAVARS = {"from_": "TOOL"}


def run_option(parameter: Parameter) -> click.Option:
    """Return an option of the run; flags have no negative form."""
    if parameter.name in _ONCE:
        names = [parameter.name, flag(parameter.name)]
        return Single(names, help=parameter.help, advice=_ONCE[parameter.name])
    if parameter.kind is bool:
        return click.Option([parameter.name, flag(parameter.name)], is_flag=True, help=parameter.help)
    option = recipe_option(parameter)
    if parameter.name in OF_OPTIONS:
        option.type = RegisteredName(OF_OPTIONS[parameter.name])
        option.metavar = _METAVARS.get(parameter.name)
    return option


class RegisteredName(click.ParamType[str]):
    """A name from a registry; the names that packages add are looked up only if needed, which takes time."""

    name = "choice"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def _all(self) -> click.Choice[str]:
        return click.Choice(self._registry.names())

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._all().get_metavar(param, ctx)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        return value if self._registry.target(value) else self._all().convert(value, param, ctx)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:  # noqa: ARG002
        return f"Choose from {', '.join(self._registry.names())}"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return self._all().shell_complete(ctx, param, incomplete)


def _click_type(kind: Any) -> click.ParamType[Any]:  # noqa: ANN401
    if isinstance(kind, tuple) or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return click.Choice(kind)
    if kind is Path:
        return click.Path(path_type=Path)
    if kind is list:
        return click.UNPROCESSED
    return _CLICK_TYPES.get(kind, click.STRING)


def value_of_option(option: str, args: Sequence[str]) -> str | None:
    """Return the value of one option before the others are parsed."""
    value = None
    for index, argument in enumerate(args):
        if argument == "--":
            break
        if argument == option and index + 1 < len(args):
            value = args[index + 1]
        elif argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
    return value


@dataclass(frozen=True)
class JobTable:
    """Values for options, from a file.

    Attributes:
        name: Where the values come from, for messages.
        values: The values, by option.
    """

    name: str
    values: dict[str, Any]

    @classmethod
    def of(cls, name: str, table: Mapping[str, Any]) -> "JobTable":
        """Take a TOML table, whose keys may be spelled as on the command line."""
        names = {key: key.replace("-", "_") for key in table}
        # an option named like a Python keyword, such as --from, ends with an underscore in Python
        return cls(name, {f"{name}_" if iskeyword(name) else name: table[key] for key, name in names.items()})


def read_toml(path: str, option: str = "") -> dict[str, Any]:
    """Return the content of a TOML file; in messages, `option` precedes its path."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        advice = "; check its path" if isinstance(error, FileNotFoundError) else ""
        raise Refused(f"{option}{path}: cannot be read: {error.strerror}{advice}") from None
    except UnicodeDecodeError as error:
        raise Refused(f"{option}{path}: is not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Refused(f"{option}{path}: is not TOML: {error}") from None


def as_given(param: click.Parameter, value: Any, where: str) -> Any:  # noqa: ANN401 - whatever TOML holds
    """Return a value of a job file as text, as the command line gives it, so that both are checked alike."""
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, (dict, list)) for one in values):
        raise Refused(f"{where}: {param.name!r} cannot be {value!r}")
    many = param.multiple or param.nargs < 0
    if values is value and not (many or param.type is click.UNPROCESSED):
        raise Refused(f"{where}: {param.name!r} takes one value, not a list")
    texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
    return texts if many or values is value else texts[0]


@contextlib.contextmanager
def interruptible(said: str) -> Iterator[None]:
    """Let a signal end the command by raising Interrupted, after printing `said`."""
    from splitter.system.signals import signals_raise

    try:
        with signals_raise():
            yield
    except Interrupted:
        click.echo(f"splitter: {said}", err=True)
        raise


class Single(click.Option):
    """An option that refuses a second value: users who give two expect both, but click takes the last."""

    def __init__(self, names: Sequence[str], advice: str = "", **attributes: Any) -> None:  # noqa: ANN401 - click's
        """Take the arguments of click; `advice` says what to write instead of a second value."""
        super().__init__(names, multiple=True, **attributes)
        self._advice = advice

    def process_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401 - whatever was given
        """Return the only value, if there is one."""
        given = super().process_value(ctx, value)
        if given and len(given) > 1:
            raise click.UsageError(f"{self.opts[0]} is given {len(given)} times; use it once{self._advice}")
        return given[0] if given else None
