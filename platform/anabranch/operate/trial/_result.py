"""What came of a trial."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from anabranch.certify.certificates import Certificate
from anabranch.certify.differences import Difference
from anabranch.lake.cut import Cut
from anabranch.views import View

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial of one view at ``cut``.

    - ``days``: the partitions that were tried, those with landed events; empty for a kappa view, which is tried as a
      whole.
    - ``rows``: what readers would get once these days are published, late events included.
    - ``events``: how many landed events these rows can depend on; ``late``: how many of them only a batch has.
    - ``batch_seconds``, ``stream_seconds``: what each path took, without the start of Spark; ``slices``: in how many
      steps the stream got the events.
    - ``certificates``: one per day, as the platform would record it; ``differences``: the first rows of the first day
      whose paths differ.
    """

    view: View
    cut: Cut
    days: tuple[date, ...]
    rows: pa.Table = field(hash=False, compare=False)
    events: int
    late: int
    batch_seconds: float
    stream_seconds: float
    slices: int
    certificates: tuple[Certificate, ...]
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """Whether both paths agree on every day."""
        return all(certificate.equal for certificate in self.certificates)

    @property
    def unequal(self) -> tuple[Certificate, ...]:
        return tuple(certificate for certificate in self.certificates if not certificate.equal)

    def to_json(self, rows: int = 0) -> dict[str, Any]:
        """Everything but the rows, of which it has the first ``rows``."""
        return {
            "view": self.view.name,
            "version": self.view.version,
            "cut": self.cut.to_json(),
            "days": [str(day) for day in self.days],
            "row_count": self.rows.num_rows,
            "rows": self.rows.slice(0, rows).to_pylist(),
            "events": self.events,
            "late_events": self.late,
            "batch_seconds": self.batch_seconds,
            "stream_seconds": self.stream_seconds,
            "equal": self.equal,
            "certificates": {str(each.partition or "whole view"): each.equal for each in self.certificates},
            "differences": [
                {
                    "key": dict(each.key),
                    "kind": each.kind,
                    "cells": [{"column": c.column, "stream": c.speed, "batch": c.expected} for c in each.cells],
                }
                for each in self.differences
            ],
        }
