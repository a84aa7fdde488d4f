"""Parse the language of saved searches: a small subset of SQL conditions, which is never executed as SQL.

::

    either    := all ("or" all)*
    all       := one ("and" one)*
    one       := "not" one | "(" either ")" | condition
    condition := field ("=" | "<>" | "!=" | "<" | "<=" | ">" | ">=") value  |  value (the same) field
               | field ["not"] "between" value "and" value
               | field ["not"] "in" "(" value ("," value)* ")"
               | field ["not"] "like" text
               | field "is" ["not"] "null"
               | field                                       -- a boolean
    value     := 'text' | ["-" | "+"] 12.50 | "true" | "false" | ("date" | "timestamp") 'text'

Keywords are case-insensitive; a quote inside a text is doubled. It is not the language of a reader's ``where``, which
DuckDB parses: searches are stored, and mean the same after each release of anything (docs/adr/0024).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from anabranch.core.errors import BadInput

MAX_LENGTH: Final = 10_000
MAX_CONDITIONS: Final = 100
MAX_DEPTH: Final = 50
MAX_DIGITS: Final = 38

Value = Decimal | str | bool


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of one field. ``operator`` is one of ``= <> < <= > >=``, between, in, like, null, true."""

    field: str
    operator: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    of: Expression


@dataclass(frozen=True, slots=True)
class And:
    of: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    of: tuple[Expression, ...]


Expression = Condition | Not | And | Or

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_.]))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=|>=|<>|!=|[=<>(),+-]))""",
    re.VERBOSE,
)
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_RESERVED = frozenset({"and", "or", "not", "in", "is", "like", "between", "null", "true", "false"})
_TYPED = ("date", "timestamp")


def parse(text: str) -> Expression:
    """Parses ``text``. Raises BadInput SEARCH_REFUSED, which names the part that isn't valid and its position."""
    if not text.strip() or len(text) > MAX_LENGTH:
        raise refused(f"an expression has 1 to {MAX_LENGTH:,} characters")
    return _Parser(text).expression()


def refused(why: str) -> BadInput:
    return BadInput(
        "SEARCH_REFUSED",
        f"this search is refused: {why}",
        state="it matches nothing; other searches are not affected",
        next_step="compare fields with values, for example: origin = 'JFK' and dep_delay > 60",
        why=why,
    )


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """A word or an operator in lower case; empty for a text or a number."""
        return self.text.lower() if self.kind in ("word", "sign") else ""


def _tokens(text: str) -> Iterator[_Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if not found:
            raise refused(f"{text[at : at + 20].strip()!r} at character {at + 1} isn't part of the language")
        kind = str(found.lastgroup)
        yield _Token(kind, found.group(kind), found.start(kind))
        at = found.end()
    yield _Token("end", "", end)


class _Parser:
    """A recursive-descent parser. Its depth and the number of conditions are limited."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = self._depth = self._conditions = 0

    def expression(self) -> Expression:
        tree = self._either()
        if self._token.kind != "end":
            raise self._unexpected("the end")
        return tree

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, *words: str) -> str:
        """Consumes and returns the next token if it is one of ``words``; otherwise returns ""."""
        word = self._token.word
        if word not in words:
            return ""
        self._next += 1
        return word

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._unexpected(word)

    def _unexpected(self, wanted: str) -> BadInput:
        token = self._token
        return refused(f"{token.text[:40] or 'its end'!r} at character {token.at + 1}, where {wanted} is expected")

    def _either(self) -> Expression:
        parts = [self._all()]
        while self._take("or"):
            parts.append(self._all())
        return Or(tuple(parts)) if len(parts) > 1 else parts[0]

    def _all(self) -> Expression:
        parts = [self._one()]
        while self._take("and"):
            parts.append(self._one())
        return And(tuple(parts)) if len(parts) > 1 else parts[0]

    def _one(self) -> Expression:
        if self._token.word not in ("not", "("):
            return self._condition()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise refused(f"it is nested more than {MAX_DEPTH} deep")
        tree: Expression
        if self._take("not"):
            tree = Not(self._one())
        else:
            self._expect("(")
            tree = self._either()
            self._expect(")")
        self._depth -= 1
        return tree

    def _condition(self) -> Expression:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise refused(f"it has more than {MAX_CONDITIONS} conditions")
        if not self._at_field():
            value, operator = self._value(), self._comparison()
            if not operator:
                raise self._unexpected("a comparison")
            return Condition(self._field(), _MIRRORED[operator], (value,))
        field = self._field()
        if operator := self._comparison():
            return Condition(field, operator, (self._value(),))
        if self._take("is"):
            negated = bool(self._take("not"))
            self._expect("null")
            return _negated(Condition(field, "null"), negated)
        return self._keyword_condition(field, bool(self._take("not")))

    def _keyword_condition(self, field: str, negated: bool) -> Expression:
        operator = self._take("between", "in", "like")
        if operator == "between":
            low = self._value()
            self._expect("and")
            return _negated(Condition(field, operator, (low, self._value())), negated)
        if operator == "in":
            self._expect("(")
            values = [self._value()]
            while self._take(","):
                values.append(self._value())
            self._expect(")")
            return _negated(Condition(field, operator, tuple(values)), negated)
        if operator == "like":
            return _negated(Condition(field, operator, (self._value(),)), negated)
        if negated:
            raise self._unexpected("between, in or like")
        return Condition(field, "true")

    def _comparison(self) -> str:
        operator = self._take("=", "<>", "!=", "<", "<=", ">", ">=")
        return "<>" if operator == "!=" else operator

    def _at_field(self) -> bool:
        token = self._token
        typed = token.word in _TYPED and self._tokens[self._next + 1].kind == "text"
        return token.kind == "word" and token.word not in _RESERVED and not typed

    def _field(self) -> str:
        if not self._at_field():
            raise self._unexpected("a field")
        self._next += 1
        return self._tokens[self._next - 1].text

    def _value(self) -> Value:
        if word := self._take("true", "false"):
            return word == "true"
        sign = self._take("+", "-")
        if not sign and not self._at_field():
            self._take(*_TYPED)
        token = self._token
        if token.kind == "number":
            if len(token.text) > MAX_DIGITS:
                raise refused(f"a number has at most {MAX_DIGITS} digits")
            self._next += 1
            return Decimal(sign + token.text)
        if token.kind == "text" and not sign:
            self._next += 1
            return token.text[1:-1].replace("''", "'")
        raise self._unexpected("a value" if token.word != "null" else "a value (to test for null write 'is null')")


def _negated(condition: Condition, negated: bool) -> Expression:
    return Not(condition) if negated else condition
