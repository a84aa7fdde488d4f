"""Predicate pushdown: the parts of a predicate that mean the same in every engine (column compared with a constant).

Files are skipped by these parts before they are opened, and Polars filters with them while it scans. Other parts
(functions, casts of columns, floats: NaN is the greatest number to one engine and not a value to another) are left to
DuckDB, which then evaluates the whole predicate.
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
    """Builds an engine's expressions. They support Python's comparison operators, ``&``, ``|`` and ``~``, with SQL's
    null semantics."""

    def column(self, name: str) -> Any: ...

    def constant(self, value: Any, kind: pa.DataType) -> Any: ...

    def is_null(self, column: Any) -> Any: ...


class _NotPortable(Exception):
    """This part of a predicate may differ between engines; DuckDB evaluates it."""


@dataclass(frozen=True, slots=True)
class Pushdown:
    """Renders the portable parts of a predicate over ``schema`` for ``engine``."""

    schema: pa.Schema
    engine: Engine

    def whole(self, tree: _Node) -> Any | None:
        """Return the whole predicate, or None if a part of it isn't portable."""
        try:
            return self._render(tree)
        except _NotPortable:
            return None

    def implied(self, tree: _Node) -> Any | None:
        """Return a condition that the predicate implies: the conjunction of its portable AND-ed parts; None if there is
        none."""
        parts = tree["children"] if tree["type"] == "CONJUNCTION_AND" else [tree]
        portable = [expression for part in parts if (expression := self.whole(part)) is not None]
        return reduce(operator.and_, portable) if portable else None

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
        raise _NotPortable

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
            raise _NotPortable
        return next(f for f in self.schema if f.name.lower() == node["column_names"][0].lower())


def _constant(node: _Node, kind: pa.DataType) -> Any:
    """Return a constant as a value of the column's type. Raises _NotPortable if the comparison would convert either
    side."""
    cast = node["type_expr"]["type_name"].lower() if node["class"] == "CAST" else ""
    literal = node["child"] if cast else node
    if literal["class"] != "CONSTANT" or literal["literal"]["kind"] == "NULL_LITERAL":
        raise _NotPortable
    literal_kind, text = literal["literal"]["kind"], literal["literal"]["text"]
    try:
        return _value(literal_kind, text, cast, kind)
    except (ValueError, OverflowError) as error:  # for example February 30, or 300 as a byte: DuckDB fails or converts
        raise _NotPortable from error


def _value(literal_kind: str, text: str, cast: str, kind: pa.DataType) -> Any:
    is_text, is_number = literal_kind == "STRING", literal_kind not in ("STRING", "BOOLEAN")
    if pa.types.is_boolean(kind) and literal_kind == "BOOLEAN" and not cast:
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
    raise _NotPortable


def _is_moment(cast: str, text: str) -> bool:
    """Whether ``text`` is a timestamp without a UTC offset: all engines read that as UTC."""
    if cast == "date":
        return bool(_DAY.fullmatch(text))
    return cast in ("", "timestamp", "timestamptz") and bool(_TIME.fullmatch(text))
