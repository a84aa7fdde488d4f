"""Compare rows of a view as bags (multisets), exactly, and list the cells that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from anabranch.views.model.canonical import canonical
from anabranch.views.model.definition import is_own

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that differs between the sides: its key, and each cell that differs as (column, left, right).

    If only one side has the row, ``cells`` is empty and ``only`` names that side.
    """

    key: tuple[tuple[str, Any], ...]
    cells: tuple[tuple[str, Any, Any], ...] = ()
    only: str = ""


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """The author's columns of an Arrow table, row by row."""
    own = [name for name in table.column_names if is_own(name)]
    rows: list[dict[str, Any]] = table.select(own).to_pylist()
    return rows


def day(row: Row, column: str) -> date | None:
    """The partition that a row belongs to."""
    value = row[column]
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).date()
    return value if isinstance(value, date) else None


def bag(rows: Iterable[Row], columns: Sequence[str]) -> Counter[Hashable]:
    return Counter(tuple(canonical(row.get(c)) for c in columns) for row in rows)


def equal(left: Sequence[Row], right: Sequence[Row], columns: Sequence[str]) -> bool:
    return bag(left, columns) == bag(right, columns)


def differences(
    left: Sequence[Row], right: Sequence[Row], key: Sequence[str], columns: Sequence[str]
) -> tuple[Difference, ...]:
    """Every row that differs, by key. Rows with the same key are paired in the order of their values."""
    sides = [_by_key(rows, key) for rows in (left, right)]
    found: list[Difference] = []
    for at in sorted({*sides[0], *sides[1]}, key=repr):
        ours, theirs = (_unmatched(s.get(at, []), o.get(at, []), columns) for s, o in (sides, sides[::-1]))
        pairs = range(max(len(ours), len(theirs)))
        found += [_difference(ours[i : i + 1], theirs[i : i + 1], key, columns) for i in pairs]
    return tuple(found)


def _by_key(rows: Sequence[Row], key: Sequence[str]) -> dict[Hashable, list[Row]]:
    found: dict[Hashable, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(canonical(row.get(k)) for k in key), []).append(row)
    return found


def _unmatched(rows: list[Row], others: list[Row], columns: Sequence[str]) -> list[Row]:
    remaining = bag(others, columns)
    unmatched = []
    for row in rows:
        values = tuple(canonical(row.get(c)) for c in columns)
        if remaining[values] > 0:
            remaining[values] -= 1
        else:
            unmatched.append(row)
    return sorted(unmatched, key=lambda row: repr([row.get(c) for c in columns]))


def _difference(ours: list[Row], theirs: list[Row], key: Sequence[str], columns: Sequence[str]) -> Difference:
    whose = (ours or theirs)[0]
    at = tuple((k, whose.get(k)) for k in key)
    if not (ours and theirs):
        return Difference(at, only="left" if ours else "right")
    a, b = ours[0], theirs[0]
    cells = tuple((c, a.get(c), b.get(c)) for c in columns if canonical(a.get(c)) != canonical(b.get(c)))
    return Difference(at, cells)


def text(value: Any) -> str:
    """Formats a value for a table, completely. Null is shown as null; strings that could be misread get quotes."""
    match value:
        case None:
            return "null"
        case datetime():
            moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return moment.isoformat(" ") + ("Z" if value.tzinfo else "")
        case str():
            return value if value.isprintable() and value == value.strip() and value else repr(value)
        case Decimal() | bool() | int() | float() | date():
            return str(value)
        case Mapping():
            return "{" + ", ".join(f"{k}: {text(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(text, value)) + "]"
        case _:
            return repr(value)
