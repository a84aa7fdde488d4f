"""Publish a run's build: the certified partitions in one commit; the others are held back."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from anabranch.certify.data_docs import write_documents
from anabranch.certify.verdict import Verdict, read_verdict
from anabranch.change.estimates import STEPS, Outcome, record_outcome
from anabranch.change.reprocess_plan import check_built, published_in_plan
from anabranch.compute.batch.manifest import read_manifest
from anabranch.compute.batch.publish import publications, publish
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve.routes import check_not_retired
from anabranch.views.project import Project
from anabranch.views.retired_versions import retired_versions

log = logging.getLogger(__name__)
NO_VERDICT = "no certificate was made"


def publish_run(settings: Settings, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Publish the certified partitions of a run's build. Idempotent: what is published already stays as it is.

    Returns ``published`` (days), ``refused`` (days with reasons), ``rows``, ``equal`` (number of days),
    ``certified_at``, ``late_rows`` (rows that late events changed), ``bytes`` (of the build's data files),
    ``table_version`` (None: nothing new), ``worked`` (seconds of ``rebuild`` and ``certify``) and ``judged`` (when they
    ended, as ISO 8601).
    Raises BrokenState BUILD_MISSING or VERDICT_MISSING when an earlier step left no result; Conflict PLAN_OUTDATED when
    the published days aren't those that the plan replaces; BadInput VERSION_RETIRED. Nothing is published then.
    """
    view = Project(settings).view(plan["view"], plan["version"])
    check_not_retired(view.name, [view.version], retired_versions(settings, view.name))
    build = read_manifest(view, plan["run"])
    verdict = read_verdict(view, plan["run"])
    check_built(build, plan)
    refused = refusals(verdict, build.partitions)
    certified = [day for day in build.partitions if day.isoformat() not in refused]
    version = publish(view, build, certified, published_in_plan(plan)) if certified else None
    published = publications(view.batch_table)
    return {
        "published": [day.isoformat() for day in certified if day in published],
        "refused": refused,
        "rows": build.rows,
        "equal": len(verdict.equal),
        "certified_at": verdict.cut,
        "late_rows": sum(change.rows for change in verdict.late_changes),
        "bytes": sum(file.size for file in build.files),
        "table_version": version,
        "worked": {"rebuild": build.seconds, "certify": verdict.seconds},
        "judged": verdict.created.isoformat(),
    }


def step_seconds(outcome: Mapping[str, Any], began: datetime, ended: datetime) -> dict[str, float]:
    """The seconds of each of ``STEPS``, by the result of ``publish_run`` and the times of the run's rebuild and end;
    empty if a step was repeated, or an older version made its result: then they don't add up."""
    if "judged" not in outcome:
        return {}
    judged, worked = datetime.fromisoformat(outcome["judged"]), outcome["worked"]
    engine = (judged - began).total_seconds() - sum(worked.values())
    found = {"engine": engine, **worked, "publish": (ended - judged).total_seconds()}
    return {step: round(found[step], 1) for step in STEPS} if min(found.values()) > 0 else {}


def write_data_docs(settings: Settings, plan: Mapping[str, Any]) -> None:
    """Write the Data Docs of the run. Nothing depends on them, so a failure is only logged."""
    try:
        verdict = read_verdict(VersionRef(settings, plan["view"], plan["version"]), plan["run"])
        log.info("Data Docs: %s", write_documents(settings, verdict))
    except Exception:  # also errors of Great Expectations itself
        log.warning("the run's Data Docs were not written", exc_info=True)


def save_outcome(
    settings: Settings, plan: Mapping[str, Any], outcome: Mapping[str, Any], began: datetime
) -> dict[str, Any]:
    """Store what the run took, for later estimates; of a repeat that published nothing, nothing is stored.

    ``outcome`` is the result of ``publish_run``, which ended just now; ``began`` is when the rebuild did. Returns
    the result with ``seconds`` (of the run) and ``steps`` (the seconds of each, see ``step_seconds``).
    """
    now, days = datetime.now(UTC), len(plan["partitions"])
    seconds, steps = round((now - began).total_seconds(), 1), step_seconds(outcome, began, now)
    if outcome["table_version"] is not None:
        estimated = (plan.get("estimate") or {}).get("seconds")
        cost = Outcome(plan["run"], days, plan["events"], seconds, outcome["bytes"], now, estimated, steps)
        record_outcome(VersionRef(settings, plan["view"], plan["version"]), cost)
    return {**outcome, "seconds": seconds, "steps": steps}


def refusals(verdict: Verdict, days: Sequence[date]) -> dict[str, str]:
    """Return the days that must not be published, with the reason: every day that isn't certified."""
    return {
        day.isoformat(): verdict.refused.get(day, NO_VERDICT)
        for day in days
        if day not in verdict.equal or day in verdict.refused
    }
