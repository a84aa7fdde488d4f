"""What the task ``move`` does at each look: begins, goes on, waits, ends; with another process's steps in between."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from anabranch.apps.airflow import _migrate_tasks
from anabranch.apps.airflow._migrate_tasks import ShiftReaders, WaitUntilCaughtUp
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.change.migrate import promotion_checks
from anabranch.change.migrate.migration import rollback, skip_soak
from anabranch.change.migrate.migration_record import migration_of
from anabranch.change.migrate.promotion_checks import CheckOutcome, run_checks
from anabranch.change.migrate.run_heartbeat import last_heartbeat
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import create
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.serve import routes
from anabranch.serve.routes import route_history
from anabranch.views import Registry, View
from anabranch.views.project import Project
from support import small_halves
from support.small_halves import VIEW

pytestmark = pytest.mark.unit
VERSIONS = [
    View(VIEW, version, ("flight.departed",), ("window_start",), lambda rows: rows, partition_by="window_start")
    for version in (1, 2)
]
PLANNED = {"view": VIEW, "old": 1, "new": 2, "run": "run-1", "text": "delays v1 to v2"}


class Moving:
    """The task with its run's parameters, and what it said."""

    def __init__(self, settings: Settings, run: str = "run-1", **params: Any) -> None:
        self.settings = settings
        self.said: list[str] = []
        self.task = ShiftReaders(task_id="move", planned=PLANNED | {"run": run})
        answer = {"responded_by_user": {"id": "1", "name": "anna"}, "chosen_options": ["Approve"]}
        asked = {"view": VIEW, "why": "better", "soak": "1 hour", "steps": "5,50,100"}
        self.context: Any = {
            "params": asked | params,
            "dag_run": SimpleNamespace(dag_id="migrate", run_id="r"),
            "ti": SimpleNamespace(xcom_pull=lambda task_ids: answer),
        }

    def look(self) -> bool:
        return self.task.poke(self.context)

    @property
    def state(self) -> tuple[str, int]:
        found = migration_of(self.settings, VIEW)
        assert found is not None
        return found[1].state, found[1].share


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(routes, "PATIENCE", 0.3)
    settings = Settings(home=tmp_path)
    for version in (1, 2):
        small_halves.start_speed(settings, 3, version=version)
    registry = Registry(VERSIONS)
    monkeypatch.setattr(Registry, "topic", lambda self, view: None)
    monkeypatch.setattr(Project, "readable_views", lambda self: registry)
    monkeypatch.setattr(_migrate_tasks, "load_settings", lambda: settings)
    return settings


