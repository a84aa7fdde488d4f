"""Rows of files with columns, as a contract is inferred from them."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.contracts.model.infer import infer
from anabranch.core.errors import BadInput
from anabranch.ingest.files import sample_lines

pytestmark = pytest.mark.unit
CSV = """\ufeffsaleId,soldAt,city,amount,pieces,gift,zip,note
s-1,2024-03-01 09:00:00,"Rome, centre",12.50,1,true,00184,
s-2,2024-03-01 10:30:00,Oslo,7,2,FALSE,0150,"two
lines"
"""
NODES: dict[str, Any] = {
    "saleId": {"type": "string"},
    "soldAt": {"type": "string"},
    "city": {"type": "string"},
    "pieces": {"type": "integer"},
    "gift": {"type": "boolean"},
    "zip": {"type": "string"},
}


DAMAGED = gzip.compress(b"id\n", mtime=0)[:10] + b"\xff" * 20
"""Behind the header of gzip is nothing that it makes."""


def rows(path: Path) -> list[dict[str, Any]]:
    found = sample_lines(str(path), 100)
    assert found is not None
    return [json.loads(line) for line in found]


@pytest.mark.parametrize("packed", [False, True])
def test_cells_of_a_column_have_one_type(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / f"sales.csv{'.gz' * packed}"
    path.write_bytes(gzip.compress(CSV.encode()) if packed else CSV.encode())
    first, second = rows(path)
    assert first == {
        "saleId": "s-1", "soldAt": "2024-03-01 09:00:00", "city": "Rome, centre", "amount": 12.5, "pieces": 1,
        "gift": True, "zip": "00184", "note": None,
    }  # fmt: skip
    assert (second["amount"], second["gift"], second["note"]) == (7, False, "two\nlines")
    found = infer("sale.made", sample_lines(str(path), 100) or ())
    assert {name: found.fields[name] for name in NODES} == NODES
    assert (found.id, found.money) == ("saleId", ("amount",))
    assert found.time == 'TimeField("soldAt", format="yyyy-MM-dd HH:mm:ss", zone="UTC")'
    assert "in which zone" in found.declaration("sales")
    exact = found.with_decimals(found.money).fields["amount"]
    assert exact == {"type": "number", "format": "decimal", "precision": 18, "scale": 2}


def test_typed_files_give_their_types(tmp_path: Path) -> None:
    at = datetime(2024, 3, 1, 10, 30, tzinfo=UTC)
    columns: dict[str, Any] = {
        "id": ["a"], "at": [at], "day": [date(2024, 3, 1)], "amount": [Decimal("12.50")], "bytes": [b"\xff"],
        "tags": [["x"]], "where": [{"city": "Rome"}], "rate": [float("nan")],
    }  # fmt: skip
    table = pa.table(columns).append_column("labels", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())))
    pq.write_table(table, tmp_path / "sales.parquet")
    assert rows(tmp_path / "sales.parquet") == [
        {
            "id": "a", "at": "2024-03-01T10:30:00Z", "day": "2024-03-01", "amount": "12.50", "bytes": "/w==",
            "tags": ["x"], "where": {"city": "Rome"}, "rate": None, "labels": {"k": 1},
        }
    ]  # fmt: skip
    schema = {"type": "record", "name": "Sale", "fields": [{"name": "id", "type": "string"}]}
    with (tmp_path / "sales.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"id": "a"}])
    assert rows(tmp_path / "sales.avro") == [{"id": "a"}]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"", "must name each column"),
        ("a.csv", b"id,id\n1,2\n", "each differently"),
        ("a.csv", b"id,n\n1\n", "row 2 hasn't as many cells"),
        ("a.csv", b"id\n\xff\n", "can't decode"),
        ("a.csv.gz", b"no gzip", "Not a gzipped file"),
        ("a.csv.gz", DAMAGED, "while decompressing data"),
        ("a.parquet", b"PAR1", "can't be read"),
        ("a.avro", b"x", "no Avro container"),
        ("nowhere.csv", None, "No such file"),
    ],
)
def test_a_sample_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=says) as error:
        sample_lines(str(tmp_path / name), 10)
    assert error.value.code == "SAMPLE"


@pytest.mark.parametrize(
    ("count", "kind"),
    [
        (10**8, pa.date32()),
        (-(10**6), pa.date32()),
        (10**18, pa.timestamp("us")),
        (10**18, pa.timestamp("us", "UTC")),
        (10**17, pa.timestamp("ms", "Europe/Berlin")),
    ],
)
def test_a_sample_with_a_year_that_python_does_not_have_says_so(tmp_path: Path, count: int, kind: pa.DataType) -> None:
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    pq.write_table(pa.table({"at": pa.array([count], whole).cast(kind)}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="a date or time in it is outside of the years 1 to 9999") as error:
        sample_lines(str(tmp_path / "a.parquet"), 10)
    assert (error.value.code, error.value.next_step) == ("SAMPLE", "give a sample without such rows")


def test_other_files_are_not_read() -> None:
    assert sample_lines("nowhere.jsonl", 10) is None
