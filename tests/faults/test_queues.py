"""Queues of a real RabbitMQ, taken into a real log by the part of `anabranch up`: what it has acknowledged is in the
log, through kills of everything in turn; what it can't take is said."""

from __future__ import annotations

import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import psutil
import pyarrow.compute as pc
import pytest
from anabranch.contracts import load_declarations
from anabranch.core import part_report
from anabranch.core.part_report import Source
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.admin import create_missing, end_offsets
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.stream import start
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table
from anabranch.operate.runtime import lifecycle, process_registry
from anabranch.operate.runtime.lag import lag
from confluent_kafka import Consumer, TopicPartition
from pika.exceptions import AMQPError
from support.processes import eventually, started_part
from support.rabbitmq import RabbitMQ, started
from support.secret_scan import Secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
KILLS = 10
PASSWORD = f"planted-{secrets.token_hex(16)}"
DECLARED = """
from anabranch.contracts import Contract, Header, PlainJson, Queue, Record, Topic

SALE = Contract("sale.made", 1, {{"type": "object", "properties": {{"cents": {{"type": "integer"}}}}}})
BILL = Contract("bill.paid", 1, {{"type": "object", "required": ["cents"], "properties": {{
    "cents": {{"type": "integer"}}}}}})
SALES = Topic("sales_{name}", (SALE,))
BILLS = Topic("bills_{name}", (BILL,), max_message_bytes=20_000,
              records=PlainJson(id=Header("message-id"), time=Record.APPEND_TIME))
FROM_SALES = Queue("shop.sales", "sales_{name}", prefetch=200)
FROM_BILLS = Queue("shop.bills", "bills_{name}", headers=("tenant",))
"""


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[RabbitMQ]:
    with started(tmp_path_factory.mktemp("rabbit"), free_port, "anna", PASSWORD) as running:
        yield running


@pytest.fixture
def settings(broker: Settings, rabbit: RabbitMQ, tmp_path: Path) -> Settings:
    """A project of two topics with a queue for each; the queues exist, and are empty."""
    folder = tmp_path / "spark_jobs" / "contracts"
    folder.mkdir(parents=True)
    (folder / "shop.py").write_text(DECLARED.format(name=secrets.token_hex(4)))
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    kept = broker.model_dump(include={"kafka_port", "jars"})
    settings = load_settings(
        **kept, project=tmp_path, home=tmp_path / "home", bootstrap_servers=broker.brokers, shuffle_partitions=2,
        amqp_url=f"amqp://{rabbit.user}@127.0.0.1:{rabbit.port}", amqp_password_file=password,
        kafka_options={"reconnect.backoff.max.ms": "1000"},  # by itself up to ten seconds
    )  # fmt: skip
    create_missing(settings, list(load_declarations(folder).topics.values()))
    with rabbit.connect() as connection:
        channel = connection.channel()
        for name in ("shop.sales", "shop.bills"):
            channel.queue_delete(name)
            channel.queue_declare(name, durable=True)
    return settings


def topic(settings: Settings, begin: str) -> str:
    return next(name for name in load_declarations(settings.contracts_folder).topics if name.startswith(begin))


def source(settings: Settings, queue: str) -> Source:
    report = part_report.read(settings, "queues")
    return report.sources.get(queue, Source()) if report else Source()


def in_log(settings: Settings, queue: str) -> int:
    return source(settings, queue).counts.get("in the log", 0)


def sale(number: int) -> pika.BasicProperties:
    """An event in binary mode, as CloudEvents' AMQP binding has it; its data are the body."""
    attributes = {"specversion": "1.0", "id": f"e-{number}", "source": "/till", "type": "sale.made"}
    attributes |= {"time": "2026-11-01T10:00:00Z", "subject": f"till-{number % 7}"}
    headers = {f"cloudEvents:{name}": value for name, value in attributes.items()}
    return pika.BasicProperties(headers=headers, content_type="application/json", delivery_mode=2)


class Milliseconds(datetime):
    """A time header as careless clients write it: in milliseconds."""

    def utctimetuple(self) -> Any:
        return 1970, 1, 1, 500_000_000, 0, 0


