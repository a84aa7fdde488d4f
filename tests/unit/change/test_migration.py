"""A migration: step by step, checked, rolled back by itself or by hand, and where its route says it is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anabranch
import duckdb
import pytest
from anabranch.certify.certificates import Certificate, Checksum, newest_sequence, record
from anabranch.change.migrate import migration, promotion_checks
from anabranch.change.migrate.migration import (
    advance,
    check_start,
    days_to_build,
    halt,
    resume,
    rollback,
    skip_soak,
    start,
)
from anabranch.change.migrate.migration_record import Migration, majority_version, migration_of, of_run
from anabranch.change.migrate.promotion_checks import CheckOutcome, Expectations, run_checks
from anabranch.core import clocks
from anabranch.core.errors import AnabranchError, BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.serve import routes
from anabranch.serve.reader_log import failed_reads
from anabranch.serve.retirement import reinstate, retire
from anabranch.serve.routes import route_history, set_route
from anabranch.serve.served_versions import newest_speed
from anabranch.serve.table_snapshots import Snapshot
from anabranch.views import View
from deltalake.exceptions import DeltaError
from support import small_halves
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
SUM = Checksum(3, 1, 1)
OLD, NEW = (
    View(VIEW, version, ("flight.departed",), ("window_start",), lambda rows: rows, partition_by="window_start")
    for version in (1, 2)
)


def certify(settings: Settings, version: int, day: date | None = DAYS[0], expected: Checksum = SUM) -> None:
    now = datetime.now(UTC)
    cut = small_halves.cut_at(3)
    run = f"run-{version}-{now.timestamp()}"
    found = Certificate(VIEW, version, day, run, cut, 1, "f", "recomputed", SUM, expected, 0, now)
    record(settings, [found])


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Two versions at one cut, with one certificate each."""
    monkeypatch.setattr(routes, "PATIENCE", 0.3)
    settings = Settings(home=tmp_path)
    for version in (1, 2):
        small_halves.start_speed(settings, 3, version=version)
        certify(settings, version)
    return settings


def begin(settings: Settings, **more: Any) -> Migration:
    given: dict[str, Any] = {"by": "anna", "why": "v2 is better", "soak_seconds": 0, **more}
    return start(settings, OLD, NEW, **given)


def step(settings: Settings) -> Migration:
    return advance(settings, OLD, NEW, by="migrate")


def refused(settings: Settings, **more: object) -> str:
    with pytest.raises(AnabranchError) as error:
        begin(settings, **more)
    return error.value.code


def test_it_goes_step_by_step_and_each_is_in_the_history(settings: Settings) -> None:
    begin(settings)
    assert anabranch.read(VIEW, settings=settings).version == 1, "who only approved it has moved readers"
    states = [(made.state, made.share) for made in (step(settings) for _ in range(6))]
    assert states == [*(("moving", share) for share in (1, 5, 25, 50, 100)), ("done", 100)]
    assert anabranch.read(VIEW, settings=settings).version == 2
    told = [(dict(r.shares), r.changed_by, r.why) for r in route_history(settings, VIEW)]
    assert told[0] == ({1: 100}, "anna", "v2 is better")
    assert told[3] == ({1: 75, 2: 25}, "migrate", "step 3 of 5")
    assert told[-1] == ({2: 100}, "migrate", "soaked at 100 %")
    with pytest.raises(Conflict, match="done"):
        step(settings)


def test_where_it_stands_is_where_its_route_says(settings: Settings) -> None:
    """Nothing else is kept: another process, or one after a kill, goes on from there."""
    made = begin(settings, steps=(10, 100), promise=Expectations(changed=("written_by",), checks=("written_by > 0",)))
    found = migration_of(settings, VIEW)
    assert found is not None
    assert found[1] == made
    assert found[1].promise == made.promise
    moved = step(settings)
    kept = route_history(settings, VIEW)[-1].migration
    assert kept is not None
    assert Migration.from_json(kept) == moved


