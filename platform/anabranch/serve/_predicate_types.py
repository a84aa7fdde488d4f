"""The types in a predicate, and the conversions that all engines make alike.

DuckDB and Spark convert some values in different ways: ``cast('2.5' as int)`` is 3 or an error, ``'today'`` an error or
a day, a double as text has other digits. Such a predicate would give other rows in each engine, so it is refused. What
has one meaning passes; where only the SQL differs (a number that becomes an integer is rounded, as DuckDB does),
``_predicates`` writes it for each engine.

Not decided here, since it depends on the values: an overflow of arithmetic is an error in one engine and a larger type
in the other; letters whose other case has two characters (``ß``, ``İ``) stay as they are in DuckDB.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from anabranch.core.errors import BadInput
from anabranch.serve._zone_names import problem_of_zone

_Node = Mapping[str, Any]


class Kind(StrEnum):
    """How values are compared. The text is for messages."""

    BOOLEAN = "boolean"
    TEXT = "text"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    FLOAT = "32-bit float"
    DATE = "date"
    TIMESTAMP = "timestamp"
    LOCAL = "timestamp without a time zone"
    NULL = "null"
    OTHER = "value of another type"


_EXACT: Final = frozenset({Kind.INTEGER, Kind.DECIMAL})
_NUMBERS: Final = _EXACT | {Kind.DOUBLE, Kind.FLOAT}
_TIMES: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.LOCAL})
_GROUPS: Final = (_NUMBERS, _TIMES, frozenset({Kind.TEXT}), frozenset({Kind.BOOLEAN}))
_CASTS: Final[Mapping[Kind, frozenset[Kind]]] = {
    Kind.INTEGER: _NUMBERS | {Kind.BOOLEAN},
    Kind.DOUBLE: _NUMBERS | {Kind.BOOLEAN},
    Kind.TEXT: _EXACT | {Kind.TEXT, Kind.BOOLEAN, Kind.DATE},
    Kind.DATE: _TIMES,
    Kind.TIMESTAMP: _TIMES,
}
_TARGETS: Final = {
    **dict.fromkeys(("int", "integer", "bigint"), Kind.INTEGER),
    **dict.fromkeys(("timestamp", "timestamptz"), Kind.TIMESTAMP),
    "double": Kind.DOUBLE,
    "varchar": Kind.TEXT,
    "date": Kind.DATE,
}
_CLOCK: Final = r"([01]?\d|2[0-3]):\d{1,2}(:\d{1,2}(\.\d{0,9})?)?"
_ZONE: Final = r"(Z|[+-]\d\d(:?\d\d)?| UTC| [A-Z][A-Za-z_]+/[A-Za-z_]+)"
_TIME: Final = rf"\s*\d{{4,5}}-\d{{1,2}}-\d{{1,2}}([ T]{_CLOCK}{_ZONE}?)?\s*|epoch"
_WRITTEN: Final[Mapping[Kind, tuple[str, str]]] = {
    Kind.INTEGER: (r"\s*[+-]?\d{1,18}\s*", "5"),
    Kind.DOUBLE: (r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?\s*", "2.5"),
    Kind.BOOLEAN: (r"(?i:true|false|t|f|yes|no|y|n|1|0)", "true"),
    Kind.DATE: (_TIME, "date '2013-01-31'"),
    Kind.TIMESTAMP: (_TIME, "timestamp '2013-01-31 05:00:00'"),
    Kind.LOCAL: (_TIME, "timestamp '2013-01-31 05:00:00'"),
}
"""Texts that every engine reads as the same value, and an example."""
_DIGITS: Final = 38
_INTEGER_DIGITS: Final = 20
_TIME_PARTS: Final = frozenset({"year", "month", "day", "hour", "minute"})
_TEXT_FUNCTIONS: Final = frozenset({"lower", "upper", "length", "~~", "!~~", "~~*", "!~~*"})


def predicate_error(why: str) -> BadInput:
    """Return the error WHERE_REFUSED. ``why``: what is wrong with the predicate."""
    return BadInput(
        "WHERE_REFUSED",
        f"this predicate is refused: {why}",
        state="nothing was run",
        next_step="compare columns with values, for example: origin = 'JFK' AND flights > 10",
        field="where",
        why=why,
    )


@dataclass(frozen=True, slots=True)
class Type:
    """The type of an expression. ``whole`` and ``scale``: a number's digits before and behind the point; ``constant``:
    the text of a constant."""

    kind: Kind
    whole: int = 0
    scale: int = 0
    constant: str | None = None


_BOOLEAN: Final = Type(Kind.BOOLEAN)
_INTEGER: Final = Type(Kind.INTEGER, _INTEGER_DIGITS)


class PredicateTypes:
    """Types of a predicate's nodes over ``schema``. The nodes are those that ``_predicates`` allows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = {each.name.lower(): _column_type(each.type) for each in schema}

    def check(self, tree: _Node) -> None:
        """Raise BadInput WHERE_REFUSED unless the predicate means the same in every engine."""
        if self.of(tree).kind is not Kind.BOOLEAN:
            raise predicate_error("it isn't a condition: nothing is compared")

    def of(self, node: _Node) -> Type:
        """Return the type of a node. Raises BadInput WHERE_REFUSED for what engines read in different ways."""
        match node["class"]:
            case "COMPARISON":
                return _compared(self.of(node["left"]), [self.of(node["right"])])
            case "BETWEEN":
                return _compared(self.of(node["input"]), [self.of(node["lower"]), self.of(node["upper"])])
            case "CONJUNCTION":
                return _conditions(self._all(node["children"]))
            case "COLUMN_REF":
                return self._columns[node["column_names"][0].lower()]
            case "CONSTANT":
                return _constant(node["literal"])
            case "CAST":
                return _cast(self.of(node["child"]), node["type_expr"]["type_name"].lower())
            case "FUNCTION":
                arguments = self._all(argument["expression"] for argument in node["arguments"])
                return _function(node["function_name"].lower(), arguments)
        return self._operator(node["type"], self._all(node["children"]))

    def _operator(self, operator: str, children: list[Type]) -> Type:
        match operator:
            case "OPERATOR_NOT":
                return _conditions(children)
            case "COMPARE_IN":
                return _compared(children[0], children[1:])
            case "OPERATOR_COALESCE":
                return _coalesced(children)
        return _BOOLEAN  # IS NULL, IS NOT NULL

    def _all(self, nodes: Iterable[_Node]) -> list[Type]:
        return [self.of(node) for node in nodes]