class Till(threading.Thread):
    """Publishes sales, each again until RabbitMQ has confirmed it: ``confirmed`` of them."""

    def __init__(self, rabbit: RabbitMQ) -> None:
        super().__init__(daemon=True)
        self.rabbit, self.confirmed, self.done = rabbit, 0, threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            with suppress(AMQPError, OSError), self.rabbit.connect() as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                while not self.done.is_set():
                    body = b'{"cents": %d}' % self.confirmed
                    channel.basic_publish("", "shop.sales", body, sale(self.confirmed), mandatory=True)
                    self.confirmed += 1
                    time.sleep(0.002)  # more would take long to land, and is no harder
            time.sleep(0.1)


def part(settings: Settings) -> subprocess.Popen[bytes]:
    return started_part(settings, "anabranch.ingest.queues", "queues.log")


def kill(settings: Settings, name: str) -> None:
    process = process_registry.read(settings)[name].process()
    assert process is not None
    process.kill()


def test_nothing_acknowledged_is_lost_and_nothing_is_doubled_through_kills(
    spark: SparkSession, settings: Settings, broker: Settings, rabbit: RabbitMQ
) -> None:
    def restart_rabbit() -> None:
        rabbit.kill()
        rabbit.start()

    def restart_part() -> None:
        running[-1].kill()
        running[-1].wait()
        running.append(part(settings))

    def goes_on() -> None:
        reached, confirmed = in_log(settings, "shop.sales"), till.confirmed
        eventually(lambda: in_log(settings, "shop.sales") > reached and till.confirmed > confirmed + 50)

    kills: list[Callable[[], Any]] = [
        restart_part,
        restart_rabbit,
        lambda: kill(broker, "kafka"),
        lambda: rabbit.control("close_all_connections", "by a test"),
    ]
    till, name, running = Till(rabbit), topic(settings, "sales"), [part(settings)]
    try:
        till.start()
        for number in range(KILLS):
            goes_on()
            kills[number % len(kills)]()
        goes_on()
        till.done.set()
        till.join(60)
        eventually(lambda: rabbit.waiting("shop.sales") == 0 and sum(end_offsets(settings, name).values()))
        assert "delivered again" in lag(settings)["queues"]
    finally:
        till.done.set()
        running[-1].terminate()
        assert running[-1].wait(60) == 0
    with rabbit.connect() as connection:  # what was taken and not acknowledged would be here again
        assert connection.channel().queue_declare("shop.sales", passive=True).method.message_count == 0
    assert till.confirmed > 50 * KILLS

    declared = load_declarations(settings.contracts_folder).topic(name)
    assert start(spark, settings, declared, once=True).awaitTermination(240)
    assert verify(settings, declared).sound
    table = open_table(landing_table(settings, name))
    assert table is not None
    rows = table.to_pyarrow_table(columns=["decision", "event_id"])
    valid = rows.filter(pc.equal(rows["decision"], "valid"))["event_id"].to_pylist()
    assert len(valid) == len(set(valid)), "landing keeps one of each"
    assert {f"e-{number}" for number in range(till.confirmed)} - set(valid) == set()
    assert set(pc.unique(rows["decision"]).to_pylist()) == {"valid", "duplicate"}, "redelivered ones are duplicates"


