"""``anabranch.send`` refuses what JSON or UTF-8 can't hold, before a broker is asked."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka import send
from anabranch.ingest.kafka.send import send_all

pytestmark = pytest.mark.unit
MADE = Contract("thing.made", 1, {"type": "object", "properties": {"n": {"type": "integer"}}})
EVENTS = Topic("events", (MADE,))
PLAIN = Topic("plain", (MADE,), records=PlainJson(id=Record.KEY, time=Record.APPEND_TIME))
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


class Sent(Exception):
    """A broker would be asked now."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    def producer(*_: object) -> None:
        raise Sent

    monkeypatch.setattr(send, "load_declarations", lambda _: Declarations({t.name: t for t in (EVENTS, PLAIN)}))
    monkeypatch.setattr(send, "Producer", producer)
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
