"""A file is cut into parts by rows and by bytes, and its rows keep their numbers whatever the borders are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.ingest.files import _prepare, find_files
from anabranch.ingest.files._columns import csv_rows

pytestmark = pytest.mark.unit
VISIT = Contract("visit.made", 1, {"type": "object", "properties": {"id": {"type": "string"}}})
TOPIC = Topic("visits", (VISIT,), records=PlainJson(id="id", time=Record.APPEND_TIME))


def parts(path: Path, chunks: list[list[bytes]], part_rows: int, monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    path.touch()
    (address,) = find_files([str(path)])
    monkeypatch.setattr(_prepare, "read_rows", lambda *_: (pa.array(chunk, pa.binary()) for chunk in chunks))
    prepared = _prepare.prepare(address, path, TOPIC, path.parent / f"parts-{part_rows}", part_rows)
    tables = [pq.read_table(part.path) for part in prepared.parts]
    assert [(p.first, p.until - p.first) for p in prepared.parts] == [
        (sum(t.num_rows for t in tables[:n]), table.num_rows) for n, table in enumerate(tables)
    ]
    assert [n for table in tables for n in table["offset"].to_pylist()] == list(range(prepared.rows))
    return [table["value"].to_pylist() for table in tables]


def test_a_part_ends_at_its_rows_or_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prepare, "PART_BYTES", 10)
    chunks = [[b"1", b"22", b"333"], [], [b"4444", b"55555"], [b"a row of more bytes than a part", b"7"], [b"8"] * 4]
    found = parts(tmp_path / "a.jsonl", chunks, 3, monkeypatch)
    assert found == [[b"1", b"22", b"333"], [b"4444", b"55555"], [chunks[3][0]], [b"7", b"8", b"8"], [b"8", b"8"]]
    assert parts(tmp_path / "a.jsonl", chunks, 100, monkeypatch)[0] == [b"1", b"22", b"333", b"4444"]
    assert parts(tmp_path / "a.jsonl", [], 4, monkeypatch) == []


def test_a_chunk_of_columns_may_have_more_bytes_than_32_bits_count(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\na\n")
    (chunk,) = csv_rows(tmp_path / "a.csv", TOPIC)
    assert chunk.type == pa.large_binary()
