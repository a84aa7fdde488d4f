"""Checks that routes lead to readable versions, and that every table has a declared writer."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding, Severity
from anabranch.serve.served_versions import served_versions
from anabranch.views.retired_versions import RETIRED, retired_versions


@each("routes")
def routes(context: Context, state: TableState) -> Iterator[Finding]:
    """ROUTE_SHARES, ROUTE_NOWHERE, ROUTE_RETIRED: by the newest commit, which every reader follows."""
    extra = state.newest.note.extra if state.newest else {}
    if state.newest is None or "shares" not in extra:
        return
    view, shares = state.place.name, {int(version): share for version, share in extra["shares"].items()}
    where = f"{state.place} ({state.place.uri}), number {state.newest.note.batch}"
    shares_text = ", ".join(f"v{version} {share} %" for version, share in sorted(shares.items())) or "nobody"
    set_route = f"anabranch routes set {view} VERSION=100 --why ..., of: "
    set_route += (
        ", ".join(f"v{version}" for version in served_versions(context.settings, view)) or "no version has a table"
    )
    if sum(shares.values()) != 100 or min(shares.values()) < 0:
        yield Finding("ROUTE_SHARES", where, f"its shares don't add up to 100: {shares_text}", set_route)
    for version in sorted(version for version, share in shares.items() if share > 0):
        committed = latest_commit(VersionRef(context.settings, view, version).speed_table)
        if version in extra.get(RETIRED, ()):
            next_step = f"anabranch migrate reinstate {view} {version} --why ..., or {set_route}"
            yield Finding(
                "ROUTE_RETIRED", where, f"it sends {shares[version]} % to v{version}, which is retired", next_step
            )
        elif committed is None or not any(p.epoch for p in committed.note.cut.positions.values()):
            what = f"it sends {shares[version]} % to v{version}, which has nothing to read"
            yield Finding("ROUTE_NOWHERE", where, what, set_route)


def writers(context: Context) -> Iterator[Finding]:
    """WRITER_GONE: a table without a declared topic or version that writes it; retired versions are skipped."""
    for place in context.places("landing", "speed"):
        if place.kind == "landing":
            known, what = place.name in context.declarations.topics, f"topic {place.name}"
            next_step = f"declare {what} again, or move {place.uri} out of the lake"
        else:
            retired = retired_versions(context.settings, place.name)
            known = context.view(place) is not None or place.version in retired
            what = f"{place.name} v{place.version}"
            next_step = f"declare it again, or anabranch migrate retire {place.name} {place.version} --why ..."
        if not known:
            where = f"{place} ({place.uri})"
            yield Finding(
                "WRITER_GONE", where, f"{what} is not declared: nothing writes here", next_step, Severity.DOUBTFUL
            )
