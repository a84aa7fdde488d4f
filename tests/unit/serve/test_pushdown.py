"""Reads push down: files that can't match are never opened, and every engine gives the rows of the naive way."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import anabranch
import duckdb
import polars as pl
import pyarrow as pa
import pytest
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, commits, cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.serve import _duckdb_pool
from anabranch.serve.reader_log import failed_reads
from anabranch.serve.routes import set_route
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from support import random_tables, small_halves
from support.relation_queries import rows_of
from support.small_halves import VIEW

pytestmark = pytest.mark.unit
SCHEMA = pa.schema([*random_tables.SCHEMA, (PARTITION_DATE, pa.date32()), (CHANGED, pa.int64())])
DAYS = [date(2013, 1, day) for day in range(1, 6)]
WAYS: Mapping[str, Callable[[anabranch.Reading], pa.Table]] = {
    "arrow": lambda reading: reading.to_arrow(),
    "batches": lambda reading: reading.to_arrow_batches().read_all(),
    "polars": lambda reading: reading.to_polars().to_arrow(),
    "lazy polars": lambda reading: reading.to_polars(lazy=True).collect().to_arrow(),
    "duckdb": lambda reading: reading.to_duckdb().to_arrow_table(),
    "pandas": lambda reading: pa.Table.from_pandas(reading.to_pandas(), preserve_index=False),
}
PREDICATES = [
    "text like 'x%' or text ilike '%HARE'",
    "not (text < 'b') and text is not null",
    "text not in ('a', 'O''Hare')",
    "upper(text) = 'A' or length(text) > 32",
    "coalesce(whole, 0) >= 0 and abs(price) > 5",
    "real > 0.05 or small_real <= 0.5",
    "price between -0.01 and 5 or exact > 0",
    "exact > 12345678901234567890123456789012345.678",
    "price = 1e0 or price < 0.001",
    "hour(moment) = 10 and moment >= timestamp '2013-01-01 10:00:00.123456'",
    "moment = timestamptz '2013-01-01 10:00:00.123956+00'",
    "cast(moment as date) = date '2013-01-01'",
    "moment < date '1970-01-01' and moment < '2013-01-01'",
    "local >= timestamp '1970-01-01'",
    "day_of = '2013-01-01' or day_of > timestamp '2013-01-01 05:00'",
    "flag or not flag",
    "flag = true and 0 < tiny",
    "tiny in (127, -128) and tiny <> 300",
    "number > 1.5 and null is null",
    "number in (1, null) or number = 2 + 3",
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def fill(settings: Settings, days: Mapping[date, pa.Table]) -> Settings:
    """A speed half of the view, one file a day."""
    uri, schema = VersionRef(settings, VIEW, 1).speed_table, next(iter(days.values())).schema
    table = commits.create(uri, schema, [PARTITION_DATE], CommitMetadata("view/delays/v1/speed", "create", cut.Cut()))
    staged = [f for day, rows in days.items() for f in stage_arrow(rows, uri, str(day), PARTITION_DATE)]
    commits.replace(table, staged, CommitMetadata("view/delays/v1/speed", "c:3", small_halves.cut_at(3)), None)
    return settings


def random_days(seed: int) -> dict[date, pa.Table]:
    chance = random.Random(seed)
    rows = {day: random_tables.random_rows(chance, 10 * n, 8) for n, day in enumerate(DAYS)}
    return {
        d: pa.Table.from_pylist([r | {PARTITION_DATE: d, CHANGED: 3} for r in each], SCHEMA) for d, each in rows.items()
    }


def naive(days: Mapping[date, pa.Table], where: str) -> list[int]:
    """All rows in memory, then the predicate: what reading was before anything was pushed down."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    found = connection.from_arrow(pa.concat_tables(days.values())).filter(where).to_arrow_table()
    return sorted(found["number"].to_pylist())


def numbers(table: pa.Table) -> list[int]:
    return sorted(table["number"].to_pylist())


@pytest.mark.parametrize("where", PREDICATES)
def test_every_way_gives_the_rows_of_the_naive_one(settings: Settings, where: str) -> None:
    days = random_days(1)
    reading = anabranch.read(VIEW, where=where, settings=fill(settings, days))

    expected = naive(days, where)

    assert {name: numbers(way(reading)) for name, way in WAYS.items()} == dict.fromkeys(WAYS, expected)


@pytest.mark.parametrize("seed", range(3))
def test_random_predicates_find_what_python_finds(settings: Settings, seed: int) -> None:
    days, chance = random_days(seed), random.Random(seed)
    rows = [row for table in days.values() for row in table.to_pylist()]
    fill(settings, days)

    for _ in range(15):
        question = random_tables.random_question(chance)
        if question.column == "bytes" and question.sign != "null":
            continue
        reading = anabranch.read(VIEW, where=random_tables.sql(question), settings=settings)
        for name in ("arrow", "lazy polars", "duckdb"):
            assert numbers(WAYS[name](reading)) == question.answer(rows), (name, question)


