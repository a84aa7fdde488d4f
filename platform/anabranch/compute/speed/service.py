"""Every registered view as a stream, in one process, until it is told to stop."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.compute.speed import status
from anabranch.compute.speed.definition_watcher import DefinitionWatcher
from anabranch.compute.speed.status import ViewStatus
from anabranch.compute.speed.stream_watch import Watched
from anabranch.compute.speed.view_stream import SpeedQuery, start, take_turn
from anabranch.contracts import Sources
from anabranch.core.clocks import WallClock
from anabranch.core.engine_tasks import end_process
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, Conflict, TryAgain, root_cause
from anabranch.core.liveness import Watcher
from anabranch.core.settings import Settings
from anabranch.core.spark import live_engine, session
from anabranch.views import Registry, View
from anabranch.views.project import Project
from anabranch.views.retired_versions import retired_versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRY_SECONDS = 30.0
"""How long a view that has failed rests before it is started again."""
WAIT_SECONDS = 1.0
"""How often a landing table that isn't there yet is looked for."""
LOOK_SECONDS = 1.0
_RETIRED_EVERY = 10
"""Looks between two at the routes: each costs milliseconds a view."""
log = logging.getLogger(__name__)


@dataclass
class Slot:
    """One view of this process: its stream, or why it has none and when it is tried again (monotonic seconds)."""

    view: View
    topics: Sources
    query: SpeedQuery | None = None
    error: BaseException | None = None
    due: float = 0.0
    retired: bool = False

    @property
    def failed(self) -> bool:
        return self.error is not None and not isinstance(self.error, TryAgain)

    def status(self) -> ViewStatus:
        if self.query is not None:
            return status.running(self.query)
        state = "retired" if self.retired else "failed" if self.failed else "waiting"
        return ViewStatus(self.view.name, self.view.version, state, error=str(self.error or ""))


@dataclass
class Speed:
    """The streams of some views. A view that fails stops alone and is tried again; the others go on."""

    slots: list[Slot]
    launch: Callable[[View, Sources], SpeedQuery]
    state_limit: int
    """Of one view, in bytes."""
    clock: Callable[[], float] = field(default=time.monotonic)
    unread: Mapping[str, Exception] = field(default_factory=dict)
    """Why files of declarations can't be read, by path: their views have no streams here."""

    def look(self) -> None:
        """Note which streams have ended, and start those that are due."""
        now = self.clock()
        for slot in self.slots:
            if slot.query is not None and not slot.query.isActive:
                self._rest(slot, slot.query.failure or _ended(slot.view), now)
            if slot.query is None and not slot.retired and now >= slot.due:
                try:
                    slot.query, slot.error = self.launch(slot.view, slot.topics), None
                    log.info("%s runs", slot.view.writer)
                except Exception as error:  # whatever an author's function raises stops that view alone
                    self._rest(
                        slot, error if isinstance(error, AnabranchError) else _not_started(slot.view, error), now
                    )

    def retire(self, gone: Callable[[View], bool]) -> None:
        """Stop the streams of the versions that are ``gone``, and let those that aren't any more go on."""
        for slot in self.slots:
            slot.retired = gone(slot.view)
            if slot.retired and slot.query is not None:
                log.info("%s is retired", slot.view.writer)
                slot.query.stop()
                slot.query = None

    def told(self) -> list[ViewStatus]:
        """What each stream says of itself. One that keeps too much state is stopped."""
        found = [slot.status() for slot in self.slots]
        for slot, status_now in zip(self.slots, found, strict=True):
            if slot.query is not None and status_now.state_bytes > self.state_limit:
                slot.query.stop()
                self._rest(slot, _too_large(slot.view, status_now.state_bytes, self.state_limit), self.clock())
        return [*found, *(status.unread(Path(path).name, error) for path, error in self.unread.items())]

    @property
    def all_failed(self) -> bool:
        return all(slot.failed for slot in self.slots if not slot.retired) and not all(s.retired for s in self.slots)

    @property
    def outdated(self) -> bool:
        """Whether events of a contract have landed that was declared after this process was started."""
        return any(isinstance(slot.error, Conflict) and slot.error.code == "CONTRACT_NEWER" for slot in self.slots)

    @property
    def fenced(self) -> bool:
        """Whether another process has taken over one of the views."""
        return any(isinstance(slot.error, Conflict) and slot.error.code == "FENCED" for slot in self.slots)

    def stop(self) -> None:
        for slot in self.slots:
            if slot.query is not None:
                slot.query.stop()

    def _rest(self, slot: Slot, error: BaseException, now: float) -> None:
        if slot.error is None or slot.query is not None or str(error) != str(slot.error):
            log.warning("%s v%d stopped: %s", slot.view.name, slot.view.version, error)
        slot.query, slot.error = None, error
        # A replay of some days has committed between two micro-batches: nothing is wrong.
        soon = isinstance(error, TryAgain) or (isinstance(error, Conflict) and error.code == "TABLE_MOVED")
        slot.due = now + (WAIT_SECONDS if soon else RETRY_SECONDS)


