"""What a failed proof says, and that its file fails again in the same way, from the command line, too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.compute.speed._sink import Sink
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.testing import Proof, ProofFailed, _options, prove
from anabranch.testing._options import Options
from anabranch.views import View, view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from support.view_corpus import HERE, SHOP, examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@view(
    name="numbered",
    version=1,
    events="order.placed",
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def numbered(placed: DataFrame) -> DataFrame:
    order = Window.partitionBy(F.to_date("event_time"), "customer").orderBy("event_time")
    return placed.select("log_partition", "log_offset", "event_time", F.row_number().over(order).alias("x"))


@view(
    name="hourly", version=1, events="order.placed", key=["hour", "customer"], partition_by="hour",
)  # fmt: skip
def hourly(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(F.count("*").alias("orders"))
    return hours.select(F.col("window.start").alias("hour"), "customer", "orders")


def failed(proven: View, keep: Path, **more: Any) -> ProofFailed:
    with pytest.raises(ProofFailed) as caught:
        prove(proven, declarations=SHOP, keep=keep, **more)
    return caught.value


def test_a_failure_is_a_story(spark: SparkSession, tmp_path: Path) -> None:
    error = failed(numbered, tmp_path, seed=1)
    text = str(error)
    assert isinstance(error, AssertionError)
    assert isinstance(error, BadDefinition)
    assert error.code == "PROOF_ORDER"
    assert error.fields["view"] == "numbered"
    assert error.fields["events"] == 2
    assert "test_prove.py:" in text
    for said in (
        "row_number numbers tied rows",
        "add 'log_partition' and 'log_offset'",
        "events: 2 (of ",
        "the events as they landed: 2 rows",
        "the events in reverse order: 2 rows",
        "what differs",
        "x is 1 and 2",
        f"--prove-replay {error.fields['replay']}",
        "seed: 1",
    ):
        assert said in text


def test_its_file_fails_again_in_the_same_way(spark: SparkSession, tmp_path: Path) -> None:
    first = failed(numbered, tmp_path, seed=1)
    again = failed(numbered, tmp_path, replay=first.fields["replay"])
    assert again.code == first.code
    assert again.fields["finding"].log == first.fields["finding"].log
    assert again.fields["finding"].differs == first.fields["finding"].differs
    with pytest.raises(BadInput) as caught:
        prove(hourly, declarations=SHOP, replay=first.fields["replay"])
    assert caught.value.code == "REPLAY_OTHER"


def test_a_day_that_failed_fails_again(spark: SparkSession, tmp_path: Path) -> None:
    """Its log has several days, of which a proof checks a sample only."""
    wrong = examples("wrong_views")["lookback_too_short"]
    with pytest.raises(ProofFailed) as first:
        wrong.prove(tmp_path, spark=spark)
    assert "partition" in first.value.fields["finding"].fields
    with pytest.raises(ProofFailed) as again:
        wrong.prove(tmp_path, spark=spark, replay=first.value.fields["replay"])
    assert again.value.code == first.value.code
    assert again.value.fields["finding"].fields == first.value.fields["finding"].fields


def test_a_replay_of_the_command_line_is_for_its_own_view(spark: SparkSession, tmp_path: Path) -> None:
    before = _options.set_options(Options(replay=failed(numbered, tmp_path, seed=1).fields["replay"]))
    try:
        assert failed(numbered, tmp_path).code == "PROOF_ORDER"
        assert prove(hourly, declarations=SHOP).logs == 0
    finally:
        _options.set_options(before)


@pytest.mark.sweep
def test_the_command_line_replays_in_a_session_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """Another process without any session, fixture or setting."""
    file = failed(numbered, tmp_path, seed=1).fields["replay"]
    text = (
        Path(__file__).read_text().split("def failed(")[0]
        + "\n\ndef test_it():\n    prove(numbered, declarations=SHOP)\n"
    )
    (tmp_path / "test_numbered.py").write_text(text)
    for name in ("__init__", "view_corpus"):
        (tmp_path / "support").mkdir(exist_ok=True)
        shutil.copy(HERE.parents[1] / "support" / f"{name}.py", tmp_path / "support")
    shutil.copytree(HERE / "contracts", tmp_path / "spark" / "testing" / "contracts")
    command = [sys.executable, "-m", "pytest", "-q", "-o", "markers=spark", f"--prove-replay={file}", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[PROOF_ORDER]" in done.stdout
    assert "PROOF_FAILS" not in done.stdout


def test_a_speed_layer_that_loses_a_row_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The author's function is right: only a run through the real path can find this."""
    whole = Sink._merge_small

    def loses_one(sink: Sink, frame: DataFrame, batch: Any) -> None:
        whole(sink, frame.limit(max(frame.count() - 1, 0)), batch)

    monkeypatch.setattr(Sink, "_merge_small", loses_one)
    monkeypatch.setattr(_options, "USUAL", _options.Effort(1, 6, 10.0))
    error = failed(hourly, tmp_path, seed=3)
    assert error.code in ("PROOF_SPEED", "PROOF_STREAM")
    assert "how they came" in str(error)


