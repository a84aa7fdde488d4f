"""The receiver with real packets and Kafka's real client, without a broker; with one: tests/faults/test_statsd.py."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.model.metrics import METRIC
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.part_report import Source
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.batches import RawRecord
from anabranch.ingest.statsd import _receiver
from anabranch.ingest.statsd.__main__ import check_topic
from anabranch.ingest.statsd._receiver import Receiver, kernel_drops
from anabranch.operate.runtime._services import catalog, parts_named
from support.processes import eventually

pytestmark = pytest.mark.unit
METRICS = Topic("metrics", (METRIC,))
TABLE = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  301: 0100007F:46CD 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 17
  302: 0100007F:46CE 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 5
"""


class Noted(confluent_kafka.Producer):
    """The client, and what it was given."""

    given: list[bytes]

    def produce(self, topic: str, value: bytes, *args: Any, **more: Any) -> None:  # type: ignore[override]
        self.given.append(value)
        super().produce(topic, value, *args, **more)


@pytest.fixture
def settings(tmp_path: Path, free_port: Callable[[], int]) -> Settings:
    return Settings(home=tmp_path, project=tmp_path, statsd_topic="metrics", statsd_port=free_port())


@contextmanager
def receiving(settings: Settings, free_port: Callable[[], int]) -> Iterator[tuple[list[bytes], Source]]:
    """What is given to the client, which delivers nothing; and what is counted."""
    client = Noted({"bootstrap.servers": f"127.0.0.1:{free_port()}", "message.timeout.ms": 300, "log_level": 0})
    client.given, source, stop = [], Source(), threading.Event()
    running = Receiver(settings, client, source, lambda: None)
    thread = threading.Thread(target=running.run, args=(stop,))
    thread.start()
    try:
        yield client.given, source
    finally:
        stop.set()
        thread.join()


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_receiver, "LAST_SECONDS", 0.1)