def flights(day: date, first: int, **more: Any) -> pa.Table:
    rows = 4
    columns = {"number": range(first, first + rows), "origin": [f"{day}"] * rows, **more}
    return pa.table({**columns, PARTITION_DATE: [day] * rows, CHANGED: pa.array([3] * rows, pa.int64())})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "where", ["number = 21", "origin = '2013-01-03' and length(origin) > 1", "number between 20 and 23"]
)
def test_files_that_cannot_match_are_never_opened(settings: Settings, way: str, where: str) -> None:
    fill(settings, {day: flights(day, 10 * n) for n, day in enumerate(DAYS)})
    for file in Path(VersionRef(settings, VIEW, 1).speed_table).rglob("*.parquet"):
        if str(DAYS[2]) not in str(file):
            file.write_bytes(b"never read")

    found = WAYS[way](anabranch.read(VIEW, where=where, settings=settings))

    assert set(found["origin"].to_pylist()) == {str(DAYS[2])}


def test_what_is_asked_of_a_lazy_frame_later_is_pushed_down_to_the_files(settings: Settings) -> None:
    fill(settings, {day: flights(day, 10 * n) for n, day in enumerate(DAYS)})
    frame = anabranch.read(VIEW, where="number >= 10", settings=settings).to_polars(lazy=True)

    asked = frame.filter(pl.col("origin") == str(DAYS[2])).select("number")

    plan = asked.explain()
    assert "Parquet SCAN" in plan
    assert "origin" in plan.split("SELECTION")[1]
    assert asked.collect()["number"].to_list() == [20, 21, 22, 23]


def test_a_predicate_that_polars_reads_differently_is_left_to_duckdb(settings: Settings) -> None:
    fill(settings, {day: flights(day, 10 * n) for n, day in enumerate(DAYS)})
    frame = anabranch.read(VIEW, where="origin like '%-03'", settings=settings, columns=["number"]).to_polars(lazy=True)

    assert "PYTHON SCAN" in frame.explain()
    assert frame.filter(pl.col("number") > 20).head(2).collect()["number"].to_list() == [21, 22]
    assert frame.select(pl.len()).collect().item() == 4


@pytest.mark.parametrize("way", ["arrow", "lazy polars", "duckdb"])
def test_a_nan_is_greater_than_all_numbers_wherever_it_is_read(settings: Settings, way: str) -> None:
    fill(settings, {DAYS[0]: flights(DAYS[0], 0, real=[1.0, math.nan, None, 0.5])})

    reading = anabranch.read(VIEW, where="real > 5", settings=settings)

    assert numbers(WAYS[way](reading)) == [1]


@pytest.mark.parametrize("way", ["arrow", "lazy polars", "duckdb"])
@pytest.mark.parametrize(
    "where",
    ["real > 5", "moment = timestamp '2013-01-01 10:00:00.123956'", "moment > timestamp '2013-01-01 10:00:00.1239'"],
)
def test_rows_that_delta_rs_has_merged_are_found(settings: Settings, way: str, where: str) -> None:
    # Its bounds are cut down to milliseconds, and know nothing of a NaN; nor does the footer that it writes.
    early, late = random_tables.MOMENTS[0].replace(tzinfo=UTC), random_tables.MOMENTS[1].replace(tzinfo=UTC)
    rows = flights(DAYS[0], 0, real=[1.0, 1.0, 2.0, 2.0], moment=pa.array([early] * 4, pa.timestamp("us", "UTC")))
    fill(settings, {DAYS[0]: rows})
    merged = flights(
        DAYS[0], 0, real=[1.0, 1.0, 2.0, math.nan], moment=pa.array([early] * 3 + [late], rows["moment"].type)
    )
    table = commits.open_table(VersionRef(settings, VIEW, 1).speed_table)
    assert table is not None
    commits.upsert(
        table, merged, ["number"], CommitMetadata("view/delays/v1/speed", "c:4", small_halves.cut_at(4)), PARTITION_DATE
    )

    assert numbers(WAYS[way](anabranch.read(VIEW, where=where, settings=settings))) == [3]


@pytest.mark.parametrize("way", WAYS)
def test_only_the_columns_that_are_asked_for_come_in_their_order(settings: Settings, way: str) -> None:
    fill(settings, {DAYS[0]: flights(DAYS[0], 0)})

    reading = anabranch.read(VIEW, where="number > 1", settings=settings, columns=["origin"])

    assert WAYS[way](reading).column_names == ["origin"] == reading.schema.names
    assert WAYS[way](reading).num_rows == 2


@pytest.mark.parametrize("columns", [["gate"], [CHANGED], [], ["number", "number"]])
def test_an_unknown_column_is_refused_with_those_that_there_are(settings: Settings, columns: list[str]) -> None:
    fill(settings, {DAYS[0]: flights(DAYS[0], 0)})

    with pytest.raises(BadInput, match="number, origin") as error:
        anabranch.read(VIEW, settings=settings, columns=columns)

    assert error.value.code == "COLUMN_UNKNOWN"