def _column_type(kind: pa.DataType) -> Type:
    if pa.types.is_decimal(kind):
        return Type(Kind.DECIMAL, kind.precision - kind.scale, kind.scale)
    if pa.types.is_timestamp(kind):
        return Type(Kind.TIMESTAMP if kind.tz else Kind.LOCAL)
    known = {pa.bool_(): _BOOLEAN, pa.string(): Type(Kind.TEXT), pa.large_string(): Type(Kind.TEXT)}
    known |= {pa.float64(): Type(Kind.DOUBLE), pa.float32(): Type(Kind.FLOAT), pa.date32(): Type(Kind.DATE)}
    return _INTEGER if pa.types.is_integer(kind) else known.get(kind, Type(Kind.OTHER))


def _constant(literal: _Node) -> Type:
    kind, text = literal["kind"], literal["text"]
    if kind == "NULL_LITERAL":
        return Type(Kind.NULL)
    if kind in ("STRING", "BOOLEAN"):
        return Type(Kind.TEXT if kind == "STRING" else Kind.BOOLEAN, constant=text)
    if math.isinf(float(text)):
        raise predicate_error(f"{text} is beyond the numbers of 64 bits (1.8e308)")
    if "e" in text.lower():
        return Type(Kind.DOUBLE, constant=text)
    whole, _, part = text.lstrip("+-").partition(".")
    return Type(Kind.DECIMAL if part else Kind.INTEGER, len(whole), len(part), text)


def _compared(value: Type, others: Sequence[Type]) -> Type:
    for other in others:
        if Kind.NULL not in (value.kind, other.kind):
            _check_comparison(value, other)
    return _BOOLEAN


def _check_comparison(one: Type, other: Type) -> None:
    for text, known in ((one, other), (other, one)):
        if text.kind is Kind.TEXT and text.constant is not None and known.kind is not Kind.TEXT:
            _check_written(text.constant, known.kind)
            return
    if _group((one, other)) is _NUMBERS:
        _check_numbers(one, other)


def _check_numbers(one: Type, other: Type) -> None:
    kinds = {one.kind, other.kind}
    if Kind.FLOAT in kinds and any(each.kind in _EXACT and each.constant is None for each in (one, other)):
        raise _small_float("is compared with a column of exact numbers")
    if not kinds <= _EXACT:
        return
    if max(one.whole, other.whole) + max(one.scale, other.scale) > _DIGITS:
        raise predicate_error(f"the comparison of these numbers takes more than {_DIGITS} digits")
    for column, number in ((one, other), (other, one)):
        is_column = column.kind is Kind.INTEGER and column.constant is None
        if is_column and number.constant and not -(2**63) <= Decimal(number.constant) < 2**63:
            raise predicate_error(f"{number.constant} is beyond the integers of 64 bits")


