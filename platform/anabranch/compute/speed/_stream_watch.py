"""Describe the streams of the speed process to the liveness ``Watcher``, which detects streams that hang."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from anabranch.core.engine.liveness import BackgroundAnswer, Stream, seconds_of
from anabranch.core.engine.tasks import cpu_seconds, progress_of
from anabranch.core.settings import Settings
from anabranch.lake import commit_history, open_table
from anabranch.lake.layout import landing_table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from anabranch.compute.speed.service import Slot, Speed
    from anabranch.compute.speed.view_stream import SpeedQuery

_ASK_SECONDS = 1.0


class Watched:
    """Not thread-safe: called only by the thread of one Watcher."""

    def __init__(self, spark: SparkSession, settings: Settings, speed: Speed) -> None:
        self._spark, self._settings, self._speed = spark, settings, speed
        self._known: dict[SpeedQuery, Stream] = {}
        self._landed: dict[str, BackgroundAnswer] = {}

    def __call__(self) -> list[Stream]:
        """The streams that are running now."""
        self._known = dict(self._running())
        return list(self._known.values())

    def _running(self) -> Iterator[tuple[SpeedQuery, Stream]]:
        for slot in self._speed.slots:
            query = slot.query  # read once: another thread sets it
            if query is not None:
                yield query, self._known.get(query) or self._stream(slot, query)

    def _stream(self, slot: Slot, query: SpeedQuery) -> Stream:
        topics = [topic.name for topic in slot.topics.each]
        rest = seconds_of(self._settings.trigger_interval)
        engine = BackgroundAnswer(partial(progress_of, self._spark, query.run))
        return Stream(
            f"{slot.view.writer}/speed",
            query.sink.batches,
            partial(self._unread, query, topics),
            engine,
            rest,
            cpu_seconds,
        )

    def _unread(self, query: SpeedQuery, topics: list[str]) -> Hashable:
        """The stream's cut while landing has rows that it hasn't read; else None."""
        cut = query.sink.cut
        landed = {topic: self._newest_landed(topic)() for topic in topics}
        ahead = [topic for topic, epoch in landed.items() if isinstance(epoch, int) and epoch > cut.epoch(topic)]
        return str(cut) if ahead else None

    def _newest_landed(self, topic: str) -> BackgroundAnswer:
        if topic not in self._landed:
            self._landed[topic] = BackgroundAnswer(NewestWithRows(landing_table(self._settings, topic)), _ASK_SECONDS)
        return self._landed[topic]


class NewestWithRows:
    """The newest epoch of a landing table with at least one row: empty epochs don't start a micro-batch. None while
    there is none. Keeps the table open, as it is asked each second."""

    def __init__(self, landing: str) -> None:
        self._landing = landing
        self._table: DeltaTable | None = None
        self._known: tuple[int, int | None] = (-1, None)

    def __call__(self) -> int | None:
        table, self._table = self._table, None  # opened anew after an error
        if table is None:
            table = open_table(self._landing)
        else:
            table.update_incremental()
        if table is not None and table.version() != self._known[0]:
            self._known = table.version(), _newest_with_rows(table)
        self._table = table
        return None if table is None else self._known[1]


def _newest_with_rows(table: DeltaTable) -> int | None:
    for found in commit_history(table):
        if int(found.note.extra.get("rows", 0)):
            return max(position.epoch for position in found.note.cut.positions.values())
    return None
