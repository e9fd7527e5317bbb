"""The language of conditions, which choose rows of a list or samples of an archive.

    comparison  split == 'train'   duration < 30   0 < duration <= 30   speaker in ('a', 'b')   'x' in title
    expression  title ~ '^The '
    together    ... and ...   ... or ...   not ...   ( ... )

Numbers are compared with text that looks like a number, quoted text with any text; `~` asks whether a regular
expression matches somewhere in a text. Nothing is executed: Python's own parser reads the condition, and
everything not named above is refused.
"""

import ast
import keyword
import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from splitter.errors import Refused, UnknownColumn
from splitter.text.show import one_line, shortened
from splitter.text.spelling import nearest

LONGEST = 10_000
# the option that messages name
WHERE = "--where"
Number = int | float
# whether a row, or anything else with columns, meets a condition
Condition = Callable[[Any], bool]
Value = Callable[[Any], str | Number]

_NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_WHOLE = re.compile(r"\s*[+-]?\d{1,300}\s*", re.ASCII)
# a name in backquotes, a quoted text, any other name, ~ or @, a line break
_PIECES = re.compile(
    r"`([^`]*)`|('(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")|([^\W\d]\w*)|([~@])|\s*\n\s*", re.DOTALL
)
# LIKE, as in SQL
_LIKE = re.compile(r"(`[^`]*`|\w+)\s+(not\s+)?i?like\s+(?:'([^']*)'|\"([^\"]*)\")", re.IGNORECASE)
_PLACE = "column_in_backquotes_"


def condition(text: str, header: Sequence[str], option: str = WHERE) -> Condition:
    """Return a condition as a function of a row of texts; refuse an invalid one."""

    def column(name: str) -> Value:
        if name not in header:
            hint = nearest(name, [*header]) or f"; there is {', '.join(map(repr, header[:10]))}"
            raise ValueError(f"there is no column {name!r}{hint} (write text in quotes)")
        at = header.index(name)
        return lambda row: row[at]

    return condition_over(text, column, header, option)


def condition_over(
    text: str, column: Callable[[str], Value], header: Sequence[str] = (), option: str = WHERE
) -> Condition:
    """Return a condition for anything with columns: `column` gives one's reader or raises ValueError."""
    return _ConditionParser(text, column, header, option).read()


def columns_in(text: str, option: str = WHERE) -> list[str]:
    """Return the names of the columns in a condition; refuse an invalid one."""
    names: dict[str, Value] = {}
    condition_over(text, lambda name: names.setdefault(name, str), option=option)
    return [*names]


def matching(column: str, pattern: str, *, many: str, one: str, start: str = "^") -> str:
    """Return the condition for a pattern in which `many` stands for any text, and `one` for any character."""
    signs = {many: ".*", one: "."}
    expression = "".join(signs.get(sign) or re.escape(sign) for sign in pattern)
    expression = f"{start}{expression}$".removeprefix(f"{start}.*").removesuffix(".*$")
    return f"{column} ~ '{expression}'"


