"""Replays as people ask for them, by Airflow's public REST API and the command line, beside a stream that goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.change.replay.state import STREAMING, ReplayState, list_states
from anabranch.compute.speed.checkpoint_handover import owner_of
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.lake import Commit, latest_commit, open_table
from anabranch.lake.commits import upsert
from anabranch.lake.layout import VersionRef
from anabranch.lake.streams.stream_checkpoint import checkpoint_id
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.secret_files import airflow_login
from anabranch_samples.faults import Faults
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace
from support.processes import SLOW, eventually
from support.sent_records import VIEWS, landed, speed_is_level

pytestmark = [pytest.mark.system, pytest.mark.timeout(2_700)]
VIEW = "departure_delays"
A_DAY_IN_TEN_SECONDS = 8_640


@pytest.fixture(scope="module")
def platform(platform: Settings, three_days: Callable[[Settings], int]) -> Settings:
    """With two days of flights more, in small epochs, and a stream that has come to their end."""
    three_days(platform)
    send(platform, date(2013, 1, 20), 2)
    return platform


@pytest.fixture
def client(platform: Settings) -> Iterator[Client]:
    with Client(airflow_address(platform), airflow_login(platform)) as client:
        yield client


def send(settings: Settings, first: date, days: int) -> None:
    known = landed(settings)
    sent = produce_flights(settings, first, days, Pace(), Faults(), 7, quiet=True)
    wanted = known + sum(count for (topic, _, _), count in sent.records.items() if topic == "flights")
    eventually(lambda: landed(settings) >= wanted and speed_is_level(settings, VIEW), 300)


def head(settings: Settings) -> Commit:
    found = latest_commit(VersionRef(settings, VIEW, 1).speed_table)
    assert found is not None
    return found


def rows(settings: Settings) -> dict[tuple[str, Any], int]:
    """The flights of each row of the live table."""
    table = open_table(VersionRef(settings, VIEW, 1).speed_table)
    assert table is not None
    found = table.to_pyarrow_table(columns=["origin", "window_start", "flights"]).to_pylist()
    return {(row["origin"], row["window_start"]): row["flights"] for row in found}


def spoil(settings: Settings) -> tuple[str, Any]:
    """A thousand flights too many in one row, in a commit like the stream's own; the row's key."""
    table = open_table(VersionRef(settings, VIEW, 1).speed_table)
    assert table is not None
    row = next(row for row in table.to_pyarrow_table().to_pylist() if row["partition_date"] == date(2013, 1, 20))
    wrong = pa.Table.from_pylist([{**row, "flights": row["flights"] + 1000}], pa.schema(table.schema().to_arrow()))
    upsert(table, wrong, ["origin", "window_start"], head(settings).note, "partition_date")
    return row["origin"], row["window_start"]


def asked_for(client: Client, **conf: Any) -> Run:
    """A replay, with the approval that so many events need here."""
    run = client.trigger("replay", {"view": VIEW, **conf})
    eventually(lambda: client.run(run.dag_id, run.run_id).tasks["approve"] in ("awaiting_input", "success"), 120)
    if client.run(run.dag_id, run.run_id).tasks["approve"] == "awaiting_input":
        assert "replayed from" in client.hitl_detail(run.dag_id, run.run_id, "approve")["body"]
        client.respond(run, "approve", "Approve")
    return run


def streaming(settings: Settings) -> ReplayState | None:
    """The replay that is under way, once it is somewhere in history."""
    found = [s for s in list_states(VersionRef(settings, VIEW, 1)) if s.phase == STREAMING and 0 < s.done < s.total]
    return found[-1] if found else None


def command(settings: Settings, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "anabranch.apps.cli.main", "replay", *arguments],
        env=environment(settings), check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip


def kill_replay(settings: Settings) -> None:
    """Those of this home only: other tests' replays run beside."""
    for process in psutil.process_iter(["cmdline", "environ"]):
        replays = any(part.endswith("spark_jobs/replay.py") for part in process.info["cmdline"] or ())
        if replays and (process.info["environ"] or {}).get("ANABRANCH_HOME") == str(settings.home):
            process.kill()


