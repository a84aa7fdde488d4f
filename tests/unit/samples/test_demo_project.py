"""The demo refuses a project that isn't the sample's, before it starts anything, and brings what it deploys itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.apps.cli import main
from anabranch.core.project_folder import project_root
from anabranch.core.settings import load_settings
from anabranch_samples.demo.change import NEXT, deploy, own_project
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


def test_a_project_without_the_flights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main.app, ["init", "shop"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setenv("ANABRANCH_PROJECT", str(tmp_path / "shop"))
    result = CliRunner().invoke(main.app, ["demo", "--days", "3"])
    assert (result.exit_code, "[DEMO_PROJECT]" in result.stderr) == (1, True), result.output
    assert "flight.departed" in result.stderr
    assert "state: nothing was started" in result.stderr
    assert not (tmp_path / "shop" / ".anabranch").exists()


def test_a_project_of_the_sample_gets_the_next_version_from_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main.app, ["init", "planes", "--sample", "flights"]).exit_code == 0
    settings = own_project(load_settings(project=tmp_path / "planes", home=tmp_path / "home"))
    deploy(settings)
    assert (settings.views_folder / NEXT).read_text() == (project_root() / "spark_jobs" / "next" / NEXT).read_text()
