"""A home that commit 46c6225 has written, with work under way, is opened by this version and goes on: nothing of it is
lost, nothing is there twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import anabranch
import polars as pl
import pytest
from anabranch.certify.verdict import read_verdict
from anabranch.change.migrate.migration import advance, rollback
from anabranch.change.migrate.migration_record import Migration, migration_of
from anabranch.change.publish_run import publish_run
from anabranch.change.replay.control import cancel
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.state import list_states, read_control
from anabranch.compute.batch.manifest import read_manifest
from anabranch.compute.batch.publish import publications
from anabranch.compute.batch.publish import publish as publish_build
from anabranch.compute.speed.checkpoint_handover import owner_of
from anabranch.core.errors import Conflict, TryAgain
from anabranch.core.home_format import is_marked
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import end_offsets
from anabranch.ingest.landing.audit.verify import verify
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.lake.streams.stream_checkpoint import checkpoint_id, has_format
from anabranch.operate.backup import create_backup, restore_backup, verify_backups
from anabranch.operate.doctor import Context, examine, log_of
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.environment import environment
from anabranch.operate.upgrade import apply_upgrade, plan_upgrade
from anabranch.operate.upgrade._plan import checkpoints
from anabranch.serve.routes import route_history
from anabranch.views import View
from anabranch.views.project import Project
from anabranch_samples.flights import flight_events
from anabranch_samples.publishing import Pace as Sending
from anabranch_samples.publishing import publish
from support.old_home import naive_views
from support.old_home.compared import TOPICS, VIEWS, assert_as_before, tree
from support.old_home.unpack import FOLDER, expected, unpack
from support.processes import eventually
from support.real_programs import process
from support.sent_records import raw_producer

# Contracts and views of that time import the names of that time.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore:anabranch.* was renamed:FutureWarning")]

ARCHIVE = FOLDER / "home_46c6225.tar.xz"
TO_PUBLISH, TO_CANCEL, STAGED = "replay-to-publish", "replay-to-cancel", "run-not-published"


@pytest.fixture
def opened(tmp_path: Path, free_port: Callable[[], int]) -> Settings:
    names = ("kafka_port", "kafka_controller_port", "postgres_port", "airflow_port", "http_port")
    ports: dict[str, Any] = {name: free_port() for name in names}
    settings = unpack(ARCHIVE, tmp_path, jars=project_root() / ".jars", **ports)
    # The archive grows older: ids that it has landed are to be found again all the same.
    declared = settings.contracts_folder / "flights.py"
    bound = "allowed_lateness=timedelta(hours=2),"
    assert bound in declared.read_text()
    longer = declared.read_text().replace(bound, f"{bound}\n    duplicate_horizon=timedelta(days=10_000),", 1)
    declared.write_text(longer)
    return settings


def command(settings: Settings, *arguments: str) -> str:
    """``anabranch`` as a person calls it, in the project of the old home."""
    done = subprocess.run(
        [sys.executable, "-m", "anabranch.apps.cli.main", *arguments],
        env={**os.environ, **environment(settings)}, cwd=settings.project, timeout=120, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_upgrade_does_what_its_plan_says_and_loses_nothing(opened: Settings) -> None:
    declared = Project(opened).declarations()
    before = tree(opened.home)
    said = command(opened, "upgrade", "--plan")
    assert tree(opened.home) == before
    plan = plan_upgrade(opened, declared)
    assert said == f"{plan}\n"
    kinds = {change.kind for change in plan.changes}
    assert kinds == {
        "home", "verdict", "step between contract versions", "control request of a replay", "landing table",
        "certificates table", "checkpoint of a stream",
    }  # fmt: skip
    assert not any(change.refused for change in plan.changes)
    assert len(plan.notes) == 5, "copies of the old programs"
    assert_as_before(opened)
    assert apply_upgrade(opened, declared) == plan
    assert plan_upgrade(opened, declared).changes == ()
    assert is_marked(opened.home)
    assert all(map(has_format, checkpoints(opened)))
    assert_as_before(opened)


@pytest.mark.parametrize("done", range(0, 18, 4))
def test_an_upgrade_that_was_killed_is_completed_by_the_next_one(
    opened: Settings, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between any two of its steps; each of them is atomic by itself."""
    from anabranch.operate.upgrade import _apply

    declared, steps, whole = Project(opened).declarations(), iter(range(done)), _apply._apply

    def killed(*given: Any) -> None:
        next(steps)  # StopIteration: here it is killed
        whole(*given)

    monkeypatch.setattr(_apply, "_apply", killed)
    with pytest.raises(StopIteration):
        apply_upgrade(opened, declared)
    monkeypatch.undo()
    apply_upgrade(opened, declared)
    assert plan_upgrade(opened, declared).changes == ()
    assert_as_before(opened)


