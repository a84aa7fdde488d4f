"""Certify a live table directly: its own files at one commit, against the view's function over landing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from anabranch.certify.certificates import Certificate, newest_certificates
from anabranch.certify.reconciliation import reconcile
from anabranch.certify.verdict import Verdict
from anabranch.change.certify_plan import CertifyPlan
from anabranch.change.estimates import Outcome, record_outcome
from anabranch.core.settings import Settings
from anabranch.core.text.quantities import counted, duration
from anabranch.lake.layout import VersionRef
from anabranch.views.model.handle import ViewHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Certified:
    """The result of one run: its certificates and its verdict, which has the data checks and the rows that differ."""

    verdict: Verdict
    certificates: tuple[Certificate, ...] = field(hash=False)
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether every certificate is equal and every check has passed."""
        return not self.verdict.refused and self.verdict.whole in (None, "equal")

    def lines(self) -> Iterator[str]:
        """Say what was compared, at which cut, and what to do next if it differs."""
        verdict = self.verdict
        name = f"{verdict.view} v{verdict.version}"
        equal = sum(certificate.equal for certificate in self.certificates)
        rows = sum(certificate.speed.rows for certificate in self.certificates)
        of = counted(len(self.certificates), "certificate")
        took = f", in {duration(self.seconds)}" if self.seconds else ""
        yield (
            f"Certified {name} at {verdict.cut}, version {verdict.speed_version} of its live table: "
            f"{equal} of {of} equal, {counted(rows, 'row')}{took} (run {verdict.run})."
        )
        if verdict.whole not in (None, "equal"):
            yield f"REFUSED: {verdict.whole}"
        for day, why in [*verdict.refused.items()][:_SHOWN]:
            yield f"REFUSED: {day}: {why}"
        more = len(verdict.refused) - _SHOWN
        if more > 0:
            yield f"and {counted(more, 'day')} more: anabranch certificates {verdict.view} --version {verdict.version}"

    @property
    def text(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the run, the cut, what was refused and why, and the rows that differ as text."""
        verdict = self.verdict
        refused = {f"{day}": why for day, why in verdict.refused.items()}
        if verdict.whole not in (None, "equal"):
            refused["whole"] = str(verdict.whole)
        return {
            "run": verdict.run,
            "cut": verdict.cut,
            "speed_version": verdict.speed_version,
            "equal": self.equal,
            "refused": refused,
            "report": verdict.report,
            "seconds": self.seconds,
        }

    @property
    def next_step(self) -> str:
        """What repairs a table that differs."""
        return f"anabranch replay start {self.verdict.view} --version {self.verdict.version}"


def certify_live_table(spark: SparkSession, view: ViewHandle, plan: CertifyPlan, run: str) -> Certified:
    """Compare the live table at its newest commit with the view's function over what had landed at that commit's cut.
    Both sides are read anew: landing's files, and the table's own.

    Stores certificates and a verdict under the name ``run``. A repeat compares again, at the newest commit then. Raises
    TryAgain VIEW_NOT_READY, Conflict DEFINITION_CHANGED.
    """
    began = time.monotonic()
    verdict = reconcile(spark, view, run, None, plan.days or ())
    seconds = round(time.monotonic() - began, 1)
    if plan.days is None:  # days have the outcomes of their rebuilds
        said = plan.estimate.seconds if plan.estimate else None
        outcome = Outcome(run, 1, plan.events, max(seconds, 0.1), 0, datetime.now(UTC), said)
        record_outcome(view, outcome)
    return certified_by(view.settings, verdict, seconds)


def certified_by(settings: Settings, verdict: Verdict, seconds: float = 0.0) -> Certified:
    """Return the result of the run that made ``verdict``, from what is stored."""
    newest = newest_certificates(VersionRef(settings, verdict.view, verdict.version)).values()
    return Certified(verdict, tuple(each for each in newest if each.run == verdict.run), seconds)
