"""The DAG ``retire``: refused at once while readers need the version; its tables go when a person says so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anabranch.apps.airflow import _retire_tasks
from anabranch.apps.airflow._retire_tasks import DropApproval
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve import routes
from anabranch.serve.routes import route_of, set_route
from support import small_halves
from support.small_halves import VIEW

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def asked(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The parameters of a run over a platform whose readers have all moved on."""
    monkeypatch.setattr(routes, "PATIENCE", 0.3)
    for version in (1, 2):
        small_halves.start_speed(settings, 3, version=version)
    set_route(settings, VIEW, {1: 1, 2: 99}, by="anna", why="nearly")
    set_route(settings, VIEW, {2: 100}, by="anna", why="all")
    params: dict[str, Any] = {"view": VIEW, "version": 1, "why": "v2 is it", "grace": "0 days"}
    context = {"params": params, "dag_run": SimpleNamespace(dag_id="retire", run_id="by-hand")}
    monkeypatch.setattr(_retire_tasks, "get_current_context", lambda: context)
    monkeypatch.setattr(_retire_tasks, "load_settings", lambda: settings)
    monkeypatch.setattr(_retire_tasks, "tell", lambda _, run, text: params.setdefault("said", []).append(text))
    return params


def test_it_is_retired_once_and_dropped_when_a_person_says_so(asked: dict[str, Any], settings: Settings) -> None:
    ref = VersionRef(settings, VIEW, 1)
    planned = _retire_tasks.retire.function()
    assert planned == {"view": VIEW, "version": 1, "size": planned["size"]}
    assert _retire_tasks.retire.function() == planned, "a step that is repeated must change nothing"
    route = route_of(settings, VIEW)
    assert route is not None
    assert (route.number, route.retired, route.changed_by, route.why) == (3, frozenset({1}), "run by-hand", "v2 is it")
    subject, text = DropApproval(task_id="approve", planned=planned).question()
    assert subject == f"Delete the tables of {VIEW} v1?"
    assert "can only be rebuilt from history" in text
    assert ref.folder.exists()
    assert _retire_tasks.drop.function(planned) == planned["size"] > 0
    assert not ref.folder.exists()
    assert asked["said"][-1] == f"{VIEW} v1 is retired and its tables are deleted."


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("version", 2, "READERS_LEFT"),
        ("version", 9, "VERSION_UNKNOWN"),
        ("version", None, "VERSION_UNSAFE"),
        ("grace", "7 days", "GRACE"),
        ("view", "../../etc", "NAME_UNSAFE"),
        ("why", " ", "REASON_MISSING"),
    ],
)
def test_it_is_refused_for_good(
    asked: dict[str, Any], settings: Settings, field: str, value: object, code: str
) -> None:
    asked[field] = value
    with pytest.raises(NeedsFix, match=code):
        _retire_tasks.retire.function()
    route = route_of(settings, VIEW)
    assert route is not None
    assert route.retired == frozenset()
