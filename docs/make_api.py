"""Write api.md from the docstrings of the public names: `python docs/make_api.py` from a checkout."""

import inspect
import re
import sys
from collections.abc import Iterator
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
METHODS = ("process", "setup", "check_columns", "advise_before_work", "expect", "run", "plan")
# keyword for keyword what the command line has
OPTIONS = "The keywords of `run`, as [on the command line](cli.md#splitter-run) and with the same defaults."


def page() -> str:
    """The whole page."""
    names = sorted([*splitter.__all__, "open"], key=str.lower)
    parts = [part for name in names for part in described(f"splitter.{name}", getattr(splitter, name), "##")]
    rows = table(docstring_section(RunOptions.__doc__, "Attributes"))
    return "\n".join([INTRODUCTION, *parts, "## Options of a run", "", OPTIONS, "", *rows, ""])


def described(name: str, thing: object, mark: str) -> Iterator[str]:
    """A class with its methods, or a function."""
    text = inspect.cleandoc(thing.__doc__ or "")
    yield f"{mark} {name}\n"
    if not isinstance(thing, type) or thing.__init__ is not Exception.__init__:
        yield f"```text\n{name.rpartition('.')[2]}{shown(thing)}\n```\n"
    yield prose(text)
    for section in SECTIONS:
        yield from table(docstring_section(text, section))
    if name.endswith(".ProcessorDataset"):
        for method in METHODS:
            yield from described(f"{name}.{method}", getattr(thing, method), "###")


def shown(thing: object) -> str:
    """How it is called; types stand in the text."""
    signature = inspect.signature(thing)
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def prose(text: str) -> str:
    """A docstring without its sections, as Markdown."""
    first = re.split(rf"^(?:{'|'.join(SECTIONS)}):$", text, maxsplit=1, flags=re.MULTILINE)[0]
    return f"{first.strip()}\n"


def table(entries: dict[str, str]) -> list[str]:
    """Names and what they are."""
    rows = [f"| `{name}` | {escaped(text)} |" for name, text in entries.items()]
    return ["| name | meaning |", "| --- | --- |", *rows, ""] if rows else []


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    (CHECKOUT / "docs" / "api.md").write_text(page(), encoding="utf-8")
