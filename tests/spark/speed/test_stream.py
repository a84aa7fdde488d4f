"""One commit per micro-batch of whole epochs, named, repeatable, and never with a row too few."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.compute.speed.view_stream import catch_up, start
from anabranch.core.errors import BadDefinition, BrokenState, Conflict, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import Commit, commit_history, latest_commit, open_table
from anabranch.lake.cut import Cut, Position
from anabranch.lake.layout import VersionRef
from anabranch.serve.table_snapshots import snapshot
from anabranch.views import View
from anabranch.views.model.definition import CHANGED
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, gallery, sample_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DELAYS = sample_views().get("departure_delays")
AIRCRAFT = sample_views().get("aircraft_now")


def departed(at: str, origin: str = "JFK", delay: int = 0, tailnum: str = "N1") -> Event:
    time = datetime.fromisoformat(f"2013-01-{at}").replace(tzinfo=UTC)
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": delay, "tailnum": tailnum}
    return Event("flight.departed", time, f"{at}{origin}{delay}{tailnum}", data)


def rows_of(settings: Settings, view: View) -> list[dict[str, Any]]:
    table = open_table(VersionRef(settings, view.name, view.version).speed_table)
    assert table is not None
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: [str(row[k]) for k in view.key])


def flights(settings: Settings) -> list[tuple[str, int, int, int]]:
    found = rows_of(settings, DELAYS)
    return [(r["origin"], r["window_start"].hour, r["flights"], r[CHANGED]) for r in found]


def commits(settings: Settings, view: View = DELAYS) -> list[Commit]:
    return list(commit_history(VersionRef(settings, view.name, view.version).speed_table))


@pytest.fixture
def landing(settings: Settings) -> Landing:
    found = Landing(settings)
    found.land([departed("01 05:10")], [departed("01 05:20"), departed("01 06:10", "EWR")])
    return found


def test_without_landing_nothing_starts(spark: SparkSession, settings: Settings) -> None:
    with pytest.raises(TryAgain) as error:
        start(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert error.value.code == "LANDING_ABSENT"


def test_each_commit_names_its_cut_its_definition_and_its_batch(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    first = catch_up(spark, delays)
    landing.land([departed("01 05:40", delay=60)])
    catch_up(spark, delays)

    second, before, made = commits(settings)
    assert (second.note.cut, before.note.cut.epoch("flights"), made.note.cut.epoch("flights")) == (landing.cut, 2, 0)
    assert second.note.cut.positions["flights"].offsets[0] == 4
    assert [c.note.batch for c in (before, second)] == [f"{first.id}:0", f"{first.id}:1"]
    assert {c.note.fingerprint for c in (made, before, second)} == {DELAYS.fingerprint}
    assert second.note.extra == {
        "watermark_ms": int(datetime(2013, 1, 1, 4, 10, tzinfo=UTC).timestamp() * 1000),
        "rows": 1,
    }
    assert flights(settings) == [("EWR", 6, 1, 2), ("JFK", 5, 3, 3)]


def test_an_epoch_that_changes_nothing_moves_the_cut(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    before = rows_of(settings, DELAYS)
    landing.land([departed("01 05:10")])  # a duplicate
    catch_up(spark, delays)

    assert commits(settings)[0].note.cut == landing.cut
    assert commits(settings)[0].note.extra["rows"] == 0
    assert rows_of(settings, DELAYS) == before


def test_a_late_event_is_no_part_of_a_view_with_partitions_but_of_a_kappa_view(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    landing.land([departed("01 02:00", tailnum="N2")])
    assert landing.rows[-1]["late"]
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    catch_up(spark, ViewHandle(settings, AIRCRAFT, FLIGHTS))

    assert flights(settings) == [("EWR", 6, 1, 3), ("JFK", 5, 2, 3)]
    assert [r["tailnum"] for r in rows_of(settings, AIRCRAFT)] == ["N1", "N2"]


def test_a_repeated_batch_is_left_out(
    spark: SparkSession, settings: Settings, landing: Landing, caplog: pytest.LogCaptureFixture
) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    landing.land([departed("01 05:40")])
    catch_up(spark, delays)
    known, table = len(commits(settings)), rows_of(settings, DELAYS)
    forget(settings, 1)  # as after a kill between the sink's commit and Spark's

    catch_up(spark, delays)
    assert (len(commits(settings)), rows_of(settings, DELAYS)) == (known, table)
    assert "batch 1 is already committed" in caplog.text

    landing.land([departed("01 05:50")])
    catch_up(spark, delays)
    assert flights(settings) == [("EWR", 6, 1, 2), ("JFK", 5, 4, 4)]  # the repeated batch's state was not lost


def forget(settings: Settings, batch: int) -> None:
    done = VersionRef(settings, DELAYS.name, 1).speed_checkpoint / "commits"
    for name in (str(batch), f".{batch}.crc"):
        (done / name).unlink()


def test_a_checkpoint_that_was_put_back_leaves_nothing_out(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    checkpoint = VersionRef(settings, DELAYS.name, 1).speed_checkpoint
    backup = shutil.copytree(checkpoint, settings.home / "backup")
    landing.land([departed("01 05:40")])
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    shutil.rmtree(checkpoint)
    shutil.move(backup, checkpoint)
    landing.land([departed("01 06:20", "EWR")])  # behind the batch that the table has under the same number
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    landing.land([departed("01 06:30", "EWR")])
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))

    assert flights(settings) == [("EWR", 6, 3, 5), ("JFK", 5, 3, 4)]
    assert commits(settings)[0].note.cut == landing.cut


def test_a_deleted_checkpoint_builds_the_table_again_in_one_commit(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    landing.land([departed("01 05:40")])
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    known, table = len(commits(settings)), flights(settings)
    shutil.rmtree(VersionRef(settings, DELAYS.name, 1).speed_checkpoint)

    again = catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert [(o, h, n) for o, h, n, _ in flights(settings)] == [(o, h, n) for o, h, n, _ in table]
    assert len(commits(settings)) == known + 1
    assert commits(settings)[0].note.batch == f"{again.id}:0"


def test_a_table_that_lost_batches_is_not_written_on(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    shutil.rmtree(VersionRef(settings, DELAYS.name, 1).speed_table)
    landing.land([departed("01 05:40")])
    with pytest.raises(BrokenState) as error:
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert error.value.code == "BATCH_MISSING"


def test_a_landing_that_went_back_does_not_take_the_table_with_it(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    table = rows_of(settings, DELAYS)
    shutil.rmtree(landing.uri)
    shutil.rmtree(VersionRef(settings, DELAYS.name, 1).speed_checkpoint)
    Landing(settings).land([departed("01 05:10")])
    with pytest.raises(Conflict) as error:
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert error.value.code == "CUT_BACKWARDS"
    assert rows_of(settings, DELAYS) == table


def test_another_definition_under_the_same_version_is_refused(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    with pytest.raises(Conflict) as error:
        catch_up(spark, ViewHandle(settings, replace(DELAYS, fingerprint="other"), FLIGHTS))
    assert error.value.code == "DEFINITION_CHANGED"


def test_a_batch_that_ends_inside_an_epoch_stops_the_stream(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    known = len(commits(settings))
    forget(settings, 0)
    offsets = VersionRef(settings, DELAYS.name, 1).speed_checkpoint / "offsets" / "0"
    header, head, source = offsets.read_text().splitlines()
    offsets.write_text("\n".join([header, head, json.dumps({**json.loads(source), "reservoirVersion": 2, "index": 0})]))
    offsets.with_name(".0.crc").unlink()

    with pytest.raises(BrokenState) as error:
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert error.value.code == "EPOCH_SPLIT"
    assert len(commits(settings)) == known


def test_rows_dropped_by_the_watermark_stop_the_stream_before_they_are_missing(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    hasty = replace(FLIGHTS, allowed_lateness=timedelta(seconds=1))  # landing decided by two hours
    catch_up(spark, ViewHandle(settings, DELAYS, hasty))
    for at in ("08:00", "08:10"):  # Spark drops by the watermark of the batch before
        landing.land([departed(f"01 {at}")])
        catch_up(spark, ViewHandle(settings, DELAYS, hasty))
    landing.land([departed("01 06:30"), departed("01 06:40", "EWR")])
    assert not landing.rows[-1]["late"]
    for _ in range(2):  # a restart doesn't let them slip through
        with pytest.raises(BrokenState) as error:
            catch_up(spark, ViewHandle(settings, DELAYS, hasty))
        fields = {"view": "departure_delays", "batch": 3, "count": 2}
        assert (error.value.code, error.value.fields) == ("ROWS_DROPPED", fields)
    assert commits(settings)[0].note.cut.epoch("flights") == 4


def timeless(departed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return DELAYS.function(departed).withColumn("window_start", F.when(F.col("origin") == "JFK", F.col("window_start")))


def test_a_row_without_a_partition_is_refused(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    view = replace(DELAYS, name="timeless", function=timeless)
    with pytest.raises(BadDefinition) as error:
        catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    assert (error.value.code, error.value.fields["batch"]) == ("PARTITION_NULL", 0)


def three_ways(days: int) -> list[Sequence[Event]]:
    """An epoch that starts, one that changes and adds rows in several days."""
    begin = [departed("01 05:10"), departed("01 06:10", "EWR")]
    times = [datetime(2013, 1, 1, 5, tzinfo=UTC) + timedelta(hours=5 * n) for n in range(days * 5)]
    more = [departed(f"{t:%d %H:%M}", origin, 20) for t in times for origin in ("JFK", "EWR", "LGA")]
    return [begin, more]


def test_small_and_large_commits_are_the_same_to_a_reader(spark: SparkSession, settings: Settings) -> None:
    found = []
    for rows in (50_000, 3, 0):
        own = load_settings(home=settings.home / f"rows{rows}", small_commit_rows=rows)
        landing = Landing(own)
        for epoch in three_ways(3):
            landing.land(epoch)
            catch_up(spark, ViewHandle(own, DELAYS, FLIGHTS))
        committed = latest_commit(VersionRef(own, DELAYS.name, 1).speed_table)
        assert committed is not None
        note = committed.note
        found.append((rows_of(own, DELAYS), note.cut, note.writer, note.fingerprint, note.extra))
    assert found[0][0]
    assert found[0] == found[1] == found[2]


def test_a_first_batch_that_was_killed_early_starts_again(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    checkpoint = VersionRef(settings, DELAYS.name, 1).speed_checkpoint
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / ".0.3f9d.tmp").write_text("v1")
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert flights(settings) == [("EWR", 6, 1, 2), ("JFK", 5, 2, 2)]


def test_what_the_watermark_passes_appears_without_an_event_of_its_own(spark: SparkSession, settings: Settings) -> None:
    view = gallery().get("never_arrived")
    landing = Landing(settings)
    landing.land([departed("01 10:00")])
    catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    assert rows_of(settings, view) == []

    landing.land([departed("05 10:00")])
    catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    assert [(row["departed_at"].day, row[CHANGED]) for row in rows_of(settings, view)] == [(1, 2)]


def test_only_the_partitions_that_are_touched_are_written_again(spark: SparkSession, settings: Settings) -> None:
    view = gallery().get("fleet_size")
    landing = Landing(settings)
    landing.land([departed("01 10:00"), departed("02 10:00")])
    catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    landing.land([departed("02 11:00", tailnum="N2")])
    catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    assert [(row["day"].day, row["aircraft"], row[CHANGED]) for row in rows_of(settings, view)] == [
        (1, 1, 1),
        (2, 2, 2),
    ]

    landing.land([])
    catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    assert [c.note.cut.epoch("flights") for c in commits(settings, view)][:2] == [3, 2]
    assert [row[CHANGED] for row in rows_of(settings, view)] == [1, 2]


def test_a_partition_that_loses_its_last_row_is_known_to_be_empty(spark: SparkSession, settings: Settings) -> None:
    view, day = gallery().get("bad_runs"), date(2013, 1, 1)
    landing, uri = Landing(settings), VersionRef(settings, view.name, view.version).speed_table
    late = [departed(f"01 10:{minute}", delay=40) for minute in (10, 20, 30)]
    cancelled = replace(departed("01 10:50"), type="flight.cancelled", id="c", data={"carrier": "AA", "flight": 1})
    landing.land([*late, cancelled])
    catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    found = snapshot(uri)
    assert found is not None
    assert found.changed == {day: Cut({"flights": Position(1, {})})}

    landing.land([departed("01 10:40")])
    catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    landing.land([departed("01 10:41")])
    catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    found = snapshot(uri)
    assert found is not None
    assert (found.files, found.changed) == ({}, {day: Cut({"flights": Position(2, {})})})


def test_spark_s_state_drops_what_is_older_than_1970(spark: SparkSession, settings: Settings) -> None:
    """Why ``check`` refuses such views; by partitions they are right."""
    old, topic = datetime(1960, 5, 1, 7, 20, tzinfo=UTC), replace(FLIGHTS, earliest_year=1950)
    Landing(settings).land([replace(departed("01 05:10"), time=old)])
    with pytest.raises(BrokenState) as error:
        catch_up(spark, ViewHandle(settings, DELAYS, topic))
    assert error.value.code == "ROWS_DROPPED"
    catch_up(spark, ViewHandle(settings, replace(DELAYS, version=2, refresh="partitions"), topic))
    found = open_table(VersionRef(settings, DELAYS.name, 2).speed_table)
    assert found is not None
    assert [row["window_start"].year for row in found.to_pyarrow_table().to_pylist()] == [1960]
