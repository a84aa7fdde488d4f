"""How far the topic's time is at an epoch: no event from before it will land on time any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from anabranch.contracts import Topic
from anabranch.ingest.landing.sql import landed_rows
from anabranch.lake import commit_history
from deltalake import DeltaTable

_NEAR = 20
"""How many of the newest commits are looked through before the rows themselves are asked."""
_START = datetime(1970, 1, 1, tzinfo=UTC)


def watermark_at(table: DeltaTable, topic: Topic, epoch: int) -> datetime | None:
    """``W - L`` behind ``epoch``: the largest event time of the epochs up to it, less the allowed lateness.

    None where no event has landed by then. From the epoch's own note where that is near the table's end, else from
    the rows, which say the same.
    """
    for committed in commit_history(table, _NEAR):
        position = committed.note.cut.positions.get(topic.name)
        newest = committed.note.extra.get("watermark_us")
        if position is not None and position.epoch == epoch and newest is not None:
            return _before(int(newest), topic)
    with landed_rows(table) as rows:
        found = rows.execute("SELECT epoch_us(max(event_time)) FROM rows WHERE epoch <= $1", [epoch]).fetchall()
    newest = found[0][0]
    return None if newest is None else _before(int(newest), topic)


def _before(newest_us: int, topic: Topic) -> datetime:
    return _START + timedelta(microseconds=newest_us) - topic.allowed_lateness
