"""All checks, one after the other. What one look finds counts when a second look finds it too: the platform may run."""

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
    Check("commits are ours", commits.named),
    Check("commits say who, what and how far", commits.notes),
    Check("commits are by one definition", commits.definitions),
    Check("definitions are those that are registered", commits.declared),
    Check("cuts of speed halves", commits.cuts),
    Check("keys", view_rows.keys),
    Check("partitions", view_rows.partitions),
    Check("marks of changed rows", view_rows.row_epochs),
    Check("owners of speed halves", view_rows.owners),
    Check("published is certified", publications.certified),
    Check("cuts of published partitions", publications.cuts),
    Check("rows outside of published partitions", publications.rows),
    Check("late events that no half holds", missing_days.late_events),
    Check("numbers of certificates", publications.numbers),
    Check("subjects of certificates", publications.subjects),
    Check("dates of certificates", dates.certificates),
    Check("routes", routes.routes),
    Check("dates of routes", dates.routes),
    Check("migrations that nobody carries", running_work.migrations),
    Check("streams that don't follow", running_work.streams),
    Check("writers", routes.writers),
    Check("offsets", landing.offsets),
    Check("events", landing.events),
    Check("late or on time", landing_decisions.late),
    Check("releases from quarantine", landing_decisions.released),
    Check("numbers of epochs", epochs.numbers),
    Check("contents of epochs", epochs.contents),
    Check("landing beside its checkpoint", landing_consistency.checkpoint),
    Check("landing beside its index", landing_consistency.index),
    Check("landing beside the log", landing_consistency.log),
    Check("manifests of builds", builds.manifests),
    Check("staged files", builds.staged),
    Check("replays that stand still", replays.stopped),
    Check("what replays left", replays.leftovers),
    Check("what drops left", replays.dropped),
    Check("processes", processes.parts),
    Check("drafts", processes.drafts),
)
PAUSE = 1.0
"""Seconds between the two looks."""
_REACH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """``unseen``: what was not looked at, and why."""

    findings: tuple[Finding, ...]
    checks: int
    unseen: tuple[str, ...] = ()

    @property
    def broken(self) -> bool:
        return any(finding.severity is Severity.BROKEN for finding in self.findings)

    def __str__(self) -> str:
        told = [str(finding) for finding in self.findings]
        loud = len({finding.check for finding in self.findings})
        count = f"all {self.checks} checks are quiet" if not loud else f"{loud} of {self.checks} checks found something"
        return "\n\n".join([*told, "\n".join([count, *(f"not looked at: {each}" for each in self.unseen)])])

    def to_json(self) -> dict[str, Any]:
        findings = [finding.to_json() for finding in self.findings]
        return {"broken": self.broken, "checks": self.checks, "unseen": list(self.unseen), "findings": findings}


def examine(platform: Context, checks: Sequence[Check] = CHECKS, *, pause: float = PAUSE) -> Report:
    """Look at everything; nothing is written, made or locked. A check that raises is a finding, never a crash."""
    first = {check: _look(check, platform) for check in checks}
    found = list[Finding]()
    if any(first.values()):
        time.sleep(pause)
    later = platform.again()
    for check, findings in first.items():
        still = {finding.same for finding in _look(check, later)} if findings else set()
        found += [replace(finding, check=check.name) for finding in findings if finding.same in still]
    once = {finding.same: finding for finding in reversed(found)}  # what can't be read is told by several checks
    found = [*reversed(once.values())]
    found.sort(key=lambda finding: finding.severity is not Severity.BROKEN)
    unseen = ("landing against the log: the broker doesn't answer",) if platform.log is None else ()
    return Report(tuple(found), len(checks), unseen)


def _look(check: Check, platform: Context) -> list[Finding]:
    found = list[Finding]()
    try:
        found.extend(check.look(platform))
    except Exception as error:  # whatever is on disk: the other checks go on
        found.append(failed(f"check: {check.name}", error))
    return found


def log_of(settings: Settings) -> LogOffsets | None:
    """How to ask the broker; None where none answers within a second."""
    for server in settings.brokers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()
        except (OSError, ValueError):
            continue
        return _asking(settings)
    return None


def _asking(settings: Settings) -> LogOffsets | None:
    from anabranch.ingest.kafka.admin import begin_offsets, end_offsets, existing_topics

    try:
        existing_topics(settings)
    except AnabranchError:
        return None

    def offsets(topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        return begin_offsets(settings, topic), end_offsets(settings, topic)

    return offsets
