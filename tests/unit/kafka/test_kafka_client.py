"""What happens without a broker, and which of the client's settings can be changed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer, lines, look
from anabranch.ingest.kafka.admin import begin_offsets, create_missing, drift, end_offsets
from anabranch.ingest.kafka.client import client_config
from anabranch.ingest.kafka.producer import open_client, receipt_of

pytestmark = pytest.mark.unit


class Sent:
    """What the client's library gives of a record."""

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def timestamp(self) -> tuple[int, int]:
        return 1, self._milliseconds

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: None


@pytest.mark.parametrize(
    ("milliseconds", "right"),
    [
        (1_704_067_200_001, datetime(2024, 1, 1, 0, 0, 0, 1_000, UTC)),
        (1_704_067_200_001_000, datetime.max.replace(tzinfo=UTC)),
        (-(2**62), datetime.min.replace(tzinfo=UTC)),
    ],
    ids=["a time", "microseconds for milliseconds", "before the year 1"],
)
def test_a_record_with_any_time_can_be_looked_at_and_has_a_receipt(milliseconds: int, right: datetime) -> None:
    message: Any = Sent(milliseconds)
    assert look._record(message).append_time == receipt_of(message).append_time == right


class Place:
    """A delivered record, as the client's library tells of it: without an offset if the broker had it already, which it
    says to an idempotent producer that sends the record again."""

    def __init__(self, offset: int | None, partition: int = 2) -> None:
        self._offset, self._partition = offset, partition

    def offset(self) -> int | None:
        return self._offset

    def partition(self) -> int:
        return self._partition

    def topic(self) -> str:
        return "flights"

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


def test_a_receipt_names_no_offset_that_the_broker_has_not_named() -> None:
    found: list[Any] = [receipt_of(Place(offset)) for offset in (None, 0, 7)]  # type: ignore[arg-type]
    assert [receipt.offset for receipt in found] == [None, 0, 7]
    assert {receipt.partition for receipt in found} == {2}


def test_a_count_of_lines_names_the_last_offset_that_is_known() -> None:
    sent = lines.Sent()
    for place in (Place(None, 1), Place(7), Place(None), Place(None, 0), Place(0, 0)):
        sent(None, place)  # type: ignore[arg-type]
    assert (sent.count, sent.ends) == (5, {2: 7, 0: 0})


@pytest.fixture
def nobody(tmp_path: Path) -> Settings:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Settings(home=tmp_path, kafka_port=probe.getsockname()[1])


CALLS: list[Callable[[Settings], object]] = [
    lambda s: end_offsets(s, "flights"),
    lambda s: Producer(s, Declarations()).__enter__(),
]


@pytest.mark.parametrize("call", CALLS, ids=["offsets", "producer"])
def test_a_broker_that_is_not_there_is_an_error_with_a_next_step_within_seconds(
    nobody: Settings, call: Callable[[Settings], object], capfd: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    with pytest.raises(TryAgain) as caught:
        call(nobody)
    assert time.monotonic() - began < 7
    assert caught.value.code == "BROKER_UNREACHABLE"
    assert caught.value.fields["brokers"] == nobody.brokers
    assert "anabranch up" in caught.value.next_step
    assert capfd.readouterr().err == ""


def test_another_cluster_gets_another_next_step() -> None:
    settings = Settings(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(TryAgain) as caught:
        begin_offsets(settings, "flights")
    assert "ANABRANCH_BOOTSTRAP_SERVERS" in caught.value.next_step


@pytest.mark.parametrize("options", [{"no.such.setting": "1"}, {"socket.timeout.ms": "soon"}])
def test_options_that_the_client_does_not_know_are_named(nobody: Settings, options: dict[str, str]) -> None:
    settings = nobody.model_copy(update={"kafka_options": options})
    for call in (lambda: drift(settings, ()), lambda: create_missing(settings, ())):
        with pytest.raises(AnabranchError) as caught:
            call()
        assert isinstance(caught.value, BadInput)
        assert caught.value.code == "KAFKA_OPTIONS"
        assert next(iter(options)) in str(caught.value)


def test_the_users_options_win_over_defaults_and_never_over_the_promise() -> None:
    settings = Settings(kafka_options={"linger.ms": "1", "acks": "0"})
    config = client_config(settings, {"linger.ms": 20}, {"acks": "all"})
    assert (config["linger.ms"], config["acks"]) == ("1", "all")


def test_a_producer_that_is_not_open_says_so(nobody: Settings) -> None:
    with pytest.raises(BadInput) as caught:
        Producer(nobody, Declarations()).send_raw("flights", b"k", b"v", lambda error, message: None)
    assert caught.value.code == "PRODUCER_CLOSED"


MADE = Contract("thing.made", 1, {"type": "object", "properties": {"n": {"type": "integer"}}})


def test_records_that_fit_alone_are_never_refused_for_the_others_of_their_set(
    nobody: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker holds a set of records to the topic's limit; librdkafka adds to a set while it stays below this."""
    given: list[dict[str, object]] = []
    monkeypatch.setattr(confluent_kafka, "Producer", given.append)
    topics = {name: Topic(name, (MADE,), max_message_bytes=limit) for name, limit in (("a", 20_000), ("b", 3_000_000))}
    open_client(nobody.model_copy(update={"kafka_options": {"batch.size": 500_000}}), Declarations(topics))
    open_client(nobody, Declarations())
    assert [(each["batch.size"], each["message.max.bytes"]) for each in given] == [
        (20_000, 3_000_000),
        (1_000_000, 1_000_000),
    ]
