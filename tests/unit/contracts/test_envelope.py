"""The bytes of an event."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from anabranch.contracts import Event

pytestmark = pytest.mark.unit

AT = datetime(2013, 1, 1, 10, 15, tzinfo=UTC)


def test_an_event_is_a_cloud_event_and_leaves_out_what_it_does_not_have() -> None:
    event = Event("1", "/s", "a.b", "k", AT, {"n": "é"}, "urn:x")
    assert json.loads(event.to_json()) == {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "a.b",
        "subject": "k",
        "time": "2013-01-01T10:15:00Z",
        "dataschema": "urn:x",
        "datacontenttype": "application/json",
        "data": {"n": "é"},
    }


def test_times_keep_their_zone_and_microseconds() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    event = Event("1", "/s", "a.b", "k", AT, {}, "urn:x", AT.astimezone(zone), AT.replace(microsecond=7))
    body = json.loads(event.to_json())
    assert body["senttime"] == "2013-01-01T15:45:00+05:30"
    assert body["receivedtime"] == "2013-01-01T10:15:00.000007Z"


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        Event("1", "/s", "a.b", "k", AT.replace(tzinfo=None), {}, "urn:x").to_json()
