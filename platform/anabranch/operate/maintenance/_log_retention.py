"""Writes checkpoints of a table's log, and deletes its expired commits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from deltalake import DeltaTable

from anabranch.core.atomic_files import locked
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import LOG_DAYS
from anabranch.lake.layout import READERS_BEGIN, TableRef, landing_files_lock, versions_below
from anabranch.lake.log.archived_commits import log_files
from anabranch.lake.log.delta_tables import folder_of
from anabranch.lake.log.rewrite_commits import log_of
from anabranch.lake.streams.stream_checkpoint import position_in
from anabranch.operate.maintenance._concurrent_files import size, touched
from anabranch.operate.maintenance._report import DAY, Action, ActionKind, Policy
from anabranch.operate.maintenance._retention_holds import replay_over


def checkpoint(place: TableRef, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Writes a checkpoint if many commits follow the last one: opening the table reads them one by one."""
    table = open_table(place.uri)
    if table is None:
        return
    behind = table.version() - max(_checkpointed(table), -1)
    if behind >= policy.checkpoint_commits:
        if not plan:
            table.create_checkpoint()
        yield Action(ActionKind.CHECKPOINTED, str(place), f"commits up to {table.version()} in one file", behind)


def clean(settings: Settings, place: TableRef, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Deletes commits that are past the log's retention and contained in a checkpoint, and drafts of killed writers.
    The newest commit is always kept: its metadata says what the table covers."""
    with ExitStack() as held:
        if place.kind == "landing" and not plan:
            held.enter_context(locked(landing_files_lock(settings), wait=READERS_BEGIN))
        table = open_table(place.uri)
        if table is None:
            return
        before = policy.now - LOG_DAYS * DAY
        old = [*_expired(table, before)]
        if old and place.kind == "landing":
            old = [*_expired(table, before, _needed_by_streams(settings, place, table))]
        if old and place.kind == "landing" and (replay := replay_over(settings, place.name)):
            yield Action(ActionKind.HELD_BACK, str(place), f"no commit is deleted: {replay} is under way")
            old = []
        committed = latest_commit(table)
        if old and (committed is None or committed.version != table.version()):
            yield Action(ActionKind.HELD_BACK, str(place), "no commit is deleted: the newest one has no metadata")
            old = []
        old += _drafts(table, policy.now - DAY)
        freed = sum(size(path) for path in old)
        # Newest first: delta-rs opens a version whose log has lost its first commits, without their rows.
        for path in reversed(old) if not plan else ():
            storage_of(path).remove(path)
    if old:
        yield Action(ActionKind.CLEANED, str(place), "old files of its log", len(old), freed)


def _checkpointed(table: DeltaTable) -> int:
    """The version of the last checkpoint; -1 if there is none."""
    with suppress(OSError, ValueError, KeyError):
        path = log_of(table) / "_last_checkpoint"
        return int(json.loads(storage_of(path).read(path))["version"])
    return -1


def _expired(table: DeltaTable, before: float, needed: int | None = None) -> Iterator[Path]:
    """Yields the log's files before the newest checkpoint that is itself older than ``before``, and no newer than the
    version ``needed``. What is kept begins with a checkpoint, and every later version can still be opened: so a commit
    goes with those around it, whatever its own time says."""
    found, old = [*log_files(folder_of(table))], list[int]()
    for version, path in found:
        if ".checkpoint" in path.name and path.suffix == ".parquet":
            with suppress(FileNotFoundError):
                old += [version] if storage_of(path).modified(path) < before else []
    # Readers start from the last checkpoint; a file of an older one may be only one part of several.
    newest = _checkpointed(table)
    newest = newest if needed is None else min(newest, needed)
    first = max((version for version in old if version <= newest), default=0)
    yield from (path for version, path in found if version < first)


def _needed_by_streams(settings: Settings, place: TableRef, table: DeltaTable) -> int | None:
    """The oldest version that a stream which is level with landing asks for when it is started again: it repeats its
    last batch, however long ago that was. A stream that is behind doesn't count: it has as long as the log is kept.
    Raises BrokenState CHECKPOINT_UNREADABLE."""
    landed, table_id, found = latest_commit(table), str(table.metadata().id), list[int]()
    for ref in versions_below(settings, settings.checkpoints / "speed"):
        streamed = latest_commit(ref.speed_table)
        if landed is None or streamed is None or streamed.note.cut.behind(landed.note.cut).get(place.name):
            continue
        if (position := position_in(ref.speed_checkpoint, table_id)) is not None:
            found.append(position)
    return min(found, default=None)


def _drafts(table: DeltaTable, before: float) -> list[Path]:
    return [path for path in listed(log_of(table), ".*.tmp") if touched(path) < before]
