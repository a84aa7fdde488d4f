"""What Polars doesn't read of Avro is read row by row; what no column can hold is refused in words of the schema."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.core.errors import BadInput
from anabranch.ingest.files import find_files
from anabranch.ingest.files._prepare import prepare

pytestmark = pytest.mark.unit
VISIT = Contract(
    "visit.made",
    1,
    {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "string", "format": "date-time"}}},
)
TOPIC = Topic("visits", (VISIT,), records=PlainJson(id="id", time="at"))
KIND: dict[str, Any] = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
SHOP: dict[str, Any] = {"type": "record", "name": "Shop", "fields": [{"name": "n", "type": "int"}]}


def rows(path: Path, schema: Any, *records: Any) -> list[Any]:
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), records)
    (address,) = find_files([str(path)])
    prepared = prepare(address, path, TOPIC, path.parent / "parts", 250_000)
    return [json.loads(value) for part in prepared.parts for value in pq.read_table(part.path)["value"].to_pylist()]


def visit(*fields: tuple[str, Any]) -> dict[str, Any]:
    named = [{"name": name, "type": kind} for name, kind in (("id", "string"), *fields)]
    return {"type": "record", "name": "Visit", "fields": named}


@pytest.mark.parametrize(
    ("kinds", "values"),
    [
        ([KIND], ["A"]),
        ([["null", KIND]], ["A"]),
        ([[KIND, "null"]], [None]),
        ([{"type": "array", "items": KIND}], [["A", "B"]]),
        ([{"type": "record", "name": "Of", "fields": [{"name": "kind", "type": KIND}]}], [{"kind": "B"}]),
        ([["string"]], ["x"]),
        ([["null"]], [None]),
        (["null"], [None]),
        ([["null", "string", {"type": "null"}]], ["x"]),
        ([SHOP, "Shop", ["null", "Shop"]], [{"n": 1}, {"n": 2}, {"n": 3}]),
        ([KIND, "Kind"], ["A", "B"]),
        ([{"type": "fixed", "name": "Two", "size": 2}, ["null", "Two"]], ["YWI=", None]),
        ([["null", SHOP]], [None]),
        ([{"type": "array", "items": ["null", SHOP]}], [[{"n": 1}, None]]),
        ([{"type": "record", "name": "Nothing", "fields": []}], [{}]),
        ([{"type": "fixed", "name": "Zero", "size": 0}], [""]),
    ],
)
def test_a_schema_of_one_type_a_column_is_read(tmp_path: Path, kinds: list[Any], values: list[Any]) -> None:
    names = [f"c{number}" for number in range(len(kinds))]
    record = {"id": "a", **dict(zip(names, values, strict=True))}
    given = {name: {"YWI=": b"ab", "": b""}.get(str(value), value) for name, value in record.items()}
    assert rows(tmp_path / "a.avro", visit(*zip(names, kinds, strict=True)), given, given) == [record, record]


SUM = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}


@pytest.mark.parametrize(
    ("schema", "record", "words"),
    [
        (visit(("c", ["int", "string"])), {"id": "a", "c": 1}, "column c may have 2 types, and a column has one"),
        (visit(("c", ["null", "Visit"])), {"id": "a", "c": None}, "Visit contains itself, which no column can hold"),
        (
            visit(("c", SUM)),
            {"id": "a", "c": Decimal(1)},
            "column c is a decimal of 60 digits, and at most 38 can be read",
        ),
        ({"type": "array", "items": "int"}, [1], "its rows are of type array, and not records"),
        ("string", "a", "its rows are of type string, and not records"),
    ],
)
def test_a_schema_that_no_columns_hold_is_refused(tmp_path: Path, schema: Any, record: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        rows(tmp_path / "a.avro", schema, record)
    assert refused.value.code == "FILE_UNREADABLE"


def varint(number: int) -> bytes:
    low = [number << 1 >> shift & 0x7F for shift in range(0, 70, 7)]
    return bytes([*(each | 0x80 for each in low[:-1]), low[-1]])


NOTHING: dict[str, Any] = {"type": "record", "name": "Nothing", "fields": []}


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "kinds",
    [["null"], [NOTHING], [{"type": "fixed", "name": "Zero", "size": 0}], ["null", NOTHING, "Nothing"], []],
    ids=["null", "no fields", "no size", "several", "nothing"],
)
def test_rows_without_bytes_are_refused_before_the_first(tmp_path: Path, kinds: list[Any]) -> None:
    """A file of 150 bytes could hold any number of them."""
    path = tmp_path / "a.avro"
    fields = [{"name": name, "type": kind} for name, kind in zip(("id", "b", "c"), kinds, strict=False)]
    schema = {"type": "record", "name": "R", "fields": fields}
    empty = io.BytesIO()
    fastavro.writer(empty, fastavro.parse_schema(schema), [], sync_marker=b"0123456789abcdef")
    path.write_bytes(empty.getvalue() + varint(10**12) + varint(0) + b"0123456789abcdef")
    (address,) = find_files([str(path)])
    with pytest.raises(BadInput, match="its rows may have no bytes at all") as refused:
        prepare(address, path, TOPIC, path.parent / "parts", 250_000)
    assert refused.value.code == "FILE_UNREADABLE"


def test_items_without_bytes_are_refused_whoever_reads_the_rest(tmp_path: Path) -> None:
    items = visit(("c", {"type": "array", "items": NOTHING}))
    with pytest.raises(BadInput, match="an array of values without bytes can't be read"):
        rows(tmp_path / "a.avro", items, {"id": "a", "c": [{}]})
