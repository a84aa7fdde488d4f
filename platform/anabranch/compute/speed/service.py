"""The speed process: run the streams of all registered views until SIGTERM."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.compute.speed import status
from anabranch.compute.speed._definition_watcher import DefinitionWatcher
from anabranch.compute.speed._stream_watch import Watched
from anabranch.compute.speed.status import ViewStatus
from anabranch.compute.speed.view_stream import SpeedQuery, acquire_fence, start
from anabranch.contracts.model.topics import Sources
from anabranch.core.clocks import WallClock
from anabranch.core.engine.java_options import live_engine
from anabranch.core.engine.lifetime import engine
from anabranch.core.engine.liveness import Watcher
from anabranch.core.engine.tasks import end_process
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, Conflict, TryAgain, root_cause
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.views import Registry, View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.project import Project
from anabranch.views.retired_versions import retired_versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRY_SECONDS = 30.0
"""The delay before the stream of a failed view is restarted."""
WAIT_SECONDS = 1.0
"""The delay after an error that isn't a failure, such as a landing table that doesn't exist yet."""
POLL_SECONDS = 1.0
_RETIRED_EVERY = 10
"""The routes are read in every tenth poll: a read takes milliseconds per view."""
log = logging.getLogger(__name__)


@dataclass
class Slot:
    """One view of this process: its stream, or why it has none and when it is retried (``due``, monotonic seconds)."""

    view: View
    topics: Sources
    query: SpeedQuery | None = None
    error: BaseException | None = None
    due: float = 0.0
    retired: bool | None = None
    """Whether the version is retired, as far as its routes could be read; None before they were."""
    routes_error: str = ""

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
    """The streams of some views. A failing view stops alone and is retried; the others keep running."""

    slots: list[Slot]
    launch: Callable[[View, Sources], SpeedQuery]
    state_limit: int
    """The state limit per view, in bytes."""
    clock: Callable[[], float] = field(default=time.monotonic)
    unread: Mapping[str, Exception] = field(default_factory=dict)
    """Errors of view files that can't be loaded, by path: their views have no streams here."""
    known: dict[tuple[str, int], ViewStatus] = field(default_factory=dict)
    """The last status of each view, also from the process before this one."""

    def poll(self) -> None:
        """Records which streams have ended, and starts those that are due."""
        now = self.clock()
        for slot in self.slots:
            if slot.query is not None and not slot.query.isActive:
                self._stopped(slot, slot.query.failure or _ended(slot.view), now)
            if slot.query is None and not slot.retired and now >= slot.due:
                try:
                    slot.query, slot.error = self.launch(slot.view, slot.topics), None
                    log.info("%s runs", slot.view.writer)
                except Exception as error:  # whatever an author's function raises stops only that view
                    self._stopped(
                        slot, error if isinstance(error, AnabranchError) else _not_started(slot.view, error), now
                    )

    def retire(self, gone: Callable[[View], bool]) -> None:
        """Stops the streams of retired versions (``gone``), and resumes those of versions that were reinstated. If that
        can't be read for a view, it stays as it is; its stream isn't started before it was read once."""
        for slot in self.slots:
            try:
                slot.retired, slot.routes_error = gone(slot.view), ""
            except Exception as error:  # the other views' streams don't depend on it
                if slot.retired is None and slot.query is None:
                    self._stopped(slot, error, self.clock())
                elif str(error) != slot.routes_error:
                    log.warning("%s: its routes can't be read: %s", slot.view.writer, error)
                slot.routes_error = str(error)
            if slot.retired and slot.query is not None:
                log.info("%s is retired", slot.view.writer)
                slot.query.stop()
                slot.query = None

    def statuses(self) -> list[ViewStatus]:
        """The status of each view. A stream whose state exceeds the limit is stopped."""
        found = [slot.status() for slot in self.slots]
        for slot, status_now in zip(self.slots, found, strict=True):
            if slot.query is not None and status_now.state_bytes > self.state_limit:
                slot.query.stop()
                self._stopped(slot, _too_large(slot.view, status_now.state_bytes, self.state_limit), self.clock())
        shown = [status.with_known_state(each, self.known) for each in found]
        self.known |= {(each.view, each.version): each for each in shown if each.state == "running"}
        return [*shown, *(status.unread(Path(path).name, error) for path, error in self.unread.items())]

    @property
    def all_failed(self) -> bool:
        return all(slot.failed for slot in self.slots if not slot.retired) and not all(s.retired for s in self.slots)

    @property
    def outdated(self) -> bool:
        """Whether events have landed of a contract version that was declared after this process was started."""
        return any(isinstance(slot.error, Conflict) and slot.error.code == "CONTRACT_NEWER" for slot in self.slots)

    @property
    def fenced(self) -> bool:
        """Whether another process has taken over one of the views."""
        return any(isinstance(slot.error, Conflict) and slot.error.code == "FENCED" for slot in self.slots)

    def stop(self) -> None:
        for slot in self.slots:
            if slot.query is not None:
                slot.query.stop()

    def _stopped(self, slot: Slot, error: BaseException, now: float) -> None:
        if slot.error is None or slot.query is not None or str(error) != str(slot.error):
            log.warning("%s v%d stopped: %s", slot.view.name, slot.view.version, error)
        slot.query, slot.error = None, error
        # TABLE_MOVED isn't a failure: a replay of some days has committed between two micro-batches.
        soon = isinstance(error, TryAgain) or (isinstance(error, Conflict) and error.code == "TABLE_MOVED")
        slot.due = now + (WAIT_SECONDS if soon else RETRY_SECONDS)


