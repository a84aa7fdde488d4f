"""The event-time watermark of a topic at an epoch: later events from before it are late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from anabranch.contracts import Topic
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
    for committed in commit_history(table, newest=_last_version(table, topic.name, epoch)):
        if committed.note.cut.epoch(topic.name) != epoch:
            break
        if (newest := committed.note.extra.get("watermark_us")) is not None:
            return _before(int(newest), topic)
    with landed_rows(table) as rows:
        found = rows.execute(_NEWEST, [epoch]).fetchall()
    newest = found[0][0]
    return None if newest is None else _before(int(newest), topic)


def _last_version(table: DeltaTable, topic: str, epoch: int) -> int:
    """The last version whose commit covers no epoch after ``epoch``: searched from where it is if each commit since was
    an epoch, in steps that double, and then by halves. Older commits than the kept ones count as epoch 0."""

    def epoch_at(version: int) -> int:
        found = next(commit_history(table, newest=version), None)
        return found.note.cut.epoch(topic) if found is not None else 0

    after = table.version() + 1
    low = after - 1 - max(0, epoch_at(after - 1) - epoch)
    step = 1
    while low >= 0 and epoch_at(low) > epoch:
        after, low, step = low, low - step, 2 * step
    low = max(low, -1)
    while after - low > 1:
        middle = (low + after) // 2
        low, after = (low, middle) if epoch_at(middle) > epoch else (middle, after)
    return low


def _before(newest_us: int, topic: Topic) -> datetime:
    return _START + timedelta(microseconds=newest_us) - topic.allowed_lateness
