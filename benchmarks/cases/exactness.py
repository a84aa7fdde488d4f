"""One wrong row among ten million: how long it takes to find it, and to name it with its events."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import date, timedelta
from statistics import median
from typing import TYPE_CHECKING

from anabranch.certify.certify_partitions import certify
from anabranch.certify.differences import differences
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef
from anabranch.views import view
from anabranch.views.model.handle import ViewHandle
from deltalake import CommitProperties, DeltaTable
from pyspark.sql import functions as F

from benchmarks.figures import Figure, Report, Table
from benchmarks.synthetic import land_days
from benchmarks.world import FIRST, World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS = 30
WRONG = DAYS // 2


@view(
    name="every_departure",
    version=1,
    events=["flight.departed"],
    key=["departed_at", "log_partition", "log_offset"],
    partition_by="departed_at",
)
def every_departure(departed: DataFrame) -> DataFrame:
    """A row for each event: as many rows as there can be."""
    return departed.select(
        F.col("event_time").alias("departed_at"), "log_partition", "log_offset", "origin", "dest", "dep_delay"
    )


def run(world: World) -> Report:
    settings, each = world.fresh("exactness"), world.pick(3_000, 300_000, 10_000_000) // DAYS
    land_days(settings, world.topic, DAYS, each)
    days = [FIRST + timedelta(days=n) for n in range(DAYS)]
    with world.spark() as spark:
        catch_up(spark, ViewHandle(settings, every_departure, world.topic))
        offset, seconds = _spoil(settings, days[WRONG], each), []
        for _ in range(world.runs):
            begun = time.perf_counter()
            certificates = certify(spark, ViewHandle(settings, every_departure, world.topic), days)
            certified = time.perf_counter()
            unequal = [c.partition for c in certificates if not c.equal]
            if unequal != [days[WRONG]]:
                raise AssertionError(f"{unequal} are unequal, {days[WRONG]} was spoiled")
            found = differences(spark, ViewHandle(settings, every_departure, world.topic), days[WRONG])
            seconds.append((certified - begun, time.perf_counter() - certified))
            (only,) = found
            if (only.key["log_offset"], [e.offset for e in only.events], only.verified) != (offset, [offset], True):
                raise AssertionError(f"another row was named: {only}")
    return _report(sum(c.speed.rows for c in certificates), seconds)


def _spoil(settings: Settings, day: date, each: int) -> int:
    """One minute is added to one row of the speed half, in a commit that looks like the stream's; its offset."""
    uri, offset = VersionRef(settings, every_departure.name, 1).speed_table, WRONG * each + each // 2
    committed = latest_commit(uri)
    assert committed is not None
    DeltaTable(uri).update(
        updates={"dep_delay": "dep_delay + 1"},
        predicate=f"partition_date = '{day}' AND log_offset = {offset}",
        commit_properties=CommitProperties({"userMetadata": committed.note.to_text()}),
    )
    return offset


def _report(rows: int, seconds: Sequence[tuple[float, float]]) -> Report:
    certified, named = ([run[step] for run in seconds] for step in (0, 1))
    steps = (
        ("certificates of all days", f"{median(certified):.1f} s", f"{min(certified):.1f} to {max(certified):.1f} s"),
        ("the key, the cell, the event", f"{median(named):.1f} s", f"{min(named):.1f} to {max(named):.1f} s"),
    )
    whole = tuple(sum(run) for run in seconds)
    return Report(
        "exactness",
        "One wrong row",
        f"One cell of one row of the speed half is one too large, among {rows:,} rows on {DAYS} days: all days are "
        "certified, and what differs on the day that turns red is named, with the event behind it.",
        (Table("", ("step", "median", "spread"), steps),),
        (
            Figure(
                "exactness.seconds",
                f"found and named among {rows / 1e6:.1f} M rows",
                whole,
                " s",
                1,
                60.0,
                at_least=False,
            ),
        ),
        ("In every run the spoiled day was the only one that turned red, and the right row was named.",),
        {"certificates": [round(s, 3) for s in certified], "named": [round(s, 3) for s in named]},
    )
