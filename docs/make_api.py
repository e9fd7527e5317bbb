"""Write api.md from the docstrings of the public names: `python docs/make_api.py` from a checkout."""

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

import splitter  # noqa: E402 - from the checkout, installed or not
from splitter.options import RunOptions  # noqa: E402
from splitter.recipes.parameters import docstring_section  # noqa: E402

INTRODUCTION = """\
# Python

<!-- Made by docs/make_api.py from the docstrings: do not edit. -->

Everything in `import splitter`. [The class](the-class.md) explains it with examples.
"""
SECTIONS = ("Args", "Attributes")
LONGEST_LINE = 80
METHODS = {
    "splitter.ProcessorDataset": (
        *("process", "setup", "check_columns", "advise_before_work", "expect", "run", "plan"),
    ),
    "splitter.Pipeline": ("stage", "columns", "run"),
}
# keyword for keyword what the command line has
OPTIONS = (
    "The keywords of `run`, as [on the command line](cli.md#splitter-run) with these types and defaults."
)


def page() -> str:
    """The whole page."""
    names = sorted([*splitter.__all__, "open"], key=str.lower)
    parts = [part for name in names for part in described(f"splitter.{name}", getattr(splitter, name), "##")]
    return "\n".join([INTRODUCTION, *parts, "## Options of a run", "", OPTIONS, "", *options(), ""])


def described(name: str, thing: object, mark: str) -> Iterator[str]:
    """A class with its methods, or a function."""
    text = inspect.cleandoc(thing.__doc__ or "")
    yield f"{mark} {name}\n"
    if not isinstance(thing, type) or thing.__init__ is not Exception.__init__:
        yield f"```py\n{called(name.rpartition('.')[2], thing)}\n```\n"
    yield prose(text)
    for section in SECTIONS:
        yield from table(docstring_section(text, section))
    for method in METHODS.get(name, ()):
        yield from described(f"{name}.{method}", getattr(thing, method), "###")


def called(name: str, thing: object) -> str:
    """How it is called: with types, and one parameter a line if that is long."""
    signature = inspect.signature(thing)
    parameters = list(signature.parameters.values())
    if any(one.kind == one.VAR_POSITIONAL for one in parameters):
        # a class whose __new__ takes whatever its subclasses do
        parameters = list(inspect.signature(thing.__init__).parameters.values())
    parameters = [one for one in parameters if one.name != "self"]
    shown = list(map(text_of, parameters))
    returned = signature.return_annotation
    end = "" if isinstance(thing, type) or returned is signature.empty else f" -> {type_name(returned)}"
    first = next((at for at, one in enumerate(parameters) if one.kind == one.KEYWORD_ONLY), None)
    if first is not None:
        shown.insert(first, "*")
    line = f"{name}({', '.join(shown)}){end}"
    if len(line) <= LONGEST_LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in shown), f"){end}"])


def text_of(parameter: inspect.Parameter) -> str:
    """A parameter with its type and its default."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = "" if parameter.annotation is parameter.empty else f": {type_name(parameter.annotation)}"
    default = (
        ""
        if parameter.default is parameter.empty
        else f"{' = ' if kind else '='}{default_text(parameter.default)}"
    )
    return f"{stars}{parameter.name}{kind}{default}"


def default_text(value: object) -> str:
    """A default as a user would write it."""
    if isinstance(value, dataclasses.Field):
        return (
            repr(value.default) if value.default is not dataclasses.MISSING else repr(value.default_factory())
        )
    return repr(dict(value)) if isinstance(value, Mapping) else repr(value)


def options() -> list[str]:
    """The options of a run, with types and defaults."""
    texts = docstring_section(RunOptions.__doc__, "Attributes")
    rows = []
    for one in dataclasses.fields(RunOptions):
        cells = (one.name, escaped(type_name(one.type)), default_text(one))
        rows.append(f"| {' | '.join(f'`{cell}`' for cell in cells)} | {escaped(texts[one.name])} |")
    return ["| option | type | default | meaning |", "| --- | --- | --- | --- |", *rows]


def type_name(annotation: object) -> str:
    """A type, without the modules of its names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", text).replace("'", "").replace("NoneType", "None")


def prose(text: str) -> str:
    """A docstring without its sections, as Markdown."""
    first = re.split(rf"^(?:{'|'.join(SECTIONS)}):$", text, maxsplit=1, flags=re.MULTILINE)[0]
    return f"{first.strip()}\n"


def table(entries: dict[str, str]) -> list[str]:
    """Names and what they are."""
    # docstring_section() adds an entry such as `**named: ...` to the one before it
    lines = [line for entry in entries.items() for line in re.split(r" (?=\*\*\w+: )", ": ".join(entry))]
    cells = [line.split(": ", 1) for line in lines]
    rows = [f"| `{name}` | {escaped(text)} |" for name, text in cells]
    return ["| name | meaning |", "| --- | --- |", *rows, ""] if rows else []


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    (CHECKOUT / "docs" / "api.md").write_text(page(), encoding="utf-8")
