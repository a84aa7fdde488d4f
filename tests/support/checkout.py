"""Which code a report is about, and when it was made."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

_REPORTS = "docs/*-report.*"
"""What our own long runs write: a sweep that is made in parts finds those of the parts before."""


def commit(folder: Path = Path(__file__).parents[2]) -> str:
    """Of the checkout, shortened; with a + where it isn't as it was committed, but for reports."""

    def said(*command: str) -> str:
        done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S607
        return done.stdout.strip()

    changed = said("status", "--porcelain", "--", ":/", f":(top,exclude){_REPORTS}")
    return said("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def today() -> str:
    """The day, in UTC."""
    return datetime.now(UTC).date().isoformat()
