"""A run that was planned goes on only as long as what its plan has counted is so: at its rebuild, and at its commit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow._spark_job import RebuildJob
from anabranch.change.publish_run import publish_run
from anabranch.change.reprocess_plan import check_still_counted, check_still_published, make_plan, published_in_plan
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.batch.publish import publications
from anabranch.compute.batch.rebuild import cut_at
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit import accepted_losses
from anabranch.lake.cut import parse_epochs
from anabranch.lake.layout import landing_table
from anabranch.serve.retirement import drop, retire
from anabranch.serve.routes import set_route
from anabranch.views.model.handle import ViewHandle
from deltalake import DeltaTable
from support.landed_sample import FLIGHTS
from support.small_platform import DAYS, NAME, V1, V2, Clinic, departed

pytestmark = pytest.mark.unit
PLANNED = DAYS[:3]
RUN = "approved"


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    """Days of events, two of them published."""
    clinic = Clinic(Settings(home=tmp_path / "home"))
    clinic.land([departed(number, day) for number, day in enumerate(DAYS)])
    clinic.speed()
    clinic.reprocess("first", DAYS[:2])
    clinic.land([departed(10, DAYS[0])])
    return clinic


def plan(clinic: Clinic, days: list[date] = PLANNED, run: str = RUN) -> dict[str, Any]:
    return {
        **make_plan(clinic.handle(), ReprocessRequest(tuple(days), {}, explicit=True)).to_json(),
        "run": run,
    }


def built(clinic: Clinic, planned: dict[str, Any]) -> None:
    clinic.build(planned["run"], PLANNED)
    clinic.certify(planned["run"], PLANNED)


def by_another_run_newer(clinic: Clinic) -> list[date]:
    clinic.land([departed(20, DAYS[1])])
    clinic.reprocess("second", DAYS[1:2])
    return DAYS[1:2]


def by_another_run_at_the_same_cut(clinic: Clinic) -> list[date]:
    clinic.reprocess("second", DAYS[1:2])
    return DAYS[1:2]


def of_a_day_that_was_not_published(clinic: Clinic) -> list[date]:
    clinic.reprocess("second", DAYS[2:4])
    return DAYS[2:3]


PUBLISHED = (by_another_run_newer, by_another_run_at_the_same_cut, of_a_day_that_was_not_published)


def state(clinic: Clinic) -> dict[date, tuple[str, str]]:
    return {day: (str(p.cut), p.run) for day, p in publications(clinic.handle().batch_table).items()}


def outdated(step: Callable[[], object]) -> AnabranchError:
    with pytest.raises(Conflict) as refused:
        step()
    assert refused.value.code == "PLAN_OUTDATED"
    return refused.value


@pytest.mark.parametrize("published", PUBLISHED)
def test_days_that_were_published_since_the_plan_stop_its_rebuild(
    clinic: Clinic, published: Callable[[Clinic], list[date]]
) -> None:
    planned = plan(clinic)
    check_still_published(clinic.settings, planned)
    days = published(clinic)
    error = outdated(lambda: check_still_published(clinic.settings, planned))
    assert error.fields == {"changed": "published", "partitions": [day.isoformat() for day in days]}
    assert "by run second now" in error.what


@pytest.mark.parametrize("published", PUBLISHED)
def test_days_that_were_published_since_the_rebuild_are_not_replaced(
    clinic: Clinic, published: Callable[[Clinic], list[date]]
) -> None:
    planned = plan(clinic)
    built(clinic, planned)
    days = published(clinic)
    before = state(clinic)
    error = outdated(lambda: publish_run(clinic.settings, planned))
    assert error.fields["partitions"] == [day.isoformat() for day in days]
    assert state(clinic) == before


def test_a_run_that_publishes_between_the_look_and_the_commit_is_seen(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read the table at one version; the one that commits second has to look again."""
    planned = plan(clinic)
    built(clinic, planned)
    publishing = import_module("anabranch.compute.batch.publish")  # the package gives its name to the function
    commit, come = publishing.replace, list[str]()

    def second_comes_first(*given: Any) -> Any:
        if not come:
            come.append("second")
            clinic.reprocess("second", DAYS[1:2])
        return commit(*given)

    monkeypatch.setattr(publishing, "replace", second_comes_first)
    outdated(lambda: publish_run(clinic.settings, planned))
    assert state(clinic)[DAYS[1]][1] == "second"
    assert DAYS[2] not in state(clinic)


