"""The event-time watermark of a topic at an epoch: later events from before it are late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.ingest.landing.table.schema import VALID
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import commit_history

_NEAR = 20
"""How many of the newest commits are searched before the rows are queried."""
_START = datetime(1970, 1, 1, tzinfo=UTC)
_NEWEST = f"SELECT epoch_us(max(event_time)) FROM rows WHERE decision = '{VALID}' AND epoch <= $1"  # noqa: S608


def watermark_at(table: DeltaTable, topic: Topic, epoch: int) -> datetime | None:
    """``W - L`` after ``epoch``: the largest event time of the epochs up to it, minus the allowed lateness.

    None if no event has landed by then. Read from the epoch's own commit if that is recent, otherwise from the rows,
    with the same result.
    """
    for committed in commit_history(table, _NEAR):
        position = committed.note.cut.positions.get(topic.name)
        newest = committed.note.extra.get("watermark_us")
        if position is not None and position.epoch == epoch and newest is not None:
            return _before(int(newest), topic)
    with landed_rows(table) as rows:
        found = rows.execute(_NEWEST, [epoch]).fetchall()
    newest = found[0][0]
    return None if newest is None else _before(int(newest), topic)


def _before(newest_us: int, topic: Topic) -> datetime:
    return _START + timedelta(microseconds=newest_us) - topic.allowed_lateness
