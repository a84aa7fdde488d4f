"""From a verdict to what readers see: the certified partitions of a build in one commit, the others held back."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from anabranch.certify.data_docs import write_documents
from anabranch.certify.verdict import Verdict, read_verdict
from anabranch.change.estimates import Outcome, record_outcome
from anabranch.change.reprocess_plan import check_built, shown_in
from anabranch.compute.batch import publications, publish, read_manifest
from anabranch.core.settings import Settings
from anabranch.lake.layout import batch_table
from anabranch.views.project import Project

log = logging.getLogger(__name__)
NO_VERDICT = "no certificate was made"


def publish_run(settings: Settings, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Publish what of the run's build was certified. Safe to repeat: what is published already stays as it is.

    Returns ``published`` (days), ``refused`` (days with reasons), ``rows``, ``equal`` (how many days),
    ``certified_at``, ``late_rows`` (how many rows the late events changed), ``bytes`` (of the build's data files),
    ``table_version`` (None: nothing new).
    BrokenState BUILD_MISSING or VERDICT_MISSING when a step before has left nothing: then nothing is published.
    Conflict PLAN_OUTDATED when what readers have isn't what the plan says that it replaces.
    """
    view, _ = Project(settings).registered(plan["view"], plan["version"])
    build = read_manifest(settings, view.name, view.version, plan["run"])
    verdict = read_verdict(settings, view.name, view.version, plan["run"])
    check_built(build, plan)
    refused = refusals(verdict, build.partitions)
    good = [day for day in build.partitions if day.isoformat() not in refused]
    version = publish(settings, view, build, good, shown_in(plan)) if good else None
    shown = publications(batch_table(settings, view.name, view.version))
    return {
        "published": [day.isoformat() for day in good if day in shown],
        "refused": refused,
        "rows": build.rows,
        "equal": len(verdict.equal),
        "certified_at": verdict.cut,
        "late_rows": sum(change.rows for change in verdict.late_changes),
        "bytes": sum(file.size for file in build.files),
        "table_version": version,
    }


def document(settings: Settings, plan: Mapping[str, Any]) -> None:
    """Write the Data Docs of the run. They are no truth: where that fails, it is only logged."""
    try:
        verdict = read_verdict(settings, plan["view"], plan["version"], plan["run"])
        log.info("Data Docs: %s", write_documents(settings, verdict))
    except Exception:  # a library's own, too
        log.warning("the run's Data Docs were not written", exc_info=True)


def remember(settings: Settings, plan: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
    """Keep what the run took, for estimates of later ones. Not of a repeat that had nothing to publish."""
    if outcome["table_version"] is None:
        return
    estimated = plan["estimate"]["seconds"] if plan.get("estimate") else None
    now, days = datetime.now(UTC), len(plan["partitions"])
    took = Outcome(plan["run"], days, plan["events"], outcome["seconds"], outcome["bytes"], now, estimated)
    record_outcome(settings, plan["view"], plan["version"], took)


def refusals(verdict: Verdict, days: Sequence[date]) -> dict[str, str]:
    """The days that must not be published, with the reason of each: whatever isn't certified is held back."""
    return {
        day.isoformat(): verdict.refused.get(day, NO_VERDICT)
        for day in days
        if day not in verdict.equal or day in verdict.refused
    }
