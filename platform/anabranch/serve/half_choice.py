"""Choose the half that serves each partition, by the cuts that the halves cover, never by a date."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final, Literal, get_args

from anabranch.core.errors import BadInput
from anabranch.lake import CommitMetadata
from anabranch.lake.cut import Cut

Prefer = Literal["default", "complete", "fresh", "speed"]
HalfName = Literal["batch", "speed"]
BATCH: Final[HalfName] = "batch"
SPEED: Final[HalfName] = "speed"
PUBLISHED: Final = "published"
"""Where the metadata of a batch table's commit lists its publications: runs of days of one cut and run."""


def checked_prefer(text: str) -> Prefer:
    """Parse a preference. Raises BadInput PREFER_UNKNOWN, which lists the valid ones."""
    for known in get_args(Prefer):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise BadInput(
        "PREFER_UNKNOWN", f"unknown preference {text!r}", next_step=f"use {', '.join(get_args(Prefer))}", field="prefer"
    )


def choose(
    speed: Mapping[date | None, Cut], published: Mapping[date, Cut], speed_cut: Cut, prefer: Prefer
) -> dict[date | None, HalfName]:
    """Return the half of each partition that at least one half has.

    ``speed``: per partition, the newest cut at which its rows changed. ``published``: per partition, the cut that its
    batch build covers. A published partition may be empty; then it is served empty. ``prefer``: default takes batch if
    it covers all changes that speed has; complete takes batch wherever it is published; fresh takes the half with the
    newer cut; speed takes only the speed half.
    """
    chosen: dict[date | None, HalfName] = {}
    for partition in sorted({*speed, *published}, key=lambda day: (day is not None, day or date.min)):
        covered = published.get(partition) if partition is not None else None
        needed = {"default": speed.get(partition, Cut()), "complete": Cut(), "fresh": speed_cut, "speed": None}[prefer]
        served = covered is not None and needed is not None and covered.covers(needed)
        chosen[partition] = BATCH if served else SPEED
    return chosen


def published_cuts(note: CommitMetadata) -> dict[date, Cut]:
    """Return the cut that each published partition of a batch table covers, from the table's newest commit metadata."""
    cuts: dict[date, Cut] = {}
    for entry in note.extra.get(PUBLISHED, ()):
        cuts |= dict.fromkeys(published_days(entry), Cut.from_json(entry["cut"]))
    return cuts


def published_days(entry: Mapping[str, Any]) -> list[date]:
    """Return the days of one publication of a batch table's commit metadata."""
    first, last = date.fromisoformat(entry["from"]), date.fromisoformat(entry["to"])
    return [first + timedelta(days=shift) for shift in range((last - first).days + 1)]
