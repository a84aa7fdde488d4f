"""Decimals for readers of the newest contract: whole cents become one, and one that stays is carried over as it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from anabranch.contracts import Contract, Event, Topic, Upcaster
from anabranch.core.errors import BadDefinition
from anabranch.ingest.landing.decoding import decode, raw_frame, with_reasons
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.views._upcasting import check_upcasters
from anabranch.views.selection.upcast_select import select_newest

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark
APPENDED = datetime(2020, 1, 1, 12, tzinfo=UTC)
TEXT: dict[str, Any] = {"type": "string", "format": "decimal", "precision": 12, "scale": 2}
CENTS = Contract(
    "bill.sent",
    1,
    {
        "type": "object",
        "required": ["cents", "tax"],
        "properties": {"cents": {"type": "integer"}, "tax": {**TEXT, "minimum": 0}},
    },
)
BILL = Contract(
    "bill.sent",
    2,
    {
        "type": "object",
        "required": ["tax", "amount"],
        "properties": {
            "tax": {**TEXT, "minimum": "-0.01"},
            "amount": {**TEXT, "precision": 20},
            "note": {"type": "string"},
        },
    },
)


def to_amount(old: Mapping[str, Column]) -> Mapping[str, Column]:
    return {"amount": (old["cents"].cast("decimal(20,2)") / 100).cast("decimal(20,2)")}


def to_wider(old: Mapping[str, Column]) -> Mapping[str, Column]:
    return {"amount": old["cents"].cast("decimal(20,2)") / 100}


def test_cents_become_a_decimal_for_readers_and_a_decimal_is_carried_over(spark: SparkSession) -> None:
    topic = Topic("bills", (CENTS, BILL), upcasters=(Upcaster("bill.sent", 1, to_amount),))
    check_upcasters(spark, topic, ["bill.sent"])
    sent = [
        (CENTS, {"cents": 30, "tax": Decimal("0.10")}),
        (CENTS, {"cents": 123_456_789_012_345_678, "tax": "0.2"}),
        (CENTS, {"cents": 1, "tax": "-0.01"}),
        (BILL, {"amount": Decimal("0.30"), "tax": "-0.01"}),
        (BILL, {"amount": Decimal("123456789012345678.90"), "tax": "0"}),
    ]
    events = [
        Event(str(n), "/s", "bill.sent", "k", APPENDED, data, contract.uri) for n, (contract, data) in enumerate(sent)
    ]
    micros = int(APPENDED.timestamp() * 1_000_000)
    records = [
        {"partition": 0, "offset": n, "append_time": micros, "key": b"k", "value": event.to_json()}
        for n, event in enumerate(events)
    ]
    decoded = with_reasons(decode(raw_frame(spark, topic, records), topic).toArrow(), topic)
    rows = decoded.sort_by("offset").to_pylist()
    assert [row["reason"] for row in rows] == [None, None, "contract: data.tax is below 0", None, None]
    landed = spark.createDataFrame(pa.Table.from_pylist(rows, landing_schema(topic))).where("decision = 'valid'")
    found = select_newest(landed.orderBy("offset"), ["offset"], topic, "bill.sent")
    assert dict(found.dtypes) == {
        "offset": "bigint",
        "tax": "decimal(12,2)",
        "amount": "decimal(20,2)",
        "note": "string",
    }
    assert [(row["tax"], row["amount"]) for row in found.collect()] == [
        (Decimal("0.10"), Decimal("0.30")),
        (Decimal("0.20"), Decimal("1234567890123456.78")),
        (Decimal("-0.01"), Decimal("0.30")),
        (Decimal("0.00"), Decimal("123456789012345678.90")),
    ]


def test_a_decimal_that_an_upcaster_would_round_is_refused(spark: SparkSession) -> None:
    topic = Topic("bills", (CENTS, BILL), upcasters=(Upcaster("bill.sent", 1, to_wider),))
    with pytest.raises(BadDefinition, match=r"amount becomes decimal\(24,6\), v2 declares decimal\(20,2\)") as error:
        check_upcasters(spark, topic, ["bill.sent"])
    assert error.value.code == "UPCASTER_TYPE"
