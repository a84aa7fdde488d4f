"""Null items and values of files land as they are, of each kind of file; what is no value is quarantined."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.files import load
from anabranch.ingest.landing.state import open_landing
from anabranch.ingest.landing.table.sql import landed_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def an_array(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": [kind, "null"], **more}}


PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "properties": {
            "paymentId": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "tags": an_array("string"),
            "counts": an_array("integer"),
            "days": an_array("string", format="date"),
            "fees": an_array("number", format="decimal", precision=6, scale=2),
            "rates": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
            "firm": {"type": "array", "items": {"type": "integer"}},
        },
    },
)
TOPIC = Topic("payments", (PAID,), records=PlainJson(id="paymentId", time="at"))
TYPES: dict[str, pa.DataType] = {
    "paymentId": pa.string(),
    "at": pa.string(),
    "tags": pa.list_(pa.string()),
    "counts": pa.list_(pa.int64()),
    "days": pa.list_(pa.date32()),
    "fees": pa.list_(pa.decimal128(6, 2)),
    "rates": pa.map_(pa.string(), pa.float64()),
    "firm": pa.list_(pa.int64()),
}
SENT: dict[str, Any] = {
    "at": "2023-03-01T12:00:00Z",
    "tags": ["a", None, "12"],
    "counts": [None, 2**63 - 1],
    "days": [None, date(2020, 2, 29)],
    "fees": [Decimal("1.50"), None],
    "rates": {"a": None, "b": 0.5},
    "firm": [1],
}


def rows(kind: str) -> list[dict[str, Any]]:
    """A sound row, and one with a null where the contract allows none."""
    return [{"paymentId": f"{kind} good", **SENT}, {"paymentId": f"{kind} bad", **SENT, "firm": [1, None]}]


def as_lines(path: Path, sent: Sequence[dict[str, Any]]) -> None:
    def plain(value: Any) -> Any:
        return float(value) if isinstance(value, Decimal) else str(value)

    path.write_text("".join(json.dumps(row, default=plain) + "\n" for row in sent))


def as_parquet(path: Path, sent: Sequence[dict[str, Any]]) -> None:
    fields = pa.schema(list(TYPES.items()))
    pq.write_table(pa.Table.from_pylist([{**row, "rates": list(row["rates"].items())} for row in sent], fields), path)


def as_avro(path: Path, sent: Sequence[dict[str, Any]], *, maps: bool) -> None:
    """Without a map Polars reads it, with one fastavro does."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    kinds: dict[str, Any] = {"tags": "string", "counts": "long", "days": {"type": "int", "logicalType": "date"}}
    fields = [{"name": name, "type": "string"} for name in ("paymentId", "at")]
    for name, kind in {**kinds, "fees": decimal, "firm": "long"}.items():
        fields.append({"name": name, "type": {"type": "array", "items": ["null", kind]}})  # type: ignore[dict-item]
    if maps:
        fields.append({"name": "rates", "type": {"type": "map", "values": ["null", "double"]}})  # type: ignore[dict-item]
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "Paid", "fields": fields}), sent)


def test_null_items_and_values_of_files(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    wrong = {"paymentId": "a text among integers", **SENT, "counts": [None, "1"]}
    as_lines(files / "a.jsonl", [*rows("lines"), wrong])
    as_parquet(files / "b.parquet", rows("parquet"))
    as_avro(files / "c.avro", rows("avro"), maps=True)
    as_avro(files / "d.avro", rows("flat"), maps=False)
    report = load(spark, settings, TOPIC, [str(files)])
    assert report.refused == []
    assert report.decisions == {"loaded": 4, "quarantined": 5, "duplicate": 0}
    with landed_rows(open_landing(settings, TOPIC)) as found:
        landed = found.execute("SELECT event_id, payment_made FROM rows WHERE decision = 'loaded'").fetchall()
    right = {name: value for name, value in SENT.items() if name != "at"}
    for ident, row in landed:
        rates = {} if ident == "flat good" else right["rates"]
        kept = {name: value for name, value in row.items() if name not in ("paymentId", "at")}
        assert {**kept, "rates": dict(kept["rates"] or {})} == {**right, "rates": rates}, ident
    assert {ident for ident, _ in landed} == {f"{kind} good" for kind in ("lines", "parquet", "avro", "flat")}
