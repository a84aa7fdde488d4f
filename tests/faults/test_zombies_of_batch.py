"""The process that publishes days is stopped inside its commit, and comes back after its successor: the same run's next
try, or another run over the same day. Also one whose answer got lost.

It is stopped at the very call that gives its commit a name, below delta-rs (``crash/tracer.py``)."""

from __future__ import annotations

import errno
import json
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
from deltalake import DeltaTable
from support.publications import of_run
from support.small_platform import DAYS, NAME, Clinic, departed
from support.traced_programs import Traced, at_commit, traced

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
DAY = DAYS[0]


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
def publishing(settings: Settings, plan: Mapping[str, Any], **blow: Any) -> Iterator[Traced]:
    """The process that publishes; ``blow``: what befalls it at its commit."""
    table = VersionRef(settings, NAME, 1).batch_table
    at = at_commit(table, DeltaTable(table).version() + 1, **blow) if blow else None
    with traced(at, table, of_run, settings, plan) as process:
        yield process


def ended(process: Traced) -> Any:
    """What it has published, or the code of its error."""
    found, said = process.end()
    assert (found["code"], found["killed"]) == (0, False), said
    return json.loads(said.splitlines()[-1])


def publish(settings: Settings, plan: Mapping[str, Any]) -> Any:
    with publishing(settings, plan) as process:
        return ended(process)


def batches(settings: Settings) -> list[str]:
    return [committed.note.batch for committed in commit_history(VersionRef(settings, NAME, 1).batch_table)]


@pytest.mark.parametrize("after", [False, True])
def test_the_next_try_of_the_same_run_publishes_and_the_one_that_wakes_changes_nothing(
    clinic: Clinic, after: bool
) -> None:
    plan = planned(clinic, "second")
    with publishing(clinic.settings, plan, stop=True, after=after) as zombie:
        zombie.wait_until_stopped()
        successor = publish(clinic.settings, plan)
        zombie.wake()
        woken = ended(zombie)
    assert successor["published"] == woken["published"] == [f"{DAY}"]
    assert batches(clinic.settings).count("publish:second") == 1
    assert publications(clinic.handle().batch_table)[DAY].run == "second"
    assert not examine(clinic.platform()).findings


def test_what_another_run_has_published_meanwhile_stays(clinic: Clinic) -> None:
    plan = planned(clinic, "second")
    with publishing(clinic.settings, plan, stop=True) as zombie:
        zombie.wait_until_stopped()
        clinic.land([departed(8)])
        clinic.speed()
        publish(clinic.settings, planned(clinic, "third"))
        zombie.wake()
        assert ended(zombie) == "PLAN_OUTDATED"
    assert publications(clinic.handle().batch_table)[DAY].run == "third"
    assert "publish:second" not in batches(clinic.settings)
    assert not examine(clinic.platform()).findings


@pytest.mark.parametrize("unread", [False, True])
def test_a_publication_whose_answer_is_lost_is_in_once_and_the_next_try_finds_it(clinic: Clinic, unread: bool) -> None:
    plan = planned(clinic, "second")
    log = Path(clinic.handle().batch_table) / "_delta_log"
    with publishing(clinic.settings, plan, answer=errno.EIO, unread=str(log) if unread else "") as process:
        said = ended(process)
    if unread:
        assert said == "COMMIT_UNKNOWN"
        log.unlink()
        Path(f"{log}.away").rename(log)
        said = publish(clinic.settings, plan)
    assert said["published"] == [f"{DAY}"]
    assert batches(clinic.settings).count("publish:second") == 1
    assert not examine(clinic.platform()).findings
