"""The verdict of reconciliation on one build: which partitions may be published, and why the others may not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from anabranch.certify.late_changes import LateChanges
from anabranch.certify.run_checks import CheckResult
from anabranch.compute.batch.manifest import manifest_path
from anabranch.core.atomic_files import write_atomically
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings

SUFFIX: Final = ".verdict.json"
"""The suffix of a verdict's file, beside the build's manifest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``equal``: partitions that passed everything. ``refused``: the others, with the reason. ``whole``: for a kappa
    view, which has no partitions, "equal" or the reason. ``results``: those of all checks. ``report``: the differences
    as text; may be empty."""

    view: str
    version: int
    run: str
    cut: str
    speed_version: int
    equal: tuple[date, ...]
    refused: Mapping[date, str] = field(hash=False)
    late_changes: tuple[LateChanges, ...]
    results: tuple[CheckResult, ...] = ()
    report: str = ""
    whole: str | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "version": self.version,
            "run": self.run,
            "certified_at": self.cut,
            "speed_version": self.speed_version,
            "equal": [day.isoformat() for day in self.equal],
            "refused": {day.isoformat(): reason for day, reason in sorted(self.refused.items())},
            "late_changes": [
                {
                    "partition": c.partition.isoformat(),
                    "late_events": c.late_events,
                    "added": c.added,
                    "changed": c.changed,
                    "removed": c.removed,
                    "comparable": c.comparable,
                }
                for c in self.late_changes
            ],
            "checks": [result.to_json() for result in self.results],
            "report": self.report,
            "whole": self.whole,
            "created": self.created.isoformat(),
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Verdict:
        changes = [c | {"partition": date.fromisoformat(c["partition"])} for c in content["late_changes"]]
        checks = content["checks"]  # an older verdict has only their number
        return Verdict(
            view=content["view"],
            version=content["version"],
            run=content["run"],
            cut=content["certified_at"],
            speed_version=content["speed_version"],
            equal=tuple(date.fromisoformat(day) for day in content["equal"]),
            refused={date.fromisoformat(day): reason for day, reason in content["refused"].items()},
            late_changes=tuple(LateChanges(**c) for c in changes),
            results=tuple(map(CheckResult.from_json, checks)) if isinstance(checks, list) else (),
            report=content["report"],
            whole=content["whole"],
            created=datetime.fromisoformat(content["created"]),
        )


def verdict_path(settings: Settings, view: str, version: int, run: str) -> Path:
    """Return the verdict's path, in the folder of the build's manifest."""
    return manifest_path(settings, view, version, run).with_suffix(SUFFIX)


def write_verdict(settings: Settings, verdict: Verdict) -> Path:
    """Write the verdict atomically. A repeat of the run replaces it."""
    path = verdict_path(settings, verdict.view, verdict.version, verdict.run)
    return write_atomically(path, json.dumps(verdict.to_json()))


def read_verdict(settings: Settings, view: str, version: int, run: str) -> Verdict:
    """Read a run's verdict. Raises BrokenState VERDICT_MISSING if the run was not reconciled: publish nothing then."""
    try:
        return Verdict.from_json(json.loads(verdict_path(settings, view, version, run).read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BrokenState(
            "VERDICT_MISSING",
            f"{view} v{version}: run {run} has no verdict: {error}",
            state="nothing of it may be published",
            next_step="run its rebuild step again: partitions that are already built are kept",
        ) from error
