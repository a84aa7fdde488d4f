"""Checks that certificates and routes aren't dated in the future: nothing is ordered by these times, but people read
them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from anabranch.certify.certificates import certificate_rows
from anabranch.lake.layout import TableRef
from anabranch.operate.doctor._commits import how_to_reprocess
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding, Severity

APART = 10 * 60
"""Seconds by which the clocks of two machines of one platform may differ."""
_CLOCK = "set the clock of the machine that wrote it (timedatectl), then "


@each("certificates")
def certificates(context: Context, _: TableState) -> Iterator[Finding]:
    """DATED_AHEAD: the newest certificate of a partition. Among certificates from before they were numbered, the one
    with the latest date counts as the newest and hides the others."""
    newest = {(row["view"], row["version"], row["partition"]): row for row in certificate_rows(context.settings)}
    ahead = [row for row in newest.values() if row["created"].timestamp() > context.now + APART]
    if ahead:
        row, more = ahead[0], f"; also those of {len(ahead) - 1} more partitions" if len(ahead) > 1 else ""
        view, version, day = row["view"], row["version"], row["partition"]
        where = f"certificate of {view} v{version}, {day or 'whole'}, run {row['run']}"
        what = f"it is dated {row['created'].isoformat()}, in the future{more}"
        next_step = f"{how_to_reprocess(TableRef('batch', '', view, version), day)}: a newer certificate replaces it"
        yield Finding("DATED_AHEAD", where, what, _CLOCK + next_step, Severity.DOUBTFUL)


@each("routes")
def routes(context: Context, state: TableState) -> Iterator[Finding]:
    """DATED_AHEAD: the newest route of a view. Another machine times a rollback by it."""
    extra = state.newest.note.extra if state.newest else {}
    changed_at = extra.get("changed_at")
    if changed_at and datetime.fromisoformat(changed_at).timestamp() > context.now + APART:
        view = state.place.name
        set_route = (
            f"anabranch routes set {view} with the same shares; during a migration: anabranch migrate hasten {view}"
        )
        what = f"it is dated {changed_at}, in the future"
        where = f"{state.place} ({state.place.uri}), number {state.newest.note.batch if state.newest else ''}"
        yield Finding("DATED_AHEAD", where, what, _CLOCK + set_route, Severity.DOUBTFUL)
