"""``anabranch migrate`` and ``anabranch compare``: the whole way of a migration, typed."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anabranch
import pyarrow as pa
import pytest
from anabranch.apps.cli import _migrate_commands
from anabranch.apps.cli.main import app
from anabranch.change.migrate import migration
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve.retirement import retire
from support import small_halves
from support.small_halves import DAYS, VIEW
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.unit
TWO_VERSIONS = """
from anabranch.views import view
from pyspark.sql import functions as F

@view(name="delays", version=1, events=["flight.departed"], key=["window_start"], partition_by="window_start")
def delays(departed):
    return departed.select(F.col("event_time").alias("window_start"), "origin")

@view(name="delays", version=2, events=["flight.departed"], key=["window_start"], partition_by="window_start")
def delays_better(departed):
    return departed.select(F.col("event_time").alias("window_start"), F.upper("origin").alias("origin"))
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    jobs = tmp_path / "project" / "spark_jobs"
    (jobs / "views").mkdir(parents=True)
    shutil.copytree(project_root() / "spark_jobs" / "contracts", jobs / "contracts")
    (jobs / "views" / "delays.py").write_text(TWO_VERSIONS)
    monkeypatch.setenv("ANABRANCH_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    settings = Settings(home=tmp_path / "home")
    for version in (1, 2):
        small_halves.start_speed(settings, 3, version=version)
    return settings


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=answer)


START = ("migrate", "start", VIEW, "1", "2", "--why", "better", "--soak", "0 seconds")


def test_the_whole_way_and_back(settings: Settings) -> None:
    assert "no migration" in run("migrate", "status", VIEW).stdout
    asked = run(*START, answer="n\n")
    assert asked.exit_code == 1
    assert "only the declared columns differ" in asked.stdout
    assert "no migration" in run("migrate", "status", VIEW).stdout, "a person said no"
    assert run(*START, "--check", "written_by > 0", answer="y\n").exit_code == 0
    assert "v1 to v2: moving, 0 % have v2" in run("migrate", "status", VIEW).stdout
    assert "moving, 1 % have v2 (steps [1], 5, 25, 50, 100): step 1 of 5" in run("migrate", "advance", VIEW).stdout
    ended = run("migrate", "run", VIEW)
    assert (ended.exit_code, ended.stdout.count("moving"), ended.stdout.count("done")) == (0, 4, 1)
    assert anabranch.read(VIEW, settings=settings).version == 2
    assert "rolled back" in run("migrate", "rollback", VIEW, "--why", "wrong").stdout
    assert json.loads(run("migrate", "status", VIEW, "--json").stdout)["state"] == "rolled back"
    assert anabranch.read(VIEW, settings=settings).version == 1


def test_it_is_held_and_goes_on_by_hand(settings: Settings) -> None:
    run(*START[:-2], "--soak", "1 hour", "--yes")
    run("migrate", "advance", VIEW)
    assert "halted, 1 % have v2" in run("migrate", "halt", VIEW, "--why", "lunch").stdout
    held = run("migrate", "advance", VIEW)
    assert (held.exit_code, "[HALTED]" in held.stderr, "resume" in held.stderr) == (1, True, True)
    assert "moving, 1 % have v2" in run("migrate", "resume", VIEW, "--why", "back", "--by", "anna").stdout
    assert "[SOAKING]" in run("migrate", "advance", VIEW).stderr
    assert "moving, 1 % have v2" in run("migrate", "hasten", VIEW, "--why", "no time").stdout
    assert "moving, 5 % have v2" in run("migrate", "advance", VIEW).stdout
    assert "by anna: back" in run("routes", "history", VIEW).stdout


def test_the_migration_is_still_told_after_a_retirement(settings: Settings) -> None:
    run(*START, "--yes")
    run("migrate", "run", VIEW)
    retire(VersionRef(settings, VIEW, 1), by="anna", why="nobody reads it", grace=timedelta(0))
    said = run("migrate", "status", VIEW).stdout.splitlines()
    assert "v1 to v2: done, 100 % have v2" in said[0]
    assert said[-1] == "  route 8 now: v2 100 %, v1 retired, by anna: nobody reads it"


def test_a_failing_check_is_seen_by_who_runs_it(settings: Settings) -> None:
    run(*START, "--check", "written_by < 4", "--yes")
    run("migrate", "advance", VIEW)
    for version in (1, 2):
        small_halves.merge_speed(settings, 4, DAYS[:1], version=version)
    halted = run("migrate", "run", VIEW)
    assert halted.exit_code == 1
    assert "rolled back, 0 % have v2" in halted.stdout
    assert "rows of v2 break written_by < 4" in halted.stdout


def test_a_rollback_waits_for_no_stream(settings: Settings) -> None:
    run(*START, "--check", "written_by < 4", "--yes")
    run("migrate", "advance", VIEW)
    small_halves.merge_speed(settings, 4, DAYS[:1], version=2)
    ended = run("migrate", "run", VIEW)
    assert (ended.exit_code, ended.stderr) == (1, "")
    assert "rolled back, 0 % have v2" in ended.stdout


