"""History that is loaded behind live events: told of in each place, and gone from there once its days are published."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import anabranch
import pytest
from anabranch.apps.cli.main import app
from anabranch.apps.web._dirty_job import _answer
from anabranch.certify.reconciliation import reconcile
from anabranch.change.publish_run import publish_run
from anabranch.change.reprocess_plan import Plan, make_plan
from anabranch.change.reprocess_request import parse_reprocess_request
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.operate.doctor import Context, examine
from anabranch.operate.runtime.late_status import late_missing
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import DECLARED, FLIGHTS, Event, Landing, sample_views
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
VIEWS = sample_views()
DELAYS = VIEWS.get("departure_delays")
OLD, OLDER, LIVE = date(2013, 1, 2), date(2013, 1, 1), date(2013, 1, 20)


def departed(day: date, hour: int) -> Event:
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 20, "tailnum": "N1"}
    return Event("flight.departed", datetime(day.year, day.month, day.day, hour, tzinfo=UTC), f"{day}/{hour}", data)


@pytest.fixture
def settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ANABRANCH_HOME", str(settings.home))
    return settings


def plan_of_missing(settings: Settings) -> Plan:
    return make_plan(
        ViewHandle(settings, DELAYS, FLIGHTS), parse_reprocess_request({"missing": True}, ["flights"], date.min)
    )


def told(settings: Settings) -> dict[str, Any]:
    """How many late events are in no half, by whom one may ask."""
    platform = Context(settings, DECLARED, VIEWS)
    dirty = CliRunner().invoke(app, ["views", "dirty", DELAYS.name, "--json"])
    reading = anabranch.read(DELAYS.name, settings=settings)
    page = json.loads(_answer(settings, VIEWS, DELAYS.name, 1))
    return {
        "reading": reading.late_missing,
        "status": late_missing(settings, DELAYS.name, 1),
        "views dirty": [(day["partition"], day["at"], day["late"]) for day in json.loads(dirty.stdout)],
        "page": (page["late_missing"], page["never"]),
        "doctor": [found.code for found in examine(platform, pause=0).findings if found.code == "LATE_NOWHERE"],
        "plan": [(f"{day}", plan_of_missing(settings).late[day]) for day in plan_of_missing(settings).partitions],
        "flights": sum(row["flights"] for row in reading.to_arrow().to_pylist()),
    }


def test_history_that_lands_late_shows_up_everywhere_until_its_days_are_published(
    spark: SparkSession, settings: Settings
) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    landing = Landing(settings)
    landing.land([departed(LIVE, 8), departed(LIVE, 9)], [departed(OLD, 5), departed(OLD, 6), departed(OLDER, 5)])
    VIEWS.register(spark, settings, [DELAYS])
    catch_up(spark, delays)
    assert told(settings) == {
        "reading": 3,
        "status": "3",
        "views dirty": [(f"{OLDER}", None, 1), (f"{OLD}", None, 2)],
        "page": (3, [[f"{OLDER}", 1], [f"{OLD}", 2]]),
        "doctor": ["LATE_NOWHERE"],
        "plan": [(f"{OLDER}", 1), (f"{OLD}", 2), (f"{LIVE}", 0)],
        "flights": 2,
    }

    plan = plan_of_missing(settings)
    build = rebuild(spark, delays, plan.partitions, "missing")
    reconcile(spark, delays, "missing", build)
    outcome = publish_run(settings, {**plan.to_json(), "run": "missing"})
    assert (len(outcome["published"]), outcome["refused"]) == (3, {})
    nothing = {"reading": 0, "status": "0", "views dirty": [], "page": (0, []), "doctor": [], "plan": []}
    assert told(settings) == {**nothing, "flights": 5}

    landing.land([departed(OLD, 7)], [departed(LIVE, 10)])
    catch_up(spark, delays)
    assert told(settings) == {
        **nothing,
        "reading": 1,
        "status": "1",
        "views dirty": [(f"{OLD}", "flights@2", 1), (f"{LIVE}", "flights@2", 0)],
        "page": (1, []),
        "plan": [(f"{OLD}", 3)],
        "flights": 6,
    }, "what is late for a published day is the next repair's, and asked for by --missing, too"
