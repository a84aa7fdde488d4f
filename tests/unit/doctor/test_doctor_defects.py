"""Each defect that is seeded into a healthy platform is named, alone, with its place and what to do; by one check."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import anabranch
import pyarrow as pa
import pytest
from anabranch.apps.cli.main import app
from anabranch.change.replay.control import exclusive
from anabranch.compute.speed.checkpoint_handover import REPLAY
from anabranch.compute.speed.table import SpeedTable
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.lake.log import commit_log
from anabranch.operate.doctor import CHECKS, _commits, _recompute, examine
from anabranch.operate.doctor._run_checks import Report
from anabranch.serve.routes import set_route
from anabranch.views import View
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from support.landed_sample import sample_views
from support.landing_defects import IN_LANDING, Seed
from support.small_platform import DAYS, NAME, SPEED, V1, V2, Clinic, checkpoint, departed, rows_on
from support.view_defects import (
    IN_VIEWS,
    commit_unnamed,
    commit_unnamed_before,
    cut_back,
    cut_beyond,
    cut_unnamed,
    draft_left,
    fingerprint_other,
    half,
    late_nowhere,
    published_back,
    replay_stopped,
    writer_foreign,
)
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
DEFECTS = [*IN_LANDING, *IN_VIEWS]
LATER = timedelta(hours=2)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    """Nothing is landed in partition 3."""
    made = Clinic(Settings(home=tmp_path_factory.mktemp("healthy") / "home"), (V1, V2))
    made.land([departed(n, DAYS[n % 5]) for n in (0, 1, 2, 4)], [departed(5), departed(6)], [departed(8), departed(0)])
    for view in (V1, V2):
        made.speed(view=view)
    made.speed(DAYS[:1])
    made.reprocess("one", DAYS[:2])
    made.index()
    set_route(made.settings, NAME, {1: 100}, by="anna", why="test")
    assert not examined(made).findings
    return made


@pytest.fixture
def clinic(healthy: Clinic, tmp_path: Path) -> Clinic:
    return healthy.copied(tmp_path / "home")


def examined(clinic: Clinic, more: Mapping[str, Any] | None = None, checks: Any = CHECKS) -> Report:
    now = (datetime.now(UTC) + LATER).timestamp()
    return examine(clinic.platform(**{"now": now, **(more or {})}), checks, pause=0)


@pytest.mark.parametrize(("seed", "code", "place"), DEFECTS, ids=[seed.__name__ for seed, _, _ in DEFECTS])
def test_it_is_named_alone_and_by_one_check(seed: Seed, code: str, place: str, clinic: Clinic) -> None:
    more = seed(clinic)
    report = examined(clinic, more)
    assert [finding.code for finding in report.findings] == [code], str(report)
    finding = report.findings[0]
    assert place in finding.where
    assert re.search(r"anabranch \w+|restore|put|\brm\b|delete|move|send|reprocess_|undo", finding.next_step), (
        finding.next_step
    )
    assert finding.check in {check.name for check in CHECKS}, "the only one that finds it: without it nobody would"


def test_every_code_is_seeded() -> None:
    folder = Path(anabranch.__file__).parent / "operate" / "doctor"
    text = "\n".join(path.read_text() for path in folder.glob("*.py"))
    in_spark = {"ROWS_DIFFER", "RECORD_DIFFERS"}
    codes = {*re.findall(r'(?:Finding\(|code =|else)\s*"([A-Z_]+)"', text), "OFFSETS_LOST", "LOG_REPLACED"}
    assert codes - in_spark == {code for _, code, _ in DEFECTS}, "those two need Spark: tests/spark/doctor"
    told = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()
    assert not {code for code in codes if f"`{code}`" not in told}


def test_two_defects_are_both_named(clinic: Clinic) -> None:
    cut_beyond(clinic)
    replay_stopped(clinic)
    draft_left(clinic)
    report = examined(clinic)
    assert [finding.code for finding in report.findings] == ["CUT_BEYOND", "REPLAY_STOPPED", "DRAFT_LEFT"]
    assert report.broken


@pytest.mark.parametrize(("replayed", "codes"), [(DAYS[:1], []), (DAYS[1:2], ["COMMIT_UNNAMED"])])
def test_a_replay_of_days_replaces_foreign_rows_of_these_days_only(
    clinic: Clinic, replayed: list[date], codes: list[str]
) -> None:
    commit_unnamed(clinic)
    live = SpeedTable(VersionRef(clinic.settings, NAME, 1).speed_table, V1, SPEED, unverified=True)
    before = live.newest().note
    rows = rows_on(replayed, before.cut.epoch("flights"))
    files = stage_arrow(rows, live.uri, "again", PARTITION_DATE)
    live.replace(files, replayed, replace(before, extra={**before.extra, REPLAY: "again"}))
    assert [finding.code for finding in examined(clinic).findings] == codes


@pytest.mark.parametrize("lookback", [timedelta(0), timedelta(days=1)])
def test_each_partition_of_a_speed_half_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lookback: timedelta
) -> None:
    """Also one that no event belongs to: its rows come from a neighbour's events, or from nowhere."""
    view = replace(V1, lookback=lookback)
    clinic, computed = Clinic(Settings(home=tmp_path), (view,)), set[date]()
    clinic.land([departed(0, DAYS[1])])
    clinic.speed([DAYS[4]], view)

    def certified(_: object, __: object, days: list[date]) -> list[object]:
        computed.update(days)
        return []

    monkeypatch.setattr(_recompute, "certify", certified)
    speed, _ = _recompute.recompute_checks(None, 0)  # type: ignore[arg-type]
    assert not examined(clinic, checks=[speed]).findings
    assert computed == {DAYS[1], DAYS[4], *([DAYS[2]] if lookback else [])}


