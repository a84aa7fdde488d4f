"""What landing knows of earlier ids, whatever happened to the index or to the table since."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing import id_hashes
from anabranch.ingest.landing.duplicates import IDENTITY, Duplicates
from anabranch.ingest.landing.state import writer_of
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import landing_index
from deltalake import DeltaTable
from support.landed_sample import FLIGHTS, Event, Landing

pytestmark = pytest.mark.unit
NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)
HORIZON = FLIGHTS.duplicate_horizon
SCHEMA = landing_schema(FLIGHTS)
Asked = str | tuple[str, datetime]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path)


@pytest.fixture
def landing(settings: Settings) -> Landing:
    return Landing(settings)


def departed(name: str, time: datetime = NOON, **more: Any) -> Event:
    return Event("flight.departed", time, name, {"origin": "JFK"}, **more)


def batch(*asked: Asked, decision: str = "valid") -> pa.Table:
    """A micro-batch of these ids, in the log's order; the second of a pair is when it was appended."""
    pairs = [ask if isinstance(ask, tuple) else (ask, NOON) for ask in asked]
    rows = [
        {"partition": 0, "offset": n, "append_time": at, "decision": decision, "source": "test", "event_id": name}
        for n, (name, at) in enumerate(pairs)
    ]
    return pa.Table.from_pylist(rows, pa.schema([SCHEMA.field(name) for name in IDENTITY]))


def repeated(landing: Landing, *asked: Asked) -> list[bool]:
    """What a landing that starts now says of a micro-batch."""
    landing.table.update_incremental()
    return [bool(each) for each in opened(landing).find_duplicates(batch(*asked))]


def opened(landing: Landing) -> Duplicates:
    duplicates = Duplicates(landing.settings, FLIGHTS, landing.table)
    duplicates.catch_up()
    return duplicates


def test_of_copies_in_a_micro_batch_the_first_one_appended_is_the_event(landing: Landing) -> None:
    later = NOON + timedelta(seconds=1)
    assert repeated(landing, ("a", later), "a", "b", "a", "b", "c") == [True, False, False, True, True, False]


