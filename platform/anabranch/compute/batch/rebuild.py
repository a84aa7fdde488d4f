"""Rebuild partitions of a view: run its function over all events up to a cut, and stage the rows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import Schema

from anabranch.compute._table_columns import check_columns
from anabranch.compute.batch.manifest import Build, manifest_path, read_manifest, write_manifest
from anabranch.contracts.model.topics import Sources
from anabranch.core.errors import BadDefinition, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.lake import commit_history, latest_commit, open_table
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_frame
from anabranch.lake.layout import landing_table
from anabranch.views.model.definition import PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import rows_at
from anabranch.views.selection.partitions import one_file_each, select_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEWEST: Mapping[str, int] = MappingProxyType({})
"""No epochs are given: use the newest one of each topic."""


def rebuild(
    spark: SparkSession,
    view: ViewHandle,
    partitions: Sequence[date],
    run: str,
    epochs: Mapping[str, int] = NEWEST,
) -> Build:
    """Computes ``partitions``, late events included, at the cut of ``epochs`` (see ``cut_at``) and stages their files.
    No reader sees them.

    Idempotent: with the same ``run`` it returns the existing build. A crash before the manifest is written leaves only
    unreferenced files. Raises Conflict DEFINITION_CHANGED if the rows have other columns than those that were
    published.
    """
    if view.definition.kappa:
        raise BadDefinition(
            "VIEW_KAPPA",
            f"{view.definition.origin}: {view} has no time partitions, so it has no batch half",
            next_step=f"anabranch replay start {view.name} --version {view.version} rebuilds it by its stream",
        )
    if storage_of(path := manifest_path(view, run)).exists(path):
        return read_manifest(view, run)
    started = time.monotonic()
    wanted = tuple(sorted(set(partitions)))
    cut = cut_at(view.settings, view.topics, epochs)
    rows = one_file_each(rows_at(spark, view, cut, wanted, late=True), view.definition, wanted)
    columns, uri = _columns(rows), view.batch_table
    if (published := open_table(uri)) is not None:
        check_columns(view.definition, columns, published)
    staged = stage_frame(rows, uri, f"{run}-{uuid.uuid4().hex}", PARTITION_DATE)
    inside = select_files(view.definition, uri, staged, wanted)
    build = Build(
        view.name,
        view.version,
        run,
        view.definition.fingerprint,
        cut,
        wanted,
        Schema.from_arrow(columns).to_json(),
        inside,
        sum(f.rows for f in inside),
        round(time.monotonic() - started, 3),
    )
    write_manifest(view.settings, build)
    return build


def _columns(rows: DataFrame) -> pa.Schema:
    """The schema of a staged file, from the plan, so that an empty build has one too."""
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = to_arrow_schema(rows.drop(PARTITION_DATE).schema, timezone="UTC")
    return pa.schema([field.with_nullable(True) for field in columns])


def cut_at(settings: Settings, topics: Sources, epochs: Mapping[str, int] = NEWEST) -> Cut:
    """The cut of these ``epochs``, by topic; for a topic without one, its newest epoch.

    Raises BadInput CUT_IN_FUTURE, with ``field``; TryAgain LANDING_EMPTY before the first epoch. The cut has no offsets
    when the landing commit is past its retention.
    """
    return Cut({t.name: _position(settings, t.name, epochs.get(t.name)) for t in topics.each})


def _position(settings: Settings, topic: str, epoch: int | None) -> Position:
    table = open_table(landing_table(settings, topic))
    committed = latest_commit(table) if table is not None else None
    if table is None or committed is None or committed.note.cut.epoch(topic) == 0:
        raise TryAgain("LANDING_EMPTY", f"nothing of topic {topic} has landed yet", next_step="anabranch status")
    position = committed.note.cut.positions[topic]
    if epoch is None or epoch == position.epoch:
        return position
    if not 1 <= epoch < position.epoch:
        raise BadInput(
            "CUT_IN_FUTURE",
            f"cut: {topic}@{epoch} has not landed; the newest is {topic}@{position.epoch}",
            state="nothing was started",
            next_step=f"take {topic}@{position.epoch} or an older one, or leave the cut empty",
            field="cut",
        )
    older = (found.note.cut.positions.get(topic) for found in commit_history(table))
    return next((found for found in older if found is not None and found.epoch == epoch), Position(epoch, {}))
