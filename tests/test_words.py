"""One word for one thing, in plain English: no name has a retired word, and no text has a worn-out one."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import splitter

PACKAGE = Path(splitter.__file__).parent
# docs/design.md says what is said instead
RETIRED = {
    "again",
    "anew",
    "apart",
    "behind",
    "held",
    "kept",
    "keeper",
    "known",
    "mend",
    "passed",
    "place",
    "places",
    "said",
    "settle",
    "settled",
    "settles",
    "standing",
    "voice",
    "wanted",
}
# what readers stumbled over in texts that users see, where a plain word does better
WORN_OUT = re.compile(
    r"\b(mend(s|ed|ing)?|anew|by chance|whoever|of (its|their) own|(is|are) there already|all is well"
    r"|lies (in|on|below|beside|within|there)|look into|goes by|stands? (there|in|beside|apart))\b"
)
CHECKOUT = Path(__file__).parents[1]
PAGES = [
    CHECKOUT / "README.md",
    CHECKOUT / "SECURITY.md",
    *sorted(set(CHECKOUT.glob("docs/**/*.md")) - {CHECKOUT / "docs/design.md"}),
]


@cache
def definitions() -> list[tuple[str, str]]:
    """Return the kind and the name of every module, class and function."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found.append(("module", path.parent.name if path.stem == "__init__" else path.stem))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.append(("class", node.name))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(("function", node.name))
    return found


def words(name: str) -> set[str]:
    """Return the words of a name, whether `like_this` or `LikeThis`."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def messages() -> list[tuple[str, str]]:
    """Return the texts that the package may show, each with its location: all strings but docstrings."""
    found = []
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.glob("report/page/*.js")]):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".js":
            lines = enumerate(text.split("\n"), 1)
            found += [(f"{path.name}:{number}", line) for number, line in lines if "//" not in line]
            continue
        tree = ast.parse(text)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                found.append((f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value))
    return found


def test_no_message_has_a_worn_out_word():
    assert not [(where, text) for where, text in messages() if WORN_OUT.search(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_worn_out_word(page):
    """The help texts and docstrings that users see are in cli.md and api.md."""
    lines = page.read_text(encoding="utf-8").split("\n")
    assert not [(number, line) for number, line in enumerate(lines, 1) if WORN_OUT.search(line)]


def test_no_name_has_a_retired_word():
    assert not [f"{kind} {name}" for kind, name in definitions() if words(name) & RETIRED]


def test_a_class_has_a_name_of_its_own():
    """With or without an underscore: who reads of a `Shard` need not ask which."""
    counts = Counter(name.lstrip("_") for kind, name in definitions() if kind == "class")
    assert not [name for name, count in counts.items() if count > 1]


def test_this_test_can_fail():
    assert words("members_again") & RETIRED
    assert words("_KeptList") & RETIRED
    assert not words("signals_blocked") & RETIRED
    assert WORN_OUT.search("mend that and run again")
    assert WORN_OUT.search("each in a folder of its own")
    assert not WORN_OUT.search("recommend a folder")
