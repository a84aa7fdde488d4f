"""Whether readers are led to something: the routes, and who keeps each table up to date."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.lake import latest_commit
from anabranch.lake.layout import speed_table
from anabranch.operate.doctor.context import Context, TableState, each
from anabranch.operate.doctor.findings import Finding, Severity
from anabranch.serve.served_versions import served_versions
from anabranch.views.retired_versions import RETIRED, retired_versions


@each("routes")
def routes(platform: Context, held: TableState) -> Iterator[Finding]:
    """ROUTE_SHARES, ROUTE_NOWHERE, ROUTE_RETIRED: by the newest commit, which every read obeys."""
    said = held.newest.note.extra if held.newest else {}
    if held.newest is None or "shares" not in said:
        return
    view, shares = held.place.name, {int(version): share for version, share in said["shares"].items()}
    where = f"{held.place} ({held.place.uri}), number {held.newest.note.batch}"
    told = ", ".join(f"v{version} {share} %" for version, share in sorted(shares.items())) or "nobody"
    again = f"anabranch routes set {view} VERSION=100 --why ..., of: "
    again += (
        ", ".join(f"v{version}" for version in served_versions(platform.settings, view)) or "no version has a table"
    )
    if sum(shares.values()) != 100 or min(shares.values()) < 0:
        yield Finding("ROUTE_SHARES", where, f"its shares don't make 100: {told}", again)
    for version in sorted(version for version, share in shares.items() if share > 0):
        committed = latest_commit(speed_table(platform.settings, view, version))
        if version in said.get(RETIRED, ()):
            mending = f"anabranch migrate reinstate {view} {version} --why ..., or {again}"
            yield Finding(
                "ROUTE_RETIRED", where, f"it leads {shares[version]} % to v{version}, which is retired", mending
            )
        elif committed is None or not any(p.epoch for p in committed.note.cut.positions.values()):
            what = f"it leads {shares[version]} % to v{version}, which has nothing to read"
            yield Finding("ROUTE_NOWHERE", where, what, again)


def writers(platform: Context) -> Iterator[Finding]:
    """WRITER_GONE: a table that no declared topic or version keeps up to date, of a version that isn't retired."""
    for place in platform.places("landing", "speed"):
        if place.kind == "landing":
            known, what = place.name in platform.declarations.topics, f"topic {place.name}"
            mending = f"declare {what} again, or move {place.uri} out of the lake"
        else:
            retired = retired_versions(platform.settings, place.name)
            known = platform.view(place) is not None or place.version in retired
            what = f"{place.name} v{place.version}"
            mending = f"declare it again, or anabranch migrate retire {place.name} {place.version} --why ..."
        if not known:
            where = f"{place} ({place.uri})"
            yield Finding(
                "WRITER_GONE", where, f"{what} is not declared: nothing writes here", mending, Severity.DOUBTFUL
            )
