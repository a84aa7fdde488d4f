"""The command line as a user meets it: quick help, errors as their text."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from anabranch.apps.cli.main import app
from anabranch.core.errors import BadInput
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))


def test_an_error_is_its_text_and_ends_with_1() -> None:
    result = CliRunner().invoke(app, ["up", "--only", "nix"])
    assert result.exit_code == 1
    assert result.stderr.startswith("no part is named 'nix' [PART_UNKNOWN]\n")
    assert "Traceback" not in result.output


def test_debug_shows_where_it_was_raised() -> None:
    result = CliRunner().invoke(app, ["--debug", "up", "--only", "nix"])
    assert isinstance(result.exception, BadInput)


def test_a_setting_that_is_none_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_KAFKA_PORT", "80")
    result = CliRunner().invoke(app, ["status"])
    assert result.exit_code == 1
    assert "ANABRANCH_KAFKA_PORT" in result.stderr
    assert "SETTINGS_REFUSED" in result.stderr


def test_down_and_status_where_nothing_runs() -> None:
    for command, says in (("down", "nothing was running"), ("status", "nothing was started")):
        result = CliRunner().invoke(app, [command])
        assert result.exit_code == 0
        assert says in result.stdout
    nothing: dict[str, list[str]] = {"parts": [], "views": [], "work": [], "loads": []}
    assert json.loads(CliRunner().invoke(app, ["status", "--json"]).stdout) == nothing


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom anabranch.apps.cli.main import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pyspark', 'airflow', 'great_expectations', 'polars', 'duckdb', 'deltalake', 'pandas', 'pyarrow'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert " up " in done.stdout
    assert time.perf_counter() - began < 3  # 0.2 s alone; a machine under test is a busy one
