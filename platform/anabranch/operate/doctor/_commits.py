"""Checks every commit's metadata: writer, batch, definition and cut are named, and are plausible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.compute.speed.checkpoint_handover import REPLAY
from anabranch.core.errors import Conflict
from anabranch.lake.cut import Cut
from anabranch.lake.layout import EVERY, TableRef, VersionRef
from anabranch.lake.log.commit_log import changes
from anabranch.lake.log.delta_tables import delta_table
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding, failed
from anabranch.views import View
from anabranch.views.definition_registry import RECORD, is_registered, record_path

_FIRST = frozenset({"create", "created"})


def how_to_rebuild(place: TableRef) -> str:
    """Says how to repair a table, by its kind. Restoring an older version is not enough: the newest commit metadata
    would still be that of the undone commit."""
    match place.kind:
        case "speed":
            return f"anabranch replay start {place.name} --version {place.version}: it rebuilds the half from landing"
        case "batch":
            days = f"anabranch reprocess {place.name} --version {place.version} --from FIRST --to LAST"
            return f"move {place.uri} away (readers then get the speed half); {days} publishes the days again"
        case "landing":
            again = "anabranch up lands again what the log still holds"
            return f"restore {place.uri} from a backup; without one, move it and its checkpoint away, and {again}"
        case _:
            return f"restore {place.uri} from a backup, and make sure that nothing else writes to it"


def how_to_reprocess(place: TableRef, day: object) -> str:
    """The command that publishes one day of a batch half again; without days (None), the one that certifies a view."""
    if day is None:
        return f"anabranch certify {place.name} --version {place.version}"
    return f"anabranch reprocess {place.name} --version {place.version} --from {day} --to {day}"


@each(*EVERY)
def unnamed_commits(_: Context, state: TableState) -> Iterator[Finding]:
    """COMMIT_UNNAMED: commits without our metadata that changed rows. Ignores commits that only move rows between
    files, that were undone, or whose rows a replay has replaced since."""
    known = [committed.version for committed in state.notes]
    replaced = state.current[0].version if state.place.kind == "speed" and state.current else -1
    replays = {committed.version for committed in state.notes if REPLAY in committed.note.extra}
    for before, after in pairwise([*known, state.table.version() + 1]):
        if after <= replaced or after == before + 1:
            continue
        with suppress(FileNotFoundError):  # log cleanup deleted it meanwhile
            strangers = [v for v in range(before + 1, after) if _changes_rows(state.table, v)]
            touched = _partitions_between(state, before, after - 1) if strangers else set()
            if after in replays:
                touched -= _partitions_between(state, after - 1, after)
            if touched:
                taken_back = f"restore the table to version {before}, and make sure that nothing else writes to it"
                yield Finding(
                    "COMMIT_UNNAMED",
                    f"{state.place} ({state.place.uri}), version {strangers[0]}",
                    f"commit {strangers[0]} changed rows and names neither its cut nor its writer",
                    taken_back if after > state.table.version() else how_to_rebuild(state.place),
                )


def _changes_rows(table: DeltaTable, version: int) -> bool:
    actions = changes(table, version)
    return bool(actions.added or actions.removed)


def _partitions_between(state: TableState, version: int, other: int) -> set[str]:
    """The partitions whose files differ between two versions; "" in a table without partitions."""
    return {partition for partition, _ in _files(state, version) ^ _files(state, other)}


def _files(state: TableState, version: int) -> set[tuple[str, str]]:
    actions = pa.table(delta_table(state.place.uri, version).get_add_actions())
    partitions = actions["partition"].to_pylist() if "partition" in actions.column_names else [""] * actions.num_rows
    return set(zip(map(str, partitions), actions["path"].to_pylist(), strict=True))


@each(*EVERY)
def metadata(_: Context, state: TableState) -> Iterator[Finding]:
    """WRITER_FOREIGN, BATCH_UNNAMED, CUT_UNNAMED."""
    place = state.place
    for committed in state.current:
        note, where = committed.note, f"{place} ({place.uri}), version {committed.version}"
        if note.writer != place.writer:
            what = f"it was written by {note.writer or '(no name)'}, the writer of {place} is {place.writer}"
            yield Finding("WRITER_FOREIGN", where, what, how_to_rebuild(place))
        if not note.batch:
            yield Finding(
                "BATCH_UNNAMED", where, "its metadata names no batch: a repeat can't be detected", how_to_rebuild(place)
            )
        cutless = place.kind in ("certificates", "routes") or note.batch in _FIRST
        if not cutless and not note.cut.positions:
            what = f"its metadata (batch {note.batch}) names no cut: what it covers is unknown"
            yield Finding("CUT_UNNAMED", where, what, how_to_rebuild(place))


@each("speed", "batch")
def definitions(context: Context, state: TableState) -> Iterator[Finding]:
    """FINGERPRINT_OTHER: a commit by a definition that isn't the one registered for the version."""
    place, view = state.place, context.view(state.place)
    expected = _registered(context, view) if view else ""
    expected = expected or (state.current[0].note.fingerprint if state.current else "")
    for committed in state.current:
        made_by = committed.note.fingerprint
        if made_by != expected or not made_by:
            what = f"definition {made_by or '(not named)'} wrote it, but v{place.version} is registered as {expected}"
            where = f"{place} ({place.uri}), version {committed.version}"
            yield Finding("FINGERPRINT_OTHER", where, what, how_to_rebuild(place))
            return


def _registered(context: Context, view: View) -> str:
    record = RECORD.read(record_path(VersionRef(context.settings, view.name, view.version)))
    return record.fingerprint if record is not None else view.fingerprint


def registered_definitions(context: Context) -> Iterator[Finding]:
    """DEFINITION_CHANGED: the code of a version isn't the registered code."""
    for view in context.views:
        try:
            is_registered(context.settings, view)
        except Conflict as conflict:
            where = f"{conflict.fields['file']}:{conflict.fields['definition']}"
            yield Finding("DEFINITION_CHANGED", where, conflict.what.splitlines()[0], conflict.next_step)
        except Exception as error:  # the registrations of the other views are still checked
            yield failed(str(record_path(VersionRef(context.settings, view.name, view.version))), error)


@each("speed")
def cuts(context: Context, state: TableState) -> Iterator[Finding]:
    """CUT_BACK: a commit covers less than the one before. CUT_BEYOND: it covers more than has landed."""
    place = state.place
    for before, committed in pairwise(state.current):
        if committed.note.cut.positions and not committed.note.cut.covers(before.note.cut):
            where = f"{place} ({place.uri}), version {committed.version}"
            what = f"it covers {committed.note.cut}, the commit before it {before.note.cut}"
            yield Finding("CUT_BACK", where, what, how_to_rebuild(place))
    newest = state.newest.note.cut if state.newest else Cut()
    landed = context.landed(newest)
    if not landed.covers(newest):
        where = f"{place} ({place.uri}), version {state.table.version()}"
        what = f"it covers {newest}, but landing is at {landed}: landing was restored or replaced by another table"
        next_step = f"restore landing from a backup; without one, move {place.uri} away: its stream builds it again"
        yield Finding("CUT_BEYOND", where, what, next_step)
