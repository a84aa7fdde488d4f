"""Run a replay: stream a view again over its history, certify the result, and publish it atomically."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.change.replay._certify import certify
from anabranch.change.replay._feed import LandingFeed, Slice, event_limit
from anabranch.change.replay._keep_live_epochs import keep_live_epochs
from anabranch.change.replay._log_mirror import LogMirror, TopicSource
from anabranch.change.replay.cleanup import delete_unused_checkpoints, finish
from anabranch.change.replay.control import complete_deletion, exclusive
from anabranch.change.replay.landing_mirror import Mirror
from anabranch.change.replay.publish import is_published, live_cut, publish_days, publish_whole
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
    cancelled_text,
    list_states,
    read_control,
    read_state,
    write_state,
)
from anabranch.compute.batch.manifest import days_text
from anabranch.compute.speed.view_stream import SpeedQuery, StreamLocation, live_location, start
from anabranch.core.atomic_files import locked
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.ingest.schema_registry import with_schemas
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import FILES_DELETED, landing_files_lock
from anabranch.lake.log.delta_tables import delta_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.05
_CATCH_UP_SECONDS = 0.2
"""How often the readers' cut is read from the live table's log, which costs more than polling a stream."""
_ROUNDS = 20
"""How often publishing is tried while the live stream keeps moving ahead."""
log = logging.getLogger(__name__)


class _Cancelled(Exception):
    """The replay was cancelled; the argument is the name of the person."""


def replay(spark: SparkSession, request: ReplayRequest, *, lowest_priority: bool = False) -> ReplayState:
    """Replay, and return how it ended: published, refused (a certificate isn't equal) or cancelled.

    Called again with the same ``run`` after a kill, it continues where it was; for a replay that has ended it returns
    how. A replay that isn't published leaves only its state. ``lowest_priority``: for this process and its Spark JVM,
    permanently.

    Raises Conflict REPLAY_RUNNING while another replay of this version runs, or was killed and hasn't ended. TryAgain
    REPLAY_BEHIND or DAYS_TOUCHED if the live stream was ahead in each attempt to publish, or LOCK_HELD: call it again.
    """
    view = request.view
    known = read_state(view, request.run)
    if known is not None and known.ended:
        complete_deletion(view)
        return known
    with exclusive(view, request.run):
        known = read_state(view, request.run)  # again: it may have been cancelled meanwhile
        if known is not None and known.ended:
            return known
        state = known or _begin(request)
        if known and is_published(view, request.run, known.began_at):
            return finish(view.settings, state, PUBLISHED, _outcome(state))
        try:
            begun = _Replay(spark, request, state, Processes(spark, lowest_priority=lowest_priority))
        except BadInput as error:  # nor will its next try begin: it must not keep others from it
            finish(view.settings, state, REFUSED, error.what)
            raise
        return begun.run()


def _begin(request: ReplayRequest) -> ReplayState:
    view = request.view
    delete_unused_checkpoints(view)
    live_table, known = open_table(view.speed_table), list_states(view)
    state = ReplayState(
        view.name, view.version, request.run,
        days=days_text(request.days) if request.days is not None else "",
        share=request.pace.share, speed=request.pace.speed, estimated=request.estimated,
        started_ms=int(time.time() * 1000), began_at=live_table.version() if live_table is not None else 0,
        number=1 + max((each.number for each in known), default=0),
    )  # fmt: skip
    return write_state(view.settings, state)


class _Replay:
    """One replay in one process."""

    def __init__(self, spark: SparkSession, request: ReplayRequest, state: ReplayState, processes: Processes) -> None:
        view = request.view
        self._spark, self._view, self._request, self._state = spark, view, request, state
        self._live = live_location(view)
        mirrors = view.replay_mirrors / request.run
        # A mirror starts at a version from which on no file is missing; from then on maintenance keeps them for it.
        with locked(landing_files_lock(view.settings), shared=True, wait=FILES_DELETED):
            self._feed = LandingFeed(self._live.landing, mirrors, request.until, self._mirror)
        table = str(view.replay_tables / request.run)
        checkpoint = view.replay_checkpoints / request.run
        self._location = StreamLocation(self._feed.uris, table, checkpoint, request.days, replay=True)
        self._processes = processes
        self._query: SpeedQuery | None = None
        self._before = state
        self._started, self._used = time.monotonic(), processes.cpu_seconds()  # its engine may be older than it

    def _mirror(self, topic: str, uri: str, folder: Path) -> Mirror:
        if self._request.source == "landing":
            return Mirror(uri, folder)
        declared = next(each for each in self._view.topics.each if each.name == topic)
        return LogMirror(
            uri, folder, TopicSource(self._spark, self._view.settings, with_schemas(self._view.settings, declared))
        )

    def run(self) -> ReplayState:
        try:
            self._stream()
            corrected = self._keep_live_epochs()
            difference = self._certify(corrected)
            if difference:
                return self._end(REFUSED, difference)
            return self._publish()
        except _Cancelled as by:
            return self._end(CANCELLED, cancelled_text(str(by)))
        finally:
            self._stop()
            self._processes.close()

    def _end(self, phase: str, said: str) -> ReplayState:
        self._stop()
        return finish(self._view.settings, self._state, phase, said)

    def _stream(self) -> None:
        """Release all that has landed, slice by slice, with a pause after each."""
        self._running()
        self._wait(self._feed.cut)  # slices that were released before a kill
        while self._feed.poll():
            pace = self._pace()
            began, used = time.monotonic(), self._processes.cpu_seconds()
            released = self._feed.release_next(event_limit(pace.speed))
            self._wait(released.cut)
            self._processes.yield_to_others(pace)
            took = time.monotonic() - began
            self._feed.adjust_size(released, took)
            self._save(STREAMING)
            self._rest(pace, released, took, self._processes.cpu_seconds() - used)

    def _rest(self, pace: Pace, released: Slice, took: float, cpu_seconds: float) -> None:
        """Pause as long as the pace requires, or until somebody changes it."""
        end = time.monotonic() + pace.rest(os.cpu_count() or 1, took, cpu_seconds, released.event_seconds)
        while (left := end - time.monotonic()) > 0 and self._pace() == pace:
            time.sleep(min(left, 0.5))

    def _pace(self) -> Pace:
        """Return the current pace. Raises _Cancelled if somebody cancelled the replay."""
        control = read_control(self._view.settings, self._state)
        if control.cancelled_by:
            raise _Cancelled(control.cancelled_by)
        return control.pace

    def _keep_live_epochs(self) -> int:
        self._wait_until_idle()
        table = self._running().sink.table
        return keep_live_epochs(self._spark, self._view.definition, table, self._live.table, self._request.days)

    def _certify(self, corrected: int) -> str:
        """Return what differs from the view's function at the replay's own cut; empty if nothing does."""
        self._save(CERTIFYING)
        result = certify(self._spark, self._request, self._location.table, self._live)
        self._state = replace(
            self._state,
            partitions=result.partitions, equal=result.equal, mended=corrected, certified=str(result.cut),
            bytes=sum(pa.table(delta_table(self._location.table).get_add_actions())["size_bytes"].to_pylist()),
        )  # fmt: skip
        self._pace()
        return result.difference

    def _publish(self) -> ReplayState:
        """Catch up and publish. Retried while the live stream commits first; each time a little more is replayed. Days
        that events have changed meanwhile are replayed up to the readers' cut, and certified again."""
        for attempt in range(_ROUNDS):
            self._catch_up()
            self._save(PUBLISHING)
            try:
                self._show()
            except AnabranchError as error:
                if error.code not in ("REPLAY_BEHIND", "DAYS_TOUCHED", "TABLE_MOVED") or attempt == _ROUNDS - 1:
                    raise
                log.info("%s", error.what)
                if error.code == "DAYS_TOUCHED" and (difference := self._replay_further()):
                    return self._end(REFUSED, difference)
                continue
            return self._end(PUBLISHED, _outcome(self._state))
        raise AssertionError("unreachable")

    def _replay_further(self) -> str:
        """Replay up to the readers' cut, and return what differs there. If readers are behind, wait a little."""
        readers = live_cut(self._view)
        if self._feed.cut.covers(readers):
            time.sleep(_CATCH_UP_SECONDS)
            return ""
        self._feed.extend(readers)
        self._stream()
        return self._certify(self._keep_live_epochs())

    def _catch_up(self) -> None:
        """Release what has landed meanwhile, without pauses, until the replay covers the readers' cut."""
        self._running()
        while True:
            self._pace()
            if self._feed.poll():
                self._wait(self._feed.release_next().cut)
                continue
            if self._request.days is not None or self._feed.cut.covers(live_cut(self._view)):
                return
            time.sleep(_CATCH_UP_SECONDS)

    def _show(self) -> None:
        """Commit the replayed rows to the live table."""
        request, uri = self._request, self._location.table
        if request.days is None:
            self._stop()  # from here on the checkpoint may become the live stream's
            publish_whole(self._view, request.run, uri)
        else:
            publish_days(self._view, request.run, uri, request.days)

    def _wait(self, cut: Cut) -> None:
        """Wait until the stream has committed ``cut``. Raises the stream's error, except that the stream is restarted
        when its landing table got new columns."""
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
            time.sleep(_POLL_SECONDS)

    def _wait_until_idle(self) -> None:
        """Wait until the stream has no micro-batch to run: closed windows are emitted in a micro-batch of their own."""
        query = self._running()
        while query.isActive and (query.status["isTriggerActive"] or query.status["isDataAvailable"]):
            time.sleep(_POLL_SECONDS)

    def _running(self) -> SpeedQuery:
        """Return the replay's stream; starts it if it doesn't run."""
        if self._query is None:
            self._query = start(self._spark, self._view, location=self._location)
            self._processes.yield_to_others(self._pace())
        return self._query

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None

    def _save(self, phase: str) -> None:
        """Store and log the progress."""
        pace, feed = self._pace(), self._feed
        self._state = write_state(
            self._view.settings,
            replace(
                self._state,
                phase=phase, cut=str(feed.cut), done=feed.done, total=feed.total,
                seconds=round(self._before.seconds + time.monotonic() - self._started, 3),
                cpu_seconds=round(self._before.cpu_seconds + self._processes.cpu_seconds() - self._used, 3),
                event_seconds=feed.event_seconds, newest_day=feed.newest_day,
                share=pace.share, speed=pace.speed,
            ),
        )  # fmt: skip
        log.info("%s", self._state)


def _outcome(state: ReplayState) -> str:
    return (
        f"published: {state.equal} of {state.partitions} partitions equal at {state.certified}; "
        f"{state.mended:,} rows were different before"
    )
