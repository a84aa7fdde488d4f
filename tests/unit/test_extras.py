"""A plain ``pip install anabranch`` reads views; what needs more names the extra that brings it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from anabranch.core.extras import EXTRAS, missing_extra
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from support import small_halves
from support.our_packages import PACKAGE, SAMPLES

pytestmark = pytest.mark.unit
LEFT_OUT = f"""
import sys
from importlib.abc import MetaPathFinder


class LeftOut(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in {[*EXTRAS]!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, LeftOut())
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    small_halves.start_speed(Settings(home=tmp_path / "home", project=tmp_path), 1)
    return tmp_path / "home"


def run(home: Path, program: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    return subprocess.run(
        [sys.executable, "-c", LEFT_OUT + program],
        cwd=home.parent,
        env={**plain, "ANABRANCH_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_view_is_read_without_any_extra(home: Path) -> None:
    program = """
import anabranch

reading = anabranch.read("delays", columns=["origin"])
print(reading.to_arrow().num_rows, sum(batch.num_rows for batch in reading.to_arrow_batches()))
"""
    done = run(home, program)
    rows = small_halves.KEYS * len(small_halves.DAYS)
    assert done.stdout.split() == [str(rows), str(rows)], done.stderr


def test_the_command_line_reads_without_any_extra(home: Path) -> None:
    program = """
from anabranch.apps.cli.main import app

app(["read", "delays", "--json", "--limit", "3"])
"""
    done = run(home, program)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 3


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("anabranch.read('delays').to_polars()", "polars"),
        ("anabranch.read('delays').to_polars(lazy=True)", "polars"),
        ("anabranch.read('delays').to_pandas()", "pandas"),
        ("anabranch.read('delays').to_duckdb()", "duckdb"),
        ("anabranch.read('delays').to_spark(None)", "spark"),
        ("anabranch.read('delays', where=\"origin = 'JFK'\")", "duckdb"),
        ("anabranch.read('delays').late_missing", "duckdb"),
        ("anabranch.explain", "platform"),
    ],
)
def test_what_needs_more_names_the_extra(home: Path, call: str, extra: str) -> None:
    done = run(home, f"import anabranch\n{call}\n")
    assert done.returncode == 1
    assert "[EXTRA_MISSING]" in done.stderr, done.stderr
    assert f"pip install 'anabranch[{extra}]'" in done.stderr


def test_a_command_names_the_extra_without_a_traceback(home: Path) -> None:
    program = """
from anabranch.apps.cli.main import app

app(["read", "delays", "--where", "origin = 'JFK'"])
"""
    done = run(home, program)
    assert done.returncode == 1
    assert "pip install 'anabranch[duckdb]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_of_nobody_is_not_ours() -> None:
    assert missing_extra(ModuleNotFoundError("no", name="somebody.elses")) is None
    assert missing_extra(ModuleNotFoundError("no")) is None


@pytest.mark.parametrize(("module", "extra"), EXTRAS.items())
def test_the_extra_brings_the_module(module: str, extra: str) -> None:
    declared = tomllib.loads((project_root() / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split(r"[<>=\[]", need)[0].replace("-", "_") for need in declared[extra]}
    wanted = {"airflow": "apache_airflow", "delta": "delta_spark", "google": "protobuf"}.get(module, module)
    assert wanted in names


@pytest.mark.parametrize(("package", "project", "least"), [(PACKAGE, ".", 30), (SAMPLES, "platform/samples", 5)])
def test_a_wheel_has_every_file_of_the_package(package: Path, project: str, least: int) -> None:
    declared = tomllib.loads((project_root() / project / "pyproject.toml").read_text())["tool"]["setuptools"]
    carried = {file for pattern in declared["package-data"][package.name] for file in package.glob(pattern)}
    needed = {file for file in package.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert len(needed) > least
    assert needed <= carried