def _ended(view: View) -> TryAgain:
    return TryAgain(
        "STREAM_ENDED",
        f"{view.writer} has ended",
        next_step="nothing: it restarts automatically; anabranch status shows whether it keeps running",
    )


def _not_started(view: View, error: Exception) -> BrokenState:
    return BrokenState(
        "START_FAILED",
        f"{view.origin}: {view.name} v{view.version} can't be started: {type(error).__name__}: {root_cause(error)}",
        state="nothing was read or written; the speed table is unchanged",
        next_step="fix the cause; the start is retried automatically",
        view=view.name,
    )


def _too_large(view: View, kept: int, limit: int) -> BrokenState:
    return BrokenState(
        "STATE_TOO_LARGE",
        f"{view.origin}: {view.name} v{view.version} keeps {kept / 1e6:,.0f} MB of state; the limit is "
        f"{limit / 1e6:,.0f} MB",
        state="its stream stopped after a complete micro-batch; readers see the rows written until then",
        next_step="let the view drop state sooner (shorter windows, forget_after), declare refresh='partitions', or "
        "raise ANABRANCH_STATE_LIMIT_MB",
        view=view.name,
        version=view.version,
        bytes=kept,
    )


def run(settings: Settings, only: Sequence[str] = ()) -> int:
    """Streams the registered views (or ``only`` those names) until SIGTERM or SIGINT. Returns the exit code.

    The exit code is 1 when every view has failed, the Spark engine has stopped, another process has taken over, the
    system clock was set back, a contract has a newer version than this process knows, or other views are declared now;
    the supervisor then restarts the process. After a kill each stream continues after its table's latest commit. A
    stream that hangs ends the process at once (STREAM_HANGS, see ``liveness``).
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    definitions = DefinitionWatcher(settings.project, only)
    registry = Project(settings).readable_views()
    for path, error in registry.unread.items():
        log.error("%s can't be loaded; its views have no streams until it is fixed: %s", path, error)
    slots = slots_of(registry, only)
    fences = {
        slot.view.writer: acquire_fence(VersionRef(settings, slot.view.name, slot.view.version)) for slot in slots
    }
    with ExitStack() as cleanup, engine(settings, "anabranch-speed", live_engine(settings)) as spark:

        def launch(view: View, topics: Sources) -> SpeedQuery:
            registry.register(spark, settings, [view])
            return start(spark, ViewHandle(settings, view, topics), fence=fences[view.writer])

        limit, known = settings.state_limit_mb * 10**6, _last_statuses(settings)
        speed = Speed(slots, launch, limit, unread=registry.unread, known=known)
        end, watched = partial(end_process, spark), Watched(spark, settings, speed)
        watcher = Watcher(watched, end, settings.hang_seconds, set_back=WallClock().set_back)
        watcher.start()
        cleanup.callback(watcher.stop)  # last: an engine that doesn't stop hangs, too
        try:
            return _watch(spark, settings, speed, definitions, stop)
        finally:
            definitions.stop()


def _last_statuses(settings: Settings) -> dict[tuple[str, int], ViewStatus]:
    """What the process before this one wrote last."""
    try:
        return {(each.view, each.version): each for each in status.read(settings)}
    except (OSError, ValueError, KeyError, TypeError):  # written by another release, or torn: for display only
        return {}


def _watch(
    spark: SparkSession, settings: Settings, speed: Speed, definitions: DefinitionWatcher, stop: threading.Event
) -> int:
    running = [slot.view.writer for slot in speed.slots]
    polls, clock = 0, WallClock()
    while not stop.is_set():
        if polls % _RETIRED_EVERY == 0:
            speed.retire(lambda view: view.version in retired_versions(settings, view.name))
        polls += 1
        speed.poll()
        status.write(settings, speed.statuses())
        reason = (
            "every view has failed" if speed.all_failed
            else "a contract has a version that this process doesn't know" if speed.outdated
            else "another process has taken over" if speed.fenced
            else "the system clock was set back" if clock.set_back()
            else "other views are declared" if definitions.poll(running)
            else ""
        )  # fmt: skip
        if reason:
            log.error("%s: the process ends, to be restarted", reason)
            speed.stop()
            return 1
        if spark.sparkContext._jsc.sc().isStopped():
            log.error("the Spark engine has stopped")
            return 1
        stop.wait(POLL_SECONDS)
    speed.stop()
    return 0


def slots_of(registry: Registry, only: Sequence[str] = ()) -> list[Slot]:
    """A slot for each registered view, or for every version of the ``only`` ones."""
    for name in only:
        registry.get(name)
    chosen = [view for view in registry if not only or view.name in only]
    if not chosen:
        files = "".join(f"; {path} can't be read: {root_cause(error)}" for path, error in registry.unread.items())
        raise BadInput("NO_VIEWS", f"no view is registered{files}", next_step="declare one in spark_jobs/views")
    return [Slot(view, registry.topic(view)) for view in chosen]
