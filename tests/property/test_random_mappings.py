"""Random mappings for records without an envelope, in plain JSON and in Avro, sound and spoiled: landing decides about
each record as a naive reader does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, Header, PlainJson, Record, TimeField, Topic, TypeField
from anabranch.ingest.landing._decode_fallback import decode_again, replace_doubtful
from anabranch.ingest.landing.decoding import decode, decode_fast, raw_frame, with_reasons
from support.naive_mapping import Found, Mapped, Part, decide, names_twice
from support.naive_reader import object_of
from support.random_mappings import IDS, SUBJECTS, TIMES, TYPES, Drawn, drawn, mapping_of
from support.spoiled_records import KINDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.property, pytest.mark.spark]
RECORDS = 2 * 2 * len(KINDS)
"""Each way of spoiling a record twice, and as many sound ones; of the first mapping there is one of 10 MB more."""
ALWAYS = {"JSON": range(7), "Avro": range(7, 11)}
MORE = 40
SWEPT = range(11, 11 + MORE)
EACH = [
    *(pytest.param(name, numbers, id=name) for name, numbers in ALWAYS.items()),
    *(pytest.param(name, SWEPT, id=f"{name}-{MORE}", marks=pytest.mark.sweep) for name in ALWAYS),
]


def test_every_kind_of_mapping_is_drawn() -> None:
    for numbers in ([*ALWAYS["JSON"], *ALWAYS["Avro"]], SWEPT):
        drawn_ones = [mapping_of(number) for number in numbers]
        assert {each.id for each in drawn_ones} == set(IDS)
        assert {each.time for each in drawn_ones} == set(TIMES)
        assert {each.type for each in drawn_ones} == {part for part, _ in TYPES}
        assert {each.subject for each in drawn_ones} == set(SUBJECTS)


@pytest.mark.parametrize(("name", "numbers"), EACH)
def test_landing_decides_as_the_naive_reader(spark: SparkSession, name: str, numbers: Sequence[int]) -> None:
    """Avro by both decoders: in the sweep each mapping, otherwise in turn."""
    counts, wrong, avro = Counter[str](), list[str](), name == "Avro"
    for number in numbers:
        log = drawn(number, RECORDS, avro=avro, large=number == numbers[0])
        topic = topic_of(log.mapped)
        right = [decide(record, log.mapped) for record in log.records]
        decoders = (False,) if not avro else (False, True) if numbers == SWEPT else (number % 2 == 1,)
        for fast in decoders:
            rows = landed(spark, topic, log, fast=fast)
            wrong += differences(f"drawn({number}, {RECORDS}, {avro=}), {fast=}", topic, log, rows, right)
        counts.update(each.decision for each in right)
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:5])
    assert min(counts["valid"], counts["quarantined"], 20 * counts["tombstone"]) > 20 * len(numbers), counts


def differences(
    call: str, topic: Topic, log: Drawn, rows: Sequence[Mapping[str, Any]], right: Sequence[Found]
) -> list[str]:
    found = []
    for record, row, expected in zip(log.records, rows, right, strict=True):
        assert row["value"] == record.value
        unreadable = (row["reason"] or "").startswith("unreadable") and not names_twice(object_of(record.value))
        if (told := as_found(topic, row)) != expected or unreadable:
            sent = f"{record.value!r:.600}, key {record.key!r}, headers {record.headers}"
            found.append(f"{call}, {topic.records!r:.300}\n {sent}\n  landed: {told} ({row['reason']})\n  {expected}")
    return found


def as_found(topic: Topic, row: Mapping[str, Any]) -> Found:
    if row["decision"] != "valid":
        return Found(row["decision"])
    data = row[topic.newest(row["type"]).column]
    return Found("valid", row["event_id"], row["source"], row["type"], row["subject"], row["event_time"], data)


def landed(spark: SparkSession, topic: Topic, log: Drawn, *, fast: bool) -> list[dict[str, Any]]:
    """The rows of landing, in the order of the records. ``fast``: by the decoder that landing tries first."""
    records = [
        {
            "partition": each.partition,
            "offset": each.offset,
            "append_time": int(each.append_time.timestamp() * 1_000_000),
            "key": each.key,
            "value": each.value,
            "headers": each.headers and list(each.headers),
        }
        for each in log.records
    ]
    frame = raw_frame(spark, topic, records)
    decoded = decode_fast(frame, topic) if fast else decode(frame, topic)
    assert decoded is not None
    table = with_reasons(decoded.toArrow(), topic)
    if fast and (again := decode_again(spark, table, topic)) is not None:
        table = replace_doubtful(table, with_reasons(again, topic))
    return sorted(table.to_pylist(), key=lambda row: row["offset"])


def topic_of(mapped: Mapped) -> Topic:
    """The same mapping, declared."""

    def part(of: Part) -> Any:
        return {"field": of[1], "header": Header(of[1]), "key": Record.KEY}[of[0]]

    ids = tuple(part(each) for each in mapped.id)
    match mapped.time:
        case ("unit", path, unit):
            time: Any = TimeField(path, unit=unit)
        case ("format", path, form, zone):
            time = TimeField(path, format=form, zone=zone)
        case ("date-time", path):
            time = path
        case _:
            time = Record.APPEND_TIME
    parts: dict[str, Any] = {
        "id": Record.OFFSET if not ids else ids[0] if len(ids) == 1 else ids,
        "time": time,
        "type": None if mapped.type is None else TypeField(part(mapped.type), dict(mapped.names)),
        "subject": None if mapped.subject is None else part(mapped.subject),
        "source": mapped.source,
    }
    records = PlainJson(**parts) if mapped.avro is None else Avro(schema=json.dumps(mapped.avro), **parts)
    contracts = tuple(Contract(name, 1, dict(schema)) for name, schema in mapped.contracts.items())
    return Topic(
        "things", contracts, records=records, future_bound=mapped.future_bound, earliest_year=mapped.earliest_year
    )
