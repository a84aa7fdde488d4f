"""The batch path: a view's function over all events up to a cut, for the partitions asked for."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING

from anabranch.batch.manifest import Build, manifest_path, read_manifest, write_manifest
from anabranch.errors import BadDefinition, BadInput, TryAgain
from anabranch.events import Topic
from anabranch.settings import Settings
from anabranch.tables import Cut, newest, stage_frame
from anabranch.tables.layout import batch_table, landing_table
from anabranch.views.definition import PARTITION, View
from anabranch.views.inputs import events_of, frames, prune, rows_of

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
    staged = stage_frame(rows, uri, f"{run}-{uuid.uuid4().hex}", PARTITION)
    inside = tuple(f for f in staged if f.partition[PARTITION] in {p.isoformat() for p in wanted})
    build = Build(
        view.name,
        view.version,
        run,
        view.fingerprint,
        cut,
        wanted,
        inside,
        sum(f.rows for f in inside),
        _count(settings, view, topic, wanted, cut),
        time.monotonic() - started,
    )
    write_manifest(settings, build)
    return build


def only(rows: DataFrame, view: View, partitions: Sequence[date]) -> DataFrame:
    """The rows as one file per partition. Rows of other days are staged beside them and never named: a filter on
    the result would be pushed into the author's function, where it changes session windows."""
    if view.lookback == view.lookahead == timedelta(0) and len(partitions) == 1:
        return rows.coalesce(1)
    return rows.repartition(PARTITION)


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
    from anabranch.tables import Position

    return Cut({topic.name: Position(epoch, {})})


def _count(settings: Settings, view: View, topic: Topic, partitions: Sequence[date], cut: Cut) -> int:
    """How many events the rebuild read: counted from landing's own columns, without Spark."""
    import duckdb
    from deltalake import DeltaTable

    from anabranch.landing.schema import PARTITION as EVENT_DATE
    from anabranch.landing.schema import VALID
    from anabranch.views.inputs import needed_dates

    connection = duckdb.connect()
    needed = needed_dates(view, partitions)
    dataset = DeltaTable(landing_table(settings, topic.name)).to_pyarrow_dataset(
        partitions=[(EVENT_DATE, "in", [d.isoformat() for d in needed])]
    )
    connection.register("landed", dataset)
    types = ", ".join("?" for _ in view.events)
    sql = f"select count(*) from landed where decision = ? and epoch <= ? and type in ({types})"  # noqa: S608 - marks
    found = connection.execute(sql, [VALID, cut.epoch(topic.name), *view.events]).fetchone()
    return int(found[0]) if found else 0
