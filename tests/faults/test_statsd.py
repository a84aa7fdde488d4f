"""StatsD with a real broker: what a well-known client sends is in landing, exactly; what isn't is counted."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import statsd
from anabranch.contracts import load_declarations
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.admin import create_missing, end_offsets
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.stream import start
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table
from anabranch.operate.runtime import lifecycle, process_registry
from anabranch.operate.runtime.lag import lag
from support.processes import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
DECLARED = """
from anabranch.contracts import Topic
from anabranch.contracts.model.metrics import METRIC

METRICS = Topic("{name}", (METRIC,))
"""


@pytest.fixture
def settings(broker: Settings, tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Settings]:
    folder, name = tmp_path / "spark_jobs" / "contracts", f"metrics_{os.urandom(4).hex()}"
    folder.mkdir(parents=True)
    (folder / "metrics.py").write_text(DECLARED.format(name=name))
    kept = broker.model_dump(include={"kafka_port", "jars"})
    settings = load_settings(
        **kept, project=tmp_path, home=tmp_path / "home", bootstrap_servers=broker.brokers, shuffle_partitions=2,
        statsd_topic=name, statsd_port=free_port(),
    )  # fmt: skip
    create_missing(settings, list(load_declarations(folder).topics.values()))
    with lifecycle.running(settings, ["statsd"]):
        yield settings


def test_metrics_are_events_exactly(spark: SparkSession, settings: Settings, broker: Settings) -> None:
    def in_log() -> int:
        return sum(end_offsets(settings, settings.statsd_topic).values())

    client = statsd.StatsClient("127.0.0.1", settings.statsd_port, prefix="shop")
    client.incr("sales", 3)
    client.gauge("stock", 17)
    client.gauge("stock", -2, delta=True)
    client.timing("checkout", 320.5)
    with client.pipeline() as pipe:  # several in a packet
        for _ in range(500):
            pipe.incr("clicks")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.sendto(b"a:0.1|c|@0.5|#env:prod\nbad line\nb:x|g", ("127.0.0.1", settings.statsd_port))
    eventually(lambda: in_log() == 505, 20)

    kafka = psutil.Process(process_registry.read(broker)["kafka"].pid)
    kafka.suspend()
    try:
        for _ in range(100):
            client.incr("while.away")
        eventually(lambda: "waits: Kafka doesn't confirm records" in lag(settings)["statsd"], 10)
    finally:
        kafka.resume()
        client.close()
    eventually(lambda: in_log() == 605, 60)
    eventually(lambda: "605 in the log, 1 refused (no value), 1 refused (a value that is no" in lag(settings)["statsd"])

    topic = load_declarations(settings.contracts_folder).topic(settings.statsd_topic)
    assert start(spark, settings, topic, once=True).awaitTermination(240)
    assert verify(settings, topic).sound
    table = open_table(landing_table(settings, topic.name))
    assert table is not None
    rows = table.to_pyarrow_table(columns=["decision", "event_id", "subject", "metric_received"]).to_pylist()
    assert {row["decision"] for row in rows} == {"valid"}
    assert len({row["event_id"] for row in rows}) == 605
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["subject"], []).append(row["metric_received"])
    assert {name: len(each) for name, each in found.items()} == {
        "shop.sales": 1, "shop.stock": 2, "shop.checkout": 1, "shop.clicks": 500, "a": 1, "shop.while.away": 100
    }  # fmt: skip
    assert found["shop.checkout"][0] | {"tags": None} == {
        "name": "shop.checkout", "kind": "timer", "value": Decimal("320.5"), "relative": False,
        "sample_rate": Decimal(1), "tags": None,
    }  # fmt: skip
    assert [(each["value"], each["relative"]) for each in found["shop.stock"]] == [(17, False), (-2, True)]
    (rated,) = found["a"]
    assert (rated["value"], rated["sample_rate"], rated["tags"]) == (Decimal("0.1"), Decimal("0.5"), ["env:prod"])


def test_it_is_ended_and_started_again(settings: Settings) -> None:
    """By the supervisor, after a kill."""
    first = process_registry.read(settings)["statsd"]
    os.kill(first.pid, signal.SIGKILL)

    def runs_again() -> bool:
        now = process_registry.read(settings)["statsd"]
        return now.state == "running" and now.pid != first.pid

    eventually(runs_again)
    client = statsd.StatsClient("127.0.0.1", settings.statsd_port)
    client.incr("again")
    client.close()
    eventually(lambda: sum(end_offsets(settings, settings.statsd_topic).values()) == 1, 20)
