"""Whether every commit says who made it, by which definition, and which cut it covers; and whether that can be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from anabranch.compute.speed.checkpoint_handover import REPLAY
from anabranch.core.errors import Conflict
from anabranch.lake import Cut
from anabranch.lake.commit_log import changes
from anabranch.operate.doctor.context import EVERY, Context, TableRef, TableState, each
from anabranch.operate.doctor.findings import Finding
from anabranch.views import View
from anabranch.views.definition_registry import is_registered, record_path
from deltalake import DeltaTable

_FIRST = frozenset({"create", "created"})


def rebuilt(place: TableRef) -> str:
    """How a table is made right again, by its kind. Not by restoring it to an older version: its newest note would
    still be that of the commit that was taken back."""
    match place.kind:
        case "speed":
            return (
                f"anabranch replay start {place.name} --version {place.version}: it builds the half anew from landing"
            )
        case "batch":
            days = f"anabranch reprocess {place.name} --version {place.version} --from FIRST --to LAST"
            return f"move {place.uri} away (readers have the speed half then), and {days} publishes the days anew"
        case "landing":
            again = "anabranch up lands again what the log still holds"
            return f"put {place.uri} back from a copy; else move it and its checkpoint away, and {again}"
        case _:
            return f"put {place.uri} back from a copy, and let nobody else write to it"


def reprocessed(place: TableRef, day: object) -> str:
    """How one day of a batch half is published anew."""
    return f"anabranch reprocess {place.name} --version {place.version} --from {day} --to {day}"


@each(*EVERY)
def named(_: Context, held: TableState) -> Iterator[Finding]:
    """COMMIT_UNNAMED: rows that somebody changed who says nothing. Who only moves rows between files, or has taken back
    what he did, is none of our business; and so is what a replay has replaced since."""
    known = [committed.version for committed in held.notes]
    replayed = max((c.version for c in held.notes if REPLAY in c.note.extra), default=-1)
    replayed = max(replayed, held.current[0].version if held.current else -1) if held.place.kind == "speed" else -1
    for before, after in pairwise([*known, held.table.version() + 1]):
        if after <= replayed or after == before + 1:
            continue
        with suppress(FileNotFoundError):  # cleaned up meanwhile
            strangers = [v for v in range(before + 1, after) if _changes_rows(held.table, v)]
            if strangers and _files(held, before) != _files(held, after - 1):
                taken_back = f"restore the table to version {before}, and let nobody else write to it"
                yield Finding(
                    "COMMIT_UNNAMED",
                    f"{held.place} ({held.place.uri}), version {strangers[0]}",
                    f"commit {strangers[0]} changed rows and says neither its cut nor who wrote it",
                    taken_back if after > held.table.version() else rebuilt(held.place),
                )


def _changes_rows(table: DeltaTable, version: int) -> bool:
    made = changes(table, version)
    return bool(made.added or made.removed)


def _files(held: TableState, version: int) -> set[str]:
    return set(DeltaTable(held.place.uri, version=version).file_uris())


@each(*EVERY)
def notes(_: Context, held: TableState) -> Iterator[Finding]:
    """WRITER_FOREIGN, BATCH_UNNAMED, CUT_UNNAMED."""
    place = held.place
    for committed in held.current:
        note, where = committed.note, f"{place} ({place.uri}), version {committed.version}"
        if note.writer != place.writer:
            what = f"it was written by {note.writer or 'nobody'}, the writer of {place} is {place.writer}"
            yield Finding("WRITER_FOREIGN", where, what, rebuilt(place))
        if not note.batch:
            yield Finding("BATCH_UNNAMED", where, "its note names no batch: a repeat of it isn't known", rebuilt(place))
        cutless = place.kind in ("certificates", "routes") or note.batch in _FIRST
        if not cutless and not note.cut.positions:
            what = f"its note (batch {note.batch}) names no cut: nobody knows what it covers"
            yield Finding("CUT_UNNAMED", where, what, rebuilt(place))


@each("speed", "batch")
def definitions(platform: Context, held: TableState) -> Iterator[Finding]:
    """FINGERPRINT_OTHER: a commit by another definition than the one that is registered under the version."""
    place, view = held.place, platform.view(held.place)
    expected = _registered(platform, view) if view else ""
    expected = expected or (held.current[0].note.fingerprint if held.current else "")
    for committed in held.current:
        made_by = committed.note.fingerprint
        if made_by != expected or not made_by:
            what = f"it was made by definition {made_by or '(none is named)'}, v{place.version} stands for {expected}"
            where = f"{place} ({place.uri}), version {committed.version}"
            yield Finding("FINGERPRINT_OTHER", where, what, rebuilt(place))
            return


def _registered(platform: Context, view: View) -> str:
    with suppress(FileNotFoundError):
        return str(json.loads(record_path(platform.settings, view).read_text())["fingerprint"])
    return view.fingerprint


def declared(platform: Context) -> Iterator[Finding]:
    """DEFINITION_CHANGED: the code under a version isn't what was registered under it."""
    for view in platform.views:
        try:
            is_registered(platform.settings, view)
        except Conflict as conflict:
            where = f"{conflict.fields['file']}:{conflict.fields['definition']}"
            yield Finding("DEFINITION_CHANGED", where, conflict.what.splitlines()[0], conflict.next_step)


@each("speed")
def cuts(platform: Context, held: TableState) -> Iterator[Finding]:
    """CUT_BACK: a commit covers less than the one before it. CUT_BEYOND: more than has landed."""
    place = held.place
    for before, committed in pairwise(held.current):
        if committed.note.cut.positions and not committed.note.cut.covers(before.note.cut):
            where = f"{place} ({place.uri}), version {committed.version}"
            what = f"it covers {committed.note.cut}, the commit before it {before.note.cut}"
            yield Finding("CUT_BACK", where, what, rebuilt(place))
    newest = held.newest.note.cut if held.newest else Cut()
    landed = platform.landed(newest)
    if not landed.covers(newest):
        where = f"{place} ({place.uri}), version {held.table.version()}"
        what = f"it covers {newest}, and landing is at {landed}: landing was put back, or its table is another one"
        mending = f"put landing back from a copy; else move {place.uri} away: its stream builds it again"
        yield Finding("CUT_BEYOND", where, what, mending)
