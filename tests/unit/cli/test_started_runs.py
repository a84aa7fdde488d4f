"""A command that starts a run of Airflow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.apps.cli._run_progress import carried_out
from anabranch.core.errors import BadInput, BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.operate.runtime import secret_files

pytestmark = pytest.mark.unit


def test_an_approval_that_nobody_would_give_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--no-wait doesn't wait for") as refused:
        carried_out(Settings(home=tmp_path), "reprocess_delays", {}, wait=False, approve=True)
    assert (refused.value.code, refused.value.state) == ("PARAMETER", "nothing was started")


class Watched:
    """A run that is looked at, state by state. ``replies``: what comes of each approval that is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *replies: Exception | None) -> None:
        self.ids, self.replies, self.answered = list[str](), list(replies), 0
        self.looks: list[Run | Exception] = []
        monkeypatch.setattr(secret_files, "airflow_login", lambda _: ("anna", "x"))
        monkeypatch.setattr(Client, "trigger", self._trigger)
        monkeypatch.setattr(Client, "run", self._look)
        monkeypatch.setattr(Client, "respond", self._respond)
        monkeypatch.setattr("time.sleep", lambda _: None)

    def _trigger(self, dag: str, _conf: object, *, run_id: str) -> Run:
        self.ids.append(run_id)
        return Run(dag, run_id, "queued", "http://airflow.test")

    def _look(self, *_: str) -> Run:
        found = self.looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def _respond(self, *_: Any) -> None:
        self.answered += 1
        if (reply := self.replies.pop(0)) is not None:
            raise reply


def look(state: str, task: str) -> Run:
    return Run("delays", "r", state, "http://airflow.test", tasks={"approve": task})


AWAY = TryAgain("AIRFLOW_UNREACHABLE", "Airflow doesn't answer")


def test_a_command_that_waits_outlives_a_restart_of_airflow_and_names_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Watched(monkeypatch)
    run.looks = [look("running", "running"), AWAY, AWAY, look("running", "running"), AWAY, look("success", "success")]
    carried_out(Settings(home=tmp_path), "reprocess_delays", {}, wait=True, approve=False)
    (name,) = run.ids
    assert re.fullmatch(r"cli__\d{8}T\d{6}Z-[0-9a-f]{8}", name)
    assert capsys.readouterr().err.count("Airflow doesn't answer") == 2, "once each time that it is away"


def test_an_approval_whose_reply_is_lost_is_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Watched(monkeypatch, AWAY, BrokenState("AIRFLOW_REFUSED", "answered before", status=409))
    run.looks = [*[look("running", "awaiting_input")] * 3, look("success", "success")]
    carried_out(Settings(home=tmp_path), "reprocess_delays", {}, wait=True, approve=True)
    assert run.answered == 2
