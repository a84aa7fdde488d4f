"""Renders an explanation for the terminal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.table import Table

from anabranch.certify.rendering import shown_value
from anabranch.core.text.quantities import counted
from anabranch.core.text.terminal_text import cell as escaped
from anabranch.operate.explain._candidates import LandedEvent
from anabranch.operate.explain._contributions import Change, Effect
from anabranch.operate.explain._explanation import Comparison, Explanation, Part
from anabranch.operate.explain._missing_row import shown

_NAMED = 5
_LONG = 40


def rendered(found: Explanation, limit: int, run_name: Callable[[str], str] = lambda key: key) -> Iterator[str | Table]:
    """Yields the output line by line and table by table, with at most ``limit`` events. ``run_name``: what people call
    a run."""
    yield f"{found.view} v{found.version}: {shown(found.key)}"
    yield "  " + ", ".join(f"{n}={_short(v)}" for n, v in found.row.items() if n not in found.key)
    yield from _where(found, run_name)
    yield from _behind(found)
    if found.parts:
        yield _events(found, limit)
    if found.last is not None:
        yield from _last(found, run_name)
    if found.against is not None:
        yield from _against(found, found.against)
    for each in found.left_out:
        yield f"NOT FOUND OUT: {each}"
    yield f"the view's function ran {found.runs} times in {counted(found.jobs, 'job')}, {found.seconds:.1f} s"


def _where(found: Explanation, run_name: Callable[[str], str]) -> Iterator[str]:
    late = "late events included" if found.late else "on-time events only"
    source = found.source
    if source is None:
        yield f"at {found.cut}: no table holds this row any more; computed by the view's function, {late}"
        return
    by = f", published by run {run_name(source.run)}" if source.run else ""
    yield (
        f"served by {source.half} at {found.cut}, {late}{by}, "
        f"commit {source.table_version} of {source.committed:%Y-%m-%d %H:%M:%S} UTC"
    )
    certificate = source.certificate
    if certificate is None:
        yield "certificate: none yet"
        return
    says = "equal" if certificate.equal else "NOT equal"
    yield f"certificate: both paths {says} at {certificate.cut} (run {run_name(certificate.run)})"


def _behind(found: Explanation) -> Iterator[str]:
    count = len(found.parts)
    if not found.tested:
        yield f"NOT TESTED: {counted(count, 'event')} in its reach {'has' if count == 1 else 'have'} its key"
        return
    if not found.verified:
        yield (
            f"NOT VERIFIED: the view's function over all events in its reach doesn't give this row; {count} events "
            "have its key"
        )
        return
    idle = sum(part.idle for part in found.parts)
    late = sum(part.event.late for part in found.parts)
    yield f"behind it: {counted(count, 'event')}, {late} late; the view's function over only these gives this row"
    if idle:
        yield f"  {idle} of them change nothing, even together: others have the same values or later ones override them"
    if not found.complete:
        yield "  searched only among the events that share its key, not among all"


def _events(found: Explanation, limit: int) -> Table:
    """Events with a known contribution are chosen first; the table lists the chosen ones by event time."""
    chosen = sorted(found.parts, key=lambda part: (part.effect is None, part.idle))[:limit]
    inside = {part.event.place for part in chosen}
    known = sum(part.effect is not None for part in found.parts)
    rest = len(found.parts) - len(chosen)
    caption = f"contribution computed for {known:,} of {len(found.parts):,}"
    if found.others is not None:
        caption += f"; the other {len(found.parts) - known:,} together: {_effect(found.others)}"
    caption += f"; {rest:,} more not shown" if rest else ""
    table = Table(caption=caption, caption_justify="left", box=None, pad_edge=False)
    for heading in ("event", "type", "event time", "epoch", "contract", "contributed"):
        table.add_column(heading, overflow="fold", no_wrap=heading in {"event", "event time"})
    for part in found.parts:
        if part.event.place in inside:
            table.add_row(*map(escaped, _line(part)))
    return table


def _line(part: Part) -> Sequence[str]:
    event = part.event
    version = f"v{event.contract_version}" if event.contract_version else "-"
    epoch = f"{event.epoch}{' late' if event.late else ''}"
    return str(event), event.type, shown_value(event.event_time), epoch, version, _effect(part.effect)


def _effect(effect: Effect | None) -> str:
    if effect is None:
        return "not computed"
    if effect.makes_it:
        return "the row itself: without it there is none"
    return ", ".join(map(_change, effect.changes)) or "nothing"


def _change(change: Change) -> str:
    by = change.by
    if by is not None:
        return f"{change.column} {by:+}"
    return f"{change.column} {_short(change.with_it)} (would be {_short(change.without)})"


def _last(found: Explanation, run_name: Callable[[str], str]) -> Iterator[str]:
    last = found.last
    if last is None:
        return
    when = f", {last.committed:%Y-%m-%d %H:%M:%S} UTC" if last.committed else ""
    commit = f" (commit {last.table_version}{when})" if last.table_version is not None else ""
    run = found.source.run if found.source else None
    by = f"{last.commit.replace(run, run_name(run))}{commit}: " if run and last.commit else ""
    yield f"changed last by {by}{last.why}{'' if by else commit}"
    if last.events:
        yield f"  {_named(last.events)}"
    if run and not last.before and last.with_late:
        yield "  the speed half has the same row without them"
    if last.before:
        yield "  without them: " + ", ".join(f"{c.column} {_short(c.without)}" for c in last.before)


def _against(found: Explanation, other: Comparison) -> Iterator[str]:
    there = f"v{other.version} at {other.cut}"
    if other.row is None:
        yield f"against {there}: there is no such row"
    elif not other.cells:
        yield f"against {there}: the same row"
    else:
        yield f"against {there}:"
        for cell in other.cells:
            by = f" ({cell.by:+})" if cell.by is not None else ""
            yield f"  {cell.column}: {_short(cell.without)} there, {_short(cell.with_it)} here{by}"
    alone = f"only here: {_named(other.only_here)}; only there: {_named(other.only_there)}"
    yield f"  events behind both: {other.shared}; {alone}"
    if other.definition:
        yield "  the definitions differ:"
        yield "\n".join(f"    {line}" for line in other.definition)


def _named(events: Sequence[LandedEvent]) -> str:
    if not events:
        return "none"
    more = f" and {len(events) - _NAMED} more" if len(events) > _NAMED else ""
    return ", ".join(f"{event}{' (late)' if event.late else ''}" for event in events[:_NAMED]) + more


def _short(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return f"{len(value):,} bytes {hashlib.sha256(value).hexdigest()[:8]}"
    text = shown_value(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."
