"""``anabranch load`` from S3 as a person runs it: killed, and with a store that goes away. Each row lands once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from anabranch.contracts import load_declarations
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.state import open_landing, read_state
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.operate.runtime.environment import environment
from support.processes import eventually
from support.s3_server import BUCKET, S3Server, s3_server

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
DECLARED = """
from anabranch.contracts import Contract, PlainJson, Topic

MADE = Contract("payment.made", 1, {"type": "object", "required": ["id", "at"], "properties": {
    "id": {"type": "string"}, "at": {"type": "string", "format": "date-time"}, "cents": {"type": "integer"}}})
PAYMENTS = Topic("payments", (MADE,), records=PlainJson(id="id", time="at"))
"""
ROWS, FIRST_EPOCH = 350_000, 250_000
WHERE = f"s3://{BUCKET}/2023"


class Command:
    """A command in a process of its own, and the lines that it says. ``killed_at``: the text of the line behind which
    it gets a SIGKILL."""

    def __init__(self, settings: Settings, store: S3Server, *arguments: str, killed_at: str = "") -> None:
        self.lines = list[str]()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "anabranch.apps.cli.main", *arguments],
            cwd=settings.project,
            env={
                **os.environ,
                **environment(settings),
                **store.variables,
                "ANABRANCH_JARS": str(project_root() / ".jars"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reading = Thread(target=self._read, args=(killed_at,), daemon=True)
        self._reading.start()

    def _read(self, killed_at: str) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line)
                if killed_at and killed_at in line:
                    self.process.kill()

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def ended(self) -> int:
        code = self.process.wait(300)
        with suppress(ProcessLookupError):  # a JVM that hasn't noticed yet
            os.killpg(self.process.pid, signal.SIGKILL)
        self._reading.join(30)
        return code


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    """A file of two epochs, and one that repeats an event of it."""
    rows = (f'{{"id":"p-{n}","at":"2023-03-0{n % 9 + 1}T12:00:00Z","cents":{n % 100}}}' for n in range(ROWS))
    with s3_server() as running:
        again = f"id,at,cents\np-7,2023-03-08T12:00:00Z,7\np-{ROWS},2023-04-01T12:00:00Z,1\n"
        running.put({"2023/a.jsonl": "\n".join(rows).encode(), "2023/b.csv": again.encode()})
        yield running


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "spark_jobs" / "contracts"
    folder.mkdir(parents=True)
    (folder / "shop.py").write_text(DECLARED)
    (tmp_path / "pyproject.toml").write_text("[tool.anabranch]\n")
    return load_settings(project=tmp_path, home=tmp_path / "home", shuffle_partitions=1, spark_driver_memory="1g")


PLACES = {
    "before the first epoch": (f"1 of 2, {WHERE}/a.jsonl: {ROWS:,} rows", 0),
    "between two epochs": (f"{FIRST_EPOCH:,} of {ROWS:,} rows have landed", FIRST_EPOCH),
    "behind the last commit of a file": (f"{ROWS:,} of {ROWS:,} rows have landed", ROWS),
}
IN_EACH_RUN = "between two epochs"


@pytest.mark.parametrize(
    "place", [pytest.param(name, marks=[] if name == IN_EACH_RUN else pytest.mark.sweep) for name in PLACES]
)
def test_a_load_that_was_killed_is_repeated(settings: Settings, store: S3Server, place: str) -> None:
    line, least = PLACES[place]
    first = Command(settings, store, "load", "payments", WHERE, killed_at=line)
    assert first.ended() == -signal.SIGKILL, first.said
    landed = sum(count for _, count in rows_of_files(settings))
    assert landed in (least, FIRST_EPOCH, ROWS), "the next epoch may be in"

    again = Command(settings, store, "load", "payments", WHERE, "--json")
    assert again.ended() == 0, again.said
    report = json.loads(next(said for said in again.lines if said.startswith("{")))
    assert report["landed"] == ROWS + 2 - landed, again.said
    assert_each_row_once(settings)


def test_a_store_that_goes_away_is_waited_for_by_the_command(settings: Settings, store: S3Server) -> None:
    with store.away():
        load = Command(settings, store, "load", "payments", f"{WHERE}/b.csv")
        eventually(lambda: "waits: " in load.said)
        status = Command(settings, store, "status")
        assert status.ended() == 0
        assert f"load into payments waits: {WHERE}/b.csv can't be read" in status.said
    assert load.ended() == 0, load.said
    assert "the store is there again" in load.said
    assert rows_of_files(settings) == {(-1, 2)}


def rows_of_files(settings: Settings) -> set[tuple[int, int]]:
    """The number of rows by partition. Each has an offset of its own."""
    topic = load_declarations(settings.contracts_folder).topic("payments")
    with landed_rows(open_landing(settings, topic)) as rows:
        found = rows.execute(
            'SELECT "partition", count(*), count(DISTINCT "offset"), max("offset") + 1 FROM rows GROUP BY 1'
        ).fetchall()
    assert all(count == offsets == until for _, count, offsets, until in found), found
    return {(partition, count) for partition, count, _, _ in found}


def assert_each_row_once(settings: Settings) -> None:
    assert rows_of_files(settings) == {(-1, ROWS), (-2, 2)}
    topic = load_declarations(settings.contracts_folder).topic("payments")
    table = open_landing(settings, topic)
    with landed_rows(table) as rows:
        found = rows.execute(
            "SELECT decision, count(*), count(DISTINCT event_id) FROM rows GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert found == [("duplicate", 1, 1), ("loaded", ROWS + 1, ROWS + 1)]
    loads = read_state(table, topic).loads
    assert (loads.last, loads.rows, loads.open) == (2, ROWS + 2, {})
