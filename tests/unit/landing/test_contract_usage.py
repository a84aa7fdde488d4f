"""The census says what has ever landed by which version, and what is declared and was never seen."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from anabranch.apps.cli import _census_commands
from anabranch.apps.cli.main import app
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.contract import Compatibility
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.state import open_landing, read_state
from anabranch.ingest.landing.table.contract_usage import Producer, census
from anabranch.ingest.landing.table.schema import EVENT_DATE, landing_schema
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def contract(name: str, version: int, field: str) -> Contract:
    schema = {"type": "object", "properties": {field: {"type": "integer"}}}
    return Contract(name, version, schema, Compatibility.NONE)


TOPIC = Topic(
    "things", (contract("thing.made", 2, "b"), contract("thing.made", 1, "a"), contract("thing.lost", 1, "c"))
)


def row(
    hours: int, version: int | None, source: str, decision: str = "valid", late: bool | None = False
) -> dict[str, Any]:
    time = NOON + timedelta(hours=hours)
    return {
        "epoch": 1,
        "decision": decision,
        "late": late,
        "type": "thing.made" if version else None,
        "contract_version": version,
        "source": source,
        "event_time": time,
        "event_date": time.date(),
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home")


@pytest.fixture
def landed_things(settings: Settings) -> Settings:
    rows = [row(n, 1, f"s{n % 5}", late=n == 30) for n in range(31)]
    rows += [
        row(40, 2, "[red]new[/]", "loaded", None),
        row(41, 2, "x", "duplicate", None),
        row(50, None, "y", "quarantined", None),
    ]
    table = open_landing(settings, TOPIC)
    data = pa.Table.from_pylist(rows, landing_schema(TOPIC))
    staged = stage_arrow(data, table.table_uri.removeprefix("file://"), uuid4().hex, EVENT_DATE)
    cut = Cut({"things": Position(read_state(table, TOPIC).epoch + 1, {0: len(rows)})})
    append(table, staged, CommitMetadata("landing/things", "1", cut, extra={"watermark_us": 0}))
    return settings


def test_each_version_with_its_events_and_producers(landed_things: Settings) -> None:
    old, new, lost = census(landed_things, TOPIC)
    assert (old.type, old.version, old.events, old.late, old.sources) == ("thing.made", 1, 31, 1, 5)
    assert (old.first, old.last) == (datetime(2013, 1, 1, 12), datetime(2013, 1, 2, 18))  # noqa: DTZ001 - as it says
    assert old.producers == (Producer("s0", 7), Producer("s1", 6), Producer("s2", 6))
    assert (old.declared, old.newest, new.newest) == (True, False, True)
    assert (new.version, new.events, new.late, new.loaded, old.loaded) == (
        2,
        1,
        0,
        1,
        0,
    )  # neither the duplicate nor what couldn't be read
    assert (lost.type, lost.events, lost.first, lost.producers) == ("thing.lost", 0, None, ())


def test_a_version_that_nobody_declares_any_more_is_shown(landed_things: Settings) -> None:
    fewer = Topic("things", (contract("thing.made", 2, "b"),))
    assert [(s.version, s.declared) for s in census(landed_things, fewer)] == [(1, False), (2, True)]


def test_before_anything_has_landed_all_are_declared_and_never_seen(settings: Settings) -> None:
    assert [(s.type, s.events) for s in census(settings, TOPIC)] == [
        ("thing.made", 0),
        ("thing.made", 0),
        ("thing.lost", 0),
    ]
    open_landing(settings, TOPIC)
    assert [s.events for s in census(settings, TOPIC)] == [0, 0, 0]


def test_the_command_prints_both(landed_things: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_census_commands, "project", lambda: (landed_things, Declarations({"things": TOPIC})))
    shown = CliRunner().invoke(app, ["census", "things"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    for said in ("v2 newest", "[red]new[/] 1", "and 2 more", "never seen", "2013-01-01 12:00"):
        assert said in shown.output
    told = json.loads(CliRunner().invoke(app, ["census", "--json"]).output)
    assert [(t["type"], t["version"], t["events"], t["late"]) for t in told] == [
        ("thing.made", 1, 31, 1),
        ("thing.made", 2, 1, 0),
        ("thing.lost", 1, 0, 0),
    ]
    assert told[0]["first"] == "2013-01-01T12:00:00Z"
    assert told[0]["producers"][0] == {"source": "s0", "events": 7}
    assert told[2]["first"] is None
