"""A setting that Spark can't take is refused when an engine starts, by its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.core.engine._settings_check import check_values, refusal
from anabranch.core.errors import BadInput
from anabranch.core.settings import load_settings
from anabranch.operate.runtime.environment import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START = """
import json
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import load_settings
from anabranch.core.engine.spark import session

try:
    session(load_settings(), "refused")
except AnabranchError as error:
    print(json.dumps({"code": error.code, "text": str(error)}))
"""


def test_a_wrong_value_is_refused_before_a_job_needs_it(spark: SparkSession) -> None:
    check_values(spark, {"spark.sql.shuffle.partitions": "4", "spark.sql.warehouse.dir": "anywhere", "spark.own": "x"})
    with pytest.raises(BadInput) as refused:
        check_values(spark, {"spark.own": "x", "spark.sql.shuffle.partitions": "many"})
    assert refused.value.code == "ENGINE_SETTING"
    assert refused.value.fields["name"] == "spark.sql.shuffle.partitions"
    assert "spark.sql.shuffle.partitions=many" in str(refused.value)


@pytest.mark.parametrize(
    ("memory", "conf", "code", "named"),
    [
        ("1g", {"spark.sql.shuffle.partitions": "many"}, "ENGINE_SETTING", "spark.sql.shuffle.partitions"),
        ("900000g", {}, "ENGINE_NOT_STARTED", "ANABRANCH_SPARK_DRIVER_MEMORY"),
        ("256m", {}, "ENGINE_SETTING", "ANABRANCH_SPARK_DRIVER_MEMORY"),
    ],
)
def test_an_engine_does_not_start_with_it(
    tmp_path: Path, memory: str, conf: dict[str, str], code: str, named: str
) -> None:
    settings = load_settings(home=tmp_path, spark_driver_memory=memory, spark_conf=conf)
    found = subprocess.run(
        [sys.executable, "-c", START],
        env={**os.environ, **environment(settings)}, check=True, stdout=subprocess.PIPE, text=True, timeout=120,
    ).stdout  # fmt: skip
    error = json.loads(found.splitlines()[-1])  # the JVM says on stdout, too, what it can't do
    assert error["code"] == code
    assert named in error["text"]


def test_another_error_of_spark_stays_what_it_is() -> None:
    assert refusal(ValueError("no space left"), {"spark.own": "x"}) is None


@pytest.mark.parametrize(
    ("field", "value"), [("spark_driver_memory", "lots"), ("spark_master", "locl[2]"), ("trigger_interval", "often")]
)
def test_a_setting_of_ours_is_refused_by_its_form(field: str, value: str) -> None:
    with pytest.raises(BadInput) as refused:
        load_settings(**{field: value})
    assert refused.value.code == "SETTINGS_REFUSED"
    assert f"ANABRANCH_{field.upper()}" in str(refused.value)