def test_an_index_that_can_not_be_written_fails_no_commit_and_is_caught_up(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the epoch is in the table by then."""
    duplicates = opened(landing)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for part in ("add", "save"):
        name = f"e-{part}"
        assert not duplicates.find_duplicates(batch(name)).any()
        landing.land([departed(name)])
        landing.table.update_incremental()
        with monkeypatch.context() as patch:
            patch.setattr(duplicates._index, part, full)
            duplicates.record_committed()
        duplicates.catch_up()
        assert duplicates.find_duplicates(batch(name, "new")).tolist() == [True, False]
        assert repeated(landing, name, "new") == [True, False]


def test_two_texts_are_one_id_only_as_a_pair(landing: Landing) -> None:
    landing.land([departed("bc", source="a"), departed("c", source="ab")])
    rows = batch("c", "bc", "c").set_column(4, "source", pa.array(["a", "ab", "ab"]))
    assert opened(landing).find_duplicates(rows).tolist() == [False, False, True]


def test_few_ids_are_hashed_as_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["", "a", "ä\U0001f600", "x" * 300, "\x00", "1:b"]
    rows = pa.table({"source": [a for a in texts for _ in texts], "event_id": texts * len(texts)})
    few = id_hashes.hashes(rows)
    monkeypatch.setattr(id_hashes, "FEW", 0)
    assert few.tolist() == id_hashes.hashes(rows).tolist()
    assert len(set(few[0].tolist())) == len(texts) ** 2


def test_a_broken_copy_stands_for_itself(landing: Landing) -> None:
    landing.land([departed("a")])
    duplicates = opened(landing)
    assert not duplicates.find_duplicates(batch("a", "b", decision="quarantined")).any()
    duplicates.record_committed()
    assert duplicates.find_duplicates(batch("a", "b")).tolist() == [True, False]


def test_an_epoch_that_landed_is_known_without_reading_it_again(landing: Landing) -> None:
    duplicates = opened(landing)
    assert not duplicates.find_duplicates(batch("a", "b")).any()
    landing.land([departed("a"), departed("b")])
    landing.table.update_incremental()
    duplicates.record_committed()
    shutil.rmtree(Path(landing.uri) / "builds")
    assert repeated(landing, "a", "b", "c") == [True, True, False]


def test_an_epoch_before_a_crash_is_read_from_the_table(landing: Landing) -> None:
    landing.land([departed("a")])
    opened(landing)
    landing.land([departed("b")], [departed("c")])
    assert repeated(landing, "a", "b", "c", "d") == [True, True, True, False]


def test_a_restored_table_that_has_come_to_the_same_version_is_read_anew(landing: Landing) -> None:
    landing.land([departed("a")])
    copy = landing.settings.home / "copy"
    shutil.copytree(landing.uri, copy)
    landing.land([departed("b")])
    opened(landing)
    shutil.rmtree(landing.uri)
    shutil.copytree(copy, landing.uri)
    landing.table = DeltaTable(landing.uri)
    append(landing.table, [], CommitMetadata(writer_of(FLIGHTS), "other", Cut()))
    assert repeated(landing, "a", "b") == [True, False]


def test_a_micro_batch_that_failed_is_not_known(landing: Landing) -> None:
    duplicates = opened(landing)
    assert not duplicates.find_duplicates(batch("a")).any()
    assert not duplicates.find_duplicates(batch("b")).any()
    landing.land([departed("b")])
    duplicates.record_committed()
    assert duplicates.find_duplicates(batch("a", "b")).tolist() == [False, True]


@pytest.mark.parametrize("what", ["lost", "of another table", "rows changed by another writer", "older log gone"])
def test_the_index_is_made_anew_from_the_table(landing: Landing, settings: Settings, what: str) -> None:
    landing.land([departed("a"), departed("b"), departed("c", NOON - timedelta(days=3))])
    opened(landing)
    expected = [True, True, True, False]
    match what:
        case "lost":
            shutil.rmtree(landing_index(settings, "flights"))
        case "of another table":
            shutil.rmtree(landing.uri)
            landing = Landing(settings)
            landing.land([departed("b")])
            expected = [False, True, False, False]
        case "rows changed by another writer":
            landing.table.delete("event_id = 'a'")
            expected = [False, True, True, False]
        case "older log gone":
            landing.land([departed("d")])
            for version in (0, 1):
                (Path(landing.uri) / "_delta_log" / f"{version:020d}.json").rename(Path(settings.home) / f"{version}")
            landing.table.create_checkpoint()
            expected = [True, True, True, True]
    assert repeated(landing, "a", "b", "c", "d") == expected


def test_files_that_were_moved_change_nothing(landing: Landing) -> None:
    landing.land([departed("a")], [departed("b")])
    opened(landing)
    landing.table.optimize.compact()
    assert repeated(landing, "a", "b", "c") == [True, True, False]
    landing.land([departed("c")])
    landing.table.optimize.compact()
    landing.table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert repeated(landing, "a", "b", "c", "d") == [True, True, True, False]


def test_ids_are_known_for_the_whole_horizon_and_forgotten_by_days(landing: Landing, settings: Settings) -> None:
    def land_at(days: float) -> None:
        landing.land([departed(f"{days}", NOON + timedelta(days=days))])

    for days in (0, 1):
        land_at(days)
    at_the_end = NOON + HORIZON
    assert repeated(landing, ("0", at_the_end), ("1", at_the_end)) == [True, True]
    days_later = at_the_end + timedelta(days=1)
    assert repeated(landing, ("0", days_later), ("1", days_later)) == [False, True]
    # One that is read late holds on to what it may repeat.
    opened(landing)
    assert repeated(landing, ("1", days_later), ("0", at_the_end)) == [True, True]
    land_at(HORIZON.days + 1)
    shutil.rmtree(landing_index(settings, "flights"))
    assert repeated(landing, ("0", days_later), ("1", days_later)) == [False, True]


def test_a_partition_that_lags_holds_on_to_what_it_may_repeat_while_its_records_are_no_events(landing: Landing) -> None:
    """They are in quarantine, or tombstones; the copies come behind them."""
    landing.land([departed("0", NOON)])
    at_the_end, days_later = NOON + HORIZON, NOON + HORIZON + timedelta(days=1)
    duplicates = opened(landing)
    ahead, lagging = batch(("new", days_later)), batch(("broken", at_the_end), decision="quarantined")
    assert duplicates.find_duplicates(pa.concat_tables([ahead, lagging])).tolist() == [False, False]
    assert duplicates.find_duplicates(batch(("0", at_the_end))).tolist() == [True]


def test_a_record_of_the_first_year_ends_no_landing(landing: Landing) -> None:
    landing.land([departed("0", NOON)])
    first_year = batch(("broken", datetime(1, 1, 1, tzinfo=UTC)), decision="quarantined")
    rows = pa.concat_tables([batch(("0", NOON + HORIZON)), first_year])
    assert opened(landing).find_duplicates(rows).tolist() == [True, False]


def test_a_clock_that_erred_once_costs_nothing(landing: Landing) -> None:
    landing.land([departed("a", datetime.now(UTC))])
    duplicates = opened(landing)
    assert duplicates.find_duplicates(batch(("b", datetime(2100, 1, 1, tzinfo=UTC)))).tolist() == [False]
    assert duplicates.find_duplicates(batch(("a", datetime.now(UTC)))).tolist() == [True]
    landing.land([departed("far", datetime(2100, 1, 1, tzinfo=UTC))])
    shutil.rmtree(landing_index(landing.settings, "flights"))
    assert repeated(landing, ("a", datetime.now(UTC))) == [True]


def test_a_released_record_is_known_however_old_it_is(landing: Landing, settings: Settings) -> None:
    landing.land([departed("a", NOON)])
    opened(landing)
    rows = landing.decisions.decide([departed("old", NOON - 3 * HORIZON)])
    staged = stage_arrow(
        pa.Table.from_pylist([{**row, "released_from": 1} for row in rows], SCHEMA), landing.uri, "b", "event_date"
    )
    append(landing.table, staged, CommitMetadata("landing/flights", "release:1", landing.cut))
    assert repeated(landing, "old", "a") == [True, True]
    shutil.rmtree(landing_index(settings, "flights"))
    assert repeated(landing, "old", "a") == [True, True]
