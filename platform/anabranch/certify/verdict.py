"""The verdict of reconciliation on one build: which partitions may be published, and why the others may not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from anabranch.certify._run_checks import CheckResult
from anabranch.certify.late_changes import LateChanges
from anabranch.compute.batch.manifest import manifest_path, unreadable_now
from anabranch.core.control_file import ControlFile
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef

SUFFIX: Final = ".verdict.json"
"""The suffix of a verdict's file, next to the build's manifest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``equal``: partitions that passed everything. ``refused``: the others, with the reason. ``whole``: for a kappa
    view, which has no partitions, "equal" or the reason. ``results``: those of all checks. ``report``: the differences
    as text; may be empty. ``seconds``: the duration of the reconciliation, without the report; 0 in old ones."""

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
    seconds: float = 0.0


def _first_format(content: dict[str, Any]) -> dict[str, Any]:
    """Some had other names, and the oldest ones only the number of checks."""
    checks = content.get("checks")
    named = {name: value for name, value in content.items() if name not in ("certified_at", "checks")}
    return {**named, "cut": content["certified_at"], "results": checks if isinstance(checks, list) else []}


VERDICT: Final = ControlFile("verdict", Verdict, (_first_format,))


def verdict_path(ref: VersionRef, run: str) -> Path:
    """Return the verdict's path, in the folder of the build's manifest."""
    return manifest_path(ref, run).with_suffix(SUFFIX)


def write_verdict(settings: Settings, verdict: Verdict) -> Path:
    """Write the verdict atomically. A repeat of the run replaces it."""
    path = verdict_path(VersionRef(settings, verdict.view, verdict.version), verdict.run)
    return VERDICT.write(path, verdict)


def read_verdict(ref: VersionRef, run: str) -> Verdict:
    """Read a run's verdict. Raises BrokenState VERDICT_MISSING if the run was not reconciled, or its verdict is
    damaged; TryAgain BUILD_UNREADABLE if that can't be read now. Publish nothing then."""
    path = verdict_path(ref, run)
    try:
        found = VERDICT.read(path)
    except OSError as error:
        raise unreadable_now(path, error) from error
    except ValueError as error:
        raise _missing(f"{ref}: the verdict of run {run} is unreadable: {error}") from error
    if found is None:
        raise _missing(f"{ref}: run {run} has no verdict: no {path}")
    return found


def _missing(what: str) -> BrokenState:
    return BrokenState(
        "VERDICT_MISSING",
        what,
        state="nothing of it may be published",
        next_step="run its rebuild step again: partitions that are already built are kept",
    )
