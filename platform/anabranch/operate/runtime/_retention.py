"""How long the log still holds what has not landed: an alarm before retention deletes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from anabranch.core.settings import Settings
from anabranch.core.text.quantities import duration

_FOR_EVER: Final = timedelta(days=50 * 365)
"""A longer retention is none; beyond it, dates would run out."""


def retention_alarm(
    settings: Settings,
    name: str,
    landed: Mapping[int, int],
    ends: Mapping[int, int],
    limit: timedelta,
    now: datetime | None = None,
) -> str:
    """In words how soon retention may delete records of ``name``, a topic of Kafka, that have not landed; empty if that
    is further away than ``limit``, or can't happen by their age. A retention that isn't understood is said.

    ``landed``: the next offset of each partition to land; ``ends``: of the log. The broker deletes whole segments,
    so a record may live longer; it may also delete them for the size of the log, which isn't known here. Raises as
    ``topic_settings``.
    """
    from anabranch.ingest.kafka.admin import offsets_since, topic_settings

    held = topic_settings(settings, name)
    if "delete" not in held.get("cleanup.policy", "delete"):
        return ""
    try:
        milliseconds = int(stated := held.get("retention.ms", "-1"))
    except ValueError:
        return f"retention unknown ({stated})"
    if not 0 <= milliseconds <= _FOR_EVER / timedelta(milliseconds=1):
        return ""
    retention, moment = timedelta(milliseconds=milliseconds), now or datetime.now(UTC)
    limit = min(limit, _FOR_EVER)
    waiting = {partition: landed.get(partition, 0) for partition, end in ends.items() if end > landed.get(partition, 0)}
    if not _older(waiting, offsets_since(settings, name, moment - retention + limit), ends):
        return ""
    left = _left(settings, name, waiting, ends, moment - retention, limit)
    when = "at any time" if left <= timedelta(0) else f"in {duration(left.total_seconds())}"
    return f"ALARM: {when} retention may delete what has not landed"


def _older(waiting: Mapping[int, int], since: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    """Whether the next record of a partition is older than those of ``since``."""
    return any(offset < since.get(partition, ends[partition]) for partition, offset in waiting.items())


def _left(
    settings: Settings, name: str, waiting: Mapping[int, int], ends: Mapping[int, int], deleted: datetime,
    limit: timedelta,
) -> timedelta:  # fmt: skip
    """How long the oldest waiting record has, to a sixteenth of ``limit``; found by halves, without reading records."""
    from anabranch.ingest.kafka.admin import offsets_since

    low, high = timedelta(0), limit
    for _ in range(4):
        middle = (low + high) / 2
        if _older(waiting, offsets_since(settings, name, deleted + middle), ends):
            high = middle
        else:
            low = middle
    return low
