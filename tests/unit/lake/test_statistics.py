"""Statistics of data files: no engine skips a file that has a row it looks for, and each skips what it may."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create, widen
from anabranch.lake.cut import Cut
from anabranch.lake.file_commits import commit_move, data_files
from anabranch.lake.files import StagedFile, describe, footer_columns, stage_arrow
from anabranch.lake.files._statistics import INDEXED_LEAVES, statistics
from anabranch.operate.maintenance._file_merging import Group, merge
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support import random_tables
from support.random_tables import LAST, OPERATORS, SCHEMA, Question

pytestmark = pytest.mark.unit
NOTE = CommitMetadata("test", "0", Cut())
NAN, INF = math.nan, math.inf


def stats_of(table: pa.Table, folder: Path) -> dict[str, Any]:
    (staged,) = stage_arrow(table, str(folder), "build", None)
    return dict(json.loads(staged.stats))


def bounds_of(values: list[Any], kind: pa.DataType, folder: Path) -> tuple[Any, Any]:
    found = stats_of(pa.table({"x": pa.array(values, kind)}), folder)
    return found["minValues"]["x"], found["maxValues"]["x"]


def filled(folder: Path, files: list[pa.Table], old: int = 0) -> DeltaTable:
    """A table of these files; the first ``old`` ones as they were written before there were bounds."""
    table = create(str(folder), files[0].schema, [], NOTE)
    for number, rows in enumerate(files):
        (staged,) = stage_arrow(rows, str(folder), f"b{number}", None)
        if number < old:
            staged = StagedFile(staged.path, staged.size, staged.rows, {}, f'{{"numRecords": {staged.rows}}}')
        append(table, [staged], NOTE)
    return DeltaTable(str(folder))


def by_arrow(table: DeltaTable, question: Question) -> list[int]:
    column, kind = ds.field(question.column), SCHEMA.field(question.column).type
    wanted = column.is_null() if question.sign == "null" else None
    if wanted is None:
        wanted = OPERATORS[question.sign](column, pa.scalar(question.value, kind))
    return sorted(table.to_pyarrow_dataset().to_table(columns=["number"], filter=wanted)["number"].to_pylist())


def by_polars(table: DeltaTable, question: Question) -> list[int]:
    column = pl.col(question.column)
    wanted = column.is_null() if question.sign == "null" else OPERATORS[question.sign](column, pl.lit(question.value))
    return sorted(pl.scan_delta(table.table_uri).filter(wanted).select("number").collect()["number"].to_list())


def by_datafusion(table: DeltaTable, question: Question) -> list[int]:
    name = '"' + question.column.replace('"', '""') + '"'
    wanted = f"{name} is null" if question.sign == "null" else f"{name} {question.sign} {_literal(question)}"
    query = f"select number from t where {wanted}"  # noqa: S608 - names and values of our own
    return sorted(pa.table(QueryBuilder().register("t", table).execute(query).read_all())["number"].to_pylist())


def _literal(question: Question) -> str:
    value, kind = question.value, SCHEMA.field(question.column).type
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    names = {"float": "Float32", "double": "Float64", "date32[day]": "Date32", "int8": "Int8", "int64": "Int64"}
    if isinstance(value, datetime):
        name = "Timestamp(Microsecond, " + ('Some("UTC")' if value.tzinfo else "None") + ")"
    else:
        name = names.get(str(kind), str(kind).title().replace(" ", ""))
    return f"arrow_cast('{value}', '{name}')"


ENGINES: Mapping[str, Callable[[DeltaTable, Question], list[int]]] = {
    "arrow": by_arrow,
    "polars": by_polars,
    "datafusion": by_datafusion,
}


@pytest.mark.parametrize("seed", range(4))
def test_every_engine_finds_the_rows_that_python_finds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = [random_tables.random_rows(chance, number * 10, 6) for number in range(5)]
    # The oldest two files say how many rows they have and nothing else, as those of an older home.
    table = filled(tmp_path, [pa.Table.from_pylist(rows, SCHEMA) for rows in files], old=seed % 3)
    rows = [row for file in files for row in file]

    for _ in range(60):
        question = random_tables.random_question(chance)
        expected = question.answer(rows)
        for engine, find in ENGINES.items():
            if engine == "datafusion" and _is_total_order(question):
                continue
            assert find(table, question) == expected, (engine, question)


def _is_total_order(question: Question) -> bool:
    """To DataFusion 0.0 and -0.0 are two numbers: in rows, not only in bounds."""
    return isinstance(question.value, float) and question.value == 0


BOUNDED = [column for column, (kind, _) in random_tables.VALUES.items() if not pa.types.is_binary(kind)]


@pytest.mark.parametrize("column", BOUNDED)
def test_a_file_without_the_value_is_never_opened(tmp_path: Path, column: str) -> None:
    kind, values = random_tables.VALUES[column]
    low, high = min(values), max(values)
    table = filled(tmp_path, [pa.table({"x": pa.array([value], kind)}) for value in (low, high)])
    (gone,) = [uri for uri in table.file_uris() if pq.read_table(uri)["x"][0].as_py() == high]
    Path(gone.removeprefix("file://")).unlink()

    for engine in (by_arrow_x, by_polars_x):
        assert engine(table, low, kind) == 1


def by_arrow_x(table: DeltaTable, value: Any, kind: pa.DataType) -> int:
    return int(table.to_pyarrow_dataset().to_table(filter=ds.field("x") == pa.scalar(value, kind)).num_rows)


def by_polars_x(table: DeltaTable, value: Any, kind: pa.DataType) -> int:
    return pl.scan_delta(table.table_uri).filter(pl.col("x") == pl.lit(value)).collect().height


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("x" * 32, "x" * 32, "x" * 32),
        ("x" * 33, "x" * 32, "x" * 32 + LAST),
        ("x" * 32 + LAST + "y", "x" * 32, "x" * 32 + LAST + LAST),
        (LAST * 40, LAST * 32, LAST * 40),
        ("😀" * 33, "😀" * 32, "😀" * 32 + LAST),
        ("y" * 5_000, "y" * 32, "y" * 32 + LAST),
    ],
)
def test_a_text_is_cut_to_bounds_that_hold_it(tmp_path: Path, text: str, low: str, high: str) -> None:
    assert bounds_of([text, None], pa.string(), tmp_path) == (low, high)
    assert low.encode() <= text.encode() <= high.encode()


def test_texts_are_ordered_by_their_bytes_not_by_utf_16(tmp_path: Path) -> None:
    assert bounds_of(["\uffff", "😀"], pa.string(), tmp_path) == ("\uffff", "😀")


def test_times_are_rounded_outwards_to_milliseconds(tmp_path: Path) -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001

    assert bounds_of([moment], pa.timestamp("us"), tmp_path / "local") == (
        "1969-12-31T23:59:59.999",
        "1970-01-01T00:00:00.000",
    )
    low, high = bounds_of([moment.replace(tzinfo=UTC)], pa.timestamp("us", "UTC"), tmp_path)
    assert (low, high) == ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z")


def test_a_decimal_keeps_every_digit(tmp_path: Path) -> None:
    digits = "-12345678901234567890123456789012345.678"
    (staged,) = stage_arrow(
        pa.table({"x": pa.array([Decimal(digits)], pa.decimal128(38, 3))}), str(tmp_path), "b", None
    )

    assert f'"minValues":{{"x":{digits}}}' in staged.stats
    assert bounds_of([Decimal("-0.01"), Decimal(7)], pa.decimal128(9, 2), tmp_path / "short") == (-0.01, 7.0)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, NAN]),
        pa.array([NAN, NAN], pa.float32()),
        pa.array([1.0, INF]),
        pa.array([-INF]),
        pa.array([2**62]).cast(pa.timestamp("us", "UTC")),
        pa.array([-(2**31)], pa.int32()).cast(pa.date32()),
    ],
    ids=str,
)
def test_a_value_that_no_bound_is_right_for_leaves_the_count_alone(tmp_path: Path, values: pa.Array) -> None:
    table = pa.table({"i": range(len(values)), "x": values})

    assert stats_of(table, tmp_path) == {"numRecords": len(values)}


def test_a_nan_is_found_by_every_engine(tmp_path: Path) -> None:
    inside = pa.array([{"y": 1.0}, {"y": NAN}, None])
    rows = pa.table({"number": [1, 2, 3], "x": pa.array([1.0, NAN, INF]), "inside": inside})
    table = filled(tmp_path, [rows])

    assert table.to_pyarrow_dataset().to_table(filter=pc.is_nan(ds.field("x"))).num_rows == 1
    assert pl.scan_delta(table.table_uri).filter(pl.col("x") > INF).collect()["number"].to_list() == [2]
    found = QueryBuilder().register("t", table).execute("select number from t where x = 'NaN'::double").read_all()
    assert pa.table(found)["number"].to_pylist() == [2]
    assert footer_columns(rows.schema, [rows]) == ["number"]


def test_a_struct_has_statistics_of_its_fields_and_arrays_and_maps_have_none(tmp_path: Path) -> None:
    rows = [{"s": {"text": "a", "deep": {"n": 1}}, "list": [1], "map": [("k", 1)]}, {"s": None}]
    kind = pa.struct([("text", pa.string()), ("deep", pa.struct([("n", pa.int64())]))])
    schema = pa.schema([("list", pa.list_(pa.int64())), ("map", pa.map_(pa.string(), pa.int64())), ("s", kind)])

    assert stats_of(pa.Table.from_pylist(rows, schema), tmp_path) == {
        "numRecords": 2,
        "minValues": {"s": {"text": "a", "deep": {"n": 1}}},
        "maxValues": {"s": {"text": "a", "deep": {"n": 1}}},
        "nullCount": {"s": {"text": 1, "deep": {"n": 1}}},
    }


def test_bytes_and_columns_of_nulls_have_a_count_of_nulls_and_partitions_nothing(tmp_path: Path) -> None:
    rows = pa.table({"day": pa.array([date(2013, 1, 1)] * 2), "b": [b"a", None], "n": pa.nulls(2, pa.string())})

    (staged,) = stage_arrow(rows, str(tmp_path), "build", "day")

    assert json.loads(staged.stats) == {
        "numRecords": 2,
        "minValues": {},
        "maxValues": {},
        "nullCount": {"b": 1, "n": 2},
    }


def test_only_the_leaves_that_readers_look_at_have_statistics(tmp_path: Path) -> None:
    wide = pa.table({f"c{n}": [n] for n in range(INDEXED_LEAVES + 8)})

    found = stats_of(wide, tmp_path / "stats")
    table = filled(tmp_path / "table", [wide])

    assert list(found["nullCount"]) == [f"c{n}" for n in range(INDEXED_LEAVES)]
    for column in (0, INDEXED_LEAVES - 1, INDEXED_LEAVES, INDEXED_LEAVES + 7):
        assert table.to_pyarrow_dataset().to_table(filter=ds.field(f"c{column}") == column).num_rows == 1


def test_an_empty_file_and_invalid_text_have_the_count_alone(tmp_path: Path) -> None:
    empty, invalid = pa.table({"x": pa.array([], pa.int64())}), pa.array([b"\xff\xfe"]).view(pa.string())
    pq.write_table(empty, tmp_path / "empty.parquet")
    pq.write_table(pa.table({"x": invalid}), tmp_path / "invalid.parquet")

    assert describe(tmp_path / "empty.parquet", str(tmp_path)).stats == '{"numRecords":0}'
    assert describe(tmp_path / "invalid.parquet", str(tmp_path)).stats == '{"numRecords":1}'


def test_bounds_are_those_of_all_row_groups(tmp_path: Path) -> None:
    price = pa.array([Decimal("-1.00"), None, Decimal("3.00"), Decimal("2.00")], pa.decimal128(9, 2))
    table = pa.table({"x": [3, 1, 2, 9], "price": price, "n": pa.array([None, None, "a", "b"])})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=1)

    found = json.loads(statistics(pq.read_metadata(tmp_path / "f.parquet"), table.select))

    assert (found["minValues"], found["maxValues"]) == (
        {"x": 1, "price": -1.0, "n": "a"},
        {"x": 9, "price": 3.0, "n": "b"},
    )
    assert found["nullCount"] == {"x": 0, "price": 1, "n": 2}


def test_a_column_that_is_added_later_is_null_in_older_files(tmp_path: Path) -> None:
    table = filled(tmp_path / "ours", [pa.table({"number": [1]})])
    later = pa.table({"number": [2], "inside": [{"n": 5}]})
    widen(table, later.schema, NOTE)
    append(table, stage_arrow(later, str(tmp_path / "ours"), "later", None), NOTE)
    table = DeltaTable(str(tmp_path / "ours"))

    null = QueryBuilder().register("t", table).execute("select number from t where inside is null").read_all()
    assert pa.table(null)["number"].to_pylist() == [1]
    assert pl.scan_delta(table.table_uri).filter(pl.col("inside").is_null()).collect()["number"].to_list() == [1]
    assert by_arrow(table, Question("number", "=", 1)) == [1]
    # delta-rs 1.6.6 misses them through to_pyarrow_dataset, in files that it wrote itself as well.
    theirs = str(tmp_path / "theirs")
    write_deltalake(theirs, pa.table({"number": [1]}))
    write_deltalake(theirs, later, mode="append", schema_mode="merge")
    for uri in (table.table_uri, theirs):
        assert DeltaTable(uri).to_pyarrow_dataset().to_table(filter=ds.field("inside").is_null()).num_rows == 0


def test_a_compaction_keeps_full_statistics_and_every_character(tmp_path: Path) -> None:
    texts = ["a", "b" * 40, "😀" * 40, LAST]
    rows = [pa.table({"number": [n], "text": [text], "real": [n / 3]}) for n, text in enumerate(texts)]
    table = filled(tmp_path, rows, old=1)
    group = Group(tuple(data_files(table)), "merged")

    commit_move(table, group.files, [merge(str(tmp_path), rows[0].schema, group)])

    table = DeltaTable(str(tmp_path))
    (found,) = pa.table(table.get_add_actions()).to_pylist()
    assert (found["num_records"], found["min"]["text"], found["max"]["text"]) == (4, "a", LAST)
    assert (found["max"]["real"], found["null_count"]) == (1.0, {"number": 0, "text": 0, "real": 0})
    for number, text in enumerate(texts):
        for engine, find in ENGINES.items():
            assert find(table, Question("text", "=", text)) == [number], engine


def test_a_compaction_of_a_nan_writes_no_bounds_that_hide_it(tmp_path: Path) -> None:
    table = filled(tmp_path, [pa.table({"number": [n], "real": [value]}) for n, value in enumerate([1.0, NAN])])
    group = Group(tuple(data_files(table)), "merged")

    made = merge(str(tmp_path), pa.schema([("number", pa.int64()), ("real", pa.float64())]), group)

    assert made.stats == '{"numRecords":2}'
    assert pq.read_metadata(tmp_path / made.path).row_group(0).column(1).statistics is None
