"""A part of Airflow is killed in the middle of each DAG, or the task itself is: the run comes to its end by itself, and
the doctor has nothing to say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import count
from pathlib import Path
from signal import SIGKILL
from typing import Any

import psutil
import pytest
from anabranch.apps.airflow.client import Run
from anabranch.change.migrate.migration_record import migration_of
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime import lifecycle, process_registry
from anabranch.operate.runtime.environment import environment
from anabranch.serve import retirement
from anabranch.serve.routes import set_route
from anabranch_samples.demo.change import CHANGED, caught_up, deploy, own_project, send_late
from anabranch_samples.faults import Faults
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace
from support.dag_requests import asking
from support.processes import alive, eventually
from support.sent_records import landed

pytestmark = [pytest.mark.system, pytest.mark.sweep, pytest.mark.timeout(3_600)]
VIEW = "departure_delays"
BY: dict[str, Any] = {"by": "a test", "why": "a test"}
DAYS = {"from": "2013-01-01", "to": "2013-01-02"}
NUMBERS = count(1)
TASK = re.compile("airflow worker -- [0-9a-f-]{36}")
"""The title of the process of a task, by its id; that of who started it names no id."""
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Case:
    """``task``: in one of these ``states`` it is in its middle. ``before`` and ``after``: what the platform needs."""

    dag: str
    conf: Mapping[str, Any]
    task: str
    states: tuple[str, ...] = ("running",)
    answer: str = "Approve"
    before: Callable[[Settings], object] = lambda settings: None
    after: Callable[[Settings], object] = lambda settings: None
    wanted: str = "success"


def late(settings: Settings) -> None:
    known = landed(settings)
    send_late(settings, date(2013, 1, 1), next(NUMBERS))  # those of before are duplicates
    eventually(lambda: landed(settings) > known)
    eventually(lambda: caught_up(settings, 1, lambda _: None))


def to_the_next(settings: Settings) -> None:
    eventually(lambda: caught_up(settings, 1, lambda _: None) and caught_up(settings, 2, lambda _: None))
    set_route(settings, VIEW, {1: 0, 2: 100}, **BY)


def back_again(settings: Settings) -> None:
    retirement.reinstate(VersionRef(settings, VIEW, 1), **BY)
    eventually(lambda: caught_up(settings, 1, lambda _: None))
    set_route(settings, VIEW, {1: 100, 2: 0}, **BY)


ASKED = {"view": VIEW, "why": "a test"}
CASES = {
    "reprocess": Case(f"reprocess_{VIEW}.v1", DAYS, "rebuild"),
    "repair": Case(f"repair_{VIEW}.v1", {}, "rebuild", before=late),
    "replay": Case("replay", {"view": VIEW, "version": 1, "share": 100}, "replay"),
    "migrate": Case(
        "migrate", {**ASKED, "from": 1, "to": 2, "steps": "10,100", "soak": "40 seconds", "changed": list(CHANGED)},
        "move", ("running", "up_for_reschedule"), wanted="failed",
    ),
    "retire": Case(
        "retire", {**ASKED, "version": 1, "grace": "0 seconds"}, "approve", ("awaiting_input",), "Reject",
        before=to_the_next, after=back_again,
    ),
    "maintain": Case("maintain", {}, "maintain"),
}  # fmt: skip
"""A migration ends red: it is led back at its first step. A retirement waits for a person in its middle: then there is
no process of it."""


@pytest.fixture(scope="module")
def whole(own_settings: Callable[[str], Settings]) -> Iterator[Settings]:
    """A platform of this module's own, with both versions of a view over three days, and days that are published."""
    settings = own_project(own_settings("killed").model_copy(update={"max_offsets_per_trigger": 2_000}))
    deploy(settings)
    with lifecycle.running(settings):
        told = produce_flights(settings, date(2013, 1, 1), 3, Pace(), Faults(days_late=0.01), 7, quiet=True)
        sent = sum(number for (topic, _, _), number in told.records.items() if topic == "flights")
        eventually(lambda: landed(settings) == sent, 300)
        eventually(lambda: caught_up(settings, 1, lambda _: None) and caught_up(settings, 2, lambda _: None), 300)
        with asking(settings) as asked:
            for version in ("", ".v1"):
                run = asked.ended(f"reprocess_{VIEW}{version}", {**DAYS, "to": "2013-01-03"}, f"first{version}")
                assert run.state == "success", run.note
        yield settings


