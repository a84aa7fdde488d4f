"""Says what landing would decide about records before anything is landed: those of a file, or the newest of the log.

Landing's own decoder and contracts decide. Nothing is written: no table, no index of ids, no registered contract.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.contracts import Topic
from anabranch.contracts.model.records import holds_json
from anabranch.core.settings import Settings
from anabranch.ingest.files._addresses import JSON_LINES, Address
from anabranch.ingest.files._json_lines import Unreadable, read_lines, refused
from anabranch.ingest.files._prepare import read_rows
from anabranch.ingest.files._problems import in_words
from anabranch.ingest.files._remote import copy_object
from anabranch.ingest.kafka.look import LogRecord
from anabranch.ingest.landing.decoding import decode, raw_frame, with_reasons
from anabranch.ingest.landing.id_hashes import duplicates_within, hashes
from anabranch.ingest.landing.state import LandingState, read_state
from anabranch.ingest.landing.table.schema import IS_EVENT, QUARANTINED, TOMBSTONE, VALID
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.ingest.schema_registry import with_schemas, with_schemas_of
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT: Final = 10_000
"""Records of one dry run: they are decided in memory."""
_MICROS: Final = 1_000_000
_NO_PARTITION: Final = -(2**31)
"""Of no record and no file. With null in its place, nothing would be known of a row whose number is a landed offset."""
_LANDED: Final = f"""
    SELECT asked.place FROM asked JOIN rows ON rows.source = asked.source AND rows.event_id = asked.event_id
    WHERE {IS_EVENT} GROUP BY asked.place
    HAVING NOT bool_or(rows."partition" = asked."partition" AND rows."offset" = asked."offset")"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem: how many records have it, and where the first one is."""

    count: int
    first: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would become of so many ``records``. ``valid`` includes the ``late`` ones. ``repeated`` are duplicates of
    each other, ``landed`` of events that have landed. ``late_before``: an earlier event is late; None before the first
    watermark. ``problems``: of those that would be quarantined, each kind once."""

    topic: str
    records: int
    valid: int
    late: int
    repeated: int
    landed: int
    quarantined: int
    tombstones: int
    late_before: datetime | None
    problems: Mapping[str, Problem] = field(hash=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "records": self.records,
            "valid": self.valid,
            "late": self.late,
            "duplicates": {"of_each_other": self.repeated, "of_landed_events": self.landed},
            "quarantined": self.quarantined,
            "tombstones": self.tombstones,
            "late_before": self.late_before.isoformat() if self.late_before else None,
            "problems": {text: {"count": each.count, "first": each.first} for text, each in self.problems.items()},
        }


def rows_of_file(address: Address, topic: Topic, limit: int = LIMIT) -> list[bytes]:
    """Return the bytes of the first ``limit`` rows, and empty bytes for the blank lines between them. Raises BadInput
    FILE_UNREADABLE."""
    with tempfile.TemporaryDirectory() as folder:
        local = Path(address.name)
        if address.remote:
            local = Path(folder) / "object"
            copy_object(address.name, local)
        try:
            found, count = list[bytes](), 0
            for value in _values(address, local, topic):
                found.append(value)
                count += bool(value)
                if count == limit:
                    break
            return found
        except Unreadable as error:
            raise refused(address.name, str(error)) from error


def _values(address: Address, local: Path, topic: Topic) -> Iterator[bytes]:
    if address.format == JSON_LINES:
        return chain.from_iterable(read_lines(local, packed=address.packed, blank=True))
    return (value for rows in read_rows(address, local, topic) for value in rows.to_pylist())


def try_rows(
    spark: SparkSession, settings: Settings, topic: Topic, values: Sequence[bytes], kind: str = JSON_LINES
) -> DryRun:
    """Decide about ``values`` as if each came by the log now, in one epoch, without a key and headers. Empty ones are
    blank lines: they are no records, and count as lines."""
    now = _micros(datetime.now(UTC))
    # A row of a file is JSON; a topic in another format has such rows in partitions below zero only.
    known = {"partition": 0 if holds_json(topic.records) else -1, "append_time": now, "key": None}
    records = [{**known, "offset": number, "value": value} for number, value in enumerate(values) if value]
    state = _state(settings, topic)
    decided = _decided(spark, with_schemas(settings, topic), records)
    bound = state.late_before_us(topic.allowed_lateness) if state else None
    late = _before(decided, bound)
    unit = "line" if kind == JSON_LINES else "row"
    places = [f"{unit} {number + 1}" for number in decided["offset"].to_pylist()]
    return _result(settings, topic, decided, late, bound, kind, places, own=False)


def try_records(spark: SparkSession, settings: Settings, topic: Topic, records: Sequence[LogRecord]) -> DryRun:
    """Decide about ``records`` of the log as landing would, with an epoch for each second of append time.

    The watermark begins with that of landing, if none of these has landed; else with the first of these.
    """
    now = datetime.now(UTC)
    given = [
        {
            "partition": record.partition,
            "offset": record.offset,
            "append_time": _micros(record.append_time or now),
            "key": record.key,
            "value": record.value,
            "headers": [*record.headers],
        }
        for record in records
    ]
    state = _state(settings, topic)
    fresh = state is not None and all(r.offset >= state.offsets.get(r.partition, 0) for r in records)
    decided = _decided(spark, with_schemas_of(settings, topic, (record.value for record in records)), given)
    late, bound = _by_second(decided, topic.allowed_lateness, state.watermark_us if fresh and state else None)
    pairs = zip(decided["partition"].to_pylist(), decided["offset"].to_pylist(), strict=True)
    places = [f"{topic.name}[{partition}]@{offset}" for partition, offset in pairs]
    return _result(settings, topic, decided, late, bound, JSON_LINES, places, own=True)


def _decided(spark: SparkSession, topic: Topic, records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Landing's columns of the records, in the order in which the first of several copies is the event."""
    rows = decode(raw_frame(spark, topic, records), topic).toArrow()
    order = [("append_time", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    return with_reasons(rows.sort_by(order), topic)


def _by_second(rows: pa.Table, lateness: timedelta, watermark: int | None) -> tuple[np.ndarray[Any, Any], int | None]:
    """Which rows are late, and the bound after the last of them: each second of append time is an epoch, whose bound
    comes from those before it."""
    seconds = _numbers(rows, "append_time") // _MICROS
    times, late = _numbers(rows, "event_time"), np.zeros(rows.num_rows, np.bool_)
    delay, newest = lateness // timedelta(microseconds=1), watermark
    for second in np.unique(seconds):
        inside = (seconds == second) & (times != _NONE)
        if newest is not None:
            late |= inside & (times < newest - delay)
        known = [*([newest] if newest is not None else []), *times[inside].tolist()]
        newest = max(known, default=None)
    return late, None if newest is None else newest - delay


_NONE: Final = np.iinfo(np.int64).min
"""In place of a time that a row doesn't have."""


def _before(rows: pa.Table, bound: int | None) -> np.ndarray[Any, Any]:
    times = _numbers(rows, "event_time")
    return (times != _NONE) & (times < bound) if bound is not None else np.zeros(rows.num_rows, np.bool_)


def _numbers(rows: pa.Table, column: str) -> np.ndarray[Any, Any]:
    """A column of times in microseconds; ``_NONE`` for null."""
    times = rows[column].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return np.asarray(pc.fill_null(times, _NONE).to_numpy())


def _result(
    settings: Settings,
    topic: Topic,
    rows: pa.Table,
    late: np.ndarray[Any, Any],
    bound: int | None,
    kind: str,
    places: Sequence[str],
    *,
    own: bool,
) -> DryRun:
    valid = np.asarray(pc.equal(rows["decision"], VALID).to_numpy(zero_copy_only=False))
    sound = rows.filter(pa.array(valid))
    repeated = np.zeros(rows.num_rows, np.bool_)
    repeated[np.flatnonzero(valid)] = duplicates_within(sound, hashes(sound))
    landed = _landed_before(settings, topic, rows, own=own) & valid & ~repeated
    event = valid & ~repeated & ~landed
    return DryRun(
        topic.name,
        rows.num_rows,
        int(event.sum()),
        int((event & late).sum()),
        int(repeated.sum()),
        int(landed.sum()),
        _count(rows, QUARANTINED),
        _count(rows, TOMBSTONE),
        None if bound is None else datetime.fromtimestamp(bound // _MICROS, UTC),
        _problems(rows, kind, places),
    )


def _count(rows: pa.Table, decision: str) -> int:
    return int(pc.sum(pc.equal(rows["decision"], decision)).as_py() or 0)


def _problems(rows: pa.Table, kind: str, places: Sequence[str]) -> dict[str, Problem]:
    """The most frequent one first."""
    found: dict[str, Problem] = {}
    for reason, place in zip(rows["reason"].to_pylist(), places, strict=True):
        if reason:
            text = in_words(reason, kind)
            known = found.get(text, Problem(0, place))
            found[text] = Problem(known.count + 1, known.first)
    return dict(sorted(found.items(), key=lambda each: -each[1].count))


def _landed_before(settings: Settings, topic: Topic, rows: pa.Table, *, own: bool) -> np.ndarray[Any, Any]:
    """Which rows repeat an event of the landing table. ``own``: rows are records of the log, and one that has landed
    isn't a duplicate of itself."""
    found = np.zeros(rows.num_rows, np.bool_)
    table = open_table(landing_table(settings, topic.name))
    if table is None or not rows.num_rows:
        return found
    asked = rows.select(["source", "event_id", "partition", "offset"])
    if not own:
        position = asked.schema.get_field_index("partition")
        asked = asked.set_column(position, "partition", pa.array([_NO_PARTITION] * rows.num_rows, pa.int32()))
    asked = asked.append_column("place", pa.array(range(rows.num_rows), pa.int64()))
    with landed_rows(table) as connection:
        connection.register("asked", asked)
        places = [place for (place,) in connection.execute(_LANDED).fetchall()]
    found[places] = True
    return found


def _state(settings: Settings, topic: Topic) -> LandingState | None:
    table = open_table(landing_table(settings, topic.name))
    return read_state(table, topic) if table is not None else None


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * _MICROS + moment.microsecond


def lines_of(found: DryRun) -> Iterator[str]:
    """The result for people."""
    yield f"  {found.valid:>9,} valid" + (f", {found.late:,} of them late" if found.late else "")
    if found.late and found.late_before:
        yield f"            late: event time before {found.late_before:%Y-%m-%d %H:%M:%S} UTC"
    copies = [f"{found.repeated:,} of each other"] * bool(found.repeated)
    copies += [f"{found.landed:,} of events that have landed"] * bool(found.landed)
    yield f"  {found.repeated + found.landed:>9,} duplicates" + (f": {', '.join(copies)}" if copies else "")
    if found.tombstones:
        yield f"  {found.tombstones:>9,} tombstones: they have a key and no value"
    yield f"  {found.quarantined:>9,} quarantined"
    for text, problem in found.problems.items():
        yield f"  {problem.count:>9,} of them: {text} (first: {problem.first})"
