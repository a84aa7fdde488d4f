"""Which half of a view serves a partition: a rule over what each half really contains, never over a date."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final, Literal, get_args

from anabranch.core.errors import BadInput
from anabranch.lake import CommitMetadata, Cut

Prefer = Literal["default", "complete", "fresh", "speed"]
HalfName = Literal["batch", "speed"]
BATCH: Final[HalfName] = "batch"
SPEED: Final[HalfName] = "speed"


def checked_prefer(text: str) -> Prefer:
    """``text`` as a preference; BadInput PREFER_UNKNOWN names the ones that there are."""
    for known in get_args(Prefer):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise BadInput(
        "PREFER_UNKNOWN", f"{text!r} is no preference", next_step=f"use {', '.join(get_args(Prefer))}", field="prefer"
    )


def choose(
    speed: Mapping[date | None, Cut], published: Mapping[date, Cut], speed_cut: Cut, prefer: Prefer
) -> dict[date | None, HalfName]:
    """The half for each partition that either holds.

    ``speed``: the newest cut that the rows of a partition changed at. ``published``: the cut up to which batch
    computed it. A published partition may be empty: then it is served empty. default: batch where it covers all that
    speed knows of the partition; complete: batch wherever there is one; fresh: the half with the newer cut; speed:
    the speed half alone.
    """
    chosen: dict[date | None, HalfName] = {}
    for partition in sorted({*speed, *published}, key=lambda day: (day is not None, day or date.min)):
        covered = published.get(partition) if partition is not None else None
        needed = {"default": speed.get(partition, Cut()), "complete": Cut(), "fresh": speed_cut, "speed": None}[prefer]
        served = covered is not None and needed is not None and covered.covers(needed)
        chosen[partition] = BATCH if served else SPEED
    return chosen


def published_cuts(note: CommitMetadata) -> dict[date, Cut]:
    """Each published partition of a batch table and the cut that it covers, from the table's newest note."""
    cuts: dict[date, Cut] = {}
    for entry in note.extra.get("published", ()):
        cut = Cut.from_json(entry["cut"])
        first, last = date.fromisoformat(entry["from"]), date.fromisoformat(entry["to"])
        cuts |= {first + timedelta(days=shift): cut for shift in range((last - first).days + 1)}
    return cuts
