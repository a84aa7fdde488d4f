"""Defects of commits, of the halves of views, of routes, and of what is left over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pyarrow as pa
from anabranch import lake
from anabranch.certify.certificates import SCHEMA, Certificate
from anabranch.certify.certificates import record as record_certificates
from anabranch.change.migrate.migration_record import Migration
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.change.migrate.run_heartbeat import record_heartbeat
from anabranch.change.replay.state import REFUSED, state_file
from anabranch.compute.batch.manifest import manifest_path
from anabranch.compute.batch.publish import publish
from anabranch.compute.speed.checkpoint_handover import REPLAY
from anabranch.core.storage import storage_of
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef, certificates_table, landing_table, routes_table
from anabranch.lake.log.version_checksum import metadata_of
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import Record
from anabranch.serve.routes import set_route
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from deltalake import DeltaTable, write_deltalake

from support.landing_defects import Defects
from support.small_platform import BATCH, DAYS, NAME, SAME, V1, V2, Clinic, departed, rows_on


def half(clinic: Clinic, kind: str = "speed", version: int = 1) -> DeltaTable:
    return DeltaTable(str(VersionRef(clinic.settings, NAME, version).folder / kind))


def noted(clinic: Clinic, rows: pa.Table | None = None, kind: str = "speed", **other: Any) -> None:
    """A commit to a half of v1 whose note is like the one before, but for ``other``."""
    table = half(clinic, kind)
    before = lake.latest_commit(table)
    assert before is not None
    staged = stage_arrow(rows, table.table_uri.removeprefix("file://"), uuid4().hex, PARTITION_DATE) if rows else []
    commits.append(table, staged, replace(before.note, **other))


def cut(epoch: int) -> Cut:
    return Cut({"flights": Position(epoch, {0: epoch})})


def with_column(rows: pa.Table, name: str, value: Any) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, name, pa.array([value] * rows.num_rows, rows.schema.field(name).type))


# commits


def commit_unnamed(c: Clinic) -> None:
    write_deltalake(half(c), rows_on(DAYS[:1], 1, origin="stranger"), mode="append")


def commit_unnamed_before(c: Clinic) -> None:
    commit_unnamed(c)
    noted(c)


def writer_foreign(c: Clinic) -> None:
    noted(c, writer="somebody")


def batch_unnamed(c: Clinic) -> None:
    noted(c, batch="")


def cut_unnamed(c: Clinic) -> None:
    noted(c, cut=Cut())
    c.speed()


def fingerprint_other(c: Clinic) -> None:
    noted(c, fingerprint="3333333333333333")
    noted(c, fingerprint=V1.fingerprint)


def fingerprint_none(c: Clinic) -> None:
    noted(c, kind="batch", fingerprint="")


def definition_changed(c: Clinic) -> None:
    c.views = (replace(V1, fingerprint="3333333333333333"), V2)


def cut_back(c: Clinic) -> None:
    noted(c, cut=cut(1))
    c.speed()


def cut_beyond(c: Clinic) -> None:
    noted(c, cut=cut(99))


# halves


def key_twice(c: Clinic) -> None:
    noted(c, rows_on(DAYS[:1], 1))


def key_twice_in_batch(c: Clinic) -> None:
    noted(c, rows_on(DAYS[:1]), "batch")


def row_misplaced(c: Clinic) -> None:
    noted(c, with_column(rows_on(DAYS[:1], 1, origin="EWR"), PARTITION_DATE, DAYS[3]))


def mark_beyond(c: Clinic) -> None:
    noted(c, rows_on(DAYS[:1], 99, origin="EWR"))


def mark_beyond_landing(c: Clinic) -> None:
    """What a replay has put in place may be ahead of readers, but not of landing."""
    noted(c, rows_on(DAYS[:1], 99, origin="EWR"), extra={REPLAY: "r"})


def owner_gone(c: Clinic) -> None:
    shutil.rmtree(c.handle().speed_checkpoint)


def owner_another(c: Clinic) -> None:
    (c.handle().speed_checkpoint / "metadata").write_text(json.dumps({"id": "another"}))


def published_uncertified(c: Clinic) -> None:
    publish(c.handle(), c.build("two", DAYS[2:3]), DAYS[2:3])


def published_unequal(c: Clinic) -> None:
    build = c.build("two", DAYS[2:3])
    c.certify("two", DAYS[2:3], differs=DAYS[2:3])
    publish(c.handle(), build, DAYS[2:3])


def published_beyond(c: Clinic) -> None:
    build = c.build("two", DAYS[2:3], cut=cut(99))
    c.certify("two", DAYS[2:3])
    publish(c.handle(), build, DAYS[2:3])


def published_back(c: Clinic) -> None:
    shown = [{"from": f"{day}", "to": f"{day}", "cut": cut(1).to_json(), "run": "one"} for day in DAYS[:2]]
    noted(c, kind="batch", extra={"published": shown})


def published_nowhere(c: Clinic) -> None:
    noted(c, rows_on(DAYS[4:]), "batch")


def certificate_wrong(c: Clinic) -> None:
    made = Certificate(NAME, 1, DAYS[4], "x", c.cut, 1, "f", "build", SAME, SAME, 0, datetime.now(UTC))
    uri = certificates_table(c.settings)
    rows = pa.Table.from_pylist([{**made.to_row(), "equal": False}], SCHEMA)
    commits.append(
        DeltaTable(uri), stage_arrow(rows, uri, uuid4().hex, "view"), CommitMetadata("certificates", "x", c.cut)
    )


def certified_nothing(c: Clinic) -> None:
    c.certify("x", DAYS[:1], replace(V1, version=7))


# leading


def route(c: Clinic, shares: Mapping[str, int], **more: Any) -> None:
    said = {"shares": shares, "by": "anna", "why": "test", "changed_at": datetime.now(UTC).isoformat(), **more}
    commits.append(
        DeltaTable(routes_table(c.settings, NAME)), [], CommitMetadata(f"route/{NAME}", "2", Cut(), extra=said)
    )


def route_shares(c: Clinic) -> None:
    route(c, {"1": 60})


def route_nowhere(c: Clinic) -> None:
    route(c, {"1": 50, "9": 50})


def route_retired(c: Clinic) -> None:
    route(c, {"1": 50, "2": 50}, retired=[2])


def writer_gone(c: Clinic) -> None:
    c.views = (V1,)


def topic_gone(c: Clinic) -> None:
    commits.create(landing_table(c.settings, "nobody"), BATCH, [], CommitMetadata("landing/nobody", "create", Cut()))


# leftovers


def build_gone(c: Clinic) -> None:
    for file in c.build("two", DAYS[2:3]).files:
        (Path(c.handle().batch_table) / file.path).unlink()


def build_unreadable(c: Clinic) -> None:
    """Its staged files are nobody's only if it stays so."""
    c.build("two", DAYS[2:3])
    path = manifest_path(c.handle(), "two")
    path.write_text(path.read_text()[:-5])


