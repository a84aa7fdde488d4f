"""What looks like one of the doctor's findings and is none, and that what it says mends what it says."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from anabranch.change.migrate.run_heartbeat import last_heartbeat, record_heartbeat
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.lake.log.version_checksum import metadata_of
from anabranch.operate.doctor import CHECKS, examine
from anabranch.operate.doctor._findings import Severity
from anabranch.operate.doctor._running_work import RUNNING, UNSEEN
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import Record
from deltalake import DeltaTable
from support.landed_sample import DECLARED, FLIGHTS
from support.landing_defects import late_by_another_lateness
from support.small_platform import DAYS, NAME, V1, V2, Clinic, departed
from support.view_defects import (
    certificate_ahead,
    checksum,
    checksum_of_landing,
    checksum_torn,
    migrating,
    migration_stopped,
    route_ahead,
    stream_behind,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    made = Clinic(Settings(home=tmp_path / "home"), (V1, V2))
    made.land([departed(n, DAYS[n]) for n in range(5)], [departed(5), departed(6)])
    for view in (V1, V2):
        made.speed(view=view)
    return made


def codes(clinic: Clinic, **more: Any) -> list[str]:
    return [finding.code for finding in examine(clinic.platform(**more), CHECKS, pause=0).findings]


def later(minutes: float) -> float:
    return time.time() + minutes * 60


def declared(lateness: timedelta) -> Declarations:
    return replace(DECLARED, topics={**DECLARED.topics, FLIGHTS.name: replace(FLIGHTS, allowed_lateness=lateness)})


def test_late_is_judged_by_the_lateness_of_its_own_time(clinic: Clinic) -> None:
    platform = replace(clinic.platform(), declarations=declared(timedelta(days=30)))
    assert not examine(platform, pause=0).findings, "it was two hours then, and the notes say so"
    late_by_another_lateness(clinic)
    assert codes(clinic) == ["LATE_WRONG"]


def test_loaded_files_move_nothing_and_are_counted_apart(clinic: Clinic) -> None:
    before = clinic.offsets
    clinic.load(3)
    clinic.land([departed(7)])
    clinic.load(2)
    assert codes(clinic) == []
    assert clinic.offsets.keys() == before.keys()
    clinic.load(2, event_id="loaded 1-0")
    assert codes(clinic) == ["EVENT_TWICE"]


def test_the_lateness_of_old_epochs_is_found_behind_the_newest_commits(clinic: Clinic) -> None:
    clinic.land([departed(7, DAYS[4])])
    platform = replace(clinic.platform(commits=1), declarations=declared(timedelta(days=30)))
    assert not examine(platform, pause=0).findings


def test_without_a_note_of_its_time_a_wrong_decision_is_doubtful_unless_no_lateness_could_be_right(
    clinic: Clinic,
) -> None:
    bare: dict[str, Any] = {"lateness_us": None}
    clinic.commit([clinic.row(departed(100), late=False)], clinic.offsets, **bare)
    [finding] = examine(clinic.platform(), pause=0).findings
    assert (finding.code, finding.severity) == ("LATE_WRONG", Severity.DOUBTFUL)
    clinic.commit([clinic.row(departed(200, DAYS[4]), late=True)], clinic.offsets, **bare)
    [finding] = examine(clinic.platform(), pause=0).findings
    assert (finding.code, finding.severity) == ("LATE_WRONG", Severity.BROKEN), "nothing newer had landed before it"
    assert f"epoch {clinic.epoch}," in finding.where


def test_every_row_counts_and_the_first_is_named(clinic: Clinic) -> None:
    for number in (100, 104, 108):
        clinic.commit([clinic.row(departed(number), late=False)], clinic.offsets)
    [finding] = examine(clinic.platform(), pause=0).findings
    assert finding.what == "3 rows: the first is stored as on time, by landing's rule it is late"


def test_a_migration_whose_run_looks_is_carried(clinic: Clinic) -> None:
    migrating(clinic, run="run-1")
    assert not codes(clinic), "it has just moved"
    assert codes(clinic, now=later(20)) == ["MIGRATION_STOPPED"]
    record_heartbeat(clinic.settings, NAME, "run-1")
    path = clinic.settings.home / "control" / "migrations" / f"{NAME}.json"
    os.utime(path, (later(19), later(19)))
    assert not codes(clinic, now=later(20))
    assert codes(clinic, now=later(19) + UNSEEN + 5) == ["MIGRATION_STOPPED"]
    os.utime(path, (later(9_000), later(9_000)))
    assert codes(clinic, now=later(20)) == ["MIGRATION_STOPPED"], "a look that is dated ahead is none of now"


@pytest.mark.parametrize(("state", "run"), [("done", "gone"), ("rolled back", "gone"), ("moving", "")])
def test_a_migration_that_has_ended_or_that_a_person_leads_needs_no_look(state: str, run: str, clinic: Clinic) -> None:
    migrating(clinic, state, run=run)
    assert not codes(clinic, now=later(600))


def test_a_look_that_cannot_be_read_is_told(clinic: Clinic) -> None:
    migration_stopped(clinic)
    (clinic.settings.home / "control" / "migrations" / f"{NAME}.json").write_text("{")
    assert codes(clinic) == ["CHECK_FAILED"]


def test_a_look_that_cannot_be_written_stops_no_migration(clinic: Clinic) -> None:
    (clinic.settings.home / "control").mkdir(exist_ok=True)
    (clinic.settings.home / "control" / "migrations").write_text("in the way")
    record_heartbeat(clinic.settings, NAME, "run-1")
    (clinic.settings.home / "control" / "migrations").unlink()
    assert last_heartbeat(clinic.settings, NAME, "run-1") is None


def test_a_stream_of_a_platform_that_is_stopped_need_not_follow(clinic: Clinic) -> None:
    stream_behind(clinic)
    assert codes(clinic) == ["STREAM_BEHIND"]
    stopped = time.time() + RUNNING + 5
    assert not codes(clinic, now=stopped)
    speed = Record("speed", "running", os.getpid(), 1.0, ("x",), None, "log", 0, 15, 1.0)
    process_registry.write(clinic.settings, speed)
    assert set(codes(clinic, now=stopped)) == {"STREAM_BEHIND", "PROCESS_GONE"}, "nobody has stopped it"
    process_registry.write(clinic.settings, speed.became("done"))
    assert not codes(clinic, now=stopped)


def test_a_stream_at_the_limit_follows(clinic: Clinic) -> None:
    stream_behind(clinic)
    clinic.settings = clinic.settings.model_copy(update={"behind_epochs": 3})
    assert not codes(clinic)


@pytest.mark.parametrize("seed", [checksum_of_landing, checksum_torn])
def test_the_command_mends_a_checksum_and_the_next_one_is_right(seed: Callable[[Clinic], Any], clinic: Clinic) -> None:
    seed(clinic)
    [finding] = examine(clinic.platform(), pause=0).findings
    Path(re.findall(r"^rm (\S+):", finding.next_step)[0]).unlink()
    assert not codes(clinic)
    clinic.land([departed(9)])
    clinic.table.update_incremental()
    assert (Path(clinic.uri) / "_delta_log" / f"{clinic.table.version():020d}.crc").exists()
    assert not codes(clinic)


def test_a_table_that_a_checksum_keeps_from_being_opened_is_told_with_what_mends_it(clinic: Clinic) -> None:
    """delta-rs takes the schema from it."""
    checksum(clinic.uri, metadata=metadata_of(DeltaTable(clinic.handle().speed_table)))
    findings = {finding.code: finding for finding in examine(clinic.platform(), pause=0).findings}
    assert {"CHECK_FAILED", "CHECKSUM_WRONG"} == set(findings)
    Path(re.findall(r"^rm (\S+):", findings["CHECKSUM_WRONG"].next_step)[0]).unlink()
    assert not codes(clinic)


@pytest.mark.parametrize(
    ("day", "command"),
    [(DAYS[4], f"reprocess {NAME} --version 1 --from {DAYS[4]}"), (None, f"certify {NAME} --version 1:")],
)
def test_what_is_dated_ahead_is_told_with_the_command_of_its_kind_of_view(
    clinic: Clinic, day: date | None, command: str
) -> None:
    certificate_ahead(clinic, day)
    [finding] = examine(clinic.platform(), pause=0).findings
    assert f"then anabranch {command}" in finding.next_step


def test_what_is_dated_ahead_is_mended_by_a_newer_one(clinic: Clinic) -> None:
    certificate_ahead(clinic)
    assert codes(clinic) == ["DATED_AHEAD"]
    clinic.certify("again", DAYS[4:])
    assert not codes(clinic)
    migrating(clinic, "done")
    route_ahead(clinic)
    assert codes(clinic) == ["DATED_AHEAD"]
    migrating(clinic, "done")
    assert not codes(clinic)
