"""``anabranch plan``: the same plan as the DAG's, for a shell."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path

import pytest
from anabranch.apps.cli import _run_progress
from anabranch.apps.cli.main import app
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from support.landed_rows import land, landed, publish
from support.landed_sample import sample_views
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    land(Settings(home=tmp_path), [landed(date(2013, 1, 2), 1)], [landed(date(2013, 1, 2), 2, late=True)])
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    return CliRunner()


def test_a_plan_for_people_and_for_programs(run: CliRunner) -> None:
    shown = run.invoke(app, ["plan", "departure_delays", "--from", "2013-01-02"])
    assert shown.exit_code == 0, shown.output
    assert "departure_delays v1: 2013-01-02 at flights@2, 2 events to read" in shown.stdout
    older = ["plan", "departure_delays", "--from", "2013-01-02", "--to", "2013-01-03", "--cut", "flights@1", "--json"]
    plan = json.loads(run.invoke(app, older).stdout)
    assert (plan["events"], plan["late"], plan["days"], plan["cut"]) == (1, 0, "2013-01-02..2013-01-03", "flights@1")


def test_the_days_that_are_missing_are_found_and_told(run: CliRunner) -> None:
    shown = run.invoke(app, ["plan", "departure_delays", "--missing"])
    assert shown.exit_code == 0, shown.output
    assert "1 never published day; 1 late event is in no half" in shown.stdout
    plan = json.loads(run.invoke(app, ["plan", "departure_delays", "--missing", "--json"]).stdout)
    assert (plan["days"], plan["late_missing"]) == ("2013-01-02", 1)


def test_a_reprocess_of_what_is_missing_starts_nothing_where_nothing_is(run: CliRunner, tmp_path: Path) -> None:
    publish(Settings(home=tmp_path), sample_views().get("departure_delays"), {date(2013, 1, 2): 2})
    shown = run.invoke(app, ["reprocess", "departure_delays", "--missing"])
    assert (shown.exit_code, shown.stdout) == (
        0,
        "departure_delays v1: every day with events is published, and no late event is in no half\n",
    )
    plan = json.loads(run.invoke(app, ["plan", "departure_delays", "--missing", "--json"]).stdout)
    assert (plan["partitions"], plan["late_missing"]) == ([], 0)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["departure_delays", "--from", ""], "DATE_UNREADABLE"),
        (["departure_delays", "--from", "2013-01-02", "--to", ""], "DATE_UNREADABLE"),
        (["departure_delays", "--from", "2013-01-02", "--cut", ""], "CUT_UNREADABLE"),
        (["departure_delays"], "RANGE_OPEN"),
        (["departure_delays", "--from", "2013-01-02", "--missing"], "RANGE_TWICE"),
        (["aircraft_now", "--missing"], "VIEW_KAPPA"),
        (["departure_delays", "--from", "$(id)"], "DATE_UNREADABLE"),
        (["departure_delays", "--from", "2013-01-03", "--to", "2013-01-02"], "RANGE_REVERSED"),
        (["departure_delays", "--from", "2013-01-02", "--cut", "flights@9"], "CUT_IN_FUTURE"),
        (["departure_delays", "--from", "2013-01-02", "--version", "7"], "VIEW_UNKNOWN"),
        (["aircraft_now", "--from", "2013-01-02"], "VIEW_KAPPA"),
        (["../etc", "--from", "2013-01-02"], "VIEW_UNKNOWN"),
    ],
)
def test_a_wrong_wish_is_refused_by_name(run: CliRunner, arguments: list[str], code: str) -> None:
    refused = run.invoke(app, ["plan", *arguments])
    assert (refused.exit_code, code in refused.stderr) == (1, True), refused.output


DAYS_THEN_KAPPA = """
from anabranch.views import view
from pyspark.sql import functions as F

@view(name="delays", version=1, events=["flight.departed"], key=["t"], partition_by="t")
def with_days(departed):
    return departed.select(F.col("event_time").alias("t"))

@view(name="delays", version=2, events=["flight.departed"], key=["origin"])
def whole(departed):
    return departed.groupBy("origin").agg(F.count("*").alias("n"))
"""


def test_a_version_of_another_kind_is_done_again_by_its_own_dag(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form of the newest version, which has no days any more, doesn't offer it."""
    jobs = tmp_path / "project" / "spark_jobs"
    shutil.copytree(project_root() / "spark_jobs" / "contracts", jobs / "contracts")
    (jobs / "views").mkdir()
    (jobs / "views" / "delays.py").write_text(DAYS_THEN_KAPPA)
    monkeypatch.setenv("ANABRANCH_PROJECT", str(tmp_path / "project"))
    started = list[str]()
    monkeypatch.setattr(_run_progress, "carried_out", lambda _, dag, *__, **___: started.append(dag))
    done = run.invoke(app, ["reprocess", "delays", "--version", "1", "--from", "2013-01-02"])
    assert (done.exit_code, started) == (0, ["reprocess_delays.v1"]), done.output
