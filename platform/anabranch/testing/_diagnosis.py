"""Explain a finding: its cause in one sentence, and what the author should write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from anabranch.core.errors import AnabranchError, root_cause
from anabranch.core.text.quantities import counted
from anabranch.testing import _counterexample
from anabranch.testing._counterexample import Finding
from anabranch.testing._rows import text

if TYPE_CHECKING:
    from anabranch.views import View
    from anabranch.views.function_source import Source

_TIE = "order by columns that no two rows share: add 'log_partition' and 'log_offset' (or 'event_id') at the end"
_ROWS = "first sort the rows by event_time, log_partition and log_offset inside the Python function"
_STATE = "compute each row from its arguments only: keep no state between calls, and sort what has no order"
_PYTHON = "a Python function depends on the order of rows: it keeps state, or doesn't sort"
_ORDERED: Final = {
    "row_number": ("row_number numbers tied rows in the order in which they arrive", _TIE),
    "ntile": ("ntile distributes tied rows in the order in which they arrive", _TIE),
    "lag": ("lag takes whichever of the tied rows comes before", _TIE),
    "lead": ("lead takes whichever of the tied rows comes next", _TIE),
    "first_value": ("first_value takes whichever of the tied rows comes first", _TIE),
    "last_value": ("last_value takes whichever of the tied rows comes last", _TIE),
    "nth_value": ("nth_value takes whichever of the tied rows comes at that position", _TIE),
    "rowsBetween": ("a window of a number of rows holds different rows when some tie", _TIE),
    "applyInPandas": ("the Python function of applyInPandas gets its rows in any order", _ROWS),
    "applyInArrow": ("the Python function of applyInArrow gets its rows in any order", _ROWS),
    "mapInPandas": ("the Python function of mapInPandas gets its rows in any order and in any batches", _STATE),
    "mapInArrow": ("the Python function of mapInArrow gets its rows in any order and in any batches", _STATE),
    "pandas_udf": (_PYTHON, _STATE),
    "udf": (_PYTHON, _STATE),
    "aggregate": ("F.aggregate folds a list from its start, and the list has no order", "F.sort_array around it"),
}
_RAISED: Final = {
    "ARITHMETIC_OVERFLOW": (
        "cast to decimal(38,0) before you add or multiply, or give the field a minimum and a maximum in its contract"
    ),
    "DIVIDE_BY_ZERO": "F.try_divide, which gives null, or filter out the rows whose divisor is 0",
    "REMAINDER_BY_ZERO": "F.try_mod, which gives null, or filter out the rows whose divisor is 0",
    "CAST_INVALID_INPUT": "F.col('x').try_cast(...), which gives null, or a pattern in the contract",
    "CAST_OVERFLOW": "a type that holds every value the contract allows, or F.col('x').try_cast(...)",
    "INVALID_ARRAY_INDEX": "F.get, which gives null where the array is too short",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "F.try_element_at, which gives null where the array is too short",
    "CANNOT_PARSE_TIMESTAMP": "F.try_to_timestamp, which gives null",
    "DATETIME_OVERFLOW": "a minimum and a maximum for what is added to a time",
    "NUMERIC_VALUE_OUT_OF_RANGE": "a decimal that holds every value that the contract allows",
    "NULL_MAP_KEY": "filter out the rows whose key is null",
    "DUPLICATED_MAP_KEY": "group first, so that each key occurs once",
}
# Spark's own advice is removed from its messages: a view may not always follow it.
_ADVICE: Final = re.compile(r"\s*(Use (the SQL function )?[`'].*|If necessary set .*|SQLSTATE.*)$")
_EACH_START: Final = "the stream would stop at this event, and again at each restart"


@dataclass(frozen=True, slots=True)
class Cause:
    """``what`` is wrong, what to ``write`` instead, and the ``line`` of the responsible call, if known."""

    what: str
    write: str
    line: int | None = None


def diagnose(found: Finding, view: View, source: Source) -> Cause:
    match found.code:
        case _counterexample.FAILS | _counterexample.STREAM | _counterexample.REBUILD:
            return _failed(found, view, source)
        case _counterexample.FAR:
            at = found.fields["partition"]
            what = f"a row belongs to {at}, which is further from every event than lookback and lookahead say"
            near = f"F.to_date('event_time') and F.to_date('{view.partition_by}') are close enough"
            return Cause(what, f"filter out rows that are too far away: keep rows only where {near}")
        case (
            _counterexample.ORDER
            | _counterexample.SPREAD
            | _counterexample.MIXED
            | _counterexample.IMPURE
            | _counterexample.SPEED
        ):
            return _order_dependent(found, source)
        case _counterexample.LOOKBACK | _counterexample.LOOKAHEAD | _counterexample.PRUNED:
            return _reach_too_short(found, view)
        case _counterexample.KEY:
            return _shared_key(found, view)
        case _counterexample.PARTITION_NULL:
            what = f"a row has no {view.partition_by}, so it belongs to no partition"
            return Cause(what, f"filter such rows out: .where(F.col('{view.partition_by}').isNotNull())")
        case _counterexample.ORACLE:
            return Cause("the view and its oracle read the same events differently", "correct the one that is wrong")
        case _counterexample.TIME_ZONE:
            what = "its dates or hours depend on the session's time zone"
            return Cause(what, "F.convert_timezone(F.lit('UTC'), ...) or whole seconds of F.unix_timestamp")
        case _:
            what = "the stream and the rebuild give different rows, though no event is late"
            return Cause(what, "compare the rows below")


def _order_dependent(found: Finding, source: Source) -> Cause:
    what = {
        _counterexample.IMPURE: "two calls with the same events give different rows",
        _counterexample.ORDER: "the same events in another order give different rows",
        _counterexample.SPREAD: "the same events spread over more tasks give different rows",
        _counterexample.MIXED: "the same events in another order give different rows",
        _counterexample.SPEED: "the stream gives different rows than the function gives for the same events",
    }[found.code]
    for name, (why, write) in _ORDERED.items():
        line = next((line for called, line in called_names(source) if called == name), None)
        if line is not None:
            return Cause(f"{what}: {why}", write, line)
    return Cause(what, "let only the events decide: their times, then log_partition and log_offset")


def called_names(source: Source) -> Iterator[tuple[str, int]]:
    """(name, line) of every function that the view calls or is decorated with; the last part of a dotted name."""
    for tree in source.trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                yield node.attr, node.lineno
            elif isinstance(node, ast.Name):
                yield node.id, node.lineno


def _failed(found: Finding, view: View, source: Source) -> Cause:
    error = found.error
    events = found.log.events
    at = f"on {_event_names(events)}" if len(events) <= 3 else f"on one of {len(events)} events"
    if isinstance(error, AnabranchError) and error.code != "BATCH_FAILED":
        problem = error.what.removeprefix(f"{view.origin}: ").removeprefix(f"{view.name} v{view.version} ")
        return Cause(f"both paths refuse it, {at}: it {problem}", error.next_step or "fix the cause")
    condition, what = _condition(error), _error_text(error)
    write = _RAISED.get(condition, "handle every value that the contract allows, including null")
    line = next((n for name, n in called_names(source) if name in ("udf", "pandas_udf", "applyInPandas")), None)
    in_python = "PythonException" in type(error).__name__ or "Traceback" in str(error)
    return Cause(f"it fails {at}: {what} ({_EACH_START})", write, line if in_python else None)


def _event_names(events: Sequence[Any]) -> str:
    return " and ".join(f"the event {event.id} ({event.type})" for event in events) or "no event at all"


def _condition(error: BaseException | None) -> str:
    condition = getattr(error, "getCondition", lambda: None)()
    if condition:
        return str(condition).split(".")[0]
    return next((name for name in _RAISED if f"[{name}" in str(error)), "")


def _error_text(error: BaseException | None) -> str:
    text = _ADVICE.sub("", root_cause(error))
    return text if len(text) <= 240 else text[:240] + "..."


def _reach_too_short(found: Finding, view: View) -> Cause:
    partition = found.fields["partition"]
    start = datetime.combine(partition, time(), UTC)
    end = start + timedelta(days=1)
    times = [event.time for event in found.log.events if not event.broken]
    if found.code == _counterexample.LOOKAHEAD:
        far, declared, name = max([t - end for t in times], default=timedelta(0)), view.lookahead, "lookahead"
        where = "after its end"
    else:
        far, declared, name = max([start - t for t in times], default=timedelta(0)), view.lookback, "lookback"
        where = "before its start"
    what = f"rows of {partition} need an event {far} {where}, but {name} says {declared or 'nothing'}"
    return Cause(
        what, f"declare {name}='{_duration_text(far, strict=name == 'lookahead')}', or as far as your rows can reach"
    )


def _duration_text(span: timedelta, *, strict: bool) -> str:
    """``span`` rounded up to whole hours or days."""
    hours = span // timedelta(hours=1) + (1 if strict or span % timedelta(hours=1) else 0)
    return counted(hours, "hour") if hours % 24 else counted(hours // 24, "day")


def _shared_key(found: Finding, view: View) -> Cause:
    rows = found.left.rows if found.left else []
    first = rows[0] if rows else {}
    same = [r for r in rows if all(r.get(k) == first.get(k) for k in view.key)]
    others = [c for c in first if c not in view.key and len({repr(r.get(c)) for r in same}) > 1]
    at = ", ".join(f"{k}={text(first.get(k))}" for k in view.key)
    what = f"{len(same)} rows share the key {at}: the stream would keep one of them, the rebuild all"
    differ = f" (they differ in {', '.join(others)})" if others else ""
    return Cause(what, f"group by the key, or add all columns to it that identify a row{differ}")
