"""A scheduled certification is skipped where it would find nothing new, or would read very much."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException
from anabranch.apps.airflow import _approval
from anabranch.apps.airflow._certify_tasks import _rows, _skip_if_needless, certify_steps
from anabranch.change.certify_plan import CertifyPlan
from anabranch.core.settings import Settings, load_settings
from support.page_data import at, certify

pytestmark = pytest.mark.unit
RUN = SimpleNamespace(dag_id="reprocess_aircraft_now", run_id="scheduled__1")
PLAN = CertifyPlan("aircraft_now", 1, "f", at(3), None, 900, None, None, 0, None)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = load_settings(home=tmp_path / "home", approval_events=1_000, airflow_url="http://127.0.0.1:9")
    certify(found, "run-k", [None], 3, view="aircraft_now")
    return found


def test_it_is_certified_there_already(settings: Settings) -> None:
    with pytest.raises(AirflowSkipException, match="certified at flights@3, where its stream still is"):
        _skip_if_needless(settings, RUN, PLAN)


def test_a_person_decides_about_very_many_events(settings: Settings) -> None:
    way = ": trigger this DAG, or anabranch certify aircraft_now --version 1"
    with pytest.raises(AirflowSkipException, match=f"1,001 events, and more than 1,000 need a person{way}"):
        _skip_if_needless(settings, RUN, replace(PLAN, cut=at(4), events=1_001))


def test_it_goes_on_where_anything_is_new(settings: Settings) -> None:
    _skip_if_needless(settings, RUN, replace(PLAN, cut=at(4)))
    _skip_if_needless(settings, RUN, replace(PLAN, fingerprint="g"))
    certify(settings, "run-l", [None], 3, view="aircraft_now", differs=[None])
    _skip_if_needless(settings, RUN, PLAN)


def test_a_note_has_the_rows_of_a_report_without_its_frames() -> None:
    report = "┏━━━┳━━━┓\n┃ k ┃ row is ┃\n┡━━━╇━━━┩\n│ N1 │ changed │\n└───┴───┘\n"
    assert _rows(report) == "k | row is\nN1 | changed"


def test_a_rejection_skips_all_that_follows_whatever_else_was_skipped() -> None:
    """``certify`` runs although no replay was asked for, so it would run after a rejection, too."""
    with DAG("reprocess_aircraft_now", schedule=None) as dag:
        certify_steps("aircraft_now", 1)
    approve: Any = dag.get_task("approve")
    answer = {
        "chosen_options": ["Reject"], "params_input": {}, "responded_by_user": {"id": "1", "name": "anna"},
        "responded_at": datetime(2026, 11, 22, tzinfo=UTC), "response_received": True,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        skipped: list[str] = []
        patch.setattr(_approval, "tell", lambda *_: None)
        patch.setattr(type(approve), "skip", lambda _, ti, tasks: skipped.extend(each.task_id for each in tasks))
        patch.setattr(type(approve), "summary", lambda _: "")
        patch.setattr(type(approve), "log", logging.getLogger(__name__))  # Airflow's own, once set up, has no level
        approve.execute_complete({"task": approve, "ti": None, "dag_run": RUN}, answer)
    assert {"replay", "certify", "judge"} <= set(skipped)
