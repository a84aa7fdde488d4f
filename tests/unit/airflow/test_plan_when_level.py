"""A migration's build is planned once the new version's stream is level: what landed meanwhile is in it, and days that
the old version has published meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anabranch.apps.airflow import _migrate_tasks
from anabranch.apps.airflow._migrate_tasks import WaitUntilCaughtUp
from anabranch.core.settings import Settings
from anabranch.views import Registry
from anabranch.views.project import Project
from support.landed_sample import DECLARED, FLIGHTS
from support.small_platform import DAYS, NAME, V1, V2, Clinic, departed

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    """v1 has published a day, v2 has a stream."""
    made = Clinic(Settings(home=tmp_path), (V1, V2))
    made.land([departed(1, DAYS[0]), departed(2, DAYS[1])])
    made.speed(DAYS[:2])
    made.speed(DAYS[:2], V2)
    made.reprocess("shown", DAYS[:1])
    registry = Registry((V1, V2), DECLARED)
    monkeypatch.setattr(Registry, "topic", lambda self, view: FLIGHTS)
    monkeypatch.setattr(Project, "readable_views", lambda self: registry)
    monkeypatch.setattr(_migrate_tasks, "load_settings", lambda: made.settings)
    monkeypatch.setattr(_migrate_tasks, "tell", lambda *_: None)
    return made


def context(**more: Any) -> Any:
    run = SimpleNamespace(dag_id="migrate", run_id="r", clear_number=0)
    return {"params": {"view": NAME, "why": "so", "from": 1, "to": 2, "behind": 0, **more}, "dag_run": run}


def planned(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(_migrate_tasks, "get_current_context", context)
    found: dict[str, Any] = _migrate_tasks.plan_migration.function()
    return found


def days_of(plan: dict[str, Any]) -> list[str]:
    return [day["partition"] for day in plan["partitions"]]


def level(plan: dict[str, Any]) -> Any:
    return WaitUntilCaughtUp(task_id="level", planned=plan).poke(context())


def test_its_cut_and_days_are_those_of_when_the_stream_is_level(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = planned(monkeypatch)
    assert (first["cut"], days_of(first)) == (str(clinic.cut), [str(DAYS[0])])
    clinic.land([departed(3, DAYS[0]), departed(4, DAYS[1])])
    clinic.speed(DAYS[:2])
    assert not level(first), "its stream doesn't cover what has landed since"
    clinic.speed(DAYS[:2], V2)
    clinic.reprocess("repair", DAYS[:2])
    then = level(first)
    assert then.is_done
    assert (then.xcom_value["cut"], then.xcom_value["events"]) == (str(clinic.cut), 4)
    assert days_of(then.xcom_value) == [str(day) for day in DAYS[:2]]
    kept = ("view", "old", "new", "run")
    assert [then.xcom_value[name] for name in kept] == [first[name] for name in kept]


def test_days_that_were_built_meanwhile_are_not_built_again(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the new version's own schedule: a plan of before would be refused when it is built."""
    first = planned(monkeypatch)
    clinic.reprocess("nightly", DAYS[:1], V2)
    then = level(first)
    assert then.xcom_value["partitions"] == []
    assert then.xcom_value["run"] == first["run"]
