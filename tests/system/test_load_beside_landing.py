"""Files are loaded while the topic's records land from a real log: each event is landed once, wherever it came from."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.files import load
from anabranch.ingest.kafka.admin import create_missing
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.state import open_landing, read_state
from anabranch.ingest.landing.stream import start
from anabranch.ingest.landing.table.sql import landed_rows
from support.processes import eventually
from support.sent_records import raw_producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
SCHEMA = {
    "type": "object",
    "required": ["id", "at"],
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "n": {"type": "integer", "minimum": 0},
    },
}
MADE = Contract("thing.made", 1, SCHEMA)
LOGGED, OLD = 3_000, 4_000
BOTH = 500
"""So many events come by the log and are in the file, too."""


def row(number: int, at: str) -> bytes:
    wrong = number % 1_000 == 13
    return json.dumps({"id": number, "at": at, "n": -1 if wrong else number % 7}).encode()


def test_a_load_and_a_running_landing_share_a_table(spark: SparkSession, broker: Settings, tmp_path: Path) -> None:
    topic = Topic(
        f"things_{secrets.token_hex(4)}", (MADE,), partitions=2, records=PlainJson(id="id", time="at"), owned=True
    )
    own = {"home": tmp_path / "home", "shuffle_partitions": 1, "landing_interval": "200 milliseconds"}
    settings = broker.model_copy(update=own)
    create_missing(settings, [topic])
    file, first = tmp_path / "old.jsonl", LOGGED - BOTH
    file.write_bytes(b"\n".join(row(n, "2019-05-04T10:00:00Z") for n in range(first, first + OLD)))
    table, query, sending = (
        open_landing(settings, topic),
        start(spark, settings, topic),
        Thread(target=send, args=(settings, topic)),
    )
    sending.start()
    try:

        def landed() -> int:
            table.update_incremental()
            return sum(read_state(table, topic).offsets.values())

        eventually(lambda: landed() > 100, 120)
        epoch = read_state(table, topic).epoch
        report = load(spark, settings, topic, [str(file)], part_rows=500)
        assert report.landed == OLD
        eventually(lambda: landed() == LOGGED, 120)
        assert read_state(table, topic).epoch > epoch + OLD // 500, "landing has committed between the parts"
    finally:
        sending.join()
        query.stop()

    proof = verify(settings, topic)
    assert proof.sound, proof.to_json()
    with landed_rows(table) as rows:
        found = rows.execute('SELECT event_id, decision, late, "partition" < 0 FROM rows').fetchall()
    decisions = Counter(decision for _, decision, _, _ in found)
    every = range(first + OLD)
    wrong = sum(n % 1_000 == 13 for n in range(LOGGED)) + sum(n % 1_000 == 13 for n in range(first, first + OLD))
    assert decisions["quarantined"] == wrong
    events = Counter(int(event) for event, decision, _, _ in found if decision in ("valid", "loaded"))
    assert events == Counter(n for n in every if n % 1_000 != 13), "each event once, wherever it came from"
    assert {(late, of_file) for _, decision, late, of_file in found if decision == "loaded"} == {(None, True)}
    assert {late for _, decision, late, _ in found if decision == "valid"} == {False}, "history makes nothing late"


def send(settings: Settings, topic: Topic) -> None:
    """Over some seconds, so that landing has something to do all the time."""
    producer = raw_producer(settings)
    for n in range(LOGGED):
        producer.produce(topic.name, value=row(n, "2024-05-04T10:00:00Z"), partition=n % 2)
        if n % 20 == 0:
            producer.flush(30)
            time.sleep(0.08)
    assert producer.flush(30) == 0
