"""A routes table that can't be read concerns the stream of its own view only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from anabranch.compute.speed.service import RETRY_SECONDS, Slot, Speed
from anabranch.core.errors import BrokenState
from anabranch.views import View
from support.landed_sample import FLIGHTS, sample_views

pytestmark = pytest.mark.unit
BROKEN, OTHER = sample_views().get("departure_delays"), sample_views().get("route_day")


def launched(view: View, topics: object) -> Any:
    return MagicMock(isActive=True, view=view)


def unreadable(view: View) -> bool:
    if view.name == BROKEN.name:
        raise BrokenState("TABLE_UNREADABLE", "routes of departure_delays can't be read")
    return False


def running(speed: Speed) -> list[bool]:
    return [slot.query is not None for slot in speed.slots]


@pytest.mark.parametrize("retired", [True, False])
def test_a_view_whose_routes_become_unreadable_stays_as_it_was(retired: bool, caplog: pytest.LogCaptureFixture) -> None:
    speed = Speed([Slot(BROKEN, FLIGHTS), Slot(OTHER, FLIGHTS)], launched, 10**9)
    speed.retire(lambda view: retired and view.name == BROKEN.name)
    speed.poll()
    for _ in range(2):
        speed.retire(unreadable)
        speed.poll()
    assert running(speed) == [not retired, True]
    assert len([line for line in caplog.messages if "can't be read" in line]) == 1, "said once"
    speed.retire(lambda _: False)
    speed.poll()
    assert running(speed) == [True, True]


def test_a_view_whose_routes_were_never_read_waits_alone() -> None:
    """It may be retired."""
    now = 0.0
    speed = Speed([Slot(BROKEN, FLIGHTS), Slot(replace(OTHER), FLIGHTS)], launched, 10**9, lambda: now)
    speed.retire(unreadable)
    speed.poll()
    assert running(speed) == [False, True]
    assert speed.slots[0].failed
    assert not speed.all_failed
    now = RETRY_SECONDS
    speed.retire(lambda _: False)
    speed.poll()
    assert running(speed) == [True, True]
