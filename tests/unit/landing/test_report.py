"""What people read of landing: kinds before records, and no proof of what hasn't come yet."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.apps.cli.main import app
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.audit.quarantine import Quarantined, kinds_quarantined
from anabranch.ingest.landing.audit.report import kinds_table, proof_table
from anabranch.ingest.landing.audit.verify import PartitionProof, Proof
from anabranch.ingest.landing.state import open_landing, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, INDEXED, landing_schema
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.log.delta_tables import folder_of
from rich.console import Console, RenderableType
from support.landed_sample import FLIGHTS
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def record(offset: int, reason: str, event: str | None = "flight.departed") -> Quarantined:
    return Quarantined("flights", 0, offset, NOON, 1 + offset // 100, reason, event, b"k", b"v")


MANY = [
    *(record(n, f"dep_delay: '{n}' is not of type integer") for n in range(120)),
    *(record(n, "not_json: line 1", None) for n in range(200, 203)),
]


def landed(settings: Settings, records: list[Quarantined]) -> None:
    """A landing table with these records in quarantine."""
    table = open_landing(settings, FLIGHTS)
    rows = [{**asdict(each), "decision": "quarantined"} for each in records]
    staged = stage_arrow(
        pa.Table.from_pylist(rows, landing_schema(FLIGHTS)), str(folder_of(table)), "epoch-1-a", EVENT_DATE, INDEXED
    )
    extra = {"watermark_us": None, "rows": len(rows)}
    cut = Cut({FLIGHTS.name: Position(1, {0: 1000})})
    append(table, staged, CommitMetadata(writer_of(FLIGHTS), "first", cut, extra=extra))


def shown(table: RenderableType) -> str:
    file = StringIO()
    Console(file=file, width=200).print(table)
    return file.getvalue()


def test_records_of_one_kind_are_one_line_the_most_first(listed: Settings) -> None:
    lines = [
        line for line in shown(kinds_table("flights", kinds_quarantined(listed, FLIGHTS))).splitlines() if "0:" in line
    ]
    assert len(lines) == 2
    assert [cell.strip() for cell in lines[0].split("│")[1:-1]] == [
        "120", "dep_delay", "flight.departed", "1 to 2", "0:119", "dep_delay: '119' is not of type integer",
    ]  # fmt: skip
    assert "not_json" in lines[1]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    return load_settings(home=tmp_path)


@pytest.fixture
def listed(home: Settings) -> Settings:
    landed(home, MANY)
    return home


def test_the_command_counts_kinds_and_lists_the_one_that_is_asked_for(listed: Settings) -> None:
    whole = CliRunner().invoke(app, ["quarantine", "list", "flights"], env={"COLUMNS": "200"})
    assert whole.exit_code == 0
    assert "flights: 123 in quarantine" in whole.stdout
    assert len(whole.stdout.splitlines()) < 12
    one = CliRunner().invoke(app, ["quarantine", "list", "flights", "--kind", "not_json"], env={"COLUMNS": "200"})
    assert "flights: 3 in quarantine" in one.stdout
    assert "0:202" in one.stdout
    assert "dep_delay" not in one.stdout
    rows = json.loads(CliRunner().invoke(app, ["quarantine", "list", "flights", "--json"]).stdout)
    assert (len(rows), rows[0]["kind"]) == (123, "dep_delay")


@pytest.mark.parametrize("command", ["list", "release"])
def test_a_kind_that_is_not_there_names_those_that_are(listed: Settings, command: str) -> None:
    refused = CliRunner().invoke(app, ["quarantine", command, "flights", "--kind", "envelope"])
    assert refused.exit_code == 1
    assert "flights is not in quarantine as 'envelope' [NOT_QUARANTINED]" in refused.output
    assert "kinds there: dep_delay, not_json" in refused.output


@pytest.mark.parametrize("command", ["list", "release"])
def test_nothing_there_is_said_and_no_engine_is_started(
    home: Settings, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_landing(home, FLIGHTS)
    monkeypatch.setattr("anabranch.core.engine.lifetime.session", None)
    said = CliRunner().invoke(app, ["quarantine", command, "flights"])
    assert (said.exit_code, said.stdout) == (0, "flights: nothing is in quarantine\n")


def proof(landed_to: int, log_end: int, readable_to: int | None = None) -> Proof:
    counts = dict.fromkeys(("valid", "quarantined", "duplicates", "late", "tombstones", "holes"), 0)
    partition = PartitionProof(
        0,
        0,
        landed_to,
        0,
        log_end,
        log_end if readable_to is None else readable_to,
        **counts | {"valid": landed_to},
        wrong=(),
    )
    return Proof("flights", int(landed_to > 0), (partition,))


@pytest.mark.parametrize(
    ("landed_to", "log_end", "verdict"),
    [
        (0, 0, "flights at epoch 0: the topic is empty"),
        (0, 203, "flights at epoch 0: nothing has landed yet, 203 offsets wait"),
        (203, 203, "flights at epoch 1: gap-free: every offset landed exactly once"),
    ],
)
def test_what_has_not_landed_is_not_called_gap_free(landed_to: int, log_end: int, verdict: str) -> None:
    assert shown(proof_table(proof(landed_to, log_end))).startswith(verdict)


def test_tombstones_are_counted_where_there_are_some() -> None:
    found = proof(203, 203)
    assert "tombstones" not in shown(proof_table(found))
    (partition,) = found.partitions
    told = shown(proof_table(replace(found, partitions=(replace(partition, valid=201, tombstones=2),))))
    assert "tombstones" in told
    assert "203" in told.splitlines()[-1], "all that has landed"


def test_offsets_of_an_open_transaction_wait_too() -> None:
    assert "nothing has landed yet, 7 offsets wait" in shown(proof_table(proof(0, 7, readable_to=0)))
