"""History in two versions of a contract, replayed from landing and from the log's own bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from anabranch.change.replay import _log_mirror
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import PUBLISHED, REFUSED, ReplayState
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import Topic
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.landing.decoding import decode, raw_frame
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table
from anabranch.views.model.handle import ViewHandle
from support.evolved_contract import MIXED, ONE, TWO, Departure, delays_to, land, speed_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def history(spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the log holds: an epoch by the first contract alone, from before there was a second one, then both."""
    monkeypatch.setattr("anabranch.change.replay._feed._FIRST_RECORDS", 1)
    monkeypatch.setattr("anabranch.change.replay._feed.next_size", lambda *_: 1)
    first = [each for each in MIXED[0] if each.version == 1]
    for topic, epoch in ((ONE, first), (TWO, MIXED[1]), (TWO, MIXED[2])):
        land(spark, settings, topic, epoch)
    catch_up(spark, ViewHandle(settings, delays_to, TWO))
    table = open_table(landing_table(settings, TWO.name))
    assert table is not None
    columns = ["partition", "offset", "append_time", "key", "value"]
    rows: list[dict[str, Any]] = pa.table(table.to_pyarrow_table(columns=columns)).to_pylist()
    rows.sort(key=lambda row: int(row["offset"]))
    for row in rows:
        row["append_time"] = int(row["append_time"].timestamp() * 1e6)
    log, begins = rows, {0: 0}

    def read_range(spark: Any, settings: Any, topic: Topic, offsets: Mapping[int, tuple[int, int]]) -> DataFrame:
        held = [row for row in log if offsets[row["partition"]][0] <= row["offset"] < offsets[row["partition"]][1]]
        return raw_frame(spark, topic, held)

    monkeypatch.setattr(_log_mirror, "read_range", read_range)
    monkeypatch.setattr(_log_mirror, "begin_offsets", lambda *_: begins)
    return rows


def replayed(spark: SparkSession, settings: Settings, **more: Any) -> ReplayState:
    return replay(spark, ReplayRequest(ViewHandle(settings, delays_to, TWO), "run", pace=Pace(1.0), **more))


@pytest.mark.parametrize("source", [pytest.param("landing", marks=pytest.mark.sweep), "log"])
def test_epochs_from_before_a_contract_had_its_fields(
    spark: SparkSession, settings: Settings, history: list[dict[str, Any]], source: Any
) -> None:
    before = speed_rows(settings, delays_to)
    ended = replayed(spark, settings, source=source)
    assert (ended.phase, ended.mended) == (PUBLISHED, 0), ended.said
    assert speed_rows(settings, delays_to) == before
    land(spark, settings, TWO, [Departure("02 07:10", 3, version=2)])
    catch_up(spark, ViewHandle(settings, delays_to, TWO))
    assert speed_rows(settings, delays_to) != before


@pytest.mark.sweep
def test_what_the_log_holds_no_more_is_landings(
    spark: SparkSession, settings: Settings, history: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_log_mirror, "begin_offsets", lambda *_: {0: 2})
    del history[:2]
    ended = replayed(spark, settings, source="log")
    assert (ended.phase, ended.mended) == (PUBLISHED, 0), ended.said


def test_other_bytes_than_those_that_were_landed_stop_it(
    spark: SparkSession, settings: Settings, history: list[dict[str, Any]]
) -> None:
    history[3]["value"] += b" "
    with pytest.raises(BrokenState) as error:
        replayed(spark, settings, source="log")
    assert error.value.code == "LOG_DIFFERS"
    assert f"in partition 0 at offset {history[3]['offset']}" in str(error.value)


def test_data_that_landing_has_wrong_is_found_by_the_log(
    spark: SparkSession, settings: Settings, history: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a decoder had been mended since: what is in the log now reads otherwise than it was landed."""

    def mended(records: DataFrame, topic: Topic) -> DataFrame:
        from pyspark.sql import functions as F

        column = topic.newest("flight.departed").column
        return decode(records, topic).withColumn(column, F.col(column).withField("dest", F.lit("XXX")))

    monkeypatch.setattr(_log_mirror, "decode", mended)
    ended = replayed(spark, settings, source="log")
    assert ended.phase == REFUSED
    assert "certificates differ" in ended.said
