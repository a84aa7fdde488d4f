"""The values that a view's code names in its conditions. Events are drawn with them, too: hardly any would meet a
condition like ``kind == "refund"`` by chance."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from anabranch.views.function_source import Source

Literals: TypeAlias = tuple[str | int | float, ...]
_CALLS: Final = {"between", "contains", "endswith", "eqNullSafe", "isin", "lit", "startswith"}
_CONDITION: Final = re.compile(r"[<>=]|\b(?:in|like|between)\b", re.IGNORECASE)
_IN_SQL: Final = re.compile(
    r"'((?:[^']|'')*)'|(?<![\w.])(-?[0-9]{1,18}(?:\.[0-9]{1,18})?)(?![\w.]|\s+(?:second|minute|hour|day|week)s?\b)",
    re.IGNORECASE,
)


def literals(source: Source) -> Literals:
    """Texts and numbers that the code compares with, also in SQL, and those that it names in constants."""
    found = set(_in_sql(source.sql or ""))
    for _, statement in source.used:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            found |= set(_constants(statement.value))
    for tree in source.trees:
        for node in ast.walk(tree):
            found |= set(_of_node(node))
    return tuple(sorted(found, key=lambda each: (isinstance(each, str), str(each))))


def _of_node(node: ast.AST) -> Iterator[str | int | float]:
    match node:
        case ast.Compare(left=left, comparators=others):
            for each in (left, *others):
                yield from _constants(each)
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in _CALLS:
            for each in args:
                yield from _constants(each)
        case ast.Constant(value=str(text)) if _CONDITION.search(text):
            yield from _in_sql(text)


def _constants(node: ast.expr) -> Iterator[str | int | float]:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return
    yield from _flat(value)


def _flat(value: Any) -> Iterator[str | int | float]:
    if isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _flat(each)
    elif isinstance(value, dict):
        yield from _flat([*value, *value.values()])
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _in_sql(text: str) -> Iterator[str | int | float]:
    for found in _IN_SQL.finditer(text):
        if (number := found[2]) is None:
            yield found[1].replace("''", "'")
        else:
            yield float(number) if "." in number else int(number)
