"""A command in a note or on a page answers for the version that it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.context import set_current_context
from anabranch.apps.airflow import _assets, _replay_tasks, _reprocess_tasks
from anabranch.apps.airflow._certify_form import certify_documentation
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow.static_views import Declared
from anabranch.change import publish_run
from anabranch.change.replay.state import CANCELLED, ReplayState, write_state
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit
PLAN = {"view": "delays", "version": 1, "run": "run-1", "cut": "flights@3", "partitions": ["2013-01-01"]}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    for module in (_replay_tasks, _reprocess_tasks):
        monkeypatch.setattr(module, "tell", lambda *_: None)
    monkeypatch.setattr(_assets, "announce", lambda *_: None)
    return Settings(home=tmp_path / "home")


def test_a_replay_that_published_nothing(settings: Settings) -> None:
    write_state(settings, ReplayState("delays", 1, "run-1", phase=CANCELLED, said="by anna"))
    context: Any = {"dag_run": SimpleNamespace(run_id="r")}
    with set_current_context(context), pytest.raises(NeedsFix, match="anabranch replay status delays --version 1"):
        _replay_tasks.outcome.function(PLAN)


def test_days_that_were_not_published(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = {"published": [], "refused": {"2013-01-01": "the halves differ"}}
    monkeypatch.setattr(publish_run, "publish_run", lambda *_: outcome)
    monkeypatch.setattr(publish_run, "save_outcome", lambda *_: outcome)
    monkeypatch.setattr("anabranch.apps.airflow._run_notes.outcome_note", lambda *_: "")
    run: Any = SimpleNamespace(run_id="r", start_date=None, run_after=None)
    monkeypatch.setattr(_reprocess_tasks, "_began", lambda _: datetime.now(UTC))
    command = "anabranch differences delays --version 1 --partition DAY"
    with pytest.raises(NeedsFix, match=command):
        _reprocess_tasks._publish(settings, run, PLAN)


@pytest.mark.parametrize(("current", "command"), [(True, "delays`"), (False, "delays --version 2`")])
def test_a_page_of_a_kappa_view(current: bool, command: str) -> None:
    """Without a version, a replay takes the one that most readers have."""
    view = Declared("delays", 2, ("e",), ("k",), None, "0 hours", "0 hours", "D.", "d.py", 1, current=current)
    assert f"`anabranch replay start {command}" in certify_documentation([view])
