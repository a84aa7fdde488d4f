"""The doctor decodes landing anew: silent about what landing has made, by whichever version of a contract, and each
column that says other than the bytes is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from anabranch.contracts import Topic
from anabranch.core.settings import Settings
from anabranch.ingest.landing.decoding import decode, raw_frame
from anabranch.ingest.landing.duplicates import mark_duplicates
from anabranch.ingest.landing.epochs import SUMMARY_COLUMNS, arrow_with_epoch, summary
from anabranch.ingest.landing.state import open_landing, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, epoch_build
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor import Context, Finding, decode_check, examine
from anabranch.views import Registry
from deltalake import DeltaTable, write_deltalake
from support.evolved_contract import ONE, TWO, TYPE, Departure, declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Row = dict[str, Any]


def sent(at: str, *, version: int = 1, named: bool = True, **more: Any) -> bytes:
    """A departure; ``named``: it names its contract."""
    body = json.loads(Departure(at, 7, version=version).event().to_json())
    if not named:
        del body["dataschema"]
    return json.dumps(body | {"id": at} | more).encode()


def land(spark: SparkSession, settings: Settings, topic: Topic, *values: bytes | None, repeats: int = 0) -> None:
    """One epoch, by landing's own functions; the last ``repeats`` records are duplicates."""
    table = open_landing(settings, topic)
    before = read_state(table, topic)
    begin = before.offsets.get(0, 0)
    micros = int(datetime(2013, 1, 3, tzinfo=UTC).timestamp() * 1_000_000)
    records = [
        {"partition": 0, "offset": begin + n, "append_time": micros, "key": b"k", "value": value}
        for n, value in enumerate(values)
    ]
    found = arrow_with_epoch(decode(raw_frame(spark, topic, records), topic).toArrow(), before, topic)
    found = found.sort_by("offset")
    found = mark_duplicates(found, np.arange(found.num_rows) >= found.num_rows - repeats)
    uri = table.table_uri.removeprefix("file://")
    staged = stage_arrow(found, uri, epoch_build(before.epoch + 1), EVENT_DATE)
    cut = Cut({topic.name: Position(before.epoch + 1, {0: begin + len(values)})})
    append(
        table,
        staged,
        CommitMetadata(writer_of(topic), f"b{before.epoch}", cut, extra=summary(found.select(SUMMARY_COLUMNS), before)),
    )


@pytest.fixture(scope="module")
def platform(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Context:
    """Two epochs from before the second version, two since; valid ones, duplicates, and some in quarantine."""
    settings = Settings(home=tmp_path_factory.mktemp("decoded") / "home")
    device: Row = {"senttime": "2013-01-01T10:00:00Z", "receivedtime": "2013-01-01T09:00:00.5Z"}
    early = sent("01 06:00")
    land(spark, settings, ONE, early, sent("01 07:00", named=False), b"{}", b"\\xff", None, early, repeats=1)
    land(spark, settings, ONE, sent("01 08:00", **device), sent("01 09:00", version=2), sent("02 09:00", source=""))
    land(spark, settings, TWO, sent("02 06:00"), sent("02 07:00", version=2), sent("02 08:00", version=2, named=False))
    return Context(settings, declared(TWO), Registry([], declared(TWO)))


@pytest.fixture
def copied(platform: Context, tmp_path: Path) -> Context:
    shutil.copytree(platform.settings.home, tmp_path / "home")
    return replace(platform, settings=Settings(home=tmp_path / "home"))


def look(spark: SparkSession, platform: Context) -> tuple[Finding, ...]:
    return examine(platform, [decode_check(spark)], pause=0).findings


def changed(platform: Context, offset: int, change: Callable[[Row], Row]) -> None:
    """One record's row is another one, without a word about it."""
    uri = landing_table(platform.settings, TWO.name)
    table = DeltaTable(uri).to_pyarrow_table()
    rows = [row | change(row) if row["offset"] == offset else row for row in table.to_pylist()]
    write_deltalake(uri, pa.Table.from_pylist(rows, table.schema), mode="overwrite", partition_by=[EVENT_DATE])


def test_what_landing_made_is_left_in_peace(spark: SparkSession, platform: Context) -> None:
    decisions = DeltaTable(landing_table(platform.settings, TWO.name)).to_pyarrow_table()["decision"].to_pylist()
    assert {d: decisions.count(d) for d in set(decisions)} == {
        "valid": 6,
        "quarantined": 4,
        "tombstone": 1,
        "duplicate": 1,
    }
    assert look(spark, platform) == ()


def test_bounds_that_were_others_then_are_no_defect(spark: SparkSession, platform: Context) -> None:
    strict = replace(TWO, earliest_year=2014, future_bound=timedelta(0))
    assert look(spark, replace(platform, declarations=declared(strict))) == ()


COLUMN = TWO.newest(TYPE).column
WRONG: dict[str, tuple[int, Callable[[Row], Row], str]] = {
    "a typed field": (0, lambda row: {COLUMN: {**row[COLUMN], "origin": "XXX"}}, COLUMN),
    "a field of the version that it names none of": (
        1,
        lambda row: {COLUMN: {**row[COLUMN], "minutes_late": 7}},
        COLUMN,
    ),
    "nothing typed": (9, lambda row: {COLUMN: None}, COLUMN),
    "another version": (10, lambda row: {"contract_version": 1}, "contract_version"),
    "a version that there is not": (10, lambda row: {"contract_version": 9}, "contract_version"),
    "the time of the device": (6, lambda row: {"event_time": row["device_time"]}, "event_time"),
    "another subject": (0, lambda row: {"subject": "x"}, "subject"),
    "bytes that can't be read": (0, lambda row: {"value": b"{}"}, "decision"),
    "other bytes": (0, lambda row: {"value": sent("01 06:00", subject="another")}, "subject"),
    "values in quarantine": (2, lambda row: {"event_time": row["append_time"]}, "event_time"),
    "a record called a tombstone": (2, lambda row: {"decision": "tombstone", "reason": None}, "decision"),
    "valid ones in quarantine": (0, lambda row: {"decision": "quarantined", "late": None}, "event_id"),
    "a duplicate of another event": (5, lambda row: {"event_id": "another"}, "event_id"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_row_that_says_other_than_its_bytes_is_named(name: str, spark: SparkSession, copied: Context) -> None:
    offset, change, column = WRONG[name]
    changed(copied, offset, change)
    [finding] = look(spark, copied)
    assert finding.code == "RECORD_DIFFERS"
    assert f"partition 0, offset {offset}, epoch" in finding.where
    assert finding.what.startswith("1 rows differ from their bytes")
    assert column in finding.what.partition("this one in ")[2].split(", ")
