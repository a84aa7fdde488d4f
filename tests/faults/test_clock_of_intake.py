"""The clock of each part that takes events in is set by a day, ahead and back (libfaketime): over HTTP, from queues and
as StatsD, nothing that was taken is lost, and the part goes on."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pika
import pytest
import statsd
from anabranch.contracts import load_declarations
from anabranch.core import part_report
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.http import access
from anabranch.ingest.kafka.admin import create_missing, end_offsets
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.stream import start
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table
from anabranch.operate.runtime._http_server import answers
from support.fake_time import Clock
from support.processes import eventually, started_part
from support.rabbitmq import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.sweep, pytest.mark.timeout(900)]
SHIFTS = (0, 1, 0, -1, 0)
"""Days, one after the other: ahead, corrected, behind, corrected."""
EACH = 20
DECLARED = """
from anabranch.contracts import Contract, Queue, Topic
from anabranch.contracts.model.metrics import METRIC

SALE = Contract("sale.made", 1, {{"type": "object", "properties": {{"cents": {{"type": "integer"}}}}}})
SALES = Topic("sales_{name}", (SALE,))
METRICS = Topic("metrics_{name}", (METRIC,))
FROM_SALES = Queue("shop.sales", "sales_{name}")
"""


@pytest.fixture
def settings(broker: Settings, tmp_path: Path, free_port: Callable[[], int]) -> Settings:
    folder, name = tmp_path / "spark_jobs" / "contracts", secrets.token_hex(4)
    folder.mkdir(parents=True)
    (folder / "shop.py").write_text(DECLARED.format(name=name))
    kept = broker.model_dump(include={"kafka_port", "jars"})
    settings = load_settings(
        **kept, project=tmp_path, home=tmp_path / "home", bootstrap_servers=broker.brokers, shuffle_partitions=2,
        http_port=free_port(), statsd_port=free_port(), statsd_topic=f"metrics_{name}",
    )  # fmt: skip
    create_missing(settings, list(load_declarations(folder).topics.values()))
    return settings


def topic_of(settings: Settings, begin: str) -> str:
    return next(name for name in load_declarations(settings.contracts_folder).topics if name.startswith(begin))


@contextmanager
def running(settings: Settings, name: str, clock: Clock) -> Iterator[subprocess.Popen[bytes]]:
    part = started_part(settings, f"anabranch.ingest.{name}", f"{name}.log", clock.environment)
    try:
        yield part
        assert part.poll() is None, "it has ended"
    finally:
        part.terminate()
        part.wait(60)


def each_clock(clock: Clock) -> Iterator[tuple[int, range]]:
    """Days, and the numbers of what is sent then."""
    for number, days in enumerate(SHIFTS):
        clock.set(f"{days:+}d")
        time.sleep(4)  # seen after a second or two, and HTTP's date is made once a second
        yield days, range(number * EACH, (number + 1) * EACH)


def in_log(settings: Settings, topic: str) -> int:
    return sum(end_offsets(settings, topic).values())


def landed_rows(spark: SparkSession, settings: Settings, name: str) -> list[dict[str, Any]]:
    """Of a topic that has landed whole."""
    declared = load_declarations(settings.contracts_folder).topic(name)
    assert start(spark, settings, declared, once=True).awaitTermination(240)
    assert verify(settings, declared).sound
    table = open_table(landing_table(settings, name))
    assert table is not None
    columns = ["decision", "reason", "event_id", "event_time"]
    rows: list[dict[str, Any]] = table.to_pyarrow_table(columns=columns).to_pylist()
    return rows


def sale(number: int, at: str) -> dict[str, Any]:
    return {"specversion": "1.0", "id": f"e-{number}", "source": "/till", "type": "sale.made", "time": at}


def test_http(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    clock, sales = Clock(tmp_path), topic_of(settings, "sales")
    headers = {"authorization": f"Bearer {access.allow(settings, 'till', [sales])}"}
    headers["content-type"] = "application/cloudevents+json"
    at, places = datetime.now(UTC).isoformat(), set[tuple[int, int]]()
    with running(settings, "http", clock), httpx.Client(headers=headers, timeout=20) as client:
        eventually(lambda: answers(settings), 30)
        for days, numbers in each_clock(clock):
            for number in numbers:
                body = json.dumps({**sale(number, at), "data": {"cents": number}})
                answer = client.post(f"http://127.0.0.1:{settings.http_port}/topics/{sales}", content=body)
                assert answer.status_code == 200, answer.text
                (place,) = answer.json()["records"]
                places.add((place["partition"], place["offset"]))
            off = parsedate_to_datetime(answer.headers["date"]) - datetime.now(UTC)
            assert abs(off - timedelta(days=days)) < timedelta(minutes=1), "the clock was not set"
    assert len(places) == in_log(settings, sales) == EACH * len(SHIFTS)
    rows = landed_rows(spark, settings, sales)
    assert sorted(row["event_id"] for row in rows) == sorted(f"e-{n}" for n in range(EACH * len(SHIFTS)))
    assert {row["decision"] for row in rows} == {"valid"}


def test_queues(spark: SparkSession, settings: Settings, tmp_path: Path, free_port: Callable[[], int]) -> None:
    clock, sales, at = Clock(tmp_path), topic_of(settings, "sales"), datetime.now(UTC).isoformat()
    (tmp_path / "rabbit").mkdir()
    with started(tmp_path / "rabbit", free_port, "anna", password := secrets.token_hex(16)) as rabbit:
        (tmp_path / "password").write_text(password)
        own = settings.model_copy(
            update={"amqp_url": f"amqp://anna@127.0.0.1:{rabbit.port}", "amqp_password_file": tmp_path / "password"}
        )
        with rabbit.connect() as connection:
            connection.channel().queue_declare("shop.sales", durable=True)
        with running(own, "queues", clock):
            for _, numbers in each_clock(clock):
                with rabbit.connect() as connection:
                    channel = connection.channel()
                    for number in numbers:
                        attributes = {f"cloudEvents:{key}": value for key, value in sale(number, at).items()}
                        properties = pika.BasicProperties(headers=attributes, content_type="application/json")
                        channel.basic_publish("", "shop.sales", b'{"cents": 1}', properties)
                eventually(lambda: in_log(own, sales) == numbers.stop, 20)  # noqa: B023 - asked here, and no later
                eventually(lambda: rabbit.waiting("shop.sales") == 0, 20)
                eventually(lambda: counted(own, "queues", "shop.sales") == numbers.stop, 20)  # noqa: B023
    rows = landed_rows(spark, own, sales)
    assert sorted(row["event_id"] for row in rows) == sorted(f"e-{n}" for n in range(EACH * len(SHIFTS)))
    assert {row["decision"] for row in rows} == {"valid"}


def counted(settings: Settings, part: str, source: str) -> int:
    """As `status` shows it."""
    report = part_report.read(settings, part)
    return report.sources[source].counts.get("in the log", 0) if report and source in report.sources else 0


def test_statsd(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """Its metrics carry its own time: what it dates ahead waits in quarantine."""
    clock, metrics = Clock(tmp_path), topic_of(settings, "metrics")
    with running(settings, "statsd", clock):
        eventually(lambda: part_report.read(settings, "statsd"), 30)
        for _, numbers in each_clock(clock):
            client = statsd.StatsClient("127.0.0.1", settings.statsd_port)
            with client.pipeline() as pipe:
                for _ in numbers:
                    pipe.incr("clicks")
            client.close()
            eventually(lambda: in_log(settings, metrics) == numbers.stop, 20)  # noqa: B023 - asked here, and no later
    now, rows = datetime.now(UTC), landed_rows(spark, settings, metrics)
    valid = [row for row in rows if row["decision"] == "valid"]
    assert len({row["event_id"] for row in valid}) == len(valid) == EACH * (len(SHIFTS) - 1)
    reasons = [row["reason"].partition(":")[0] for row in rows if row["decision"] == "quarantined"]
    assert reasons == ["absurd_time"] * EACH
    assert sum(row["event_time"] < now - timedelta(hours=12) for row in valid) == EACH, "the clock was not set"
