"""Values that a command can't use: an error that names them, never a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.cli.main import app
from anabranch.core.settings import Settings
from anabranch.ingest.files import find_files
from anabranch.ingest.http import access
from anabranch.serve._read_api import _position
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
DIGITS = "9" * 5_000


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["quarantine", "show", "flights", f"0:{DIGITS}"], "COORDINATES"),
        (["quarantine", "show", "flights", f"file{DIGITS}:1"], "COORDINATES"),
        (["quarantine", "release", "flights", f"--at=0:{DIGITS}"], "COORDINATES"),
        (["quarantine", "list", "flights", "--kind=\udcff"], "PARAMETER"),
        (["quarantine", "release", "flights", "--kind=\udcff"], "PARAMETER"),
        (["routes", "set", "--why=so", "departure_delays", f"1={DIGITS}"], "SHARES_WRONG"),
        (["doctor", "--sent=" + "a" * 300], "NO_FILE"),
    ],
)
def test_a_value_that_is_too_long_or_no_text_is_named(home: Path, command: list[str], code: str) -> None:
    said = CliRunner().invoke(app, command)
    assert isinstance(said.exception, SystemExit), said.exception
    assert (said.exit_code, f"[{code}]" in said.stderr) == (1, True), said.stderr


def test_a_position_of_too_many_digits_is_no_cut() -> None:
    with pytest.raises(Exception, match="too large") as caught:
        _position(f"flights@{DIGITS}")
    assert getattr(caught.value, "code", "") == "CUT_UNREADABLE"


def test_a_client_whose_file_is_torn_is_listed_with_the_others(home: Path) -> None:
    settings = Settings(home=home)
    access.allow(settings, "till", ["flights"])
    (access.clients_folder(settings) / "torn.json").write_text('{"na')
    said = CliRunner().invoke(app, ["http", "list"])
    assert said.exit_code == 0
    assert "till" in said.stdout
    assert "can't be read" in " ".join(said.stdout.split())
    assert CliRunner().invoke(app, ["http", "revoke", "torn"]).exit_code == 0


def test_what_vanishes_from_a_folder_while_it_is_listed_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_text("{}")
    real, gone = os.scandir, str(tmp_path / "b")

    def vanishing(path: Any) -> Iterator[Any]:
        if str(path) == gone:
            raise FileNotFoundError(gone)
        return real(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert [each.name for each in find_files([str(tmp_path)])] == [str(tmp_path / "a" / "x.jsonl")]
