"""Certify a replay: compare its table with the view's function over the same events, at the replay's own cut."""

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
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.views.model.definition import PARTITION_DATE
from anabranch.views.selection.partitions import touched_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertifyResult:
    """``equal`` of ``partitions`` are equal at ``cut``. ``difference``: what differs, empty if nothing does."""

    cut: Cut
    partitions: int
    equal: int
    difference: str


def certify(spark: SparkSession, request: ReplayRequest, table: str, live: StreamLocation) -> CertifyResult:
    """Certify the replay's ``table``: the requested days, or every partition that has rows there or in the live table.
    Logs the first unequal partition row by row, with the source events."""
    view = request.view
    state = state_at(view.definition, table)
    days = _partitions(request, table, live)
    comparison = compare(spark, view, days, state=state)
    certificates = certificates_of(comparison, request.run)
    unequal = [certificate for certificate in certificates if not certificate.equal]
    if unequal:
        day = unequal[0].partition
        rows = differences(spark, view, day, state=state)
        log.error("%s", render_differences(view.definition, day, rows))
    equal = len(certificates) - len(unequal)
    return CertifyResult(state.cut, len(certificates), equal, _difference_text(certificates, unequal))


def _partitions(request: ReplayRequest, table: str, live: StreamLocation) -> Sequence[date]:
    """Return the partitions to compare, including those that should be empty."""
    view = request.view
    if view.definition.kappa:
        return []
    if request.days is not None:
        return request.days
    tables = [open_table(uri) for uri in (table, live.table)]
    existing = {partition[PARTITION_DATE] for each in tables if each is not None for partition in each.partitions()}
    days = {day if isinstance(day, date) else date.fromisoformat(str(day)) for day in existing if day}
    return sorted(
        days | set(touched_partitions(view.definition, landed_days(view.definition, view.topics, live.landing)))
    )


def _difference_text(certificates: Sequence[Certificate], unequal: Sequence[Certificate]) -> str:
    if not unequal:
        return ""
    first = unequal[0]
    return (
        f"not published: {len(unequal)} of {len(certificates)} certificates differ at {first.cut}. "
        f"{first.partition or 'The whole view'}: {first.speed.rows} rows replayed, {first.expected.rows} expected. "
        "Readers keep what they had, and the replay's files are deleted"
    )