def test_what_is_away_is_waited_for_and_seen(settings: Settings, broker: Settings, rabbit: RabbitMQ) -> None:
    """RabbitMQ, a queue, the right password, Kafka: one after the other."""
    assert settings.amqp_password_file is not None
    settings.amqp_password_file.write_text("planted-wrong")
    with lifecycle.running(settings, ["queues"]):

        def says(*words: str) -> None:
            eventually(lambda: all(word in lag(settings).get("queues", "") for word in words), 30)

        says("refuses the login", "shop.sales: waits")
        settings.amqp_password_file.write_text(PASSWORD)
        eventually(lambda: "waits" not in lag(settings)["queues"], 30)
        with rabbit.connect() as connection:
            unreadable = pika.BasicProperties(headers={"at": Milliseconds(2026, 1, 1)})
            connection.channel().basic_publish("", "shop.bills", b"{}", unreadable)
        says("shop.bills: waits: a message can't be decoded")
        with rabbit.connect() as connection:
            connection.channel().queue_delete("shop.bills")
        says("no queue 'shop.bills'")
        with rabbit.connect() as connection:
            connection.channel().queue_declare("shop.bills", durable=True)
        eventually(lambda: "waits" not in lag(settings)["queues"], 30)
        with rabbit.connect() as connection:
            connection.channel().queue_delete("shop.bills")
        says("ended the consumer", "shop.bills: waits")
        says("no queue 'shop.bills'")
        with rabbit.connect() as connection:
            connection.channel().queue_declare("shop.bills", durable=True)
        eventually(lambda: "waits" not in lag(settings)["queues"], 30)
        rabbit.kill()
        says("can't be reached", "shop.sales: waits")
        rabbit.start()
        eventually(lambda: "waits" not in lag(settings)["queues"], 30)

        kafka = psutil.Process(process_registry.read(broker)["kafka"].pid)
        kafka.suspend()
        try:
            with rabbit.connect() as connection:
                for number in range(20):
                    connection.channel().basic_publish("", "shop.sales", b'{"cents": 1}', sale(number))
            eventually(lambda: rabbit.waiting("shop.sales") == 0, 20)  # it has taken them
            says("shop.sales: ", "waits: Kafka doesn't confirm records")
            kill(settings, "queues")
            eventually(lambda: rabbit.waiting("shop.sales") == 20, 20)  # and acknowledged none
        finally:
            kafka.resume()
        eventually(lambda: in_log(settings, "shop.sales") == 20, 60)
        assert Secrets({"anna": PASSWORD}).look_at_processes() == set()
    assert Secrets({"anna": PASSWORD}).in_files([settings.home]) == []


def test_what_is_too_large_is_rejected_and_everything_else_is_a_record(settings: Settings, rabbit: RabbitMQ) -> None:
    name = topic(settings, "bills")
    incompressible = [b'{"cents": 1, "pad": "%s"}' % secrets.token_hex(7_000).encode() for _ in range(20)]
    bodies = [b"\xffno JSON", b"", b"[" * 5_000, secrets.token_bytes(21_000), *incompressible]
    with rabbit.connect() as connection:
        channel = connection.channel()
        for number, body in enumerate(bodies):
            headers = {"tenant": "anna", "other": "x", "x-table": {"a": 1}}
            properties = pika.BasicProperties(message_id=f"m-{number}", headers=headers)
            channel.basic_publish("", "shop.bills", body, properties)
    with lifecycle.running(settings, ["queues"]):
        eventually(lambda: in_log(settings, "shop.bills") == len(bodies) - 1)
        refused = source(settings, "shop.bills").refused
        assert refused == {f"larger than the 19,488 bytes that {name} takes": 1}
        kill(settings, "queues")
        eventually(lambda: source(settings, "shop.bills").refused == refused)  # its loss isn't forgotten
        assert "1 refused (larger than" in lag(settings)["queues"]
        assert rabbit.waiting("shop.bills") == 0
    assert sum(end_offsets(settings, name).values()) == len(bodies) - 1, "one by one where a batch was too large"
    found = read_all(settings, name)
    assert found == {
        (f"m-{number}", (("message-id", f"m-{number}".encode()), ("tenant", b"anna")), body)
        for number, body in enumerate(bodies)
        if number != 3
    }


def read_all(settings: Settings, name: str) -> set[tuple[str, tuple[tuple[str, bytes], ...], bytes]]:
    """Message id, headers and value of each record."""
    ends, found = end_offsets(settings, name), set[tuple[str, tuple[tuple[str, bytes], ...], bytes]]()
    consumer = Consumer({"bootstrap.servers": settings.brokers, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, partition, 0) for partition in ends])
    deadline = time.monotonic() + 60
    while len(found) < sum(ends.values()) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None:
            given: Any = message.headers() or []
            headers = tuple((str(key), bytes(value)) for key, value in given)
            found.add((dict(headers)["message-id"].decode(), headers, bytes(message.value() or b"")))
    consumer.close()
    return found
