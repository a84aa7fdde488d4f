"""From a certified replay to what readers see: one commit of the live speed table, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.certify.affected_partitions import closed_between, touched
from anabranch.compute.speed.checkpoint_handover import REPLAY, id_of, owner_of
from anabranch.compute.speed.table import SpeedTable
from anabranch.contracts import Sources
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Commit, Cut, StagedFile, commit_history, latest_commit
from anabranch.lake.commits import open_table
from anabranch.lake.layout import speed_table
from anabranch.lake.staging import BUILDS, describe
from anabranch.views.definition import PARTITION_DATE, View


def live_cut(settings: Settings, view: View) -> Cut:
    """What readers have of the live half; an empty cut before its first commit."""
    found = latest_commit(speed_table(settings, view.name, view.version))
    return found.note.cut if found else Cut()


def published(settings: Settings, view: str, version: int, run: str, since: int) -> bool:
    """Whether the replay ``run`` has made its commit already, behind the version ``since`` of the live table."""
    table = open_table(speed_table(settings, view, version))
    for committed in commit_history(table) if table is not None else ():
        if committed.version <= since:
            break
        if committed.note.extra.get(REPLAY) == run:
            return True
    return False


def publish_whole(settings: Settings, view: View, run: str, uri: str) -> None:
    """Replace the live table by the one at ``uri``, whose stream has ended.

    TryAgain REPLAY_BEHIND when readers have a newer cut by now. Conflict TABLE_MOVED when the live stream was quicker.
    Either way nothing was written.
    """
    made, live = _made(uri), _live(settings, view, uri)
    before = live.newest()
    if not made.note.cut.covers(before.note.cut):
        raise TryAgain(
            "REPLAY_BEHIND",
            f"the replay of {view.writer} is at {made.note.cut}, readers at {before.note.cut}",
            state="nothing was published",
            next_step="let the replay go on to there",
        )
    with _linked(uri, live.uri, run, None) as files:
        live.refresh(files, replace(made.note, extra={**made.note.extra, REPLAY: run}))


def publish_days(settings: Settings, view: View, topics: Sources, run: str, uri: str, days: Sequence[date]) -> None:
    """Replace ``days`` of the live table by those of the one at ``uri``, under the live table's own note.

    TryAgain DAYS_TOUCHED when one of them has changed between the two cuts; Conflict TABLE_MOVED. Nothing was written.
    """
    made, live = _made(uri), _live(settings, view, uri)
    before = live.newest()
    counts = touched(settings, view, topics, days, made.note.cut, before.note.cut)
    moved = {day for day in days if counts[day].between}
    moved |= closed_between(settings, view, topics, made.note.cut, before.note.cut) & set(days)
    if moved:
        raise TryAgain(
            "DAYS_TOUCHED",
            f"{', '.join(map(str, sorted(moved)[:3]))} of {view.writer} changed between {made.note.cut}, where the "
            f"replay is, and {before.note.cut}, where readers are",
            state="nothing was published",
            next_step="replay up to where readers are, or other days",
        )
    with _linked(uri, live.uri, run, days) as files:
        live.replace(files, days, replace(before.note, extra={**before.note.extra, REPLAY: run}))


def owns_live(settings: Settings, view: str, version: int, checkpoint: Path) -> bool:
    """Whether the live table belongs to the stream of this checkpoint, which may be none."""
    known, found = id_of(checkpoint), latest_commit(speed_table(settings, view, version))
    return known is not None and found is not None and owner_of(found.note) == known


def _made(uri: str) -> Commit:
    made = latest_commit(uri)
    assert made is not None  # noqa: S101 - the stream made the table before anything of it was certified
    return made


def _live(settings: Settings, view: View, like: str) -> SpeedTable:
    schema = pa.schema(DeltaTable(like).schema().to_arrow())
    return SpeedTable(speed_table(settings, view.name, view.version), view, schema, unverified=True)


@contextmanager
def _linked(source: str, target: str, run: str, days: Sequence[date] | None) -> Iterator[list[StagedFile]]:
    """The table's files as staged files of ``target``: links, so nothing is copied where both are on one disk. None of
    them stays when the commit that would have named them isn't made; all do where nobody knows, or where a signal came
    in between: they are nobody's then, and maintenance takes them away."""
    actions = pa.table(DeltaTable(source).get_add_actions(flatten=True))
    paths = [unquote(path) for path in actions["path"].to_pylist()]
    if days is not None:
        wanted = set(days)
        inside = [day in wanted for day in actions[f"partition.{PARTITION_DATE}"].to_pylist()]
        paths = [path for path, is_inside in zip(paths, inside, strict=True) if is_inside]
    folder = Path(target) / BUILDS / f"replay-{run}-{uuid4().hex[:8]}"

    def link(path: str) -> StagedFile:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(Path(source) / path, file)
        except OSError:  # a file system without links
            shutil.copy2(Path(source) / path, file)
        return describe(file, target)

    try:
        with ThreadPoolExecutor(8) as pool:
            files = [file for file in pool.map(link, paths) if file.rows]
        yield files
    except Exception as error:
        if not (isinstance(error, TryAgain) and error.code == "COMMIT_UNKNOWN"):
            shutil.rmtree(folder, ignore_errors=True)
        raise
