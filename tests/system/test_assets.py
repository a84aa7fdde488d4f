"""The views in Airflow's own terms: assets with producers, for whose events other people's DAGs wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from anabranch.apps.airflow import _assets
from anabranch.apps.airflow.client import Client
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.operate.jobs._landed_events import AirflowAssets, LandedEvents
from anabranch.operate.runtime.secret_files import airflow_login
from support.processes import SLOW, eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(1_800)]
VIEW = "departure_delays"
DAYS = ["2013-01-01", "2013-01-02", "2013-01-03"]
FACTS = {"view": VIEW, "version": 1, "cut": "flights@1", "run": "run-1"}


@pytest.fixture(scope="module")
def client(airflow_alone: Settings) -> Iterator[Client]:
    with Client(airflow_address(airflow_alone), airflow_login(airflow_alone)) as client:
        eventually(lambda: {"dashboard", "dashboard_of_a_day", "looks_at_flights"} <= known(client), 60)
        yield client


@pytest.fixture(scope="module")
def settings(airflow_alone: Settings) -> Settings:
    """As tasks see it: Airflow's own settings say where it is."""
    return airflow_alone.model_copy(update={"airflow_url": airflow_address(airflow_alone)})


def known(client: Client) -> set[str]:
    return {dag["dag_id"] for dag in client.get("/dags?limit=100")["dags"]}


def asset(client: Client, uri: str) -> dict[str, Any]:
    (found,) = (each for each in client.get("/assets?limit=100")["assets"] if each["uri"] == uri)
    return dict(found)


def runs(client: Client, dag: str) -> list[dict[str, Any]]:
    found = client.get(f"/dags/{dag}/dagRuns")["dag_runs"]
    return [run for run in found if run["state"] == "success"]


def test_a_view_is_an_asset_with_its_producers(client: Client) -> None:
    for uri in (f"anabranch://views/{VIEW}", f"anabranch://views/{VIEW}/by-day"):
        producers = {(task["dag_id"], task["task_id"]) for task in asset(client, uri)["producing_tasks"]}
        assert producers == {(f"reprocess_{VIEW}", "publish"), (f"repair_{VIEW}", "publish")}


def test_a_plan_knows_the_dags_that_wait(settings: Settings, client: Client) -> None:
    assert _assets.downstream_dags(settings, VIEW) == ["dashboard", "dashboard_of_a_day"]
    assert _assets.downstream_dags(settings, "route_day") == []


def test_dags_that_wait_run_when_days_are_published(settings: Settings, client: Client) -> None:
    """One at once for all days, the other once for each; a step that is repeated starts nothing again."""
    _assets.announce(settings, VIEW, DAYS[:2], FACTS)
    eventually(lambda: runs(client, "dashboard"), 90)
    _assets.announce(settings, VIEW, DAYS, FACTS)  # the step is repeated, and has published one day more
    _assets.announce(settings, VIEW, DAYS, FACTS)

    def of_days() -> bool:
        return sorted(run["partition_key"] for run in runs(client, "dashboard_of_a_day")) == DAYS

    def told() -> list[str]:
        found = [client.run("dashboard", run["dag_run_id"]) for run in runs(client, "dashboard")]
        return sorted(day for run in found for day in client.xcom(run, "days"))

    eventually(of_days, 90)
    assert eventually(lambda: len(found := told()) >= 3 and found, 90) == DAYS
    number = asset(client, f"anabranch://views/{VIEW}")["id"]
    events = client.get(f"/assets/events?asset_id={number}&limit=100")["asset_events"]
    assert sorted(event["extra"]["partitions"] for event in events) == [DAYS[:2], DAYS[2:]]
    assert {event["extra"]["run"] for event in events} == {"run-1"}


def test_a_topic_tells_at_most_once_in_five_minutes(settings: Settings, client: Client) -> None:
    now = [1_000_000.0]
    events = LandedEvents(settings, AirflowAssets(settings), lambda: now[0])
    for _ in range(3):
        events.look()
        now[0] += 1
    eventually(lambda: len(runs(client, "looks_at_flights")) == 1, 60 * SLOW)
    number = asset(client, "anabranch://topics/flights")["id"]
    (event,) = client.get(f"/assets/events?asset_id={number}")["asset_events"]
    assert (event["extra"]["topic"], event["extra"]["epoch"]) == ("flights", 1)
