"""The plan of a run that publishes what is missing, and what the plan of a repair says of what it leaves."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.execution_time.context import set_current_context
from anabranch.apps.airflow import _reprocess_tasks
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow._run_notes import planned_note
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.views.project import Project
from support.small_platform import DAYS, NAME, Clinic, departed

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    """Late events of two days that were never published. No Airflow answers: the note is only logged."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(_reprocess_tasks, "api_address", lambda _: "http://127.0.0.1:9")
    made = Clinic(Settings(home=tmp_path / "home"))
    made.land([departed(10, DAYS[4])], [departed(1, DAYS[0]), departed(2, DAYS[0]), departed(3, DAYS[1])])
    made.speed(DAYS[4:])
    return made


def planned(task: Any, *arguments: Any, run_type: str = "manual", **params: Any) -> dict[str, Any]:
    run = SimpleNamespace(
        dag_id="reprocess", run_id="r", run_type=run_type, clear_number=0, partition_key=None, logical_date=None,
        run_after=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    context: Any = {"dag_run": run, "params": params}
    with set_current_context(context):
        found: dict[str, Any] = task.function(*arguments)
    return found


def test_one_run_takes_every_day_that_has_late_events_or_was_never_published(clinic: Clinic) -> None:
    plan = planned(_reprocess_tasks.plan, NAME, missing=True, version=1)
    assert (plan["days"], plan["late"], plan["late_missing"]) == ("2013-01-01..2013-01-02,2013-01-05", 3, 3)
    assert "3 never published days; 3 late events are in no half" in plan["text"]
    assert "All days that were never published or lack late events (3 of them)." in planned_note(plan)
    clinic.reprocess("all", [DAYS[0], DAYS[1], DAYS[4]])
    with pytest.raises(AirflowSkipException, match="every day with events is published, and no late event is in"):
        planned(_reprocess_tasks.plan, NAME, missing=True)


def test_a_form_that_names_days_as_well_is_refused(clinic: Clinic) -> None:
    form: dict[str, Any] = {"missing": True, "from": "2013-01-01"}
    with pytest.raises(NeedsFix, match="RANGE_TWICE"):
        planned(_reprocess_tasks.plan, NAME, **form)


def test_a_repair_takes_published_days_only_and_says_what_it_leaves(
    clinic: Clinic, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(AirflowSkipException, match="every published day of departure_delays includes"),
    ):
        planned(_reprocess_tasks.plan_repair, NAME, 1)
    left = "2 days of departure_delays with late events were never published, 2013-01-01 to 2013-01-02"
    assert (
        f"Nothing to do: every published day of departure_delays includes everything that has landed for it. {left}"
        in (caplog.text)
    )
    assert f"{left}: they are not repaired; anabranch reprocess departure_delays --version 1 --missing" in caplog.text
    caplog.clear()
    clinic.reprocess("all", [DAYS[0], DAYS[1]])
    clinic.land([departed(4, DAYS[1])])
    assert planned(_reprocess_tasks.plan_repair, NAME, 1)["days"] == "2013-01-02"
    assert "never published" not in caplog.text


def test_a_schedule_builds_the_version_of_its_dag_and_a_form_the_one_that_it_names(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int | None]()

    def view(project: Any, name: str, version: int | None = None) -> Any:
        asked.append(version)
        return known(project, name, 1)

    known = Project.view
    monkeypatch.setattr(Project, "view", view)
    for run_type in ("scheduled", "manual", "backfill"):
        planned(_reprocess_tasks.plan, NAME, 2, run_type=run_type, missing=True, version=1)
    assert asked == [2, 1, 1]


@pytest.fixture
def nothing_landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(_reprocess_tasks, "api_address", lambda _: "http://127.0.0.1:9")


@pytest.mark.usefixtures("nothing_landed")
def test_a_scheduled_run_is_skipped_before_anything_has_landed_and_a_requested_one_waits() -> None:
    """Red nights, retries and notifiers of a topic that nobody has sent anything to yet."""
    with pytest.raises(AirflowSkipException, match="nothing of topic flights has landed yet"):
        planned(_reprocess_tasks.plan, NAME, 1, run_type="scheduled")
    with pytest.raises(TryAgain, match="LANDING_EMPTY"):
        planned(_reprocess_tasks.plan, NAME, run_type="manual", **{"from": "2013-01-01"})
    with pytest.raises(AirflowSkipException):
        planned(_reprocess_tasks.plan_repair, NAME, 1, run_type="scheduled")