def build_orphaned(c: Clinic) -> None:
    stage_arrow(rows_on(DAYS[:1]), c.handle().batch_table, "lost-run", PARTITION_DATE)


def replay_stopped(c: Clinic) -> None:
    c.replay("dead")


def standing_unreadable(c: Clinic) -> None:
    c.replay("dead")
    state_file(c.handle(), "dead").write_text("")


def replay_left(c: Clinic) -> None:
    c.replay("done", REFUSED)
    c.folders_of("done")[0].mkdir(parents=True)


def replay_unknown(c: Clinic) -> None:
    c.folders_of("unknown")[1].mkdir(parents=True)


def drop_half(c: Clinic) -> None:
    dropping = VersionRef(c.settings, NAME, 3).dropping
    storage_of(dropping).write(dropping, b"")


def record(c: Clinic, created: float) -> None:
    process_registry.write(
        c.settings, Record("landing", "running", os.getpid(), created, ("x",), None, "log", 0, 15, 1.0)
    )


def process_gone(c: Clinic) -> None:
    record(c, 1.0)


def unwatched(c: Clinic) -> None:
    record(c, psutil.Process().create_time())


def draft_left(c: Clinic) -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    draft = c.settings.home / "control" / f".one.json.{ended.pid}"
    draft.write_text("{")
    os.utime(draft, (1, 1))


