"""A live table is certified directly: its own files at one commit, against the function over landing at that cut."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from anabranch.certify.certificates import newest_certificates
from anabranch.certify.verdict import read_verdict
from anabranch.change.certify_plan import make_certify_plan
from anabranch.change.certify_run import Certified, certify_live_table
from anabranch.change.estimates import outcomes
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import PUBLISHED
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import upsert
from anabranch.lake.layout import VersionRef
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELAYS = sample_views().get("departure_delays")
AIRCRAFT = sample_views().get("aircraft_now")
FIRST, SECOND = date(2013, 1, 1), date(2013, 1, 20)


def flown(at: str, tailnum: str, origin: str = "JFK", delay: int = 0) -> Event:
    time = datetime.fromisoformat(f"2013-01-{at}").replace(tzinfo=UTC)
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": delay, "tailnum": tailnum}
    return Event("flight.departed", time, f"{at}{origin}{tailnum}", data)


@pytest.fixture
def landing(settings: Settings) -> Landing:
    """The last epoch's event is late by weeks."""
    found = Landing(settings)
    found.land([flown("01 05:10", "N1"), flown("01 06:10", "N2", "EWR")], [flown("20 05:20", "N1", "LGA")])
    found.land([flown("01 05:15", "N3")])
    return found


def certified(
    spark: SparkSession, settings: Settings, run: str, view: View = AIRCRAFT, days: list[date] | None = None
) -> Certified:
    handle = ViewHandle(settings, view, FLIGHTS)
    plan = make_certify_plan(handle, days)
    return certify_live_table(spark, handle, plan, run)


def alter(settings: Settings, view: View, key: str, **wrong: Any) -> None:
    """Change one row in the table's files, in a commit like the stream's own."""
    uri = VersionRef(settings, view.name, view.version).speed_table
    table, newest = open_table(uri), latest_commit(uri)
    assert table is not None
    assert newest is not None
    (row,) = (each for each in table.to_pyarrow_table().to_pylist() if each[view.key[0]] == key)
    rows = pa.Table.from_pylist([{**row, **wrong}], pa.schema(table.schema().to_arrow()))
    upsert(table, rows, view.key, newest.note, None if view.kappa else "partition_date")


def test_a_right_table_is_equal_at_its_own_cut_while_landing_goes_on(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    ref = VersionRef(settings, AIRCRAFT.name, 1)
    aircraft = ViewHandle(settings, AIRCRAFT, FLIGHTS)
    catch_up(spark, aircraft)
    covered = landing.cut
    landing.land([flown("20 07:00", "N2"), flown("20 08:00", "N4")])

    plan = make_certify_plan(aircraft)
    done = certified(spark, settings, "first")

    assert (plan.cut, plan.days, plan.events, plan.first, plan.last) == (covered, None, 4, FIRST, SECOND)
    assert "4 landed events of 2013-01-01 to 2013-01-20: all since the first epoch" in plan.to_text()
    (stored,) = newest_certificates(ref).values()
    assert done.equal
    assert done.certificates == (stored,)
    assert (stored.partition, stored.equal, stored.speed.rows) == (None, True, 3), "N3 has only a late event"
    assert (stored.cut, stored.run, stored.method) == (covered, "first", "recomputed")
    newest = latest_commit(ref.speed_table)
    assert newest is not None
    assert stored.speed_version == newest.version
    assert f"Certified aircraft_now v1 at {covered}, version {newest.version} of its live table" in done.text
    assert [(o.run, o.partitions, o.events) for o in outcomes(ref)] == [("first", 1, 4)]

    catch_up(spark, aircraft)
    again = certified(spark, settings, "second")
    assert (again.equal, again.verdict.cut) == (True, str(landing.cut)), "the next one is at the next cut"


def test_an_altered_row_is_red_with_its_evidence_until_a_replay(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    aircraft = ViewHandle(settings, AIRCRAFT, FLIGHTS)
    ref = VersionRef(settings, AIRCRAFT.name, 1)
    catch_up(spark, aircraft)
    alter(settings, AIRCRAFT, "N1", last_airport="XXX")

    done = certified(spark, settings, "wrong")

    assert not done.equal
    assert not newest_certificates(ref)[None].equal
    verdict = read_verdict(ref, "wrong")
    assert verdict.whole is not None
    assert "the halves differ at flights@3: 3 rows in speed, 3 expected" in verdict.whole
    shown = [line for line in verdict.report.splitlines() if "XXX" in line]
    assert len(shown) == 1, "only the row that differs"
    assert all(text in shown[0] for text in ("N1", "last_airport", "LGA"))
    assert "flights[0]@2" in verdict.report
    assert "0 of 1 certificate equal" in done.text
    assert "\nREFUSED: the halves differ at flights@3" in done.text
    assert done.next_step == "anabranch replay start aircraft_now --version 1"
    assert done.to_json()["refused"] == {"whole": verdict.whole}

    ended = replay(spark, ReplayRequest(aircraft, "mend", pace=Pace(1.0)))
    assert ended.phase == PUBLISHED
    assert certified(spark, settings, "mended").equal
    assert newest_certificates(ref)[None].run == "mended"


def test_a_view_with_days_is_certified_on_some_of_them(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    alter(settings, DELAYS, "EWR", flights=7)
    plan = make_certify_plan(delays, [SECOND, date(2013, 5, 1)])
    assert (plan.days, plan.events) == ((SECOND,), 1), "nothing is known of a day in May"

    assert certified(spark, settings, "one", DELAYS, [SECOND]).equal
    assert set(newest_certificates(VersionRef(settings, DELAYS.name, 1))) == {SECOND}
    every = certified(spark, settings, "all", DELAYS)

    assert {c.partition: (c.equal, c.late_events) for c in every.certificates} == {FIRST: (False, 1), SECOND: (True, 0)}
    assert set(every.verdict.refused) == {FIRST}
    assert "flights" in every.verdict.report
    assert outcomes(VersionRef(settings, DELAYS.name, 1)) == [], "they would be taken for those of rebuilds"


def test_a_view_whose_stream_has_not_begun_waits(settings: Settings, landing: Landing) -> None:
    with pytest.raises(TryAgain) as early:
        make_certify_plan(ViewHandle(settings, AIRCRAFT, FLIGHTS))
    assert early.value.code == "VIEW_NOT_READY"
