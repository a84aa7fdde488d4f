"""Times of records that their producers set: Kafka checks none of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.quarantine import list_quarantined, release
from anabranch.ingest.landing.decoding import decode, raw_frame
from anabranch.ingest.landing.state import open_landing
from support.landed_bytes import LandedBytes
from support.naive_reader import Record as Sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COUNTED = Contract("thing.counted", 1, {"type": "object", "properties": {"id": {"type": "string"}}})
TOPIC = Topic("things", (COUNTED,), partitions=1, owned=False, records=PlainJson(id="id", time=Record.APPEND_TIME))
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp()) * 1_000
TIMES_MS = {"good": NOON_MS, "in microseconds": NOON_MS * 1_000, "none": -1, "before 1": -(10**15), "last": NOON_MS + 1}
REASON = "append_time: the time of the record in the log is outside of the years 1 to 9999"


@pytest.mark.parametrize("small", [50_000, 0], ids=["in this process", "by the engine"])
def test_a_record_with_a_time_that_no_table_holds_is_quarantined_and_landing_goes_on(
    spark: SparkSession, settings: Settings, small: int
) -> None:
    settings = settings.model_copy(update={"small_commit_rows": small})
    records: list[dict[str, Any]] = []
    for offset, (name, ms) in enumerate(TIMES_MS.items()):
        coordinates = {"partition": 0, "offset": offset, "append_time": ms * 1_000}
        records.append({**coordinates, "key": None, "value": json.dumps({"id": name}).encode()})
    landing = LandedBytes(settings, TOPIC, decode(raw_frame(spark, TOPIC, records), TOPIC), fast=False)
    landing.land([Sent(TOPIC.name, 0, len(records) - 1, NOON, b"")])
    rows = sorted(open_landing(settings, TOPIC).to_pyarrow_table().to_pylist(), key=lambda row: row["offset"])
    reasons = [None, REASON, "absurd_time: before 2000; the topic's earliest_year says what is too early", REASON, None]
    assert [row["reason"] for row in rows] == reasons
    held = [(record.offset, record.append_time.year) for record in list_quarantined(settings, TOPIC)]
    assert held == [(1, 9999), (2, 1969), (3, 1)]
    if small:
        assert release(spark, settings, TOPIC, (0, 1), "again").still == {REASON: 1}
