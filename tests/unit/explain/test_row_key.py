"""A key as a person types it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from anabranch.core.errors import BadInput
from anabranch.operate.explain import key_parts
from anabranch.operate.explain._row_key import typed_key

pytestmark = pytest.mark.unit

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("origin", pa.string()),
        ("place", pa.int32()),
        ("share", pa.decimal128(6, 2)),
        ("open", pa.bool_()),
    ]
)


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("at", "2013-01-05T14:00:00Z", datetime(2013, 1, 5, 14, tzinfo=UTC)),
        ("at", "2013-01-05 14:00", datetime(2013, 1, 5, 14, tzinfo=UTC)),
        ("at", "2013-01-05T14:00:00+02:00", datetime(2013, 1, 5, 12, tzinfo=UTC)),
        ("day", "2013-01-05", date(2013, 1, 5)),
        ("day", date(2013, 1, 5), date(2013, 1, 5)),
        ("origin", "O'Hare = best", "O'Hare = best"),
        ("origin", "null", None),
        ("place", "3", 3),
        ("share", "1.5", Decimal("1.50")),
        ("open", "True", True),
    ],
)
def test_values_get_the_type_of_their_column(column: str, text: Any, value: Any) -> None:
    assert typed_key("v", (column,), SCHEMA, {column: text}) == {column: value}


@pytest.mark.parametrize(
    ("column", "text"),
    [("at", "noon"), ("day", "2013-02-30"), ("place", "1.5"), ("place", str(2**40)), ("share", "x"), ("open", "yes")],
)
def test_what_is_of_another_type_is_refused(column: str, text: str) -> None:
    with pytest.raises(BadInput) as refused:
        typed_key("v", (column,), SCHEMA, {column: text})
    assert (refused.value.code, refused.value.fields["column"]) == ("KEY_UNREADABLE", column)


def test_names_that_are_wrong_or_missing_are_listed() -> None:
    with pytest.raises(BadInput) as unknown:
        typed_key("v", ("day", "origin"), SCHEMA, {"day": "2013-01-05", "orgin": "JFK"})
    assert (unknown.value.code, unknown.value.fields["columns"]) == ("KEY_UNKNOWN", ["orgin"])
    with pytest.raises(BadInput) as missing:
        typed_key("v", ("day", "origin"), SCHEMA, {"day": "2013-01-05"})
    assert (missing.value.code, missing.value.fields["columns"]) == ("KEY_INCOMPLETE", ["origin"])


@pytest.mark.parametrize("texts", [["origin"], ["origin=JFK", "origin=EWR"]])
def test_a_key_is_column_equals_value_once(texts: list[str]) -> None:
    with pytest.raises(BadInput) as refused:
        key_parts(texts)
    assert refused.value.code == "KEY_UNREADABLE"