def send(settings: Settings, *packets: bytes) -> bool:
    """Returns True: it is sent until it is heard, because nobody says when the socket is open."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for packet in packets:
            client.sendto(packet, ("127.0.0.1", settings.statsd_port))
    return True


def test_what_the_broker_does_not_confirm_is_sent_again_as_the_same_event(
    settings: Settings, free_port: Callable[[], int]
) -> None:
    with receiving(settings, free_port) as (given, source):
        eventually(lambda: send(settings, b"a:1|c\nb:2|g") and given)
        eventually(lambda: len(given) > 5)
        assert "Kafka doesn't take records" in source.waits_for
    times = Counter(json.loads(value)["id"] for value in given)
    assert max(times.values()) > 1
    assert len({json.loads(value)["id"] for value in set(given)}) == len(set(given)), "an id is one event's"
    assert source.refused["the part ended before the broker had them"] == len(times)


def test_samples_that_cannot_wait_are_counted(
    settings: Settings, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_receiver, "MOST_WAITING", 3)
    with receiving(settings, free_port) as (given, source):
        eventually(lambda: send(settings, b"\n".join([b"a:1|c"] * 10)) and given)
        eventually(lambda: source.refused.get("too many waited for the broker", 0) >= 7)


def test_only_senders_of_named_networks_are_heard(settings: Settings, free_port: Callable[[], int]) -> None:
    named = load_settings(**settings.model_dump() | {"statsd_networks": ["10.0.0.0/8"]})
    with receiving(named, free_port) as (given, source):
        eventually(lambda: send(named, b"a:1|c") and source.refused)
        assert given == []
    assert [*source.refused] == ["a sender that ANABRANCH_STATSD_NETWORKS doesn't name"]
    with pytest.raises(BadInput, match="anyone who reaches it"):
        load_settings(statsd_host="0.0.0.0")  # noqa: S104 - it is refused


def test_a_port_that_is_taken_is_named(settings: Settings, free_port: Callable[[], int]) -> None:
    client = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", settings.statsd_port))
        with pytest.raises(TryAgain, match="STATSD_ADDRESS") as refused:
            Receiver(settings, client, Source(), lambda: None).run(threading.Event())
    assert f"127.0.0.1:{settings.statsd_port}: Address already in use" in str(refused.value)


def test_it_is_a_part_where_a_topic_is_named_that_carries_metrics(settings: Settings, tmp_path: Path) -> None:
    assert [part.name for part in parts_named(settings, ["statsd"])] == ["kafka", "statsd"]
    without = settings.model_copy(update={"statsd_topic": ""})
    assert "statsd" not in {part.name for part in catalog(without)}
    with pytest.raises(BadInput, match="NO_METRICS"):
        parts_named(without, ["statsd"])
    check_topic(settings, Declarations({"metrics": METRICS}))
    other = Topic(
        "metrics", (Contract("sale.made", 1, {"type": "object", "properties": {"cents": {"type": "integer"}}}),)
    )
    for topics in ({}, {"metrics": other}):
        with pytest.raises(BadInput, match="STATSD_TOPIC"):
            check_topic(settings, Declarations(topics))


def test_what_the_kernel_dropped_is_known_by_the_port(tmp_path: Path) -> None:
    (tmp_path / "udp").write_text(TABLE)
    assert kernel_drops(0x46CD, tmp_path / "udp") == 17
    assert kernel_drops(1, tmp_path / "udp") == kernel_drops(1, tmp_path / "none") == 0


class Refusing(confluent_kafka.Producer):
    """A client that has never heard of the topic, or has no room."""

    error: Exception

    def produce(self, *_: Any, **__: Any) -> None:
        raise self.error


def test_what_waits_is_bounded_by_its_bytes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_receiver, "MOST_BYTES", 1_000)
    client, source = Refusing({}), Source()
    client.error = BufferError()
    receiver = Receiver(settings, client, source, lambda: None)
    for _ in range(2):  # what waits is counted once, however often it is sent again
        for _ in range(30):
            receiver._send(RawRecord(b"a", b"x" * 100))
        receiver._send_again = 0.0
        receiver._deliver()
    assert (len(receiver._failed), receiver._bytes) == (10, 1_000)
    assert source.refused == {"too many waited for the broker": 50}


def test_a_topic_that_is_missing_for_a_while_loses_nothing(settings: Settings) -> None:
    client, source = Refusing({}), Source()
    client.error = confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._UNKNOWN_TOPIC))
    receiver = Receiver(settings, client, source, lambda: None)
    for _ in range(3):
        receiver._send(RawRecord(b"a", b"1"))
        receiver._send_again = 0.0
        receiver._deliver()
    assert len(receiver._failed) == 3
    assert "Kafka doesn't take records" in source.waits_for
    assert source.refused == {}


def test_a_client_that_can_not_go_on_ends_the_process(settings: Settings) -> None:
    client, source, stop = Refusing({}), Source(), threading.Event()
    client.error = confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._FATAL))
    receiver = Receiver(settings, client, source, lambda: None)
    receiver._send(RawRecord(b"a", b"1"))
    threading.Timer(5, stop.set).start()
    with pytest.raises(TryAgain, match="CLIENT_FAILED"):
        receiver.run(stop)
    assert not stop.is_set()
    assert source.refused == {"the part ended before the broker had them": 1}
    stop.set()


def test_the_broker_is_given_the_name_that_the_topic_has_there(settings: Settings) -> None:
    names: list[str] = []
    client: Any = SimpleNamespace(produce=lambda topic, *_, **__: names.append(topic))
    Receiver(settings, client, Source(), lambda: None, "prod.metrics")._send(RawRecord(None, b"{}"))
    Receiver(settings, client, Source(), lambda: None)._send(RawRecord(None, b"{}"))
    assert names == ["prod.metrics", "metrics"]
    topic = Topic("metrics", (METRIC,), kafka_topic="prod.metrics")
    assert check_topic(settings, Declarations({"metrics": topic})).in_kafka == "prod.metrics"