class _ConditionParser:
    """Parser that turns the text of a condition into a function."""

    def __init__(self, text: str, column: Callable[[str], Value], header: Sequence[str], option: str) -> None:
        self._text, self._column_of, self._header, self._option = text, column, header, option
        # names in backquotes, by their placeholders
        self._quoted: dict[str, str] = {}

    def read(self) -> Condition:
        if len(self._text) > LONGEST:
            raise Refused(f"{self._option}: the condition has more than {LONGEST:,} characters")
        try:
            with warnings.catch_warnings():
                # Python warns of mistakes in programs, such as '\\d' in a text
                warnings.simplefilter("ignore")
                tree = ast.parse(_PIECES.sub(self._piece, self._text).strip(), mode="eval")
                return self._condition(tree.body)
        except SyntaxError as error:
            raise self._refused(f"is not a condition ({error.msg}){self._hint()}") from None
        except (ValueError, RecursionError, MemoryError):
            raise self._refused("cannot be read") from None

    def _hint(self) -> str:
        """Suggest what the user may mean by a condition that Python's parser rejects."""
        if found := _LIKE.search(self._text):
            like = matching(found[1], found[3] or found[4] or "", many="%", one="_")
            return f"; instead of LIKE write {'not ' if found[2] else ''}{like}"
        if re.search(r"(?<![=!<>])=(?!=)", self._text):
            return "; write == to compare"
        words = (piece[3] for piece in _PIECES.finditer(self._text))
        name = next((word for word in words if word in self._header and keyword.iskeyword(word)), None)
        return f"; the column {name!r} must be in backquotes: `{name}`" if name else ""

    def _piece(self, piece: re.Match[str]) -> str:
        """Translate a piece for Python's parser: a placeholder for a name in backquotes, @ for ~."""
        name = piece[1]
        if piece[4]:
            if piece[4] == "@":
                raise self._refused("contains an @; write text in quotes")
            # an operator that Python's parser knows, and that conditions do not have
            return "@"
        word = piece[3]
        if word and (word.startswith(_PLACE) or unicodedata.normalize("NFKC", word) != word):
            # it looks like a placeholder, or Python's parser would normalize it to another name
            name = word
        if name is None:
            return piece[0] if piece[2] or word else " "
        place = f"{_PLACE}{len(self._quoted)}"
        self._quoted[place] = name
        return place

    def _condition(self, node: ast.expr) -> Condition:
        if isinstance(node, ast.BoolOp):
            parts = [self._condition(value) for value in node.values]
            if isinstance(node.op, ast.And):
                return lambda row: all(part(row) for part in parts)
            return lambda row: any(part(row) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._condition(node.operand)
            return lambda row: not inner(row)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return self._search(node.left, node.right)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = [self._comparison(*three) for three in zip(sides, node.ops, sides[1:], strict=False)]
            return pairs[0] if len(pairs) == 1 else lambda row: all(pair(row) for pair in pairs)
        if isinstance(node, (ast.Name, ast.Constant)):
            raise self._refused(f"{self._shown(node)} must be compared with something, such as == 'text'")
        raise self._refused(f"{self._shown(node)} is neither a comparison nor and, or, not")

    def _comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Condition:
        if isinstance(sign, (ast.In, ast.NotIn)):
            found = self._membership(left, right)
            return found if isinstance(sign, ast.In) else lambda row: not found(row)
        if type(sign) not in _COMPARE:
            raise self._refused("'is' is not supported; write == or !=")
        compare = _COMPARE[type(sign)]
        one, other = self._value(left), self._value(right)
        pair = _pair_of(left, right)
        # of values that cannot be compared, only != is true
        otherwise = isinstance(sign, ast.NotEq)

        def compared(row: Any) -> bool:  # noqa: ANN401 - as a condition
            both = pair(one(row), other(row))
            return otherwise if both is None else compare(*both)

        return compared

    def _membership(self, left: ast.expr, right: ast.expr) -> Condition:
        if isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            equal = [self._comparison(left, ast.Eq(), one) for one in right.elts]
            return lambda row: any(one(row) for one in equal)
        part, whole = self._value(left), self._value(right)
        if _is_number(left) or _is_number(right):
            raise self._refused(f"{self._shown(right)} is neither a list such as ('a', 'b') nor text")
        if isinstance(left, ast.Name) and isinstance(right, ast.Constant):
            one = self._shown(right)
            raise self._refused(
                f"{one} is text, not a list; write in ({one},), or {self._shown(left)} == {one}"
            )
        return lambda row: str(part(row)) in str(whole(row))

    def _search(self, left: ast.expr, right: ast.expr) -> Condition:
        shown = self._shown(right)
        if not (isinstance(right, ast.Constant) and isinstance(right.value, str)):
            raise self._refused(f"{shown} is not text; write a regular expression in quotes after ~")
        try:
            expression = re.compile(right.value)
        except (re.error, RecursionError, OverflowError) as error:
            raise self._refused(f"{shown} is not a regular expression: {error}") from None
        value = self._value(left)
        return lambda row: expression.search(str(value(row))) is not None

    def _value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Name):
            return self._column(node.id)
        if _is_number(node):
            number: Number = ast.literal_eval(node)
            return lambda _: number
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            return lambda _: text
        if isinstance(node, ast.Constant):
            raise self._refused(f"{self._shown(node)} is neither a number nor text; write text in quotes")
        raise self._refused(f"{self._shown(node)} is not a column, a number or text")

    def _column(self, name: str) -> Value:
        try:
            return self._column_of(self._quoted.get(name, name))
        except ValueError as error:
            raise UnknownColumn(str(self._refused(str(error)))) from None

    def _shown(self, node: ast.expr) -> str:
        # a name in backquotes may contain line breaks and secrets
        return shortened(one_line(_PIECES.sub(self._written, ast.unparse(node))))

    def _written(self, piece: re.Match[str]) -> str:
        """Return a piece as the user wrote it, from a condition for Python's parser."""
        if piece[4]:
            return "~"
        return f"`{self._quoted[piece[3]]}`" if piece[3] in self._quoted else piece[0]

    def _refused(self, why: str) -> Refused:
        return Refused(f"{self._option} {self._text[:200]!r}: {why}")


_COMPARE: dict[type[ast.cmpop], Callable[..., bool]] = {
    ast.Eq: lambda one, other: bool(one == other),
    ast.NotEq: lambda one, other: bool(one != other),
    ast.Lt: lambda one, other: bool(one < other),
    ast.LtE: lambda one, other: bool(one <= other),
    ast.Gt: lambda one, other: bool(one > other),
    ast.GtE: lambda one, other: bool(one >= other),
}

Pair = tuple[str | Number, str | Number] | None


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _pair_of(left: ast.expr, right: ast.expr) -> Callable[[str | Number, str | Number], Pair]:
    """Return a function that makes two values comparable, or returns None if they cannot be compared."""
    has_number = _is_number(left) or _is_number(right)
    if any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (left, right)):
        return lambda one, other: None if has_number else (one, other)
    return _as_numbers if has_number else lambda one, other: _as_numbers(one, other) or (one, other)


def _as_numbers(one: str | Number, other: str | Number) -> Pair:
    first, second = _number(one), _number(other)
    return None if first is None or second is None else (first, second)


def _number(value: str | Number) -> Number | None:
    """Return the number in a text that may have spaces around it; None for others, also `nan` and `1_000`."""
    if not isinstance(value, str):
        return value
    if _WHOLE.fullmatch(value):
        return int(value)
    return float(value) if _NUMBER.fullmatch(value) else None
