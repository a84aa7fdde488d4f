"""A reading: the same rows for every engine, one half a partition, pinned, with what it covers."""

from __future__ import annotations

import json
import shutil
import time
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import anabranch
import polars as pl
import pyarrow as pa
import pytest
from anabranch.core.errors import BadInput, BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Commit, CommitMetadata, commit_history, commits
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.serve import _batch_at_cut
from anabranch.serve.read_plan import _seen
from support import small_halves
from support.relation_queries import rows_of
from support.small_halves import DAYS, KEYS, VIEW

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def _written_by(reading: anabranch.Reading) -> dict[str, set[int]]:
    rows = reading.to_arrow().to_pylist()
    return {str(day): {r["written_by"] for r in rows if r["window_start"].date() == day} - {None} for day in DAYS}


def test_each_partition_comes_from_one_half_and_platform_columns_are_hidden(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    small_halves.publish(settings, {DAYS[0]: 3, DAYS[1]: 2}, DAYS[:2])

    reading = anabranch.read(VIEW, settings=settings)

    assert list(reading.halves.values()) == ["batch", "speed", "speed", "speed", "speed"]
    assert reading.to_arrow().column_names == ["window_start", "origin", "written_by", "mean_delay"]
    assert reading.to_arrow().num_rows == KEYS * len(DAYS)
    complete = anabranch.read(VIEW, settings=settings, prefer="complete")
    assert _written_by(complete)[str(DAYS[1])] == {2}
    assert (reading.version, str(reading.cut), reading.certificates) == (1, "flights@3", {})


def test_every_engine_gets_the_same_rows_and_types(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    reading = anabranch.read(VIEW, settings=settings, where="origin = 'O''1' or origin is null")

    arrow = reading.to_arrow()

    assert arrow.num_rows == (KEYS // 3) * len(DAYS)
    assert arrow.schema == reading.schema
    assert reading.to_duckdb().to_arrow_table().cast(arrow.schema).equals(arrow)
    assert pa.Table.from_pandas(reading.to_pandas(), schema=arrow.schema, preserve_index=False).equals(arrow)
    assert reading.to_polars().to_arrow().cast(arrow.schema).equals(arrow)
    kind = reading.to_polars().schema["window_start"]
    assert isinstance(kind, pl.Datetime)
    assert kind.time_zone == "UTC"


def test_a_relation_for_people_reaches_no_files(settings: Settings) -> None:
    import duckdb

    small_halves.start_speed(settings, 3)
    relation = anabranch.read(VIEW, settings=settings).to_duckdb()

    with pytest.raises(duckdb.Error):
        rows_of(relation, "select * from read_text('/etc/hostname')")


def test_a_reading_stays_as_it_was_pinned(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    reading = anabranch.read(VIEW, settings=settings)
    small_halves.merge_speed(settings, 4, DAYS[:1])

    assert _written_by(reading)[str(DAYS[0])] == {3}
    assert _written_by(anabranch.read(VIEW, settings=settings))[str(DAYS[0])] == {4}


def test_published_but_empty_is_served_empty_and_days_can_be_chosen(settings: Settings) -> None:
    small_halves.start_speed(settings, 3, DAYS[:1])
    small_halves.publish(settings, {DAYS[0]: 3, DAYS[2]: 3}, DAYS[:1])

    reading = anabranch.read(VIEW, settings=settings, partitions=[DAYS[2]])

    assert dict(reading.halves) == {DAYS[2]: "batch"}
    assert reading.to_arrow().num_rows == 0


def test_a_day_that_was_published_ahead_of_speed_is_served_as_it_was_until_speed_is_there(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    small_halves.publish(settings, {DAYS[0]: 2}, DAYS[:1])
    small_halves.publish(settings, {DAYS[0]: 3}, DAYS[:1])
    small_halves.publish(settings, {DAYS[0]: 5, DAYS[1]: 5}, DAYS[:2])

    before = anabranch.read(VIEW, settings=settings)
    complete = anabranch.read(VIEW, settings=settings, prefer="complete")
    small_halves.merge_speed(settings, 5, DAYS[2:3])
    after = anabranch.read(VIEW, settings=settings)

    assert (str(before.cut), before.published) == ("flights@3", {DAYS[0]: small_halves.cut_at(3)})
    assert [_written_by(before)[str(day)] for day in DAYS[:2]] == [{3}, {3}]
    assert complete.published == after.published == dict.fromkeys(DAYS[:2], small_halves.cut_at(5))
    assert _written_by(complete)[str(DAYS[1])] == _written_by(after)[str(DAYS[1])] == {5}


def test_a_batch_half_whose_earlier_files_are_gone_leaves_its_days_to_speed(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    small_halves.publish(settings, {DAYS[0]: 3}, DAYS[:1])
    (gone,) = (file for file in anabranch.read(VIEW, settings=settings)._plan.files() if "/batch/" in file)
    small_halves.publish(settings, {DAYS[0]: 5}, DAYS[:1])
    Path(gone).unlink()

    reading = anabranch.read(VIEW, settings=settings)

    assert set(reading.halves.values()) == {"speed"}
    assert reading.to_arrow().num_rows == KEYS * len(DAYS)


def _batch_files(settings: Settings, day: date, prefer: str = "default") -> list[Path]:
    plan = anabranch.read(VIEW, settings=settings, prefer=prefer, partitions=[day])._plan
    return [Path(file) for file in plan.files() if "/batch/" in file]


def test_only_the_days_that_were_published_ahead_of_speed_are_read_as_before(settings: Settings) -> None:
    """Here the speed half has stopped, and has one day only; the others are loaded history."""
    small_halves.start_speed(settings, 3, DAYS[:1])
    small_halves.publish(settings, dict.fromkeys(DAYS, 3), DAYS)
    (gone,) = _batch_files(settings, DAYS[0])
    small_halves.publish(settings, dict.fromkeys(DAYS, 3) | {DAYS[0]: 5}, DAYS[:1])
    before = anabranch.read(VIEW, settings=settings, where="written_by < 9")
    assert before._plan.earlier.keys() == {DAYS[0]}
    assert before.to_arrow().num_rows == (KEYS - 1) * len(DAYS)
    gone.unlink()

    reading = anabranch.read(VIEW, settings=settings)

    assert list(reading.halves.values()) == ["speed", "batch", "batch", "batch", "batch"]
    assert reading.published == dict.fromkeys(DAYS[1:], small_halves.cut_at(3))
    assert reading.to_arrow().num_rows == KEYS * len(DAYS)
    assert set(_written_by(reading)[str(DAYS[0])]) == {3}


def test_a_repair_within_the_cut_is_read_whatever_is_published_ahead_of_speed(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    small_halves.publish(settings, {DAYS[0]: 1, DAYS[1]: 1}, DAYS[:2])
    small_halves.publish(settings, {DAYS[0]: 5, DAYS[1]: 1}, DAYS[:1])
    small_halves.publish(settings, {DAYS[0]: 5, DAYS[1]: 3}, DAYS[1:2])
    small_halves.publish(settings, {DAYS[0]: 6, DAYS[1]: 3}, DAYS[:1])
    small_halves.publish(settings, {DAYS[0]: 6, DAYS[1]: 3, DAYS[2]: 6}, DAYS[2:3])

    reading = anabranch.read(VIEW, settings=settings)

    assert reading.published == {DAYS[1]: small_halves.cut_at(3)}
    assert reading._plan.earlier == {DAYS[0]: 1}
    assert list(reading.halves.values()) == ["speed", "batch", "speed", "speed", "speed"]


def test_each_day_has_the_newest_version_within_the_cut_of_its_own(settings: Settings) -> None:
    """No version of the table has both days within the cut."""
    small_halves.start_speed(settings, 3, DAYS[4:])
    small_halves.publish(settings, {DAYS[0]: 1}, DAYS[:1])
    small_halves.publish(settings, {DAYS[0]: 5}, DAYS[:1])
    small_halves.publish(settings, {DAYS[0]: 5, DAYS[1]: 2}, DAYS[1:2])
    small_halves.publish(settings, {DAYS[0]: 5, DAYS[1]: 6, DAYS[2]: 3}, DAYS[1:3])

    reading = anabranch.read(VIEW, settings=settings, where="origin = 'O''1' and written_by < 4")

    assert {day: cut.epoch("flights") for day, cut in reading.published.items()} == dict(
        zip(DAYS[:3], (1, 2, 3), strict=True)
    )
    found = {day: written.pop() for day, written in _written_by(reading).items() if written}
    assert found == dict(zip(map(str, [*DAYS[:3], DAYS[4]]), (1, 2, 3, 3), strict=True))


def test_a_day_that_neither_half_has_any_more_is_an_error_and_the_others_can_be_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_halves.start_speed(settings, 3, DAYS[:1])
    small_halves.publish(settings, dict.fromkeys(DAYS, 3), DAYS)
    (gone,) = _batch_files(settings, DAYS[4])
    small_halves.publish(settings, dict.fromkeys(DAYS, 3) | {DAYS[4]: 5}, DAYS[4:])
    gone.unlink()

    with pytest.raises(BrokenState) as lost:
        anabranch.read(VIEW, settings=settings)

    assert (lost.value.code, lost.value.fields["partitions"]) == ("DAYS_EXPIRED", [str(DAYS[4])])
    with monkeypatch.context() as short:  # commits of before are no longer kept, so nobody knows what was published
        short.setattr(_batch_at_cut, "_before", OrderedDict())
        short.setattr(_batch_at_cut, "commit_history", lambda uri, newest: commit_history(uri, limit=1, newest=newest))
        with pytest.raises(BrokenState, match="DAYS_EXPIRED"):
            anabranch.read(VIEW, settings=settings)
    others = anabranch.read(VIEW, settings=settings, partitions=DAYS[:4])
    assert others.to_arrow().num_rows == KEYS * 4
    complete = anabranch.read(VIEW, settings=settings, prefer="complete")
    assert _written_by(complete)[str(DAYS[4])] == {5}
    small_halves.merge_speed(settings, 5, DAYS[:1])
    assert anabranch.read(VIEW, settings=settings).to_arrow().num_rows == KEYS * len(DAYS)


def test_the_log_is_read_only_where_a_day_is_ahead_and_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def history(uri: str, newest: int) -> Iterator[Commit]:
        asked.append(uri)
        return commit_history(uri, newest=newest)

    monkeypatch.setattr(_batch_at_cut, "commit_history", history)
    small_halves.start_speed(settings, 3)
    for epoch in (1, 2, 3):
        small_halves.publish(settings, dict.fromkeys(DAYS, epoch), DAYS)
        anabranch.read(VIEW, settings=settings)
    assert asked == []
    small_halves.publish(settings, dict.fromkeys(DAYS, 5), DAYS)
    assert [set(anabranch.read(VIEW, settings=settings).published.values()) for _ in range(3)] == [
        {small_halves.cut_at(3)}
    ] * 3
    assert len(asked) == 1


def test_freshness_counts_the_epochs_that_are_landed_and_not_covered(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    uri = landing_table(settings, "flights")
    commits.create(
        uri, pa.schema([("x", pa.int64())]), [], CommitMetadata("landing/flights", "5", small_halves.cut_at(5))
    )

    freshness = anabranch.read(VIEW, settings=settings).freshness

    assert freshness.behind == 2
    assert 0 <= freshness.age_seconds < 60


def test_a_new_version_moves_nobody_by_itself(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    uri = VersionRef(settings, VIEW, 2).speed_table
    commits.create(
        uri, small_halves.SPEED_SCHEMA, ["partition_date"], CommitMetadata("view/delays/v2/speed", "create", Cut())
    )

    assert anabranch.read(VIEW, settings=settings).version == 1
    with pytest.raises(TryAgain) as early:
        anabranch.read(VIEW, version=2, settings=settings)
    small_halves.start_speed(settings, 4, version=2)
    assert anabranch.read(VIEW, settings=settings).version == 1
    assert anabranch.read(VIEW, version=2, settings=settings).version == 2
    assert early.value.code == "VIEW_NOT_READY"


def test_an_unknown_view_is_an_error_that_lists_what_there_is(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)

    with pytest.raises(BadInput, match="delays v1") as refused:
        anabranch.read("departures", settings=settings)

    assert refused.value.code == "VIEW_UNKNOWN"


@pytest.mark.parametrize("name", ["../landing", "a/b", "", "x" * 99, "delays; drop", "Delays", "a\n"])
def test_a_hostile_name_is_refused(settings: Settings, name: str) -> None:
    with pytest.raises(BadInput) as refused:
        anabranch.read(name, settings=settings)

    assert refused.value.code == "NAME_UNSAFE"


def test_a_cut_older_than_one_seen_is_never_returned(settings: Settings, tmp_path: Path) -> None:
    small_halves.start_speed(settings, 3)
    uri = VersionRef(settings, VIEW, 1).speed_table
    shutil.copytree(uri, tmp_path / "copy")
    small_halves.merge_speed(settings, 4, DAYS[:1])
    anabranch.read(VIEW, settings=settings)
    shutil.rmtree(uri)
    shutil.copytree(tmp_path / "copy", uri)
    for version in (2, 3):
        (Path(uri) / "_delta_log" / f"{version:020}.json").write_text(_old_commit())

    with pytest.raises(BrokenState) as refused:
        anabranch.read(VIEW, settings=settings)

    assert refused.value.code == "CUT_WENT_BACK"
    assert str(_seen[uri]) == "flights@4"


def _old_commit() -> str:
    note = CommitMetadata("view/delays/v1/speed", "old", small_halves.cut_at(3))
    info = {"timestamp": int(time.time() * 1000), "operation": "WRITE", "userMetadata": note.to_text()}
    return json.dumps({"commitInfo": info})


def test_a_file_that_is_gone_is_an_error_that_says_read_again(settings: Settings) -> None:
    small_halves.start_speed(settings, 3)
    reading = anabranch.read(VIEW, settings=settings)
    shutil.rmtree(Path(VersionRef(settings, VIEW, 1).speed_table) / "builds")

    with pytest.raises(TryAgain) as expired:
        reading.to_arrow()

    assert expired.value.code == "READING_EXPIRED"


def test_a_reader_that_lives_on_reads_the_table_that_was_made_anew(settings: Settings) -> None:
    """The new log may have the old one's inode, and come to more commits than the old one had."""
    small_halves.start_speed(settings, 4)
    for epoch in range(5, 9):
        small_halves.merge_speed(settings, epoch, DAYS[:1])
    assert anabranch.read(VIEW, settings=settings).cut == small_halves.cut_at(8)
    for made in (9, 20):
        shutil.rmtree(VersionRef(settings, VIEW, 1).speed_table)
        small_halves.start_speed(settings, made)
        for epoch in range(made + 1, made + 8):
            small_halves.merge_speed(settings, epoch, DAYS[:1])
        reading = anabranch.read(VIEW, settings=settings)
        assert reading.cut == small_halves.cut_at(made + 7)
        assert set(reading.to_arrow()["written_by"].to_pylist()) == {made, made + 7, None}


def test_days_of_a_view_without_days_are_refused(settings: Settings) -> None:
    """Engines would differ: no rows in one, all in another."""
    schema = pa.schema([field for field in small_halves.SPEED_SCHEMA if field.name != "partition_date"])
    small_halves.start_speed(settings, 3, schema=schema)
    with pytest.raises(BadInput) as refused:
        anabranch.read(VIEW, partitions=DAYS[:1], settings=settings)
    assert refused.value.code == "PARTITION_NEEDED"


@pytest.mark.parametrize("days", ["2013-01-01", ["2013-01-01"], [datetime(2013, 1, 1, tzinfo=UTC)], [DAYS[0], None]])
def test_what_is_no_day_is_refused(settings: Settings, days: Any) -> None:
    """It equals no partition: the reading would be empty."""
    small_halves.start_speed(settings, 3)
    with pytest.raises(BadInput) as refused:
        anabranch.read(VIEW, partitions=days, settings=settings)
    assert (refused.value.code, refused.value.fields["field"]) == ("DAY_UNREADABLE", "partitions")
    assert anabranch.read(VIEW, partitions=[date(2013, 1, 1)], settings=settings).to_arrow().num_rows == KEYS