def late_nowhere(c: Clinic) -> None:
    """History of a day that no run takes any more."""
    c.land([departed(200, date(2012, 12, 20)), departed(201, date(2012, 12, 20))])
    c.speed(DAYS[:1])


# carried on by nobody, dated ahead, and checksums


def stream_behind(c: Clinic) -> Mapping[str, Any]:
    """v2's, and v1 follows."""
    c.settings = c.settings.model_copy(update={"behind_epochs": 2})
    c.land([departed(100)], [departed(101)], [departed(102)])
    c.speed()
    return {"now": time.time()}


def migrating(c: Clinic, state: str = "moving", share: int = 25, run: str = "gone") -> None:
    said = Migration(NAME, 1, 2, (25, 100), 600.0, Expectations(), share=share, run=run).to_json() | {"state": state}
    set_route(c.settings, NAME, {1: 100 - share, 2: share}, by=f"run {run}", why="step", migration=said)


def migration_stopped(c: Clinic) -> None:
    migrating(c)
    record_heartbeat(c.settings, NAME, "gone")


def migration_halted_and_left(c: Clinic) -> None:
    migrating(c, "halted")


def migration_of_another_run(c: Clinic) -> Mapping[str, Any]:
    """The run that looks is another one."""
    migrating(c)
    record_heartbeat(c.settings, NAME, "another")
    return {"now": time.time() + 20 * 60}


def certificate_ahead(c: Clinic, day: date | None = DAYS[4]) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    made = Certificate(NAME, 1, day, "x", c.cut, 1, V1.fingerprint, "build", SAME, SAME, 0, tomorrow)
    record_certificates(c.settings, [made])


def route_ahead(c: Clinic) -> None:
    route(c, {"1": 100}, changed_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())


def checksum_at(uri: str) -> Path:
    return Path(uri) / "_delta_log" / f"{DeltaTable(uri).version():020d}.crc"


def checksum(uri: str, **said: Any) -> None:
    path = checksum_at(uri)
    path.write_text(json.dumps({**json.loads(path.read_text()), **said}))


def checksum_of_landing(c: Clinic) -> None:
    checksum(c.uri, numFiles=999)


def checksum_of_sizes(c: Clinic) -> None:
    checksum(routes_table(c.settings, NAME), tableSizeBytes=1)


def checksum_of_another_table(c: Clinic) -> None:
    checksum(c.uri, metadata={**metadata_of(c.table), "id": str(uuid4())})


def checksum_of_an_older_schema(c: Clinic) -> None:
    """As if the column had never been added: engines that believe it read the table without."""
    c.grow()
    older = metadata_of(c.table)
    c.land([departed(100)])
    DeltaTable(c.uri).create_checkpoint()
    fields = json.loads(older["schemaString"])["fields"]
    kept = [field for field in fields if not field["name"].startswith("grown_")]
    checksum(c.uri, metadata={**older, "schemaString": json.dumps({"type": "struct", "fields": kept})})


def checksum_of_other_readers(c: Clinic) -> None:
    checksum(certificates_table(c.settings), protocol={"minReaderVersion": 1, "minWriterVersion": 1})


def checksum_torn(c: Clinic) -> None:
    path = checksum_at(c.uri)
    path.write_text(path.read_text()[:100])


