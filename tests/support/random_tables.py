"""Random tables over every type that Delta knows, and predicates of which plain Python knows the answer."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

LAST = "\U0010ffff"
TEXTS = [
    "",
    "a",
    "O'Hare",
    "x" * 31,
    "x" * 32,
    "x" * 33,
    "x" * 32 + LAST,
    LAST * 40,
    "é" * 40,
    "\uffff",
    "😀" * 33,
    "y" * 5_000,
]
MOMENTS = [
    datetime.fromisoformat(text)
    for text in (
        "2013-01-01T10:00:00.123456",
        "2013-01-01T10:00:00.123956",
        "1969-12-31T23:59:59.999999",
        "0001-01-01T00:00:00",
    )
]
VALUES: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "text": (pa.string(), TEXTS),
    'Über.the "quoted" name': (pa.string(), ["a", "b"]),
    "tiny": (pa.int8(), [-128, 0, 127]),
    "whole": (pa.int64(), [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
    "real": (pa.float64(), [-1.5, -0.0, 0.0, 0.1, 1e300, 5e-324]),
    "small_real": (pa.float32(), [-1.5, 0.0, 0.5, 2.0**100]),
    "flag": (pa.bool_(), [False, True]),
    "price": (pa.decimal128(9, 2), [Decimal("-0.01"), Decimal("0.00"), Decimal("9999999.99")]),
    "exact": (
        pa.decimal128(38, 3),
        [Decimal("-12345678901234567890123456789012345.678"), Decimal("12345678901234567890123456789012345.679")],
    ),
    "day_of": (pa.date32(), [date(1, 1, 1), date(2013, 1, 1), date(9999, 12, 31)]),
    "moment": (pa.timestamp("us", "UTC"), [each.replace(tzinfo=UTC) for each in MOMENTS]),
    "local": (pa.timestamp("us"), MOMENTS),
    "bytes": (pa.binary(), [b"", b"\x00\xff"]),
}
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        *((name, kind) for name, (kind, _) in VALUES.items()),
        ("inside", pa.struct([("text", pa.string()), ("deep", pa.struct([("whole", pa.int64())]))])),
        ("list", pa.list_(pa.int64())),
        ("map", pa.map_(pa.string(), pa.float64())),
    ]
)


@dataclass(frozen=True, slots=True)
class Question:
    """Rows whose ``column`` compares so with ``value``; is null where ``sign`` is "null"."""

    column: str
    sign: str
    value: Any = None

    def answer(self, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        if self.sign == "null":
            return sorted(row["number"] for row in rows if row[self.column] is None)
        compare = OPERATORS[self.sign]
        found = (row for row in rows if row[self.column] is not None)
        return sorted(row["number"] for row in found if compare(row[self.column], self.value))


def random_rows(chance: random.Random, first: int, count: int) -> list[dict[str, Any]]:
    """Rows of one file: of each column a few of its values, in some files none at all."""
    few = {
        name: chance.sample(values, min(len(values), chance.choice([1, 1, 2, 3])))
        for name, (_, values) in VALUES.items()
    }
    empty = {name for name in VALUES if chance.random() < 0.15}
    rows = []
    for number in range(first, first + count):
        row = {name: None if name in empty or chance.random() < 0.2 else chance.choice(few[name]) for name in VALUES}
        inside = None if chance.random() < 0.3 else {"text": chance.choice(TEXTS), "deep": {"whole": number}}
        rows.append({"number": number, **row, "inside": inside, "list": [number], "map": [("k", 0.5)]})
    return rows


def random_question(chance: random.Random) -> Question:
    column = chance.choice(list(VALUES))
    if chance.random() < 0.15:
        return Question(column, "null")
    signs = ["="] if column in ("flag", "bytes") else list(OPERATORS)
    return Question(column, chance.choice(signs), chance.choice(VALUES[column][1]))


def sql(question: Question) -> str:
    """A question as a reader's ``where``."""
    name, value = '"' + question.column.replace('"', '""') + '"', question.value
    if question.sign == "null":
        return f"{name} IS NULL"
    if isinstance(value, datetime):
        return f"{name} {question.sign} timestamp '{value.replace(tzinfo=None)}'"
    if isinstance(value, date):
        return f"{name} {question.sign} date '{value}'"
    if isinstance(value, str):
        return f"{name} {question.sign} " + "'" + value.replace("'", "''") + "'"
    return f"{name} {question.sign} {str(value).lower()}"
