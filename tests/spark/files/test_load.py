"""Files go into landing once, whatever is repeated or killed, and reach readers through batch only."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.change.dirty_partitions import dirty_partitions
from anabranch.compute.batch.missing_days import missing_now
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.files import _file_epochs, _load_files, _prepare, load
from anabranch.ingest.landing import epochs
from anabranch.ingest.landing.audit import verify as proofs
from anabranch.ingest.landing.audit.quarantine import list_quarantined, release
from anabranch.ingest.landing.decoding import decode, raw_frame
from anabranch.ingest.landing.epochs import arrow_with_epoch, summary
from anabranch.ingest.landing.state import lateness_note, open_landing, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, epoch_build
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.views import View, view
from anabranch.views.model.definition import Refresh
from anabranch.views.model.handle import ViewHandle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "required": ["paymentId", "cents"],
        "properties": {
            "paymentId": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "cents": {"type": "integer", "minimum": 0},
        },
    },
)
TOPIC = Topic("payments", (PAID,), records=PlainJson(id="paymentId", time="at"))
NEW, OLD = date(2024, 3, 1), date(2023, 3, 1)


def payment(number: int, day: date, cents: Any = 5) -> dict[str, Any]:
    return {"paymentId": f"p{number}", "at": f"{day}T12:00:00Z", "cents": cents}


def lines(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def land(spark: SparkSession, settings: Settings, *rows: dict[str, Any]) -> None:
    """What landing's stream does with records of the log."""
    table = open_landing(settings, TOPIC)
    before = read_state(table, TOPIC)
    begin, now = before.offsets.get(0, 0), int(datetime(2024, 3, 1, 13, tzinfo=UTC).timestamp() * 1e6)
    records = [
        {"partition": 0, "offset": begin + n, "append_time": now, "key": None, "value": json.dumps(row).encode()}
        for n, row in enumerate(rows)
    ]
    landed = arrow_with_epoch(decode(raw_frame(spark, TOPIC, records), TOPIC).toArrow(), before, TOPIC)
    staged = stage_arrow(landed, table.table_uri.removeprefix("file://"), epoch_build(before.epoch + 1), EVENT_DATE)
    cut = Cut({TOPIC.name: Position(before.epoch + 1, {0: begin + len(rows)})})
    extra = {**summary(landed, before), **lateness_note(TOPIC)}
    append(table, staged, CommitMetadata(writer_of(TOPIC), f"test:{before.epoch}", cut, extra=extra))


def landed(settings: Settings, columns: str = 'decision, "partition", "offset", event_id') -> list[tuple[Any, ...]]:
    with landed_rows(open_landing(settings, TOPIC)) as rows:
        return rows.execute(f"SELECT {columns} FROM rows ORDER BY epoch, 2, 3").fetchall()  # noqa: S608


def takings_view(*, kappa: bool = False, refresh: Refresh = "state") -> View:
    if kappa:

        @view(name="totals", version=1, events="payment.made", key=["kind"], refresh=refresh)
        def totals(paid: DataFrame) -> DataFrame:
            return paid.groupBy(F.lit("all").alias("kind")).agg(F.sum("cents").alias("cents"))

        return totals

    @view(name="takings", version=1, events="payment.made", key=["day"], partition_by="day")
    def takings(paid: DataFrame) -> DataFrame:
        daily = paid.groupBy(F.window("event_time", "1 day")).agg(F.sum("cents").alias("cents"))
        return daily.select(F.to_date("window.start").alias("day"), "cents")

    return takings


