"""Says why a row doesn't exist: which rows have a near key, and what happened to the events of its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.errors import BadInput
from anabranch.core.text.terminal_text import printable
from anabranch.lake.cut import Cut
from anabranch.operate.explain._candidate_filters import by_key
from anabranch.operate.explain._candidates import Candidates, Row
from anabranch.views import View


def row_missing(
    view: View, key: Row, cut: Cut, found: Candidates, near: Sequence[Row], *, late: bool, landed: Cut
) -> BadInput:
    """Returns BadInput ROW_MISSING. ``landed`` is the newest cut; the row's half doesn't have the events after ``cut``
    yet."""
    events = found.events
    places = by_key(view, key, events, found.up_to(landed, late=True))
    mine = [events[place] for place in sorted(places)]
    covered = [event for event in mine if event.epoch <= cut.epoch(event.topic)]
    counts = {
        "seen": sum(late or not event.late for event in covered),
        "late": sum(event.late and not late for event in covered),
        "after": len(mine) - len(covered),
    }
    return BadInput(
        "ROW_MISSING",
        f"{view.name} v{view.version} has no row {shown(key)} at {cut}",
        state=_state(counts, cut),
        next_step=_next(view, near, counts),
        key=dict(key),
        near=[{name: row[name] for name in view.key} for row in near],
        events=[str(event) for event in mine[:20]],
        **counts,
    )


def shown(row: Row) -> str:
    return printable(", ".join(f"{name}={plain(value)}" for name, value in row.items()))


def plain(value: Any) -> str:
    """A key's value in the form that ``--key`` accepts."""
    if value is None:
        return "null"
    if hasattr(value, "astimezone"):
        return str(value.isoformat().replace("+00:00", "Z"))
    return str(value)


def _state(counts: dict[str, int], cut: Cut) -> str:
    said = []
    if counts["seen"]:
        said.append(
            f"{counts['seen']} events have this key up to {cut}, but the view's function returns no row for them"
        )
    if counts["late"]:
        said.append(f"{counts['late']} late events have it: batch includes them, the speed half doesn't")
    if counts["after"]:
        said.append(f"{counts['after']} events with this key landed after {cut}")
    return "; ".join(said) or "no landed event has this key"


def _next(view: View, near: Sequence[Row], counts: dict[str, int]) -> str:
    if counts["late"] and not counts["seen"]:
        return "reprocess its day, or read it with --prefer complete"
    if near:
        rows = "\n           ".join(shown({name: row[name] for name in view.key}) for row in near)
        return f"use one of these keys, nearest first:\n           {rows}"
    return f"list the rows that exist: anabranch read {view.name}"