def test_a_step_soaks_first(settings: Settings) -> None:
    begin(settings, soak_seconds=3600)
    assert step(settings).share == 1, "nobody is moved yet, so there is nothing to wait for"
    with pytest.raises(TryAgain) as early:
        step(settings)
    assert early.value.code == "SOAKING"
    assert early.value.fields["seconds"] > 3500


@pytest.mark.parametrize("error", [duckdb.IOException("the disk"), DeltaError("the log"), ValueError("a record")])
def test_a_check_that_ends_with_an_unknown_error_is_one_that_cannot_be_run(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whatever runs the migration lives on, and after two minutes readers are back."""

    def fail(*_: object) -> None:
        raise error

    begin(settings)
    monkeypatch.setattr(promotion_checks, "compare_versions", fail)
    with pytest.raises(TryAgain, match=str(error)) as waits:
        step(settings)
    assert waits.value.code == "CHECK_NOT_RUN"
    assert waits.value.__cause__ is error
    monkeypatch.setattr(migration, "UNCHECKED_SECONDS", 0.0)
    assert step(settings).state == "rolled back"
    assert str(error) in route_history(settings, VIEW)[-1].why
    with pytest.raises(TryAgain, match=str(error)):
        begin(settings)


@pytest.mark.parametrize("unreadable", [1, 2])
def test_a_step_is_not_reached_while_a_version_cannot_be_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, unreadable: int
) -> None:
    """The old version is ahead, so readers of the new one can't follow yet; an error says nothing about that."""

    def read(of: Settings, view: str, version: int) -> tuple[int, Snapshot]:
        if version == unreadable:
            raise TryAgain("VIEW_NOT_READY", "its table can't be read now")
        return newest_speed(of, view, version)

    begin(settings, promise=Expectations(compared=False))
    small_halves.merge_speed(settings, 4, DAYS[:1])
    with monkeypatch.context() as broken:
        broken.setattr(migration, "newest_speed", read)
        step(settings)
        with pytest.raises(TryAgain, match="READERS_FOLLOW"):
            step(settings)
    with pytest.raises(TryAgain, match="flights@4") as follow:
        step(settings)
    assert follow.value.code == "READERS_FOLLOW"
    small_halves.merge_speed(settings, 4, DAYS[:1], version=2)
    assert step(settings).share == 5


def test_after_a_restart_of_the_machine_a_step_soaks_again_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock begins anew, so nobody knows for how long the step has soaked."""
    begin(settings, soak_seconds=60)
    step(settings)
    clock = SimpleNamespace(now=5.0)
    monkeypatch.setattr(clocks, "_boot", lambda: "after the restart")
    monkeypatch.setattr(clocks, "time", SimpleNamespace(monotonic=lambda: clock.now))
    for clock.now, left in ((5.0, 60), (35.0, 30)):
        with pytest.raises(TryAgain) as soaking:
            step(settings)
        assert soaking.value.code == "SOAKING"
        assert soaking.value.fields["seconds"] == pytest.approx(left)
    clock.now = 66.0
    assert step(settings).share == 5


@pytest.mark.parametrize("soaking", [0, 3600])
def test_a_certificate_that_turns_red_leads_everybody_back_even_while_it_soaks(
    settings: Settings, soaking: int
) -> None:
    begin(settings, soak_seconds=soaking)
    step(settings)
    certify(settings, 2, expected=Checksum(3, 1, 2))
    back = step(settings)
    assert (back.state, back.share) == ("rolled back", 0)
    newest = route_history(settings, VIEW)[-1]
    assert (dict(newest.shares), newest.why) == ({1: 100}, f"a check failed: the paths of v2 differ on {DAYS[0]}")
    with pytest.raises(Conflict, match="rolled back"):
        step(settings)


def test_a_day_that_only_the_old_version_has_certified_since_the_start_is_no_reason(settings: Settings) -> None:
    """Each version's days are certified by a run of its own: one of them is always first."""
    begin(settings, steps=(50, 100))
    step(settings)
    certify(settings, 1, DAYS[1])
    assert step(settings).share == 100
    certify(settings, 2, DAYS[1], expected=Checksum(3, 1, 2))
    assert step(settings).state == "rolled back", "one that isn't equal is"


def test_a_day_that_the_old_version_had_certified_at_the_start_is_wanted_of_the_new_one(settings: Settings) -> None:
    begin(settings)
    certify(settings, 1, DAYS[1])
    at_start = newest_sequence(settings)
    certify(settings, 1, DAYS[1])
    for certified in (None, at_start):
        outcome = run_checks(settings, OLD, NEW, Expectations(), thorough=False, certified=certified)
        assert outcome.failed == (f"v2 has no certificate of {DAYS[1]}, but v1 has",)


def test_of_the_route_that_was_judged_and_another_one_meanwhile_the_other_one_stays(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(*given: Any) -> int:
        number = check_start(*given)
        set_route(settings, VIEW, {2: 100}, by="bob", why="by hand")
        return number

    monkeypatch.setattr(migration, "check_start", judged)
    assert refused(settings) == "ROUTE_MOVED"
    assert [dict(r.shares) for r in route_history(settings, VIEW)] == [{2: 100}]


def test_rows_that_differ_beyond_what_was_said_lead_everybody_back(settings: Settings) -> None:
    begin(settings, steps=(50, 100))
    step(settings)
    small_halves.merge_speed(settings, 4, DAYS[:2])
    small_halves.merge_speed(settings, 4, DAYS[:1], version=2)
    assert step(settings).state == "rolled back"
    why = route_history(settings, VIEW)[-1].why
    assert f"v1 and v2 differ in written_by on {DAYS[1]} at flights@4" in why


def test_what_was_said_to_differ_may(settings: Settings) -> None:
    begin(settings, promise=Expectations(changed=("written_by",)))
    small_halves.merge_speed(settings, 4, DAYS[:2])
    small_halves.merge_speed(settings, 4, DAYS[:1], version=2)
    assert step(settings).state == "moving"


def test_the_users_checks_and_a_version_that_falls_behind(settings: Settings) -> None:
    begin(settings, promise=Expectations(checks=("written_by < 4", "origin like 'O%'"), compared=False, behind=2))
    assert step(settings).state == "moving"
    uri, schema = landing_table(settings, "flights"), small_halves.SPEED_SCHEMA
    table = create(uri, schema, [], CommitMetadata("landing/flights", "0", small_halves.cut_at(5)))
    assert step(settings).share == 5, "two epochs behind are within the promise"
    append(table, [], CommitMetadata("landing/flights", "1", small_halves.cut_at(6)))
    assert step(settings).state == "rolled back"
    assert "v2 is 3 epochs behind landing, more than 2" in route_history(settings, VIEW)[-1].why
    for version in (1, 2):
        small_halves.merge_speed(settings, 6, DAYS[:1], version=version)
    assert refused(settings, promise=Expectations(checks=("written_by < 4",))) == "CHECKS_FAILED"


def test_by_hand_and_back_even_when_it_is_done(settings: Settings) -> None:
    begin(settings, steps=(100,))
    step(settings)
    with pytest.raises(Conflict) as meddling:
        set_route(settings, VIEW, {1: 50, 2: 50}, by="bob", why="I know better")
    assert meddling.value.code == "MIGRATION_ACTIVE"
    assert step(settings).state == "done"
    assert rollback(settings, VIEW, by="bob", why="wrong after all").state == "rolled back"
    assert anabranch.read(VIEW, settings=settings).version == 1
    with pytest.raises(Conflict):
        rollback(settings, VIEW, by="bob", why="again")
    set_route(settings, VIEW, {1: 50, 2: 50}, by="bob", why="by hand is allowed again")
    assert migration_of(settings, VIEW) is None


def test_a_rollback_is_not_refused_for_a_step_of_the_same_moment(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(settings)
    commit = migration._commit

    def red(of: Settings) -> Migration:
        return halt(of, VIEW, by="eve", why="red")

    meanwhile = [step, step, red]

    def late(*given: Any, **more: Any) -> Migration:
        if meanwhile:
            monkeypatch.setattr(migration, "_commit", commit)
            meanwhile.pop(0)(settings)
            monkeypatch.setattr(migration, "_commit", late)
        return commit(*given, **more)

    monkeypatch.setattr(migration, "_commit", late)
    assert rollback(settings, VIEW, by="bob", why="stop").state == "rolled back"
    newest = route_history(settings, VIEW)[-1]
    assert (dict(newest.shares), newest.changed_by) == ({1: 100}, "bob")


def test_a_rollback_undoes_no_other_change_of_the_same_moment(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(settings, steps=(100,))
    step(settings)
    step(settings)
    commit = migration._commit

    def late(*given: Any, **more: Any) -> Migration:
        monkeypatch.setattr(migration, "_commit", commit)
        set_route(settings, VIEW, {1: 50, 2: 50}, by="eve", why="by hand")
        return commit(*given, **more)

    monkeypatch.setattr(migration, "_commit", late)
    with pytest.raises(Conflict) as refusal:
        rollback(settings, VIEW, by="bob", why="stop")
    assert refusal.value.code == "ROUTE_MOVED"
    assert route_history(settings, VIEW)[-1].changed_by == "eve"


def test_retiring_another_version_leaves_the_rollback(settings: Settings) -> None:
    """It has moved nobody."""
    small_halves.start_speed(settings, 3, version=3)
    begin(settings, steps=(100,))
    step(settings)
    step(settings)
    third = VersionRef(settings, VIEW, 3)
    retire(third, by="bob", why="a dead end", grace=timedelta(0))
    reinstate(third, by="bob", why="not so dead")
    retire(third, by="bob", why="a dead end", grace=timedelta(0))
    assert rollback(settings, VIEW, by="bob", why="wrong after all").state == "rolled back"
    newest = route_history(settings, VIEW)[-1]
    assert (dict(newest.shares), newest.retired) == ({1: 100}, frozenset({3}))
    with pytest.raises(Conflict, match="wrong after all") as refusal:
        rollback(settings, VIEW, by="bob", why="again")
    assert refusal.value.code == "NOT_MOVING"


def test_days_that_the_new_version_lacks_are_named_with_the_command_that_builds_them(settings: Settings) -> None:
    small_halves.publish(settings, dict.fromkeys(DAYS[:2], 1), DAYS[:2])
    for day in DAYS[:2]:
        certify(settings, 1, day)
    with pytest.raises(Conflict, match="v2 has no certificate of") as failed:
        begin(settings)
    assert failed.value.code == "CHECKS_FAILED"
    assert days_to_build(settings, OLD, NEW) == DAYS[:2]
    build = f"anabranch reprocess {VIEW} --version 2 --from {DAYS[0]} --to {DAYS[1]}"
    assert failed.value.next_step.startswith(f"build 2 days of v2 that aren't published and certified: {build}")


@pytest.mark.parametrize(
    ("day", "command"),
    [
        (DAYS[1], f"anabranch reprocess {VIEW} --version 2 --from {DAYS[1]} --to {DAYS[1]} (the DAG migrate does that"),
        (None, f"anabranch certify {VIEW} --version 2"),
    ],
)
def test_what_only_the_old_version_has_certified_is_named_with_its_command(
    settings: Settings, day: date | None, command: str
) -> None:
    """Certified, and never published: there is nothing to mend, and nothing to declare."""
    certify(settings, 1, day)
    with pytest.raises(Conflict, match=f"v2 has no certificate of {day or 'the whole view'}, but v1 has") as failed:
        begin(settings)
    assert command in failed.value.next_step
    assert "declare" not in failed.value.next_step


def test_what_can_not_be_started(settings: Settings) -> None:
    assert refused(settings, steps=(5, 1, 100)) == "STEPS_WRONG"
    assert refused(settings, steps=(5, 50)) == "STEPS_WRONG"
    assert refused(settings, steps=()) == "STEPS_WRONG"
    assert refused(settings, soak_seconds=-1) == "STEPS_WRONG"
    assert refused(settings, promise=Expectations(checks=("1 = 1; drop table x",))) == "CHECK_REFUSED"
    # It would close the brackets of a NOT, and never fail.
    assert refused(settings, promise=Expectations(checks=("written_by > 0) AND (FALSE",))) == "CHECKS_FAILED"
    assert refused(settings, promise=Expectations(changed=("nothing",))) == "COLUMNS_UNKNOWN"
    assert refused(settings, why=" ") == "REASON_MISSING"
    certify(settings, 1, DAYS[1])
    assert refused(settings) == "CHECKS_FAILED", "v2 isn't certified where v1 is"
    certify(settings, 2, DAYS[1])
    set_route(settings, VIEW, {1: 50, 2: 50}, by="bob", why="by hand")
    assert refused(settings) == "READERS_ELSEWHERE"
    with pytest.raises(AnabranchError, match="delays v1 to delays v1"):
        start(settings, OLD, replace(NEW, version=1), by="a", why="b")
    assert migration_of(settings, VIEW) is None


def test_a_person_holds_it_and_lets_it_go_on(settings: Settings) -> None:
    begin(settings, steps=(5, 50, 100), soak_seconds=3600)
    step(settings)
    assert halt(settings, VIEW, by="bob", why="the dashboard is red").state == "halted"
    with pytest.raises(TryAgain, match="halted at 5 % by bob: the dashboard is red") as held:
        step(settings)
    assert held.value.code == "HALTED"
    with pytest.raises(Conflict) as meddling:
        set_route(settings, VIEW, {1: 50, 2: 50}, by="eve", why="while nobody looks")
    assert meddling.value.code == "MIGRATION_ACTIVE"
    assert refused(settings) == "MIGRATION_ACTIVE"
    assert resume(settings, VIEW, by="bob", why="it was the dashboard").state == "moving"
    with pytest.raises(TryAgain) as soaking:
        step(settings)
    assert soaking.value.fields["seconds"] > 3500, "it soaks anew after a halt"
    told = [(dict(r.shares)[1], r.changed_by, r.why) for r in route_history(settings, VIEW)][-2:]
    assert told == [(95, "bob", "the dashboard is red"), (95, "bob", "it was the dashboard")]


def test_a_check_that_fails_while_it_is_halted_leads_everybody_back(settings: Settings) -> None:
    begin(settings, soak_seconds=3600)
    step(settings)
    halt(settings, VIEW, by="bob", why="wait")
    certify(settings, 2, expected=Checksum(3, 1, 2))
    assert step(settings).state == "rolled back"


def test_a_person_who_cannot_wait_gets_one_step_and_its_checks(settings: Settings) -> None:
    begin(
        settings,
        steps=(5, 50, 100),
        soak_seconds=3600,
        promise=Expectations(checks=("written_by < 4",), compared=False),
    )
    step(settings)
    skip_soak(settings, VIEW, by="bob", why="it's urgent")
    assert step(settings).share == 50
    with pytest.raises(TryAgain):
        step(settings)
    skip_soak(settings, VIEW, by="bob", why="it's very urgent")
    for version in (1, 2):
        small_halves.merge_speed(settings, 4, DAYS[:1], version=version)
    assert step(settings).state == "rolled back", "a step was taken without its checks"


def test_halting_moves_nobody_so_it_waits_for_no_stream(settings: Settings) -> None:
    begin(settings, soak_seconds=3600)
    step(settings)
    small_halves.merge_speed(settings, 4, DAYS[:1])
    assert halt(settings, VIEW, by="bob", why="v2's stream stands still").state == "halted"
    assert halt(settings, VIEW, by="bob", why="again").state == "halted"
    assert len(route_history(settings, VIEW)) == 3, "what changes nothing is no change"


def test_a_run_finds_its_own_migration_whatever_happened_since(settings: Settings) -> None:
    assert of_run(settings, VIEW, "run-1") is None
    begin(settings, run="run-1")
    step(settings)
    rollback(settings, VIEW, by="bob", why="no")
    begin(settings, run="run-2")
    set_by_hand = rollback(settings, VIEW, by="bob", why="no again")
    set_route(settings, VIEW, {1: 50, 2: 50}, by="bob", why="by hand")
    first, second = of_run(settings, VIEW, "run-1"), of_run(settings, VIEW, "run-2")
    assert first is not None
    assert second is not None
    assert (first[0].why, first[1].state) == ("no", "rolled back")
    assert second[1] == set_by_hand
    assert of_run(settings, VIEW, "run-3") is None


def test_what_readers_have_of_the_old_version_is_to_be_built_of_the_new_one(settings: Settings) -> None:
    assert days_to_build(settings, OLD, NEW) == []
    small_halves.publish(settings, dict.fromkeys(DAYS[:3], 3), DAYS[:3])
    assert days_to_build(settings, OLD, NEW) == DAYS[:3]
    small_halves.publish(settings, dict.fromkeys(DAYS[:2], 3), DAYS[:2], version=2)
    assert days_to_build(settings, OLD, NEW) == DAYS[1:3], "one is certified already, one isn't"
    certify(settings, 2, DAYS[1], expected=Checksum(3, 1, 2))
    assert days_to_build(settings, OLD, NEW) == DAYS[1:3], "one whose paths differ is no build"
    certify(settings, 2, DAYS[1])
    assert days_to_build(settings, OLD, NEW) == [DAYS[2]]
    assert days_to_build(settings, replace(OLD, partition_by=None), replace(NEW, partition_by=None)) == []


def test_the_version_that_most_readers_have(settings: Settings) -> None:
    assert majority_version(settings, VIEW) == 1
    set_route(settings, VIEW, {1: 25, 2: 75}, by="bob", why="by hand")
    assert majority_version(settings, VIEW) == 2


def test_a_version_that_can_not_be_read_any_more_loses_its_readers(settings: Settings) -> None:
    """They have errors until then; the check sees the table, and their reads."""
    ref = VersionRef(settings, VIEW, 2)
    begin(settings, steps=(50, 100), soak_seconds=3600)
    step(settings)
    name = next(f"r{n}" for n in range(99) if route_history(settings, VIEW)[-1].version_for(f"r{n}") == 2)
    reading = anabranch.read(VIEW, settings=settings, reader=name)
    shutil.rmtree(ref.speed_table)
    with pytest.raises(TryAgain):
        reading.to_arrow()
    assert [(each.code, each.engine) for each in failed_reads(ref)] == [("READING_EXPIRED", "arrow")]
    with pytest.raises(BadInput):
        anabranch.read(VIEW, settings=settings, reader=name)
    back = step(settings)
    assert (back.state, "a check can't run" in route_history(settings, VIEW)[-1].why) == ("rolled back", True)
    assert anabranch.read(VIEW, settings=settings, reader=name).version == 1


def test_reads_that_fail_lead_everybody_back(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(settings, steps=(50, 100), soak_seconds=3600)
    step(settings)
    route = route_history(settings, VIEW)[-1]
    led = {n: next(f"r{k}" for k in range(99) if route.version_for(f"r{k}") == n) for n in (1, 2)}
    with monkeypatch.context() as broken:

        def fail(*_: object, **__: object) -> None:
            raise TryAgain("VIEW_NOT_READY", "v2 is empty")

        broken.setattr("anabranch.serve._read_api.pin", fail)
        for reader in led.values():
            with pytest.raises(TryAgain):
                anabranch.read(VIEW, settings=settings, reader=reader)
    assert step(settings).state == "rolled back"
    why = f"a check failed: 1 reads of v2 failed: {led[2]} [VIEW_NOT_READY, read]"
    assert route_history(settings, VIEW)[-1].why == why
    begin(settings)
    assert step(settings).state == "moving"
    assert step(settings).state == "moving", "what failed before the readers came is no reason"


def test_two_at_once_are_refused_and_of_two_steps_at_once_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(settings)
    assert refused(settings) == "MIGRATION_ACTIVE"

    def slow(*given: object, **more: object) -> CheckOutcome:
        """Another process takes the step while this one checks."""
        monkeypatch.setattr(migration, "run_checks", run_checks)
        assert step(settings).share == 1
        return CheckOutcome(())

    monkeypatch.setattr(migration, "run_checks", slow)
    with pytest.raises(Conflict) as late:
        step(settings)
    assert late.value.code == "ROUTE_MOVED"
    assert [dict(r.shares) for r in route_history(settings, VIEW)] == [{1: 100}, {1: 99, 2: 1}]
