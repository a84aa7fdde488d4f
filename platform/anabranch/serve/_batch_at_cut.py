"""The batch half as of a cut: a day that is published beyond the cut is read as it was published before.

Otherwise such a day would include events that landed after the reading's cut. It is decided day by day: the other days
are read from the table's newest version, so neither their later repairs nor their rows depend on the day that is ahead.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.core.storage import storage_of
from anabranch.lake import CommitMetadata, commit_history
from anabranch.lake.cut import Cut
from anabranch.serve.half_choice import PUBLISHED, published_cuts, published_days
from anabranch.serve.table_snapshots import Snapshot, snapshot_at

_Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchAtCut:
    """``half``: the newest version, with the files and the publication of each day as of the cut. ``earlier``: the
    table version that has the files of a day, if it isn't the newest. ``lost``: the days that the speed half doesn't
    have, and whose files of before were deleted."""

    half: Snapshot
    earlier: Mapping[date, int] = field(default_factory=dict, hash=False)
    lost: frozenset[date] = frozenset()


_before: OrderedDict[tuple[str, str, int, str], Mapping[date, tuple[int, _Entry] | None]] = OrderedDict()
"""By batch table, its id, its newest version, and an older cut: what ``_publications`` found."""
_MAX_BEFORE = 64


def batch_at(newest: Snapshot, speed: Snapshot) -> BatchAtCut:
    """Return the batch half ``newest`` as of the cut of ``speed``. Reads the log only if a day is beyond that cut. Such
    a day is left to the speed half if it wasn't published before, or if its files of then were deleted."""
    cut = speed.newest.note.cut
    beyond = {day for day, at in newest.published.items() if not cut.covers(at)}
    if not beyond:
        return BatchAtCut(newest)
    publications = _publications(newest, beyond, cut)
    versions = {version for version, _ in filter(None, publications.values())}
    tables = {version: snapshot_at(newest.uri, newest.table_id, version) for version in versions}
    days: dict[date, tuple[Snapshot, _Entry]] = {}
    for day, publication in publications.items():
        table = tables[publication[0]] if publication is not None else None
        if publication is not None and table is not None and files_exist(table.files.get(day, ())):
            days[day] = table, publication[1]
    unpublished = {day for day, publication in publications.items() if publication is None}
    lost = beyond - days.keys() - unpublished - speed.changed.keys()
    return BatchAtCut(
        _merged(newest, beyond, days), {day: table.version for day, (table, _) in days.items()}, frozenset(lost)
    )


def files_exist(paths: Iterable[str]) -> bool:
    """Return whether all of these files are still there."""
    return all(storage_of(path).exists(path) for path in map(Path, paths))


def _publications(newest: Snapshot, days: Collection[date], cut: Cut) -> Mapping[date, tuple[int, _Entry] | None]:
    """Return, for each of ``days``, the table version to read it at, and its publication then: the newest one within
    ``cut``. None: it wasn't published yet. Absent: unknown, because the kept log doesn't reach back that far."""
    key = (newest.uri, newest.table_id, newest.version, str(cut))
    if key not in _before:
        found: dict[date, tuple[int, _Entry] | None] = {}
        left = set(days)
        for commit in commit_history(newest.uri, newest=newest.version):
            published = published_cuts(commit.note)
            for day in [day for day in left if day not in published or cut.covers(published[day])]:
                found[day] = (commit.rows_at, _entry_of(commit.note, day)) if day in published else None
                left.discard(day)
            if not left:
                break
        _before[key] = found
        if len(_before) > _MAX_BEFORE:
            _before.popitem(last=False)
    return _before[key]


def _entry_of(note: CommitMetadata, day: date) -> _Entry:
    text = day.isoformat()
    return next(_of_days(entry, [day]) for entry in note.extra[PUBLISHED] if entry["from"] <= text <= entry["to"])


def _merged(newest: Snapshot, beyond: Collection[date], days: Mapping[date, tuple[Snapshot, _Entry]]) -> Snapshot:
    """Return ``newest`` with the files and publications of ``days`` in place of those ``beyond`` the cut."""
    files = {day: paths for day, paths in newest.files.items() if day not in beyond}
    files |= {day: table.files[day] for day, (table, _) in days.items() if day in table.files}
    note = newest.newest.note
    entries = [*_without(note.extra[PUBLISHED], beyond), *(entry for _, entry in days.values())]
    note = with_fields(note, extra={**note.extra, PUBLISHED: entries})
    logs = {table.version: table.log for table, _ in days.values()}
    log = pa.concat_tables([newest.log, *logs.values()], promote_options="permissive")
    return with_fields(newest, newest=with_fields(newest.newest, note=note), files=files, log=log)


def _without(entries: Iterable[_Entry], left_out: Collection[date]) -> Iterator[_Entry]:
    for entry in entries:
        for kept, run in groupby(published_days(entry), lambda day: day not in left_out):
            if kept:
                yield _of_days(entry, list(run))


def _of_days(entry: _Entry, days: list[date]) -> _Entry:
    return {**entry, "from": days[0].isoformat(), "to": days[-1].isoformat()}
