"""The process that publishes days is stopped inside its commit, and comes back after its successor: the same run's next
try, or another run over the same day."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from anabranch.change.reprocess_plan import make_plan
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.batch.publish import publications
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor import examine
from anabranch.operate.runtime.environment import environment
from support.small_platform import DAYS, NAME, Clinic, departed

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
DAY = DAYS[0]

PUBLISH = """
import json, os, signal, sys
from anabranch.change.publish_run import publish_run
from anabranch.core.errors import Conflict
from anabranch.core.settings import load_settings
from anabranch.lake import commits

settle, stopped = commits.commit_or_confirm, []

def stop():
    if not stopped:
        stopped.append(True)
        os.kill(os.getpid(), signal.SIGSTOP)

def stops(uri, read, mark, commit):
    if WHERE == "before":
        stop()
    version = settle(uri, read, mark, commit)
    if WHERE == "after":
        stop()
    return version

WHERE, plan = sys.argv[1], json.loads(sys.argv[2])
commits.commit_or_confirm = stops
try:
    print(json.dumps(publish_run(load_settings(), plan)))
except Conflict as conflict:
    sys.exit(conflict.code)
"""


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    """A platform with a day that is published, and events that have landed for it since."""
    made = Clinic(Settings(home=tmp_path / "home"))
    made.land([departed(number) for number in range(4)])
    made.speed()
    made.reprocess("first", [DAY])
    made.land([departed(number) for number in range(4, 8)])
    made.speed()
    return made


def planned(clinic: Clinic, run: str, days: Sequence[date] = (DAY,)) -> dict[str, Any]:
    """The plan of a run that is built and certified, and only has to be published."""
    plan = make_plan(clinic.handle(), ReprocessRequest(tuple(days), {}, explicit=True))
    clinic.build(run, days)
    clinic.certify(run, days)
    return {**plan.to_json(), "run": run}


@contextmanager
def publishing(settings: Settings, plan: Mapping[str, Any], where: str = "nowhere") -> Iterator[subprocess.Popen[str]]:
    given = [sys.executable, "-c", PUBLISH, where, json.dumps(plan)]
    env = {**os.environ, **environment(settings)}
    with subprocess.Popen(given, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def publish(settings: Settings, plan: Mapping[str, Any]) -> dict[str, Any]:
    with publishing(settings, plan) as process:
        said, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        found: dict[str, Any] = json.loads(said)
        return found


def woken(zombie: subprocess.Popen[str]) -> tuple[int, str, str]:
    zombie.send_signal(signal.SIGCONT)
    said, errors = zombie.communicate(timeout=60)
    return zombie.returncode, said, errors


def wait_until_stopped(zombie: subprocess.Popen[str]) -> None:
    _, status = os.waitpid(zombie.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), "it ended before its commit"


def batches(settings: Settings) -> list[str]:
    return [committed.note.batch for committed in commit_history(VersionRef(settings, NAME, 1).batch_table)]


@pytest.mark.parametrize("where", ["before", "after"])
def test_the_next_try_of_the_same_run_publishes_and_the_one_that_wakes_changes_nothing(
    clinic: Clinic, where: str
) -> None:
    plan = planned(clinic, "second")
    with publishing(clinic.settings, plan, where) as zombie:
        wait_until_stopped(zombie)
        successor = publish(clinic.settings, plan)
        code, said, errors = woken(zombie)
    assert code == 0, errors
    assert successor["published"] == json.loads(said)["published"] == [f"{DAY}"]
    assert batches(clinic.settings).count("publish:second") == 1
    assert publications(clinic.handle().batch_table)[DAY].run == "second"
    assert not examine(clinic.platform()).findings


def test_what_another_run_has_published_meanwhile_stays(clinic: Clinic) -> None:
    plan = planned(clinic, "second")
    with publishing(clinic.settings, plan, "before") as zombie:
        wait_until_stopped(zombie)
        clinic.land([departed(8)])
        clinic.speed()
        publish(clinic.settings, planned(clinic, "third"))
        code, _, errors = woken(zombie)
    assert (code, errors.splitlines()[-1]) == (1, "PLAN_OUTDATED")
    assert publications(clinic.handle().batch_table)[DAY].run == "third"
    assert "publish:second" not in batches(clinic.settings)
    assert not examine(clinic.platform()).findings
