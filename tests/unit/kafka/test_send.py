"""``anabranch.send`` refuses what can't be sent before a broker is asked, and says how what may be sent is repeated."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import Contract, Event, PlainJson, Record, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka import producer, send
from anabranch.ingest.kafka.send import send_all
from confluent_kafka import KafkaError

pytestmark = pytest.mark.unit
MADE = Contract("thing.made", 1, {"type": "object", "properties": {"n": {"type": "integer"}}})
EVENTS = Topic("events", (MADE,))
PLAIN = Topic("plain", (MADE,), records=PlainJson(id=Record.KEY, time=Record.APPEND_TIME))
KEYLESS = Topic("keyless", (MADE,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME))
TOPICS = (EVENTS, PLAIN, KEYLESS)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


class Sent(Exception):
    """A broker would be asked now."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    def asked(*_: object) -> None:
        raise Sent

    monkeypatch.setattr(send, "load_declarations", lambda _: Declarations({t.name: t for t in TOPICS}))
    monkeypatch.setattr(send, "Producer", asked)
    return load_settings(home=tmp_path)


def deep() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(100_000):
        found = {"n": found}
    return found


VALUES: dict[str, Any] = {
    "a time": {"zz": NOON},
    "NaN in a field that no contract names": {"zz": math.nan},
    "infinity": {"zz": [math.inf]},
    "half of a surrogate pair": {"zz": "\ud800"},
    "half of a pair in a name": {"\ud800": 1},
    "a value that is nested too deeply": {"zz": deep()},
    "no object": [1],
    "nothing": None,
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "a time without a zone": ("events", {"time": NOON.replace(tzinfo=None)}),
    "a text as a time": ("events", {"time": "2024-01-01T12:00:00Z"}),
    "a subject of half a pair": ("events", {"subject": "\ud800"}),
    "an id of half a pair": ("events", {"id": "\ud800"}),
    "a key of half a pair": ("plain", {"key": "\ud800"}),
    "a subject that is no text": ("events", {"subject": 5}),
    "an id that is no text": ("events", {"id": 5}),
    "a type that is no text": ("events", {"type": ["thing.made"]}),
    "a header of half a pair": ("plain", {"key": "k", "headers": {"a": "\ud800"}}),
    "a header of bytes": ("plain", {"key": "k", "headers": {"a": b"x"}}),
}


@pytest.mark.parametrize("topic", ["events", "plain"])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_record_that_json_can_not_hold_is_refused(settings: Settings, topic: str, value: Any) -> None:
    given = {"key": "k"} if topic == "plain" else {}
    with pytest.raises(BadInput) as caught:
        send_all(topic, [{"n": 1}, value], settings=settings, **given)
    assert caught.value.code == "EVENT_REFUSED"


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_what_is_given_with_a_record_is_refused_like_it(settings: Settings, case: tuple[str, dict[str, Any]]) -> None:
    topic, given = case
    with pytest.raises(BadInput) as caught:
        send_all(topic, [{"n": 1}], settings=settings, **given)
    assert caught.value.code == "EVENT_REFUSED"


@pytest.mark.parametrize(
    ("topic", "given"), [("events", {"time": NOON}), ("plain", {"key": "k", "headers": {"a": ""}})]
)
def test_what_is_right_reaches_the_broker(settings: Settings, topic: str, given: dict[str, Any]) -> None:
    with pytest.raises(Sent):
        send_all(topic, [{"n": 1, "zz": 1.5}], settings=settings, **given)


def test_an_event_without_a_subject_is_refused(settings: Settings) -> None:
    nobody: Any = None
    with pytest.raises(BadInput, match="is no text") as caught:
        send_all("events", [Event("a", "/s", "thing.made", nobody, NOON, {}, MADE.uri)], settings=settings)
    assert caught.value.fields["field"] == "subject"


@pytest.mark.parametrize(
    ("topic", "given", "named"), [("events", {}, "thing.made"), ("keyless", {"headers": {"a": "b"}}, "'1'")]
)
def test_a_record_that_is_too_large_is_named_before_one_is_sent(
    settings: Settings, topic: str, given: dict[str, Any], named: str
) -> None:
    with pytest.raises(BadInput) as caught:
        send_all(topic, [{"n": 1}, {"n": 1, "zz": "x" * 2_000_000}], settings=settings, **given)
    assert (caught.value.code, "bytes are more than the topic's" in caught.value.what) == ("EVENT_REFUSED", True)
    assert named in caught.value.what
    assert caught.value.fields["event_id"]


class Losing:
    """The client of a broker that has the records, while its answers are lost."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.waiting: list[Any] = []

    def produce(self, _: str, *, value: bytes, on_delivery: Any, **__: object) -> None:
        self.values.append(value)
        self.waiting.append(on_delivery)

    def poll(self, _: float) -> int:
        return 0

    def flush(self, _: float) -> int:
        for answer in self.waiting:
            answer(KafkaError(KafkaError._MSG_TIMED_OUT), None)
        self.waiting.clear()
        return 0


@pytest.fixture
def losing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Losing:
    client = Losing()
    monkeypatch.setattr(send, "Producer", producer.Producer)
    monkeypatch.setattr(producer, "open_client", lambda *_: client)
    monkeypatch.setattr(producer, "existing_topics", lambda _: {topic.name: 1 for topic in TOPICS})
    return client


def lost(settings: Settings, topic: str, records: list[Any], **given: Any) -> TryAgain:
    with pytest.raises(TryAgain) as caught:
        send_all(topic, records, settings=settings, **given)
    assert caught.value.code == "DELIVERY_FAILED"
    return caught.value


def test_who_repeats_what_may_be_in_the_log_needs_the_ids_that_were_made(settings: Settings, losing: Losing) -> None:
    error = lost(settings, "events", [{"n": 1}])
    (first,) = [json.loads(value) for value in losing.values]
    assert (error.fields["ids"], error.fields["source"]) == ([first["id"]], first["source"])
    assert f"id={first['id']!r}, source={first['source']!r}" in error.next_step
    lost(settings, "events", [{"n": 1}], id=first["id"], source=first["source"])
    assert {json.loads(value)["id"] for value in losing.values} == {first["id"]}
    error = lost(settings, "events", [{"n": 1}, {"n": 2}, Event("a", "/s", "thing.made", "k", NOON, {}, MADE.uri)])
    assert error.fields["ids"] == [json.loads(value)["id"] for value in losing.values[2:4]]
    assert (error.fields["count"], "as Event objects" in error.next_step) == (3, True)


@pytest.mark.parametrize(
    ("topic", "given", "advice"),
    [("events", {"id": "a"}, "send all again"), ("plain", {"key": "k"}, "send all again"),
     ("keyless", {}, "records of keyless have no id")],
)  # fmt: skip
def test_records_without_an_id_of_theirs_are_never_to_be_sent_again_unseen(
    settings: Settings, losing: Losing, topic: str, given: dict[str, Any], advice: str
) -> None:
    error = lost(settings, topic, [{"n": 1}], **given)
    assert advice in error.next_step
    assert "ids" not in error.fields
