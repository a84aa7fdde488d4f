"""An answer that Airflow couldn't carry out in time counts at the next try; who clears the task is asked anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from anabranch.apps.airflow import _approval
from anabranch.apps.airflow._approval import NO_BREAK, PlanApproval
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow.client import Client
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.operate.runtime import secret_files

pytestmark = pytest.mark.unit
PLAN = {
    "view": "delays", "version": 1, "span": "2013-01-01", "events": 20, "late": 1, "cut": "flights@3",
    "text": "`plan`\r\n  day   1",
}  # fmt: skip
ANSWER = {
    "response_received": True,
    "chosen_options": ["Approve"],
    "params_input": {},
    "responded_at": "2026-11-22T09:00:00Z",
    "responded_by_user": {"id": "1", "name": "anna"},
}


class Asked(Exception):
    """What Airflow's own part would wait for."""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(_approval, "load_settings", lambda: Settings(approval_events=10))
    monkeypatch.setattr(_approval, "tell", lambda _, run, text: told.append(text))

    def wait(*_: Any) -> None:
        raise Asked

    monkeypatch.setattr(ApprovalOperator, "execute", wait)
    return told


def context(tries: int, most: int = 1) -> Any:
    run = SimpleNamespace(dag_id="reprocess", run_id="r")
    return {"ti": SimpleNamespace(try_number=tries, max_tries=most), "dag_run": run}


def task(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None) -> PlanApproval:
    monkeypatch.setattr(_approval, "hitl_detail", lambda *_: answer)
    return PlanApproval(task_id="approve", planned=PLAN, retries=1)


def test_it_asks_line_by_line_and_nothing_of_the_plan_ends_a_line(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = task(monkeypatch, None)
    with pytest.raises(Asked):
        asks.execute(context(1))
    assert asks.subject == "delays v1: 2013-01-01, 20 events to read"
    plan = f"`'plan'`  \n`{NO_BREAK * 2}day{NO_BREAK * 3}1`  "
    assert asks.body == f"`More than 10 events need a person's approval.`  \n\n{plan}"
    assert said[-1].endswith("Waits for a person's approval, under Required actions.")


def test_an_answer_that_came_too_soon_is_not_asked_for_again(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answer = task(monkeypatch, ANSWER).execute(context(2))
    assert answer["chosen_options"] == ["Approve"]
    assert said[-1].startswith("Approved by anna.")


def test_a_refusal_is_not_asked_for_again(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a task that fails when it is rejected: its second try finds the same answer."""
    monkeypatch.setattr(_approval, "hitl_detail", lambda *_: {**ANSWER, "chosen_options": ["Reject"]})
    asks = PlanApproval(task_id="approve", planned=PLAN, retries=1, fail_on_reject=True)
    with pytest.raises(NeedsFix, match=r"rejected by anna\n  state: nothing was rebuilt"):
        asks.execute(context(2))
    assert said[-1].startswith("Rejected by anna: nothing was rebuilt.")


@pytest.mark.parametrize(
    ("answer", "tries", "most"),
    [(ANSWER, 1, 1), ({**ANSWER, "response_received": False}, 2, 1), (None, 2, 1), (ANSWER, 3, 3)],
    ids=["first try", "no answer yet", "never asked", "cleared"],
)
@pytest.mark.usefixtures("said")
def test_else_it_asks(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None, tries: int, most: int) -> None:
    with pytest.raises(Asked):
        task(monkeypatch, answer).execute(context(tries, most))


@pytest.mark.parametrize(("status", "asks"), [(404, True), (403, False)], ids=["never asked", "not allowed"])
@pytest.mark.usefixtures("said")
def test_a_first_try_that_ended_before_it_asked_is_followed_by_one_that_asks(
    monkeypatch: pytest.MonkeyPatch, status: int, asks: bool
) -> None:
    """Airflow answers 404 for a question that there isn't; any other refusal hides whether there is an answer."""
    request = httpx.Request("GET", "http://airflow.test/api/v2/dags")
    answer = httpx.Response(status, json={"detail": "as it is"}, request=request)
    monkeypatch.setattr(Client, "send", lambda *_: answer)
    monkeypatch.setattr(secret_files, "airflow_login", lambda _: ("anna", "x"))
    with pytest.raises(Asked if asks else BrokenState):
        PlanApproval(task_id="approve", planned=PLAN, retries=1).execute(context(2))


def test_a_small_plan_needs_nobody(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert PlanApproval(task_id="approve", planned={**PLAN, "events": 10}).execute(context(1)) is None
    assert said == []