def test_a_rebuild_that_overlooks_late_events_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    from anabranch.views.selection import inputs

    rebuild = importlib.import_module("anabranch.compute.batch.rebuild")
    every = inputs.events_of

    def on_time(landed: DataFrame, of: View, *, late: bool, **more: Any) -> DataFrame:
        return every(landed, of, late=False, **more)

    for module in (rebuild, inputs):
        if hasattr(module, "events_of"):
            monkeypatch.setattr(module, "events_of", on_time)
    monkeypatch.setattr(_options, "USUAL", _options.Effort(1, 8, 10.0))
    error = failed(hourly, tmp_path, seed=3)
    assert error.code == "PROOF_BATCH"


def test_a_right_view_says_what_was_tried(spark: SparkSession, tmp_path: Path) -> None:
    proof = prove(hourly, declarations=SHOP, runs=4, seed=5, keep=tmp_path)
    assert isinstance(proof, Proof)
    assert (proof.view, proof.logs, proof.streams, proof.seed) == ("hourly", 3, 1, 5)
    assert proof.events > 20
    assert not list(tmp_path.iterdir())


@view(name="romans", version=1, events="customer.moved", key=["log_partition", "log_offset", "event_time"],
      partition_by="event_time", refresh="partitions")  # fmt: skip
def romans(moved: DataFrame) -> DataFrame:
    return moved.where(F.col("city") == "Rome").select("log_partition", "log_offset", "event_time", "city")


@view(name="nothing", version=1, events="customer.moved", key=["log_partition", "log_offset", "event_time"],
      partition_by="event_time", refresh="partitions")  # fmt: skip
def nothing(moved: DataFrame) -> DataFrame:
    capital = "".join(["R", "o", "m", "e"])
    return moved.where(F.col("city") == capital).select("log_partition", "log_offset", "event_time", "city")


def test_events_are_drawn_that_meet_a_condition_of_the_code(spark: SparkSession, tmp_path: Path) -> None:
    assert prove(romans, declarations=SHOP, quick=True, keep=tmp_path).rows > 0


def test_more_logs_are_drawn_until_one_gives_a_row(spark: SparkSession, tmp_path: Path) -> None:
    """Few orders have items: a single log may have none."""
    seldom = examples("right_views")["items_one_by_one"]
    seldom.prove(tmp_path, spark=spark, runs=1)


def test_a_view_that_gets_no_row_is_not_proven(spark: SparkSession, tmp_path: Path) -> None:
    error = failed(nothing, tmp_path, quick=True)
    assert error.code == "PROOF_EMPTY"
    assert "no log gave it a single row" in error.what
    assert "enum" in error.next_step
    assert not list(tmp_path.iterdir())


def test_a_session_that_is_not_the_platforms_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.core.engine.spark._NEEDED", {"spark.sql.session.timeZone": "Asia/Kolkata"})
    with pytest.raises(BadInput) as caught:
        prove(hourly, declarations=SHOP)
    assert caught.value.code == "SESSION_UNFIT"


def test_errors_of_spark_keep_their_own_logger() -> None:
    """In a process of its own: the first who asks for a logger decides what it is."""
    code = (
        "import logging; from types import SimpleNamespace as N; from anabranch.testing._engine import quiet\n"
        "level = N(getLevel=lambda: 'INFO'); root = N(getRootLogger=lambda: level)\n"
        "jvm = N(org=N(apache=N(logging=N(log4j=N(LogManager=root)))))\n"
        "with quiet(N(sparkContext=N(setLogLevel=str), _jvm=jvm)): pass\n"
        "print(type(logging.getLogger('DataFrameQueryContextLogger')).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "PySparkLogger"
