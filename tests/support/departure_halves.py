"""A small view over landed departures, and its halves made by hand, so that one thing can be broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from anabranch import lake
from anabranch.certify.comparison_inputs import function_rows
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.contracts import load_declarations
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import VALID, landing_schema
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views import View
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import events_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = load_declarations(project_root() / "spark_jobs" / "contracts").topic("flights")


def _delays(departed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    counted = departed.groupBy(F.window("event_time", "1 hour").alias("w"), "origin").agg(
        F.count(F.lit(1)).alias("flights"), F.sum("dep_delay").alias("delay_minutes")
    )
    return counted.select(
        F.col("w.start").alias("window_start"),
        F.col("w.end").alias("window_end"),
        "origin",
        "flights",
        "delay_minutes",
    )


def _newest(departed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return departed.groupBy("tailnum").agg(F.max("event_time").alias("since"), F.count(F.lit(1)).alias("flights"))


DELAYS = View(
    "delays", 1, ("flight.departed",), ("origin", "window_start"), _delays, "window_start", fingerprint="delays-1"
)
NEWEST = View("newest", 1, ("flight.departed",), ("tailnum",), _newest, fingerprint="newest-1")


@dataclass(frozen=True, slots=True)
class Departure:
    at: str
    origin: str
    delay: int = 0
    late: bool = False
    tailnum: str | None = "N1"

    @property
    def time(self) -> datetime:
        return datetime.fromisoformat(f"2013-01-{self.at}").replace(tzinfo=UTC)


def cut_at(epoch: int) -> Cut:
    return Cut({TOPIC.name: Position(epoch, {0: epoch * 1000})})


def land(settings: Settings, epochs: Sequence[Sequence[Departure]]) -> Cut:
    """Land each list as the next epoch; the offsets of partition 0 count up over all of them, from 0."""
    uri = landing_table(settings, TOPIC.name)
    schema = landing_schema(TOPIC)
    table = commits.create(uri, schema, ["event_date"], CommitMetadata("landing/flights", "0", Cut()))
    committed = lake.latest_commit(table)
    epoch, offset = (committed.note.cut.epoch(TOPIC.name), table.count()) if committed else (0, 0)
    for departures in epochs:
        epoch += 1
        rows = [_landed(departure, offset + i, epoch) for i, departure in enumerate(departures)]
        offset += len(rows)
        data = pa.Table.from_pylist(rows, schema)
        staged = stage_arrow(data, uri, uuid4().hex, "event_date")
        commits.append(table, staged, CommitMetadata("landing/flights", str(epoch), cut_at(epoch)))
    return cut_at(epoch)


def _landed(departure: Departure, offset: int, epoch: int) -> dict[str, Any]:
    time = departure.time
    return {
        "topic": TOPIC.name,
        "partition": 0,
        "offset": offset,
        "append_time": time,
        "value": b"{}",
        "epoch": epoch,
        "decision": VALID,
        "late": departure.late,
        "event_id": f"e{offset}",
        "source": "test",
        "type": "flight.departed",
        "subject": f"flight-{offset}",
        "contract_version": 1,
        "device_time": time,
        "event_time": time,
        "flight_departed": {
            "origin": departure.origin,
            "dep_delay": departure.delay,
            "tailnum": departure.tailnum,
        },
        "event_date": time.date(),
    }


def stream(spark: SparkSession, settings: Settings, view: View, cut: Cut) -> None:
    """The speed half at ``cut``, as a stream that made no mistake would have left it."""
    rows = function_rows(
        view, TOPIC, events_at(spark, ViewHandle(settings, view, TOPIC), cut, DAYS, late=False)
    ).toArrow()
    if view.kappa:
        rows = rows.drop_columns([PARTITION_DATE])
    rows = rows.append_column(CHANGED, pa.array([cut.epoch(TOPIC.name)] * rows.num_rows, pa.int64()))
    spoil(settings, view, cut, rows)


def speed_rows_of(settings: Settings, view: View) -> pa.Table:
    table = commits.open_table(VersionRef(settings, view.name, view.version).speed_table)
    assert table is not None
    return table.to_pyarrow_table()


def spoil(settings: Settings, view: View, cut: Cut, rows: pa.Table) -> None:
    """Make ``rows`` the speed half, whatever they are."""
    uri = VersionRef(settings, view.name, view.version).speed_table
    partition = None if view.kappa else PARTITION_DATE
    note = CommitMetadata(f"{view.writer}/speed", uuid4().hex, cut, view.fingerprint)
    table = commits.create(uri, rows.schema, [partition] if partition else [], note)
    commits.replace(table, stage_arrow(rows, uri, uuid4().hex, partition), note, None)


def build(spark: SparkSession, settings: Settings, view: View, cut: Cut, partitions: Sequence[date]) -> StagedBuild:
    """What batch would have staged: the function over all events up to ``cut``."""
    uri = VersionRef(settings, view.name, view.version).batch_table
    rows = function_rows(view, TOPIC, events_at(spark, ViewHandle(settings, view, TOPIC), cut, partitions, late=True))
    return stage(settings, view, cut, partitions, rows.toArrow(), uri)


def stage(
    settings: Settings, view: View, cut: Cut, partitions: Sequence[date], rows: pa.Table, uri: str | None = None
) -> StagedBuild:
    uri = uri or VersionRef(settings, view.name, view.version).batch_table
    name = uuid4().hex
    files: dict[date, tuple[str, ...]] = {}
    for staged in stage_arrow(rows, uri, name, PARTITION_DATE):
        day = date.fromisoformat(str(staged.partition[PARTITION_DATE]))
        files[day] = (*files.get(day, ()), str(Path(uri) / staged.path))
    return StagedBuild(str(Path(uri) / "builds" / name), cut, tuple(partitions), files)


DAYS = [date(2013, 1, day) for day in (1, 2, 3)]
EPOCHS = [
    [Departure("01 05:10", "JFK", 3), Departure("01 05:20", "JFK", 4), Departure("01 06:00", "EWR", 1)],
    [Departure("02 05:10", "JFK", 1), Departure("03 05:30", "LGA", 2), Departure("01 05:30", "JFK", 90, late=True)],
]
