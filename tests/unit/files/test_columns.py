"""A row of a file with columns holds that file's own values: none of another column, file or folder, none rounded."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.core.errors import BadInput
from anabranch.ingest.files import find_files
from anabranch.ingest.files._prepare import prepare
from anabranch.ingest.landing.decoding._contract_reasons import moment
from pyarrow import csv

pytestmark = pytest.mark.unit
VISIT = Contract(
    "visit.made",
    1,
    {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "string", "format": "date-time"}}},
)
TOPIC = Topic("visits", (VISIT,), records=PlainJson(id="id", time="at"))


def rows(path: Path) -> list[str]:
    (address,) = find_files([str(path)])
    prepared = prepare(address, path, TOPIC, path.parent / "parts", 250_000)
    return [value.decode() for part in prepared.parts for value in pq.read_table(part.path)["value"].to_pylist()]


def write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".avro":
        pl.DataFrame(table).write_avro(path)
    else:
        (csv.write_csv if path.suffix == ".csv" else pq.write_table)(table, path)


def test_a_folder_s_name_is_no_column(tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        folder = tmp_path / ending / "id=7"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": ["a", "b"]}), folder / "t.parquet")
        (folder / "t.csv").write_text("id\na\nb\n")
        assert rows(folder / f"t.{ending}") == ['{"id":"a"}', '{"id":"b"}']


def test_a_name_with_wildcards_is_one_file(tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        folder = tmp_path / ending
        folder.mkdir()
        for name in ("a*", "ab", "[x]", "x"):
            pq.write_table(pa.table({"id": [name]}), folder / f"{name}.parquet")
            (folder / f"{name}.csv").write_text(f"id\n{name}\n")
        assert rows(folder / f"a*.{ending}") == ['{"id":"a*"}']
        (folder / "parts").rename(folder / "first")
        assert rows(folder / f"[x].{ending}") == ['{"id":"[x]"}']


@pytest.mark.parametrize(("line", "words"), [("a\n", "too few cells"), ("a,b,c\n", "too many cells")])
def test_a_fault_behind_the_first_chunk_refuses_the_file(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "a.csv").write_text("id,at\n" + "a,b\n" * 300_000 + line)
    with pytest.raises(BadInput, match=rf"{words} \(the first: 300002\)") as refused:
        rows(tmp_path / "a.csv")
    assert refused.value.code == "FILE_UNREADABLE"


@pytest.mark.parametrize("ending", ["csv", "parquet", "avro"])
def test_columns_that_differ_only_in_case_are_refused(tmp_path: Path, ending: str) -> None:
    write(pa.table({"id": ["a"], "ID": ["b"], "at": ["c"]}), tmp_path / f"a.{ending}")
    with pytest.raises(BadInput, match="columns differ only in upper and lower case: 'ID', 'id'") as refused:
        rows(tmp_path / f"a.{ending}")
    assert refused.value.code == "FILE_UNREADABLE"


@pytest.mark.parametrize("ending", ["parquet", "avro"])
def test_fields_that_differ_only_in_case_are_refused(tmp_path: Path, ending: str) -> None:
    write(pa.table({"id": ["a"], "shops": [[{"at": {"x": 1, "y": 2, "X": 3}}]]}), tmp_path / f"a.{ending}")
    with pytest.raises(BadInput, match=r"column shops\[\]\.at: fields differ only in upper and lower case: 'X', 'x'"):
        rows(tmp_path / f"a.{ending}")


@pytest.mark.parametrize("ending", ["parquet", "avro"])
@pytest.mark.parametrize("name", ["block", "read_parquet", "x0", "value", "main"])
def test_a_column_may_be_called_like_a_part_of_the_query(tmp_path: Path, ending: str, name: str) -> None:
    values: dict[str, list[Any]] = {
        "id": ["a"],
        "n": [9],
        name: [{"n": 1, name: {"n": 2}}],
        "list": [[{"n": 3, "of": [{"n": 4}]}]],
    }
    write(pa.table(values), tmp_path / f"a.{ending}")
    (row,) = rows(tmp_path / f"a.{ending}")
    assert json.loads(row) == {column: of[0] for column, of in values.items()}


def test_a_decimal_of_more_than_38_digits_is_refused(tmp_path: Path) -> None:
    digits = pa.array(["1234567890123456789012345678901234567890.5", None])
    write(pa.table({"id": ["a", "b"], "sum": digits.cast(pa.decimal256(60, 2))}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="column sum is a decimal of 60 digits, and at most 38 can be read"):
        rows(tmp_path / "a.parquet")


NANOS = [0, -1, -999, -1_000, -1_001, 999, 86_399_999_999_999, None]
FLOORED = [
    "1970-01-01T00:00:00.000000Z", *["1969-12-31T23:59:59.999999Z"] * 3, "1969-12-31T23:59:59.999998Z",
    "1970-01-01T00:00:00.000000Z", "1970-01-01T23:59:59.999999Z", None,
]  # fmt: skip


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Rome"])
def test_nanoseconds_are_cut_off_as_those_of_a_text_are(tmp_path: Path, zone: str | None) -> None:
    times = pa.array(NANOS, pa.timestamp("ns", zone))
    write(pa.table({"at": times, "list": [[{"at": nanos}] for nanos in times]}), tmp_path / "a.parquet")
    found = [json.loads(row) for row in rows(tmp_path / "a.parquet")]
    assert [row["at"] for row in found] == FLOORED
    assert [row["list"][0]["at"] for row in found] == FLOORED
    texts = [f"{pa.scalar(n, pa.int64()).cast(pa.timestamp('ns')).cast(pa.string())}Z" for n in NANOS if n is not None]
    assert [moment(text.replace(" ", "T")) for text in texts] == [moment(text) for text in FLOORED if text]


def test_int96_holds_times_beyond_nanoseconds(tmp_path: Path) -> None:
    times = pa.array([datetime(9999, 12, 31, 23), datetime(1, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001
    pq.write_table(pa.table({"at": times}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert rows(tmp_path / "a.parquet") == [
        '{"at":"9999-12-31T23:00:00.000000Z"}',
        '{"at":"0001-01-01T00:00:00.000000Z"}',
    ]


def test_a_packed_csv_file_may_have_several_members(tmp_path: Path) -> None:
    packed = gzip.compress(b"id,at\na,b\n", mtime=0)
    (tmp_path / "a.csv.gz").write_bytes(packed + gzip.compress(b"c,d\n", mtime=0))
    assert rows(tmp_path / "a.csv.gz") == ['{"at":"b","id":"a"}', '{"at":"d","id":"c"}']


@pytest.mark.parametrize("place", ["checksum", "header", "end"])
def test_a_damaged_packed_csv_file_is_refused(tmp_path: Path, place: str) -> None:
    packed = bytearray(gzip.compress(b"id,at\n" + b"a,b\n" * 500_000, mtime=0))
    if place == "end":
        del packed[-100:]
    else:
        packed[-6 if place == "checksum" else 10] ^= 0xFF
    (tmp_path / "a.csv.gz").write_bytes(packed)
    with pytest.raises(BadInput, match=r"can't be read") as refused:
        rows(tmp_path / "a.csv.gz")
    assert refused.value.code == "FILE_UNREADABLE"