def _ended(view: View) -> TryAgain:
    return TryAgain(
        "STREAM_ENDED",
        f"{view.writer} has ended",
        next_step="nothing: it is started again by itself; anabranch status says whether it stays",
    )


def _not_started(view: View, error: Exception) -> BrokenState:
    return BrokenState(
        "START_FAILED",
        f"{view.origin}: {view.name} v{view.version} can't be started: {type(error).__name__}: {root_cause(error)}",
        state="nothing was read or written; the speed table is as it was",
        next_step="mend what it says; it is tried again by itself",
        view=view.name,
    )


def _too_large(view: View, kept: int, limit: int) -> BrokenState:
    return BrokenState(
        "STATE_TOO_LARGE",
        f"{view.origin}: {view.name} v{view.version} keeps {kept / 1e6:,.0f} MB of state; {limit / 1e6:,.0f} MB is the "
        "most",
        state="its stream stopped behind a whole micro-batch; readers have what it wrote until then",
        next_step="let the view forget sooner (shorter windows, forget_after), declare refresh='partitions', or raise "
        "ANABRANCH_STATE_LIMIT_MB",
        view=view.name,
        version=view.version,
        bytes=kept,
    )


def run(settings: Settings, only: Sequence[str] = ()) -> int:
    """Stream the registered views (or ``only`` those names) until SIGTERM or SIGINT; the exit code.

    1 when every view has failed, the engine is gone, another process has taken over, the machine's clock was set back,
    a contract has a newer version than this process knows, or other views are declared by now: whoever watches it
    starts it again. After a kill each stream goes on behind its table's newest commit. A stream that hangs ends the
    process at once (STREAM_HANGS, see ``liveness``).
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    redeclared = DefinitionWatcher(settings.project, only)
    registry = Project(settings).readable_views()
    for path, error in registry.unread.items():
        log.error("%s can't be read; its views have no streams until it is mended: %s", path, error)
    slots = slots_of(registry, only)
    turns = {slot.view.writer: take_turn(settings, slot.view) for slot in slots}
    spark = session(settings, "anabranch-speed", live_engine(settings))

    def launch(view: View, topics: Sources) -> SpeedQuery:
        registry.register(spark, settings, [view])
        return start(spark, settings, view, topics, turn=turns[view.writer])

    speed = Speed(slots, launch, settings.state_limit_mb * 10**6, unread=registry.unread)
    watcher = Watcher(Watched(spark, settings, speed), partial(end_process, spark), settings.hang_seconds)
    watcher.start()
    try:
        return _watch(spark, settings, speed, redeclared, stop)
    finally:
        redeclared.stop()
        spark.stop()
        watcher.stop()


def _watch(
    spark: SparkSession, settings: Settings, speed: Speed, redeclared: DefinitionWatcher, stop: threading.Event
) -> int:
    running = [slot.view.writer for slot in speed.slots]
    looks, clock = 0, WallClock()
    while not stop.is_set():
        if looks % _RETIRED_EVERY == 0:
            speed.retire(lambda view: view.version in retired_versions(settings, view.name))
        looks += 1
        speed.look()
        status.write(settings, speed.told())
        reason = (
            "every view has failed" if speed.all_failed
            else "a contract has a version that is not known here" if speed.outdated
            else "another process has taken over" if speed.fenced
            else "the machine's clock was set back" if clock.set_back()
            else "other views are declared" if redeclared.look(running)
            else ""
        )  # fmt: skip
        if reason:
            log.error("%s: starting again", reason)
            speed.stop()
            return 1
        if spark.sparkContext._jsc.sc().isStopped():
            log.error("the engine is gone")
            return 1
        stop.wait(LOOK_SECONDS)
    speed.stop()
    return 0


def slots_of(registry: Registry, only: Sequence[str] = ()) -> list[Slot]:
    """A slot for each registered view, or for every version of the views named."""
    for name in only:
        registry.get(name)
    chosen = [view for view in registry if not only or view.name in only]
    if not chosen:
        files = "".join(f"; {path} can't be read: {root_cause(error)}" for path, error in registry.unread.items())
        raise BadInput("NO_VIEWS", f"no view is registered{files}", next_step="declare one in spark_jobs/views")
    return [Slot(view, registry.topic(view)) for view in chosen]
