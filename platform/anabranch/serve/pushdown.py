"""The part of a reader's predicate that means the same in every engine: comparisons of columns with constants.

By it files are skipped before one is opened, and Polars filters while it scans. What isn't that plain (a function, a
cast of a column, floats: NaN is greater than all numbers to one engine, and not there to another) is left to DuckDB,
which evaluates the whole predicate wherever a part of it can't be told here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final, Protocol

import pyarrow as pa

_Node = Mapping[str, Any]
_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "COMPARE_EQUAL": operator.eq,
    "COMPARE_NOTEQUAL": operator.ne,
    "COMPARE_LESSTHAN": operator.lt,
    "COMPARE_GREATERTHAN": operator.gt,
    "COMPARE_LESSTHANOREQUALTO": operator.le,
    "COMPARE_GREATERTHANOREQUALTO": operator.ge,
}
_FLIPPED: Final = {
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?", re.ASCII)
_WHOLE: Final = re.compile(r"-?\d+", re.ASCII)
_EXACT: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


class Engine(Protocol):
    """How an engine spells a column, a constant of a type, and whether a column is null. Its expressions compare by
    Python's operators and know ``&``, ``|`` and ``~``, with null as in SQL."""

    def column(self, name: str) -> Any: ...

    def constant(self, value: Any, kind: pa.DataType) -> Any: ...

    def is_null(self, column: Any) -> Any: ...


class _NotPlain(Exception):
    """This part of a predicate is left to DuckDB."""


@dataclass(frozen=True, slots=True)
class Pushdown:
    """Renders the plain parts of a predicate over ``schema`` for ``engine``."""

    schema: pa.Schema
    engine: Engine

    def whole(self, tree: _Node) -> Any | None:
        """The predicate; None where a part of it isn't plain."""
        try:
            return self._render(tree)
        except _NotPlain:
            return None

    def implied(self, tree: _Node) -> Any | None:
        """A condition that every row fulfils that the predicate is true for: those of its AND-ed parts that are plain;
        None where none is."""
        parts = tree["children"] if tree["type"] == "CONJUNCTION_AND" else [tree]
        plain = [found for part in parts if (found := self.whole(part)) is not None]
        return reduce(operator.and_, plain) if plain else None

    def _render(self, node: _Node) -> Any:
        match node["class"], node["type"]:
            case "COMPARISON", sign if sign in _COMPARE:
                return self._comparison(sign, node["left"], node["right"])
            case "CONJUNCTION", sign:
                combine = operator.and_ if sign == "CONJUNCTION_AND" else operator.or_
                return reduce(combine, [self._render(child) for child in node["children"]])
            case "BETWEEN", _:
                low = self._comparison("COMPARE_GREATERTHANOREQUALTO", node["input"], node["lower"])
                return low & self._comparison("COMPARE_LESSTHANOREQUALTO", node["input"], node["upper"])
            case _, "OPERATOR_NOT":
                return ~self._render(node["children"][0])
            case _, "OPERATOR_IS_NULL":
                return self._is_null(node["children"][0])
            case _, "OPERATOR_IS_NOT_NULL":
                return ~self._is_null(node["children"][0])
            case _, "COMPARE_IN":
                column, *values = node["children"]
                return reduce(operator.or_, [self._comparison("COMPARE_EQUAL", column, value) for value in values])
        raise _NotPlain

    def _comparison(self, sign: str, left: _Node, right: _Node) -> Any:
        if left["class"] != "COLUMN_REF":
            sign, left, right = _FLIPPED.get(sign, sign), right, left
        field = self._field(left)
        constant = self.engine.constant(_constant(right, field.type), field.type)
        return _COMPARE[sign](self.engine.column(field.name), constant)

    def _is_null(self, node: _Node) -> Any:
        return self.engine.is_null(self.engine.column(self._field(node).name))

    def _field(self, node: _Node) -> pa.Field:
        if node["class"] != "COLUMN_REF":
            raise _NotPlain
        return next(f for f in self.schema if f.name.lower() == node["column_names"][0].lower())


def _constant(node: _Node, kind: pa.DataType) -> Any:
    """A constant as a value of a column's type. _NotPlain where the comparison would have to convert either of them."""
    cast = node["type_expr"]["type_name"].lower() if node["class"] == "CAST" else ""
    literal = node["child"] if cast else node
    if literal["class"] != "CONSTANT" or literal["literal"]["kind"] == "NULL_LITERAL":
        raise _NotPlain
    word, text = literal["literal"]["kind"], literal["literal"]["text"]
    try:
        return _value(word, text, cast, kind)
    except (ValueError, OverflowError) as error:  # the 30th of February, 300 for a byte: DuckDB says so, or converts
        raise _NotPlain from error


def _value(word: str, text: str, cast: str, kind: pa.DataType) -> Any:
    is_text, is_number = word == "STRING", word not in ("STRING", "BOOLEAN")
    if pa.types.is_boolean(kind) and word == "BOOLEAN" and not cast:
        return text == "true"
    if pa.types.is_string(kind) and is_text and not cast:
        return text
    if pa.types.is_integer(kind) and is_number and not cast and _WHOLE.fullmatch(text):
        return pa.scalar(int(text), kind).as_py()
    if pa.types.is_decimal(kind) and is_number and not cast and _EXACT.fullmatch(text):
        return pa.scalar(Decimal(text), kind).as_py()
    if pa.types.is_date(kind) and is_text and cast in ("", "date") and _DAY.fullmatch(text):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind) and kind.tz and is_text and _is_moment(cast, text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    raise _NotPlain


def _is_moment(cast: str, text: str) -> bool:
    """Without an offset: all engines read it in UTC."""
    if cast == "date":
        return bool(_DAY.fullmatch(text))
    return cast in ("", "timestamp", "timestamptz") and bool(_TIME.fullmatch(text))
