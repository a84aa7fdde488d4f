"""The DAG that maintains: when it runs, and what its one task says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.airflow import _maintain_tasks
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.core.errors import Conflict
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.operate.maintenance import _runner
from anabranch.operate.maintenance._report import Action, ActionKind, Report
from support.parsed_dags import HEAVY, Parse

pytestmark = pytest.mark.unit
MERGED = Action(ActionKind.MERGED, "landing of flights", "small files", 1_200, 8_100_000, 3)


def test_it_is_parsed_in_under_a_second_without_a_connection(tmp_path: Path, parse: Parse) -> None:
    parsed = parse(tmp_path, project_root(), "maintain")
    assert parsed["cpu"] < 1.0
    assert parsed["opened"] == []
    assert HEAVY.isdisjoint(parsed["loaded"])
    dag = parsed["dags"]["dag"]
    assert (dag["id"], dag["tags"], dag["catchup"], dag["retries"]) == (
        "maintain",
        ["maintenance"],
        False,
        {"maintain": 3},
    )
    assert "anabranch maintain --plan" in dag["doc"]


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, done: Report | Exception) -> tuple[Any, list[str]]:
    told: list[str] = []

    def maintain(_: Settings) -> Report:
        if isinstance(done, Exception):
            raise done
        return done

    monkeypatch.setattr(os, "nice", lambda _: 19)
    monkeypatch.setattr(_maintain_tasks, "load_settings", lambda: Settings(home=tmp_path))
    monkeypatch.setattr(_maintain_tasks, "get_current_context", lambda: {"dag_run": None})
    monkeypatch.setattr(_maintain_tasks, "tell", lambda _, __, text: told.append(text))
    monkeypatch.setattr(_runner, "maintain", maintain)
    return _maintain_tasks.maintain.function, told


def test_its_note_says_what_was_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    step, told = run(monkeypatch, tmp_path, Report((MERGED,), 2.0))
    assert step()["deeds"][0]["files"] == 1_200
    assert told[0].splitlines() == [
        "merged      landing of flights: 1,200 small files (8.10 MB) into 3",
        "1,200 files merged into 3, 0.00 MB freed, in 2.0 s",
    ]


def test_it_is_red_when_something_failed_and_says_the_rest_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    step, told = run(
        monkeypatch, tmp_path, Report((MERGED, Action(ActionKind.FAILED, "routes of x", "it is gone")), 2.0)
    )
    with pytest.raises(NeedsFix, match="some tables failed") as red:
        step()
    assert "routes of x: it is gone" in red.value.details
    assert "landing of flights" in red.value.details
    assert told == []


def test_while_another_one_runs_it_fails_for_good(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    step, told = run(monkeypatch, tmp_path, Conflict("MAINTENANCE_RUNNING", "another run is under way"))
    with pytest.raises(NeedsFix, match="MAINTENANCE_RUNNING"):
        step()
    assert told == []