@pytest.fixture
def moving(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Moving:
    made = Moving(settings)
    monkeypatch.setattr(_migrate_tasks, "tell", lambda _, run, text: made.said.append(text))
    return made


def test_it_begins_in_the_name_of_who_approved_and_takes_the_first_step(moving: Moving, settings: Settings) -> None:
    assert moving.look() is False
    assert moving.state == ("moving", 5)
    assert [(r.changed_by, r.why) for r in route_history(settings, VIEW)] == [
        ("anna", "better"),
        ("run r", "step 1 of 3"),
    ]
    assert moving.said[-1] == ("delays v1 to v2: moving, 5 % have v2 (steps [5], 50, 100): step 1 of 3 (by run r)")
    assert moving.look() is False
    assert moving.state == ("moving", 5), "it didn't soak"


def test_each_look_is_seen_by_who_asks_whether_anybody_carries_it(moving: Moving, settings: Settings) -> None:
    for _ in range(2):  # while it moves, and while it soaks
        assert last_heartbeat(settings, VIEW, "run-1") is None
        moving.look()
        assert last_heartbeat(settings, VIEW, "run-1") is not None
        assert last_heartbeat(settings, VIEW, "run-2") is None
        (settings.home / "control" / "migrations" / f"{VIEW}.json").unlink()


def test_without_a_soak_time_it_goes_the_whole_way_and_says_each_step(settings: Settings, moving: Moving) -> None:
    moving.context["params"]["soak"] = "0 seconds"
    assert moving.look() is True
    assert moving.state == ("done", 100)
    assert [text.split("(by")[0].split("): ")[1].strip() for text in moving.said] == [
        "better", "step 1 of 3", "step 2 of 3", "step 3 of 3", "soaked at 100 %",
    ]  # fmt: skip
    assert moving.look() is True, "it was killed after its last commit"


def test_another_process_goes_on_where_a_killed_one_was(moving: Moving, settings: Settings) -> None:
    moving.look()
    skip_soak(settings, VIEW, by="bob", why="now")
    assert Moving(settings).look() is False
    assert moving.state == ("moving", 50)


def test_a_rollback_by_a_person_ends_it_red_with_their_reason(moving: Moving, settings: Settings) -> None:
    moving.look()
    rollback(settings, VIEW, by="bob", why="wrong numbers")
    with pytest.raises(NeedsFix, match=r"rolled back(.*)wrong numbers \(by bob\)\n  state: all readers have v1"):
        moving.look()


def test_a_check_that_fails_ends_it_red_with_what_failed(moving: Moving, settings: Settings) -> None:
    moving.look()
    skip_soak(settings, VIEW, by="bob", why="now")
    small_halves.merge_speed(settings, 4, small_halves.DAYS[:1])
    small_halves.merge_speed(settings, 4, small_halves.DAYS[1:2], version=2)
    with pytest.raises(NeedsFix, match="differ in written_by"):
        moving.look()
    assert moving.state == ("rolled back", 0)


def test_a_step_that_a_person_takes_at_the_same_moment_is_seen(
    moving: Moving, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anabranch.change.migrate import migration

    moving.look()
    skip_soak(settings, VIEW, by="bob", why="now")

    def slow(*given: Any, **more: Any) -> CheckOutcome:
        monkeypatch.setattr(migration, "run_checks", run_checks)
        rollback(settings, VIEW, by="eve", why="stop")
        return run_checks(*given, **more)

    monkeypatch.setattr(migration, "run_checks", slow)
    with pytest.raises(NeedsFix, match=r"stop \(by eve\)"):
        moving.look()


def test_a_failing_check_leads_back_at_once_to_a_version_that_is_behind(moving: Moving, settings: Settings) -> None:
    moving.context["params"] |= {"checks": ["written_by < 4"]}
    moving.look()
    skip_soak(settings, VIEW, by="bob", why="now")
    small_halves.merge_speed(settings, 4, small_halves.DAYS[:1], version=2)
    with pytest.raises(NeedsFix, match="break written_by < 4"):
        moving.look()
    assert moving.state == ("rolled back", 0)


def test_that_a_check_can_not_be_made_is_told(moving: Moving, settings: Settings) -> None:
    ref = VersionRef(settings, VIEW, 2)
    moving.look()
    shutil.rmtree(ref.speed_table)
    created = CommitMetadata("view/delays/v2/speed", "create", Cut())
    create(ref.speed_table, small_halves.SPEED_SCHEMA, ["partition_date"], created)
    assert moving.look() is False
    assert "Waits: no micro-batch of delays has been committed yet" in moving.said[-1]


def test_a_second_migration_of_the_view_is_refused_for_good(moving: Moving, settings: Settings) -> None:
    moving.look()
    with pytest.raises(NeedsFix, match="MIGRATION_ACTIVE"):
        Moving(settings, run="run-2").look()
    assert moving.state == ("moving", 5)


def test_a_breaking_change_that_nobody_declared_is_refused_before_anything_is_built_or_asked(
    moving: Moving, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(VersionRef(settings, VIEW, 2).speed_table)
    kept = pa.schema([field for field in small_halves.SPEED_SCHEMA if field.name != "mean_delay"])
    small_halves.start_speed(settings, 3, version=2, schema=kept)
    context = moving.context | {"dag_run": SimpleNamespace(dag_id="migrate", run_id="r", clear_number=0)}
    monkeypatch.setattr(_migrate_tasks, "get_current_context", lambda: context)
    sentence = "v2 breaks readers of v1, and this was not declared: mean_delay is removed"
    with pytest.raises(NeedsFix, match=sentence):
        _migrate_tasks.plan_migration.function()
    with pytest.raises(NeedsFix, match=sentence):  # the table may come later than the plan
        _migrate_tasks.compare.function(PLANNED)
    with pytest.raises(NeedsFix, match=sentence):  # nobody leads readers past it
        moving.look()
    assert route_history(settings, VIEW) == []
    moving.context["params"]["changed"] = ["mean_delay"]
    assert _migrate_tasks.plan_migration.function()["new"] == 2
    shown = _migrate_tasks.compare.function(PLANNED).splitlines()
    assert shown[2] == "BREAKING, declared: mean_delay is removed", "what the approval shows begins with it"


@pytest.mark.parametrize(
    "wait", [BadInput("VIEW_UNKNOWN", "no table yet"), TryAgain("VIEW_NOT_READY", "no commit yet")]
)
def test_a_stream_that_has_not_begun_is_waited_for(monkeypatch: pytest.MonkeyPatch, wait: AnabranchError) -> None:
    assert not caught_up(monkeypatch, wait)


def test_a_version_that_was_retired_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NeedsFix, match="VERSION_RETIRED"):
        caught_up(monkeypatch, BadInput("VERSION_RETIRED", "v2 is retired"))


def caught_up(monkeypatch: pytest.MonkeyPatch, error: AnabranchError) -> bool:
    def fails(_: VersionRef) -> int:
        raise error

    monkeypatch.setattr(promotion_checks, "epochs_behind", fails)
    context: Any = {"params": {"behind": 5}}
    return bool(WaitUntilCaughtUp(task_id="wait", planned=PLANNED).poke(context))
