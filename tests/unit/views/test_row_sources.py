"""Which landed events can be behind a row: its fields, its times, and the versions in which a field is computed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from anabranch.contracts import Contract, Topic, Upcaster
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.operate.explain._candidates import _key_condition
from anabranch.views import View, view
from anabranch.views.selection.row_sources import KeyField, day_of, declared_reach, key_fields

pytestmark = pytest.mark.unit
ZERO = timedelta(0)
NOON, HOUR = datetime(2013, 1, 5, 12, tzinfo=UTC), timedelta(hours=1)
OF_THE_DAY = (datetime(2013, 1, 4, 23, tzinfo=UTC), datetime(2013, 1, 6, 2, tzinfo=UTC))


def contract(name: str, version: int, *fields: str) -> Contract:
    properties = {field: {"type": "integer"} for field in fields}
    return Contract(name, version, {"type": "object", "properties": properties, "required": list(fields)})


def renamed(old: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"tail": old["plane"], "origin": old["origin"]}


OLD, NEW, BOARDED = (
    contract("plane.left", 1, "plane", "origin"),
    contract("plane.left", 2, "tail", "origin"),
    contract("plane.boarded", 1, "seat", "tail"),
)
TOPIC = Topic("flights", (OLD, NEW, BOARDED), upcasters=(Upcaster("plane.left", 1, renamed),))


def declared(partition_by: str | None, back: timedelta = HOUR, ahead: timedelta = 2 * HOUR) -> View:
    key = ["tail", partition_by] if partition_by else ["tail"]

    @view(
        name="turns",
        version=1,
        events=["plane.left"],
        key=key,
        partition_by=partition_by,
        lookback=back,
        lookahead=ahead,
    )
    def turns(left: Any) -> Any:
        return left

    return turns


@pytest.mark.parametrize(
    ("row", "reach"),
    [
        ({"window_start": NOON, "window_end": NOON + HOUR}, (NOON - HOUR, NOON + 3 * HOUR)),
        ({"window_start": NOON}, OF_THE_DAY),
        ({"window_start": date(2013, 1, 5)}, OF_THE_DAY),
        ({"tail": 1}, (None, None)),
        ({"window_start": None}, (None, None)),
    ],
    ids=["a window", "a time of its day", "a day", "no time", "null"],
)  # fmt: skip
def test_the_reach_of_a_row_is_its_window_or_its_day_and_what_the_view_declares(
    row: dict[str, Any], reach: tuple[datetime | None, datetime | None]
) -> None:
    assert declared_reach(declared("window_start"), row) == reach


def test_any_event_can_be_behind_a_row_without_a_partition() -> None:
    assert (
        declared_reach(declared(None, ZERO, ZERO), {"tail": 1}),
        day_of(declared(None, ZERO, ZERO), {"tail": 1}),
    ) == ((None, None), None)


def test_a_field_is_compared_in_the_versions_that_hold_it_as_it_was_sent() -> None:
    left = list(key_fields(TOPIC, "plane.left", ["tail", "seat", "origin"]))
    assert left == [
        KeyField("tail", (2,)),
        KeyField("origin", None),
    ]
    assert list(key_fields(TOPIC, "plane.boarded", ["tail", "seat"])) == [
        KeyField("tail", None),
        KeyField("seat", None),
    ]


def test_a_key_column_has_one_value_whichever_types_have_such_a_field() -> None:
    schema: pa.Schema = landing_schema(TOPIC)
    sql, values = _key_condition(["plane.left", "plane.boarded"], TOPIC, {"seat": 7, "tail": 8}, schema)
    assert values == {"k0": 7, "k1": 8}
    left, boarded = sql.split(" OR (type")
    assert '"tail" IS NOT DISTINCT FROM $k1 OR contract_version NOT IN (2)' in left
    assert "$k0" not in left
    assert '"seat" IS NOT DISTINCT FROM $k0' in boarded
    assert '"tail" IS NOT DISTINCT FROM $k1' in boarded
