"""`--where`: conditions against an oracle of their own, and what is refused."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from doors import here, program, read_table, write_files, write_list
from hypothesis import example, given
from hypothesis import strategies as st

from splitter.errors import Refused
from splitter.text.conditions import condition

HEADER = ["a", "b", "the name"]
TEXTS = [
    "",
    "7",
    "007",
    "7.0",
    " 7 ",
    "-1",
    "1e2",
    "100",
    "x",
    "X",
    "it's",
    'a "b"',
    "nan",
    "1_0",
    "\\d",
    "ä\n",
]
SIGNS = ["==", "!=", "<", "<=", ">", ">="]


# -- an oracle that shares nothing with the package: it makes the text of a condition and knows what it means


@dataclass(frozen=True)
class Side:
    """What stands beside a sign: a column, a number or a text."""

    kind: str
    value: Any

    def text(self) -> str:
        if self.kind == "column":
            return f"`{self.value}`" if " " in self.value else self.value
        return repr(self.value)

    def of(self, row: dict[str, str]) -> Any:
        return row[self.value] if self.kind == "column" else self.value


def as_number(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return value
    plain = value.strip()
    return float(plain) if re.fullmatch(r"[+-]?\d+(\.\d+)?(e\d+)?", plain) else None


def compared(one: Side, sign: str, other: Side, row: dict[str, str]) -> bool:
    left, right = one.of(row), other.of(row)
    kinds = {one.kind, other.kind}
    numbers = as_number(left), as_number(right)
    if kinds == {"number", "text"}:
        return sign == "!="
    if "number" in kinds or (kinds == {"column"} and None not in numbers):
        if None in numbers:
            return sign == "!="
        left, right = numbers
    order = (left > right) - (left < right)
    return {
        "==": order == 0,
        "!=": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }[sign]


columns = st.sampled_from(HEADER).map(lambda name: Side("column", name))
numbers = st.sampled_from([7, 7.0, -1, 100, 0.5]).map(lambda number: Side("number", number))
texts = st.sampled_from(TEXTS).map(lambda text: Side("text", text))
sides = columns | numbers | texts
Tree = tuple[Any, ...]
comparisons = st.tuples(
    st.just("compare"), columns, st.lists(st.tuples(st.sampled_from(SIGNS), sides), min_size=1, max_size=2)
)
memberships = st.tuples(st.just("in"), columns, st.booleans(), st.lists(texts | numbers, max_size=3))
EXPRESSIONS = ["^7", "x|X", r"\d+\.", "", "1$", "it's", '"b"', "(?i)NAN", "~"]
searches = st.tuples(st.just("search"), columns, st.sampled_from(EXPRESSIONS))
parts = st.tuples(st.just("part"), texts, st.booleans(), columns)
trees = st.recursive(
    comparisons | memberships | searches | parts,
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(st.just("not"), inner),
    max_leaves=6,
)


def written(tree: Tree) -> str:
    match tree:
        case ("compare", left, pairs):
            return " ".join([left.text(), *(f"{sign} {side.text()}" for sign, side in pairs)])
        case ("in", left, inside, values):
            listed = "".join(f"{value.text()}, " for value in values)
            return f"{left.text()} {'in' if inside else 'not in'} ({listed})"
        case ("search", column, expression):
            return f"{column.text()} ~ {expression!r}"
        case ("part", text, inside, column):
            return f"{text.text()} {'in' if inside else 'not in'} {column.text()}"
        case ("not", inner):
            return f"not ({written(inner)})"
        case (word, left, right):
            return f"({written(left)}) {word} ({written(right)})"
    raise AssertionError(tree)


def holds(tree: Tree, row: dict[str, str]) -> bool:
    match tree:
        case ("compare", left, pairs):
            row_of = [left, *(side for _, side in pairs)]
            return all(compared(row_of[n], sign, side, row) for n, (sign, side) in enumerate(pairs))
        case ("in", left, inside, values):
            return any(compared(left, "==", value, row) for value in values) == inside
        case ("search", column, expression):
            return re.search(expression, column.of(row)) is not None
        case ("part", text, inside, column):
            return (text.of(row) in column.of(row)) == inside
        case ("not", inner):
            return not holds(inner, row)
        case (word, left, right):
            both = holds(left, row), holds(right, row)
            return all(both) if word == "and" else any(both)
    raise AssertionError(tree)


@given(tree=trees, row=st.tuples(*[st.sampled_from(TEXTS)] * 3))
def test_a_condition_means_what_it_says(tree, row):
    """Whatever is compared, joined and turned round."""
    found = condition(written(tree), HEADER)([*row])
    assert found == holds(tree, dict(zip(HEADER, row, strict=True))), written(tree)


@given(st.text("ab7 '\"`=<>!()[]{}.,:*+-&|~@\\\n#lambdtyprin_", max_size=40))
@example("`\n`")
@example("a.`\r`")
@example('f"""{a}\n"""')
def test_any_text_is_a_condition_or_is_refused(text):
    """In one line, and never in another way."""
    try:
        found = condition(text, HEADER)
    except Refused as error:
        said = str(error)
    else:
        said = f"--where {found(['1', '2', '3'])}"
    assert said.startswith("--where")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("splt == 'train'", "there is no column 'splt'; did you mean 'split'?"),
        (
            "split == train",
            "there is no column 'train'; there is 'input', 'split', 'class' (write text in quotes)",
        ),
        ("`the split` == 'x'", "there is no column 'the split'"),
        ("split = 'train'", "write == to compare"),
        ("split", "split must be compared with something"),
        ("not split", "split must be compared with something"),
        ("", "is not a condition"),
        ("split == ", "is not a condition"),
        ("split in ('x')", "'x' is text, not a list; write in ('x',), or split == 'x'"),
        ("split not in 'x'", "'x' is text, not a list"),
        ("class == 'x'", "the column 'class' must be in backquotes: `class`"),
        ("split ~ input", "input is not text; write a regular expression in quotes after ~"),
        ("split ~ '('", "'(' is not a regular expression: missing ), unterminated subpattern at position 0"),
        ("split ~ 'x' == 'y'", "split ~ 'x' is not a column, a number or text"),
        ("split ~ '@' == 'y'", "split ~ '@' is not a column, a number or text"),
        ("~split", "is not a condition"),
        ("column_in_backquotes_5 == 1", "there is no column 'column_in_backquotes_5'"),
        ("`input` == column_in_backquotes_0", "there is no column 'column_in_backquotes_0'"),
        (
            f"{'`class` == 1 or ' * 11}('column_in_backquotes_1', `split`) == 1",
            ": ('column_in_backquotes_1', `split`) is not a column, a number or text",
        ),
        ("split @ 'x'", "contains an @"),
        ("split is 'x'", "'is' is not supported; write == or !="),
        ("split == None", "None is neither a number nor text"),
        ("3 in split", "split is neither a list such as ('a', 'b') nor text"),
        ("split == 'a' if split else split", "is neither a comparison nor and, or, not"),
        ("split.__class__ == 'x'", "split.__class__ is not a column, a number or text"),
        # the longest that is shown whole
        (f"{'a' * 96}.txt == 'x'", f"{'a' * 96}.txt is not a column"),
        (f"{'a' * 97}.txt == 'x'", f"{'a' * 97}.tx… is not a column"),
        ("__import__('os').system('touch hacked') == 0", "is not a column, a number or text"),
        ("(lambda: 0)() == 0", "is not a column, a number or text"),
        ("[x for x in (1,)] == 0", "is not a column, a number or text"),
        (f"{'(' * 3000}split == 'x'{')' * 3000}", "--where"),
        (f"split == '{'x' * 20_000}'", "has more than 10,000 characters"),
        ("split == 'a\0'", "--where"),
        ("split like 'a%'", "instead of LIKE write split ~ '^a'"),
        ("class == 1 and input NOT LIKE '%.wav'", "instead of LIKE write not input ~ '\\.wav$'"),
        ("`the split` like 'a_b'", "instead of LIKE write `the split` ~ '^a.b$'"),
    ],
)
def test_what_is_no_condition(folder, monkeypatch, text, message):
    """It is refused by name, and nothing of it is executed."""
    monkeypatch.chdir(folder)
    with pytest.raises(Refused) as refused:
        condition(text, ["input", "split", "class"])
    assert message in str(refused.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["µ == '1'", "`µ` == '1'", "`class` == 'a\\n b' and\n   µ == '1'", "\n µ\n ==\r\n '1'\n"]
)
def test_names_and_lines_as_they_come(text):
    """The sign of a micrometre, which Python takes for a Greek letter; and lines, as in a file of options."""
    found = condition(text, ["class", "µ", "μ"])
    assert [row for row in (["a\n b", "1", "2"], ["a\n b", "2", "1"]) if found(row)] == [["a\n b", "1", "2"]]


def test_a_run_over_some_rows(capfd, folder):
    """The others are counted; what they have from an earlier run stays until --prune."""
    write_files(folder, {"a.txt": "aa", "b.txt": "bb", "c.txt": "cc"})
    dataset = write_list(folder / "l.csv", [["input", "n"], ["a.txt", "1"], ["b.txt", "20"], ["c.txt", "x"]])
    arguments = ("run", dataset, "--recipe", "words", "-o", folder / "out", "--workers", "1")
    assert here(capfd, *arguments).code == 0
    said = here(capfd, *arguments, "--where", "n < 10")
    assert said.code == 0
    assert "1 of 1 input done, 2 rows left out by --where" in said.err
    kept = "kept: the outputs of 2 inputs that are no longer in the list (b.txt, c.txt); --prune removes them"
    assert kept in said.err
    assert {row["input"] for row in read_table(folder / "out" / "manifest.csv")} == {"a.txt"}
    assert (folder / "out" / "b" / "0.txt").exists()
    here(capfd, *arguments, "--where", "n < 10", "--prune")
    assert sorted(path.name for path in (folder / "out").iterdir()) == [".splitter", "a", "manifest.csv"]
    said = here(capfd, *arguments, "--where", "m < 10")
    assert (said.code, len(said.lines)) == (2, 1)


def test_in_a_job_file(folder):
    """All that is asked of a list can stand there; several lists too."""
    write_files(
        folder,
        {
            "a.txt": "aa",
            "b.txt": "bb",
            "one.csv": "input\na.txt\n",
            "two.csv": "input\nb.txt\n",
            "labels.csv": "input,n\na.txt,1\nb.txt,2\n",
            "job.toml": 'dataset = ["one.csv", "two.csv"]\n'
            'recipe = "words"\nlabels = "labels.csv"\nwhere = "n > 1"\n',
        },
    )
    said = program("run", "--config", "job.toml", cwd=folder)
    assert said.code == 0, said.err
    assert [(row["input"], row["n"]) for row in read_table(folder / "outputs" / "manifest.csv")] == [
        ("b.txt", "2")
    ]
