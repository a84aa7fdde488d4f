"""Checks that batch serves only what was certified: each published partition's rows, cut and certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from anabranch.certify.certificates import certificate_rows
from anabranch.compute.batch.publish import Published, published_in
from anabranch.core.settings import SAFE_NAME
from anabranch.lake.layout import TableRef
from anabranch.operate.doctor._commits import how_to_rebuild, how_to_reprocess
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding, Severity
from anabranch.serve.routes import route_history
from anabranch.serve.served_versions import served_versions

_NUMBERS = ("rows", "hash_sum", "hash_xor")


@each("batch")
def certified(context: Context, state: TableState) -> Iterator[Finding]:
    """PUBLISHED_UNCERTIFIED: a published partition without an equal certificate of the run that published it. A later
    certificate of the same run may be unequal: a cleared task compares again, and what is published stays."""
    place, published = state.place, _published(state)
    if not published:
        return
    found = certificate_rows(context.settings, f"view = '{place.name}' and version = {place.version}")
    equal = {(row["partition"], row["run"]) for row in found if _is_equal(row)}
    without = sorted(day for day, shown in published.items() if (day, shown.run) not in equal)
    if without:
        run, more = published[without[0]].run, f", and {len(without) - 1} more days" if len(without) > 1 else ""
        what = f"run {run} published {without[0]} without an equal certificate{more}"
        where = f"{place} ({place.uri}), partition {without[0]}"
        yield Finding("PUBLISHED_UNCERTIFIED", where, what, how_to_reprocess(place, without[0]))


@each("batch")
def cuts(context: Context, state: TableState) -> Iterator[Finding]:
    """PUBLISHED_BACK: a partition's cut went back. PUBLISHED_BEYOND: it is beyond what has landed."""
    place = state.place
    now = _published(state)
    for committed in state.notes:
        known = published_in(committed.note)
        back = [day for day in sorted(known) if day not in now or not now[day].cut.covers(known[day].cut)]
        if back:
            day, more = back[0], f"; also {len(back) - 1} more days" if len(back) > 1 else ""
            shown = f"is now at {now[day].cut}" if day in now else "is no longer published"
            what = f"version {committed.version} published it at {known[day].cut}, but it {shown}{more}"
            yield Finding(
                "PUBLISHED_BACK", f"{place} ({place.uri}), partition {day}", what, how_to_reprocess(place, day)
            )
            break
    for day, cut in {str(published.cut): (day, published.cut) for day, published in sorted(now.items())}.values():
        landed = context.landed(cut)
        if not landed.covers(cut):
            what = f"it is published at {cut}, but landing is at {landed}"
            yield Finding("PUBLISHED_BEYOND", f"{place} ({place.uri}), partition {day}", what, how_to_rebuild(place))
            return


@each("batch")
def rows(_: Context, state: TableState) -> Iterator[Finding]:
    """PUBLISHED_NOWHERE: rows in a partition that the newest commit metadata doesn't list as published; readers don't
    see them."""
    place, published = state.place, _published(state)
    strays = sorted({str(file.partition) for file in state.files()} - {str(day) for day in published})
    if strays:
        what = f"there are rows in {strays[0]}, which no run has published"
        yield Finding("PUBLISHED_NOWHERE", f"{place} ({place.uri}), partition {strays[0]}", what, how_to_rebuild(place))


@each("certificates")
def numbers(context: Context, _: TableState) -> Iterator[Finding]:
    """CERTIFICATE_WRONG: a partition's newest certificate says equal but its numbers differ, or the reverse."""
    rows = certificate_rows(context.settings)
    newest = {(row["view"], row["version"], row["partition"]): row for row in rows}
    for (view, version, day), row in newest.items():
        if bool(row["equal"]) != _is_equal(row):
            place = TableRef("batch", "", view, version)
            where = f"certificate of {view} v{version}, {day or 'whole'}, run {row['run']}"
            what = f"it says equal={row['equal']}, but its counts and hashes of both sides say the opposite"
            next_step = f"{how_to_reprocess(place, day)}: a newer certificate replaces it"
            yield Finding("CERTIFICATE_WRONG", where, what, next_step)
            return


@each("certificates")
def subjects(context: Context, state: TableState) -> Iterator[Finding]:
    """CERTIFIED_NOTHING: certificates of a version that has no table and was never retired. When a retired version is
    dropped, its certificates stay as history."""
    settings = context.settings
    for view, version in sorted({(row["view"], row["version"]) for row in certificate_rows(settings)}):
        if not SAFE_NAME.fullmatch(view) or version in served_versions(settings, view):
            continue
        if not any(version in route.retired for route in route_history(settings, view)):
            where = f"{state.place} ({state.place.uri}), {view} v{version}"
            what = f"{view} v{version} has certificates but no table, and was not retired"
            next_step = f"restore {TableRef('speed', '', view, version)}, or declare it again: anabranch up builds it"
            yield Finding("CERTIFIED_NOTHING", where, what, next_step, Severity.DOUBTFUL)


def _published(state: TableState) -> Mapping[date, Published]:
    return published_in(state.newest.note) if state.newest else {}


def _is_equal(row: Mapping[str, Any]) -> bool:
    return all(row[f"speed_{number}"] == row[f"expected_{number}"] for number in _NUMBERS)
