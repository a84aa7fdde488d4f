"""Which files are merged: few are left, in the order of the epochs, and their folders say which epochs they hold."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.ingest.landing.table.schema import epoch_build, epochs_build, epochs_of_file
from anabranch.lake.file_commits import DataFile
from anabranch.operate.maintenance._file_merging import Group, groups_of, merge
from anabranch.operate.maintenance._report import Policy

pytestmark = pytest.mark.unit
POLICY = Policy(few=4, at_once=100, landing_bytes=1_000, half_bytes=1_000)


def a_file(size: int, epoch: int = 1, day: str | None = "2013-01-01") -> DataFile:
    return DataFile(f"builds/{epoch_build(epoch)}/event_date={day}/part-00000.parquet", size, {"event_date": day})


@pytest.mark.parametrize("seed", range(20))
def test_few_small_files_are_left_whatever_there_was(seed: int) -> None:
    chance = random.Random(seed)
    files = [a_file(chance.choice([1, 40, 300, 499, 500, 2_000]), n + 1) for n in range(chance.randint(1, 400))]
    merged = groups_of("landing", files, POLICY)
    gone = {file.path for group in merged for file in group.files}
    assert len(gone) == sum(len(group.files) for group in merged), "a file is in two groups"
    small = [file for file in files if file.path not in gone and file.size < 500]
    made = [group.size for group in merged]
    assert len(small) < POLICY.few
    assert sum(size < 500 for size in made) <= 1 + len(files) // POLICY.at_once
    assert all(len(group.files) <= POLICY.at_once for group in merged)


def test_a_second_run_finds_nothing_more_to_do() -> None:
    files = [a_file(30, n) for n in range(1, 90)]
    merged = groups_of("landing", files, POLICY)
    left = [DataFile(f"builds/{g.build}/event_date=2013-01-01/p.parquet", g.size, {}) for g in merged]
    assert groups_of("landing", left, POLICY) == []


def test_partitions_stay_apart_and_the_one_without_a_day_too() -> None:
    files = [a_file(10, n, day) for day in ("2013-01-01", "2013-01-02", None) for n in range(1, 6)]
    merged = groups_of("landing", files, POLICY)
    assert [{f.partition["event_date"] for f in g.files} for g in merged] == [{"2013-01-01"}, {"2013-01-02"}, {None}]


def test_a_folder_says_which_epochs_it_holds() -> None:
    (group,) = groups_of("landing", [a_file(10, epoch) for epoch in (7, 12, 9, 10)], POLICY)
    assert [epochs_of_file(file.path) for file in group.files] == [(7, 7), (9, 9), (10, 10), (12, 12)]
    assert epochs_of_file(f"builds/{group.build}/event_date=2013-01-01/part-00000.parquet") == (7, 12)
    more = [
        DataFile(f"builds/{epochs_build(13, 90)}/event_date=2013-01-01/p.parquet", 10, {"event_date": "2013-01-01"})
    ]
    (again,) = groups_of("landing", [*group.files, *more], POLICY)
    assert again.build.startswith("epochs-7-90-")


def test_a_file_that_says_nothing_makes_one_that_says_nothing() -> None:
    stranger = DataFile("event_date=2013-01-01/part-00000-x.snappy.parquet", 10, {"event_date": "2013-01-01"})
    (group,) = groups_of("landing", [stranger, *(a_file(10, n) for n in (1, 2, 3))], POLICY)
    assert epochs_of_file(f"builds/{group.build}/event_date=2013-01-01/part-00000.parquet") is None


def test_columns_and_nested_fields_that_came_later_are_null(tmp_path: Path) -> None:
    old = pa.table({"a": [1], "s": pa.array([{"x": 1}], pa.struct([("x", pa.int64())]))})
    at = pa.array([datetime(2013, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    young = pa.table({"s": pa.array([{"x": 2, "y": "b"}], pa.struct([("x", pa.int64()), ("y", pa.string())])), "t": at})
    for name, data in (("old", old), ("young", young)):
        pq.write_table(data, tmp_path / f"{name}.parquet")
    schema = pa.schema(
        [
            ("a", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
            ("t", pa.timestamp("us", "UTC")), ("d", pa.date32()),
        ]
    )  # fmt: skip
    files = tuple(DataFile(f"{name}.parquet", 1, {"d": str(date(2013, 1, 1))}) for name in ("old", "young"))
    made = merge(str(tmp_path), schema, Group(files, "merged-1"))
    assert (made.rows, dict(made.partition)) == (2, {"d": "2013-01-01"})
    assert pq.ParquetFile(tmp_path / made.path).read().to_pylist() == [
        {"a": 1, "s": {"x": 1, "y": None}, "t": None},
        {"a": None, "s": {"x": 2, "y": "b"}, "t": at[0].as_py()},
    ]
