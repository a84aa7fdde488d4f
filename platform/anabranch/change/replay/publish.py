"""Publish a certified replay: one commit of the live speed table, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from deltalake.exceptions import DeltaError

from anabranch.compute.speed.checkpoint_handover import REPLAY, id_of, owner_of
from anabranch.compute.speed.table import SpeedTable
from anabranch.core.errors import AnabranchError, TryAgain
from anabranch.core.storage import discard
from anabranch.lake import Commit, commit_history, latest_commit, open_table
from anabranch.lake.cut import Cut
from anabranch.lake.files import BUILDS, StagedFile, stage_links
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views.model.definition import PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.partition_events import closed_between, count_affected_events


def live_cut(ref: VersionRef) -> Cut:
    """Return the cut of the live speed table; an empty cut before its first commit."""
    commit = latest_commit(ref.speed_table)
    return commit.note.cut if commit else Cut()


def is_published(ref: VersionRef, run: str, since: int) -> bool:
    """Whether the live table has a commit of replay ``run`` after table version ``since``."""
    table = open_table(ref.speed_table)
    for commit in commit_history(table) if table is not None else ():
        if commit.version <= since:
            break
        if commit.note.extra.get(REPLAY) == run:
            return True
    return False


def publish_whole(view: ViewHandle, run: str, uri: str) -> None:
    """Replace the live table's rows by those of the table at ``uri``, whose stream has stopped.

    Raises TryAgain REPLAY_BEHIND if readers have a newer cut by now; Conflict TABLE_MOVED if the live stream committed
    first. Nothing was written then.
    """
    replayed, live = _newest_commit(uri), _live(view, uri)
    before = live.newest()
    if not replayed.note.cut.covers(before.note.cut):
        raise TryAgain(
            "REPLAY_BEHIND",
            f"the replay of {view.writer} is at {replayed.note.cut}, readers are at {before.note.cut}",
            state="nothing was published",
            next_step="let the replay continue to that cut",
        )
    with _linked(uri, live.uri, run, None) as files:
        live.refresh(files, replace(replayed.note, extra={**replayed.note.extra, REPLAY: run}))


def publish_days(view: ViewHandle, run: str, uri: str, days: Sequence[date]) -> None:
    """Replace ``days`` of the live table by those of the table at ``uri``. The live table keeps its commit metadata.

    Raises TryAgain DAYS_TOUCHED if an event on time changed one of the days between the two cuts; Conflict
    TABLE_MOVED; BrokenState COMMIT_UNNAMED if another writer has changed other days of the live table. Nothing was
    written then.
    """
    replayed, live = _newest_commit(uri), _live(view, uri)
    before = live.newest()
    live.check_other_partitions(days)
    counts = count_affected_events(view, days, replayed.note.cut, before.note.cut)
    changed = {day for day in days if counts[day].on_time_between}
    changed |= closed_between(view, days, replayed.note.cut, before.note.cut)
    if changed:
        raise TryAgain(
            "DAYS_TOUCHED",
            f"{', '.join(map(str, sorted(changed)[:3]))} of {view.writer} changed between {replayed.note.cut}, where "
            f"the replay is, and {before.note.cut}, where readers are",
            state="nothing was published",
            next_step="replay up to the readers' cut, or replay other days",
        )
    with _linked(uri, live.uri, run, days) as files:
        live.replace(files, days, replace(before.note, extra={**before.note.extra, REPLAY: run}))


def owns_live(ref: VersionRef, checkpoint: Path) -> bool:
    """Whether the live table belongs to the stream of this checkpoint. False if there is no such checkpoint."""
    known, commit = id_of(checkpoint), latest_commit(ref.speed_table)
    return known is not None and commit is not None and owner_of(commit.note) == known


def _newest_commit(uri: str) -> Commit:
    commit = latest_commit(uri)
    assert commit is not None  # noqa: S101 - the replay's stream has committed, else nothing was certified
    return commit


def _live(view: ViewHandle, like: str) -> SpeedTable:
    schema = pa.schema(delta_table(like).schema().to_arrow())
    return SpeedTable(view.speed_table, view.definition, schema, unverified=True)


@contextmanager
def _linked(source: str, target: str, run: str, days: Sequence[date] | None) -> Iterator[list[StagedFile]]:
    """Stage the source table's files in ``target``.

    After an error they are deleted if the target has none of them. They stay where nobody knows, or after a signal:
    maintenance then deletes them if no commit refers to them."""
    actions = pa.table(delta_table(source).get_add_actions(flatten=True))
    paths = [unquote(path) for path in actions["path"].to_pylist()]
    if days is not None:
        wanted = set(days)
        inside = [day in wanted for day in actions[f"partition.{PARTITION_DATE}"].to_pylist()]
        paths = [path for path, is_inside in zip(paths, inside, strict=True) if is_inside]
    build = f"replay-{run}-{uuid4().hex[:8]}"
    try:
        yield stage_links(source, paths, target, build)
    except Exception as error:
        unknown = isinstance(error, TryAgain) and error.code == "COMMIT_UNKNOWN"
        if not unknown and not _may_hold(target, build):
            discard(Path(target) / BUILDS / build)
        raise


def _may_hold(uri: str, build: str) -> bool:
    """Whether the table has files of the build, or can't be read: an error may have come up behind the commit."""
    try:
        return any(f"/{build}/" in path for path in delta_table(uri).file_uris())
    except (AnabranchError, DeltaError, OSError):
        return True
