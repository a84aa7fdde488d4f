"""Bad input from outside, on real parts: quarantine or a clear error, nothing executed, nothing lost beside it."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, Event, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import create_missing
from anabranch.ingest.landing.audit.quarantine import list_quarantined, release
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.stream import start
from anabranch.lake.layout import landing_table
from deltalake import DeltaTable
from support.hostile_texts import CANARY, HOSTILE
from support.sent_records import raw_producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system

MEGABYTE = 2**20
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    return broker.model_copy(update={"home": tmp_path})


@pytest.fixture
def topic(broker: Settings) -> Topic:
    note = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
    made = Topic(
        f"notes_{secrets.token_hex(4)}",
        (Contract("note.written", 1, note),),
        partitions=1,
        allowed_lateness=timedelta(hours=1),
        max_message_bytes=11 * MEGABYTE,
    )
    create_missing(broker, [made])
    return made


def event(number: int | str | None, text: Any = "a", **more: Any) -> bytes:
    body = {"specversion": "1.0", "id": str(number), "source": "/test", "type": "note.written", "subject": "s"}
    return json.dumps({**body, "time": "2020-01-01T12:00:00Z", "data": {"text": text}, **more}).encode()


def nested(depth: int) -> bytes:
    return event("deep").replace(b'"data":', b'"more": ' + b"[" * depth + b"]" * depth + b', "data":')


def test_whatever_a_record_holds_those_beside_it_are_landed(
    spark: SparkSession, settings: Settings, topic: Topic
) -> None:
    bad = [
        b"",
        b"\x00" * 1_000,
        b"\xff\xfe{",
        b"{" * 100_000,
        b'{"a":' * 5_000,
        nested(100_000),
        b"x" * (10 * MEGABYTE),
        event("wide", ["a"] * 300_000),
        event("number", 10**400),
        event("untyped", type="note.burnt"),
        event("typeless", type=None),
        event("ancient", time="0001-01-01T00:00:00Z"),
        event("future", time="9999-12-31T23:59:59Z"),
        event("numbered", subject=5),
        event(None, id=None),
    ]
    good = [
        event("huge", "y" * (10 * MEGABYTE)),
        *(event(f"subject-{n}", t, subject=t or "s") for n, t in enumerate(HOSTILE)),
    ]
    producer = raw_producer(settings, **{"message.max.bytes": 11 * MEGABYTE})
    sent = [value for pair in zip(good, bad, strict=True) for value in pair]
    for value in sent:
        producer.produce(topic.name, value=value, key=b"k")
    producer.produce(topic.name, value=None, key=None)
    assert producer.flush(60) == 0

    assert start(spark, settings, topic, once=True).awaitTermination(240)
    assert verify(settings, topic).sound
    rows = {r["offset"]: r for r in DeltaTable(landing_table(settings, topic.name)).to_pyarrow_table().to_pylist()}
    assert len(rows) == len(sent) + 1
    assert [rows[n]["value"] for n in range(len(sent))] == sent
    for n in range(0, 2 * len(good), 2):
        told = json.loads(sent[n])
        assert (rows[n]["decision"], rows[n]["note_written"]) == ("valid", told["data"]), told["id"]
        assert rows[n]["subject"] == told["subject"]
    assert {rows[n]["decision"] for n in range(1, 2 * len(bad), 2)} == {"quarantined"}
    assert rows[len(sent)]["decision"] == "quarantined"
    assert all(r["reason"] and len(r["reason"]) < 500 for r in rows.values() if r["decision"] == "quarantined")
    assert not CANARY.exists()

    still = release(spark, settings, topic, None, "nothing has changed")
    assert (still.epoch, still.released) == (None, 0)
    assert len(list_quarantined(settings, topic)) == len(bad) + 1


def test_a_producer_refuses_what_landing_would(settings: Settings, topic: Topic) -> None:
    declared = Declarations({topic.name: topic})
    with Producer(settings, declared) as producer:
        plain = Event("1", "/test", "note.written", "s", NOON, {"text": "a"}, topic.contracts[0].uri)
        kept = producer.send(plain)
        wrongs: list[dict[str, Any]] = [
            {"data": {"text": 5}},
            {"data": {}},
            {"data": {"text": "y" * (12 * MEGABYTE)}},
            {"type": "note.burnt"},
            {"data": {"text": float("nan")}},
            {"subject": ""},
            {"time": NOON.replace(tzinfo=None)},
        ]
        for wrong in wrongs:
            with pytest.raises(BadInput) as refused:
                producer.send(replace(plain, id="2", **wrong))
            assert len(str(refused.value)) < 1_000
        producer.flush()
        assert kept.result().topic == topic.name
