"""Outside of a project each command says so, and what to do; none prints an empty table."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.apps.cli.main import app
from anabranch.core import project_folder
from support.every_command import ALL
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
GIVEN = {
    "view": "departure_delays", "topic": "flights", "version": "1", "old": "1", "new": "2", "key": "origin=JFK",
    "why": "so", "first": "2013-01-01", "partition": "2013-01-01", "shares": "1=100", "at": "0:0", "name": "flights",
    "part": "speed", "yes": True, "folder": "backups", "event_type": "payment.made", "place": "0:0", "files": "data",
}  # fmt: skip
NEEDS_NONE = {"backup list", "backup verify", "contracts infer", "init"}
READS_A_HOME = {
    "backup create", "certificates", "down", "events show", "events tail", "explain", "http list", "http revoke",
    "maintain", "migrate drop", "migrate halt", "migrate hasten", "migrate reinstate", "migrate resume",
    "migrate retire", "migrate rollback", "migrate status", "read", "restart", "restore", "routes history",
    "routes set", "routes show", "status",
}  # fmt: skip
"""Commands that need the platform's home (or its broker) only, and work where just that is set."""


def line(name: str, tmp_path: Path) -> list[str]:
    options, arguments = list[str](), list[str]()
    for each in ALL[name].params:
        value = str(tmp_path) if each.name == "file" else GIVEN.get(each.name)
        if each.name == "yes":
            options.append("--yes")
        elif each.required:
            assert value is not None, f"{name} {each.name}"
            option = each.param_type_name == "option"
            (options if option else arguments).append(f"{each.opts[0]}={value}" if option else str(value))
    return [*name.split(), *options, "--", *arguments]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As a wheel in an environment, in an empty folder."""
    installed = tmp_path / "lib" / "site-packages" / "anabranch" / "core" / "x.py"
    monkeypatch.setattr(project_folder, "__file__", str(installed))
    for name in ("ANABRANCH_PROJECT", "ANABRANCH_HOME", "ANABRANCH_JARS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_there_are_many() -> None:
    assert len(ALL) > 40
    assert {*NEEDS_NONE, *READS_A_HOME} <= set(ALL)


@pytest.mark.parametrize("name", sorted(set(ALL) - NEEDS_NONE))
def test_without_a_project_and_without_a_home(name: str, outside: Path) -> None:
    result = CliRunner().invoke(app, line(name, outside))
    assert result.exit_code == 1, result.output
    assert "[NO_PROJECT]" in result.stderr, result.output
    assert "anabranch init NAME" in result.stderr
    assert result.stdout == ""
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", sorted(set(ALL) - NEEDS_NONE - READS_A_HOME))
def test_with_a_home_only(name: str, outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for who only reads views: what needs declarations says that they are missing."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    result = CliRunner().invoke(app, line(name, outside))
    assert result.exit_code == 1, result.output
    assert "[NO_PROJECT]" in result.stderr, result.output
    assert result.stdout == ""
    assert list(outside.iterdir()) == []
