"""A scheduled certification is skipped where it would find nothing new, or would read very much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from anabranch.apps.airflow._certify_tasks import _rows, _skip_if_needless
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
    with pytest.raises(AirflowSkipException, match="1,001 events, and more than 1,000 need a person"):
        _skip_if_needless(settings, RUN, replace(PLAN, cut=at(4), events=1_001))


def test_it_goes_on_where_anything_is_new(settings: Settings) -> None:
    _skip_if_needless(settings, RUN, replace(PLAN, cut=at(4)))
    _skip_if_needless(settings, RUN, replace(PLAN, fingerprint="g"))
    certify(settings, "run-l", [None], 3, view="aircraft_now", differs=[None])
    _skip_if_needless(settings, RUN, PLAN)


def test_a_note_has_the_rows_of_a_report_without_its_frames() -> None:
    report = "┏━━━┳━━━┓\n┃ k ┃ row is ┃\n┡━━━╇━━━┩\n│ N1 │ changed │\n└───┴───┘\n"
    assert _rows(report) == "k | row is\nN1 | changed"
