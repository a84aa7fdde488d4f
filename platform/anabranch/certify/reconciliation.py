"""Reconcile one build: certificates, data checks, changes by late events, and the verdict that publishing follows."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from anabranch.certify._check_inputs import subjects_of
from anabranch.certify._run_checks import CheckResult, run_checks
from anabranch.certify.certificates import Certificate, record
from anabranch.certify.certify_partitions import Comparison, certificates_of, compare
from anabranch.certify.differences import differences
from anabranch.certify.late_changes import LateChanges, late_changes, wrong_partitions
from anabranch.certify.rendering import render_differences
from anabranch.certify.verdict import Verdict, write_verdict
from anabranch.compute.batch.manifest import Build, StagedBuild
from anabranch.core.errors import Conflict, root_cause
from anabranch.views.model.handle import ViewHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_EXPLAINED = 3
"""How many unequal partitions are explained row by row; each takes seconds."""


def reconcile(
    spark: SparkSession,
    view: ViewHandle,
    run: str,
    build: Build | None,
    days: Sequence[date] = (),
) -> Verdict:
    """Reconcile ``build``, and return its verdict. Without a build the live table is compared on its own: a kappa view
    as a whole, another view on ``days``.

    Writes only the certificates table and the verdict file; a repeat replaces the verdict. It is written before its
    report, which may take long or fail. An unequal partition raises no error here: publishing holds it back, and
    publishes the others. Raises Conflict DEFINITION_CHANGED.
    """
    if build is not None and build.fingerprint != view.definition.fingerprint:
        raise Conflict(
            "DEFINITION_CHANGED",
            f"{view.definition.origin}: {view} has changed since run {run} was built",
            state="nothing was compared",
            next_step="rebuild it; a changed definition needs a new version",
        )
    began, staged = time.monotonic(), StagedBuild.of(view.settings, build) if build else None
    partitions = list(build.partitions) if build else list(days)
    with _persisted(compare(spark, view, partitions, staged)) as comparison:
        certificates, changes = compute_certificates(comparison, staged, run)
        record(view.settings, certificates)
        suspects = [change.partition for change in changes if change.doubtful]
        wrong = wrong_partitions(spark, view, staged, suspects) if staged else []
        checks = run_checks(spark, subjects_of(spark, comparison, staged))
        verdict = _Findings(certificates, checks, wrong, changes).verdict(comparison, run)
        verdict = replace(verdict, seconds=round(time.monotonic() - began, 3))
        write_verdict(view.settings, verdict)
        if report := _report(spark, comparison, certificates):
            verdict = replace(verdict, report=report)
            write_verdict(view.settings, verdict)
    return verdict


def compute_certificates(
    comparison: Comparison, staged: StagedBuild | None, run: str
) -> tuple[list[Certificate], Sequence[LateChanges]]:
    """Return the certificates and the changes by late events. The changes are counted in a thread, without Spark, while
    Spark compares both sides."""
    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(late_changes, comparison, staged) if staged else None
        return certificates_of(comparison, run), changes.result() if changes else []


@dataclass(frozen=True, slots=True)
class _Findings:
    """All results for one build, from which each partition's verdict follows."""

    certificates: Sequence[Certificate] = field(hash=False)
    checks: Sequence[CheckResult]
    wrong: Sequence[date]
    changes: Sequence[LateChanges]

    def verdict(self, comparison: Comparison, run: str) -> Verdict:
        reasons = {c.partition: self._reasons(c) for c in self.certificates}
        return Verdict(
            view=comparison.view.name,
            version=comparison.view.version,
            run=run,
            cut=str(comparison.state.cut),
            speed_version=comparison.state.version,
            equal=tuple(day for day, why in reasons.items() if day is not None and not why),
            refused={day: "; ".join(why) for day, why in reasons.items() if day is not None and why},
            late_changes=tuple(self.changes),
            results=tuple(self.checks),
            whole=None if None not in reasons else "; ".join(reasons[None]) or "equal",
        )

    def _reasons(self, certificate: Certificate) -> list[str]:
        why = []
        if not certificate.equal:
            why.append(
                f"the halves differ at {certificate.cut}: {certificate.speed.rows} rows in speed, "
                f"{certificate.expected.rows} expected"
            )
        if certificate.partition in self.wrong:
            why.append("the build isn't the result of the view's function over its events")
        for result in self.checks:
            offending = result.concerns(certificate.partition)
            if offending is not None:
                outcome = f" raised an error: {result.error}" if result.error else f" failed for {offending}"
                why.append(f"check {result.check} on {result.table}{outcome}")
        return why


def _report(
    spark: SparkSession,
    comparison: Comparison,
    certificates: Sequence[Certificate],
) -> str:
    unequal = [certificate.partition for certificate in certificates if not certificate.equal]
    texts = []
    for day in unequal[:_EXPLAINED]:
        try:
            differing = differences(spark, comparison.view, day, state=comparison.state)
        except Exception as error:  # the verdict stands without it
            log.warning("%s: the differences of %s can't be shown", comparison.view, day, exc_info=True)
            texts.append(f"the differences of {day or 'the view'} can't be shown: {root_cause(error)}")
            continue
        texts.append(render_differences(comparison.view.definition, day, differing))
    if len(unequal) > _EXPLAINED:
        command = f"anabranch differences {comparison.view.name} --version {comparison.view.version} --partition DAY"
        texts.append(f"and {len(unequal) - _EXPLAINED} more partitions: {command}")
    return "\n".join(texts)


@contextmanager
def _persisted(comparison: Comparison) -> Iterator[Comparison]:
    """Persist both sides while several queries read them. Persisting is also a barrier: Spark can't push filters by
    partition through the author's function."""
    speed = comparison.speed.persist()
    persisted = {name: rows.persist() for name, rows in comparison.expected.items()}
    try:
        yield replace(comparison, speed=speed, expected=persisted)
    finally:
        for rows in (speed, *persisted.values()):
            rows.unpersist()
