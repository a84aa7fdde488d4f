"""Equal cut, equal definition: equal rows, however the log was disordered and the stream sliced or restarted."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.cut import Cut, Position
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views import View
from anabranch.views.model.definition import CHANGED, WATERMARK
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import events_of, frames, rows_of, watermark_of
from hypothesis import HealthCheck, given
from hypothesis import settings as runs
from hypothesis import strategies as st
from pyspark.sql import functions as F
from support.landed_sample import FLIGHTS, Event, Landing, flight_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.property, pytest.mark.spark, pytest.mark.timeout(900)]

VIEWS = flight_views()
START = datetime(2013, 1, 1, 22, tzinfo=UTC)

minutes = st.integers(-300, 500)
events = st.builds(
    lambda kind, minute, name, flight, origin, delay, tail, partition, broken: Event(
        f"flight.{kind}",
        START + timedelta(minutes=minute),
        f"e{name}",
        {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": flight, "tailnum": tail}
        | ({"dep_delay": delay} if kind == "departed" else {"arr_delay": delay} if kind == "arrived" else {}),
        partition,
        broken,
    ),
    st.sampled_from(["scheduled", "departed", "arrived", "cancelled"]),
    minutes,
    st.integers(0, 60),
    st.integers(1, 3),
    st.sampled_from(["JFK", "LGA"]),
    st.integers(-30, 90),
    st.sampled_from(["N1", "N2", None]),
    st.integers(0, 3),
    st.sampled_from([False] * 9 + [True]),
)
epoch = st.lists(events, max_size=12)
step = st.tuples(
    st.lists(epoch, min_size=1, max_size=3),
    st.sampled_from(["go on", "go on", "repeat the batch", "lose the checkpoint"]),
)


@contextmanager
def home() -> Iterator[Settings]:
    with tempfile.TemporaryDirectory(prefix="anabranch-paths-") as folder:
        yield load_settings(home=Path(folder), shuffle_partitions=1)


def rows(table: Any, view: View) -> list[dict[str, Any]]:
    kept = [{k: v for k, v in row.items() if k != CHANGED} for row in table.to_pylist()]
    return sorted(kept, key=lambda row: [str(row[k]) for k in view.key])


def stored(uri: str, view: View) -> list[dict[str, Any]]:
    table = open_table(uri)
    assert table is not None
    return rows(table.to_pyarrow_table(), view)


def function(
    spark: SparkSession, settings: Settings, view: View, cut: Cut, *, late: bool, seen: datetime | None = None
) -> list[dict[str, Any]]:
    """``seen``: how far the time of the topic was for whoever made the rows; behind ``cut`` when left out."""
    landed = spark.read.format("delta").load(landing_table(settings, "flights"))
    events = events_of(landed.where(f"epoch <= {cut.epoch('flights')}"), view, late=late)
    if view.closes:
        moment = seen or watermark_of(ViewHandle(settings, view, FLIGHTS), cut)
        events = events.withColumn(WATERMARK, F.lit(moment).cast("timestamp"))
    return rows(rows_of(view, frames(events, view, FLIGHTS)).toArrow(), view)


def disturb(settings: Settings, view: View, how: str) -> None:
    """What a kill between two commits leaves, and what a lost disk leaves."""
    checkpoint = VersionRef(settings, view.name, view.version).speed_checkpoint
    if how == "lose the checkpoint":
        shutil.rmtree(checkpoint)
    if how == "repeat the batch":
        newest_batch = max(int(f.name) for f in (checkpoint / "commits").iterdir() if f.name.isdecimal())
        (checkpoint / "commits" / str(newest_batch)).unlink()
        (checkpoint / "commits" / f".{newest_batch}.crc").unlink()


@runs(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, min_size=1, max_size=3), which=st.integers(0, len(VIEWS) - 1))
def test_the_speed_table_is_the_function_of_the_on_time_events(
    spark: SparkSession, steps: list[tuple[list[list[Event]], str]], which: int
) -> None:
    view = VIEWS[which]
    with home() as settings:
        landing = Landing(settings)
        for epochs, disturbance in steps:
            landing.land(*epochs)
            catch_up(spark, ViewHandle(settings, view, FLIGHTS))
            disturb(settings, view, disturbance)
        catch_up(spark, ViewHandle(settings, view, FLIGHTS))

        uri = VersionRef(settings, view.name, view.version).speed_table
        committed = latest_commit(uri)
        assert committed is not None
        assert committed.note.cut == landing.cut
        ms = committed.note.extra.get("watermark_ms") if view.closed_only else None
        seen = datetime.fromtimestamp(ms / 1000, UTC) if ms else None
        assert stored(uri, view) == function(spark, settings, view, landing.cut, late=False, seen=seen)


@runs(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(epochs=st.lists(epoch, min_size=1, max_size=5), data=st.data())
def test_the_batch_table_is_the_function_of_all_events(
    spark: SparkSession, epochs: list[list[Event]], data: st.DataObject
) -> None:
    view = data.draw(st.sampled_from([v for v in VIEWS if not v.kappa]))
    cut = data.draw(st.integers(1, len(epochs)))
    with home() as settings:
        Landing(settings).land(*epochs)
        expected = function(spark, settings, view, Cut({"flights": Position(cut, {})}), late=True)
        days = [(START + timedelta(days=n)).date() for n in (-1, 0, 1)]
        build = rebuild(spark, ViewHandle(settings, view, FLIGHTS), days, "run-1", epochs={"flights": cut})
        if expected:
            publish(ViewHandle(settings, view, FLIGHTS), build, days)
            assert stored(VersionRef(settings, view.name, view.version).batch_table, view) == expected
        else:
            assert build.files == ()
