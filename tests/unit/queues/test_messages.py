"""What of a message becomes what of a record; and what may be declared as a queue."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pika.data
import pytest
from anabranch.contracts import Contract, Header, PlainJson, Queue, Record, Topic, load_declarations
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.batches import RawRecord
from anabranch.ingest.queues._connection import connect, password, port
from anabranch.ingest.queues._messages import Messages, text_of
from anabranch.operate.runtime._services import catalog, parts_named
from pika.spec import Basic, BasicProperties

pytestmark = pytest.mark.unit
SALE = Contract("sale.made", 1, {"type": "object", "properties": {"shop": {"type": "string"}}})
EVENTS = Topic("sales", (SALE,))
PLAIN = Topic("sales", (SALE,), records=PlainJson(id=Header("message-id"), time=Record.APPEND_TIME, subject="shop"))
DELIVERY = Basic.Deliver("consumer", 1, redelivered=False, exchange="shops", routing_key="rome")


def record(topic: Topic, body: bytes, queue: Queue | None = None, **properties: Any) -> RawRecord:
    return Messages(queue or Queue("q", "sales"), topic).record(DELIVERY, BasicProperties(**properties), body)


def test_an_event_in_binary_mode_keeps_its_attributes_and_its_data() -> None:
    at = datetime(2026, 11, 1, 10, tzinfo=UTC)
    headers = {"cloudEvents:id": "e-1", "cloudEvents:time": at, "cloudEvents_subject": "till-4", "x-other": "left out"}
    found = record(EVENTS, b'{"shop": "Rome"}', headers=headers, content_type="application/json")
    assert (found.key, found.value) == (b"till-4", b'{"shop": "Rome"}')
    assert dict(found.headers or ()) == {
        "ce_id": b"e-1", "ce_time": b"2026-11-01T10:00:00Z", "ce_subject": b"till-4",
        "content-type": b"application/json",
    }  # fmt: skip


def test_an_event_in_structured_mode_is_its_body() -> None:
    found = record(EVENTS, b'{"id": "e-1", "subject": "till-4"}', content_type="application/cloudevents+json")
    assert found == RawRecord(b"till-4", b'{"id": "e-1", "subject": "till-4"}', [
        ("content-type", b"application/cloudevents+json")
    ])  # fmt: skip


def test_what_the_mapping_and_the_queue_name_is_handed_on() -> None:
    queue = Queue("q", "sales", headers=("routing-key", "tenant", "none"), key="tenant")
    found = record(PLAIN, b'{"shop": "Rome"}', queue, message_id="m-1", headers={"tenant": "anna", "other": "x"})
    assert found == (b"anna", b'{"shop": "Rome"}', [
        ("message-id", b"m-1"), ("routing-key", b"rome"), ("tenant", b"anna")
    ])  # fmt: skip
    assert record(PLAIN, b'{"shop": "Rome"}', message_id="m-1").key == b"Rome", "its subject"
    named = record(PLAIN, b"{}", message_id="m-1", headers={"message-id": "of the headers"})
    assert named.headers == [("message-id", b"of the headers")]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[1]", b"[" * 100_000, b'{"shop": 1e999}', b'{"shop": {}}'])
@pytest.mark.parametrize("topic", [EVENTS, PLAIN])
def test_what_is_no_event_is_a_record_all_the_same(topic: Topic, body: bytes) -> None:
    assert record(topic, body)[:2] == (None, body)


def test_headers_of_any_kind_are_no_error() -> None:
    headers = {b"\xff": "x", "cloudEvents:id": {"a": 1}, "cloudEvents:": "", "": "", "x": float("nan")}
    assert record(EVENTS, b"{}", headers=headers).headers == [("ce_", b"")]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.25, b"1.25"), (12.0, b"12"), (float("inf"), b"inf"),
     ("é", "é".encode()), (b"\xff", b"\xff"), (True, b"true"), (12, b"12"), (Decimal("1.50"), b"1.50"),
     (datetime(2026, 11, 1, 10), b"2026-11-01T10:00:00Z"), ({"a": 1}, None), ([1], None), (None, None)],  # noqa: DTZ001
)  # fmt: skip
def test_the_text_of_a_header(value: Any, text: bytes | None) -> None:
    assert text_of(value) == text


def test_numbers_of_headers_keep_their_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """pika makes integers of them: messages with the ids 1.25 and 1.75 were one event."""
    monkeypatch.setattr(pika, "BlockingConnection", lambda _: None)
    monkeypatch.setattr(pika.data, "decode_value", pika.data.decode_value)
    connect(Settings(amqp_url="amqp://localhost"), "test")
    inside = b"F" + table(b"\x02of" + b"f" + struct.pack(">f", 0.5))
    encoded = table(
        b"\x02id" + b"d" + struct.pack(">d", 1.25)
        + b"\x05count" + b"u" + struct.pack(">H", 7)
        + b"\x04none" + b"d" + struct.pack(">d", float("inf"))
        + b"\x06within" + b"A" + struct.pack(">I", len(inside)) + inside
        + b"\x04text" + b"S" + struct.pack(">I", 1) + b"x"
    )  # fmt: skip
    found = {"id": 1.25, "count": 7, "none": float("inf"), "within": [{"of": 0.5}], "text": "x"}
    assert pika.data.decode_table(encoded, 0) == (found, len(encoded))


def table(fields: bytes) -> bytes:
    return struct.pack(">I", len(fields)) + fields


def test_a_port_that_no_machine_has_is_a_wrong_setting() -> None:
    settings = Settings(amqp_url="amqp://localhost:70000/")
    for call in (port, lambda settings: connect(settings, "test")):
        with pytest.raises(BadInput, match="SETTINGS_REFUSED"):
            call(settings)


DECLARED = """
from anabranch.contracts import Contract, PlainJson, Queue, Record, Topic

