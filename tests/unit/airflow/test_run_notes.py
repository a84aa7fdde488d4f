"""Names made from run ids, and the texts that a run leaves for people."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.types import TaskInstanceKey
from anabranch.apps.airflow._run_notes import costs_text, listed, outcome_note, planned_note
from anabranch.apps.airflow._spark_job import RebuildJob, SparkJob
from anabranch.certify.verdict import Verdict
from anabranch.change.estimates import Estimate, Outcome
from anabranch.change.publish_run import NO_VERDICT, refusals, step_seconds
from anabranch.change.run_names import AirflowRun, record_run, recorded_run, run_key, run_name
from anabranch.compute.batch.manifest import manifest_path
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef

pytestmark = pytest.mark.unit

HOSTILE = [
    "../../etc/passwd",
    "a/b",
    "$(id)",
    "`id`",
    "x; rm -rf /",
    "\x00",
    "",
    "é" * 500,
    "--run",
    "{{ 1 }}",
    ".",
    "..",
]


@pytest.mark.parametrize("run_id", [*HOSTILE, "manual__2026-11-21T08:36:01.681102+00:00__HOFuMhNs"])
def test_a_run_key_is_a_name_whatever_the_run_id(tmp_path: Path, run_id: str) -> None:
    key = run_key(run_id, 0)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", key)
    file = manifest_path(VersionRef(Settings(home=tmp_path), "delays", 1), key)
    assert file.resolve().parent == (tmp_path / "control" / "builds" / "delays" / "v1").resolve()


def test_run_keys_differ_where_only_unsafe_letters_do_and_after_a_clear() -> None:
    keys = [run_key(run_id, cleared) for run_id in [*HOSTILE, "a-b", "A/b"] for cleared in (0, 1)]
    assert len(set(keys)) == len(keys)
    assert run_key("a", 1) == run_key("a", 1)


PLAN: dict[str, Any] = {
    "view": "delays",
    "version": 1,
    "from": "2013-01-01",
    "to": "2013-01-02",
    "span": "2013-01-01 to 2013-01-02 (2 days)",
    "cut": "flights@12",
    "events": 26_483,
    "late": 312,
    "run": "manual-1",
    "partitions": [{}, {}],
}


def test_the_notes_say_what_where_from_and_what_came_of_it() -> None:
    assert planned_note(PLAN) == (
        "Planned: 2013-01-01 to 2013-01-02 (2 days) of delays v1 from 26,483 events (312 late) at flights@12."
    )
    said = Estimate(47.6, 120_000, 12, 0.218, 8, 10).to_json()
    assert planned_note(PLAN | {"estimate": said}).endswith(
        " Takes about 48 s and 0.12 MB, by 12 earlier runs; 8 of the last 10 took within 22% of their estimates."
    )
    none = Estimate(None, 0, 0, reason="3 earlier runs of this version are needed, there is none").to_json()
    assert planned_note(PLAN | {"estimate": none}).endswith(
        " No estimate: 3 earlier runs of this version are needed, there is none."
    )
    outcome = {
        "published": ["2013-01-01"],
        "refused": {"2013-01-02": "its halves differ"},
        "rows": 744,
        "equal": 1,
        "certified_at": "flights@13",
        "late_rows": 290,
    }
    assert outcome_note(PLAN, outcome, "http://x/checks").splitlines() == [
        "Rebuilt 2013-01-01 to 2013-01-02 (2 days) of delays v1: 744 rows from 26,483 events (312 late) at flights@12.",
        "Certificates: 1 of 2 equal at flights@13 (run manual-1).",
        "Late events changed 290 rows.",
        "Published: 1 of 2 partitions.",
        "NOT published: 2013-01-02 (its halves differ)",
        "Checks: http://x/checks",
    ]


BEGAN = datetime(2026, 11, 27, 12, tzinfo=UTC)


def test_a_note_says_what_each_step_took_and_what_of_it_is_fixed() -> None:
    judged = BEGAN + timedelta(seconds=20)
    result = {"worked": {"rebuild": 8.0, "certify": 4.5}, "judged": judged.isoformat()}
    steps = step_seconds(result, BEGAN, judged + timedelta(seconds=2))
    assert steps == {"engine": 7.5, "rebuild": 8.0, "certify": 4.5, "publish": 2.0}

    def ran(days: int, events: int) -> Outcome:
        took = {**steps, "rebuild": 5.0 + 0.25 * days, "certify": 1.0 + events / 1e6}
        return Outcome("run", days, events, sum(took.values()), 1, BEGAN, None, took)

    before = [ran(1, 1_000_000), ran(31, 31_000_000), ran(2, 50_000_000), ran(9, 1_000), ran(5, 9), ran(1, 7_000_000)]
    costs = costs_text([Outcome("older", 1, 1, 9.0, 1, BEGAN), *before])
    assert costs == (
        " By 6 runs: engine 7.5 s, rebuild 5.0 s + 0.2 s a day, certify 1.0 s + 1.0 s a million events, publish 2.0 s."
    )
    outcome = {"published": ["2013-01-01"], "refused": {}, "rows": 1, "equal": 1, "certified_at": "flights@1"}
    outcome |= {"late_rows": 3, "seconds": 22.0, "steps": steps, "costs": costs}
    lines = outcome_note({**PLAN, "loaded": 4}, outcome, "http://x/checks").splitlines()
    assert lines[2] == "Late and loaded events changed 3 rows."
    assert lines[4] == f"Took 22.0 s: engine 7.5 s, rebuild 8.0 s, certify 4.5 s, publish 2.0 s.{costs}"
    assert costs_text(before[:2]) == ""


def test_a_step_that_was_repeated_leaves_no_seconds_of_steps() -> None:
    """A run that was cleared publishes the build of its first try."""
    result = {"worked": {"rebuild": 8.0, "certify": 4.5}, "judged": BEGAN.isoformat()}
    assert step_seconds(result, BEGAN, BEGAN + timedelta(seconds=2)) == {}
    old = {"worked": {"rebuild": 8.0, "certify": 0.0}, "judged": (BEGAN + timedelta(seconds=20)).isoformat()}
    assert step_seconds(old, BEGAN, BEGAN + timedelta(seconds=22)) == {}


def test_what_is_not_certified_is_held_back_with_its_reason() -> None:
    days = [date(2013, 1, n) for n in (1, 2, 3, 4)]
    verdict = Verdict(
        "delays",
        1,
        "run",
        "flights@1",
        7,
        equal=(days[0], days[3]),
        refused={days[1]: "differs", days[3]: "a check failed"},
        late_changes=(),
    )
    assert refusals(verdict, days) == {
        "2013-01-02": "differs",
        "2013-01-03": NO_VERDICT,
        "2013-01-04": "a check failed",
    }


def test_a_long_list_of_refused_partitions_is_cut() -> None:
    text = listed({f"2013-01-{n:02}": "differs" for n in range(1, 32)})
    assert text.startswith("2013-01-01 (differs); 2013-01-02 (differs)")
    assert text.endswith("and 25 more")


def test_the_run_of_a_key_is_found_again(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert recorded_run(settings, run_key("manual__1", 0)) is None
    for cleared in (0, 1, 1):
        run = SimpleNamespace(dag_id="reprocess_delays", run_id="manual__1", clear_number=cleared)
        assert recorded_run(settings, record_run(settings, run)) == AirflowRun("reprocess_delays", "manual__1")
        assert run_name(settings, run_key("manual__1", cleared)) == "manual__1 of reprocess_delays"
    for other in ("../../secrets/airflow", "by-a-script"):
        assert recorded_run(settings, other) is None
        assert run_name(settings, other) == other


def test_links_lead_to_what_the_task_made() -> None:
    plan = {"view": "delays", "version": 2, "run": "manual-1"}
    task: Any = SimpleNamespace(planned=plan)
    of_try = TaskInstanceKey("rebuild", "rebuild", "manual-1")
    found = {link.name: link.get_link(task, ti_key=of_try) for link in RebuildJob.operator_extra_links}
    assert found["Certificates"].endswith("/anabranch/verdicts/delays/2/manual-1")
    assert found["Checks"].endswith("/anabranch/verdicts/delays/2/manual-1#checks")
    (replays,) = SparkJob.operator_extra_links
    assert replays.get_link(task, ti_key=of_try).endswith("/anabranch/views/delays/replays"), "a replay has no verdict"
