"""A landing table grows with its contracts: in one commit, without touching a file, and never the other way."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.contract import Compatibility
from anabranch.core.errors import BadDefinition, BrokenState, Conflict, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.audit.quarantine import list_quarantined
from anabranch.ingest.landing.state import open_landing, read_state
from anabranch.ingest.landing.table.schema import EVENT_DATE, INDEXED, PROPERTIES, landing_schema
from anabranch.ingest.landing.table.schema_growth import VERSIONS, missing_columns
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import CommitMetadata, commit_history, latest_commit
from anabranch.lake.commits import append, create, widen
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import landing_table
from deltalake import DeltaTable

pytestmark = pytest.mark.unit
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
OLD: dict[str, Any] = {
    "n": {"type": "integer"},
    "where": {"type": "object", "properties": {"city": {"type": "string"}}},
}
WHERE = {"type": "object", "properties": {"zip": {"type": "integer"}, "city": {"type": "string"}}}
NEW = {"where": WHERE, "m": {"type": "integer"}, "tags": {"type": "array", "items": WHERE}}


def contract(version: int, fields: dict[str, Any], name: str = "thing.made") -> Contract:
    return Contract(name, version, {"type": "object", "properties": fields}, Compatibility.NONE)


ONE = Topic("things", (contract(1, OLD),))
TWO = Topic("things", (contract(1, OLD), contract(2, NEW), contract(1, {"k": {"type": "string"}}, "thing.lost")))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home")


def land(table: DeltaTable, topic: Topic, data: dict[str, Any]) -> None:
    state, schema = read_state(table, topic), landing_schema(topic)
    row = {"epoch": state.epoch + 1, "decision": "valid", "event_date": NOON.date(), "thing_made": data}
    uri = table.table_uri.removeprefix("file://")
    staged = stage_arrow(pa.Table.from_pylist([row], schema), uri, uuid4().hex, EVENT_DATE)
    cut = Cut({topic.name: Position(state.epoch + 1, {0: state.epoch + 1})})
    append(
        table,
        staged,
        CommitMetadata("landing/things", uuid4().hex, cut, extra={"watermark_us": 7, "released": 2, "rows": 1}),
    )


def test_a_table_grows_once_and_says_so(settings: Settings) -> None:
    table = open_landing(settings, ONE)
    land(table, ONE, {"n": 1, "where": {"city": "Rome"}})
    before, files = read_state(table, ONE), table.file_uris()

    grown = open_landing(settings, TWO)
    assert grown.version() == table.version() + 1
    assert read_state(grown, TWO) == before
    assert grown.file_uris() == files
    note = next(iter(commit_history(grown))).note
    assert note.extra["grown"] == ["thing_made.where.zip", "thing_made.m", "thing_made.tags", "thing_lost"]
    assert note.extra[VERSIONS] == {"thing.made": 2}
    assert open_landing(settings, TWO).version() == grown.version()
    assert grown.metadata().id == table.metadata().id


def test_readers_find_null_where_a_file_lacks_a_field(settings: Settings) -> None:
    land(open_landing(settings, ONE), ONE, {"n": 1, "where": {"city": "Rome"}})
    table = open_landing(settings, TWO)
    new = {"where": {"city": "Bonn", "zip": 5}, "m": 3, "tags": [{"zip": 1, "city": "Ulm"}]}
    land(table, TWO, new)
    want = [
        {"n": 1, "where": {"city": "Rome", "zip": None}, "m": None, "tags": None},
        {"n": None, **new},
    ]
    with landed_rows(table) as rows:
        found = rows.execute("SELECT thing_made FROM rows ORDER BY epoch").fetchall()
    assert [row[0] for row in found] == want
    by_delta = table.to_pyarrow_table(columns=["epoch", "thing_made"]).sort_by("epoch")
    assert by_delta["thing_made"].to_pylist() == want


def test_what_vanishes_from_the_declaration_stays(settings: Settings) -> None:
    open_landing(settings, TWO)
    for record in (settings.home / "control" / "contracts").glob("*.json"):
        record.unlink()
    table = open_landing(settings, ONE)
    assert "thing_lost" in {f.name for f in table.schema().fields}


def test_a_field_of_another_type_is_refused(settings: Settings) -> None:
    version = open_landing(settings, ONE).version()
    for record in (settings.home / "control" / "contracts").glob("*.json"):
        record.unlink()  # as if it was lost: the table itself knows
    other = contract(
        1, {"n": {"type": "number"}, "where": {"type": "object", "properties": {"city": {"type": "integer"}}}}
    )
    with pytest.raises(BadDefinition) as caught:
        open_landing(settings, Topic("things", (other,)))
    assert caught.value.code == "LANDING_TYPES"
    assert caught.value.fields["clashes"] == (
        "thing_made.n is long in the table and double in the contract",
        "thing_made.where.city is string in the table and long in the contract",
    )
    assert open_landing(settings, ONE).version() == version


def test_a_decimal_column_stays_as_it_is(settings: Settings) -> None:
    money = {"type": "string", "format": "decimal", "precision": 12, "scale": 2}
    grown = contract(1, {"n": {"type": "integer"}, "paid": {"type": "array", "items": money}})
    assert missing_columns(open_landing(settings, Topic("things", (grown,))), Topic("things", (grown,))) == []
    wider = contract(1, {"n": {"type": "integer"}, "paid": {"type": "array", "items": {**money, "precision": 14}}})
    with pytest.raises(BadDefinition) as caught:
        missing_columns(open_landing(settings, Topic("things", (grown,))), Topic("things", (wider,)))
    assert caught.value.code == "LANDING_TYPES"
    assert caught.value.fields["clashes"] == (
        "thing_made.paid[] is decimal(12,2) in the table and decimal(14,2) in the contract",
    )


def test_another_table_is_not_made_one_of_ours(settings: Settings, tmp_path: Path) -> None:
    from anabranch.lake.commits import create

    schema = pa.schema([f for f in landing_schema(ONE) if f.name != "epoch"])
    table = create(str(tmp_path / "t"), schema, [EVENT_DATE], CommitMetadata("x", "1", Cut()))
    with pytest.raises(BrokenState) as caught:
        missing_columns(table, ONE)
    assert caught.value.code == "LANDING_SCHEMA"


def test_two_that_open_at_once_grow_it_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.ingest.landing import state

    table = open_landing(settings, ONE)
    calls = list[int]()

    def raced(mine: DeltaTable, schema: pa.Schema, note: CommitMetadata) -> int:
        if not calls:
            calls.append(1)
            widen(DeltaTable(mine.table_uri), schema, note)  # the other one is first
        return widen(mine, schema, note)

    monkeypatch.setattr(state, "widen", raced)
    grown = open_landing(settings, TWO)
    assert grown.version() == table.version() + 1
    committed = latest_commit(grown)
    assert committed is not None
    assert "grown" in committed.note.extra


def test_a_table_that_moves_all_the_time_is_said(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.ingest.landing import state

    open_landing(settings, ONE)

    def moved(*_: object) -> int:
        raise Conflict("TABLE_MOVED", "moved")

    monkeypatch.setattr(state, "widen", moved)
    with pytest.raises(TryAgain) as caught:
        open_landing(settings, TWO)
    assert caught.value.code == "TABLE_BUSY"


def test_a_table_of_an_older_home_is_told_once_which_columns_have_statistics(settings: Settings) -> None:
    note = CommitMetadata(
        "landing/things", "create", Cut({"things": Position(0, {})}), extra={"watermark_us": None, "rows": 0}
    )
    uri = landing_table(settings, "things")
    create(uri, landing_schema(ONE), [EVENT_DATE], note)

    table = open_landing(settings, TWO)

    assert table.metadata().configuration["delta.dataSkippingStatsColumns"] == ",".join(INDEXED)
    assert {f.name for f in table.schema().fields} >= {"thing_lost"}
    assert read_state(table, TWO).epoch == 0
    assert open_landing(settings, TWO).version() == table.version() == 2


def test_a_table_from_before_landing_kept_headers_gets_their_column(settings: Settings) -> None:
    """And what was in quarantine then can be listed, with headers and without."""
    note = CommitMetadata(
        "landing/things", "create", Cut({"things": Position(0, {})}), extra={"watermark_us": None, "rows": 0}
    )
    older = pa.schema([f for f in landing_schema(ONE) if f.name != "headers"])
    create(landing_table(settings, "things"), older, [EVENT_DATE], note, PROPERTIES)
    put(settings, older, 1, {})
    assert [(r.offset, r.headers) for r in list_quarantined(settings, ONE)] == [(1, None)]

    table = open_landing(settings, ONE)
    assert read_state(table, ONE).epoch == 1
    put(settings, landing_schema(ONE), 2, {"headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]})

    found = {r.offset: r.headers for r in list_quarantined(settings, ONE)}
    assert found == {1: None, 2: (("a", b"1"), ("a", None))}


def put(settings: Settings, schema: pa.Schema, epoch: int, row: dict[str, Any]) -> None:
    table = DeltaTable(landing_table(settings, "things"))
    refused = {"partition": 0, "offset": epoch, "epoch": epoch, "append_time": NOON, "decision": "quarantined"}
    data = pa.Table.from_pylist([{**refused, "reason": "not_json: cut", **row}], schema)
    staged = stage_arrow(data, table.table_uri.removeprefix("file://"), uuid4().hex, EVENT_DATE, INDEXED)
    extra = {"watermark_us": None, "rows": 1}
    append(
        table,
        staged,
        CommitMetadata("landing/things", uuid4().hex, Cut({"things": Position(epoch, {0: epoch + 1})}), extra=extra),
    )


def test_landing_has_statistics_of_the_columns_that_its_table_names(settings: Settings) -> None:
    table = open_landing(settings, ONE)
    assert table.version() == 0
    rows = [
        {"epoch": 1, "offset": n, "event_id": f"e{n}", "type": kind, "event_time": NOON, "event_date": NOON.date()}
        for n, kind in enumerate(["a", "b"])
    ]
    data = pa.Table.from_pylist(rows, landing_schema(ONE))
    staged = stage_arrow(data, table.table_uri.removeprefix("file://"), uuid4().hex, EVENT_DATE, INDEXED)
    append(table, staged, CommitMetadata("landing/things", uuid4().hex, Cut({"things": Position(1, {0: 2})})))

    found = DeltaTable(table.table_uri)

    assert set(json.loads(staged[0].stats)["nullCount"]) == set(INDEXED)
    for column, value in [("offset", 1), ("event_id", "e1"), ("type", "b")]:
        wanted = ds.field(column) == value
        assert found.to_pyarrow_dataset().to_table(columns=["offset"], filter=wanted)["offset"].to_pylist() == [1]
    assert found.to_pyarrow_dataset().to_table(filter=ds.field("thing_made").is_null()).num_rows == 2


def a_map(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": "object", "properties": fields}}


def test_the_values_of_a_map_grow_and_older_files_stay_readable(settings: Settings) -> None:
    one = Topic("things", (contract(1, {"m": a_map(x={"type": "integer"})}),))
    table = open_landing(settings, one)
    land(table, one, {"m": {"a": {"x": 1}}})
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    two = Topic("things", (*one.contracts, contract(2, {"m": a_map(x={"type": "integer"}, y=texts), "n": texts})))
    grown = open_landing(settings, two)
    assert next(iter(commit_history(grown))).note.extra["grown"] == ["thing_made.m.*.y", "thing_made.n"]
    land(grown, two, {"m": {"b": {"x": 2, "y": {"k": "v"}}}, "n": {"k": "v"}})
    rows = (
        landed_rows(grown).execute("SELECT thing_made FROM rows WHERE thing_made IS NOT NULL ORDER BY epoch").fetchall()
    )
    assert [row[0] for row in rows] == [
        {"m": {"a": {"x": 1, "y": None}}, "n": None},
        {"m": {"b": {"x": 2, "y": {"k": "v"}}}, "n": {"k": "v"}},
    ]


@pytest.mark.parametrize(
    ("values", "clash"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "string"}}},
            "thing_made.m is map in the table and struct in the contract",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            "thing_made.m.* is struct in the table and string in the contract",
        ),
    ],
)
def test_another_type_of_a_map_is_refused(settings: Settings, values: dict[str, Any], clash: str) -> None:
    table = open_landing(settings, Topic("things", (contract(1, {"m": a_map(x={"type": "integer"})}),)))
    with pytest.raises(BadDefinition) as raised:
        missing_columns(table, Topic("things", (contract(1, {"m": values}),)))
    assert raised.value.code == "LANDING_TYPES"
    assert clash in raised.value.fields["clashes"]