def kill_part(name: str) -> Callable[[Settings], bool]:
    def kill(settings: Settings) -> bool:
        before = process_registry.read(settings)[name]
        os.kill(before.pid, SIGKILL)
        eventually(
            lambda: (now := process_registry.read(settings)[name]).pid != before.pid and now.state == "running", 120
        )
        return True

    return kill


def tasks(settings: Settings) -> list[psutil.Process]:
    """The processes in which tasks run: none while all sleep."""
    found = []
    for process in process_registry.family(process_registry.read(settings)["airflow-scheduler"]):
        with suppress(psutil.NoSuchProcess):
            if TASK.match(" ".join(process.cmdline())):
                found.append(process)
    return found


def kill_worker(settings: Settings) -> bool:
    """What carries tasks out, not the task itself."""
    workers = {process.ppid() for process in tasks(settings)}
    for worker in workers:
        os.kill(worker, SIGKILL)
    return bool(workers)


def out_of_memory(settings: Settings) -> bool:
    """By the kernel's own hand: the largest process of each task may have no more memory."""
    found = tasks(settings)
    for process in found:
        largest = max([process, *process.children(recursive=True)], key=lambda each: each.memory_info().rss)
        with no_more_memory(largest):
            eventually(partial(ended, largest), 60)
    return bool(found)


def ended(process: psutil.Process) -> bool:
    return not alive(process)


@contextmanager
def no_more_memory(process: psutil.Process) -> Iterator[None]:
    first = (GROUPS / "memory").is_dir()
    group = GROUPS / ("memory" if first else "") / f"anabranch-{process.pid}"
    limit = "memory.limit_in_bytes" if first else "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text("4M")
        (group / "cgroup.procs").write_text(f"{process.pid}")
    except OSError as error:
        pytest.skip(f"no group of processes with a limit of memory can be made here: {error}")
    try:
        yield
    finally:
        eventually(lambda: not (group / "cgroup.procs").read_text(), 30)
        group.rmdir()


VICTIMS = {
    "postgres": kill_part("postgres"),
    "scheduler": kill_part("airflow-scheduler"),
    "triggerer": kill_part("airflow-triggerer"),
    "api-server": kill_part("airflow-api-server"),
    "worker": kill_worker,
    "memory": out_of_memory,
}


@pytest.mark.parametrize(
    ("name", "victim"),
    [(name, victim) for name in CASES for victim in VICTIMS if name != "retire" or victim not in ("worker", "memory")],
)
def test_it_comes_to_its_end(whole: Settings, name: str, victim: str) -> None:
    case, hit = CASES[name], list[str]()
    case.before(whole)

    def look(run: Run) -> None:
        state = run.tasks.get(case.task, "")
        if not hit and state in case.states:
            if VICTIMS[victim](whole):
                hit.append(state)
        elif hit and name == "migrate" and moving(whole):
            assert "back" in command(whole, "migrate", "rollback", VIEW, "--why", "a test").stdout

    with asking(whole) as asked:
        run = asked.ended(case.dag, case.conf, f"{name}-{victim}", look, answer=case.answer)
    case.after(whole)
    assert hit, "the run was over before anybody was killed"
    assert run.state == case.wanted, run.note
    assert case.wanted == "success" or "rolled back" in run.note
    assert silent(whole) == []


def moving(settings: Settings) -> bool:
    found = migration_of(settings, VIEW)
    return found is not None and found[1].active


def silent(settings: Settings) -> list[Any]:
    found = json.loads(command(settings, "doctor", "--json").stdout)
    return [*found["findings"], *found["unseen"]]


def command(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "anabranch.apps.cli.main", *arguments],
        env=environment(settings), check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
