"""A row of a file with columns holds that file's own values: none of another column, file or folder, none rounded."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.core.errors import BadInput
from anabranch.ingest.files import find_files
from anabranch.ingest.files._prepare import prepare
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
    values = {"id": ["a"], "n": [9], name: [{"n": 1, name: {"n": 2}}], "list": [[{"n": 3, "of": [{"n": 4}]}]]}
    write(pa.table(values), tmp_path / f"a.{ending}")
    (row,) = rows(tmp_path / f"a.{ending}")
    assert json.loads(row) == {column: of[0] for column, of in values.items()}
