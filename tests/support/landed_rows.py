"""Landing's table of flights written row by row, and a view that has published days of it: without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from anabranch.contracts import Topic, load_declarations
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import epoch_build, landing_schema
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views import View

TOPIC: Topic = load_declarations(project_root() / "spark_jobs" / "contracts").topic("flights")
FIRST, SECOND, THIRD = (date(2013, 1, day) for day in (1, 2, 3))


def a_view(**changes: Any) -> View:
    given = {"name": "delays", "version": 1, "events": ("flight.departed",), "key": ("t", "k"), "partition_by": "t"}
    return View(**{**given, "function": lambda *frames: frames[0], **changes})


def landed(day: date, epoch: int, **changes: Any) -> dict[str, Any]:
    moment = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    given = {"topic": "flights", "epoch": epoch, "decision": "valid", "late": False, "type": "flight.departed"}
    return {**given, "event_time": moment, "event_date": day, **changes}


def at(epoch: int) -> Cut:
    return Cut({"flights": Position(epoch, {0: epoch * 10})})


def land(settings: Settings, *epochs: list[dict[str, Any]]) -> None:
    """Each list of rows as one epoch, in files with the names that landing gives them."""
    uri, schema = landing_table(settings, "flights"), landing_schema(TOPIC)
    table = create(uri, schema, ["event_date"], CommitMetadata("landing/flights", "0", Cut()))
    for epoch, rows in enumerate(epochs, 1):
        staged = stage_arrow(pa.Table.from_pylist(rows, schema), uri, epoch_build(epoch), "event_date")
        append(table, staged, CommitMetadata("landing/flights", str(epoch), at(epoch)))


def publish(settings: Settings, view: View, cuts: Mapping[date, int]) -> None:
    """Each day of ``cuts`` is published, as of its epoch."""
    shown = [{"from": f"{d}", "to": f"{d}", "cut": at(epoch).to_json(), "run": "r"} for d, epoch in cuts.items()]
    columns = pa.schema([("k", pa.string()), ("partition_date", pa.date32())])
    uri = VersionRef(settings, view.name, view.version).batch_table
    note = CommitMetadata(f"{view.writer}/batch", "r", at(max(cuts.values())), extra={"published": shown})
    create(uri, columns, ["partition_date"], note)
