"""Whether batch serves only what was certified: each published partition, its rows, its cut and its certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from anabranch.certify.certificates import certificate_rows
from anabranch.compute.batch.publish import Published, published_in
from anabranch.core.settings import SAFE_NAME
from anabranch.operate.doctor.commits import rebuilt, reprocessed
from anabranch.operate.doctor.context import Context, TableRef, TableState, each
from anabranch.operate.doctor.findings import Finding, Severity
from anabranch.serve.routes import route_history
from anabranch.serve.served_versions import served_versions

_NUMBERS = ("rows", "hash_sum", "hash_xor")


@each("batch")
def certified(platform: Context, held: TableState) -> Iterator[Finding]:
    """PUBLISHED_UNCERTIFIED: a published partition without an equal certificate of the run that published it. A later
    one of the same run may differ: a task that is cleared judges again, and what is published stays."""
    place, published = held.place, _published(held)
    if not published:
        return
    found = certificate_rows(platform.settings, f"view = '{place.name}' and version = {place.version}")
    equal = {(row["partition"], row["run"]) for row in found if _is_equal(row)}
    without = sorted(day for day, shown in published.items() if (day, shown.run) not in equal)
    if without:
        run, more = published[without[0]].run, f", and {len(without) - 1} more days" if len(without) > 1 else ""
        what = f"run {run} has published {without[0]} without an equal certificate{more}"
        where = f"{place} ({place.uri}), partition {without[0]}"
        yield Finding("PUBLISHED_UNCERTIFIED", where, what, reprocessed(place, without[0]))


@each("batch")
def cuts(platform: Context, held: TableState) -> Iterator[Finding]:
    """PUBLISHED_BACK, PUBLISHED_BEYOND: the cut of a partition never goes back, nor beyond what has landed."""
    place = held.place
    now = _published(held)
    for committed in held.notes:
        known = published_in(committed.note)
        back = [day for day in sorted(known) if day not in now or not now[day].cut.covers(known[day].cut)]
        if back:
            day, more = back[0], f"; so it is with {len(back) - 1} more days" if len(back) > 1 else ""
            shown = f"is at {now[day].cut}" if day in now else "is not any more"
            what = f"version {committed.version} published it at {known[day].cut}, and it {shown}{more}"
            yield Finding("PUBLISHED_BACK", f"{place} ({place.uri}), partition {day}", what, reprocessed(place, day))
            break
    for day, cut in {str(published.cut): (day, published.cut) for day, published in sorted(now.items())}.values():
        landed = platform.landed(cut)
        if not landed.covers(cut):
            what = f"it is published at {cut}, and landing is at {landed}"
            yield Finding("PUBLISHED_BEYOND", f"{place} ({place.uri}), partition {day}", what, rebuilt(place))
            return


@each("batch")
def rows(_: Context, held: TableState) -> Iterator[Finding]:
    """PUBLISHED_NOWHERE: rows in a partition that the newest note doesn't call published; readers don't see them."""
    place, published = held.place, _published(held)
    strays = sorted({str(file.partition) for file in held.files()} - {str(day) for day in published})
    if strays:
        what = f"rows lie in {strays[0]}, which no run has published"
        yield Finding("PUBLISHED_NOWHERE", f"{place} ({place.uri}), partition {strays[0]}", what, rebuilt(place))


@each("certificates")
def numbers(platform: Context, _: TableState) -> Iterator[Finding]:
    """CERTIFICATE_WRONG: the newest of a partition says equal where its numbers differ, or the other way round."""
    rows = certificate_rows(platform.settings)
    newest = {(row["view"], row["version"], row["partition"]): row for row in rows}
    for (view, version, day), row in newest.items():
        if bool(row["equal"]) != _is_equal(row):
            place = TableRef("batch", "", view, version)
            where = f"certificate of {view} v{version}, {day or 'whole'}, run {row['run']}"
            what = f"it says equal={row['equal']}, and its numbers of both sides say otherwise"
            yield Finding("CERTIFICATE_WRONG", where, what, f"{reprocessed(place, day)}: a newer certificate holds")
            return


@each("certificates")
def subjects(platform: Context, held: TableState) -> Iterator[Finding]:
    """CERTIFIED_NOTHING: certificates of a version that has no table, and that was never retired: those stay, as
    history, when a retired version is dropped."""
    settings = platform.settings
    for view, version in sorted({(row["view"], row["version"]) for row in certificate_rows(settings)}):
        if not SAFE_NAME.fullmatch(view) or version in served_versions(settings, view):
            continue
        if not any(version in route.retired for route in route_history(settings, view)):
            where = f"{held.place} ({held.place.uri}), {view} v{version}"
            what = f"{view} v{version} has certificates and no table, and nobody has retired it"
            mending = f"restore {TableRef('speed', '', view, version)}, or declare it again: anabranch up builds it"
            yield Finding("CERTIFIED_NOTHING", where, what, mending, Severity.DOUBTFUL)


def _published(held: TableState) -> Mapping[date, Published]:
    return published_in(held.newest.note) if held.newest else {}


def _is_equal(row: Mapping[str, Any]) -> bool:
    return all(row[f"speed_{number}"] == row[f"expected_{number}"] for number in _NUMBERS)
