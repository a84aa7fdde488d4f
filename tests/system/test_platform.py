"""The whole platform on real parts: up, answering, healing, and gone without a trace."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import httpx
import psutil
import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.errors import BrokenState, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import existing_topics
from anabranch.operate.runtime import lifecycle, process_registry
from anabranch.operate.runtime._services import catalog
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.process_registry import SUPERVISOR
from anabranch.operate.runtime.secret_files import airflow_login
from support.processes import SLOW, Listener, alive, eventually, everything, listening

pytestmark = pytest.mark.system

Make = Callable[[str], Settings]
PATIENCE = 60
"""Seconds for Airflow's first answers: it imports what it needs for them while everything else starts."""


def part(settings: Settings, name: str) -> lifecycle.PartStatus:
    return next(part for part in lifecycle.status(settings) if part.name == name)


def token(settings: Settings) -> dict[str, str]:
    user, password = airflow_login(settings)
    answer = httpx.post(
        f"{airflow_address(settings)}/auth/token", json={"username": user, "password": password}, timeout=PATIENCE
    )
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


def test_all_parts_are_up(platform: Settings) -> None:
    states = {part.name: part.state for part in lifecycle.status(platform)}
    wanted = {part.name: "running" for part in catalog(platform)}
    assert states == wanted | {"airflow-migrate": "done", SUPERVISOR: "running"}


def test_airflow_answers_who_logs_in_and_nobody_else(platform: Settings) -> None:
    dags = f"{airflow_address(platform)}/api/v2/dags"
    assert httpx.get(dags, timeout=PATIENCE).status_code == 401
    wrong = {"username": "admin", "password": "admin"}
    assert httpx.post(f"{airflow_address(platform)}/auth/token", json=wrong, timeout=PATIENCE).status_code == 401
    assert httpx.get(dags, headers=token(platform), timeout=PATIENCE).status_code == 200


def test_nothing_listens_beyond_loopback(platform: Settings) -> None:
    def ours() -> list[Listener]:
        processes = {process.pid: process for process in everything(platform)}
        found = [each for each in listening() if each.pid in processes]
        try:
            jvms = {each.pid for each in found if "java" in processes[each.pid].name()}
        except psutil.NoSuchProcess:  # a helper of some part that has ended since
            return []
        return found if len(jvms) == 3 else []  # the broker's, landing's and speed's, which come up last

    found: list[Listener] = eventually(ours)
    ports = {each.port for each in found}
    assert {platform.kafka_port, platform.postgres_port, platform.airflow_port} <= ports
    assert {each.host for each in found} == {"127.0.0.1"}


def test_status_names_the_stream_of_each_view(platform: Settings) -> None:
    def streams() -> dict[str, str]:
        found = re.findall(r"^(\w+) v1 +(running|waiting) ", command(platform, "status"), re.MULTILINE)
        return dict(found)

    assert set(eventually(streams)) == {"aircraft_now", "departure_delays", "route_day"}
    told = json.loads(command(platform, "status", "--json"))
    assert {part["name"] for part in told["parts"]} >= {"kafka", "landing", "speed"}
    assert {(view["view"], view["state"]) for view in told["views"]} == set(streams().items())


def test_a_second_start_waits_for_what_runs(platform: Settings) -> None:
    before = {record.pid for record in process_registry.read(platform).values()}
    assert lifecycle.start(platform) == ["the platform is already running"]
    assert {record.pid for record in process_registry.read(platform).values()} == before


@pytest.mark.parametrize("name", ["landing", "kafka"])
def test_a_part_that_is_killed_comes_back(platform: Settings, name: str) -> None:
    kill_and_wait(platform, name)
    assert existing_topics(platform) is not None  # the broker answers, or this raises


def test_beside_a_file_of_views_that_is_no_python_the_streams_start_again(platform: Settings) -> None:
    broken = platform.project / "spark_jobs" / "views" / "broken.py"
    broken.write_text("def broken(:\n")
    try:
        assert "speed runs again: pid " in command(platform, "restart", "speed")
        said = eventually(lambda: (told := command(platform, "status")) and "SyntaxError" in told and told)
        assert re.search(r"^broken\.py +unread ", said, re.MULTILINE)
        assert len(re.findall(r"^\w+ v1 +(running|waiting) ", said, re.MULTILINE)) == 3
    finally:
        broken.unlink()


def test_a_run_that_a_killed_scheduler_had_in_hand_goes_on(platform: Settings) -> None:
    """Of a day without events. Airflow would leave it, and each later run of the view, for five minutes."""
    with Client(airflow_address(platform), airflow_login(platform)) as client:
        run = a_run_in_hand(client)
        kill_and_wait(platform, "airflow-scheduler")
        assert client.wait(run, timeout=150 * SLOW).state == "success"


