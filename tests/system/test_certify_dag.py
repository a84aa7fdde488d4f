"""A kappa view is certified by the command line and by its DAG, which replays it on request, beside its stream."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pyarrow as pa
import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.certify.certificates import Certificate, newest_certificates
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import upsert
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.secret_files import airflow_login
from support.processes import SLOW, eventually
from support.sent_records import speed_is_level

pytestmark = [pytest.mark.system, pytest.mark.timeout(2_700)]
VIEW, DAG = "aircraft_now", "reprocess_aircraft_now"


@pytest.fixture(scope="module")
def platform(platform: Settings, three_days: Callable[[Settings], int]) -> Settings:
    three_days(platform)
    eventually(lambda: speed_is_level(platform, VIEW), 500)
    return platform


@pytest.fixture
def client(platform: Settings) -> Iterator[Client]:
    with Client(airflow_address(platform), airflow_login(platform)) as client:
        yield client


def certificate(settings: Settings) -> Certificate:
    return newest_certificates(VersionRef(settings, VIEW, 1))[None]


def certify(settings: Settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "anabranch.apps.cli.main", "certify", VIEW]
    return subprocess.run(
        command, env=environment(settings), capture_output=True, text=True, timeout=240 * SLOW, check=False
    )


def approved(client: Client, conf: Mapping[str, Any]) -> Run:
    """A run with so many events that a person approves it, at its end."""
    run = client.trigger(DAG, conf)
    eventually(lambda: client.run(DAG, run.run_id).tasks["approve"] == "awaiting_input", 120)
    (waiting,) = client.get(f"/dags/{DAG}/dagRuns/{run.run_id}/hitlDetails")["hitl_details"]
    assert "landed events of 2013-01-01 to 2013-01-04" in waiting["body"], "a person sees what it costs"
    client.respond(run, "approve", "Approve")
    return client.wait(run, timeout=600 * SLOW)


def alter_a_row(settings: Settings) -> str:
    """In a commit like the stream's own; the aircraft."""
    uri = VersionRef(settings, VIEW, 1).speed_table
    table, newest = open_table(uri), latest_commit(uri)
    assert table is not None
    assert newest is not None
    row = max(table.to_pyarrow_table().to_pylist(), key=lambda row: row["tailnum"])
    wrong = pa.Table.from_pylist([{**row, "last_airport": "XXX"}], pa.schema(table.schema().to_arrow()))
    upsert(table, wrong, ["tailnum"], newest.note)
    return str(row["tailnum"])


def test_the_command_certifies_the_live_table_at_its_cut(platform: Settings) -> None:
    done = certify(platform)

    newest = latest_commit(VersionRef(platform, VIEW, 1).speed_table)
    assert newest is not None
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all since the first epoch, since a row may need any of them" in done.stdout
    assert (
        f"Certified {VIEW} v1 at {newest.note.cut}, version {newest.version} of its live table: 1 of 1" in done.stdout
    )
    stored = certificate(platform)
    assert (stored.equal, stored.cut, stored.speed_version) == (True, newest.note.cut, newest.version)
    assert stored.speed.rows > 1_000
    assert stored.run in done.stdout


def test_a_wrong_row_fails_the_run_which_names_it_until_a_replay_of_the_same_dag(
    platform: Settings, client: Client
) -> None:
    aircraft = alter_a_row(platform)
    wrong = approved(client, {})

    assert (wrong.state, wrong.tasks["certify"], wrong.tasks["judge"]) == ("failed", "success", "failed"), wrong.note
    assert wrong.tasks["replay"] == wrong.tasks["replayed"] == "skipped"
    first, *others = wrong.note.splitlines()
    assert first.startswith(f"Failed in judge: {VIEW} v1 is not certified at flights@")
    assert f"Next: anabranch replay start {VIEW} --version 1, or this DAG with Replay it first" in wrong.note
    row = next(line for line in others if line.startswith(f"{aircraft} | changed | last_airport | XXX |"))
    assert "flights[" in row, "with the events behind the right one"
    assert not certificate(platform).equal
    links = client.get(f"/dags/{DAG}/dagRuns/{wrong.run_id}/taskInstances/certify/links")["extra_links"]
    page = httpx.get(links["Certificates"], headers=client.authorisation())
    assert page.status_code == 200
    assert "XXX" in page.text

    mended = approved(client, {"replay": True, "share": 100})

    assert mended.state == "success", mended.note
    assert mended.note.startswith(f"Certified {VIEW} v1 at flights@")
    assert "1 of 1 certificate equal" in mended.note
    assert "Replayed " in mended.note
    assert certificate(platform).equal
    eventually(lambda: speed_is_level(platform, VIEW), 120)
    assert certify(platform).returncode == 0, "also once the stream has taken over the replay's state"
