"""The clock of everything that the platform runs is set by a day, ahead and back, in the middle of runs of Airflow's
(libfaketime). Ahead: they come to their ends. Back: Airflow does nothing for a run of the future, which says so, and is
deleted and started again, as the runbook says (RUN_DATED_AHEAD). In the end the doctor says only which certificates are
dated ahead, of runs that were scheduled, too; when its advice is followed, it says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from anabranch.apps.airflow._rest_api import run_path
from anabranch.apps.airflow.client import Run
from anabranch.compute.batch.publish import publications
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime import lifecycle
from anabranch_samples.demo.change import own_project
from soak.commands import as_advised, command
from support.dag_requests import asking
from support.fake_time import Clock
from support.processes import eventually
from support.sent_records import level, send

pytestmark = [pytest.mark.system, pytest.mark.sweep, pytest.mark.timeout(3_600)]
VIEW, DAG = "departure_delays", "reprocess_departure_delays"
BACK = ("+1d", "+0")


@pytest.fixture
def clock(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """Of all that is started from now on, Postgres too."""
    folder = own_home / "clock"
    folder.mkdir()
    made = Clock(folder)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.set("+0")


def test_runs_come_to_their_ends(
    own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report], clock: Clock
) -> None:
    sent = 0
    with lifecycle.running(own_project(own_settings("machine"))) as settings, asking(settings) as asked:
        for number, (before, then) in enumerate((("+0", "+1d"), BACK, ("+0", "+0")), 1):
            clock.set(before)
            sent += send(settings, number)
            eventually(lambda: level(settings, sent), 200)  # noqa: B023 - asked here, and no later
            for dag, conf, task in (
                (DAG, {"from": f"2013-01-0{number}"}, "rebuild"),
                ("replay", {"view": VIEW, "share": 100}, "replay"),
            ):
                clock.set(before)
                hit = list[str]()

                def look(run: Run, task: str = task, then: str = then, hit: list[str] = hit) -> None:
                    if run.tasks.get(task) == "running" and not hit:
                        hit.append(task)
                        clock.set(then)

                name = f"{dag}-{number}"
                run = asked.ended(dag, conf, name, look, patience=120 if (before, then) == BACK else 900)
                assert hit, "the run was over before the clock was set"
                if (before, then) == BACK:
                    assert not run.finished
                    assert run.ahead > 80_000
                    asked.client.send("DELETE", run_path(dag, name))
                    if dag == "replay":  # it may have begun; one that is over refuses this
                        command(settings, "replay", "cancel", VIEW, "--version", "1")
                    run = asked.ended(dag, conf, f"{name}-again")
                assert run.state == "success", (number, dag, run.tasks, run.note)
        shown = publications(VersionRef(settings, VIEW, 1).batch_table)
        assert {date(2013, 1, day) for day in (1, 2, 3)} <= set(shown)
        eventually(lambda: level(settings, sent), 200)
        while found := diagnosis(settings).findings:  # it names one view's at a time
            assert {finding.code for finding in found} == {"DATED_AHEAD"}, found
            said = as_advised(settings, found[0].next_step)
            assert said.code == 0, said.text