SALE = Contract("sale.made", 1, {"type": "object", "properties": {"shop": {"type": "string"}}})
SALES = Topic("sales", (SALE,), records=PlainJson(id=Record.KEY, time=Record.APPEND_TIME))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "spark_jobs" / "contracts"
    folder.mkdir(parents=True)
    return folder


def declare(folder: Path, *queues: str) -> None:
    text = DECLARED + "".join(f"QUEUE_{number} = {queue}\n" for number, queue in enumerate(queues))
    (folder / "shop.py").write_text(text)


@pytest.mark.parametrize(
    ("queues", "problem"),
    [(["Queue('', 'sales')"], "1 to 255"), (["Queue('q', 'sales', prefetch=0)"], "prefetch"),
     (["Queue('q', 'other')"], "declared topics: sales"), (["Queue('q', 'sales')"], 'key="message-id"'),
     (["Queue('q', 'sales', key='a')"] * 2, "declared twice"), (["Queue('q', 'sales', headers=('',))"], "a name")],
)  # fmt: skip
def test_a_wrong_queue_is_refused_where_it_is_declared(folder: Path, queues: list[str], problem: str) -> None:
    declare(folder, *queues)
    with pytest.raises(BadDefinition) as refused:
        load_declarations(folder, reload=True)
    assert refused.value.code == "QUEUE"
    assert problem in str(refused.value)


def test_it_is_a_part_where_a_queue_is_declared_and_rabbitmq_is_named(folder: Path, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", project=tmp_path)
    named = settings.model_copy(update={"amqp_url": "amqp://localhost"})
    declare(folder)
    load_declarations(folder, reload=True)
    assert "queues" not in {part.name for part in catalog(named)}
    with pytest.raises(BadInput, match="NO_QUEUES"):
        parts_named(named, ["queues"])
    declare(folder, "Queue('q', 'sales', key='message-id')")
    load_declarations(folder, reload=True)
    assert [part.name for part in parts_named(named, ["queues"])] == ["kafka", "queues"]
    assert "queues" not in {part.name for part in catalog(settings)}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"amqp_url": "amqp://anna:planted@rabbit/shop"}, "it holds a password"),
        ({"amqp_url": "amqp://anna@127.0.0.1"}, "a user needs a password"),
        ({"amqp_url": "amqp://127.0.0.1", "amqp_password": "planted"}, "a password a user"),
        ({"amqp_url": "amqp://anna@rabbit", "amqp_password": "planted"}, "use amqps://"),
        ({"amqp_url": "amqps://anna@rabbit", "amqp_password": "planted", "amqp_password_file": "f"}, "given twice"),
    ],
)
def test_an_address_that_would_show_or_send_a_password_is_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(BadInput, match="SETTINGS_REFUSED") as refused:
        load_settings(**given)
    assert problem in str(refused.value)
    assert "planted" not in str(refused.value)


def test_the_password_of_a_file_is_read_again_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    settings = load_settings(home=tmp_path, amqp_url="amqps://anna@rabbit", amqp_password_file=file)
    with pytest.raises(BadInput, match="can't be read"):
        password(settings)
    for text in ("one", "other\n"):
        file.write_text(text)
        assert password(settings) == text.strip()


def test_a_queue_is_a_value() -> None:
    assert replace(Queue("q", "sales"), prefetch=7) == Queue("q", "sales", 7)
