"""The judge of the soak sees what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from anabranch.apps.airflow.client import Run
from anabranch.change.migrate.migration_record import Migration
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.change.replay.state import ReplayState
from anabranch.change.run_names import run_key

from soak import judging
from soak.judging import DUE, Worked
from soak.report import Soak, page
from soak.watching import Sample

pytestmark = pytest.mark.unit
DAYS = [date(2013, 1, day) for day in (3, 4, 5)]


def whole() -> Soak:
    samples = [
        Sample(15.0 * n, 900, {"landing": 2 * 10**9}, 300 + n % 7, 250, 5_000 + 40 * n, 10**9) for n in range(120)
    ]
    due = [Worked(kind, "success", True, 60.0, "done", 100.0) for kind in DUE]
    works = [*due, Worked("migration that is led back", "led back", True, 90.0, "rolled | back", 300.0)]
    killed = [(61.0, "kafka, all its processes")]
    return Soak(7, 300, 30, 1_800, 1_800, killed, samples, works, 2.0, date="2026-11-27", commit="c0de+")


def grown(soak: Soak, name: str, more: Callable[[Sample], Any]) -> None:
    half = len(soak.samples) // 5 * 3
    soak.samples[half:] = [replace(sample, **{name: more(sample)}) for sample in soak.samples[half:]]


def crowded(soak: Soak) -> None:
    soak.samples[:] = [replace(sample, named=sample.named * 3) for sample in soak.samples]


def test_nothing_is_wrong_with_what_is_whole() -> None:
    assert list(whole().wrong()) == []
    told = page(whole())
    assert "1 kills, 5 runs and commands: nothing is wrong.**" in told
    assert "nothing is wrong.** On 2026-11-27, at commit c0de+, with seed 7." in told
    assert "Ended as they had to: backfill of three days 1, command: reprocess --missing 1, migration that" in told
    assert "| 300 | migration that is led back | led back | 90 s | rolled \\| back |" in told


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda soak: setattr(soak, "landed", 1_799), "1,800 records were sent, 1,799 have landed"),
        (lambda soak: setattr(soak, "level_seconds", 500.0), "500 s after it was sent"),
        (lambda soak: soak.killed.clear(), "nothing was killed"),
        (lambda soak: soak.doctor.append(json.dumps({"code": "ROWS_DIFFER"})), "ROWS_DIFFER"),
        (lambda soak: soak.doctor.append(json.dumps({"code": "LATE_NOWHERE"})), "LATE_NOWHERE"),
        (lambda soak: soak.works.append(Worked("repair", "failed", False, 9.0, "why")), "repair ended as failed: why"),
        (
            lambda soak: soak.works.append(Worked("command: migrate rollback", "exit code 1", False, 9.0, "why")),
            "command: migrate rollback ended as exit code 1: why",
        ),
        (lambda soak: grown(soak, "memory", lambda _: {"landing": 3 * 10**9}), "landing grew from 2,000 to 3,000 MB"),
        (
            lambda soak: grown(soak, "named", lambda sample: sample.named * 2),
            "1.2 data files for each partition in",
        ),
        (crowded, "data files for each partition in the first half, 3.7 later"),
    ],
)
def test_each_thing_that_is_wrong_is_said(break_it: Callable[[Soak], None], said: str) -> None:
    soak = whole()
    break_it(soak)
    (wrong,) = soak.wrong()
    assert said in wrong
    assert wrong in page(soak)


@pytest.mark.parametrize("kind", DUE)
def test_a_soak_without_a_backfill_a_replay_a_migration_or_missing_days_is_wrong(kind: str) -> None:
    soak = whole()
    soak.works[:] = [each for each in soak.works if each.kind != kind]
    assert list(soak.wrong()) == [f"no {kind} was done"]


def run(state: str = "success", name: str = "run", note: str = "a note") -> Run:
    return Run("a_dag", name, state, "http://nowhere", note)


def backfill() -> tuple[dict[date, Run], dict[date, str]]:
    """Three runs, and by which of them readers have each day."""
    runs = {day: run(name=f"backfill__{day}") for day in DAYS}
    return runs, {day: run_key(each.run_id, 0) for day, each in runs.items()}


def test_a_backfill_of_which_every_day_is_published_by_its_own_run_is_whole() -> None:
    ended = judging.backfilled(DAYS, *backfill())
    assert (ended.state, ended.wanted) == ("success", True)
    assert "3 of 3 days" in ended.note


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda runs, _: runs.pop(DAYS[1]), "2013-01-04: Airflow made no run"),
        (lambda runs, _: runs.update({DAYS[2]: run("failed", note="red")}), "2013-01-05: failed: red"),
        (lambda runs, _: runs.update({DAYS[2]: run("running")}), "2013-01-05: running"),
        (lambda _, shown: shown.pop(DAYS[0]), "2013-01-03: readers have what no run has made"),
        (lambda _, shown: shown.update({DAYS[0]: "soak-reprocess-1"}), "readers have what soak-reprocess-1 has made"),
    ],
)
def test_a_backfill_with_a_day_too_few_is_wrong(break_it: Callable[[Any, Any], None], said: str) -> None:
    runs, shown = backfill()
    break_it(runs, shown)
    ended = judging.backfilled(DAYS, runs, shown)
    assert (ended.state, ended.wanted) == ("failed", False)
    assert said in ended.note


@pytest.mark.parametrize(
    ("state", "outcome", "wanted"),
    [
        ("success", {"published": [f"{day}" for day in DAYS], "refused": {}}, True),
        ("failed", {"published": [f"{day}" for day in DAYS], "refused": {}}, False),
        ("running", None, False),
        ("success", None, False),
        ("success", {"published": ["2013-01-03"], "refused": {}}, False),
        ("success", {"published": ["2013-01-03"], "refused": {"2013-01-04": "it differs"}}, False),
    ],
)
def test_days_are_done_again_when_exactly_these_are_published(
    state: str, outcome: Mapping[str, Any] | None, wanted: bool
) -> None:
    assert judging.reprocessed(run(state), DAYS, outcome).wanted is wanted


def test_a_repair_may_find_nothing_to_do_and_must_hold_nothing_back() -> None:
    assert judging.reprocessed(run(), None, None).wanted
    assert not judging.reprocessed(run(), None, {"published": [], "refused": {"2013-01-04": "it differs"}}).wanted


@pytest.mark.parametrize(
    ("state", "standing", "wanted"),
    [
        ("success", ReplayState("v", 1, "r", phase="published", partitions=3, equal=3, said="published"), True),
        ("success", ReplayState("v", 1, "r", phase="published", partitions=3, equal=2), False),
        ("success", ReplayState("v", 1, "r", phase="published"), False),
        ("failed", ReplayState("v", 1, "r", phase="refused", partitions=3, equal=2, said="differs"), False),
        ("success", ReplayState("v", 1, "r", phase="streaming"), False),
        ("success", None, False),
    ],
)
def test_a_replay_is_whole_when_it_is_published_with_equal_certificates(
    state: str, standing: ReplayState | None, wanted: bool
) -> None:
    assert judging.replayed(run(state), standing).wanted is wanted


DONE = Migration("v", 1, 2, (10, 50, 100), 20.0, Expectations(), state="done", share=100)
EVERYBODY = {"dashboard-0": 2, "dashboard-1": 2}


def test_a_migration_that_is_done_and_whose_readers_all_have_the_new_version_is_whole() -> None:
    ended = judging.led_to_all(run(), DONE, {2: 100}, EVERYBODY, [])
    assert (ended.state, ended.wanted, ended.note) == ("success, 100 %", True, "all 2 readers have v2")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"migration": replace(DONE, share=50)}, "50 % have v2"),
        ({"migration": replace(DONE, state="moving", share=50)}, "50 % have v2"),
        ({"migration": replace(DONE, state="moving", share=100)}, "moving"),
        ({"migration": replace(DONE, state="rolled back", share=0)}, "rolled back, 0 % have v2"),
        ({"migration": None}, "no migration"),
        ({"run": run("failed")}, "a note"),
        ({"shares": {1: 50, 2: 50}}, "the route of its readers is {1: 50, 2: 50}"),
        ({"had": {**EVERYBODY, "dashboard-1": 1}}, "1 of 2 readers have another version: dashboard-1: v1"),
        ({"had": {}}, "nobody has read it"),
        ({"wrong": ["dashboard-0 went back"]}, "dashboard-0 went back"),
    ],
)
def test_a_migration_below_all_readers_is_wrong(given: dict[str, Any], said: str) -> None:
    whole: dict[str, Any] = {"run": run(), "migration": DONE, "shares": {2: 100}, "had": EVERYBODY, "wrong": []}
    ended = judging.led_to_all(**{**whole, **given})
    assert not ended.wanted
    assert said in ended.note


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, True),
        ({"run": run("success")}, False),
        ({"migration": DONE}, False),
        ({"migration": None}, False),
        ({"why": "a check failed: v2 is 31 epochs behind landing"}, False),
        ({"had": {"dashboard-0": 2}}, False),
        ({"wrong": ["dashboard-0 could not read"]}, False),
    ],
)
def test_only_a_person_leads_the_migration_back_that_is_led_back(given: dict[str, Any], wanted: bool) -> None:
    back = replace(DONE, state="rolled back", share=0)
    whole = {"run": run("failed"), "migration": back, "why": "so", "wanted_why": "so", "had": {"d": 1}, "wrong": []}
    ended = judging.led_back(**{**whole, **given})
    assert ended.wanted is wanted
    assert (ended.state == "led back") is wanted


def test_a_command_is_judged_by_its_exit_code() -> None:
    assert judging.commanded(0, "done").wanted
    assert judging.commanded(1, "refused") == ("exit code 1", False, "refused")
