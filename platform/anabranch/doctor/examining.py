"""All checks, one after the other. What one look finds counts when a second look finds it too: the platform may run."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.doctor import (
    beside,
    builds,
    checksums,
    commits,
    datafiles,
    dates,
    decided,
    epochs,
    following,
    halves,
    landing,
    leading,
    missing,
    processes,
    published,
    replays,
)
from anabranch.doctor.findings import Check, Finding, Severity, failed
from anabranch.doctor.looking import LogOffsets, Platform
from anabranch.errors import AnabranchError
from anabranch.settings import Settings

CHECKS = (
    Check("data files", datafiles.data_files),
    Check("version checksums", checksums.checksums),
    Check("commits are ours", commits.named),
    Check("commits say who, what and how far", commits.notes),
    Check("commits are by one definition", commits.definitions),
    Check("definitions are those that are registered", commits.declared),
    Check("cuts of speed halves", commits.cuts),
    Check("keys", halves.keys),
    Check("partitions", halves.partitions),
    Check("marks of changed rows", halves.marks),
    Check("owners of speed halves", halves.owners),
    Check("published is certified", published.certified),
    Check("cuts of published partitions", published.cuts),
    Check("rows outside of published partitions", published.rows),
    Check("late events that no half holds", missing.late_events),
    Check("numbers of certificates", published.numbers),
    Check("subjects of certificates", published.subjects),
    Check("dates of certificates", dates.certificates),
    Check("routes", leading.routes),
    Check("dates of routes", dates.routes),
    Check("migrations that nobody carries", following.migrations),
    Check("streams that don't follow", following.streams),
    Check("writers", leading.writers),
    Check("offsets", landing.offsets),
    Check("events", landing.events),
    Check("late or on time", decided.late),
    Check("releases from quarantine", decided.released),
    Check("numbers of epochs", epochs.numbers),
    Check("contents of epochs", epochs.contents),
    Check("landing beside its checkpoint", beside.checkpoint),
    Check("landing beside its index", beside.index),
    Check("landing beside the log", beside.log),
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


def examine(platform: Platform, checks: Sequence[Check] = CHECKS, *, pause: float = PAUSE) -> Report:
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


def _look(check: Check, platform: Platform) -> list[Finding]:
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
    from anabranch.log.admin import begin_offsets, end_offsets, existing_topics

    try:
        existing_topics(settings)
    except AnabranchError:
        return None

    def offsets(topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
        return begin_offsets(settings, topic), end_offsets(settings, topic)

    return offsets
