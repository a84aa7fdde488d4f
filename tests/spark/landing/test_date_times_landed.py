"""Times with an offset land to the microsecond, or in quarantine, as the sender's check says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from support.text_formats import DATE_TIMES, NO_DATE_TIMES
from support.things_topic import decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
AT: dict[str, Any] = {"type": "string", "format": "date-time"}
FIELDS = {
    "at": AT,
    "each": {"type": "array", "items": AT},
    "by": {"type": "object", "additionalProperties": AT},
    "all": {"type": "array", "items": {"type": "object", "properties": {"at": AT}}},
}
PUT: dict[str, Any] = {
    "at": lambda text: text,
    "each": lambda text: [text],
    "by": lambda text: {"a": text},
    "all": lambda text: [{"at": text}],
}
TOPIC = Topic(
    "things",
    (Contract("thing.made", 1, {"type": "object", "properties": FIELDS}),),
    records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME),
)


def the_time(value: Any) -> datetime:
    while not isinstance(value, datetime):
        value = [*(value.values() if isinstance(value, Mapping) else value)][-1]
    return value.astimezone(UTC)


@pytest.mark.parametrize("name", FIELDS)
def test_a_time_lands_or_is_quarantined(spark: SparkSession, name: str) -> None:
    texts = {f"{n}": text for n, text in enumerate([*DATE_TIMES, *NO_DATE_TIMES])}
    records = {n: json.dumps({name: PUT[name](text)}).encode() for n, text in texts.items()}
    rows = decided(spark, records, TOPIC)
    decisions = {text: rows[n]["decision"] for n, text in texts.items() if isinstance(text, str)}
    assert decisions == {text: "valid" if text in DATE_TIMES else "quarantined" for text in decisions}
    for n, text in texts.items():
        if text in DATE_TIMES:
            whole, fraction, offset = text[:19], text[19:-6] if text[-1] != "Z" else text[19:-1], text[-6:]
            micros = f"{fraction[1:7]:0<6}" if fraction else "000000"
            expected = datetime.fromisoformat(f"{whole}.{micros}{'+00:00' if text[-1] == 'Z' else offset}")
            assert the_time(rows[n]["thing_made"][name]) == expected.astimezone(UTC), text
