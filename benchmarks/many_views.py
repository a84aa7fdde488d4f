"""A lake with many views, each with a year of published, certified days: what a page of a large platform shows."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from anabranch.certify.certificates import Certificate, Checksum, record
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import CHANGED, PARTITION_DATE

SOURCE = '''
from anabranch.views import view


@view(name="{name}", version=1, events=["flight.departed"], key=["origin", "t"], partition_by="t")
def {name}(departed):
    """The newest delay of each origin and moment."""
    return departed.selectExpr("origin", "event_time AS t", "cast(dep_delay AS bigint) AS delayed")
'''
_ROWS = [("origin", pa.string()), ("t", pa.timestamp("us", "UTC")), ("delayed", pa.int64())]
_BATCH = pa.schema([*_ROWS, (PARTITION_DATE, pa.date32())])
_SPEED = pa.schema([*_BATCH, (CHANGED, pa.int64())])
_CUT = Cut({"flights": Position(3, {0: 3})})
_SAME = Checksum(1, 7, 7)


def days_of_year() -> list[date]:
    return [date(2013, 1, 1) + timedelta(days=n) for n in range(365)]


def make_views(settings: Settings, count: int) -> list[str]:
    """Make the views ``view_0`` and so on, and return their names. One is made with the package's own functions, the
    others are its copies under other names (a table's log names its files by relative paths)."""
    names = [f"view_{n}" for n in range(count)]
    _make(settings, names[0])
    first = settings.lake / "views" / names[0]
    now = datetime.now(UTC)
    for name in names:
        source = settings.project / "spark_jobs" / "views" / f"{name}.py"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(SOURCE.format(name=name))
        if name != names[0]:
            shutil.copytree(first, first.with_name(name), copy_function=os.link)
        run = f"run-{name.replace('_', '-')}"
        record(
            settings,
            [
                Certificate(
                    name, 1, day, run, _CUT, 3, "f", "recomputed", _SAME, _SAME, 0, now + timedelta(microseconds=n)
                )
                for n, day in enumerate(days_of_year())
            ],
        )
    return names


def _make(settings: Settings, view: str) -> None:
    ref = VersionRef(settings, view, 1)
    days = days_of_year()
    noon = [datetime(day.year, day.month, day.day, 12, tzinfo=UTC) for day in days]
    count = len(days)
    rows = {"origin": ["JFK"] * count, "t": noon, "delayed": [3] * count, PARTITION_DATE: days}
    for uri, schema, half in (
        (ref.speed_table, _SPEED, "speed"),
        (ref.batch_table, _BATCH, "batch"),
    ):
        table = commits.create(uri, schema, [PARTITION_DATE], CommitMetadata(f"{view}/{half}", "create", Cut()))
        content = pa.Table.from_pydict({**rows, CHANGED: [3] * count} if half == "speed" else rows, schema)
        published = [{"from": f"{day}", "to": f"{day}", "cut": _CUT.to_json(), "run": "run-a"} for day in days]
        extra = {"published": published} if half == "batch" else {}
        note = CommitMetadata(f"{view}/{half}", "publish:run-a" if half == "batch" else "c:3", _CUT, extra=extra)
        commits.replace(table, stage_arrow(content, uri, "first", PARTITION_DATE), note, None)
