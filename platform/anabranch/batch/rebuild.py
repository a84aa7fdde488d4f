"""The batch path: a view's function over all events up to a cut, for the partitions asked for."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from anabranch.batch.manifest import Build, manifest_path, read_manifest, write_manifest
from anabranch.errors import BadDefinition, BadInput, TryAgain
from anabranch.events import Topic
from anabranch.landing.counts import count_events
from anabranch.settings import Settings
from anabranch.tables import Cut, Position, newest, stage_frame
from anabranch.tables.layout import batch_table, landing_table
from anabranch.views.definition import PARTITION, View
from anabranch.views.inputs import needed_dates, rows_at
from anabranch.views.partitions import keep, one_file_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    rows = one_file_each(rows_at(spark, settings, view, topic, cut, wanted, late=True), view, wanted)
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
