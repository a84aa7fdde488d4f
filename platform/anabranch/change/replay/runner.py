"""Run a view's stream again over its history, certify what came of it, and show it to readers in one step."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.change.replay.certify import certify
from anabranch.change.replay.cleanup import clear_replaced, finish
from anabranch.change.replay.control import exclusive
from anabranch.change.replay.feed import LandingFeed, Slice, event_limit
from anabranch.change.replay.keep_live_epochs import settle
from anabranch.change.replay.landing_mirror import Mirror
from anabranch.change.replay.log_mirror import LogMirror, TopicSource
from anabranch.change.replay.publish import live_cut, publish_days, publish_whole, published
from anabranch.change.replay.rate_limit import Pace, Processes
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.state import (
    CANCELLED,
    CERTIFYING,
    PUBLISHED,
    PUBLISHING,
    REFUSED,
    STREAMING,
    ReplayState,
    cancelled,
    standing_of,
    wish,
    write_standing,
)
from anabranch.compute.batch.manifest import days_text
from anabranch.compute.speed.view_stream import SpeedQuery, StreamLocation, live_location, start
from anabranch.core.atomic_files import locked
from anabranch.core.errors import AnabranchError, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Cut
from anabranch.lake.commits import open_table
from anabranch.lake.layout import landing_files_lock, replay_checkpoints, replay_mirrors, replay_table, speed_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.05
_LEVEL_SECONDS = 0.2
"""Where readers are is in a table's log, which costs more than a look at a stream."""
_ROUNDS = 20
"""How often a replay that has all but reached readers tries to come level with them."""
log = logging.getLogger(__name__)


class _Cancelled(Exception):
    """By whom."""


def replay(
    spark: SparkSession, settings: Settings, asked: ReplayRequest, *, lowest_priority: bool = False
) -> ReplayState:
    """Replay, and say how it ended: published, refused (a certificate isn't equal) or cancelled.

    Called again with the same ``run`` after a kill, it goes on where it was; of one that has ended, it says how. One
    that isn't published leaves nothing but its standing. Conflict REPLAY_RUNNING while another one of this version runs
    or waits to be gone on with. TryAgain REPLAY_BEHIND or DAYS_TOUCHED when readers were always ahead: call it again.
    ``lowest_priority``: of this whole process and its engine, for good.
    """
    view = asked.view
    known = standing_of(settings, view.name, view.version, asked.run)
    if known is not None and known.ended:
        return known
    with exclusive(settings, view, asked.run):
        standing = known or _begin(settings, asked)
        if known and published(settings, view.name, view.version, asked.run, known.began_at):
            return finish(settings, standing, PUBLISHED, _outcome(standing))
        return _Replay(spark, settings, asked, standing, Processes(spark, lowest_priority=lowest_priority)).run()


def _begin(settings: Settings, asked: ReplayRequest) -> ReplayState:
    clear_replaced(settings, asked.view)
    live_now = open_table(speed_table(settings, asked.view.name, asked.view.version))
    standing = ReplayState(
        asked.view.name, asked.view.version, asked.run,
        days=days_text(asked.days) if asked.days is not None else "",
        share=asked.pace.share, speed=asked.pace.speed, estimated=asked.estimated,
        started_ms=int(time.time() * 1000), began_at=live_now.version() if live_now is not None else 0,
    )  # fmt: skip
    return write_standing(settings, standing)


