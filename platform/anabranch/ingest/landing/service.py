"""Landing as a long-running process: one query per topic in one session."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from anabranch.contracts import Topic, load_declarations
from anabranch.core.clocks import WallClock
from anabranch.core.engine.java_options import live_engine
from anabranch.core.engine.lifetime import engine
from anabranch.core.engine.liveness import Watcher
from anabranch.core.engine.tasks import end_process
from anabranch.core.errors import AnabranchError, BadDefinition, BrokenState, TryAgain, root_cause
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import create_missing, existing_topics
from anabranch.ingest.landing import status
from anabranch.ingest.landing._stream_watch import Watched
from anabranch.ingest.landing.stream import LandingQuery, start, take_turn

LOGGER = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
HALTS = frozenset({"OFFSETS_LOST", "LOG_REPLACED"})
"""Errors that only a person can resolve."""
WAITS = frozenset({"SCHEMA_TAKEN_IN", "REGISTRY_UNREACHABLE", "REGISTRY_NOT_SET", "REGISTRY_REFUSES"})
"""Errors that a new process would meet as well: the topic alone is started again."""
ENDS = frozenset({"FENCED"})
"""Errors that end the process: another process lands now."""
FIRST_SECONDS, RETRY_SECONDS = 1.0, 30.0
"""The first and the longest pause of a failing topic. The pause doubles with each failure."""


@dataclass
class Failing:
    """A topic that isn't landed, or was restarted and has not landed anything yet.

    ``running``: it failed while it ran, so a successful start alone proves nothing. ``due``: when it is started again.
    ``sound``: when it counts as healthy even if it had nothing to land.
    """

    error: AnabranchError
    running: bool
    pause: float
    due: float
    sound: float = float("inf")


@dataclass
class LandingStreams:
    """The topics of this process. A failing topic is halted and restarted after a pause; the others go on."""

    topics: Sequence[Topic]
    launch: Callable[[Topic], LandingQuery]
    clock: Callable[[], float] = time.monotonic
    queries: dict[str, LandingQuery] = field(default_factory=dict)
    _failing: dict[str, Failing] = field(default_factory=dict)

    @property
    def halted(self) -> dict[str, AnabranchError]:
        """The newest error of each topic that isn't landed."""
        return {name: failing.error for name, failing in self._failing.items()}

    def poll(self) -> None:
        """Start the topics that don't run and are due. Called periodically, from one thread.

        Raises an error of ENDS; and, if no topic is landed any more, an error of neither HALTS nor WAITS: a new process
        may help then, and there is no running topic that it would interrupt.
        """
        for name, query in list(self.queries.items()):
            if (failure := query.failure) is not None:
                del self.queries[name]
                self._halt(name, failure, running=True)
            elif query.has_landed or self.clock() >= self._sound(name):
                self._failing.pop(name, None)
        for topic in self.topics:
            failing = self._failing.get(topic.name)
            if topic.name not in self.queries and (failing is None or self.clock() >= failing.due):
                self._start(topic)
        curable = [error for error in self.halted.values() if error.code not in HALTS | WAITS]
        if not self.queries and curable:
            raise curable[0]

    def _sound(self, name: str) -> float:
        failing = self._failing.get(name)
        return float("inf") if failing is None else failing.sound

    def _start(self, topic: Topic) -> None:
        try:
            self.queries[topic.name] = self.launch(topic)
        except AnabranchError as error:
            self._halt(topic.name, error, running=False)
            return
        except Exception as error:  # whatever its files, the disk or the engine make of this topic: the others go on
            LOGGER.debug("%s can't be started", topic.name, exc_info=True)
            self._halt(topic.name, _not_started(topic, error), running=False)
            return
        LOGGER.info("landing %s", topic.name)
        failing = self._failing.get(topic.name)
        if failing is not None and failing.running:
            failing.sound = self.clock() + RETRY_SECONDS
        else:
            self._failing.pop(topic.name, None)

    def _halt(self, name: str, error: AnabranchError, *, running: bool) -> None:
        if error.code in ENDS:
            raise error
        before = self._failing.get(name)
        if before is None or str(before.error) != str(error):
            LOGGER.error("%s is halted: %s", name, error)
        pause = FIRST_SECONDS if before is None else min(before.pause * 2, RETRY_SECONDS)
        pause = RETRY_SECONDS if error.code in HALTS else pause
        running = running or (before is not None and before.running)
        self._failing[name] = Failing(error, running, pause, self.clock() + pause)