def test_days_that_are_published_no_more_are_seen(clinic: Clinic) -> None:
    planned = plan(clinic)
    built(clinic, planned)
    shutil.rmtree(clinic.handle().batch_table)
    for step in (check_still_published, publish_run):
        error = outdated(partial(step, clinic.settings, planned))
        assert error.fields["partitions"] == ["2013-01-01", "2013-01-02"]
        assert "2013-01-01 was published at flights@1 by run first when run approved was planned" in error.what


def test_what_lands_meanwhile_is_no_change_and_neither_are_other_days_nor_its_own_work(clinic: Clinic) -> None:
    planned = plan(clinic)
    cut, counted = planned["cut"], (planned["events"], planned["late"])
    clinic.land([departed(30, day) for day in PLANNED])
    clinic.reprocess("second", DAYS[3:])
    for _ in range(2):  # tried again
        check_still_published(clinic.settings, planned)
        check_still_counted(clinic.handle(), PLANNED, cut, counted)
    clinic.build(RUN, PLANNED, cut=cut_at(clinic.settings, FLIGHTS, parse_epochs(cut)))
    clinic.certify(RUN, PLANNED)
    assert publish_run(clinic.settings, planned)["published"] == planned_days()
    check_still_published(clinic.settings, planned)  # a rebuild that is cleared afterwards
    again = publish_run(clinic.settings, planned)
    assert (again["table_version"], again["published"]) == (None, planned_days())


def test_nothing_of_a_dropped_version_is_published(clinic: Clinic) -> None:
    planned = plan(clinic, DAYS[3:])
    clinic.build(RUN, DAYS[3:])
    clinic.certify(RUN, DAYS[3:])
    clinic.views = (V1, V2)
    clinic.speed(view=V2)
    set_route(clinic.settings, NAME, {2: 100}, by="anna", why="test")
    retire(clinic.handle(), by="anna", why="test", grace=timedelta(0))
    drop(clinic.handle())
    with pytest.raises(BadInput) as refused:
        publish_run(clinic.settings, planned)
    assert refused.value.code == "VERSION_RETIRED"
    assert not Path(clinic.handle().batch_table).exists()


def test_files_that_are_gone_are_not_published(clinic: Clinic) -> None:
    planned = plan(clinic, DAYS[3:])
    build = clinic.build(RUN, DAYS[3:])
    clinic.certify(RUN, DAYS[3:])
    (Path(clinic.handle().batch_table) / build.files[0].path).unlink()
    with pytest.raises(BrokenState) as refused:
        publish_run(clinic.settings, planned)
    assert refused.value.code == "BUILD_MISSING"
    assert set(publications(clinic.handle().batch_table)) == set(DAYS[:2])


def test_a_try_that_was_held_back_in_part_goes_on(clinic: Clinic) -> None:
    planned = plan(clinic)
    clinic.build(RUN, PLANNED)
    clinic.certify(RUN, PLANNED, differs=PLANNED[2:])
    assert publish_run(clinic.settings, planned)["published"] == planned_days()[:2]
    clinic.certify(RUN, PLANNED)
    assert publish_run(clinic.settings, planned)["published"] == planned_days()


def planned_days() -> list[str]:
    return [day.isoformat() for day in PLANNED]


def test_landing_that_holds_other_events_up_to_the_cut_stops_the_rebuild(clinic: Clinic) -> None:
    planned = plan(clinic)
    DeltaTable(landing_table(clinic.settings, FLIGHTS.name)).delete("event_date = '2013-01-02'")
    error = outdated(
        lambda: check_still_counted(clinic.handle(), PLANNED, planned["cut"], (planned["events"], planned["late"]))
    )
    assert error.fields == {"changed": "landing", "cut": planned["cut"]}
    assert "4 events (1 late) up to flights@2 were planned, but landing has 3 events" in error.what