IN_VIEWS: Defects = [
    (late_nowhere, "LATE_NOWHERE", "v1, speed half"),
    (stream_behind, "STREAM_BEHIND", "v2, speed half"),
    (migration_stopped, "MIGRATION_STOPPED", "v1 to v2, 25 % have v2, run gone"),
    (migration_halted_and_left, "MIGRATION_STOPPED", "v1 to v2, 25 % have v2, run gone"),
    (migration_of_another_run, "MIGRATION_STOPPED", "v1 to v2, 25 % have v2, run gone"),
    (certificate_ahead, "DATED_AHEAD", "run x"),
    (route_ahead, "DATED_AHEAD", "routes of departure_delays"),
    (checksum_of_landing, "CHECKSUM_WRONG", "landing of flights"),
    (checksum_of_sizes, "CHECKSUM_WRONG", "routes of departure_delays"),
    (checksum_of_another_table, "CHECKSUM_WRONG", "landing of flights"),
    (checksum_of_an_older_schema, "CHECKSUM_WRONG", "landing of flights"),
    (checksum_of_other_readers, "CHECKSUM_WRONG", ".crc"),
    (checksum_torn, "CHECKSUM_WRONG", "landing of flights"),
    (commit_unnamed, "COMMIT_UNNAMED", "v1, speed half"),
    (commit_unnamed_before, "COMMIT_UNNAMED", "v1, speed half"),
    (writer_foreign, "WRITER_FOREIGN", "v1, speed half"),
    (batch_unnamed, "BATCH_UNNAMED", "v1, speed half"),
    (cut_unnamed, "CUT_UNNAMED", "v1, speed half"),
    (fingerprint_other, "FINGERPRINT_OTHER", "v1, speed half"),
    (fingerprint_none, "FINGERPRINT_OTHER", "v1, batch half"),
    (definition_changed, "DEFINITION_CHANGED", "departure_delays.py"),
    (cut_back, "CUT_BACK", "v1, speed half"),
    (cut_beyond, "CUT_BEYOND", "v1, speed half"),
    (key_twice, "KEY_TWICE", "origin = JFK"),
    (key_twice_in_batch, "KEY_TWICE", "v1, batch half"),
    (row_misplaced, "ROW_MISPLACED", "v1, speed half"),
    (mark_beyond, "MARK_BEYOND", f"column {CHANGED}"),
    (mark_beyond_landing, "MARK_BEYOND", f"column {CHANGED}"),
    (owner_gone, "OWNER_GONE", "v1, speed half"),
    (owner_another, "OWNER_GONE", "v1, speed half"),
    (published_uncertified, "PUBLISHED_UNCERTIFIED", "2013-01-03"),
    (published_unequal, "PUBLISHED_UNCERTIFIED", "2013-01-03"),
    (published_beyond, "PUBLISHED_BEYOND", "2013-01-03"),
    (published_back, "PUBLISHED_BACK", "2013-01-01"),
    (published_nowhere, "PUBLISHED_NOWHERE", "2013-01-05"),
    (certificate_wrong, "CERTIFICATE_WRONG", "run x"),
    (certified_nothing, "CERTIFIED_NOTHING", "v7"),
    (route_shares, "ROUTE_SHARES", "routes of departure_delays"),
    (route_nowhere, "ROUTE_NOWHERE", "routes of departure_delays"),
    (route_retired, "ROUTE_RETIRED", "routes of departure_delays"),
    (writer_gone, "WRITER_GONE", "v2, speed half"),
    (topic_gone, "WRITER_GONE", "landing of nobody"),
    (build_gone, "BUILD_GONE", "two.json"),
    (build_unreadable, "BUILD_UNREADABLE", "two.json"),
    (build_orphaned, "BUILD_ORPHANED", "lost-run"),
    (replay_stopped, "REPLAY_STOPPED", "replay dead"),
    (standing_unreadable, "STANDING_UNREADABLE", f"replays of {NAME} v1"),
    (replay_left, "REPLAY_LEFT", "replay/done"),
    (replay_unknown, "REPLAY_LEFT", "unknown"),
    (drop_half, "DROP_HALF", "v3"),
    (process_gone, "PROCESS_GONE", "run"),
    (unwatched, "UNWATCHED", "run"),
    (draft_left, "DRAFT_LEFT", ".one.json."),
]
