"""Limits beyond 64 bits, as generators of schemas write them for uint64: for the engine as for the sender's check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.contracts.sending import RecordCheck
from support.things_topic import decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FIELDS: dict[str, Any] = {
    "n": {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
    "m": {"type": "integer", "minimum": -(2**70)},
    "x": {"type": "number", "minimum": -(2**65), "maximum": 2**64},
    "y": {"type": "number", "enum": [1, 2**64, 0.5]},
}
RECORDS: dict[str, tuple[dict[str, Any], bool]] = {
    "the largest": ({"n": 2**63 - 1}, True),
    "below": ({"n": -1}, False),
    "beyond 64 bits": ({"n": 2**63}, False),
    "the smallest": ({"m": -(2**63)}, True),
    "a double": ({"x": 1.8e19}, True),
    "a double above": ({"x": 1.9e19}, False),
    "of the list": ({"y": 18446744073709551616}, True),
    "not of the list": ({"y": 3}, False),
}


def test_limits_beyond_64_bits(spark: SparkSession) -> None:
    contract = Contract("thing.made", 1, {"type": "object", "properties": FIELDS})
    topic = Topic("things", (contract,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME))
    rows = decided(spark, {name: json.dumps(data).encode() for name, (data, _) in RECORDS.items()}, topic)
    assert {name: row["decision"] == "valid" for name, row in rows.items()} == {n: v for n, (_, v) in RECORDS.items()}
    check = RecordCheck(topic)
    for data, valid in RECORDS.values():
        assert (check.problem(json.dumps(data).encode(), data) is None) is valid, data