class _Replay:
    """One run of one process."""

    def __init__(
        self, spark: SparkSession, settings: Settings, asked: ReplayRequest, standing: ReplayState, processes: Processes
    ) -> None:
        view = asked.view
        self._spark, self._settings, self._asked, self._standing = spark, settings, asked, standing
        self._live = live_location(settings, view, asked.topics)
        mirrors = replay_mirrors(settings, view.name, view.version) / asked.run
        # A mirror begins where all files of later commits are there; from then on they are kept for it.
        with locked(landing_files_lock(settings), shared=True, wait=True):
            self._slices = LandingFeed(self._live.landing, mirrors, asked.until, self._mirror)
        table = replay_table(settings, view.name, view.version, asked.run)
        checkpoint = replay_checkpoints(settings, view.name, view.version) / asked.run
        self._place = StreamLocation(self._slices.uris, table, checkpoint, asked.days)
        self._processes = processes
        self._query: SpeedQuery | None = None
        self._before = standing
        self._started = time.monotonic()

    def _mirror(self, topic: str, uri: str, folder: Path) -> Mirror:
        if self._asked.source == "landing":
            return Mirror(uri, folder)
        declared = next(each for each in self._asked.topics.each if each.name == topic)
        return LogMirror(uri, folder, TopicSource(self._spark, self._settings, declared))

    def run(self) -> ReplayState:
        try:
            self._stream()
            mended = self._settle()
            unequal = self._certify(mended)
            if unequal:
                return self._ended(REFUSED, unequal)
            return self._publish()
        except _Cancelled as wish_of:
            return self._ended(CANCELLED, cancelled(str(wish_of)))
        finally:
            self._stop()
            self._processes.close()

    def _ended(self, phase: str, said: str) -> ReplayState:
        self._stop()
        return finish(self._settings, self._standing, phase, said)

    def _stream(self) -> None:
        """Give all that has landed, slice by slice, and rest between them."""
        self._running()
        self._wait(self._slices.cut)  # what was given before a kill
        while self._slices.look():
            pace = self._pace()
            began, used = time.monotonic(), self._processes.cpu_seconds()
            given = self._slices.give(event_limit(pace.speed))
            self._wait(given.cut)
            self._processes.yield_to_others(pace)
            took = time.monotonic() - began
            self._slices.took(given, took)
            self._tell(STREAMING)
            self._rest(pace, given, took, self._processes.cpu_seconds() - used)

    def _rest(self, pace: Pace, given: Slice, took: float, cpu_seconds: float) -> None:
        """As long as the pace says, unless somebody wishes for another one meanwhile."""
        end = time.monotonic() + pace.rest(os.cpu_count() or 1, took, cpu_seconds, given.event_seconds)
        while (left := end - time.monotonic()) > 0 and self._pace() == pace:
            time.sleep(min(left, 0.5))

    def _pace(self) -> Pace:
        wanted = wish(self._settings, self._standing)
        if wanted.cancelled_by:
            raise _Cancelled(wanted.cancelled_by)
        return wanted.pace

    def _settle(self) -> int:
        self._idle()
        table = self._running().sink.table
        return settle(self._spark, self._asked.view, table, self._live.table, self._asked.days)

    def _certify(self, mended: int) -> str:
        """What differs from the function at the replay's own cut, in words; nothing where all is equal."""
        self._tell(CERTIFYING)
        found = certify(self._spark, self._settings, self._asked, self._place.table, self._live)
        self._standing = replace(
            self._standing,
            partitions=found.partitions, equal=found.equal, mended=mended, certified=str(found.cut),
            bytes=sum(pa.table(DeltaTable(self._place.table).get_add_actions())["size_bytes"].to_pylist()),
        )  # fmt: skip
        self._pace()
        return found.said

    def _publish(self) -> ReplayState:
        """The last steps are tried again while the live stream is quicker: each time a little more is replayed."""
        for attempt in range(_ROUNDS):
            self._level()
            self._tell(PUBLISHING)
            try:
                self._show()
            except AnabranchError as moved:
                if moved.code not in ("REPLAY_BEHIND", "DAYS_TOUCHED", "TABLE_MOVED") or attempt == _ROUNDS - 1:
                    raise
                log.info("%s", moved.what)
                continue
            return self._ended(PUBLISHED, _outcome(self._standing))
        raise AssertionError("unreachable")

    def _level(self) -> None:
        """Give what has landed meanwhile, without a rest, until readers are nowhere ahead."""
        self._running()
        while True:
            self._pace()
            if self._slices.look():
                self._wait(self._slices.give().cut)
                continue
            ahead = self._asked.days is None and not self._slices.cut.covers(live_cut(self._settings, self._asked.view))
            if not ahead:
                return
            time.sleep(_LEVEL_SECONDS)

    def _show(self) -> None:
        asked, uri = self._asked, self._place.table
        if asked.days is None:
            self._stop()  # from here on the checkpoint may become the live stream's
            publish_whole(self._settings, asked.view, asked.run, uri)
        else:
            publish_days(self._settings, asked.view, asked.topics, asked.run, uri, asked.days)

    def _wait(self, cut: Cut) -> None:
        """Until the stream has committed ``cut``. What stopped it is raised; it is started again where its landing
        table has grown."""
        while True:
            query = self._running()
            if query.sink.cut.covers(cut):
                return
            if not query.isActive:
                failure = query.failure
                self._query = None
                if not (isinstance(failure, TryAgain) and failure.code == "LANDING_GREW"):
                    raise failure or TryAgain("STREAM_ENDED", "the replay's stream has ended", next_step="start again")
            self._pace()
            time.sleep(_LOOK_SECONDS)

    def _idle(self) -> None:
        """Until the stream has nothing in hand: what is closed comes in a micro-batch of its own."""
        query = self._running()
        while query.isActive and (query.status["isTriggerActive"] or query.status["isDataAvailable"]):
            time.sleep(_LOOK_SECONDS)

    def _running(self) -> SpeedQuery:
        if self._query is None:
            asked = self._asked
            self._query = start(self._spark, self._settings, asked.view, asked.topics, location=self._place)
            self._processes.yield_to_others(self._pace())
        return self._query

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None

    def _tell(self, phase: str) -> None:
        pace, slices = self._pace(), self._slices
        self._standing = write_standing(
            self._settings,
            replace(
                self._standing,
                phase=phase,
                cut=str(slices.cut),
                done=slices.done,
                total=slices.total,
                seconds=round(self._before.seconds + time.monotonic() - self._started, 3),
                cpu_seconds=round(self._before.cpu_seconds + self._processes.cpu_seconds(), 3),
                event_seconds=slices.event_seconds,
                share=pace.share,
                speed=pace.speed,
            ),
        )
        log.info("%s", self._standing)


def _outcome(standing: ReplayState) -> str:
    return (
        f"published: {standing.equal} of {standing.partitions} partitions equal at {standing.certified}; "
        f"{standing.mended:,} rows were other ones before"
    )