def _check_written(text: str, kind: Kind) -> None:
    """Refuse a text that is compared with, or cast to, ``kind``, unless every engine reads it alike."""
    pattern, example = _WRITTEN.get(kind, ("(?!)", "a number without quotes" if kind in _NUMBERS else "a text"))
    if not re.fullmatch(pattern, text, re.ASCII):
        raise predicate_error(f"{text[:60]!r} is no {kind} that all engines read alike; write {example}")
    if kind is Kind.TIMESTAMP and (problem := problem_of_zone(text)):
        raise predicate_error(f"{text!r} is not the same in all engines: {problem}; write it in UTC, as in {example}")


def _group(types: Iterable[Type]) -> frozenset[Kind]:
    """The group of kinds that can be compared with each other. NULL belongs to each."""
    kinds = {each.kind for each in types} - {Kind.NULL}
    for group in _GROUPS:
        if kinds <= group:
            return group
    names = " and ".join(sorted(map(_a, kinds)))
    raise predicate_error(f"{names} can't be compared or combined: engines would convert them in different ways")


def _conditions(types: Sequence[Type]) -> Type:
    if any(each.kind not in (Kind.BOOLEAN, Kind.NULL) for each in types):
        raise predicate_error("AND, OR and NOT take conditions")
    return _BOOLEAN


def _coalesced(types: Sequence[Type]) -> Type:
    first = next((each for each in types if each.kind not in (Kind.TEXT, Kind.NULL)), None)
    if first is not None:
        for each in types:
            if each.kind is Kind.TEXT and each.constant is not None:
                _check_written(each.constant, first.kind)
        types = [each for each in types if each.kind is not Kind.TEXT or each.constant is None]
    kinds = {each.kind for each in types}
    group = _group(types)
    if group is _NUMBERS:
        return _number(types, max(each.whole for each in types), max(each.scale for each in types))
    return Type(next(kind for kind in (Kind.TIMESTAMP, Kind.LOCAL, *group, Kind.NULL) if kind in kinds))


def _number(types: Sequence[Type], whole: int, scale: int) -> Type:
    """The type of a number that is computed from these."""
    kinds = {each.kind for each in types}
    if Kind.FLOAT in kinds:
        raise _small_float("is a part of an expression")
    if Kind.DOUBLE in kinds:
        return Type(Kind.DOUBLE)
    if Kind.DECIMAL not in kinds:
        return _INTEGER
    if whole + scale > _DIGITS:
        raise predicate_error(f"this expression takes numbers of more than {_DIGITS} digits")
    return Type(Kind.DECIMAL, whole, scale)


def _function(name: str, types: Sequence[Type]) -> Type:
    kinds = {each.kind for each in types}
    if name == "coalesce":
        return _coalesced(types)
    if name in _TIME_PARTS and kinds <= _TIMES:
        return _INTEGER
    if name in _TEXT_FUNCTIONS and kinds <= {Kind.TEXT, Kind.NULL}:
        return _BOOLEAN if "~" in name else _INTEGER if name == "length" else Type(Kind.TEXT)
    if name in ("+", "-") and [each.kind for each in types] == [Kind.DATE, Kind.INTEGER] and types[1].constant:
        return types[0]
    if name in {"abs", "+", "-", "*"} and kinds <= _NUMBERS | {Kind.NULL}:
        whole, scale = [each.whole for each in types], [each.scale for each in types]
        # One digit more for a product, as Spark has it: it rounds what takes more than 38.
        return _number(types, *((sum(whole) + 1, sum(scale)) if name == "*" else (max(whole) + 1, max(scale))))
    names = ", ".join(sorted(map(_a, kinds)))
    raise predicate_error(f"{name} of {names} is not the same in all engines")


def _cast(value: Type, name: str) -> Type:
    target = _TARGETS[name]
    if value.kind is Kind.TEXT and value.constant is not None and target is not Kind.TEXT:
        _check_written(value.constant, target)
    elif value.kind is not Kind.NULL and value.kind not in _CASTS[target]:
        raise predicate_error(f"a cast of {_a(value.kind)} to {name} is not the same in all engines")
    return _INTEGER if target is Kind.INTEGER else Type(target)


def _a(kind: Kind) -> str:
    return f"an {kind}" if kind is Kind.INTEGER else f"a {kind}"


def _small_float(why: str) -> BadInput:
    return predicate_error(f"a 32-bit float {why}, which engines round in different ways: cast it to double")
