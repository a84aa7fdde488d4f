"""All that a replay has made beside what the view's function says of the same events, at the replay's own cut."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from anabranch.certify.certificates import Certificate
from anabranch.certify.certify_partitions import certificates_of, compare
from anabranch.certify.comparison_inputs import state_at
from anabranch.certify.differences import differences
from anabranch.certify.rendering import render_differences
from anabranch.change.replay.request import ReplayRequest
from anabranch.compute.speed.view_stream import StreamLocation, landed_days
from anabranch.core.settings import Settings
from anabranch.lake import Cut
from anabranch.lake.commits import open_table
from anabranch.views.definition import PARTITION_DATE
from anabranch.views.partitions import touched_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """``equal`` of ``partitions`` at ``cut``; ``said`` is what differs, and empty where nothing does."""

    cut: Cut
    partitions: int
    equal: int
    said: str


def certify(spark: SparkSession, settings: Settings, asked: ReplayRequest, table: str, live: StreamLocation) -> Found:
    """Compare the replay's ``table``: its days, or every partition that has rows there or for readers. The first
    difference goes to the log, row by row, with its events."""
    state = state_at(asked.view, table)
    days = _partitions(asked, table, live)
    found = certificates_of(compare(spark, settings, asked.view, asked.topics, days, state=state), asked.run)
    unequal = [certificate for certificate in found if not certificate.equal]
    if unequal:
        day = unequal[0].partition
        shown = differences(spark, settings, asked.view, asked.topics, day, state=state)
        log.error("%s", render_differences(asked.view, day, shown))
    return Found(state.cut, len(found), len(found) - len(unequal), _said(found, unequal))


def _partitions(asked: ReplayRequest, table: str, live: StreamLocation) -> Sequence[date]:
    """Those that should be empty are compared, too."""
    if asked.view.kappa:
        return []
    if asked.days is not None:
        return asked.days
    tables = [open_table(uri) for uri in (table, live.table)]
    held = {partition[PARTITION_DATE] for each in tables if each is not None for partition in each.partitions()}
    days = {day if isinstance(day, date) else date.fromisoformat(str(day)) for day in held if day}
    return sorted(days | set(touched_partitions(asked.view, landed_days(asked.view, asked.topics, live.landing))))


def _said(found: Sequence[Certificate], unequal: Sequence[Certificate]) -> str:
    if not unequal:
        return ""
    first = unequal[0]
    return (
        f"not published: {len(unequal)} of {len(found)} certificates differ at {first.cut}. "
        f"{first.partition or 'The whole view'}: {first.speed.rows} rows replayed, {first.expected.rows} expected. "
        "Readers keep what they had, and nothing of the replay is left"
    )