def test_it_goes_on_where_it_was(opened: Settings, tmp_path: Path) -> None:
    """Without an upgrade: what is needed is done by who opens it."""
    project, before = Project(opened), owners(opened)
    with lifecycle.running(opened, ["kafka", "streams"]) as settings:
        sent = send(settings)
        old, new = (project.view("departure_delays", version).definition for version in (1, 2))
        replayed = assert_replays_go_on(settings)
        eventually(lambda: level(settings), 120)
        assert_exactly_once(settings, sent)
        assert owners(settings) == before | {("aircraft_now", 1): replayed}, "each stream has its state of before"
        states = {
            state.run: state
            for view in ("aircraft_now", "hour_and_weather")
            for state in list_states(VersionRef(settings, view, 1))
        }
        assert states[TO_PUBLISH].phase == "published", states[TO_PUBLISH]
        assert states[TO_CANCEL].phase == "cancelled", states[TO_CANCEL]
        assert "bert" in states[TO_CANCEL].said

        assert_build_is_kept(settings, old)

        migration = eventually(lambda: ended(settings, old, new))
        assert (migration.state, migration.share) == ("done", 100), route_history(settings, "departure_delays")[-1]
        assert {anabranch.read("departure_delays", reader=who, settings=settings).version for who in "abc"} == {2}
        rollback(settings, "departure_delays", by="anna", why="enough")
        assert anabranch.read("departure_delays", settings=settings).version == 1
        kept = [route.why for route in route_history(settings, "departure_delays")]
        assert kept[: len(expected(settings)["routes"])] == [each["why"] for each in expected(settings)["routes"]]
        assert (found := migration_of(settings, "departure_delays")) is not None
        assert found[1].state == "rolled back"

        for part in ("kafka", "landing", "speed"):
            assert part in command(settings, "status")
        command(settings, "landing", "verify")
        assert_healthy(settings)
        create_backup(settings, tmp_path / "backups")
    verify_backups(tmp_path / "backups")
    assert is_marked(settings.home)
    there = settings.model_copy(update={"home": tmp_path / "restored"})
    restore_backup(there, tmp_path / "backups")
    for topic in TOPICS:
        assert naive_views.landing_rows(there, topic) == naive_views.landing_rows(settings, topic)
    assert route_history(there, "departure_delays") == route_history(settings, "departure_delays")


def owners(settings: Settings) -> dict[tuple[str, int], str]:
    """The checkpoints whose streams have written the speed halves."""
    commits = {view: latest_commit(VersionRef(settings, *view).speed_table) for view in VIEWS}
    return {view: owner_of(commit.note) for view, commit in commits.items() if commit is not None}


def assert_replays_go_on(settings: Settings) -> str:
    """One is published, the other one is cancelled; what people had asked of them holds. Returns the checkpoint of the
    one that is published."""
    version_ref = VersionRef(settings, "hour_and_weather", 1)
    ref = VersionRef(settings, "aircraft_now", 1)
    named = ("--view", "aircraft_now", "--version", "1", "--run", TO_PUBLISH)
    (state,) = list_states(ref)
    assert read_control(settings, state).pace == Pace(share=1.0, speed=0.0)
    checkpoint = checkpoint_id(ref.replay_checkpoints / TO_PUBLISH)
    with process(settings, "replay", arguments=named) as replay:
        assert replay.popen.wait(300) == 0, replay.said
    (state,) = list_states(ref)
    assert (state.run, state.phase) == (TO_PUBLISH, "published"), state
    (state,) = list_states(version_ref)
    assert read_control(settings, state).cancelled_by == "bert"
    assert cancel(version_ref, "bert").phase == "cancelled"
    assert not Path(str(version_ref.replay_tables / TO_CANCEL)).exists()
    return checkpoint