def test_an_unreadable_registration_hides_no_other(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: Settings, view: View) -> bool:
        if view.version == 1:
            raise ValueError("torn")
        raise Conflict("DEFINITION_CHANGED", "changed", next_step="undo it", file="f.py", definition="d")

    monkeypatch.setattr(_commits, "is_registered", read)
    found = {finding.code: finding.where for finding in _commits.registered_definitions(clinic.platform())}
    assert found.keys() == {"CHECK_FAILED", "DEFINITION_CHANGED"}
    assert found["CHECK_FAILED"].endswith(f"control/views/{NAME}.v1.json")


def test_a_replay_that_runs_is_none_that_stands_still(clinic: Clinic) -> None:
    ref = VersionRef(clinic.settings, V1.name, V1.version)
    replay_stopped(clinic)
    with exclusive(ref, "dead"):
        assert not examined(clinic).findings
        with (
            pytest.raises(Exception, match="another replay"),
            exclusive(ref, "dead"),
        ):
            pass
    assert examined(clinic).findings, "its lock was free again: looking takes none"


def test_what_a_stranger_took_back_is_forgiven(clinic: Clinic) -> None:
    before = half(clinic).version()
    commit_unnamed(clinic)
    table = half(clinic)
    assert commit_log.changes(table, table.version()).added
    table.restore(before)
    clinic.speed()
    assert not examined(clinic).findings


def test_late_events_that_somebody_will_publish_or_nobody_reads_are_no_finding(clinic: Clinic) -> None:
    day = date(2012, 12, 20)
    clinic.land([departed(200, date(2012, 12, 30))])
    clinic.speed(DAYS[:1])
    assert not examined(clinic).findings, "less than a week behind the watermark: its scheduled run may still come"
    late_nowhere(clinic)
    clinic.speed(DAYS[:1], V2)
    assert [finding.where.split(",")[0] for finding in examined(clinic).findings] == [f"{NAME} v1"], "v2 has no readers"
    set_route(clinic.settings, NAME, {2: 100}, by="anna", why="test")
    [found] = examined(clinic).findings
    assert (found.where.split(",")[0], found.severity) == (f"{NAME} v2", "doubtful")
    assert found.next_step == f"anabranch reprocess {NAME} --version 2 --missing"
    clinic.reprocess("history", [day], V2)
    assert not examined(clinic).findings


