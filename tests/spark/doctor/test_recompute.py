"""The doctor computes rows anew: silent where they are right, and each half's wrong row is named."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import upsert
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor import Context, Finding, examine, recompute_checks
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import DECLARED, FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VIEWS = sample_views()
DELAYS = VIEWS.get("departure_delays")
DAYS = [date(2013, 1, 1), date(2013, 1, 2)]


def departed(at: str, delay: int = 20) -> Event:
    time = datetime.fromisoformat(f"2013-01-{at}").replace(tzinfo=UTC)
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": delay, "tailnum": "N1"}
    return Event("flight.departed", time, f"{at}/{delay}", data)


def test_rows_are_computed_anew_and_a_wrong_one_of_each_half_is_named(spark: SparkSession, settings: Settings) -> None:
    """A platform with both halves, a late event in one of them, and an epoch since."""
    ref = VersionRef(settings, DELAYS.name, 1)
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    landing = Landing(settings)
    landing.land([departed("01 05:10")], [departed("02 07:00")], [departed("01 05:20", 7)])
    catch_up(spark, ViewHandle(settings, VIEWS.get("aircraft_now"), FLIGHTS))
    publish(delays, rebuild(spark, delays, DAYS, "one"), DAYS)
    landing.land([departed("02 08:00")])
    catch_up(spark, delays)

    def look(sample: int = 0) -> tuple[Finding, ...]:
        return examine(Context(settings, DECLARED, VIEWS), recompute_checks(spark, sample), pause=0).findings

    assert look() == ()

    uri = ref.speed_table
    table, committed = open_table(uri), latest_commit(uri)
    assert table is not None
    assert committed is not None
    row = next(row for row in table.to_pyarrow_table().to_pylist() if row["partition_date"] == DAYS[1])
    other = pa.Table.from_pylist([{**row, "delayed": row["delayed"] + 1}], pa.schema(table.schema().to_arrow()))
    upsert(table, other, DELAYS.key, committed.note, "partition_date")
    batch = open_table(ref.batch_table)
    assert batch is not None
    batch.update(updates={"delayed": "delayed + 1"}, predicate=f"partition_date = '{DAYS[0]}'")

    found = {finding.where.partition(" (")[0]: finding for finding in look()}
    assert {finding.code for finding in found.values()} == {"ROWS_DIFFER"}
    speed, published = found["departure_delays v1, speed half"], found["departure_delays v1, batch half"]
    assert (str(DAYS[1]) in speed.where, str(DAYS[0]) in published.where) == (True, True)
    assert speed.next_step.startswith("anabranch replay start departure_delays --version 1")
    assert published.next_step.startswith(f"anabranch reprocess departure_delays --version 1 --from {DAYS[0]}")
    assert len(look(1)) <= 2
