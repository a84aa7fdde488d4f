"""Whether anything is dated ahead: nothing is ordered or timed by it, but people read it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from anabranch.certify.certificates import certificate_rows
from anabranch.operate.doctor.commits import reprocessed
from anabranch.operate.doctor.context import Context, TableRef, TableState, each
from anabranch.operate.doctor.findings import Finding, Severity

APART = 10 * 60
"""Seconds that the clocks of two machines of one platform may be apart."""
_CLOCK = "set the clock of the machine that wrote it (timedatectl), then "


@each("certificates")
def certificates(platform: Context, _: TableState) -> Iterator[Finding]:
    """DATED_AHEAD: the newest certificate of a partition. Of those from before they were numbered the one that is dated
    last counts as the newest, and hides the others."""
    newest = {(row["view"], row["version"], row["partition"]): row for row in certificate_rows(platform.settings)}
    ahead = [row for row in newest.values() if row["created"].timestamp() > platform.now + APART]
    if ahead:
        row, more = ahead[0], f"; so are those of {len(ahead) - 1} more partitions" if len(ahead) > 1 else ""
        view, version, day = row["view"], row["version"], row["partition"]
        where = f"certificate of {view} v{version}, {day or 'whole'}, run {row['run']}"
        what = f"it is dated {row['created'].isoformat()}, which is still to come{more}"
        mending = f"{reprocessed(TableRef('batch', '', view, version), day)}: a newer certificate holds"
        yield Finding("DATED_AHEAD", where, what, _CLOCK + mending, Severity.DOUBTFUL)


@each("routes")
def routes(platform: Context, held: TableState) -> Iterator[Finding]:
    """DATED_AHEAD: the newest route of a view. On another machine a rollback is timed by it."""
    said = held.newest.note.extra if held.newest else {}
    changed_at = said.get("changed_at")
    if changed_at and datetime.fromisoformat(changed_at).timestamp() > platform.now + APART:
        view = held.place.name
        again = f"anabranch routes set {view} with its shares again; while it moves: anabranch migrate hasten {view}"
        what = f"it is dated {changed_at}, which is still to come"
        where = f"{held.place} ({held.place.uri}), number {held.newest.note.batch if held.newest else ''}"
        yield Finding("DATED_AHEAD", where, what, _CLOCK + again, Severity.DOUBTFUL)
