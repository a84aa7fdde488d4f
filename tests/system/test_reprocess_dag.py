"""Reprocessing as people do it: by Airflow's public REST API, over real events, with every part of the platform."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

import httpx
import pyarrow as pa
import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.certify.certificates import newest_certificates
from anabranch.change import estimates
from anabranch.change.dirty_partitions import dirty_partitions
from anabranch.compute.batch.publish import publications
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.errors import BadInput, BrokenState
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, latest_commit, open_table
from anabranch.lake.commits import upsert
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.secret_files import airflow_login
from anabranch.views.project import Project
from deltalake import QueryBuilder
from support.processes import SLOW, eventually
from support.sent_records import landed, raw_producer, speed_is_level

pytestmark = [pytest.mark.system, pytest.mark.timeout(3_600)]

VIEW, DAG = "departure_delays", "reprocess_departure_delays"
FIRST, BETWEEN, LAST, AFTER, EMPTY, ALONE = ALL = [date(2013, 1, day) for day in (1, 2, 3, 4, 5, 6)]
AFTER_APPROVAL = ("rebuild", "publish")
DAYS = {"from": FIRST.isoformat(), "to": ALONE.isoformat()}


@pytest.fixture(scope="module")
def platform(platform: Settings, three_days: Callable[[Settings], int]) -> Settings:
    """With three days of flights through landing and the speed layer (UTC's fourth has some too), a day without any and
    one more flight."""
    flights = three_days(platform)
    send_departure(platform, ALONE)
    eventually(lambda: landed(platform) == flights + 1 and speed_is_level(platform, VIEW), 500)
    return platform


@pytest.fixture
def client(platform: Settings) -> Iterator[Client]:
    with Client(airflow_address(platform), airflow_login(platform)) as client:
        yield client


def published(settings: Settings) -> Mapping[date, Any]:
    return publications(VersionRef(settings, VIEW, 1).batch_table)


def reprocess(client: Client, conf: Mapping[str, Any], run_id: str | None = None) -> Run:
    return client.wait(client.trigger(DAG, conf, run_id=run_id), timeout=600 * SLOW)


def why(client: Client, run: Run) -> str:
    return "\n".join(client.task_log(run, task) for task, state in run.tasks.items() if state == "failed")


def send_departure(settings: Settings, day: date) -> None:
    """One more departure."""
    noon = f"{day}T12:00:00Z"
    data = {"flight_date": f"{day}", "carrier": "AA", "flight": 1, "origin": "JFK", "dest": "ATL", "dep_delay": 20}
    data |= {"scheduled_departure": noon, "actual_departure": noon}
    event: dict[str, object] = {"specversion": "1.0", "id": f"late-{day}", "source": "/test"}
    event |= {"type": "flight.departed", "subject": "late"}
    event |= {"time": noon, "dataschema": "urn:anabranch:contract:flight.departed:1", "data": data}
    producer = raw_producer(settings)
    producer.produce("flights", value=json.dumps(event).encode(), key=b"late")
    assert producer.flush(20) == 0


@pytest.fixture(scope="module")
def green(platform: Settings) -> Run:
    """A run over all days, asked for on the command line and approved in Airflow; shared by the tests that look at what
    it left."""
    command = [
        sys.executable,
        "-m",
        "anabranch.apps.cli.main",
        "reprocess",
        VIEW,
        "--from",
        f"{FIRST}",
        "--to",
        f"{ALONE}",
    ]
    with (
        Client(airflow_address(platform), airflow_login(platform)) as client,
        subprocess.Popen(command, env=environment(platform), stdout=subprocess.PIPE, text=True) as asked,
    ):
        assert asked.stdout is not None
        for line in asked.stdout:
            if line == "approve: waits for a person's approval\n":
                break
        waiting = client.get(f"/dags/{DAG}/dagRuns/~/hitlDetails")["hitl_details"]
        run = client.run(DAG, waiting[0]["task_instance"]["dag_run_id"])
        assert f"{LAST}" in waiting[0]["body"], "a person can't see what the plan is about"
        assert run.tasks["rebuild"] == "", "it began without the approval"
        client.respond(run, "approve", "Approve")
        said = asked.stdout.read()
        assert asked.wait(timeout=600 * SLOW) == 0, said
        run = client.run(run.dag_id, run.run_id)
        assert run.state == "success", why(client, run)
        assert run.note in said
        assert "  rebuild: " in said or "  reconcile: " in said, "it didn't say how far it was"
        return run


def test_days_asked_for_are_rebuilt_certified_and_published(platform: Settings, client: Client, green: Run) -> None:
    ref = VersionRef(platform, VIEW, 1)
    certificates = newest_certificates(ref)
    assert {day: c.equal for day, c in certificates.items()} == dict.fromkeys(ALL, True)
    assert set(published(platform)) == set(ALL)
    partitions = client.xcom(green, "plan", "partitions")
    assert [p["partition"] for p in partitions] == [str(day) for day in ALL]
    assert (partitions[4]["events"], partitions[5]["events"]) == (0, 1)
    assert client.xcom(green, "plan", "events") == sum(p["events"] for p in partitions) > 1_000
    assert sum(c.late_events for c in certificates.values()) == client.xcom(green, "plan", "late") > 0
    took = estimates.outcomes(ref)[-1]
    assert (took.partitions, took.events) == (len(ALL), client.xcom(green, "plan", "events"))
    assert took.seconds > 10
    assert took.bytes > 1_000


def test_the_run_says_what_it_did(client: Client, green: Run) -> None:
    note = client.run(DAG, green.run_id).note
    events = client.xcom(green, "plan", "events")
    assert f"from {events:,} events" in note
    assert f"at {client.xcom(green, 'plan', 'cut')}" in note
    assert "Certificates: 6 of 6 equal" in note
    assert "Published: 6 of 6 partitions." in note
    assert re.search(r"Took [\d.]+ s: engine [\d.]+ s, rebuild [\d.]+ s, certify [\d.]+ s, publish [\d.]+ s\.", note)
    links = client.get(f"/dags/{DAG}/dagRuns/{green.run_id}/taskInstances/rebuild/links")["extra_links"]
    assert set(links) == {"Certificates", "Checks"}
    for address in links.values():
        assert httpx.get(address).status_code == 401, "a page of ours must ask who is there"
        assert httpx.get(address, headers=client.authorisation()).status_code == 200
    outside = links["Checks"].partition("verdicts/")[0] + "data_docs/%2e%2e/secrets/airflow_passwords.json"
    assert httpx.get(outside, headers=client.authorisation()).status_code == 404


def test_each_published_day_is_an_event_of_the_view(client: Client, green: Run) -> None:
    days = [f"{day}" for day in ALL]
    assert told(client, client.xcom(green, "plan", "run")) == {VIEW: days, f"{VIEW}_by_day": days}


def told(client: Client, run: str) -> dict[str, list[str]]:
    """The days of a run that DAGs were told of, by asset; those with a key by their keys."""
    found = dict[str, list[str]]()
    for asset in client.get("/assets?limit=100")["assets"]:
        events = client.get(f"/assets/events?asset_id={asset['id']}&limit=100")["asset_events"]
        own = [event for event in events if event["extra"].get("run") == run]
        assert all((event["partition_key"] is None) == (asset["name"] == VIEW) for event in own)
        if own:
            found[asset["name"]] = sorted(day for event in own for day in event["extra"]["partitions"])
    return found


def test_a_step_that_is_repeated_changes_nothing(platform: Settings, client: Client, green: Run) -> None:
    ref = VersionRef(platform, VIEW, 1)
    before = latest_commit(ref.batch_table)
    body = {"dry_run": False, "dag_run_id": green.run_id, "task_ids": ["publish"]}
    client.post(f"/dags/{DAG}/clearTaskInstances", body | {"only_failed": False, "reset_dag_runs": True})
    again = client.wait(green, timeout=600 * SLOW)
    assert again.state == "success", why(client, again)
    assert latest_commit(ref.batch_table) == before


def test_a_plan_that_a_person_rejects_is_over(platform: Settings, client: Client, green: Run) -> None:
    before = latest_commit(VersionRef(platform, VIEW, 1).batch_table)
    run = client.trigger(DAG, DAYS)
    eventually(lambda: client.run(DAG, run.run_id).tasks["approve"] == "awaiting_input")
    beside = reprocess(client, {})
    assert beside.state == "success", "a run that waits for a person kept another from its work"
    run = rejected(client, run)
    assert run.tasks == {"plan": "success", "approve": "success"} | dict.fromkeys(AFTER_APPROVAL, "skipped")
    assert run.note.startswith("Rejected by ")
    assert latest_commit(VersionRef(platform, VIEW, 1).batch_table) == before


def rejected(client: Client, run: Run) -> Run:
    """The run at its end. A task whose answer Airflow could not carry out in time asks again."""

    def ended() -> Run | None:
        now = client.run(run.dag_id, run.run_id)
        if now.tasks["approve"] == "awaiting_input":
            with contextlib.suppress(BrokenState):  # it was answered, and hasn't moved yet
                client.respond(run, "approve", "Reject")
        return now if now.finished else None

    end: Run = eventually(ended, 120)
    return end


@pytest.mark.parametrize("conf", [{"from": "2013-02-30"}, {"from": "$(id)"}, {"cut": "x'; --"}, {"version": 9}])
def test_the_form_refuses_bad_parameters_before_a_run_exists(client: Client, conf: dict[str, Any]) -> None:
    runs = client.get(f"/dags/{DAG}/dagRuns")["total_entries"]
    with pytest.raises(BadInput) as refusal:
        client.trigger(DAG, conf)
    assert refusal.value.code == "PARAMETERS_REFUSED"
    assert client.get(f"/dags/{DAG}/dagRuns")["total_entries"] == runs


def test_what_the_form_can_not_know_the_plan_refuses_by_name_and_without_a_retry(client: Client) -> None:
    run = reprocess(client, {"from": "2013-01-01", "cut": "flights@999999"})
    assert (run.state, run.tasks["rebuild"]) == ("failed", "upstream_failed")
    assert "cut: flights@999999 has not landed" in client.task_log(run, "plan")
    assert client.get(f"/dags/{DAG}/dagRuns/{run.run_id}/taskInstances/plan")["try_number"] == 1


def test_a_run_of_its_own_day_without_events_has_nothing_to_do(client: Client) -> None:
    run = reprocess(client, {})
    assert (run.state, set(run.tasks.values())) == ("success", {"skipped"})
    assert run.note.startswith("Nothing to do: no events have landed for ")


def test_a_backfill_is_a_range_of_partitions(client: Client) -> None:
    """Days without events: each run finds its own day, and that there is nothing to do."""
    backfill(client, date(2012, 12, 1), date(2012, 12, 2), backwards=False, at_once=1, again="none")
    path = f"/dags/{DAG}/dagRuns?run_type=backfill"
    eventually(lambda: {r["state"] for r in client.get(path)["dag_runs"]} == {"success"}, 240)
    found = {r["partition_key"]: r["dag_run_id"] for r in client.get(path)["dag_runs"]}
    assert set(found) == {"2012-12-01", "2012-12-02"}
    for day, run_id in found.items():
        run = client.run(DAG, run_id)
        assert set(run.tasks.values()) == {"skipped"}
        assert re.search(rf"{day}\s+0\s+0\b", client.task_log(run, "plan"))


@pytest.mark.sweep
def test_a_backfill_goes_backwards_is_cancelled_and_goes_on(platform: Settings, client: Client) -> None:
    """Real days. Cancelled after the first of four; asked for again, two at a time; one of them once more."""
    runs = f"/dags/{DAG}/dagRuns?run_type=backfill&partition_key_prefix_pattern=2013-"

    def states() -> dict[str, str]:
        return {r["partition_key"][:10]: r["state"] for r in client.get(runs)["dag_runs"]}

    def published_by_backfills() -> set[date]:
        return {day for day, entry in published(platform).items() if entry.run.startswith("backfill")}

    asked = backfill(client, FIRST, AFTER, backwards=True, at_once=1, again="none")
    eventually(lambda: "success" in states().values(), 300)
    assert published_by_backfills() == {AFTER}
    cancelled = httpx.put(
        f"{client.address}/api/v2/backfills/{asked}/cancel", headers=client.authorisation(), timeout=60
    )
    assert cancelled.status_code == 200
    eventually(lambda: set(states().values()) <= {"success", "failed"}, 300)
    assert FIRST not in published_by_backfills(), "the last day of a cancelled backfill was published"

    most = 0
    backfill(client, FIRST, AFTER, backwards=False, at_once=2, again="failed")
    deadline = time.monotonic() + 600
    while set(states().values()) != {"success"} or len(states()) < 4:
        assert time.monotonic() < deadline, states()
        most = max(most, list(states().values()).count("running"))
        time.sleep(0.5)
    assert most <= 2
    assert published_by_backfills() == {FIRST, BETWEEN, LAST, AFTER}

    before = published(platform)
    backfill(client, BETWEEN, BETWEEN, backwards=False, at_once=1, again="completed")
    eventually(lambda: published(platform) != before, 300)
    assert {day for day, entry in published(platform).items() if entry != before[day]} == {BETWEEN}
    assert all(c.equal for c in newest_certificates(VersionRef(platform, VIEW, 1)).values())


def backfill(client: Client, first: date, last: date, *, backwards: bool, at_once: int, again: str) -> int:
    # Airflow takes one of a DAG at a time, and notices a little later that all its runs have ended.
    known = f"/backfills?dag_id={DAG}"
    eventually(lambda: all(each["completed_at"] for each in client.get(known)["backfills"]), 120)
    body: dict[str, Any] = {"dag_id": DAG, "from_date": f"{first}T00:00:00Z", "to_date": f"{last}T00:00:00Z"}
    more = {"max_active_runs": at_once, "reprocess_behavior": again, "run_backwards": backwards, "dag_run_conf": {}}
    return int(client.post("/backfills", body | more)["id"])


def test_a_repair_takes_the_dirty_days_and_holds_a_wrong_one_back(
    platform: Settings, client: Client, green: Run
) -> None:
    """Last, because it breaks the speed table: one row of the last day counts one flight too many.

    Late events touch the first and the last day. The first is repaired, the last stays as it was and dirty, the day
    between is nobody's business.
    """
    view = Project(platform).view(VIEW)
    before = published(platform)
    assert dirty_partitions(view) == []
    for day in (FIRST, LAST):
        send_departure(platform, day)
    found = eventually(lambda: len(dirty := dirty_partitions(view)) == 2 and dirty)
    assert [(d.partition, d.at, d.events, d.late) for d in found] == [
        (FIRST, before[FIRST].cut, 1, 1),
        (LAST, before[LAST].cut, 1, 1),
    ]
    eventually(lambda: speed_is_level(platform, VIEW))
    break_a_row(platform, LAST)

    run = client.wait(the_run_of_an_asset_event(client, f"late_events_of_{VIEW}", f"repair_{VIEW}"), timeout=600 * SLOW)

    assert (run.state, run.tasks["rebuild"], run.tasks["publish"]) == ("failed", "success", "failed")
    assert run.note.startswith(f"Failed in publish: 1 of 2 partitions were not published: {LAST}")
    assert f"Rebuilt 2 days between {FIRST} and {LAST} of {VIEW} v1" in run.note
    days = [f"{FIRST}"]
    assert told(client, client.xcom(run, "plan_repair", "run")) == {VIEW: days, f"{VIEW}_by_day": days}
    assert "Certificates: 1 of 2 equal" in run.note
    assert f"NOT published: {LAST}" in run.note
    assert f"1 of 2 partitions were not published: {LAST}" in client.task_log(run, "publish")
    after = published(platform)
    assert after[LAST] == before[LAST], "the wrong day was published"
    assert after[FIRST] != before[FIRST], "the good day was held back with it"
    assert after[BETWEEN] == before[BETWEEN], "a clean day was rebuilt"
    assert [dirty.partition for dirty in dirty_partitions(view)] == [LAST]


def the_run_of_an_asset_event(client: Client, asset: str, dag: str) -> Run:
    """What a DAG does that has loaded late events, or a person with the button of the asset's page."""
    (known,) = client.get(f"/assets?name_pattern={asset}")["assets"]
    client.post("/assets/events", {"asset_id": known["id"], "extra": {}})
    (made,) = eventually(lambda: client.get(f"/dags/{dag}/dagRuns?run_type=asset_triggered")["dag_runs"])
    return client.run(dag, made["dag_run_id"])


def break_a_row(settings: Settings, day: date) -> None:
    """Count one flight too many in the speed half, as a defect of the stream would."""
    view = Project(settings).view(VIEW).definition
    table = open_table(VersionRef(settings, VIEW, 1).speed_table)
    assert table is not None
    committed = latest_commit(table)
    assert committed is not None
    one = f"SELECT * FROM speed WHERE partition_date = DATE '{day}' LIMIT 1"  # noqa: S608
    rows = pa.table(QueryBuilder().register("speed", table).execute(one).read_all())
    column = rows.schema.get_field_index("flights")
    wrong = rows.set_column(column, "flights", pa.array([rows["flights"][0].as_py() + 1], pa.int64()))
    same = CommitMetadata(
        f"{view.writer}/speed", committed.note.batch, committed.note.cut, view.fingerprint, committed.note.extra
    )
    upsert(table, wrong, view.key, same, "partition_date")
