"""The topics of a landing process: what keeps one from starting doesn't end the others."""

from __future__ import annotations

from typing import Any

import pytest
from anabranch.contracts import Topic
from anabranch.core.errors import BrokenState, Conflict
from anabranch.ingest.landing.service import LandingStreams
from support.landed_sample import DECLARED, FLIGHTS

pytestmark = pytest.mark.unit
WEATHER = DECLARED.topic("weather")


class Running:
    """A query that runs, and has landed."""

    failure, has_landed = None, True


def streams(errors: dict[str, BaseException | None]) -> LandingStreams:
    def launch(topic: Topic) -> Any:
        if (error := errors.get(topic.name)) is not None:
            raise error
        return Running()

    return LandingStreams([FLIGHTS, WEATHER], launch, clock=lambda: clock[0])


clock = [0.0]


@pytest.mark.parametrize("error", [ValueError("no JSON in control/schemas/flights"), PermissionError(13, "index")])
def test_any_error_of_one_topics_start_halts_this_topic_alone_and_it_is_tried_again(error: Exception) -> None:
    errors: dict[str, BaseException | None] = {FLIGHTS.name: error}
    landing = streams(errors)
    landing.poll()
    assert set(landing.queries) == {WEATHER.name}
    halted = landing.halted[FLIGHTS.name]
    assert isinstance(halted, BrokenState)
    assert halted.code == "START_FAILED"
    assert str(error) in halted.what
    errors[FLIGHTS.name] = None
    clock[0] += 60
    landing.poll()
    landing.poll()
    assert set(landing.queries) == {FLIGHTS.name, WEATHER.name}
    assert not landing.halted


def test_the_process_ends_if_no_topic_can_be_started_or_another_one_lands() -> None:
    with pytest.raises(BrokenState):
        streams({FLIGHTS.name: ValueError("x"), WEATHER.name: OSError("y")}).poll()
    with pytest.raises(Conflict):
        streams({FLIGHTS.name: Conflict("FENCED", "x")}).poll()
    with pytest.raises(KeyboardInterrupt):
        streams({FLIGHTS.name: KeyboardInterrupt()}).poll()
