"""A job of Spark that a person has to mend first is red at once; one that was killed is tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from anabranch.apps.airflow.spark_job import SparkJob
from anabranch.core.errors import BadInput, Conflict, TryAgain, exit_code

pytestmark = pytest.mark.unit


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit code that the job ends with."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    codes = list[int]()

    def execute(self: SparkSubmitOperator, context: Any) -> None:
        if codes[0]:
            raise AirflowException(f"Cannot execute: spark-submit ... Error code is: {codes[0]}.")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    return codes


def job() -> SparkJob:
    return SparkJob(task_id="rebuild", planned={"view": "delays", "version": 1, "run": "one"})


@pytest.mark.parametrize(
    ("code", "again"),
    [
        (exit_code(BadInput("DAY_NOT_LANDED", "no")), False),
        (exit_code(Conflict("PLAN_STALE", "no")), False),
        (exit_code(Conflict("TABLE_MOVED", "another was first")), True),
        (exit_code(TryAgain("BROKER_UNREACHABLE", "away")), True),
        (1, True),  # an exception that nobody has foreseen
        (137, True),  # killed
        (3, False),  # the engine's JVM has ended itself, for want of memory
        (52, False),  # Spark has done it
    ],
)
def test_what_has_to_be_mended_first_is_not_tried_again(ended: list[int], code: int, again: bool) -> None:
    ended.append(code)
    with pytest.raises(AirflowException) as caught:
        job().execute({})
    assert isinstance(caught.value, AirflowFailException) is not again


def test_an_engine_without_memory_is_said_with_the_setting_to_raise(ended: list[int]) -> None:
    ended.append(3)
    with pytest.raises(AirflowFailException, match=r"ENGINE_OUT_OF_MEMORY(.|\n)*ANABRANCH_SPARK_DRIVER_MEMORY"):
        job().execute({})


def test_each_engine_has_a_folder_of_its_own(ended: list[int], tmp_path: Path) -> None:
    ended.append(0)
    made = job()
    made.execute({})
    assert Path(made.conf["spark.local.dir"]).parent == tmp_path / "tmp"
    assert "spark.local.dir" not in Path(made.properties_file).read_text()
