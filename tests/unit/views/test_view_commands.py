"""``anabranch views``: what it says of a definition before and after it was registered, and after a change."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.cli.main import app
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.layout import VersionRef
from anabranch.views.definition_registry import record_path, write_definition
from support.landed_sample import sample_views
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    return load_settings()


def listed() -> dict[str, Any]:
    result = CliRunner().invoke(app, ["views", "list", "--json"])
    assert result.exit_code == 0, result.output
    return {f"{row['view']} v{row['version']}": row for row in json.loads(result.output)}


def test_every_declared_view_is_listed_with_its_place(settings: Settings) -> None:
    views = listed()
    assert {"aircraft_now v1", "departure_delays v1", "route_day v1"} <= views.keys()
    assert views["departure_delays v1"]["declared_in"].startswith("spark_jobs/views/departure_delays.py:")
    assert views["aircraft_now v1"]["partition_by"] is None
    assert not (settings.home / "control").exists()


def test_a_definition_is_new_then_registered_then_changed(settings: Settings) -> None:
    view = sample_views().get("departure_delays", 1)
    assert listed()["departure_delays v1"]["definition"] == "new"
    write_definition(settings, view)
    assert listed()["departure_delays v1"]["definition"] == "registered"
    assert listed()["route_day v1"]["definition"] == "new"
    record = record_path(VersionRef(settings, view.name, view.version))
    record.write_text(record.read_text().replace(view.fingerprint, "another"))
    assert listed()["departure_delays v1"]["definition"] == "changed"


def test_checking_a_view_that_is_not_declared_names_those_that_are(settings: Settings) -> None:
    result = CliRunner().invoke(app, ["views", "check", "nothing"])
    assert result.exit_code == 1
    assert "VIEW_UNKNOWN" in result.output
    assert "departure_delays v1" in result.output


UNSEEN = """
from typing import Final
from anabranch.views import view
from pyspark.sql import functions as F
NAME: Final = "seen"
NUMBERS = {"two": 2}

@view(name=NAME, version=1, events=["flight.departed"], key=["origin"])
def seen(departed):
    return departed.groupBy("origin").agg(F.count("*").alias("n"))

@view(name="made", version=NUMBERS["two"], events=["flight.departed"], key=["origin"])
def made(departed):
    return departed.groupBy("origin").agg(F.count("*").alias("n"))
"""


def test_a_view_without_a_dag_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow shows nothing of it: neither a DAG nor an import error."""
    jobs = tmp_path / "project" / "spark_jobs"
    shutil.copytree(project_root() / "spark_jobs" / "contracts", jobs / "contracts")
    (jobs / "views").mkdir()
    (jobs / "views" / "two.py").write_text(UNSEEN)
    monkeypatch.setenv("ANABRANCH_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("anabranch.core.engine.lifetime.engine", lambda *_: nullcontext())
    monkeypatch.setattr("anabranch.views.check.check", lambda *_: None)
    for command in ("list", "check"):
        told = CliRunner().invoke(app, ["views", command], env={"COLUMNS": "200"})
        assert told.exit_code == 0, told.output
        assert "made v2" in told.stdout
        said = " ".join(told.stderr.split())
        assert "has no DAG of its kind in Airflow: version (NUMBERS['two']) is no literal, and no constant" in said
        assert said.startswith("made v2 (")
        assert said.count("has no DAG") == 1