def test_a_replay_is_killed_goes_on_faster_and_mends_the_live_table(platform: Settings, client: Client) -> None:
    ref = VersionRef(platform, VIEW, 1)
    before = rows(platform)  # other tests may have left wrong ones, too
    key = spoil(platform)
    assert rows(platform)[key] == before[key] + 1000
    # Of its priority, the lowest, little is left beside other tests: a tenth of that would be minutes.
    run = asked_for(client, speed=A_DAY_IN_TEN_SECONDS, share=100, source="log")
    killed = eventually(lambda: streaming(platform) or client.run(run.dag_id, run.run_id).finished, 180)
    assert isinstance(killed, ReplayState), (
        client.run(run.dag_id, run.run_id).note,
        list_states(ref),
    )
    kill_replay(platform)
    assert "no speed limit" in command(platform, "pace", VIEW, "--speed", "0", "--share", "100")
    send(platform, date(2013, 1, 22), 1)  # the stream of its own goes on beside it
    run = client.wait(run, timeout=400 * SLOW)
    assert run.state == "success", run.note

    (ended,) = (s for s in list_states(ref) if s.run == killed.run)
    assert (ended.phase, ended.equal, ended.done) == ("published", ended.partitions, ended.total)
    after = rows(platform)
    others = {each: (known, after[each]) for each, known in before.items() if each != key and after[each] != known}
    assert (after[key], ended.mended) == (before[key], 1 + len(others)), others
    assert ended.done > killed.done
    assert f"published: {ended.equal} of {ended.partitions} partitions equal" in run.note
    send(platform, date(2013, 1, 23), 1)
    assert owner_of(head(platform).note) == checkpoint_id(ref.speed_checkpoint)
    assert "published" in command(platform, "status", VIEW)
    assert leftovers(platform) == []


def leftovers(settings: Settings) -> list[str]:
    """But for the checkpoints with which live streams go on, or will when they are started again."""
    heirs = [path for view in VIEWS for path in heirs_of(settings, view)]
    roots = (settings.home / "replays", settings.checkpoints / "replay", *settings.lake.glob("views/*/*/replay"))
    files = (path for root in roots if root.exists() for path in root.rglob("*") if path.is_file())
    return [str(path) for path in files if not any(path.is_relative_to(heir) for heir in heirs)]


def heirs_of(settings: Settings, view: str) -> list[Path]:
    ref = VersionRef(settings, view, 1)
    folder, live = (
        ref.replay_checkpoints,
        latest_commit(ref.speed_table),
    )
    owner = owner_of(live.note) if live is not None else None
    return [path for path in folder.glob("*") if (path / "metadata").exists() and checkpoint_id(path) == owner]


@pytest.mark.sweep
def test_a_replay_is_cancelled_and_nothing_has_happened(platform: Settings, client: Client) -> None:
    before = head(platform)
    run = asked_for(client, speed=A_DAY_IN_TEN_SECONDS)
    eventually(lambda: streaming(platform), 180)
    command(platform, "cancel", VIEW)
    run = client.wait(run, timeout=200 * SLOW)
    assert run.state == "failed"
    assert "nothing was published, and its files are deleted" in run.note
    assert (head(platform), leftovers(platform)) == (before, [])


def test_what_can_not_be_replayed_is_refused_before_anything_runs(platform: Settings, client: Client) -> None:
    for conf in ({"view": "no_such_view"}, {"since": "flights@1; ls"}, {"from": "{{ 7 * 7 }}"}):
        with pytest.raises(BadInput):
            client.trigger("replay", {"view": VIEW, **conf})
    refused: list[tuple[dict[str, object], str]]
    refused = [({"since": "flights@999999"}, "flights@999999"), ({"share": 500}, "parameter share: 500")]
    for asked, says in refused:
        run = client.wait(client.trigger("replay", {"view": VIEW, **asked}), timeout=120 * SLOW)
        assert (run.state, run.tasks["plan_replay"]) == ("failed", "failed")
        assert says in run.note
