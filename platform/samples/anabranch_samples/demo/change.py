"""Changes that the demo's second act makes to a running platform: late events, deployment, migration, a wrong row."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TypeVar

import pyarrow as pa
from anabranch.apps.airflow.client import Client, Run
from anabranch.contracts import Event, load_declarations
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import upsert
from anabranch.lake.layout import VersionRef, landing_table
from deltalake import QueryBuilder

from anabranch_samples.demo.run import FLIGHTS, Tell
from anabranch_samples.sample import FLIGHTS as SAMPLE

VIEW, OLD, NEW = "departure_delays", 1, 2
NEXT = "departure_delays_v2.py"
CHECK = "flights >= delayed"
CHANGED = ("delayed", "window_end", "average_delay")
"""What version 2 changes and removes."""
KEY = ("origin", "carrier", "window_start")
_SCHEMA = "urn:anabranch:contract:flight.departed:1"
_TIMEOUT_SECONDS = 240.0
Found = TypeVar("Found")


def own_project(settings: Settings) -> Settings:
    """Returns settings with a copy of the project, so that the demo can deploy into it."""
    target = settings.home / "project"
    for folder in ("dags", "spark_jobs"):
        shutil.copytree(settings.project / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return settings.model_copy(update={"project": target, "load_folder": target / "data"})


def send_late(settings: Settings, day: date, count: int) -> None:
    """Sends late departures of charter flights, at noon of a past day."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    noon_text = f"{noon:%Y-%m-%dT%H:%M:%SZ}"
    with Producer(settings, load_declarations(settings.contracts_folder)) as producer:
        for number in range(9_000, 9_000 + count):
            data = {"flight_date": f"{day}", "carrier": "9E", "flight": number, "origin": "JFK", "dest": "ATL"}
            data |= {"scheduled_departure": noon_text, "actual_departure": noon_text, "dep_delay": 0}
            producer.send(Event(f"charter-{number}-{day}", "/demo", "flight.departed", "9E", noon, data, _SCHEMA))


def landed_epoch(settings: Settings) -> int:
    committed = latest_commit(landing_table(settings, FLIGHTS))
    return committed.note.cut.epoch(FLIGHTS) if committed else 0


def caught_up(settings: Settings, version: int, tell: Tell) -> bool:
    """Whether this version's stream covers all that has landed."""
    committed, landed = latest_commit(VersionRef(settings, VIEW, version).speed_table), landed_epoch(settings)
    tell(f"v{version} at {committed.note.cut if committed else 'nothing'} of {FLIGHTS}@{landed}")
    return bool(committed and committed.note.cut.epoch(FLIGHTS) >= landed)


def deploy(settings: Settings) -> None:
    """Copies the next version into the views folder, like a deployment. The streams and Airflow detect it."""
    shutil.copy(SAMPLE.folder / "next" / NEXT, settings.project / "spark_jobs" / "views" / NEXT)


def repair(client: Client, tell: Tell) -> Run:
    """Creates an event of the view's late events asset, and waits for the repair run that it triggers."""
    asset, dag = f"late_events_of_{VIEW}", f"repair_{VIEW}"
    (known,) = client.get(f"/assets?name_pattern={asset}")["assets"]
    client.post("/assets/events", {"asset_id": known["id"], "extra": {}})
    started = f"/dags/{dag}/dagRuns?run_type=asset_triggered"
    run = client.run(dag, wait_for(lambda: client.get(started)["dag_runs"], "the repair")[0]["dag_run_id"])
    run = client.wait(run, lambda now: tell(_tasks(now)))
    if run.state != "success":
        raise BrokenState("DEMO_RUN_FAILED", f"{dag} ended as {run.state}: {run.note}", next_step=run.url)
    return run


def migrate(client: Client, steps: str, soak: str, tell: Tell) -> tuple[Run, str]:
    """Triggers the DAG and approves its question. Returns the run, which moves readers from then on, and the
    comparison that it showed."""
    params = {"view": VIEW, "from": OLD, "to": NEW, "why": "by carrier", "steps": steps, "soak": soak}
    run = client.trigger("migrate", {**params, "changed": list(CHANGED), "checks": [CHECK]})

    def asks() -> bool:
        now = client.run(run.dag_id, run.run_id)
        tell(_tasks(now))
        if now.finished:
            raise BrokenState("DEMO_RUN_FAILED", f"migrate ended as {now.state}: {now.note}", next_step=run.url)
        return now.tasks.get("approve") == "awaiting_input"

    wait_for(asks, "the migration's question")
    client.respond(run, "approve", "Approve")
    return run, str(client.xcom(run, "compare"))


@contextmanager
def wrong_row(settings: Settings) -> Iterator[str]:
    """Adds a minute of delay to one row of the new version for the length of the block, as if its stream had a defect.
    Yields the row's key."""
    table = open_table(VersionRef(settings, VIEW, NEW).speed_table)
    committed = latest_commit(table) if table else None
    if table is None or committed is None:
        raise BrokenState("DEMO_STUCK", f"{VIEW} v{NEW} has no table", next_step="read the log of speed")
    one = "SELECT * FROM rows ORDER BY flights DESC, window_start LIMIT 1"
    right = pa.table(QueryBuilder().register("rows", table).execute(one).read_all())
    column = right.schema.get_field_index("delay_minutes")
    wrong = right.set_column(column, "delay_minutes", pa.array([right["delay_minutes"][0].as_py() + 1], pa.int64()))
    upsert(table, wrong, KEY, committed.note, "partition_date")
    try:
        row = right.to_pylist()[0]
        yield f"{row['origin']} {row['carrier']} {row['window_start']:%Y-%m-%d %H:%M}"
    finally:
        table.update_incremental()
        upsert(table, right, KEY, committed.note, "partition_date")


def wait_for(found: Callable[[], Found], what: str) -> Found:
    """Polls ``found`` until it returns something true, and returns that. Raises BrokenState DEMO_STUCK."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not (value := found()):
        if time.monotonic() > deadline:
            raise BrokenState(
                "DEMO_STUCK", f"{what} didn't happen within {_TIMEOUT_SECONDS:.0f} s", next_step="read the logs"
            )
        time.sleep(0.2)
    return value


def _tasks(run: Run) -> str:
    return ", ".join(f"{task} {state or 'waiting'}" for task, state in run.tasks.items() if state != "success")
