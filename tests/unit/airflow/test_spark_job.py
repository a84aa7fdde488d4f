"""A job of Spark that a person has to mend first is red at once; one that was killed is tried again."""

from __future__ import annotations

import sys
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException
from anabranch.apps.airflow._certify_tasks import CertifyJob, ReplayIfAsked
from anabranch.apps.airflow._load_tasks import LoadJob
from anabranch.apps.airflow._replay_tasks import ReplayJob
from anabranch.apps.airflow._retry_policy import NeedsFix
from anabranch.apps.airflow._spark_job import RebuildJob, SparkJob, rebuilt
from anabranch.core.engine.java_options import SHORT_LIVED
from anabranch.core.engine.job_error import ERROR_FILE, carried_out, record_error
from anabranch.core.errors import EXIT_NEEDS_FIX, BadInput, Conflict, TryAgain, exit_code
from anabranch.core.settings import Settings
from anabranch.ingest.landing.epoch_pacing import run_under_way

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


@pytest.fixture
def said(ended: list[int], monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What the job raises before it ends."""
    raised, execute = list[Exception](), SparkSubmitOperator.execute

    def with_error(self: SparkSubmitOperator, context: Any) -> None:
        for error in raised:
            record_error(error)
        execute(self, context)

    monkeypatch.setattr(SparkSubmitOperator, "execute", with_error)
    return raised


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
    with pytest.raises((AirflowException, NeedsFix)) as caught:
        job().execute({})
    assert isinstance(caught.value, NeedsFix) is not again


def test_the_task_fails_with_the_words_of_its_job(ended: list[int], said: list[Exception]) -> None:
    """Airflow only says which command ended with which code."""
    refused = Conflict("PLAN_OUTDATED", "v1 has changed", state="nothing was rebuilt", next_step="clear it")
    ended.append(exit_code(refused))
    said.append(refused)
    with pytest.raises(NeedsFix) as caught:
        job().execute({})
    assert str(caught.value) == str(refused)
    ended[0], said[0] = 1, KeyError("no such column")
    with pytest.raises(AirflowException, match=r"^KeyError: .no such column"):
        job().execute({})


def test_what_an_earlier_try_said_is_not_repeated(ended: list[int], said: list[Exception]) -> None:
    ended.append(1)
    said.append(KeyError("of the first try"))
    one = job()
    with pytest.raises(AirflowException, match="of the first try"):
        one.execute({})
    said.clear()
    ended[0] = 137
    with pytest.raises(AirflowException, match=r"^the job ended with exit code 137$"):
        one.execute({})


def test_an_engine_without_memory_is_said_with_the_setting_to_raise(ended: list[int]) -> None:
    ended.append(3)
    with pytest.raises(NeedsFix, match=r"ENGINE_OUT_OF_MEMORY(.|\n)*ANABRANCH_SPARK_DRIVER_MEMORY"):
        job().execute({})


@pytest.mark.parametrize(
    ("kind", "first"), [(RebuildJob, True), (CertifyJob, True), (ReplayJob, False), (ReplayIfAsked, False)]
)
def test_landing_yields_to_a_run_and_not_to_a_replay(
    ended: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[SparkJob], first: bool
) -> None:
    """A replay with a small share takes days, and nobody waits for it at the screen."""
    ended.append(0)
    seen = list[bool]()
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda *_: seen.append(run_under_way(Settings(home=tmp_path))))
    planned = {"view": "delays", "version": 1, "run": "one", "replay": True}
    SparkJob.execute(kind(task_id="replay", planned=planned), {})
    assert seen == [first]


def test_each_engine_has_a_folder_of_its_own(ended: list[int], tmp_path: Path) -> None:
    ended.append(0)
    made = job()
    made.execute({})
    assert made.conf is not None
    assert Path(made.conf["spark.local.dir"]).parent == tmp_path / "tmp"
    assert made.properties_file is not None
    assert "spark.local.dir" not in Path(made.properties_file).read_text()


@pytest.mark.parametrize(("events", "quick"), [(None, False), (786, True), (100_000, True), (100_001, False)])
def test_an_engine_for_few_events_compiles_less(
    ended: list[int], monkeypatch: pytest.MonkeyPatch, events: int | None, quick: bool
) -> None:
    ended += [0, 0]
    planned = {"view": "delays", "version": 1, "run": "one", **({} if events is None else {"events": events})}
    made = SparkJob(task_id="rebuild", planned=planned)
    made.execute({})
    assert made.properties_file is not None
    assert (SHORT_LIVED in Path(made.properties_file).read_text()) is quick
    monkeypatch.setenv("ANABRANCH_SPARK_CONF", '{"spark.driver.defaultJavaOptions": "-Dmine=1"}')
    made.execute({})
    assert SHORT_LIVED not in Path(made.properties_file).read_text(), "what one has set oneself comes first"


def test_that_of_a_replay_does_not(ended: list[int]) -> None:
    """With a small share of the cores it lives long."""
    ended.append(0)
    made = ReplayJob(task_id="replay", planned={"view": "delays", "version": 1, "run": "one", "events": 1})
    SparkJob.execute(made, {})
    assert made.properties_file is not None
    assert SHORT_LIVED not in Path(made.properties_file).read_text()


def test_a_job_records_its_error_and_ends_with_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "error"
    monkeypatch.setenv(ERROR_FILE, str(file))

    def fails(error: Exception) -> None:
        raise error

    assert carried_out(lambda: None) == 0
    assert not file.exists()
    refused = BadInput("DAY_NOT_LANDED", "no such day")
    assert carried_out(lambda: fails(refused)) == exit_code(refused)
    assert "no such day" in file.read_text()
    with pytest.raises(ValueError, match="unforeseen"):
        carried_out(lambda: fails(ValueError("unforeseen")))
    assert file.read_text() == "ValueError: unforeseen"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("rebuild", ["--view", "nobody", "--version", "1", "--run", "one", "--days", "2013-01-01"]),
        ("certify", ["--view", "nobody", "--version", "1", "--run", "one"]),
        ("replay", ["--view", "nobody", "--version", "1", "--run", "one"]),
        ("load", ["--topic", "nobody", "--files", "[]", "--report", "report"]),
    ],
)
def test_a_job_says_what_is_wrong_with_the_project_or_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: list[str]
) -> None:
    """Nothing of it would be different at the next try."""
    file = tmp_path / "error"
    monkeypatch.setenv(ERROR_FILE, str(file))
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "argv", [name, *given])
    job = import_module(f"anabranch.operate.jobs.{name}")
    monkeypatch.setattr(job, "end_with_owners", lambda: None)
    if name == "replay":
        monkeypatch.setattr(job, "lower_own_priority", lambda: None)
    assert job.main() == EXIT_NEEDS_FIX
    assert ("TOPIC_UNKNOWN" if name == "load" else "VIEW_UNKNOWN") in file.read_text()
    monkeypatch.setenv("ANABRANCH_KAFKA_PORT", "a port")
    assert job.main() == EXIT_NEEDS_FIX
    assert "SETTINGS_REFUSED" in file.read_text()


def test_no_job_whose_work_is_kept_at_its_end_only_is_ended_within_a_night() -> None:
    """Every try of a rebuild that takes longer begins anew, and none ever ends."""
    with DAG("reprocess", schedule=None):
        steps = [rebuilt({}), LoadJob(task_id="load", planned={})]
    assert [step.execution_timeout for step in steps] == [timedelta(hours=12)] * 2
