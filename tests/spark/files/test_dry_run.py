"""What a dry run says of samples is what landing then decides about them; and it leaves nothing behind."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.contracts import Avro, Contract, PlainJson, Topic
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.ingest.files import DryRun, find_files, lines_of, rows_of_file, try_records, try_rows
from anabranch.ingest.kafka.look import LogRecord
from anabranch.ingest.landing.decoding import decode, raw_frame
from anabranch.ingest.landing.epochs import arrow_with_epoch, summary
from anabranch.ingest.landing.state import lateness_note, open_landing, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, epoch_build
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "required": ["id", "cents"],
        "properties": {
            "id": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "cents": {"type": "integer", "minimum": 0},
        },
    },
)
TOPIC = Topic("payments", (PAID,), records=PlainJson(id="id", time="at"), allowed_lateness=timedelta(hours=1))
DAY, OLD = date(2024, 3, 10), date(2024, 3, 1)
NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)


def payment(number: int, day: date = DAY, cents: Any = 5) -> dict[str, Any]:
    return {"id": f"p{number}", "at": f"{day}T12:00:00Z", "cents": cents}


def record(offset: int, appended: datetime, payment: dict[str, Any] | bytes, key: bytes | None = None) -> LogRecord:
    value = payment if isinstance(payment, bytes) else json.dumps(payment).encode()
    return LogRecord(TOPIC.name, 0, offset, appended, key, value)


def land(spark: SparkSession, settings: Settings, records: list[LogRecord]) -> None:
    """One epoch, as landing makes it."""
    table = open_landing(settings, TOPIC)
    before = read_state(table, TOPIC)
    moments = [int((each.append_time or NOON).timestamp() * 1e6) for each in records]
    raw = [
        {"partition": 0, "offset": each.offset, "append_time": moment, "key": each.key, "value": each.value}
        for each, moment in zip(records, moments, strict=True)
    ]
    landed = arrow_with_epoch(decode(raw_frame(spark, TOPIC, raw), TOPIC).toArrow(), before, TOPIC)
    staged = stage_arrow(landed, table.table_uri.removeprefix("file://"), epoch_build(before.epoch + 1), EVENT_DATE)
    cut = Cut({TOPIC.name: Position(before.epoch + 1, {0: records[-1].offset + 1})})
    extra = {**summary(landed, before), **lateness_note(TOPIC)}
    append(table, staged, CommitMetadata(writer_of(TOPIC), f"test:{before.epoch}", cut, extra=extra))


def counts(found: DryRun) -> tuple[int, int, int, int, int]:
    return found.valid, found.late, found.repeated, found.landed, found.quarantined


def files_of(settings: Settings) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in settings.home.rglob("*") if p.is_file()}


def test_lines_of_a_file_against_what_has_landed(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    land(spark, settings, [record(0, NOON, payment(1)), record(1, NOON, payment(2))])
    lines = [json.dumps(payment(n)) for n in (2, 3, 3)] + [json.dumps(payment(4, OLD))]
    lines += [json.dumps(payment(5, cents="five")), json.dumps(payment(6, cents="six")), "{", '{"id": "p7"}']
    (tmp_path / "sample.jsonl").write_text("\n".join(lines))
    before = files_of(settings)

    (address,) = find_files([str(tmp_path / "sample.jsonl")])
    found = try_rows(spark, settings, TOPIC, rows_of_file(address, TOPIC))

    assert (found.records, counts(found)) == (8, (2, 1, 1, 1, 4))
    assert found.late_before == NOON - timedelta(hours=1)
    told = {text: (problem.count, problem.first) for text, problem in found.problems.items()}
    assert sorted(told.values()) == [(1, "line 7"), (1, "line 8"), (2, "line 5")], told
    assert told["a line that is no JSON object"] == (1, "line 7")
    assert any(text.startswith("field cents") and of[0] == 2 for text, of in told.items()), told
    text = "\n".join(lines_of(found))
    assert "2 valid, 1 of them late" in text
    assert "2 duplicates: 1 of each other, 1 of events that have landed" in text
    assert files_of(settings) == before


def test_a_line_is_compared_with_every_event_that_has_landed(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """Also with that whose offset is the row's number; and its place counts blank lines."""
    land(spark, settings, [record(0, NOON, payment(1)), record(1, NOON, payment(2))])
    lines = [json.dumps(payment(n)) for n in (1, 2)]
    (tmp_path / "sample.jsonl").write_text("\n".join([*lines, "", " \r", "{", json.dumps(payment(3))]))
    (address,) = find_files([str(tmp_path / "sample.jsonl")])
    found = try_rows(spark, settings, TOPIC, rows_of_file(address, TOPIC))
    assert (found.records, counts(found)) == (4, (1, 0, 0, 2, 1))
    assert [problem.first for problem in found.problems.values()] == ["line 5"]
    assert [json.loads(row or b"0") for row in rows_of_file(address, TOPIC, 2)] == [payment(1), payment(2)]
    assert rows_of_file(address, TOPIC, 3)[2:] == [b"", b"", b"{"]


def test_columns_and_a_topic_of_which_nothing_has_landed(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "sample.parquet"
    pq.write_table(pa.Table.from_pylist([payment(n) for n in range(5)] + [payment(9, cents=-1)]), path)
    (address,) = find_files([str(path)])
    found = try_rows(spark, settings, TOPIC, rows_of_file(address, TOPIC), address.format)
    assert (counts(found), found.late_before) == ((5, 0, 0, 0, 1), None)
    ((text, problem),) = found.problems.items()
    assert text.startswith("column cents")
    assert problem.first == "row 6"
    assert len(rows_of_file(address, TOPIC, 4)) == 4
    assert not settings.lake.exists()
    (tmp_path / "torn.parquet").write_bytes(path.read_bytes()[:-20])
    (torn,) = find_files([str(tmp_path / "torn.parquet")])
    with pytest.raises(BadInput) as refused:
        rows_of_file(torn, TOPIC)
    assert refused.value.code == "FILE_UNREADABLE"


def test_records_of_the_log_are_what_landing_makes_of_them(spark: SparkSession, settings: Settings) -> None:
    """A second of append time is an epoch."""
    later = NOON + timedelta(seconds=2)
    first = [record(0, NOON, payment(1)), record(1, NOON, payment(2, OLD)), record(2, NOON, payment(3))]
    second = [record(3, later, payment(4, OLD)), record(4, later, payment(3)), record(5, later, b"\xff")]
    found = try_records(spark, settings, TOPIC, [*second, *first])
    assert counts(found) == (4, 1, 1, 0, 1), "in the first epoch no watermark is known"
    assert next(iter(found.problems.values())).first == "payments[0]@5"

    land(spark, settings, first)
    assert counts(try_records(spark, settings, TOPIC, first)) == (3, 0, 0, 0, 0), "none is a duplicate of itself"
    assert counts(try_records(spark, settings, TOPIC, second)) == (1, 1, 0, 1, 1), "by the watermark of landing"


def test_rows_for_a_topic_in_another_format_are_json(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "Payment", "fields": [{"name": n, "type": "string"} for n in ("id", "at")]}
    schema["fields"] = [*schema["fields"], {"name": "cents", "type": "long"}]
    records = Avro(id="id", time="at", schema=json.dumps(schema))
    topic = Topic("payments", (PAID,), records=records, allowed_lateness=timedelta(hours=1))
    rows = [json.dumps(payment(number, cents=number)).encode() for number in (1, 2, -3)]
    found = try_rows(spark, Settings(home=tmp_path), topic, rows)
    assert (found.valid, found.quarantined) == (2, 1)
