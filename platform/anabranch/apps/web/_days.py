"""Determines the state of every day of one view version, for the calendar and for the day's own page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Literal

from anabranch.apps.web._certificate_cache import CertificateSummaries, CertificateSummary
from anabranch.apps.web._dirty_days import Days as DirtyDays
from anabranch.apps.web._dirty_days import LookupResult, NewEvents
from anabranch.certify.verdict import VERDICT, Verdict, verdict_path
from anabranch.compute.batch.publish import Published, published_in
from anabranch.core.errors import AnabranchError
from anabranch.core.text.quantities import counted
from anabranch.lake.layout import VersionRef
from anabranch.serve.half_choice import BATCH, HalfName, choose
from anabranch.serve.table_snapshots import Snapshot, snapshot
from anabranch.views.model.definition import PARTITION_DATE

State = Literal["held", "dirty", "lacking", "equal", "published", "certified", "speed"]
STATES: Mapping[State, str] = {
    "equal": "published, both paths equal",
    "dirty": "dirty: more has landed since it was published",
    "lacking": "never published: its late events are in no half",
    "held": "the paths differ, or it was held back",
    "published": "published, without a certificate",
    "certified": "both paths equal, not published",
    "speed": "speed only",
}


@dataclass(frozen=True, slots=True)
class Day:
    """A partition (None: the whole of a kappa view). ``serves``: the half that readers get it from. ``refused``: why
    the newest verdict doesn't allow publishing it. ``lacking``: late events in no half, because the day was never
    published."""

    day: date | None
    serves: HalfName | None = None
    published: Published | None = None
    mark: CertificateSummary | None = None
    refused: str = ""
    dirty: NewEvents | None = None
    lacking: int = 0

    @property
    def state(self) -> State:
        if self.refused or (self.mark is not None and not self.mark.equal):
            return "held"
        if self.dirty is not None:
            return "dirty"
        if self.lacking:
            return "lacking"
        if self.published is not None:
            return "equal" if self.mark is not None else "published"
        return "certified" if self.mark is not None else "speed"

    @property
    def says(self) -> str:
        """A description in one line."""
        whole = self.day is None and self.state == "certified"  # what has no day is never published
        parts = ["both paths equal" if whole else STATES[self.state]]
        if self.published is not None:
            parts.append(f"published at {self.published.cut}")
        if self.refused:
            parts.append(self.refused)
        if self.dirty is not None:
            parts.append(f"{counted(self.dirty.events, 'event')} since, {self.dirty.late:,} of them late")
        if self.lacking:
            parts.append(f"{self.lacking:,} of them")
        if self.mark is not None and self.mark.late_events:
            parts.append(f"{counted(self.mark.late_events, 'late event')} in its certificate")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Halves:
    """Both tables of a version at one moment. ``speed`` is None until its stream has created it."""

    speed: Snapshot | None
    batch: Snapshot | None
    published: Mapping[date, Published] = field(hash=False)

    @property
    def kappa(self) -> bool:
        return self.speed is not None and PARTITION_DATE not in self.speed.schema.names

    @staticmethod
    def of(ref: VersionRef) -> Halves:
        speed = snapshot(ref.speed_table)
        batch = snapshot(ref.batch_table)
        return Halves(speed, batch, published_in(batch.newest.note) if batch else {})

    def serving(self) -> Mapping[date | None, HalfName]:
        """The half that readers get each partition from by default."""
        if self.speed is None:
            return dict.fromkeys(self.published, BATCH)
        cuts = {day: published.cut for day, published in self.published.items()}
        return choose(self.speed.changed, cuts, self.speed.newest.note.cut, "default")


def days_of(
    ref: VersionRef, halves: Halves, marks: CertificateSummaries, looked: LookupResult
) -> dict[date | None, Day]:
    """Returns every partition that anything is known about, in order."""
    serving = halves.serving()
    runs = {mark.run for mark in marks.values()}
    verdicts = {run: verdict for run in runs if (verdict := verdict_of(ref, run)) is not None}
    days = sorted(
        {*serving, *marks, *halves.published, *looked.days, *looked.never},
        key=lambda day: (day is not None, day or date.min),
    )
    found = {}
    for day in days:
        mark = marks.get(day)
        verdict = verdicts.get(mark.run) if mark else None
        found[day] = Day(
            day,
            serving.get(day),
            halves.published.get(day) if day else None,
            mark,
            refusal(verdict, day),
            still_dirty(looked.days, day, halves),
            still_lacking(looked, day, halves),
        )
    return found


def still_dirty(dirty: DirtyDays, day: date | None, halves: Halves) -> NewEvents | None:
    """Returns what was found dirty about a day, unless it was published again since."""
    since, published = (dirty.get(day), halves.published.get(day)) if day else (None, None)
    return since if since and published and since.at == str(published.cut) else None


def still_lacking(looked: LookupResult, day: date | None, halves: Halves) -> int:
    """Returns how many late events of a day are in no half; 0 if it was published since."""
    return looked.never.get(day, 0) if day is not None and day not in halves.published else 0


def refusal(verdict: Verdict | None, day: date | None) -> str:
    """Returns why a run's verdict doesn't allow publishing this partition; "" if it does."""
    if verdict is None:
        return ""
    if day is None:
        return "" if verdict.whole in (None, "equal") else str(verdict.whole)
    return verdict.refused.get(day, "")


def verdict_of(ref: VersionRef, run: str) -> Verdict | None:
    """Returns a run's verdict; None if it was deleted or never existed."""
    try:
        path = verdict_path(ref, run)
        return _verdict(path, path.stat().st_mtime_ns)
    except (AnabranchError, OSError, ValueError):
        return None


@lru_cache(maxsize=1_000)
def _verdict(path: Path, written: int) -> Verdict:
    """Cached by modification time: a repeat of the run replaces the file."""
    return VERDICT.from_text(path.read_text(), path)
