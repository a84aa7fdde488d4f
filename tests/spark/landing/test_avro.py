"""Avro with a schema of the topic: what becomes of each record, and what its columns hold."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, Record, Topic
from anabranch.core.engine.spark import LIVE
from support.avro_records import ORDER_SCHEMA, avro, text
from support.things_topic import decided, unexpected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PLACED = Contract(
    "order.placed",
    1,
    {
        "type": "object",
        "required": ["orderId", "total"],
        "properties": {
            "orderId": {"type": "string"},
            "customer": {"type": "string"},
            "total": {"type": "number", "format": "decimal", "precision": 12, "scale": 2, "minimum": 0},
            "placedAt": {"type": "string", "format": "date-time"},
            "lines": {"type": "integer"},
            "weight": {"type": "number"},
            "country": {"type": "string", "enum": ["DE", "FR"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    },
)
ORDERS = Topic(
    "orders",
    (PLACED,),
    records=Avro(id="orderId", time="placedAt", subject="customer", schema=text(ORDER_SCHEMA)),
)
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
GOOD: dict[str, Any] = {
    "orderId": "o-1",
    "customer": "ann",
    "total": Decimal("1234567890.05"),
    "placedAt": NOON,
    "lines": 3,
    "weight": 0.1,
    "country": "DE",
    "tags": ["a", "b"],
}
WHOLE = avro(GOOD)
CASES: dict[str, tuple[bytes | None, str | None]] = {
    "good": (WHOLE, None),
    "without customer, weight, tags": (avro({**GOOD, "customer": None, "weight": None, "tags": []}), None),
    "a tombstone": (None, None),
    "no bytes": (b"", "not_avro: it ends in the middle of a value, at byte 0"),
    "cut": (WHOLE[:-5], "not_avro"),
    "a byte behind it": (WHOLE + b"\x00", "not_avro: 1 bytes behind the value"),
    "JSON": (b'{"orderId":"o-1"}', "not_avro"),
    "not UTF-8": (WHOLE.replace(b"o-1", b"\xff\xfe1"), "not_avro"),
    "an empty id": (avro({**GOOD, "orderId": ""}), "mapping: id: data.orderId is missing"),
    "NaN": (avro({**GOOD, "weight": float("nan")}), "not_finite: data.weight is nan"),
    "infinite": (avro({**GOOD, "weight": float("-inf")}), "not_finite: data.weight is -inf"),
    "below the minimum": (avro({**GOOD, "total": Decimal("-0.01")}), "contract: data.total is below 0"),
    "a symbol that the contract lacks": (avro({**GOOD, "country": "US"}), "contract: data.country is none of"),
    "more digits than declared": (
        WHOLE.replace(b"\n" + bytes.fromhex("1cbe991a0d"), b"\x0e" + b"\x7f" * 7),
        "contract: data.total",
    ),
    "long ago": (avro({**GOOD, "placedAt": datetime(1969, 1, 1, tzinfo=UTC)}), "absurd_time"),
}


@pytest.mark.parametrize("fast", [False, True], ids=["as JSON", "in columns"])
@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
def test_every_record_gets_its_decision(spark: SparkSession, settings: Mapping[str, str], fast: bool) -> None:
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **settings}.items():
        own.conf.set(key, value)
    rows = decided(own, {name: value for name, (value, _) in CASES.items()}, ORDERS, fast=fast)
    assert unexpected(rows, {name: reason for name, (_, reason) in CASES.items()}) == {}
    assert [name for name, row in rows.items() if row["decision"] == "tombstone"] == ["a tombstone"]
    good = rows["good"]
    assert good["order_placed"] == GOOD | {"total": Decimal("1234567890.05")}
    assert (good["event_id"], good["subject"], good["event_time"]) == ("o-1", "ann", NOON)
    assert good["value"] == WHOLE


def test_a_decimal_that_is_a_text_is_read_as_its_text(spark: SparkSession) -> None:
    """Avro ignores a logical type that doesn't fit; a topic must not stop at its records."""
    digits = {"type": "string", "precision": 6, "scale": 2}
    price = {**digits, "logicalType": "decimal"}
    schema = {"type": "record", "name": "Price", "fields": [{"name": "id", "type": "string"}]}
    written = {**schema, "fields": [*schema["fields"], {"name": "price", "type": "string"}]}
    declared = {**schema, "fields": [*schema["fields"], {"name": "price", "type": price}]}
    fields = {"id": {"type": "string"}, "price": {**digits, "format": "decimal"}}
    made = Contract("price.set", 1, {"type": "object", "required": ["id", "price"], "properties": fields})
    records = Avro(id="id", time=Record.APPEND_TIME, schema=text(declared))
    values = {name: avro({"id": "p", "price": name}, written) for name in ("12.50", "cheap")}
    rows = decided(spark, values, Topic("prices", (made,), records=records), fast=False)
    assert unexpected(rows, {"12.50": None, "cheap": "contract: data.price is no decimal(6,2)"}) == {}
    assert rows["12.50"]["price_set"] == {"id": "p", "price": Decimal("12.50")}
