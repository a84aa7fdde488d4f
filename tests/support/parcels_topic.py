"""A small topic of a real broker, its landing, and what the log and the table say of each other."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from anabranch.contracts import Contract, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import create_missing
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.stream import LandingQuery, start
from anabranch.lake.layout import landing_table
from deltalake import DeltaTable

from support.sent_records import raw_producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
MEGABYTE = 2**20
PARCEL = Contract(
    "parcel.seen",
    1,
    {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "integer", "minimum": 0}, "text": {"type": "string"}},
    },
)


def made_topic(settings: Settings, **more: Any) -> Topic:
    """A topic of two partitions under a name of its own."""
    given = {"partitions": 2, "allowed_lateness": timedelta(hours=1), **more}
    topic = Topic(f"parcels_{secrets.token_hex(4)}", (PARCEL,), **given)
    create_missing(settings, [topic])
    return topic


def parcel(number: int | str, **more: Any) -> bytes:
    body = {"specversion": "1.0", "id": str(number), "source": "/test", "type": "parcel.seen", "subject": "parcel"}
    return json.dumps({**body, "time": NOON.isoformat(), "data": {"n": 1}, **more}, separators=(",", ":")).encode()


def send(settings: Settings, topic: Topic, values: Iterable[bytes], partition: int | None = None) -> int:
    """Send records in turn to both partitions, or to one; how many."""
    producer = raw_producer(settings, **{"message.max.bytes": 12 * MEGABYTE})
    count = 0
    for count, value in enumerate(values, 1):
        while True:
            try:
                producer.produce(topic.name, value=value, partition=count % 2 if partition is None else partition)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    return count


def land(spark: SparkSession, settings: Settings, topic: Topic) -> LandingQuery:
    """Land what the log holds; raises what ended it."""
    query = start(spark, settings, topic, once=True)
    try:
        assert query.awaitTermination(240), "landing did not end"
    except Exception as error:
        raise (query.failure or error) from None
    return query


def rows_of(settings: Settings, topic: Topic) -> list[dict[str, Any]]:
    """Everything that was landed, by partition and offset."""
    found = DeltaTable(landing_table(settings, topic.name)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def assert_sound(settings: Settings, topic: Topic, count: int) -> None:
    """Each of ``count`` records of the log was landed once, and each event is one."""
    proof = verify(settings, topic)
    assert proof.sound, proof.to_json()
    assert sum(p.valid + p.quarantined + p.duplicates + p.tombstones for p in proof.partitions) == count
    assert not proof.doubled
