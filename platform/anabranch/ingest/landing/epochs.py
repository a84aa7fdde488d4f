"""Commits rows as an epoch of landing: the columns that they get from it, its metadata, and the commit.

What is decided about a row, and which rows repeat an event, is up to those who land them: micro-batches of the log
(``writer``), rows of files (``files/_file_epochs``) and released records (``audit/_release_epoch``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.ingest.landing.decoding import with_reasons
from anabranch.ingest.landing.state import LandingState, landing_note, lateness_note, read_state
from anabranch.ingest.landing.table.schema import LOADED, VALID, landing_schema
from anabranch.ingest.landing.table.schema_growth import newest_versions, withdrawn_versions
from anabranch.lake.commits import append
from anabranch.lake.files import StagedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUMMARY_COLUMNS = ["partition", "offset", "decision", "late", "event_time"]
"""The columns that an epoch's metadata, and the offsets without a record, are computed from."""
TRIES_BESIDE_LANDING: Final = 50
"""How often those try to commit who do it beside a landing that runs: it may be faster in most of the tries."""


class Epochs:
    """Commits epochs of one landing table. Make it when a writer starts, once the table has been opened."""

    def __init__(self, table: DeltaTable, topic: Topic) -> None:
        self._table, self._topic = table, topic
        self._withdrawn = withdrawn_versions(topic, read_state(table, topic).versions)

    def commit(
        self,
        staged: Sequence[StagedFile],
        judged: pa.Table,
        known: LandingState,
        batch: str,
        said: Mapping[str, Any],
        offsets: Mapping[int, int] | None = None,
    ) -> dict[str, Any]:
        """Commit ``staged`` as the epoch after ``known``; return what its metadata says besides the cut.

        ``judged``: the SUMMARY_COLUMNS of its rows. ``known``: the state that the rows were numbered by, with what this
        epoch adds to the entries that each commit repeats. ``said``: the entries of this epoch alone. ``offsets``: the
        landed ones after it, if it lands some of the log. Raises what ``append`` raises.
        """
        versions = newest_versions(self._topic, known.versions, self._withdrawn)
        extra = {**summary(judged, replace(known, versions=versions)), **lateness_note(self._topic), **said}
        landed = known.offsets if offsets is None else offsets
        append(self._table, staged, landing_note(self._topic, batch, known.epoch + 1, landed, extra))
        return extra


def summary(judged: pa.Table, before: LandingState) -> dict[str, Any]:
    """An epoch's metadata besides its cut: counts by decision, and W of the next epoch."""
    counts = {row["values"]: row["counts"] for row in pc.value_counts(judged["decision"]).to_pylist()}
    times = judged["event_time"].cast(pa.int64())
    if LOADED in counts:  # rows of files move no watermark
        times = pc.if_else(pc.equal(judged["decision"], LOADED), pa.scalar(None, pa.int64()), times)
    newest = pc.max(times).as_py()
    seen = [time for time in (before.watermark_us, newest) if time is not None]
    return {
        "watermark_us": max(seen, default=None),
        "rows": judged.num_rows,
        "counts": {**counts, "late": pc.sum(judged["late"]).as_py() or 0},
        **before.carried(),
    }


def with_epoch(rows: DataFrame, before: LandingState, topic: Topic) -> DataFrame:
    """``decode``'s rows with the columns of the next epoch: its number, and late or on time by W(epoch) - L."""
    from pyspark.sql import functions as F

    bound = before.late_before_us(topic.allowed_lateness)
    late = F.lit(False) if bound is None else F.unix_micros("event_time") < F.lit(bound)
    added = {
        "epoch": F.lit(before.epoch + 1).cast("bigint"),
        "late": F.when(F.col("decision") == VALID, late),
        "released_from": F.lit(None).cast("bigint"),
    }
    return rows.select(*(added[n].alias(n) if n in added else F.col(n) for n in landing_schema(topic).names))


def arrow_with_epoch(rows: pa.Table, before: LandingState, topic: Topic) -> pa.Table:
    """The same as ``with_epoch``, for rows that are in this process. (A literal that changes with every epoch would
    make Spark compile each small micro-batch again.)"""
    return with_reasons(numbered(rows, before, topic), topic)


def numbered(rows: pa.Table, before: LandingState, topic: Topic) -> pa.Table:
    """The same without the reasons of quarantined records."""
    schema = landing_schema(topic)
    bound = before.late_before_us(topic.allowed_lateness)
    event_us = rows["event_time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    late = pa.scalar(False) if bound is None else pc.less(event_us, bound)
    valid = pc.equal(rows["decision"], VALID)
    added = {
        "epoch": pa.array([before.epoch + 1] * rows.num_rows, pa.int64()),
        "late": pc.if_else(valid, late, pa.scalar(None, pa.bool_())),
        "released_from": pa.nulls(rows.num_rows, pa.int64()),
    }
    columns = [added[name] if name in added else rows[name] for name in schema.names]
    return pa.table(columns, names=schema.names).cast(schema)
