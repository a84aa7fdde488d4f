"""Runs all checks in order. A finding counts only if a second pass finds it too: the platform may be running."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.operate.doctor import (
    builds,
    checksums,
    commits,
    data_files,
    dates,
    epochs,
    landing,
    landing_consistency,
    landing_decisions,
    missing_days,
    processes,
    publications,
    replays,
    routes,
    running_work,
    view_rows,
)
from anabranch.operate.doctor.context import Context, LogOffsets
from anabranch.operate.doctor.findings import Check, Finding, Severity, failed

CHECKS = (
    Check("data files", data_files.data_files),
    Check("version checksums", checksums.checksums),
    Check("no commits by other writers", commits.unnamed_commits),
    Check("commit metadata", commits.metadata),
    Check("commits by the registered definition", commits.definitions),
    Check("definitions as registered", commits.registered_definitions),
    Check("cuts of speed halves", commits.cuts),
    Check("keys", view_rows.keys),
    Check("partitions", view_rows.partitions),
    Check("epochs of changed rows", view_rows.row_epochs),
    Check("owners of speed halves", view_rows.owners),
    Check("published partitions are certified", publications.certified),
    Check("cuts of published partitions", publications.cuts),
    Check("rows outside of published partitions", publications.rows),
    Check("late events in no half", missing_days.late_events),
    Check("numbers of certificates", publications.numbers),
    Check("subjects of certificates", publications.subjects),
    Check("dates of certificates", dates.certificates),
    Check("routes", routes.routes),
    Check("dates of routes", dates.routes),
    Check("migrations without a run", running_work.migrations),
    Check("streams far behind", running_work.streams),
    Check("writers", routes.writers),
    Check("offsets", landing.offsets),
    Check("rows of files", landing.loaded),
    Check("events", landing.events),
    Check("late or on time", landing_decisions.late),
    Check("releases from quarantine", landing_decisions.released),
    Check("numbers of epochs", epochs.numbers),
    Check("contents of epochs", epochs.contents),
    Check("landing against its checkpoint", landing_consistency.checkpoint),
    Check("landing against its index", landing_consistency.index),
    Check("landing against the log", landing_consistency.log),
    Check("manifests of builds", builds.manifests),
    Check("staged files", builds.staged_files),
    Check("stopped replays", replays.stopped),
    Check("leftovers of replays", replays.leftovers),
    Check("leftovers of drops", replays.dropped),
    Check("processes", processes.parts),
    Check("drafts", processes.drafts),
)
PAUSE = 1.0
"""Seconds between the two passes."""
_REACH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """``unseen``: what was not checked, and why."""

    findings: tuple[Finding, ...]
    checks: int
    unseen: tuple[str, ...] = ()

    @property
    def broken(self) -> bool:
        return any(finding.severity is Severity.BROKEN for finding in self.findings)

    def __str__(self) -> str:
        texts = [str(finding) for finding in self.findings]
        with_findings = len({finding.check for finding in self.findings})
        count = (
            f"all {self.checks} checks passed"
            if not with_findings
            else f"{with_findings} of {self.checks} checks found something"
        )
        return "\n\n".join([*texts, "\n".join([count, *(f"not checked: {each}" for each in self.unseen)])])

    def to_json(self) -> dict[str, Any]:
        findings = [finding.to_json() for finding in self.findings]
        return {"broken": self.broken, "checks": self.checks, "unseen": list(self.unseen), "findings": findings}


def examine(context: Context, checks: Sequence[Check] = CHECKS, *, pause: float = PAUSE) -> Report:
    """Runs all checks. Writes, creates and locks nothing. A check that raises becomes a finding, never a crash."""
    first_pass = {check: _run_check(check, context) for check in checks}
    found = list[Finding]()
    if any(first_pass.values()):
        time.sleep(pause)
    second_pass = context.fresh_copy()
    for check, findings in first_pass.items():
        confirmed = {finding.same for finding in _run_check(check, second_pass)} if findings else set()
        found += [replace(finding, check=check.name) for finding in findings if finding.same in confirmed]
    once = {finding.same: finding for finding in reversed(found)}  # several checks report what can't be read
    found = [*reversed(once.values())]
    found.sort(key=lambda finding: finding.severity is not Severity.BROKEN)
    unseen = ("landing against the log: the broker doesn't answer",) if context.log is None else ()
    return Report(tuple(found), len(checks), unseen)


def _run_check(check: Check, context: Context) -> list[Finding]:
    found = list[Finding]()
    try:
        found.extend(check.run(context))
    except Exception as error:  # the other checks still run
        found.append(failed(f"check: {check.name}", error))
    return found


def log_of(settings: Settings) -> LogOffsets | None:
    """Returns a function that reads the broker's offsets; None if no broker answers within a second."""
    for server in settings.brokers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()
        except (OSError, ValueError):
            continue
        return _broker_offsets(settings)
    return None


def _broker_offsets(settings: Settings) -> LogOffsets | None:
    from anabranch.ingest.kafka.admin import begin_offsets, end_offsets, existing_topics

    try:
        existing_topics(settings)
    except AnabranchError:
        return None

    def offsets(topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        return begin_offsets(settings, topic), end_offsets(settings, topic)

    return offsets
