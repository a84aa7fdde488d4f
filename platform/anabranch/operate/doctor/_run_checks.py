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
    _builds,
    _checksums,
    _commits,
    _data_files,
    _dates,
    _epochs,
    _landing,
    _landing_consistency,
    _landing_decisions,
    _missing_days,
    _processes,
    _publications,
    _replays,
    _routes,
    _running_work,
    _view_rows,
)
from anabranch.operate.doctor._context import Context, LogOffsets
from anabranch.operate.doctor._findings import Check, Finding, Severity, failed

CHECKS = (
    Check("data files", _data_files.data_files),
    Check("version checksums", _checksums.checksums),
    Check("no commits by other writers", _commits.unnamed_commits),
    Check("commit metadata", _commits.metadata),
    Check("commits by the registered definition", _commits.definitions),
    Check("definitions as registered", _commits.registered_definitions),
    Check("cuts of speed halves", _commits.cuts),
    Check("keys", _view_rows.keys),
    Check("partitions", _view_rows.partitions),
    Check("epochs of changed rows", _view_rows.row_epochs),
    Check("owners of speed halves", _view_rows.owners),
    Check("published partitions are certified", _publications.certified),
    Check("cuts of published partitions", _publications.cuts),
    Check("rows outside of published partitions", _publications.rows),
    Check("late events in no half", _missing_days.late_events),
    Check("numbers of certificates", _publications.numbers),
    Check("subjects of certificates", _publications.subjects),
    Check("dates of certificates", _dates.certificates),
    Check("routes", _routes.routes),
    Check("dates of routes", _dates.routes),
    Check("migrations without a run", _running_work.migrations),
    Check("streams far behind", _running_work.streams),
    Check("writers", _routes.writers),
    Check("offsets", _landing.offsets),
    Check("rows of files", _landing.loaded),
    Check("events", _landing.events),
    Check("late or on time", _landing_decisions.late),
    Check("releases from quarantine", _landing_decisions.released),
    Check("numbers of epochs", _epochs.numbers),
    Check("contents of epochs", _epochs.contents),
    Check("landing against its checkpoint", _landing_consistency.checkpoint),
    Check("landing against its index", _landing_consistency.index),
    Check("landing against the log", _landing_consistency.log),
    Check("manifests of builds", _builds.manifests),
    Check("staged files", _builds.staged_files),
    Check("stopped replays", _replays.stopped),
    Check("leftovers of replays", _replays.leftovers),
    Check("leftovers of drops", _replays.dropped),
    Check("processes", _processes.parts),
    Check("drafts", _processes.drafts),
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
