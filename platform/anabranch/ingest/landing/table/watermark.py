"""The event-time watermark of a topic at an epoch: later events from before it are late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.ingest.landing.table.epoch_commits import last_version
from anabranch.ingest.landing.table.schema import VALID
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import commit_history

_START = datetime(1970, 1, 1, tzinfo=UTC)
_NEWEST = f"SELECT epoch_us(max(event_time)) FROM rows WHERE decision = '{VALID}' AND epoch <= $1"  # noqa: S608


def watermark_at(table: DeltaTable, topic: Topic, epoch: int) -> datetime | None:
    """``W - L`` after ``epoch``: the largest event time of the epochs up to it, minus the allowed lateness.

    None if no event has landed by then. Read from the epoch's own commit if that is kept, otherwise from the rows, with
    the same result.
    """
    if epoch == 0:
        return None
    for committed in commit_history(table, newest=last_version(table, topic.name, epoch)):
        if committed.note.cut.epoch(topic.name) != epoch:
            break
        if (newest := committed.note.extra.get("watermark_us")) is not None:
            return _before(int(newest), topic)
    with landed_rows(table) as rows:
        found = rows.execute(_NEWEST, [epoch]).fetchall()
    newest = found[0][0]
    return None if newest is None else _before(int(newest), topic)


def _before(newest_us: int, topic: Topic) -> datetime:
    return _START + timedelta(microseconds=newest_us) - topic.allowed_lateness