@pytest.mark.sweep
def test_tasks_start_again_after_a_waiting_worker_was_killed(platform: Settings) -> None:
    """The one that waits at the queue of tasks holds its lock, and nobody else gets it then."""
    before = part(platform, "airflow-scheduler")
    family = process_registry.family(process_registry.read(platform)["airflow-scheduler"])
    idle = [process for process in family if "<idle>" in " ".join(process.cmdline())]
    for process in idle:
        process.kill()
    assert idle
    eventually(lambda: part(platform, "airflow-scheduler").restarts > before.restarts)
    with Client(airflow_address(platform), airflow_login(platform)) as client:
        run = client.trigger("reprocess_departure_delays", {})
        assert client.wait(run, timeout=150 * SLOW).state == "success"


def a_run_in_hand(client: Client) -> Run:
    """One whose first task is waiting for a process or has one; some are over before anybody looks."""

    def seen(run: Run) -> str:
        state = client.run(run.dag_id, run.run_id).tasks["plan"]
        return "" if state == "scheduled" else state

    for _ in range(10):
        run = client.trigger("reprocess_departure_delays", {})
        if eventually(partial(seen, run)) in ("queued", "running"):
            return run
    raise AssertionError("each run was over before it was seen")


def kill_and_wait(settings: Settings, name: str) -> None:
    before = part(settings, name)
    assert before.pid
    os.kill(before.pid, signal.SIGKILL)
    after = eventually(lambda: (p := part(settings, name)).restarts > before.restarts and p.state == "running" and p)
    assert after.pid != before.pid


def test_a_port_in_use_stops_the_start_before_anything_runs(own_settings: Make) -> None:
    settings = own_settings("busy")
    with socket.socket() as server:
        server.bind(("127.0.0.1", settings.postgres_port))
        server.listen()
        with pytest.raises(TryAgain) as refused:
            lifecycle.start(settings, ["kafka", "postgres"])
    assert (refused.value.code, refused.value.fields["port"]) == ("PORT_IN_USE", settings.postgres_port)
    assert lifecycle.status(settings) == []


def test_a_part_that_cannot_start_stops_the_rest_and_shows_its_log(own_settings: Make) -> None:
    settings = own_settings("broken")
    data = settings.home / "kafka/data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\nnode.id=77\ncluster.id=QW5hYnJhbmNoQ29tcG9zZQ\n")
    with pytest.raises(BrokenState) as refused:
        lifecycle.start(settings, ["kafka", "postgres"])
    assert (refused.value.code, refused.value.fields["part"]) == ("PART_FAILED", "kafka")
    assert "77" in refused.value.what
    assert lifecycle.status(settings) == []


def test_stop_after_the_supervisor_was_killed(own_settings: Make) -> None:
    settings = own_settings("orphans")
    lifecycle.start(settings, ["kafka", "postgres"])
    supervisor = process_registry.read(settings)[SUPERVISOR]
    os.kill(supervisor.pid, signal.SIGKILL)
    eventually(lambda: supervisor.process() is None)
    processes = everything(settings)
    with pytest.raises(Conflict) as refused:
        lifecycle.start(settings, ["kafka", "postgres"])
    assert refused.value.code == "HALF_STARTED"
    assert lifecycle.stop(settings) == ["kafka", "postgres"]
    eventually(lambda: not any(alive(process) for process in processes), 5)


def test_a_start_that_is_killed_is_finished_or_tidied_by_the_next(own_settings: Make) -> None:
    settings = own_settings("halfway")
    command = [sys.executable, "-m", "anabranch.apps.cli.main", "up", "--only", "kafka"]
    starting = subprocess.Popen(command, env=os.environ | environment(settings), stdout=subprocess.DEVNULL)
    eventually(lambda: SUPERVISOR in process_registry.read(settings), 20)
    starting.kill()
    starting.wait()
    try:
        lifecycle.start(settings, ["kafka"])
        assert part(settings, "kafka").state == "running"
    finally:
        assert lifecycle.stop(settings) == ["kafka"]


def command(settings: Settings, *words: str) -> str:
    """What ``anabranch`` prints on a terminal of 120 columns."""
    line = [sys.executable, "-m", "anabranch.apps.cli.main", *words]
    env = {**os.environ, **environment(settings), "COLUMNS": "120"}
    done = subprocess.run(line, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_line_up_status_down(own_settings: Make) -> None:
    settings = own_settings("commands")
    assert f"127.0.0.1:{settings.kafka_port}" in command(settings, "up", "--only", "kafka")
    processes = everything(settings)
    assert processes
    status = command(settings, "status")
    assert "kafka" in status
    assert "running" in status
    assert command(settings, "down") == "stopped kafka\n"
    eventually(lambda: not any(alive(process) for process in processes), 5)
    assert command(settings, "down") == "nothing was running\n"