def _not_started(topic: Topic, error: Exception) -> BrokenState:
    return BrokenState(
        "START_FAILED",
        f"landing of {topic.name} can't be started: {type(error).__name__}: {root_cause(error)}",
        state="everything up to the table's newest epoch is landed",
        next_step="fix the cause; the start is tried again by itself",
        topic=topic.name,
    )


def run(settings: Settings, only: Sequence[str] = ()) -> int:
    """Land the declared topics (or ``only`` some) until SIGTERM or SIGINT; returns the exit code.

    A failing topic is left out and tried again, with its declaration as it is then. If no topic is landed any more, the
    error is raised: the supervisor restarts this process, and every topic continues from its table. Raises TryAgain
    CLOCK_SET_BACK if the machine's clock was set back: see ``core.clocks``. A query that hangs (STREAM_HANGS) ends the
    process at once: see ``core.engine.liveness``.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop, clock = threading.Event(), WallClock()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    declared = load_declarations(settings.contracts_folder)
    topics = [declared.topic(name) for name in only] or list(declared.topics.values())
    existing_topics(settings)  # fails fast if no broker answers
    turns = {topic.name: take_turn(settings, topic) for topic in topics}
    with ExitStack() as cleanup, engine(settings, "anabranch-landing", live_engine(settings)) as spark:

        def launch(topic: Topic) -> LandingQuery:
            current = _as_declared(settings.contracts_folder, topic) if topic.name in landing.halted else topic
            create_missing(settings, [current])
            return start(spark, settings, current, turn=turns[topic.name])

        landing = LandingStreams(topics, launch)
        end, watched = partial(end_process, spark), Watched(spark, settings, landing)
        watcher = Watcher(watched, end, settings.hang_seconds, set_back=clock.set_back)
        watcher.start()
        cleanup.callback(watcher.stop)  # last: an engine that doesn't stop hangs, too
        _land(settings, landing, clock, stop)
    return 0


def _land(settings: Settings, landing: LandingStreams, clock: WallClock, stop: threading.Event) -> None:
    with _status_file(settings, landing) as tell:
        while True:
            landing.poll()
            tell()
            if back := clock.set_back():
                raise _set_back(back)
            if stop.wait(LOOK_SECONDS):
                break
    for query in landing.queries.values():
        query.stop()


def _as_declared(contracts: Path, topic: Topic) -> Topic:
    """``topic`` as its file declares it now. Raises BadDefinition, or BadInput TOPIC_UNKNOWN."""
    try:
        return load_declarations(contracts, reload=True).topic(topic.name)
    except AnabranchError:
        raise
    except Exception as error:  # anything: a person may be editing the file
        raise BadDefinition(
            "DECLARATION_UNREADABLE",
            f"a file in {contracts} can't be loaded: {type(error).__name__}: {root_cause(error)}",
            state=f"{topic.name} isn't landed",
            next_step="correct the file; landing reads it again by itself",
        ) from error


@contextmanager
def _status_file(settings: Settings, landing: LandingStreams) -> Iterator[Callable[[], None]]:
    """Writes the halted topics to the status file when they change, and before an error ends the process."""
    written: Mapping[str, AnabranchError] | None = None

    def tell() -> None:
        nonlocal written
        if written == (now := landing.halted):
            return
        try:
            status.write(settings, now)
            written = now
        except OSError as error:  # a full disk may be the reason why a topic is halted
            LOGGER.warning("the halted topics can't be written to the status file: %s", error)

    try:
        yield tell
    except AnabranchError as error:
        if error.code not in ENDS:  # otherwise another process owns the status file
            tell()
        raise


def _set_back(seconds: float) -> TryAgain:
    return TryAgain(
        "CLOCK_SET_BACK",
        f"the machine's clock was set back by {seconds:,.0f} s: streams would wait until it reaches the old time",
        state="everything up to each table's newest epoch is landed",
        next_step="nothing: landing restarts by itself",
        seconds=seconds,
    )
