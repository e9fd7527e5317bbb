"""One word for one thing: no class, function or module is called by a word that is retired."""

import ast
import re
from collections import Counter
from pathlib import Path

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
