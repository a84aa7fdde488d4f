"""What the note of a failed run says, and when it is written."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import AirflowException
from anabranch.apps.airflow import _run_failure
from anabranch.apps.airflow._reprocess_tasks import failing
from anabranch.apps.airflow._retry_policy import DEFAULT_ARGS, NeedsFix
from anabranch.apps.airflow._run_failure import failure_text, lost_text
from anabranch.apps.airflow._run_notes import as_note
from anabranch.core.errors import BadInput, TryAgain

pytestmark = pytest.mark.unit
REFUSED = BadInput("RANGE_REVERSED", "to is before from", state="nothing was started", next_step="swap them")


def needs_fix() -> NeedsFix:
    with pytest.raises(NeedsFix) as caught, failing():
        raise REFUSED
    return caught.value


def test_it_says_what_failed_the_state_and_the_next_step() -> None:
    wanted = [
        "Failed in plan: to is before from [RANGE_REVERSED]",
        "State: nothing was started",
        "Next: swap them",
    ]
    assert failure_text("plan", needs_fix()).splitlines() == wanted
    assert failure_text("plan", REFUSED).splitlines() == wanted


def test_an_error_that_nobody_has_foreseen_says_what_is_true_of_each_step() -> None:
    what, state, then = failure_text("publish", KeyError("rows")).splitlines()
    assert what == "Failed in publish: KeyError: 'rows'"
    assert state.startswith("State: a step commits all of its work or nothing")
    assert then.startswith("Next: read its log, then clear it")


def test_a_job_of_spark_speaks_for_itself() -> None:
    text = failure_text("rebuild", AirflowException(str(TryAgain("BROKER_UNREACHABLE", "away", next_step="wait"))))
    assert text.splitlines() == ["Failed in rebuild: away [BROKER_UNREACHABLE]", "Next: wait"]


def test_a_task_that_was_killed_is_said_to_be() -> None:
    assert lost_text("rebuild", 4, 4).startswith("Failed in rebuild: its process was killed")
    assert "in try 4 of 4" in lost_text("rebuild", 4, 4)


def test_airflow_does_not_join_its_lines() -> None:
    assert as_note("a\nb ") == "a  \nb"


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    written = list[Any]()
    monkeypatch.setattr(_run_failure, "write_note", lambda *given: written.append(given[2:]))
    return written


def evaluate(error: BaseException, number: int) -> RetryAction:
    ti, run = SimpleNamespace(task_id="plan", try_number=number), SimpleNamespace(dag_id="reprocess", run_id="r")
    context: Any = {"ti": ti, "dag_run": run}
    decision: RetryAction = DEFAULT_ARGS["retry_policy"].evaluate(error, number, 3, context).action
    return decision


def test_what_a_person_has_to_mend_is_noted_at_once_and_not_tried_again(noted: list[Any]) -> None:
    """Before Airflow reports the end of the task, so that whoever waits for it can read why."""
    assert evaluate(needs_fix(), 1) == RetryAction.FAIL
    ((dag, run, text, of_tasks),) = noted
    assert (dag, run) == ("reprocess", "r")
    assert text.startswith("Failed in plan: to is before from")
    assert of_tasks == {"plan": text + "\n(try 1)"}


def test_what_another_try_may_mend_is_noted_when_there_is_none(noted: list[Any]) -> None:
    error = TryAgain("BROKER_UNREACHABLE", "the broker is away")
    assert [evaluate(error, number) for number in (1, 2, 3)] == [RetryAction.DEFAULT] * 3
    assert noted == []
    assert evaluate(error, 4) == RetryAction.DEFAULT
    assert noted[0][2].startswith("Failed in plan: the broker is away")
    assert (DEFAULT_ARGS["retries"], DEFAULT_ARGS["retry_delay"]) == (3, timedelta(seconds=10))


def test_details_follow_the_reason(noted: list[Any]) -> None:
    evaluate(NeedsFix("1 of 2 partitions were not published: 2013-01-01", "Rebuilt 2 days.\nCertificates: 1 of 2"), 1)
    assert noted[0][2].splitlines()[1:] == ["Rebuilt 2 days.", "Certificates: 1 of 2"]
