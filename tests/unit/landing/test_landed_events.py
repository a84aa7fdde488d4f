"""Events of topics: at most one in five minutes, also across restarts, and only for what has landed since."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from anabranch.core.settings import Settings
from anabranch.operate.jobs._landed_events import EVERY_SECONDS, LOOK_SECONDS, POSTED, AirflowAssets, LandedEvents
from support.small_platform import Clinic, departed

pytestmark = pytest.mark.unit


class Airflow:
    """What is posted, and when it is asked."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.now, self.waits = settings, 1_000_000.0, True
        self.posted = list[tuple[str, int]]()

    def waited_for(self) -> dict[str, int]:
        return {"flights": 7} if self.waits else {}

    def post(self, asset: int, topic: str, epoch: int) -> None:
        assert asset == 7
        self.posted.append((topic, epoch))

    def restarted(self) -> LandedEvents:
        return LandedEvents(self.settings, self, lambda: self.now)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(Settings(home=tmp_path / "home"))


def test_at_most_one_in_five_minutes_whatever_lands(clinic: Clinic) -> None:
    airflow = Airflow(clinic.settings)
    events = airflow.restarted()
    events.look()
    assert airflow.posted == [], "nothing has landed"
    clinic.land([departed(1)])
    events.look()
    clinic.land([departed(2)])
    clinic.land([departed(3)])
    for seconds in (1, EVERY_SECONDS / 2):
        airflow.now += seconds
        airflow.restarted().look()
    assert airflow.posted == [("flights", 1)]
    airflow.now += EVERY_SECONDS
    events.look()
    airflow.now += EVERY_SECONDS
    events.look()
    assert airflow.posted == [("flights", 1), ("flights", 3)], "nothing has landed since"


def test_a_topic_that_nobody_waits_for_is_told_of_as_soon_as_somebody_does(clinic: Clinic) -> None:
    airflow = Airflow(clinic.settings)
    airflow.waits = False
    clinic.land([departed(1)])
    airflow.restarted().look()
    airflow.waits = True
    airflow.restarted().look()
    assert airflow.posted == [("flights", 1)]


def test_a_clock_that_was_set_back_silences_nobody(clinic: Clinic) -> None:
    airflow = Airflow(clinic.settings)
    clinic.land([departed(1)])
    airflow.restarted().look()
    clinic.land([departed(2)])
    airflow.now -= 86_400
    airflow.restarted().look()
    assert airflow.posted == [("flights", 1), ("flights", 2)]


def test_a_file_that_cannot_be_written_tells_nobody_twice(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DAG was started every half minute."""
    airflow = Airflow(clinic.settings)
    events = airflow.restarted()

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(type(POSTED), "write", full)
        for n in range(4):
            clinic.land([departed(n)])
            with contextlib.suppress(OSError):
                events.look()
            airflow.now += LOOK_SECONDS
        assert airflow.posted == [("flights", 1)]
    airflow.now += EVERY_SECONDS
    events.look()
    airflow.restarted().look()
    assert airflow.posted == [("flights", 1), ("flights", 4)]


def test_without_an_airflow_nobody_waits(tmp_path: Path) -> None:
    assert AirflowAssets(Settings(home=tmp_path)).waited_for() == {}
