"""Merges the small files of one table, commit by commit, while its writer keeps writing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.core.errors import BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.core.storage import discard
from anabranch.lake import open_table
from anabranch.lake.file_commits import commit_move, data_files
from anabranch.lake.files import BUILDS, StagedFile
from anabranch.lake.layout import TableRef
from anabranch.lake.optimistic import until_committed
from anabranch.operate.maintenance import _compaction_journal
from anabranch.operate.maintenance._compaction_journal import InProgress
from anabranch.operate.maintenance._file_merging import Group, groups_of, merge
from anabranch.operate.maintenance._report import Action, ActionKind, Policy

_TRIES = 10
_AT_ONCE = 32
"""Maximum number of groups per commit."""
_SMALL_FILES = "small files"
log = logging.getLogger(__name__)


def planned(place: TableRef, policy: Policy) -> Iterator[Action]:
    """Yields what ``compact`` would do now."""
    table = _table(place)
    found = groups_of(place.kind, data_files(table), policy)
    if found:
        yield _merged_action(place, found)


def compact(settings: Settings, place: TableRef, policy: Policy) -> Iterator[Action]:
    """Merges the small files of a table without changing its rows. Skips files that its writer changes meanwhile.

    Yields each commit after it is made. After a kill the table is as before or as after the commit, and at most staged
    files remain, which the next run deletes (``_compaction_journal.tidy``).
    """
    table = _table(place)
    for groups in _rounds(groups_of(place.kind, data_files(table), policy), policy.at_once):
        _compaction_journal.begin(
            settings, InProgress(place.uri, table.version(), tuple(group.build for group in groups))
        )
        schema = pa.schema(table.schema().to_arrow())
        staged = [(group, merge(place.uri, schema, group)) for group in groups]
        done = _committed(place, table, staged)
        _compaction_journal.end(settings)
        if done:
            yield _merged_action(place, done)


def _committed(place: TableRef, table: DeltaTable, staged: Sequence[tuple[Group, StagedFile]]) -> list[Group]:
    """Commits the groups whose source files are unchanged, and deletes the staged files of the others. Returns the
    committed groups."""
    left = list(staged)

    def attempt() -> list[Group]:
        table.update_incremental()
        held = {file.path for file in data_files(table)}
        for group, made in list(left):
            if not held.issuperset(file.path for file in group.files):
                log.info("%s: its writer changed %s meanwhile", place, group.files[0].partition or "it")
                discard(Path(place.uri) / BUILDS / group.build)
                left.remove((group, made))
        if left:
            gone = [file for group, _ in left for file in group.files]
            commit_move(table, gone, [made for _, made in left], builds=[group.build for group, _ in left])
        return [group for group, _ in left]

    try:
        return until_committed(f"{place}", attempt, _TRIES)
    except TryAgain as busy:
        if busy.code != "TABLE_BUSY":  # the commit may have succeeded: delete nothing
            raise
        for group, _ in left:
            discard(Path(place.uri) / BUILDS / group.build)
        log.info("%s; the next run tries again", busy)
        return []


def _rounds(groups: Sequence[Group], at_once: int) -> Iterator[list[Group]]:
    """Splits the groups into one list per commit. Limited, because readers load a commit's removed files at once."""
    found, files = list[Group](), 0
    for group in groups:
        if found and (files + len(group.files) > at_once or len(found) >= _AT_ONCE):
            yield found
            found, files = [], 0
        found.append(group)
        files += len(group.files)
    if found:
        yield found


def _table(place: TableRef) -> DeltaTable:
    table = open_table(place.uri)
    if table is None:
        raise BrokenState("TABLE_GONE", f"{place.uri} is no longer a table", next_step="anabranch doctor")
    protocol = table.protocol()
    if protocol.reader_features or protocol.min_reader_version > 1:
        raise BrokenState(
            "TABLE_FEATURES",
            f"{place}: its files can't be merged because of its table features {protocol.reader_features}",
            state="the table is unchanged",
            next_step="find out what enabled them: no writer of this platform does",
        )
    return table


def _merged_action(place: TableRef, groups: Sequence[Group]) -> Action:
    files, size = sum(len(group.files) for group in groups), sum(group.size for group in groups)
    return Action(ActionKind.MERGED, str(place), _SMALL_FILES, files, size, len(groups))
