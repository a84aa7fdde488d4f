"""What a part of the platform says about its work, for `anabranch status`: a small file that it replaces each second.

Counts go on over restarts of the part; a kill loses those of its last second.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings

log = logging.getLogger(__name__)
MOST_REASONS: Final = 20
"""Kinds of reasons that are counted apart; the rest is counted as one."""
OTHER_REASONS: Final = "other reasons"


@dataclass
class Source:
    """What came from one source, like a queue. ``waits_for``: why nothing is taken now; empty while all is well.
    ``counts``: by what was done (``taken``). ``refused``: how many never became a record, by the reason."""

    waits_for: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def refuse(self, reason: str, number: int = 1) -> None:
        if reason not in self.refused and len(self.refused) >= MOST_REASONS:
            reason = OTHER_REASONS
        self.refused[reason] = self.refused.get(reason, 0) + number

    def __str__(self) -> str:
        said = [f"{number:,} {what}" for what, number in self.counts.items()]
        said += [f"{number:,} refused ({reason})" for reason, number in self.refused.items()]
        said += [f"waits: {self.waits_for}"] if self.waits_for else []
        return ", ".join(said) or "nothing yet"


@dataclass(frozen=True, slots=True)
class PartReport:
    """``pid``: the process that wrote it."""

    pid: int
    sources: Mapping[str, Source] = field(hash=False)


REPORT: Final = ControlFile("report of a part", PartReport)


def read(settings: Settings, part: str) -> PartReport | None:
    """The newest report of a part; None if there is none that can be read."""
    try:
        return REPORT.read(_path(settings, part))
    except (OSError, ValueError, AnabranchError):
        return None


def sources(settings: Settings, part: str, names: Iterable[str]) -> dict[str, Source]:
    """The sources that the part has now, with the counts of its last process."""
    before = read(settings, part)
    known = before.sources if before else {}
    return {name: Source("", known[name].counts, known[name].refused) if name in known else Source() for name in names}


def write(settings: Settings, part: str, now: Mapping[str, Source]) -> None:
    """Replace the report. A full disk is no reason to end."""
    copies = {name: Source(each.waits_for, dict(each.counts), dict(each.refused)) for name, each in now.items()}
    try:
        REPORT.write(_path(settings, part), PartReport(os.getpid(), copies))
    except OSError as error:
        log.warning("the report of %s can't be written: %s", part, error)


def text(settings: Settings, part: str) -> str:
    """The report in words; empty if there is none."""
    found = read(settings, part)
    return "; ".join(f"{name}: {source}" for name, source in found.sources.items()) if found else ""


def _path(settings: Settings, part: str) -> Path:
    return settings.run / f"{part}-report.json"
