"""CloudEvents as other producers make them: their own types and schemas, without a time, in both modes. Records are
made by the CloudEvents SDK where it can make them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import CloudEvents, Contract, Record, Topic
from anabranch.contracts.sending import RecordCheck
from anabranch.core.engine.spark import LIVE
from anabranch.ingest.landing.decoding import decode, raw_frame, with_reasons
from anabranch.operate.doctor._typed_columns import _at
from cloudevents.core.bindings.kafka import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from support.things_topic import APPENDED, unexpected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Sent = tuple[Sequence[tuple[str, bytes | None]], bytes | None]


def contract(name: str, version: int, *fields: str) -> Contract:
    properties = {field: {"type": "integer"} for field in ("n", *fields)}
    return Contract(name, version, {"type": "object", "required": ["n"], "properties": properties})


PLACED, PLACED_2 = contract("order.placed", 1), contract("order.placed", 2, "cents")
GONE = contract("order.cancelled", 1)
OTHERS = CloudEvents(
    types={"com.example.OrderPlaced": "order.placed", "order-cancelled": "order.cancelled"},
    schemas={"https://example.com/order/1": 1, "https://example.com/order/2": 2},
    time=Record.APPEND_TIME,
)
TOPIC = Topic("orders", (PLACED, PLACED_2, GONE), records=OTHERS)
ANY = replace(TOPIC, records=replace(OTHERS, schemas="any"))
STRICT = replace(TOPIC, records=CloudEvents())


def sent(mode: str, data: Any = None, **changed: Any) -> Sent:
    """``None``: without the attribute."""
    made = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "com.example.OrderPlaced", "time": APPENDED}
    given = {**made, "datacontenttype": "application/json", **changed}
    event = CloudEvent({name: v for name, v in given.items() if v is not None}, {"n": 1} if data is None else data)
    message = (to_binary if mode == "binary" else to_structured)(event, JSONFormat())
    headers, value = list(message.headers.items()), message.value
    if given["time"] is None:  # the SDK then writes the time of now
        headers = [(name, text) for name, text in headers if name != "ce_time"]
        content = json.loads(value or b"")
        value = json.dumps({name: text for name, text in content.items() if name != "time"}).encode()
    return headers, value


def decided(
    spark: SparkSession, topic: Topic, records: Mapping[str, Sent], partition: int = 0
) -> dict[str, dict[str, Any]]:
    rows = [
        {
            "partition": partition, "offset": n, "append_time": int(APPENDED.timestamp() * 1_000_000), "key": b"k",
            "value": value, "headers": headers,
        }
        for n, (headers, value) in enumerate(records.values())
    ]  # fmt: skip
    found = with_reasons(decode(raw_frame(spark, topic, rows), topic).toArrow(), topic).to_pylist()
    names = list(records)
    return {names[row["offset"]]: row for row in found}


@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_events_of_others_are_read_by_what_the_topic_says(
    spark: SparkSession, mode: str, settings: Mapping[str, str]
) -> None:
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **settings}.items():
        own.conf.set(key, value)
    records = {
        "theirs": sent(mode),
        "ours": sent(mode, type="order.placed", dataschema=PLACED.uri),
        "another type of theirs": sent(mode, type="order-cancelled"),
        "version 1": sent(mode, {"n": 1, "cents": "not of version 1"}, dataschema="https://example.com/order/1"),
        "version 2": sent(mode, {"n": 1, "cents": 5}, dataschema="https://example.com/order/2"),
        "no time": sent(mode, time=None),
        "no time, and sent later": sent(mode, time=None, senttime="2019-12-31T12:00:00Z"),
        "no time, and received hours before its record": sent(mode, time=None, receivedtime="2020-01-01T08:00:00Z"),
        "unknown type": sent(mode, type="com.example.OrderLost"),
        "unknown schema": sent(mode, dataschema="https://example.com/order/3"),
        "a version that the type lacks": sent(mode, type="order-cancelled", dataschema="https://example.com/order/2"),
        "no time, and received in the future": sent(mode, time=None, receivedtime="2020-01-01T14:00:00Z"),
        "what breaks version 2": sent(mode, {"n": 1, "cents": "x"}, dataschema="https://example.com/order/2"),
    }
    ce = "header ce_" if mode == "binary" else ""
    headers, body = sent(mode)
    when = APPENDED.isoformat().replace("+00:00", "Z").encode()
    assert any(when in (text or b"") for _, text in headers) or when in (body or b"")
    records["a time that is none"] = (
        [(name, b"yesterday" if name == "ce_time" else text) for name, text in headers],
        (body or b"").replace(when, b"yesterday"),
    )
    rows = decided(own, TOPIC, records)
    assert (
        unexpected(
            rows,
            {
                **dict.fromkeys(list(records)[:8]),
                "unknown type": "unknown_type: com.example.OrderLost",
                "unknown schema": "unknown_contract: https://example.com/order/3",
                "a version that the type lacks": "unknown_contract: https://example.com/order/2",
                "no time, and received in the future": "absurd_time: over 1:00:00 ahead",
                "what breaks version 2": "contract: data.cents is no integer",
                "a time that is none": f"envelope: {ce}time is missing or unreadable",
            },
        )
        == {}
    )
    assert {name: (row["type"], row["contract_version"]) for name, row in rows.items() if row["reason"] is None} == {
        "theirs": ("order.placed", 2), "ours": ("order.placed", 1), "another type of theirs": ("order.cancelled", 1),
        "version 1": ("order.placed", 1), "version 2": ("order.placed", 2), "no time": ("order.placed", 2),
        "no time, and sent later": ("order.placed", 2),
        "no time, and received hours before its record": ("order.placed", 2),
    }  # fmt: skip
    assert rows["version 2"]["order_placed"] == {"n": 1, "cents": 5}
    assert rows["no time"]["event_time"] == rows["no time, and sent later"]["event_time"] == APPENDED
    assert rows["unknown type"]["type"] == "com.example.OrderLost"

    strict = decided(own, STRICT, {name: records[name] for name in ("theirs", "ours")})
    assert unexpected(strict, {"theirs": "unknown_type: com.example.OrderPlaced", "ours": None}) == {}


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_any_schema_of_others_may_mean_the_newest_version(spark: SparkSession, mode: str) -> None:
    rows = decided(
        spark,
        ANY,
        {
            "theirs": sent(mode, dataschema="https://example.com/whatever"),
            "ours": sent(mode, type="order.placed", dataschema=PLACED.uri),
            "none": sent(mode),
            "ours, and not known yet": sent(mode, dataschema="urn:anabranch:contract:order.placed:9"),
        },
    )
    reasons = dict.fromkeys(["theirs", "ours", "none"]) | {"ours, and not known yet": "unknown_contract: urn:"}
    assert unexpected(rows, reasons) == {}
    assert [row["contract_version"] for row in rows.values()] == [2, 1, 2, None]


@pytest.mark.parametrize("schema", [b"12", b"true", b'{"of":"ours"}', b'["https://example.com/1"]'])
def test_a_schema_that_is_no_text_names_no_version(spark: SparkSession, schema: bytes) -> None:
    headers, value = sent("structured", dataschema="https://example.com/1")
    assert value is not None
    record = headers, value.replace(b'"https://example.com/1"', schema)
    for topic in (ANY, TOPIC):
        assert unexpected(decided(spark, topic, {"odd": record}), {"odd": "unknown_contract: "}) == {}
    assert RecordCheck(ANY).problem(record[1], json.loads(record[1]), headers)


def test_data_in_base64_is_named(spark: SparkSession) -> None:
    headers, _ = sent("structured")
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "order.placed", "time": "2020-01-01T12:00:00Z"}
    rows = decided(
        spark,
        TOPIC,
        {
            "base64": (headers, json.dumps({**event, "data_base64": "eyJuIjoxfQ=="}).encode()),
            "both": (headers, json.dumps({**event, "data": {"n": 1}, "data_base64": "eyJuIjoxfQ=="}).encode()),
        },
    )
    assert unexpected(rows, {"base64": "envelope: data_base64 isn't read", "both": None}) == {}


def test_a_row_of_a_file_has_no_timestamp_of_its_own(spark: SparkSession) -> None:
    rows = decided(spark, TOPIC, {"no time": ([], sent("structured", time=None)[1])}, partition=-1)
    assert unexpected(rows, {"no time": "envelope: time is missing"}) == {}


def test_the_doctor_reads_each_version_by_its_own_part_of_the_mapping() -> None:
    at = _at(TOPIC, "order.placed", 0)
    assert at.contracts == (PLACED,)
    assert at.records == CloudEvents(
        {"com.example.OrderPlaced": "order.placed"}, {"https://example.com/order/1": 1}, Record.APPEND_TIME
    )


URIS = [None, PLACED.uri, PLACED_2.uri, GONE.uri, "https://example.com/order/1", "https://example.com/order/2", "x", ""]
TYPES = ["order.placed", "order.cancelled", "com.example.OrderPlaced", "order-cancelled", "OrderPlaced"]
TIMES = [None, "2020-01-01T11:00:00Z", "2020-01-01T15:00:00Z", "", "1999-12-31T00:00:00Z", "noon"]
LATER = [None, "2020-01-01T11:30:00Z", "soon"]
NAMED = {"com.example.OrderPlaced": "order.placed", "order-cancelled": "order.cancelled"}
VERSIONS = {
    "order.placed": {
        PLACED.uri: 1,
        PLACED_2.uri: 2,
        "https://example.com/order/1": 1,
        "https://example.com/order/2": 2,
    },
    "order.cancelled": {GONE.uri: 1, "https://example.com/order/1": 1},
}


def naive(event: Mapping[str, Any], *, anything: bool, mapped: bool) -> tuple[str, int, datetime] | None:
    """Type, version and event time by the words of the documentation; None for an event in quarantine."""
    kind = NAMED.get(event["type"], event["type"]) if mapped else event["type"]
    if kind not in VERSIONS:
        return None
    newest, uri = max(VERSIONS[kind].values()), event.get("dataschema")
    known = VERSIONS[kind] if mapped else {u: n for u, n in VERSIONS[kind].items() if u.startswith("urn:")}
    known = {u: n for u, n in known.items() if u.startswith("urn:")} if anything else known
    foreign = anything and uri is not None and not uri.startswith("urn:anabranch:")
    version = newest if uri is None or foreign else known.get(uri)
    said = {name: event.get(name) for name in ("time", "senttime")}
    try:
        read = {name: datetime.fromisoformat(text) if text is not None else None for name, text in said.items()}
    except ValueError:
        return None
    time, sent_at = read["time"], read["senttime"]
    if version is None or (time is None and not mapped):
        return None
    at = APPENDED if time is None else time if sent_at is None else time + (APPENDED - sent_at)
    return (kind, version, at) if at.year >= 2000 and at - APPENDED <= timedelta(hours=1) else None


@pytest.mark.parametrize("topic", [TOPIC, ANY, STRICT], ids=["mapped", "any", "strict"])
def test_landing_decides_as_a_naive_reader(spark: SparkSession, topic: Topic) -> None:
    chance = Random(7)
    drawn = [*product(URIS, TYPES, TIMES, LATER)]
    events, records = [], {}
    for number, (uri, kind, time, later) in enumerate(drawn):
        event = {"specversion": "1.0", "id": f"e-{number}", "source": "/s", "type": kind}
        more = {"dataschema": uri, "time": time, "senttime": later}
        event |= {name: text for name, text in more.items() if text is not None}
        events.append(event)
        if chance.random() < 0.5:
            records[str(number)] = ([(f"ce_{name}", text.encode()) for name, text in event.items()], b'{"n": 1}')
        else:
            records[str(number)] = ([], json.dumps({**event, "data": {"n": 1}}).encode())
    rows, check, wrong = decided(spark, topic, records), RecordCheck(topic), []
    for number, event in enumerate(events):
        row = rows[str(number)]
        landed = (row["type"], row["contract_version"], row["event_time"]) if row["reason"] is None else None
        right = naive(event, anything=topic is ANY, mapped=topic is not STRICT)
        if landed != right:
            wrong.append(f"{event}\n  landed: {landed} ({row['reason']})\n  right:  {right}")
        content = {**event, "data": {"n": 1}}
        named = {**content, "dataschema": event.get("dataschema", _newest_uri(topic, event["type"]))}
        refused = check.problem(json.dumps(named).encode(), named)
        if refused is None and row["reason"] is not None and not row["reason"].startswith("absurd_time"):
            wrong.append(f"{event}\n  passed the check, and is in quarantine: {row['reason']}")
        if refused is not None and row["reason"] is None:
            wrong.append(f"{event}\n  is refused by the check ({refused}), and landed")
        assert row["reason"] is None or not row["reason"].startswith("unreadable"), "each has a reason of its own"
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:5])
    assert sum(row["reason"] is None for row in rows.values()) >= 10


def _newest_uri(topic: Topic, sent_type: str) -> str:
    """What the HTTP server adds."""
    assert isinstance(topic.records, CloudEvents)
    kind = topic.records.types.get(sent_type, sent_type)
    return topic.newest(kind).uri if kind in topic.event_types else "none"