@pytest.mark.parametrize("seed", [cut_unnamed, cut_back, commit_unnamed_before, writer_foreign, fingerprint_other])
def test_what_a_new_checkpoint_has_replaced_is_mended(seed: Seed, clinic: Clinic) -> None:
    seed(clinic)
    assert examined(clinic).findings
    clinic.batches.pop("speed-v1")
    clinic.speed()
    assert not examined(clinic).findings


def test_a_day_that_went_back_is_mended_by_its_next_run(clinic: Clinic) -> None:
    published_back(clinic)
    clinic.reprocess("again", DAYS[:2])
    assert not examined(clinic).findings


def test_a_view_by_date_and_one_without_partitions(clinic: Clinic) -> None:
    by_day, kappa = sample_views().get("route_day"), sample_views().get("aircraft_now")
    clinic.views = (*clinic.views, by_day, kappa)
    day = {"day": DAYS[0], "origin": "JFK", "dest": "ATL", "carrier": "AA", PARTITION_DATE: DAYS[0], CHANGED: 1}
    plane = {"tailnum": "N1", CHANGED: 1}
    for view, row in ((by_day, day), (kappa, plane)):
        stream(clinic, view, [row])
    assert not examined(clinic).findings
    stream(clinic, by_day, [day, {**day, "dest": "BOS", PARTITION_DATE: DAYS[1]}])
    stream(clinic, kappa, [plane, plane])
    assert {finding.code for finding in examined(clinic).findings} == {"ROW_MISPLACED", "KEY_TWICE"}


def stream(clinic: Clinic, view: View, rows: list[dict[str, Any]]) -> None:
    """The first micro-batch of a stream, or that of a new checkpoint."""
    ref = VersionRef(clinic.settings, view.name, 1)
    data, owner = pa.Table.from_pylist(rows), f"{view.name}-{uuid4().hex}"
    table = SpeedTable(ref.speed_table, view, data.schema)
    staged = stage_arrow(data, table.uri, owner, table.partition)
    table.refresh(staged, table.note(f"{owner}:0", clinic.cut))
    checkpoint(ref.speed_checkpoint, owner, 0, [{"reservoirId": "x"}])


def test_what_only_one_look_finds_is_none(clinic: Clinic) -> None:
    """It was mended, or it was a commit that was just being made."""
    check = next(check for check in CHECKS if check.name == "drafts")
    draft_left(clinic)
    [path] = (clinic.settings.home / "control").glob(".one*")

    def once(platform: Any) -> Any:
        yield from check.run(platform)
        path.unlink()

    assert not examined(clinic, None, [replace(check, run=once)]).findings


def test_the_command_says_what_and_where_and_ends_with_1(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HOME", clinic.settings.home), ("KAFKA_PORT", 1024)):
        monkeypatch.setenv(f"ANABRANCH_{name}", str(value))
    told = CliRunner().invoke(app, ["doctor", "--json"])  # v2 is of the test's own: nothing declares it
    assert (told.exit_code, [each["code"] for each in json.loads(told.stdout)["findings"]]) == (0, ["WRITER_GONE"])
    shutil.rmtree(Path(VersionRef(clinic.settings, NAME, 2).speed_table).parent)
    quiet = CliRunner().invoke(app, ["doctor"])
    assert (quiet.exit_code, quiet.stdout.splitlines()) == (
        0,
        [f"all {len(CHECKS)} checks passed", "not checked: landing against the log: the broker doesn't answer"],
    )
    cut_beyond(clinic)
    loud = CliRunner().invoke(app, ["doctor"])
    assert loud.exit_code == 1
    assert "[CUT_BEYOND]\n  where: departure_delays v1, speed half" in loud.stdout
    assert "\n  next:  restore landing" in loud.stdout
