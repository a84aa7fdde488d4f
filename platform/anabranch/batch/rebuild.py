"""The batch path: a view's function over all events up to a cut, for the partitions asked for."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from anabranch.batch.manifest import Build, manifest_path, read_manifest, write_manifest
from anabranch.errors import BadDefinition, BadInput, TryAgain
from anabranch.events import Topic
from anabranch.landing.counts import count_events
from anabranch.settings import Settings
from anabranch.tables import Cut, Position, StagedFile, newest, stage_frame
from anabranch.tables.layout import batch_table, landing_table
from anabranch.views.definition import PARTITION, View
from anabranch.views.inputs import events_of, frames, needed_dates, prune, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rebuild(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topic: Topic,
    partitions: Sequence[date],
    run: str,
    epoch: int | None = None,
) -> Build:
    """Compute ``partitions`` at the cut of ``epoch`` (landing's newest when None) and stage them. No reader sees it.

    Late events are in. Called again with the same ``run`` it returns the build that is there; a crash before the
    manifest leaves only files that nobody names.
    """
    if view.kappa:
        raise BadDefinition(
            "VIEW_KAPPA",
            f"{view.origin}: {view.name} v{view.version} has no time partition, so no batch half",
            next_step="it is rebuilt by replaying its stream",
        )
    if manifest_path(settings, view.name, view.version, run).exists():
        return read_manifest(settings, view.name, view.version, run)
    started = time.monotonic()
    wanted = tuple(sorted(set(partitions)))
    cut = cut_at(settings, topic, epoch)
    landed = spark.read.format("delta").load(landing_table(settings, topic.name))
    events = prune(events_of(landed, view, late=True), view, wanted).where(f"epoch <= {int(cut.epoch(topic.name))}")
    rows = only(rows_of(view, frames(events, view, topic)), view, wanted)
    uri = batch_table(settings, view.name, view.version)
    with ThreadPoolExecutor(1) as beside:
        counted = beside.submit(_count, settings, view, topic, wanted, cut)
        staged = stage_frame(rows, uri, f"{run}-{uuid.uuid4().hex}", PARTITION)
        events_read = counted.result()
    inside = keep(view, uri, staged, wanted)
    build = Build(
        view.name,
        view.version,
        run,
        view.fingerprint,
        cut,
        wanted,
        inside,
        sum(f.rows for f in inside),
        events_read,
        round(time.monotonic() - started, 3),
    )
    write_manifest(settings, build)
    return build


def only(rows: DataFrame, view: View, partitions: Sequence[date]) -> DataFrame:
    """The rows as one file per partition. Rows of other days are staged beside them and never named: a filter on
    the result would be pushed into the author's function, where it changes session windows."""
    if view.lookback == view.lookahead == timedelta(0) and len(partitions) == 1:
        return rows.coalesce(1)
    # A number of tasks that is asked for stays; without one Spark sees few bytes, and one task writes all the files.
    tasks = int(str(rows.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    return rows.repartition(min(tasks, len(partitions)), PARTITION)


def keep(view: View, uri: str, staged: Sequence[StagedFile], wanted: Sequence[date]) -> tuple[StagedFile, ...]:
    """The files of the partitions asked for; those of other days are deleted.

    BadDefinition PARTITION_NULL for rows without a day, LOOKBACK_TOO_SHORT for a day that the events read could only
    have reached from outside of the view's lookback and lookahead: other rows of it would be wrong.
    """
    day = timedelta(days=1)
    before, after = -(-view.lookback // day), -(-view.lookahead // day)
    read = needed_dates(view, wanted)
    reachable = {(d + day * shift).isoformat() for d in read for shift in range(-after, before + 1)}
    found = {file.partition[PARTITION] for file in staged}
    strange = sorted(text for text in found if text and text not in reachable)
    if None in found or strange:
        _delete(uri, staged)
    if None in found:
        raise BadDefinition(
            "PARTITION_NULL",
            f"{view.origin}: {view.name} v{view.version} returned rows whose {view.partition_by} is null",
            state="nothing was staged",
            next_step="leave such rows out in the view's function, or make it a kappa view",
        )
    if strange:
        raise BadDefinition(
            "LOOKBACK_TOO_SHORT",
            f"{view.origin}: {view.name} v{view.version} made rows of {strange[0]} from events of other days than its "
            f"lookback ({view.lookback}) and lookahead ({view.lookahead}) say",
            state="nothing was staged",
            next_step="declare a longer lookback or lookahead, as a new version",
            partitions=strange,
        )
    inside = {p.isoformat() for p in wanted}
    _delete(uri, [file for file in staged if file.partition[PARTITION] not in inside])
    return tuple(file for file in staged if file.partition[PARTITION] in inside)


def _delete(uri: str, files: Sequence[StagedFile]) -> None:
    for file in files:
        (Path(uri) / file.path).unlink(missing_ok=True)


def cut_at(settings: Settings, topic: Topic, epoch: int | None) -> Cut:
    """Landing's newest cut, or that cut with an older ``epoch``. Refuses an epoch that has not landed."""
    committed = newest(landing_table(settings, topic.name))
    if committed is None or committed.note.cut.epoch(topic.name) == 0:
        raise TryAgain("LANDING_EMPTY", f"nothing of topic {topic.name} has landed yet", next_step="anabranch status")
    cut = committed.note.cut
    if epoch is None or epoch == cut.epoch(topic.name):
        return cut
    if not 1 <= epoch < cut.epoch(topic.name):
        raise BadInput(
            "CUT_IN_FUTURE",
            f"{topic.name}@{epoch} has not landed; the newest is {cut}",
            state="nothing was rebuilt",
            next_step=f"take {cut} or an older one",
            field="cut",
        )
    return Cut({topic.name: Position(epoch, {})})


def _count(settings: Settings, view: View, topic: Topic, partitions: Sequence[date], cut: Cut) -> int:
    """How many events the rebuild reads."""
    table = DeltaTable(landing_table(settings, topic.name))
    counts = count_events(table, view.events, needed_dates(view, partitions), cut.epoch(topic.name))
    return sum(count.events for count in counts.values())
