"""Which landed events can be behind a row, by its key and its times: where the search for its source events begins.

Certificates' evidence (``certify._source_events``) searches with Spark, explanations (``operate.explain``) with DuckDB;
both then ask the view's function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from anabranch.contracts.model.topics import Sources
from anabranch.views.model.definition import View


@dataclass(frozen=True, slots=True)
class KeyField:
    """A key column that events of a type have a field of the same name for. ``sent_with``: the contract versions whose
    events hold it as it was sent; None: all. In the others an upcaster computes it, from whatever they hold."""

    name: str
    sent_with: tuple[int, ...] | None


def key_fields(topics: Sources, event_type: str, key: Iterable[str]) -> Iterator[KeyField]:
    """Yield the key columns that an event can be compared with: they name a field of its newest contract."""
    versions = len(topics.versions(event_type))
    for name in key:
        if sent := topics.as_sent(event_type, name):
            yield KeyField(name, None if len(sent) == versions else sent)


def declared_reach(view: View, row: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """The event times that can be behind ``row``: its window, else its day, plus the view's lookback and lookahead."""
    if view.partition_by is None:
        return None, None
    start, end = row.get("window_start"), row.get("window_end")
    if not isinstance(start, datetime) or not isinstance(end, datetime):
        day = day_of(view, row)
        if day is None:
            return None, None
        start = datetime.combine(day, time(), UTC)
        end = start + timedelta(days=1)
    return start - view.lookback, end + view.lookahead


def day_of(view: View, row: Mapping[str, Any]) -> date | None:
    """The partition of a row; None for a kappa view."""
    value = row.get(view.partition_by) if view.partition_by else None
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    return value if isinstance(value, date) else None
