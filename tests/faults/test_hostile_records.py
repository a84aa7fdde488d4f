"""Records that nobody sent on purpose, between good ones: those are landed, with all that they hold, and in time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Topic
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.quarantine import list_quarantined
from anabranch.operate.doctor._run_checks import Report
from support.damaged_bytes import accident, fuzzed
from support.parcels_topic import MEGABYTE, assert_sound, land, made_topic, parcel, rows_of, send
from support.sent_records import raw_producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.property]

FUZZED = 1_000


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    return broker.model_copy(update={"home": tmp_path / "home"})


@pytest.fixture
def topic(broker: Settings) -> Topic:
    return made_topic(broker, partitions=1, max_message_bytes=11 * MEGABYTE)


def drawn() -> list[bytes]:
    """Fuzzed records, each from a valid one with an id of its own. The same ones in every run: Hypothesis draws numbers
    from the source of whatever modules are imported, so its records change with the tests beside this one."""
    chance = Random(7)
    found = []
    for number in range(FUZZED):
        steps = [accident(chance) for _ in range(chance.randint(1, 3))]
        found.append(fuzzed(parcel(f"fuzzed-{number:05}", data={"n": number, "text": "näh"}), steps))
    return found


def said(value: bytes) -> dict[str, Any]:
    return dict(json.loads(value))


def test_a_thousand_fuzzed_records_between_good_ones(
    spark: SparkSession, settings: Settings, topic: Topic, diagnosis: Callable[..., Report]
) -> None:
    good = [parcel(n, data={"n": n}) for n in range(FUZZED)]
    sent = [value for pair in zip(drawn(), good, strict=True) for value in pair]
    send(settings, topic, sent, partition=0)
    land(spark, settings, topic)
    assert_sound(settings, topic, len(sent))
    rows = rows_of(settings, topic)
    assert [row["value"] for row in rows] == sent
    for row, value in zip(rows[1::2], good, strict=True):
        assert (row["decision"], row["parcel_seen"]["n"]) == ("valid", said(value)["data"]["n"])
    for row in rows[::2]:
        if row["decision"] == "valid":  # the accident has spared what the contract asks for
            told = said(row["value"])
            # Half of a pair of code units is no text: the engine's parser has a question mark in its place.
            known = told["id"].encode(errors="replace").decode()
            assert (row["event_id"], row["parcel_seen"]["n"]) == (known, told["data"]["n"])
        elif row["decision"] == "quarantined":
            assert row["reason"]
    counted = {d: sum(row["decision"] == d for row in rows[::2]) for d in ("valid", "quarantined", "duplicate")}
    assert counted["quarantined"] > FUZZED / 2, counted
    assert counted["valid"] > 10, counted
    assert len(list_quarantined(settings, topic)) == counted["quarantined"]
    assert not diagnosis(settings, topic).findings


def nested(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


POISON = {
    "ten megabytes of text": parcel("large", data={"n": 1, "text": "y" * (10 * MEGABYTE)}),
    "a hundred levels": parcel("deep", zz=0).replace(b'"zz":0', f'"zz":{nested(100)}'.encode()),
    "a hundred levels of data": parcel("deep data", data={"n": 1, "zz": 0}).replace(
        b'"zz":0', f'"zz":{nested(100)}'.encode()
    ),
    "five thousand fields": parcel("wide", data={"n": 1, **{f"unknown_{n}": n for n in range(5_000)}}),
    "five thousand attributes": parcel("wide envelope", **{f"unknown{n}": n for n in range(5_000)}),
}


def test_large_deep_and_wide_records_in_front_of_the_queue_hold_nobody_up(
    spark: SparkSession, settings: Settings, topic: Topic
) -> None:
    behind = [parcel(n) for n in range(200)]
    send(settings, topic, [b"\x00poison", *POISON.values(), *behind], partition=0)
    started = time.monotonic()
    land(spark, settings.model_copy(update={"max_offsets_per_trigger": 1 + len(POISON)}), topic)
    seconds = time.monotonic() - started
    rows = rows_of(settings, topic)
    assert_sound(settings, topic, len(behind) + len(POISON) + 1)
    decisions = [row["decision"] for row in rows]
    assert decisions == ["quarantined", *["valid"] * (len(POISON) + len(behind))]
    for row, value in zip(rows[1:], POISON.values(), strict=False):
        assert row["value"] == value  # what the contract doesn't know is kept in the raw bytes
    assert seconds < 60, seconds


def test_a_hot_key_with_half_of_the_traffic(spark: SparkSession, settings: Settings, broker: Settings) -> None:
    """Its partition is far longer than the others, which don't wait for it."""
    topic = made_topic(broker, partitions=4)
    producer = raw_producer(settings)
    for n in range(4_000):
        subject = "hot" if n % 2 else f"cold-{n % 97}"
        producer.produce(topic.name, key=subject, value=parcel(n, subject=subject, data={"n": n}))
        producer.poll(0)
    assert producer.flush(30) == 0
    land(spark, settings.model_copy(update={"max_offsets_per_trigger": 1_000}), topic)
    assert_sound(settings, topic, 4_000)
    rows = rows_of(settings, topic)
    hot = [row for row in rows if row["subject"] == "hot"]
    assert len(hot) == 2_000
    assert [row["parcel_seen"]["n"] for row in hot] == sorted(row["parcel_seen"]["n"] for row in hot)
    done = {p: max(r["epoch"] for r in rows if r["partition"] == p) for p in {row["partition"] for row in rows}}
    first = {p: min(r["epoch"] for r in rows if r["partition"] == p) for p in done}
    assert set(first.values()) == {1}, "a partition has waited for the hot one"