def test_no_row_is_an_empty_table_in_every_way(settings: Settings) -> None:
    fill(settings, {DAYS[0]: flights(DAYS[0], 0)})

    for where in ("number > 99", "length(origin) > 99"):
        reading = anabranch.read(VIEW, where=where, settings=settings)
        assert {way(reading).num_rows for way in WAYS.values()} == {0}
        assert reading.to_arrow().schema == reading.schema


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('/etc/hostname')",
        "select * from '{file}'",
        "copy (select 1) to '{file}' (format parquet, use_tmp_file false)",
        "copy (select 1) to '{folder}/new.parquet'",
        "attach '{folder}/new.db'",
        "install httpfs",
        "select * from read_csv('http://127.0.0.1:9/x')",
        "set enable_external_access = true",
        "set allowed_directories = ['/']",
    ],
)
def test_sql_over_a_relation_reaches_no_file_not_even_those_that_it_reads(settings: Settings, query: str) -> None:
    fill(settings, {DAYS[0]: flights(DAYS[0], 0)})
    relation = anabranch.read(VIEW, settings=settings).to_duckdb()
    file = next(Path(VersionRef(settings, VIEW, 1).speed_table).rglob("*.parquet"))
    before = file.read_bytes()

    with pytest.raises(duckdb.Error):
        rows_of(relation, query.format(file=file, folder=settings.home))

    assert file.read_bytes() == before
    assert not list(settings.home.glob("new*"))


def test_a_predicate_is_read_in_utc_wherever_the_machine_is(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_halves.start_speed(settings, 3)
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    _duckdb_pool._scanner.cache_clear()
    try:
        where = "window_start < '2013-01-01 01:00' and hour(window_start) = 0"
        reading = anabranch.read(VIEW, where=where, settings=settings, columns=["window_start"])
        found = {name: way(reading)["window_start"].cast(pa.int64()).to_pylist() for name, way in WAYS.items()}
    finally:
        monkeypatch.undo()
        time.tzset()
        _duckdb_pool._scanner.cache_clear()

    midnight = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert found == {way: [midnight, midnight + 1_800_000_000] for way in WAYS}


def test_the_last_millisecond_of_the_year_9999_is_found(settings: Settings) -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    moments = {day: pa.array([last if day == DAYS[1] else None] * 4, pa.timestamp("us", "UTC")) for day in DAYS[:2]}
    fill(settings, {day: flights(day, 10 * n, moment=moments[day]) for n, day in enumerate(DAYS[:2])})
    for where in ("moment >= '2013-01-01'", "moment = '9999-12-31 23:59:59.999'"):
        assert numbers(anabranch.read(VIEW, where=where, settings=settings).to_arrow()) == [10, 11, 12, 13]
    assert anabranch.read(VIEW, where="moment < '2013-01-01'", settings=settings)._scan().files == []


EAGER = ["arrow", "batches", "polars", "pandas"]


def failure(way: str, reading: anabranch.Reading) -> AnabranchError:
    with pytest.raises(AnabranchError) as error:
        WAYS[way](reading)
    return error.value


@pytest.mark.parametrize("way", EAGER)
def test_a_file_that_is_gone_or_torn_is_our_error_and_counted(settings: Settings, way: str) -> None:
    ref = VersionRef(settings, VIEW, 1)
    fill(settings, {day: flights(day, 10 * n) for n, day in enumerate(DAYS)})
    set_route(settings, VIEW, {1: 100}, by="test", why="test")
    reading = anabranch.read(VIEW, where="number >= 10", settings=settings)
    file = sorted(Path(ref.speed_table).rglob("*.parquet"))[2]

    file.write_bytes(file.read_bytes()[:-20] + b"\0" * 20)
    torn = failure(way, reading)
    file.unlink()
    gone = failure(way, reading)

    assert (type(torn), torn.code) == (BrokenState, "FILE_UNREADABLE")
    assert (type(gone), gone.code) == (TryAgain, "READING_EXPIRED")
    counted = [(f.code, f.engine, f.route) for f in failed_reads(ref)]
    engine = "arrow" if way == "batches" else way
    assert counted == [("FILE_UNREADABLE", engine, 1), ("READING_EXPIRED", engine, 1)]


def test_a_value_that_a_predicate_cannot_convert_is_the_predicates_fault(settings: Settings) -> None:
    fill(settings, {DAYS[0]: flights(DAYS[0], 0, real=[1.0, math.nan, None, 1e300])})

    error = failure("arrow", anabranch.read(VIEW, where="cast(real as int) = 1", settings=settings))

    assert (type(error), error.code) == (BadInput, "WHERE_REFUSED")


def test_what_engines_would_convert_in_different_ways_is_refused_before_anything_is_read(settings: Settings) -> None:
    fill(settings, {DAYS[0]: flights(DAYS[0], 0)})

    with pytest.raises(BadInput, match="a cast of a text to integer is not the same") as error:
        anabranch.read(VIEW, where="cast(origin as int) = 1", settings=settings)

    assert error.value.code == "WHERE_REFUSED"