def assert_build_is_kept(settings: Settings, view: View) -> None:
    """What was rebuilt and certified can be published. Its run is triggered again: a plan of that time doesn't say what
    was published then."""
    with pytest.raises(Conflict) as outdated:
        publish_run(settings, expected(settings)["plan"])
    assert outdated.value.code == "PLAN_OUTDATED"
    build = read_manifest(VersionRef(settings, view.name, view.version), STAGED)
    verdict = read_verdict(VersionRef(settings, view.name, view.version), STAGED)
    assert verdict.equal == build.partitions == (date(2013, 1, 2),)
    assert verdict.results == ()
    publish_build(Project(settings).view(view.name, view.version), build, build.partitions)
    assert publications(VersionRef(settings, view.name, view.version).batch_table)[date(2013, 1, 2)].run == STAGED
    reading = anabranch.read(view.name, view.version, settings=settings, prefer="complete")
    assert reading.halves[date(2013, 1, 2)] == "batch"


def ended(settings: Settings, old: View, new: View) -> Migration | None:
    """The migration, once it has ended; each call goes a step further if it may."""
    try:
        made = advance(settings, old, new, by="run m-1")
    except TryAgain:
        return None
    return None if made.active else made


def send(settings: Settings) -> dict[str, int]:
    """A day more, and one record again that the old code had landed; how many each topic has got in all."""
    declared = Project(settings).declarations()
    events = flight_events(date(2013, 1, 4), 1, declared).filter(pl.col("topic").is_in(TOPICS)).gather_every(25)
    with Producer(settings, declared) as producer:
        publish(producer, events, settings.home / "produced/now.parquet", Sending())
    again = next(row for row in naive_views.landing_rows(settings, "flights") if row["decision"] == "valid")
    raw = raw_producer(settings)
    raw.produce("flights", again["value"], partition=0)
    assert raw.flush(20) == 0
    sent = expected(settings)["sent"]
    return {t: sent[t] + events.filter(pl.col("topic") == t).height + (t == "flights") for t in TOPICS}


def level(settings: Settings) -> bool:
    landed = {topic: latest_commit(landing_table(settings, topic)) for topic in TOPICS}
    for topic, commit in landed.items():
        if commit is None or commit.note.cut.positions[topic].offsets != end_offsets(settings, topic):
            return False
    for view, version in VIEWS:
        commit = latest_commit(VersionRef(settings, view, version).speed_table)
        if commit is None:
            return False
        for topic in commit.note.cut.positions:
            there = landed[topic]
            if there is None or commit.note.cut.epoch(topic) < there.note.cut.epoch(topic):
                return False
    return True


def assert_exactly_once(settings: Settings, sent: dict[str, int]) -> None:
    """Landing has each record of the log once, and each view what a naive count of them gives."""
    rows = {topic: naive_views.landing_rows(settings, topic) for topic in TOPICS}
    declared = Project(settings).declarations()
    for topic in TOPICS:
        assert sum(end_offsets(settings, topic).values()) == sent[topic]
        log = naive_views.log_records(settings, topic)
        assert log.items() <= {(r["partition"], r["offset"]): r["value"] for r in rows[topic]}.items()
        places = [(r["partition"], r["offset"]) for r in rows[topic]]
        assert len(places) == len(set(places))
        events = [(r["source"], r["event_id"]) for r in rows[topic] if r["decision"] == "valid"]
        assert len(events) == len(set(events))
        proof = verify(settings, declared.topic(topic))
        assert proof.sound, proof
    lost = verify(settings, declared.topic("weather")).accepted_losses
    assert [dict(each) for each in lost] == expected(settings)["proofs"]["weather"]["accepted_losses"]
    flights, weather = rows["flights"], rows["weather"]

    def speed(view: str, version: int, columns: str) -> set[tuple[Any, ...]]:
        return naive_views.speed_rows(settings, view, version, columns.split())

    found = speed("departure_delays", 1, "origin window_start flights delayed delay_minutes")
    assert found == naive_views.departure_delays(flights)
    found = speed("departure_delays", 2, "origin carrier window_start flights delayed delay_minutes longest")
    assert found == naive_views.departure_delays_by_carrier(flights)
    found = speed("aircraft_now", 1, "tailnum last_flight last_airport in_air since")
    assert found == naive_views.aircraft_now(flights)
    found = speed("hour_and_weather", 1, "origin hour departed observed")
    assert found == naive_views.hour_and_weather(flights, weather)
    rested = speed("turns", 1, "tailnum began rested_at flights")
    assert rested == naive_views.turns(flights, max(row[2] for row in rested))


def assert_healthy(settings: Settings) -> None:
    project = Project(settings)
    report = examine(Context(settings, project.declarations(), project.views(), log_of(settings), 1_000))
    assert report.findings == (), str(report)
