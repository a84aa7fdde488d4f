"""Presents the queries of the landing process to the liveness check (``core.engine.liveness.Watcher``)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from anabranch.contracts import Topic
from anabranch.core.engine.liveness import BackgroundAnswer, Stream, seconds_of
from anabranch.core.engine.tasks import cpu_seconds, progress_of
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import begin_offsets, readable_ends
from anabranch.lake import latest_commit
from anabranch.lake.layout import landing_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.ingest.landing.service import LandingStreams
    from anabranch.ingest.landing.stream import LandingQuery

_ASK_SECONDS = 10.0
"""Each question opens a new connection to the broker, so it is asked this rarely."""


class Watched:
    """Lists the running queries as streams. Called by the thread of one Watcher only."""

    def __init__(self, spark: SparkSession, settings: Settings, landing: LandingStreams) -> None:
        self._spark, self._settings, self._landing = spark, settings, landing
        self._known: dict[LandingQuery, Stream] = {}

    def __call__(self) -> list[Stream]:
        """The streams that run now."""
        self._known = dict(self._running())
        return list(self._known.values())

    def _running(self) -> Iterator[tuple[LandingQuery, Stream]]:
        for query in list(self._landing.queries.values()):
            yield query, self._known.get(query) or self._stream(query)

    def _stream(self, query: LandingQuery) -> Stream:
        settings = self._settings
        rest = seconds_of(settings.landing_interval) + settings.landing_seconds_beside_runs
        news = BackgroundAnswer(partial(unlanded_position, settings, query.topic), _ASK_SECONDS)
        engine = BackgroundAnswer(partial(progress_of, self._spark, query.run))
        return Stream(f"landing/{query.topic.name}", query.batches, news, engine, rest, cpu_seconds)


def unlanded_position(settings: Settings, topic: Topic) -> Hashable:
    """The offsets that landing has reached, if the log holds readable records after them; None if not: records behind
    an open transaction aren't readable. Raises the broker's errors: a stream that waits for the broker ends by its
    client's own timeouts."""
    committed = latest_commit(landing_table(settings, topic.name))
    position = committed.note.cut.positions.get(topic.name) if committed is not None else None
    landed, ends = position.offsets if position is not None else {}, readable_ends(settings, topic.in_kafka)
    behind = [partition for partition, end in ends.items() if end > landed.get(partition, 0)]
    if not behind:
        return None
    begins = begin_offsets(settings, topic.in_kafka)
    holds = any(ends[partition] > begins.get(partition, 0) for partition in behind)
    return tuple(sorted(landed.items())) if holds else None