@pytest.mark.parametrize(
    ("press", "ends", "code"),
    [("halt", "halted, 1 % have v2", 1), ("rollback", "rolled back, 0 %", 1), ("hasten", "done", 0)],
)
def test_a_button_that_is_pressed_during_a_step_ends_no_watch(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, press: str, ends: str, code: int
) -> None:
    """The route moves between the checks and the commit of the second step: who runs it looks again."""
    run(*START, "--yes")
    pressed = list[str]()
    commit, looks = migration._commit, list[float]()

    def late(settings: Settings, *arguments: Any, **named: Any) -> Any:
        if arguments[1] == 5 and not pressed:
            pressed.append(press)
            change = {"halt": migration.halt, "rollback": migration.rollback, "hasten": migration.skip_soak}[press]
            monkeypatch.setattr(migration, "_commit", commit)
            change(settings, VIEW, by="anna", why="lunch")
            monkeypatch.setattr(migration, "_commit", late)
        return commit(settings, *arguments, **named)

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:  # halted: it would wait for a person
            raise KeyboardInterrupt

    monkeypatch.setattr(migration, "_commit", late)
    monkeypatch.setattr(_migrate_commands, "time", SimpleNamespace(sleep=wait))
    ended = run("migrate", "run", VIEW)
    assert pressed == [press]
    assert "ROUTE_MOVED" not in ended.output
    if press == "halt":
        assert (len(looks), ended.stderr.count("[HALTED]")) == (2, 1), "its checks go on"
        assert ends in run("migrate", "status", VIEW).stdout
    else:
        assert (ended.exit_code, ends in ended.stdout) == (code, True), ended.output


def test_that_readers_follow_is_not_silent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is not done before the new version has come to what readers have seen of the old one."""
    run(*START, "--changed", "written_by", "--yes")
    small_halves.merge_speed(settings, 4, DAYS[:1])
    run("migrate", "advance", VIEW)
    monkeypatch.setattr(_migrate_commands, "_POLL_SECONDS", 0)
    looks: list[float] = []

    def stream_goes_on(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            small_halves.merge_speed(settings, 4, DAYS[:1], version=2)
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(_migrate_commands, "time", SimpleNamespace(sleep=stream_goes_on))
    told = run("migrate", "run", VIEW).stderr
    assert told.count("[READERS_FOLLOW]") == 1
    assert "readers of v1 have seen flights@4, v2 doesn't cover it" in told


def test_versions_are_compared(settings: Settings) -> None:
    assert run("compare", VIEW, "1", "2").exit_code == 0
    small_halves.merge_speed(settings, 4, DAYS[:1])
    small_halves.start_speed(settings, 4, version=2)
    differs = run("compare", VIEW, "1", "2", "--json")
    content = json.loads(differs.stdout)
    assert (differs.exit_code, content["as_declared"], content["cut"]) == (1, False, "flights@4")
    assert run("compare", VIEW, "1", "2", "--changed", "written_by").exit_code == 0


def test_what_the_new_version_takes_away_comes_first_and_is_refused_until_it_is_declared(settings: Settings) -> None:
    """Nobody is asked to approve what would be refused anyway."""
    shutil.rmtree(VersionRef(settings, VIEW, 2).speed_table)
    kept = [field for field in small_halves.SPEED_SCHEMA if field.name != "mean_delay"]
    narrow = [pa.field("written_by", pa.int32()) if field.name == "written_by" else field for field in kept]
    small_halves.start_speed(settings, 3, version=2, schema=pa.schema(narrow))
    refused = run(*START, answer="y\n")
    assert refused.exit_code == 1
    assert "Move the readers" not in refused.stdout
    assert refused.stdout.splitlines()[:2] == [
        "BREAKING, NOT DECLARED: written_by changes from int64 to int32",
        "BREAKING, NOT DECLARED: mean_delay is removed",
    ]
    sentence = (
        "v2 breaks readers of v1, and this was not declared: written_by changes from int64 to int32, "
        "mean_delay is removed"
    )
    assert sentence in " ".join(refused.stderr.split())
    assert "[CHECKS_FAILED]" in refused.stderr
    assert "no migration" in run("migrate", "status", VIEW).stdout
    half = run("compare", VIEW, "1", "2", "--changed", "mean_delay")
    assert (half.exit_code, "BREAKING, declared: mean_delay is removed" in half.stdout) == (1, True)
    both = ("--changed", "mean_delay", "--changed", "written_by")
    assert run("compare", VIEW, "1", "2", *both).exit_code == 0
    assert run(*START, *both, answer="y\n").exit_code == 0
    assert "v1 to v2: moving" in run("migrate", "status", VIEW).stdout
    assert run("migrate", "advance", VIEW).exit_code == 0, "what was declared is no reason to lead back"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((*START, "--steps", "5,x"), "STEPS_WRONG"),
        ((*START, "--steps", "50,5"), "STEPS_WRONG"),
        ((*START, "--soak", "soon"), "DURATION_WRONG"),
        ((*START, "--check", "1; drop"), "CHECK_REFUSED"),
        ((*START, "--changed", "x"), "COLUMNS_UNKNOWN"),
        (("migrate", "start", VIEW, "1", "9", "--why", "x"), "VIEW_UNKNOWN"),
        (("migrate", "advance", VIEW), "NOT_MOVING"),
        (("migrate", "run", VIEW), "NOT_MOVING"),
        (("migrate", "rollback", VIEW, "--why", "x"), "NOT_MOVING"),
        (("migrate", "halt", VIEW, "--why", "x"), "NOT_MOVING"),
        (("migrate", "resume", VIEW, "--why", "x"), "NOT_MOVING"),
        (("migrate", "hasten", VIEW, "--why", "x"), "NOT_MOVING"),
        (("migrate", "advance", "../x"), "VIEW_UNKNOWN"),
        (("compare", VIEW, "1", "2", "--partition", "someday"), "DAY_UNREADABLE"),
    ],
)
@pytest.mark.usefixtures("settings")
def test_what_is_wrong_is_refused_by_name(arguments: tuple[str, ...], code: str) -> None:
    refused = run(*arguments, *(("--yes",) if "start" in arguments else ()))
    assert (refused.exit_code, f"[{code}]" in refused.stderr) == (1, True), refused.output
