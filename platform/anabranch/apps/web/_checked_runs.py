"""Lists the runs that checked a build, newest first. Each run's own page shows its checks one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from anabranch.apps.web._days import verdict_of
from anabranch.apps.web._failures import Failure, attempt
from anabranch.certify.verdict import SUFFIX, Verdict
from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.lake.layout import VersionRef

SHOWN = 200
"""Maximum number of runs that are listed."""
_VERSION = re.compile(r"v([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A run and when its verdict was ``written``; ``verdict`` is None if the file can't be read."""

    view: str
    version: int
    run: str
    written: datetime
    verdict: Verdict | None


def checked_runs(settings: Settings, view: str | None = None) -> list[CheckedRun] | Failure:
    """Returns the newest runs of a view, or of all views."""
    return attempt("the runs and their checks", lambda: _found(settings, view))


def _found(settings: Settings, view: str | None) -> list[CheckedRun]:
    files = (settings.home / "control" / "builds").glob(f"{view or '*'}/v*/*{SUFFIX}")
    newest = sorted(((_modified(file), file) for file in files), reverse=True)[:SHOWN]
    return [run for modified, file in newest if (run := _run(settings, file, modified)) is not None]


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # maintenance has deleted it since
        return 0.0


def _run(settings: Settings, file: Path, modified: float) -> CheckedRun | None:
    """Returns None for what no run has written."""
    view, version = file.parts[-3], _VERSION.fullmatch(file.parts[-2])
    if not modified or version is None or not SAFE_NAME.fullmatch(view):
        return None
    run = file.name.removesuffix(SUFFIX)
    verdict = verdict_of(VersionRef(settings, view, int(version[1])), run)
    return CheckedRun(view, int(version[1]), run, datetime.fromtimestamp(modified, UTC), verdict)