def test_a_cut_that_landing_does_not_reach_any_more_stops_the_rebuild(clinic: Clinic) -> None:
    planned = plan(clinic)
    other = Clinic(Settings(home=clinic.settings.home / "landed-anew"))
    other.land([departed(1, DAYS[0])])
    error = outdated(
        lambda: check_still_counted(
            ViewHandle(other.settings, V1, FLIGHTS), PLANNED, planned["cut"], (planned["events"], planned["late"])
        )
    )
    assert error.fields["changed"] == "landing"
    assert "cut: flights@2 has not landed" in error.what


def test_an_accepted_loss_or_log_behind_the_cut_is_no_change(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(clinic)
    monkeypatch.setattr(accepted_losses, "topic_id", lambda *_: "another-cluster")
    monkeypatch.setattr(accepted_losses, "check_nothing_lost", lambda *_: None)
    accepted_losses.accept_log(clinic.settings, FLIGHTS, "moved")
    counted = (planned["events"], planned["late"])
    check_still_counted(clinic.handle(), PLANNED, planned["cut"], counted)
    check_still_published(clinic.settings, planned)


def test_a_version_that_was_retired_since_is_not_rebuilt(tmp_path: Path) -> None:
    clinic = Clinic(Settings(home=tmp_path / "home"), (V1, V2))
    clinic.land([departed(number, day) for number, day in enumerate(DAYS)])
    clinic.speed()
    clinic.speed(view=V2)
    planned = plan(clinic)
    set_route(clinic.settings, NAME, {2: 100}, by="anna", why="test")
    retire(clinic.handle(), by="anna", why="test", grace=timedelta(0))
    with pytest.raises(AnabranchError) as refused:
        check_still_published(clinic.settings, planned)
    assert refused.value.code == "VERSION_RETIRED"


def test_a_build_that_is_not_what_was_planned_is_not_published(clinic: Clinic) -> None:
    planned = plan(clinic)
    built(clinic, planned)
    for name, other in {"cut": "flights@1", "days": "2013-01-01..2013-01-02", "fingerprint": "other"}.items():
        error = outdated(partial(publish_run, clinic.settings, {**planned, name: other}))
        assert error.fields["changed"] == name
    assert DAYS[2] not in state(clinic)


def test_the_step_in_airflow_is_red_before_an_engine_is_started(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(clinic.settings.home))
    submitted = list[str]()
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, context: submitted.append(self.task_id))
    job = RebuildJob(task_id="rebuild", planned=plan(clinic), options=("days", "cut", "fingerprint", "events", "late"))
    pushed = dict[str, str]()
    context: Any = {"ti": SimpleNamespace(xcom_push=pushed.__setitem__)}
    job.execute(context)
    assert submitted == ["rebuild"]
    assert datetime.now(UTC) - datetime.fromisoformat(pushed["began"]) < timedelta(minutes=1), "for its outcome"
    assert job.application_args is not None
    assert job.application_args[-2:] == ["--late", "1"]
    by_another_run_newer(clinic)
    with pytest.raises(NeedsFix, match="PLAN_OUTDATED"):
        job.execute(context)
    assert submitted == ["rebuild"]


def test_a_changed_definition_is_not_published(clinic: Clinic) -> None:
    planned = plan(clinic)
    clinic.build(RUN, PLANNED, replace(V1, fingerprint="other"))
    clinic.certify(RUN, PLANNED)
    assert outdated(lambda: publish_run(clinic.settings, planned)).fields["changed"] == "fingerprint"


def test_a_plan_of_before_an_upgrade_is_outdated() -> None:
    with pytest.raises(Conflict) as told:
        published_in_plan({"view": "delays", "version": 1, "days": "2013-01-01"})
    assert (told.value.code, told.value.fields["changed"]) == ("PLAN_OUTDATED", "plan")
