"""What the system tests share: the whole platform, stopped by its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from anabranch.cli.demo_change import own_project
from anabranch.cli.produce_commands import produce_flights
from anabranch.control import lifecycle
from anabranch.samples.faults import Faults
from anabranch.samples.publishing import Pace
from anabranch.settings import Settings
from processes import eventually
from sending import landed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares the platform comes last, so that it doesn't run beside tests that have servers of their own."""
    items.sort(key=lambda item: "platform" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def platform(own_settings: Callable[[str], Settings]) -> Iterator[Settings]:
    """Everything, shared by the session, over a copy of the project, so that a test can deploy into it. In small
    epochs: an event is late only after an epoch that was further. Three days of departures are too many to be
    reprocessed unasked."""
    few = {"max_offsets_per_trigger": 2_000, "approval_events": 2_300}
    with lifecycle.running(own_project(own_settings("platform").model_copy(update=few))) as settings:
        yield settings


@pytest.fixture(scope="session")
def three_days() -> Callable[[Settings], int]:
    """Sends the flights of three days from 2013-01-01 on (UTC's fourth has some too) to a platform, once, and waits
    until they have landed; the number of their records. Who sends more calls this first."""
    sent: dict[Path, int] = {}

    def send(settings: Settings) -> int:
        if settings.home not in sent:
            faults = Faults(days_late=0.01, duplicates=0.01)
            told = produce_flights(settings, date(2013, 1, 1), 3, Pace(), faults, 7, quiet=True)
            sent[settings.home] = sum(count for (topic, _, _), count in told.records.items() if topic == "flights")
            eventually(lambda: landed(settings) == sent[settings.home], 500)
        return sent[settings.home]

    return send
