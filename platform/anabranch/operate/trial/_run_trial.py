"""Run a trial: the platform's own stream, rebuild and comparison, in a home that is deleted afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from anabranch.certify.certify_partitions import certificates_of, compare
from anabranch.certify.comparison_inputs import SpeedState, state_at
from anabranch.certify.differences import differences
from anabranch.compute.batch.manifest import Build, StagedBuild
from anabranch.compute.batch.rebuild import cut_at, rebuild
from anabranch.compute.speed.view_stream import StreamLocation, landed_days, live_location, start
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.engine.spark import is_few, small
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.cut import Cut
from anabranch.operate.trial._chosen_days import Days, check_landed, read_days
from anabranch.operate.trial._result import Trial
from anabranch.operate.trial._temporary_home import MirroredLanding, mirrored, temporary_home
from anabranch.operate.trial._view_file import view_of
from anabranch.views import View
from anabranch.views.check import check
from anabranch.views.model.definition import PARTITION_DATE, is_changed
from anabranch.views.model.handle import ViewHandle
from anabranch.views.project import Project
from anabranch.views.registry import sources_of
from anabranch.views.selection.inputs import needed_dates, rows_at
from anabranch.views.selection.partitions import touched_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from anabranch.compute.speed.view_stream import SpeedQuery

_POLL_SECONDS = 0.05
_RUN = "trial"


def try_view(
    view: View | str | Path,
    *,
    days: Days = None,
    name: str | None = None,
    limit: int = 20,
    settings: Settings | None = None,
    declarations: Declarations | None = None,
    spark: SparkSession | None = None,
) -> Trial:
    """Runs a view over landed events, as a batch and as a stream, and compares both. It needn't be declared.

    - ``view``: a view, or the ``.py`` or ``.sql`` file that declares it (``name``: which one, if it declares several).
    - ``days``: ``"2013-01-01..2013-01-03"`` or dates. A kappa view has none: it is tried over all that has landed.
    - ``limit``: how many differing rows are found, if there are some.
    - ``declarations``: default are the project's. ``spark``: default is the session of this process, or one that is
      started and stopped.

    Reads landing at one cut, and writes to a temporary folder that is deleted at the end, whatever ends it. Nothing of
    the platform is changed: no table, no checkpoint, no registration.

    Raises BadDefinition for what ``anabranch views check`` refuses, and for a file that can't be loaded; BadInput
    DAY_UNREADABLE, RANGE_REVERSED, DAYS_EMPTY, FILE_UNREADABLE, VIEW_UNKNOWN, VIEW_NAME_NEEDED or SESSION_UNFIT;
    TryAgain LANDING_EMPTY when nothing has landed yet; and what ended the stream or the rebuild.
    """
    config = settings or load_settings()
    known = declarations or Project(config).declarations()
    tried = view if isinstance(view, View) else view_of(Path(view), name)
    topics, wanted = sources_of(tried, known), read_days(days)
    cut = cut_at(config, topics)
    chosen = _partitions(ViewHandle(config, tried, topics), wanted)
    with temporary_home(config) as temporary, _engine(temporary, spark) as engine:
        check(tried, small(engine), known)
        every = tried.kappa or tried.tables  # rows may need any earlier event
        needed = None if every else frozenset(needed_dates(tried, chosen))
        landing = mirrored(config, temporary, tried, topics, cut, needed)
        return _Run(engine, ViewHandle(temporary, tried, topics), cut, chosen, landing).trial(limit)


def _partitions(view: ViewHandle, wanted: Sequence[date] | None) -> tuple[date, ...]:
    """The wanted partitions that landed events can affect. Raises BadInput DAYS_EMPTY."""
    if view.definition.kappa:
        return ()
    landed = landed_days(view.definition, view.topics, live_location(view).landing)
    check_landed(wanted or (), landed if wanted is None else touched_partitions(view.definition, landed))
    affected = set(touched_partitions(view.definition, landed))
    return tuple(day for day in wanted or () if day in affected)


@contextmanager
def _engine(settings: Settings, given: SparkSession | None) -> Iterator[SparkSession]:
    """``given``, else the session of this process, else one that ends with the block."""
    from anabranch.core.engine.lifetime import engine
    from anabranch.core.engine.spark import existing_session

    found = existing_session(given)
    if found is not None:
        yield found
        return
    with engine(settings, "anabranch-try") as started:
        yield started


class _Run:
    """One trial in its temporary home."""

    def __init__(
        self, spark: SparkSession, view: ViewHandle, cut: Cut, days: tuple[date, ...], landing: MirroredLanding
    ) -> None:
        self._spark, self._view = spark, view
        self._cut, self._days, self._landing = cut, days, landing
        self._events = sum(each.events for each in landing.counts)
        self._for_batch = small(spark) if is_few(self._events) else spark

    def trial(self, limit: int) -> Trial:
        slices, streamed = self._stream()
        state = state_at(self._view.definition, self._view.speed_table)
        began = time.monotonic()
        build, rows = self._batch(state)
        batched = time.monotonic() - began
        view = self._view
        staged = StagedBuild.of(view.settings, build) if build is not None else None
        certificates = certificates_of(compare(self._for_batch, view, self._days, staged, state), _RUN)
        first = next((each for each in certificates if not each.equal), None)
        found = differences(self._for_batch, view, first.partition, state=state, limit=limit) if first else ()
        return Trial(
            view.definition,
            state.cut,
            self._days,
            rows,
            self._events,
            sum(each.late for each in self._landing.counts),
            round(batched, 2),
            round(streamed, 2),
            slices,
            tuple(certificates),
            tuple(found),
        )

    def _stream(self) -> tuple[int, float]:
        """Runs the stream over all slices; returns their number and the seconds."""
        view, days = self._view, None if self._view.definition.kappa else self._days
        location = StreamLocation(self._landing.uris, view.speed_table, view.speed_checkpoint, days)
        slices, began, query = 0, time.monotonic(), None
        try:
            for cut in self._landing.release():
                query = query or start(self._spark, view, location=location)
                _wait(query, cut)
                slices += 1
            while query is not None and query.isActive and _busy(query):
                time.sleep(_POLL_SECONDS)
            if query is not None and not query.isActive:
                raise query.failure or _ended()
        finally:
            if query is not None:
                query.stop()
        return slices, time.monotonic() - began

    def _batch(self, state: SpeedState) -> tuple[Build | None, pa.Table]:
        """The build of a view with partitions; and the rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._view.definition.kappa:
            rows = rows_at(self._for_batch, self._view, state.cut, None, late=False)
            return None, _own(rows.toArrow(), self._view.definition)
        epochs = {topic: position.epoch for topic, position in self._cut.positions.items()}
        run = f"{_RUN}-{uuid4().hex[:8]}"
        build = rebuild(self._for_batch, self._view, self._days, run, epochs)
        staged = StagedBuild.of(self._view.settings, build)
        files = [pq.read_table(path, partitioning=None) for path in staged.paths(sorted(staged.files))]
        if not files:
            from deltalake import Schema

            return build, pa.schema(Schema.from_json(build.columns).to_arrow()).empty_table()
        return build, _own(pa.concat_tables(files), self._view.definition)


def _wait(query: SpeedQuery, cut: Cut) -> None:
    """Waits until the stream has committed ``cut``. Raises what ended it."""
    while not query.sink.cut.covers(cut):
        if not query.isActive:
            raise query.failure or _ended()
        time.sleep(_POLL_SECONDS)


def _busy(query: SpeedQuery) -> bool:
    """Closed windows come in a micro-batch of their own."""
    return bool(query.status["isTriggerActive"] or query.status["isDataAvailable"])


def _ended() -> TryAgain:
    return TryAgain("STREAM_ENDED", "the trial's stream has ended", state="nothing was changed", next_step="try again")


def _own(rows: pa.Table, view: View) -> pa.Table:
    """The columns that the view returns, by its key where that has an order."""
    import pyarrow as pa

    own = rows.select([name for name in rows.column_names if name != PARTITION_DATE and not is_changed(name)])
    key = [name for name in view.key if not pa.types.is_nested(own.schema.field(name).type)]
    return own.sort_by([(name, "ascending") for name in key]) if key else own
