"""A variable that the project's code reads, that is set here and isn't passed on: `up` and `upgrade --plan` say so.

They give the line that passes it on. Earlier versions passed on the whole shell."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.operate.runtime.unpassed_variables import unpassed_notices
from anabranch.operate.upgrade import plan_upgrade

pytestmark = pytest.mark.unit
VIEW = """
import os
from os import environ, getenv

REGION = os.environ.get("SHOP_REGION", "x")
STORE = environ["SHOP_STORE"] + getenv("SHOP_TILL") + os.getenv("SHOP_REGION")
os.environ["SHOP_SET_BY_US"] = "1"
NAME = "SHOP_BY_NAME"
OTHER = os.environ[NAME], {}.get("SHOP_NO_VARIABLE"), os.environ.get("SHOP_NOT_SET"), os.environ.get("ANABRANCH_HOME")
PLAIN = os.environ["LANG"], os.environ.get("AWS_REGION")
"""
DAG = """
import os
REGION, KEY = os.environ["AWS_REGION"], os.environ.get("SHOP_DAG", os.environ.get("AIRFLOW__CORE__FERNET_KEY"))
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    names = ("REGION", "STORE", "TILL", "SET_BY_US", "BY_NAME", "NO_VARIABLE", "DAG", "CONTRACT", "TORN")
    for name in [*(f"SHOP_{name}" for name in names), "LANG", "AWS_REGION", "AIRFLOW__CORE__FERNET_KEY"]:
        monkeypatch.setenv(name, "set")
    for file, text in {
        "spark_jobs/views/shop.py": VIEW,
        "spark_jobs/views/_parts/helper.py": 'import os\nTILL = os.environ["SHOP_TILL"]\n',
        "spark_jobs/views/torn.py": 'import os\nos.environ["SHOP_TORN"](',
        "spark_jobs/views/query.sql": "SELECT os.environ['SHOP_TORN']",
        "spark_jobs/contracts/shop.py": 'import os\nNAME = os.environ["SHOP_CONTRACT"]\n',
        "dags/shop.py": DAG,
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return Settings(project=tmp_path, home=tmp_path / "home")


def passed_on(notice: str) -> tuple[str, ...]:
    """What the line in a notice passes on."""
    line = next(line for line in notice.splitlines() if "ANABRANCH_PASS_ENV=" in line)
    return tuple(json.loads(line.partition("=")[2]))


def test_names_that_are_set_and_not_passed(settings: Settings) -> None:
    (notice,) = unpassed_notices(settings)
    names = ("AWS_REGION", "SHOP_CONTRACT", "SHOP_DAG", "SHOP_REGION", "SHOP_STORE", "SHOP_TILL")
    assert passed_on(notice) == names
    places = "SHOP_CONTRACT (spark_jobs/contracts/shop.py:2), SHOP_DAG (dags/shop.py:3), SHOP_REGION (spark_jobs/views/"
    assert places in notice
    assert "AWS_REGION (spark_jobs/views/shop.py:10)" in notice, "Airflow has it, and streams don't"


def test_the_line_passes_all_of_them_on(settings: Settings) -> None:
    """And what was passed on before."""
    some = settings.model_copy(update={"pass_env": ("SHOP_ST*", "AWS_REGION")})
    (notice,) = unpassed_notices(some)
    assert passed_on(notice) == ("SHOP_ST*", "AWS_REGION", "SHOP_CONTRACT", "SHOP_DAG", "SHOP_REGION", "SHOP_TILL")
    done = settings.model_copy(update={"pass_env": passed_on(notice)})
    assert unpassed_notices(done) == []


def test_the_plan_of_an_upgrade_says_it(settings: Settings) -> None:
    plan = plan_upgrade(settings, Declarations())
    assert list(plan.notes) == unpassed_notices(settings) != []
    assert "SHOP_REGION" in str(plan)


def test_a_project_without_code_or_variables_has_no_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpassed_notices(Settings(project=tmp_path, home=tmp_path / "home")) == []
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "mine.py").write_text('import os\nX = os.environ["SHOP_X"]\n')
    monkeypatch.delenv("SHOP_X", raising=False)
    assert unpassed_notices(Settings(project=tmp_path, home=tmp_path / "home")) == []
    assert "SHOP_X" not in os.environ
