"""The DAG ``load`` in a real Airflow: files of history land from its form, once, and what can't be loaded is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from anabranch.apps.airflow.client import Client, Run
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table
from anabranch.operate.runtime.secret_files import airflow_login
from support.processes import SLOW

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def client(airflow_alone: Settings) -> Iterator[Client]:
    with Client(airflow_address(airflow_alone), airflow_login(airflow_alone)) as client:
        yield client


def ended(client: Client, files: list[str], topic: str = "weather") -> Run:
    return client.wait(client.trigger("load", {"topic": topic, "files": files}), timeout=180 * SLOW)


def observed(number: int, origin: str) -> dict[str, Any]:
    event = {"specversion": "1.0", "id": f"old-{number}", "source": "/archive", "type": "weather.observed"}
    return {**event, "time": f"2011-05-0{number + 1}T12:00:00Z", "data": {"origin": origin, "temp": 60.5}}


def test_files_land_once_and_what_is_wrong_with_rows_is_said(client: Client, airflow_alone: Settings) -> None:
    folder = airflow_alone.load_folder
    assert folder.is_relative_to(airflow_alone.home)
    folder.mkdir(exist_ok=True)
    rows = [observed(0, "JFK"), observed(1, "LGA"), observed(2, "nowhere")]
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "history.csv").write_text("id,source,type\n1,2\n")
    first = ended(client, ["history.jsonl"])
    assert first.state == "success", first.note
    assert "weather: landed 3 rows of 1 file: 2 loaded, 1 quarantined, 0 duplicate." in first.note
    assert "1 row: field origin doesn't match" in first.note

    again = ended(client, ["history.jsonl", "history.csv"])
    assert (again.state, again.tasks["load"]) == ("failed", "success"), "one of them can't be read"
    assert again.note.startswith("Failed in outcome: 1 of 2 files can't be read: ")
    assert "weather: landed 0 rows of 2 files" in again.note
    assert "1 file had landed before." in again.note
    assert "history.csv: " in again.note
    table = open_table(landing_table(airflow_alone, "weather"))
    assert table is not None
    with landed_rows(table) as landed:
        found = landed.execute('SELECT "partition", "offset", decision FROM rows ORDER BY 2').fetchall()
    assert found == [(-1, 0, "loaded"), (-1, 1, "loaded"), (-1, 2, "quarantined")]


def test_what_may_not_be_loaded_is_refused_before_anything_starts(client: Client) -> None:
    for files, what in ((["../pyproject.toml"], "isn't below"), (["nothing.csv"], "is no file and no folder")):
        run = ended(client, files)
        assert (run.state, run.tasks["plan_load"]) == ("failed", "failed")
        assert what in run.note
        assert "nothing was loaded" in run.note
    run = ended(client, ["history.jsonl"], topic="parcels")
    assert run.state == "failed"
    assert run.note.startswith("Failed in plan_load: ")
