"""A small platform, made on disk by the platform's own writers, without a JVM: landing, both halves of a view,
certificates, routes, replays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from anabranch import lake
from anabranch.certify.certificates import Certificate, Checksum, record
from anabranch.certify.verdict import Verdict, write_verdict
from anabranch.change.replay.cleanup import finish
from anabranch.change.replay.state import ReplayState, write_state
from anabranch.compute.batch.manifest import Build, write_manifest
from anabranch.compute.batch.publish import publish
from anabranch.compute.speed.table import SpeedTable
from anabranch.core.settings import Settings
from anabranch.ingest.landing.duplicates import Duplicates
from anabranch.ingest.landing.empty_offsets import add_counts, ranges_note
from anabranch.ingest.landing.epochs import SUMMARY_COLUMNS, summary
from anabranch.ingest.landing.loaded_files import LoadedFile, Loads
from anabranch.ingest.landing.state import growth_note, lateness_note, open_landing, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, LOADED, QUARANTINED, VALID, epoch_build, landing_schema
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import StagedFile, stage_arrow
from anabranch.lake.layout import VersionRef, landing_checkpoint
from anabranch.operate.doctor import Context
from anabranch.testing._fake_landing import Decisions
from anabranch.views import Registry, View
from anabranch.views.definition_registry import write_definition
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from deltalake import Schema

from support.landed_sample import DECLARED, FLIGHTS, Event, sample_views

DAYS = [date(2013, 1, day) for day in range(1, 6)]
V1 = sample_views().get("departure_delays")
V2 = replace(V1, version=2, fingerprint="2222222222222222")
NAME = V1.name
BATCH = pa.schema(
    [
        ("origin", pa.string()),
        ("window_start", pa.timestamp("us", "UTC")),
        ("flights", pa.int64()),
        (PARTITION_DATE, pa.date32()),
    ]
)
SPEED = pa.schema([*BATCH, (CHANGED, pa.int64())])
SAME = Checksum(3, 7, 7)


def departed(number: int, day: date = DAYS[0], *, id: str = "", broken: bool = False) -> Event:  # noqa: A002
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": number, "dep_delay": 0, "tailnum": "N1"}
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=number % 1440)
    return Event("flight.departed", at, id or f"d{number}", data, number % 4, broken)


def rows_on(days: Sequence[date], epoch: int | None = None, *, origin: str = "JFK") -> pa.Table:
    """Two rows a day; with the mark of ``epoch`` for the speed half."""
    found = [
        {
            "origin": origin, "window_start": datetime(day.year, day.month, day.day, hour, tzinfo=UTC), "flights": 3,
            PARTITION_DATE: day, CHANGED: epoch,
        }
        for day in days for hour in (6, 23)
    ]  # fmt: skip
    return pa.Table.from_pylist(found, SPEED) if epoch is not None else pa.Table.from_pylist(found, BATCH)


@dataclass
class Clinic:
    """``views`` are declared. ``batches`` counts the micro-batches of each stream."""

    settings: Settings
    views: tuple[View, ...] = (V1,)
    batches: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.decisions = Decisions(FLIGHTS)
        self.table = open_landing(self.settings, FLIGHTS)
        self.uri = self.table.table_uri.removeprefix("file://")
        for view in self.views:
            self.declare(view)

    def platform(self, **more: Any) -> Context:
        return Context(self.settings, DECLARED, Registry(self.views, DECLARED), **more)

    def handle(self, view: View = V1) -> ViewHandle:
        return ViewHandle(self.settings, view, FLIGHTS)

    def declare(self, view: View) -> None:
        if view is V1:  # the others' code has another version's number
            write_definition(self.settings, view)

    def copied(self, home: Path) -> Clinic:
        """The same platform in another folder."""
        shutil.copytree(self.settings.home, home)
        made = Clinic(Settings(home=home), self.views, dict(self.batches))
        made.decisions = deepcopy(self.decisions)
        return made

    @property
    def cut(self) -> Cut:
        found = lake.latest_commit(self.uri)
        assert found is not None
        return found.note.cut

    @property
    def epoch(self) -> int:
        return self.cut.epoch(FLIGHTS.name)

    # landing

    def land(self, *epochs: Sequence[Event]) -> None:
        for events in epochs:
            self.decisions.epoch = self.epoch
            rows = self.decisions.decide(events)
            self.commit(rows, self.decisions.cut.positions[FLIGHTS.name].offsets)
            self.plan()

    def commit(self, rows: Sequence[Mapping[str, Any]], offsets: Mapping[int, int], /, **said: Any) -> None:
        """One epoch of these rows, as landing commits it; ``said`` is what its note says otherwise."""
        self.table.update_incremental()
        before = read_state(self.table, FLIGHTS)
        data = pa.Table.from_pylist(list(rows), landing_schema(FLIGHTS))
        epoch = said.pop("epoch", before.epoch + 1)
        staged = stage_arrow(data, self.uri, epoch_build(epoch), EVENT_DATE)
        extra = {**summary(data.select(SUMMARY_COLUMNS), before), **lateness_note(FLIGHTS), **said}
        cut = Cut({FLIGHTS.name: Position(epoch, offsets)})
        commits.append(self.table, staged, CommitMetadata(writer_of(FLIGHTS), f"c:{epoch}", cut, extra=extra))

    def load(self, count: int, **other: Any) -> None:
        """A file of so many events of years ago, as `anabranch load` lands it."""
        before = read_state(self.table, FLIGHTS).loads if self.epoch else Loads()
        number = before.last + 1
        rows = [
            {
                **Decisions(FLIGHTS).decide([departed(place)])[0],
                "partition": -number,
                "offset": place,
                "event_id": f"loaded {number}-{place}",
                "decision": LOADED,
                "late": None,
                "epoch": self.epoch + 1,
            }
            for place in range(count)
        ]
        rows = [{**row, **(other if row["offset"] == count - 1 else {})} for row in rows]
        said = before.after(LoadedFile(number, "a.csv", f"{number:064}", count), count).note()
        self.commit(rows, self.offsets, **said)

    def row(self, event: Event, **other: Any) -> dict[str, Any]:
        """What landing would make of an event as the next epoch."""
        self.decisions.epoch = self.epoch
        return {**self.decisions.decide([event])[0], **other}

    @property
    def offsets(self) -> Mapping[int, int]:
        return self.decisions.cut.positions[FLIGHTS.name].offsets

    def release(self) -> None:
        """Every quarantined record, readable by now."""
        waiting = [row for row in self.decisions.rows if row["decision"] == QUARANTINED and not row.get("gone")]
        rows = []
        for row in waiting:
            row["gone"] = True
            event = replace(departed(row["offset"]), id=f"r{row['partition']}-{row['offset']}")
            read = {**Decisions(FLIGHTS).decide([event])[0], "partition": row["partition"], "offset": row["offset"]}
            late = self.decisions.bound is not None and read["event_time"] < self.decisions.bound
            read |= {"decision": VALID, "late": late, "epoch": self.epoch + 1, "released_from": row["epoch"]}
            rows.append(read)
        if rows:
            self.commit(rows, self.cut.positions[FLIGHTS.name].offsets, release={"why": "mended", "records": len(rows)})
            times = [row["event_time"] for row in rows]
            self.decisions._newest = max([*times, *([self.decisions._newest] if self.decisions._newest else [])])

    def lose(self, partition: int, count: int) -> None:
        """Accept that the log has deleted so many records."""
        offsets = dict(self.cut.positions[FLIGHTS.name].offsets)
        lost = [{"partition": partition, "from": offsets[partition], "to": offsets[partition] + count, "why": "test"}]
        offsets[partition] += count
        self.decisions._offsets[partition] += count
        self.commit([], offsets, lost=lost)

    def hole(self, partition: int, count: int, *, proven: int | None = None) -> None:
        """So many offsets hold no record; ``proven`` of them (None: all), the first ones, are recorded as such."""
        proven = count if proven is None else proven
        offsets = dict(self.cut.positions[FLIGHTS.name].offsets)
        start = offsets.get(partition, 0)
        offsets[partition] = start + count
        self.decisions._offsets[partition] = start + count
        self.table.update_incremental()
        counts = add_counts(read_state(self.table, FLIGHTS).holes, {partition: proven})
        holes = ranges_note({partition: [(start, start + proven)]} if proven else {})
        self.commit([], offsets, **holes, hole_counts={str(p): n for p, n in counts.items()})

    def grow(self) -> None:
        self.table.update_incremental()
        column = f"grown_{uuid4().hex[:6]}"
        commits.widen(
            self.table,
            pa.schema([(column, pa.int64())]),
            growth_note(read_state(self.table, FLIGHTS), FLIGHTS, [column]),
        )

    def compact(self) -> None:
        self.table.update_incremental()
        self.table.optimize.compact()

    def plan(self, **offsets: int) -> None:
        """Landing's checkpoint, where landing is."""
        folder = landing_checkpoint(self.settings, FLIGHTS.name)
        batch = self.batches["landing"] = self.batches.get("landing", -1) + 1
        named = {str(p): o for p, o in self.cut.positions[FLIGHTS.name].offsets.items()} | offsets
        checkpoint(folder, "landing-checkpoint", batch, [{FLIGHTS.name: named}])

    def index(self) -> None:
        self.table.update_incremental()
        Duplicates(self.settings, FLIGHTS, self.table).catch_up()

    # speed

    def speed(
        self, days: Sequence[date] = DAYS, view: View = V1, *, cut: Cut | None = None, origin: str = "JFK"
    ) -> None:
        """One micro-batch of the live stream: the first replaces the table, the others are merged."""
        ref = VersionRef(self.settings, NAME, view.version)
        table = SpeedTable(ref.speed_table, view, SPEED, unverified=True)
        cut = cut or self.cut
        owner = f"speed-v{view.version}"
        batch = self.batches[owner] = self.batches.get(owner, -1) + 1
        rows = rows_on(days, cut.epoch(FLIGHTS.name), origin=origin)
        note = table.note(f"{owner}:{batch}", cut, watermark_ms=None, rows=rows.num_rows)
        if batch == 0:
            table.refresh(stage_arrow(rows, table.uri, f"speed-{uuid4().hex}", PARTITION_DATE), note)
        else:
            table.merge_small(rows, batch, note)
        checkpoint(ref.speed_checkpoint, owner, batch, [{"reservoirId": "x"}])

    # batch

    def build(self, run: str, days: Sequence[date], view: View = V1, *, cut: Cut | None = None) -> Build:
        uri = VersionRef(self.settings, NAME, view.version).batch_table
        staged = stage_arrow(rows_on(days), uri, f"{run}-{uuid4().hex}", PARTITION_DATE)
        columns = Schema.from_arrow(BATCH.remove(BATCH.get_field_index(PARTITION_DATE))).to_json()
        count = sum(file.rows for file in staged)
        files: tuple[StagedFile, ...] = tuple(staged)
        made = Build(
            NAME, view.version, run, view.fingerprint, cut or self.cut, tuple(days), columns, files, count, 1.0
        )
        write_manifest(self.settings, made)
        return made

    def certify(self, run: str, days: Sequence[date], view: View = V1, *, differs: Sequence[date] = ()) -> None:
        now, other = datetime.now(UTC), Checksum(4, 7, 7)
        made = [
            Certificate(
                NAME, view.version, day, run, self.cut, 1, view.fingerprint, "build", SAME,
                other if day in differs else SAME, 0, now,
            )
            for day in days
        ]  # fmt: skip
        record(self.settings, made)
        equal, refused = tuple(day for day in days if day not in differs), dict.fromkeys(differs, "the halves differ")
        write_verdict(self.settings, Verdict(NAME, view.version, run, str(self.cut), 1, equal, refused, ()))

    def reprocess(self, run: str, days: Sequence[date], view: View = V1, *, differs: Sequence[date] = ()) -> None:
        """Rebuild, certify, and publish what is equal."""
        build = self.build(run, days, view)
        self.certify(run, days, view, differs=differs)
        good = [day for day in days if day not in differs]
        if good:
            publish(self.handle(view), build, good)

    # replays

    def replay(self, run: str, phase: str = "", days: str = "", view: View = V1) -> ReplayState:
        """One that ended in ``phase``; without one, it was killed on the way."""
        standing = write_state(self.settings, ReplayState(NAME, view.version, run, days=days, started_ms=1))
        for folder in self.folders_of(run, view):
            (folder / "below").mkdir(parents=True)
        (self.folders_of(run, view)[2] / "metadata").write_text(json.dumps({"id": f"replay-{run}"}))
        return finish(self.settings, standing, phase, "ended") if phase else standing

    def folders_of(self, run: str, view: View = V1) -> tuple[Path, Path, Path]:
        of = self.handle(view)
        return of.replay_tables / run, of.replay_mirrors / run, of.replay_checkpoints / run


def checkpoint(folder: Path, owner: str, batch: int, offsets: Sequence[Any]) -> None:
    """As Spark leaves one after a micro-batch."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": owner}))
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), *map(json.dumps, offsets)]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))
    (folder / "commits" / str(batch)).write_text("v1\n{}")
