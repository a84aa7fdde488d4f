"""Which days a publication has announced already, asked of Airflow: a repeated task announces none of them again."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from anabranch.apps.airflow import _assets
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit
VIEW = "delays"
FACTS = {"view": VIEW, "version": 1, "cut": "flights@9", "run": "run-1"}
YEAR = [f"{date(2013, 1, 1) + timedelta(n)}" for n in range(365)]
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


class Airflow:
    """The assets' events as Airflow keeps and pages them. ``loses``: after how many posts no answer comes any more."""

    def __init__(self, page: int = 100) -> None:
        self.page, self.events, self.looks = page, list[dict[str, Any]](), 0
        self.loses: int | None = None

    def __enter__(self) -> Airflow:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get(self, path: str) -> Any:
        address = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/assets":
            uri = query["uri_pattern"]
            return {"assets": [{"id": 2 if uri.endswith("by-day") else 1, "uri": uri}]}
        self.looks += 1
        since = datetime.fromisoformat(query["timestamp_gte"]) if "timestamp_gte" in query else BEGAN
        found = [
            each for each in reversed(self.events)
            if each["asset_id"] == int(query["asset_id"]) and each["at"] >= since
        ]  # fmt: skip
        begin, limit = int(query.get("offset", 0)), min(int(query["limit"]), self.page)
        return {"asset_events": found[begin : begin + limit], "total_entries": len(found)}

    def post(self, _: str, body: dict[str, Any]) -> None:
        if self.loses is not None and len(self.events) >= self.loses:
            raise OSError("no answer")
        self.events.append({**body, "at": BEGAN + timedelta(seconds=len(self.events))})

    def days(self, asset: int = 2) -> list[str]:
        return [each["extra"]["partitions"][0] for each in self.events if each["asset_id"] == asset]


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    found = Airflow()
    monkeypatch.setattr(_assets, "_client", lambda _: found)
    monkeypatch.setattr(_assets, "PAUSE_SECONDS", 0)
    return found


@pytest.mark.parametrize("page", [100, 7], ids=["Airflow's own page", "an administrator's smaller one"])
@pytest.mark.parametrize("since", [BEGAN, None])
def test_a_repeat_announces_no_day_of_a_year_again(airflow: Airflow, page: int, since: datetime | None) -> None:
    airflow.page = page
    for _ in range(2):
        _assets.announce(Settings(), VIEW, YEAR, FACTS, since)
    assert airflow.days() == YEAR
    assert len(airflow.events) == len(YEAR) + 1


def test_what_is_missing_of_a_year_is_announced_by_the_repeat(airflow: Airflow) -> None:
    airflow.loses = 1 + 200
    _assets.announce(Settings(), VIEW, YEAR, FACTS, BEGAN)
    airflow.loses = None
    _assets.announce(Settings(), VIEW, YEAR, FACTS, BEGAN)
    assert airflow.days() == YEAR


def test_events_of_before_the_run_are_not_looked_at(airflow: Airflow) -> None:
    for run in range(300):
        _assets.announce(Settings(), VIEW, YEAR[:2], {**FACTS, "run": f"older-{run}"}, BEGAN)
    airflow.looks, later = 0, airflow.events[-1]["at"] + timedelta(seconds=1)
    _assets.announce(Settings(), VIEW, YEAR[:2], FACTS, later)
    assert airflow.looks == 2, "one page of each asset"