@pytest.fixture
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log with three offsets in partition 0."""
    monkeypatch.setattr(proofs, "begin_offsets", lambda *_: {0: 0})
    monkeypatch.setattr(proofs, "end_offsets", lambda *_: {0: 3})
    monkeypatch.setattr(proofs, "readable_ends", lambda *_: {0: 3})


@pytest.mark.usefixtures("_no_broker")
def test_rows_of_files_beside_the_log(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    land(spark, settings, payment(1, NEW), payment(2, NEW), payment(3, NEW))
    before = read_state(open_landing(settings, TOPIC), TOPIC)
    files = tmp_path / "files"
    files.mkdir()
    lines(files / "a.jsonl", payment(1, NEW), payment(10, OLD), payment(11, date(2024, 3, 2)), payment(12, OLD, "x"))
    (files / "b.csv").write_text(f"paymentId,at,cents\np20,{OLD}T01:00:00Z,7\np10,{OLD}T01:00:00Z,1\np21,,8\n")
    pq.write_table(
        pa.table({"paymentId": ["p30"], "at": pa.array([datetime(2023, 3, 2)], pa.timestamp("us")), "cents": [9]}),  # noqa: DTZ001
        files / "c.parquet",
    )
    (files / "d.parquet").write_bytes(b"PAR1 cut off")
    told = list[str]()
    report = load(spark, settings, TOPIC, [str(files)], told.append, part_rows=2)
    assert report.decisions == {"loaded": 4, "quarantined": 2, "duplicate": 2}
    assert report.problems == {
        "field cents is no integer": 1,
        "time: column at is missing or can't be read": 1,
    }
    assert [Path(file.name).name for file in report.refused] == ["d.parquet"]
    assert any("4 of 4 rows have landed" in line for line in told)
    after = read_state(open_landing(settings, TOPIC), TOPIC)
    assert (after.watermark_us, after.offsets, after.log) == (before.watermark_us, before.offsets, before.log)
    assert (after.loads.last, after.loads.rows, after.loads.open) == (3, 8, {})
    rows = landed(settings, 'decision, "partition", "offset", event_id, late, value')
    assert [row[4] for row in rows if row[0] != "valid"] == [None] * 8, "neither late nor on time"
    assert b'{"at":"2023-03-01T01:00:00Z","cents":7,"paymentId":"p20"}' in [row[5] for row in rows], "canonical JSON"
    proof = proofs.verify(settings, TOPIC)
    assert proof.sound, proof
    assert [(file.landed, file.loaded, file.finished) for file in proof.files] == [
        (4, 2, True),
        (3, 1, True),
        (1, 1, True),
    ]
    assert proof.partitions[0].valid == 3, "the log's rows alone"

    again = load(spark, settings, TOPIC, [str(files)], part_rows=2)
    assert again.landed == 0
    assert sum(file.skipped for file in again.files) == 3
    wrong = list_quarantined(settings, TOPIC)
    assert [(each.partition, each.offset) for each in wrong] == [(-2, 2), (-1, 3)]


def test_reach_readers_through_batch(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    takings = takings_view()
    land(spark, settings, payment(1, NEW, 100), payment(2, NEW, 20))
    catch_up(spark, ViewHandle(settings, takings, TOPIC))
    publish(
        ViewHandle(settings, takings, TOPIC),
        rebuild(spark, ViewHandle(settings, takings, TOPIC), [NEW], "first"),
        [NEW],
    )
    load(spark, settings, TOPIC, [lines(tmp_path / "a.jsonl", payment(3, NEW, 3), payment(4, OLD, 4))])
    query = catch_up(spark, ViewHandle(settings, takings, TOPIC))
    speed = {row["day"]: row["cents"] for row in _rows(query.sink.table.uri)}
    assert speed == {NEW: 120}, "no loaded event is in a speed half"
    assert [(day.partition, day.events) for day in dirty_partitions(ViewHandle(settings, takings, TOPIC))] == [(NEW, 1)]
    lacking = missing_now(ViewHandle(settings, takings, TOPIC))
    assert lacking.never_published == {OLD: 1}
    assert str(lacking) == "2 events (0 late, 2 loaded) are in no half"
    build = rebuild(spark, ViewHandle(settings, takings, TOPIC), [OLD, NEW], "second")
    certificates = certify(spark, ViewHandle(settings, takings, TOPIC), [OLD, NEW])
    assert [(each.equal, each.late_events) for each in certificates] == [(True, 1), (True, 1)]
    publish(ViewHandle(settings, takings, TOPIC), build, [OLD, NEW])
    assert missing_now(ViewHandle(settings, takings, TOPIC)).days == ()

    batch = {row["day"]: row["cents"] for row in _rows(VersionRef(settings, "takings", 1).batch_table)}
    assert batch == {NEW: 123, OLD: 4}


def _rows(uri: str) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    found: list[dict[str, Any]] = DeltaTable(uri).to_pyarrow_table().to_pylist()
    return found


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


STEPS = ["before a commit", "after a commit", "before the record", "while it decodes"]


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("step", STEPS)
def test_killed_anywhere(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: int
) -> None:
    name = lines(tmp_path / "a.jsonl", *(payment(n, OLD) for n in range(5)))
    calls = 0

    def dying(real: Any, *, after: bool) -> Any:
        def called(*args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at and not after:
                raise Killed
            result = real(*args, **more)
            if calls == at:
                raise Killed
            return result

        return called

    where = {
        "before a commit": (epochs, "append", False),
        "after a commit": (epochs, "append", True),
        "before the record": (_load_files, "record_file", False),
        "while it decodes": (_file_epochs, "decode", False),
    }[step]
    with monkeypatch.context() as patched:
        module, function, after = where
        patched.setattr(module, function, dying(getattr(module, function), after=after))
        with suppress(Killed):
            load(spark, settings, TOPIC, [name], part_rows=2)
    load(spark, settings, TOPIC, [name], part_rows=2)
    assert [row[1:] for row in landed(settings)] == [(-1, n, f"p{n}") for n in range(5)]
    assert load(spark, settings, TOPIC, [name], part_rows=2).landed == 0


def test_a_load_goes_on_with_other_borders_of_parts(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = lines(tmp_path / "a.jsonl", *(payment(n, OLD) for n in range(7)))
    calls = 0

    def dying(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Killed
        return append(*args)

    with monkeypatch.context() as patched, suppress(Killed):
        patched.setattr(epochs, "append", dying)
        load(spark, settings, TOPIC, [name], part_rows=3)
    assert [row[2] for row in landed(settings)] == [0, 1, 2]
    monkeypatch.setattr(_prepare, "PART_BYTES", 150)
    report = load(spark, settings, TOPIC, [name])
    assert (report.landed, report.decisions) == (4, {"loaded": 4, "quarantined": 0, "duplicate": 0})
    rows = landed(settings, 'decision, "partition", "offset", event_id, epoch')
    assert [row[:4] for row in rows] == [("loaded", -1, n, f"p{n}") for n in range(7)]
    assert [row[4] for row in rows] == [1, 1, 1, 2, 3, 3, 4], "the part of rows 2 and 3 had landed half"


def test_a_landing_that_is_faster_is_noticed(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(spark, settings, payment(1, NEW))
    calls = 0

    def overtaken(*args: Any) -> int:
        nonlocal calls
        calls += 1
        if calls <= 2:
            land(spark, settings, payment(9 + calls, NEW))
        return append(*args)

    monkeypatch.setattr(epochs, "append", overtaken)
    report = load(spark, settings, TOPIC, [lines(tmp_path / "a.jsonl", payment(10, OLD), payment(12, OLD))])
    assert (calls, report.decisions) == (3, {"loaded": 1, "quarantined": 0, "duplicate": 1})
    rows = landed(settings, 'epoch, "partition", "offset", decision')
    assert rows[-2:] == [(4, -1, 0, "duplicate"), (4, -1, 1, "loaded")], "the log's copy had landed first"
    after = read_state(open_landing(settings, TOPIC), TOPIC)
    assert (after.epoch, after.offsets, after.loads.rows) == (4, {0: 3}, 2)


def test_a_row_of_a_file_is_released_as_a_loaded_event(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    strict = replace(TOPIC, earliest_year=2024)
    load(spark, settings, strict, [lines(tmp_path / "a.jsonl", payment(1, NEW), payment(2, OLD))])
    assert [each.kind for each in list_quarantined(settings, strict)] == ["absurd_time"]
    done = release(spark, settings, TOPIC, (-1, 1), "history is older")
    assert (done.released, done.duplicates, done.still) == (1, 0, {})
    assert ("loaded", -1, 1, "p2") in landed(settings)
    assert read_state(open_landing(settings, TOPIC), TOPIC).watermark_us is None


@pytest.mark.parametrize("refresh", ["state", "partitions"])
def test_a_kappa_view_takes_them_by_a_replay(
    spark: SparkSession, settings: Settings, tmp_path: Path, refresh: Refresh
) -> None:
    from anabranch.change.replay.request import ReplayRequest
    from anabranch.change.replay.runner import replay

    totals = takings_view(kappa=True, refresh=refresh)
    land(spark, settings, payment(1, NEW, 100))
    load(spark, settings, TOPIC, [lines(tmp_path / "a.jsonl", payment(2, OLD, 20))])
    query = catch_up(spark, ViewHandle(settings, totals, TOPIC))
    uri = query.sink.table.uri
    assert [row["cents"] for row in _rows(uri)] == [100]
    assert certify(spark, ViewHandle(settings, totals, TOPIC), [])[0].equal
    state = replay(spark, ReplayRequest(ViewHandle(settings, totals, TOPIC), "again"))
    assert state.phase == "published", state.said
    assert [row["cents"] for row in _rows(uri)] == [120]
    assert certify(spark, ViewHandle(settings, totals, TOPIC), [])[0].equal
    load(spark, settings, TOPIC, [lines(tmp_path / "b.jsonl", payment(3, OLD, 3))])
    land(spark, settings, payment(4, NEW, 1000))
    catch_up(spark, ViewHandle(settings, totals, TOPIC))
    assert [row["cents"] for row in _rows(uri)] == [1120]
    assert certify(spark, ViewHandle(settings, totals, TOPIC), [])[0].equal, (
        "it holds the first file, and not the second"
    )
