"""A batch and the client of Kafka, a real one without a broker; the rest is in tests/faults/test_queues.py."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from anabranch.contracts import Contract, Queue, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core import part_report
from anabranch.core.part_report import MOST_REASONS, Source
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.batches import Batch, RawRecord
from anabranch.ingest.kafka.producer import open_client
from anabranch.ingest.queues import _connection, _taking
from anabranch.ingest.queues._taking import Taker, _Delivery
from confluent_kafka import KafkaError
from pika.exceptions import InvalidFieldTypeException, StreamLostError
from support.processes import eventually

pytestmark = pytest.mark.unit
TOPIC = Topic("sales", (Contract("sale.made", 1, {"type": "object", "properties": {"cents": {"type": "integer"}}}),))


@pytest.fixture
def client(tmp_path: Path, free_port: Callable[[], int]) -> confluent_kafka.Producer:
    settings = Settings(home=tmp_path, bootstrap_servers=f"127.0.0.1:{free_port()}")
    return open_client(settings, Declarations({"sales": TOPIC}), delivery_seconds=1)


def settled(client: confluent_kafka.Producer, batch: Batch) -> confluent_kafka.KafkaError | None:
    batch.send()
    until = time.monotonic() + 30
    while not batch.answered and time.monotonic() < until:
        client.poll(0.1)
    return batch.settle()


def test_what_the_broker_did_not_confirm_is_sent_again(client: confluent_kafka.Producer) -> None:
    batch = Batch(client, "sales", [RawRecord(None, b"1"), RawRecord(b"k", b"2", [("h", b"3")])])
    for _ in range(2):
        error = settled(client, batch)
        assert error is not None
        assert error.code() == confluent_kafka.KafkaError._MSG_TIMED_OUT
        assert not batch.done
    assert batch.refused == {}


def test_what_is_too_large_for_the_client_is_found_alone(client: confluent_kafka.Producer) -> None:
    batch = Batch(client, "sales", [RawRecord(None, b"x" * 2_000_000)])
    assert settled(client, batch) is None
    assert batch.done
    assert [*batch.refused] == [0]


class Ruled:
    """The client of a broker whose topic takes no record without a key; a set is refused as a whole."""

    def __init__(self, *, named: bool) -> None:
        self.named, self.taken, self.waiting = named, list[bytes](), list[tuple[bytes | None, bytes, Any]]()

    def produce(self, _: str, value: bytes, key: bytes | None, *, headers: Any, on_delivery: Any) -> None:
        self.waiting.append((key, value, on_delivery))

    def poll(self, _: float) -> None:
        given, self.waiting = self.waiting, []
        wrong = any(key is None for key, _, _ in given)
        for key, value, answer in given:
            code = KafkaError.INVALID_RECORD if key is None or not self.named else KafkaError._INVALID_DIFFERENT_RECORD
            answer(KafkaError(code) if wrong else None, None)
            if not wrong:
                self.taken.append(value)


@pytest.mark.parametrize("named", [True, False], ids=["the broker names the record", "it does not"])
def test_what_the_topic_never_takes_is_found_alone_and_holds_up_nothing(named: bool) -> None:
    client: Any = Ruled(named=named)
    batch = Batch(client, "compacted", [RawRecord(b"k", b"1"), RawRecord(None, b"2"), RawRecord(b"k", b"3")])
    for _ in range(5):
        if not batch.done:
            assert settled(client, batch) is None
    assert batch.done
    assert (client.taken, [*batch.refused]) == ([b"1", b"3"], [1])
    assert "against the rules of its topic" in batch.refused[1]


def test_a_record_is_not_refused_for_one_of_another_queue() -> None:
    client: Any = Ruled(named=True)
    batch = Batch(client, "compacted", [RawRecord(b"k", b"1")])
    client.produce("compacted", b"2", None, headers=None, on_delivery=lambda *_: None)
    assert settled(client, batch) is None
    assert (batch.done, batch.refused) == (False, {})
    assert settled(client, batch) is None
    assert (batch.done, client.taken) == (True, [b"1"])


def test_what_the_topic_never_takes_is_rejected_with_the_reason(tmp_path: Path) -> None:
    done, source, client = list[Any](), Source(), Ruled(named=True)
    channel: Any = SimpleNamespace(
        basic_ack=lambda tag, multiple: done.append(("ack", tag)),
        basic_reject=lambda tag, requeue: done.append(("reject", tag, requeue)),
    )
    connection: Any = SimpleNamespace(process_data_events=lambda _: None)
    broker: Any = client
    stop = threading.Event()
    taker = Taker(Settings(home=tmp_path), Queue("shop", "sales"), TOPIC, broker, source, stop)
    threading.Timer(5, stop.set).start()
    given = [_Delivery(1, RawRecord(None, b"1")), _Delivery(2, RawRecord(b"k", b"2"))]
    taker._into_log(connection, channel, given)
    assert (done, client.taken) == ([("reject", 1, False), ("ack", 2)], [b"2"])
    assert (source.counts["in the log"], source.waits_for) == (1, "")
    assert "against the rules of its topic" in next(iter(source.refused))
    stop.set()


@pytest.mark.parametrize(
    "raised",
    [ValueError("year 59000"), RecursionError("too deep"), struct.error("4 bytes"), InvalidFieldTypeException("Z")],
)
def test_a_message_that_can_not_be_decoded_is_said_to_be_one(tmp_path: Path, raised: Exception) -> None:
    settings = Settings(home=tmp_path, amqp_url="amqp://localhost/")
    lost = StreamLostError(f"Stream connection lost: {raised!r}")  # as pika names it
    assert "a message can't be decoded" in _taking.reason_of(settings, Queue("q", "sales"), lost)
    gone = StreamLostError(f"Stream connection lost: {socket.gaierror('x')!r}")
    assert "a message can't be decoded" not in _taking.reason_of(settings, Queue("q", "sales"), gone)


def test_nothing_is_a_batch_that_is_done(client: confluent_kafka.Producer) -> None:
    assert Batch(client, "sales", []).done


def test_counts_go_on_over_restarts_and_reasons_are_bounded(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert part_report.text(settings, "queues") == ""
    now = part_report.sources(settings, "queues", ["q"])
    now["q"].count("in the log", 1_200)
    for number in range(MOST_REASONS + 5):
        now["q"].refuse(f"reason {number}")
    assert now["q"].refused["other reasons"] == 5
    now["q"].waits_for = "RabbitMQ"
    part_report.write(settings, "queues", now)
    assert part_report.text(settings, "queues").startswith("q: 1,200 in the log, 1 refused (reason 0), ")
    assert part_report.text(settings, "queues").endswith("waits: RabbitMQ")
    again = part_report.sources(settings, "queues", ["q", "new"])
    assert (again["q"].waits_for, again["q"].counts) == ("", {"in the log": 1_200})
    assert again["new"] == Source()


def test_a_rabbitmq_that_answers_nothing_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connection, "CONNECT_SECONDS", 0.2)
    source, stop = Source(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = Settings(home=tmp_path, amqp_url=f"amqp://127.0.0.1:{silent.getsockname()[1]}")
        taker = Taker(settings, Queue("shop", "sales"), TOPIC, confluent_kafka.Producer({}), source, stop)
        taker.start()
        try:
            eventually(lambda: "can't be reached" in source.waits_for, 20)
            assert taker.is_alive()
        finally:
            stop.set()
            taker.join(20)
    assert not taker.is_alive()


def test_a_client_that_refuses_everything_at_once_keeps_the_connection_alive(tmp_path: Path) -> None:
    """As librdkafka does while a topic is missing: no answer is waited for, and RabbitMQ still wants its heartbeats."""
    stop, beats, tries = threading.Event(), [], []

    class Refusing:
        def produce(self, *_: object, **__: object) -> None:
            tries.append(1)
            if len(tries) == 10:
                stop.set()
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._UNKNOWN_TOPIC))

        def poll(self, _: float) -> None:
            pass

    class Connection:
        def process_data_events(self, time_limit: float) -> None:
            beats.append(time_limit)
            if len(beats) == 3:
                stop.set()

    client: Any = Refusing()
    connection: Any = Connection()
    taker = Taker(Settings(home=tmp_path), Queue("shop", "sales"), TOPIC, client, Source(), stop)
    taker.looked = 0.0
    assert not taker._deliver(connection, Batch(client, "sales", [RawRecord(None, b"1")]))
    assert len(beats) == 3
    assert taker.looked > 0


class Finished:
    """The client after a fatal error: it refuses everything, for ever."""

    error = confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._FATAL))

    def produce(self, *_: object, **__: object) -> None:
        raise self.error

    def poll(self, _: float) -> None:
        pass


def test_a_client_that_can_not_go_on_ends_the_thread_and_so_the_process(tmp_path: Path) -> None:
    client: Any = Finished()
    connection: Any = type("Connection", (), {"process_data_events": lambda *_: None})()
    stop = threading.Event()
    taker = Taker(Settings(home=tmp_path), Queue("shop", "sales"), TOPIC, client, Source(), stop)
    threading.Timer(5, stop.set).start()
    with pytest.raises(_taking.ClientFailed, match="CLIENT_FAILED"):
        taker._deliver(connection, Batch(client, "sales", [RawRecord(None, b"1")]))
    stop.set()


def test_the_broker_is_given_the_name_that_the_topic_has_there(tmp_path: Path) -> None:
    names: list[str] = []

    class Answering:
        def produce(self, topic: str, *_: object, on_delivery: Callable[[None, None], None], **__: object) -> None:
            names.append(topic)
            on_delivery(None, None)

        def poll(self, _: float) -> None:
            pass

    client: Any = Answering()
    topic = replace(TOPIC, kafka_topic="prod.sales")
    taker = Taker(Settings(home=tmp_path), Queue("shop", "sales"), topic, client, Source(), threading.Event())
    channel: Any = SimpleNamespace(basic_ack=lambda *_, **__: None)
    connection: Any = SimpleNamespace(process_data_events=lambda _: None)
    taker._into_log(connection, channel, [_Delivery(1, RawRecord(None, b"1"))])
    assert names == ["prod.sales"]
