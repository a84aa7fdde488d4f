"""What the page shows, made by hand, without Spark: declarations, halves, landing, certificates, verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from html import unescape
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from anabranch.certify.certificates import Certificate, Checksum, record
from anabranch.certify.late_changes import LateChanges
from anabranch.certify.verdict import Verdict, write_verdict
from anabranch.change.migrate.migration import advance, start
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, commits, open_table
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views import View
from anabranch.views.model.definition import CHANGED, PARTITION_DATE

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

Login = Callable[[str | None], "TestClient"]
VIEW = "delays"
DAYS = [date(2013, 1, day) for day in range(1, 6)]
KEPT, OTHER = Checksum(48, 7, 7), Checksum(47, 8, 8)
_OWN = [
    ("origin", pa.string()),
    ("t", pa.timestamp("us", "UTC")),
    ("delayed", pa.int64()),
    (PARTITION_DATE, pa.date32()),
]
_SPEED = pa.schema([*_OWN, (CHANGED, pa.int64())])
_BATCH = pa.schema(_OWN)
_KAPPA = pa.schema([("origin", pa.string()), (CHANGED, pa.int64())])


def at(epoch: int) -> Cut:
    return Cut({"flights": Position(epoch, {0: epoch})})


def declare(
    settings: Settings, name: str = VIEW, *versions: int, doc: str = "Delays by hour.", partition_by: str | None = "t"
) -> None:
    folder = settings.project / "spark_jobs" / "views"
    folder.mkdir(parents=True, exist_ok=True)
    source = "".join(
        f"@view(name={name!r}, version={version}, events=['flight.departed'], key=['origin'], "
        f"partition_by={partition_by!r})\n"
        f"def v{version}(departed):\n    '''{doc}'''\n\n"
        for version in versions or (1,)
    )
    (folder / f"{name}.py").write_text(source)


def speed(settings: Settings, epoch: int, days: Sequence[date] = DAYS, view: str = VIEW, version: int = 1) -> None:
    """The speed half, replaced as a whole."""
    uri = VersionRef(settings, view, version).speed_table
    table = commits.create(uri, _SPEED, [PARTITION_DATE], CommitMetadata(f"{view}/speed", "create", Cut()))
    rows = pa.Table.from_pylist([_row(day) | {CHANGED: epoch} for day in days], _SPEED)
    staged = stage_arrow(rows, uri, uuid4().hex, PARTITION_DATE)
    commits.replace(table, staged, CommitMetadata(f"{view}/speed", f"c:{epoch}", at(epoch)), None)


def _row(day: date) -> dict[str, object]:
    at_two = datetime(day.year, day.month, day.day, 14, tzinfo=UTC)
    return {"origin": "JFK", "t": at_two, "delayed": 3, PARTITION_DATE: day}


def kappa(settings: Settings, epoch: int, view: str) -> None:
    uri = VersionRef(settings, view, 1).speed_table
    table = commits.create(uri, _KAPPA, [], CommitMetadata(f"{view}/speed", "create", Cut()))
    rows = pa.Table.from_pylist([{"origin": "JFK", CHANGED: epoch}], _KAPPA)
    commits.replace(
        table,
        stage_arrow(rows, uri, uuid4().hex, None),
        CommitMetadata(f"{view}/speed", f"c:{epoch}", at(epoch)),
        None,
    )


def publish(
    settings: Settings, run: str, days: Sequence[date], epoch: int,
    before: Mapping[date, tuple[int, str]] | None = None, view: str = VIEW, version: int = 1,
) -> dict[date, tuple[int, str]]:  # fmt: skip
    """Publish ``days`` by ``run`` at ``epoch``; returns all that is published then, for the next one's ``before``."""
    uri = VersionRef(settings, view, version).batch_table
    table = commits.create(uri, _BATCH, [PARTITION_DATE], CommitMetadata(f"{view}/batch", "create", Cut()))
    rows = pa.Table.from_pylist([_row(day) for day in days], _BATCH)
    shown = {**(before or {}), **dict.fromkeys(days, (epoch, run))}
    told = [{"from": f"{d}", "to": f"{d}", "cut": at(e).to_json(), "run": r} for d, (e, r) in sorted(shown.items())]
    note = CommitMetadata(f"{view}/batch", f"publish:{run}", at(epoch), extra={"published": told})
    commits.replace(
        table, stage_arrow(rows, uri, uuid4().hex, PARTITION_DATE), note, (PARTITION_DATE, [f"{d}" for d in days])
    )
    return shown


def land(settings: Settings, *epochs: int, topic: str = "flights") -> None:
    """Commits of landing that say so: of no rows, which nobody reads here."""
    uri = landing_table(settings, topic)
    schema = pa.schema([("epoch", pa.int64())])
    commits.create(uri, schema, [], CommitMetadata(f"landing/{topic}", "create", Cut()))
    for epoch in epochs:
        table = open_table(uri)
        assert table is not None
        commits.append(table, [], CommitMetadata(f"landing/{topic}", f"e:{epoch}", at(epoch)))


def certify(
    settings: Settings, run: str, days: Sequence[date | None], epoch: int, *, differs: Sequence[date | None] = (),
    late: int = 0, view: str = VIEW, version: int = 1, created: datetime | None = None,
) -> None:  # fmt: skip
    now = created or datetime.now(UTC)
    made = [
        Certificate(
            view, version, day, run, at(epoch), epoch, "f", "recomputed", KEPT, OTHER if day in differs else KEPT, late,
            now + timedelta(microseconds=n),
        )
        for n, day in enumerate(days)
    ]  # fmt: skip
    record(settings, made)


def judge(settings: Settings, run: str, equal: Sequence[date], refused: Mapping[date, str], **more: Any) -> None:
    given: dict[str, Any] = {"late_changes": (), "report": "", "whole": None, **more}
    write_verdict(settings, Verdict(VIEW, 1, run, "flights@3", 7, tuple(equal), refused, **given))


def changed(day: date) -> LateChanges:
    return LateChanges(day, 9, 1, 2, 0)


def text_of(html: str) -> str:
    """What a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


OLD, NEW = (View(VIEW, n, ("flight.departed",), ("origin", "t"), lambda rows: rows, partition_by="t") for n in (1, 2))


def begin_migration(settings: Settings) -> None:
    """Both versions of the view, and a migration that has led 5 % of the readers to v2."""
    declare(settings, VIEW, 1, 2)
    land(settings, 3)
    for version in (1, 2):
        speed(settings, 3, version=version)
        certify(settings, f"run-{version}", DAYS[:1], 3, version=version)
    start(settings, OLD, NEW, by="bert", why="v2 counts by carrier", soak_seconds=0, promise=Expectations(("delayed",)))
    for _ in range(2):
        advance(settings, OLD, NEW, by="run move-1")
