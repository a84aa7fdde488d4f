"""``anabranch views``: what it says of a definition before and after it was registered, and after a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.cli.main import app
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
