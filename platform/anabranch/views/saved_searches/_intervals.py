"""Turn a condition on one field into intervals (spans) of the field's values in which the condition is true.

A span runs between two cuts; a cut lies just before or just after a value. Null has its own position below all values,
so ``is null`` is a span too, and no comparison includes it: in SQL a comparison with null isn't true, and neither is
its negation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal

from anabranch.views.saved_searches._grammar import Condition, Value, refused

Kind = Literal["number", "double", "text", "boolean", "date", "timestamp"]
"""How values of a field are compared. Numbers are exact; a literal that is compared with a double becomes the nearest
double, as in SQL; dates are days and timestamps microseconds since 1970, UTC."""

Cut = tuple[Any, ...]
NULLS: Final[Cut] = (-1,)
LOW: Final[Cut] = (0,)
HIGH: Final[Cut] = (2,)
Span = tuple[Cut, Cut]
"""From one cut to another."""
NULL: Final[Span] = (NULLS, LOW)
KNOWN: Final[Span] = (LOW, HIGH)

MAX_PATTERN: Final = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Leaf:
    """True for a value that lies in one of ``spans`` (sorted, disjoint) and, if there is a LIKE ``pattern``, matches it
    (or doesn't, when ``negated``)."""

    field: str
    spans: tuple[Span, ...]
    pattern: str = ""
    negated: bool = False


def leaf(condition: Condition, fields: Mapping[str, Kind], *, negated: bool = False) -> Leaf:
    """The leaf of a condition or of its negation. Raises BadInput SEARCH_REFUSED for an unknown field or a wrong
    type."""
    name = next((name for name in fields if name.lower() == condition.field.lower()), None)
    if name is None:
        raise refused(f"there is no field {condition.field[:60]}; the fields are {', '.join(fields)}")
    if condition.operator == "like":
        return _like(name, fields[name], condition.values[0], negated)
    spans = _spans(condition, name, fields[name])
    if not negated:
        return Leaf(name, spans)
    return Leaf(name, (KNOWN,) if condition.operator == "null" else _outside(spans))


def before(value: Any) -> Cut:
    return (1, value, 0)


def after(value: Any) -> Cut:
    return (1, value, 1)


def _spans(condition: Condition, name: str, kind: Kind) -> tuple[Span, ...]:
    operator = condition.operator
    if operator == "null":
        return (NULL,)
    if operator == "true" and kind != "boolean":
        raise refused(f"{name} is a {kind}, not a condition")
    if kind == "boolean" and operator not in ("=", "<>", "in", "true"):
        raise refused(f"{name} is a boolean: it has no order")
    values = [_typed(value, name, kind) for value in condition.values] or [True]
    first = values[0]
    if operator in ("=", "true", "in"):
        return _normalise((before(value), after(value)) for value in values)
    if operator == "between":
        return _normalise([(before(first), after(values[1]))])
    if operator == "<>":
        return _outside(((before(first), after(first)),))
    below = {"<": before, "<=": after, ">=": before, ">": after}[operator](first)
    return _normalise([(LOW, below) if operator in ("<", "<=") else (below, HIGH)])


def _normalise(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sorted, without empty spans and repeats."""
    return tuple(sorted({span for span in spans if span[0] < span[1]}))


def _outside(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """The complement of the spans, without null."""
    cuts = [LOW, *(cut for span in spans for cut in span), HIGH]
    return _normalise((cuts[i], cuts[i + 1]) for i in range(0, len(cuts), 2))


def _typed(value: Value, name: str, kind: Kind) -> Any:
    """Converts a literal to the type in which the field's values are compared."""
    match kind, value:
        case "boolean", bool():
            return value
        case "number", Decimal():
            return int(value) if value == value.to_integral_value() else value
        case "double", Decimal():
            return float(value)
        case "text", str():
            return value
        case (("date" | "timestamp"), str()):
            return _time(value, name, kind)
    raise refused(f"{name} is a {kind}, which can't be compared with {str(value)[:60]!r}")


def _time(text: str, name: str, kind: str) -> int:
    try:
        if kind == "date" and _DATE.fullmatch(text):
            return date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
        if kind == "timestamp" and _DATE.match(text):
            time = datetime.fromisoformat(text)
            return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        pass
    raise refused(f"{name} is a {kind}, and {text[:60]!r} isn't one")


def _like(name: str, kind: Kind, pattern: Value, negated: bool) -> Leaf:
    """The prefix before the first wildcard becomes a span; the pattern is only needed for what follows it."""
    if kind != "text" or not isinstance(pattern, str):
        raise refused(f"{name} is a {kind}: like compares a text with a text")
    if "\\" in pattern or len(pattern) > MAX_PATTERN:
        raise refused(f"a like pattern has at most {MAX_PATTERN} characters, none of them a backslash")
    prefix = re.split("[%_]", pattern, maxsplit=1)[0]
    if prefix == pattern:
        inside: Span = (before(prefix), after(prefix))
    else:
        inside = (before(prefix), _after_prefix(prefix))
    if pattern in (prefix, f"{prefix}%"):
        return Leaf(name, _outside((inside,)) if negated else (inside,))
    return Leaf(name, (KNOWN,) if negated else (inside,), pattern, negated)


def _after_prefix(prefix: str) -> Cut:
    """The cut after all texts that start with ``prefix``."""
    kept = prefix.rstrip(_LAST)
    return before(kept[:-1] + chr(ord(kept[-1]) + 1)) if kept else HIGH
