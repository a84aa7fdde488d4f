"""Both paths of a query, and whether they are right: at equal cuts equal to each other, and to DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING
from uuid import uuid4

from anabranch.certify.certify_partitions import certify
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.contracts import Topic
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.files import stage_frame
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views import View
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import events_of, frames, rows_of

from benchmarks.nexmark.oracle import Epoch, Oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found out about one query. ``problems`` is empty where all agree; else it says who doesn't."""

    speed_rows: int
    batch_rows: int
    certificates: int
    problems: tuple[str, ...]


def short(view: View) -> str:
    """``q4``, as the benchmark names it."""
    return view.name.removeprefix("nexmark_")


def epochs(settings: Settings, topic: Topic) -> list[Epoch]:
    """Where each epoch ended in each partition, from landing's own notes."""
    positions = (c.note.cut.positions.get(topic.name) for c in commit_history(landing_table(settings, topic.name)))
    return [(at.epoch, partition, end) for at in positions if at for partition, end in at.offsets.items()]


def reprocess(
    spark: SparkSession, settings: Settings, view: View, topic: Topic, days: Sequence[date]
) -> StagedBuild | None:
    """The batch path over all ``days``, shown to readers in one commit.

    A kappa view has no batch half: its function is run as a batch over all events, and the rows are written to files
    that no reader sees, which is the same work.
    """
    handle = ViewHandle(settings, view, topic)
    name = f"nexmark-{uuid4().hex}"
    if view.kappa:
        stage_frame(
            _function(spark, settings, view, topic),
            VersionRef(settings, view.name, view.version).batch_table,
            name,
            None,
        )
        return None
    build = rebuild(spark, handle, days, name)
    publish(handle, build, days)
    return StagedBuild.of(settings, build)


def judge(
    spark: SparkSession, settings: Settings, view: View, topic: Topic, days: Sequence[date], oracle: Oracle
) -> Judged:
    """Hold the speed table against DuckDB over the on-time events, what batch published (a kappa view: its function as
    a batch) against DuckDB over all, and both paths against each other at the speed table's cut."""
    ref = VersionRef(settings, view.name, view.version)
    found = certify(spark, ViewHandle(settings, view, topic), days)
    problems = [f"no equal certificate: {certificate}" for certificate in found if not certificate.equal]
    speed = spark.read.format("delta").load(ref.speed_table).drop(CHANGED, PARTITION_DATE)
    if view.kappa:
        batch = _function(spark, settings, view, topic)
    else:
        batch = spark.read.format("delta").load(ref.batch_table).drop(PARTITION_DATE)
    counts = []
    for half, rows, late in (("speed", speed, view.kappa), ("batch", batch, True)):
        agreement = oracle.compare(short(view), rows.toArrow(), late=late)
        counts.append(agreement.rows)
        if not agreement.agreed:
            problems.append(f"{half} isn't what DuckDB says: {agreement}")
    return Judged(counts[0], counts[1], len(found), tuple(problems))


def _function(spark: SparkSession, settings: Settings, view: View, topic: Topic) -> DataFrame:
    """The author's function as a batch, over everything that is landed."""
    landed = spark.read.format("delta").load(landing_table(settings, topic.name))
    return rows_of(view, frames(events_of(landed, view, late=True), view, topic))
