"""Landing as a long-running process: one query per topic in one session."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from anabranch.contracts import Topic, load_declarations
from anabranch.core.clocks import WallClock
from anabranch.core.engine_tasks import end_process
from anabranch.core.errors import AnabranchError, BadDefinition, TryAgain, root_cause
from anabranch.core.liveness import Watcher
from anabranch.core.settings import Settings
from anabranch.core.spark import OWN_CODE, live_engine, session
from anabranch.ingest.kafka.admin import create_missing, existing_topics
from anabranch.ingest.landing import status
from anabranch.ingest.landing.stream import LandingQuery, start, take_turn
from anabranch.ingest.landing.stream_watch import Watched

LOGGER = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
HALTS = frozenset({"OFFSETS_LOST", "LOG_REPLACED"})
"""What only a person ends."""
ENDS = frozenset({"FENCED"})
"""What isn't about a topic: another process lands by now."""
FIRST_SECONDS, RETRY_SECONDS = 1.0, 30.0
"""How long a topic that fails rests, at first and at most. The pause doubles with each failure."""


@dataclass
class Failing:
    """A topic that isn't landed, or was started again and hasn't shown yet that it can be.

    ``running``: it has failed in the middle, so that it starts says nothing. ``due``: when it is started again.
    ``sound``: when it counts as landed, though it has had nothing to land.
    """

    error: AnabranchError
    running: bool
    pause: float
    due: float
    sound: float = float("inf")


@dataclass
class LandingStreams:
    """The topics of this process. One that fails is halted, and started again after a pause; the others are landed."""

    topics: Sequence[Topic]
    launch: Callable[[Topic], LandingQuery]
    clock: Callable[[], float] = time.monotonic
    queries: dict[str, LandingQuery] = field(default_factory=dict)
    _failing: dict[str, Failing] = field(default_factory=dict)

    @property
    def halted(self) -> dict[str, AnabranchError]:
        """The newest error of each topic that isn't landed."""
        return {name: failing.error for name, failing in self._failing.items()}

    def look(self) -> None:
        """Start what doesn't run and is due. Called again and again, from one thread.

        Raises one of ENDS; and, where no topic is landed any more, an error that isn't one of HALTS: a new process may
        help then, and nothing is kept from it.
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
        curable = [error for error in self.halted.values() if error.code not in HALTS]
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


def run(settings: Settings, only: Sequence[str] = ()) -> int:
    """Land the declared topics (or ``only`` some) until SIGTERM or SIGINT; the exit code.

    A topic that fails is left out and tried again, with its declaration as it is then. When none is landed any more,
    the error is raised: whoever watches this process starts it again, and every topic goes on where its table stands.
    TryAgain CLOCK_SET_BACK when the machine's clock was: see ``clocks``. A query that
    hangs (STREAM_HANGS) ends the process at once: see ``liveness``.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop, clock = threading.Event(), WallClock()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    declared = load_declarations(settings.contracts_folder)
    topics = [declared.topic(name) for name in only] or list(declared.topics.values())
    existing_topics(settings)  # says at once that no broker answers
    turns = {topic.name: take_turn(settings, topic) for topic in topics}
    spark = session(settings, "anabranch-landing", {**OWN_CODE, **live_engine(settings)})

    def launch(topic: Topic) -> LandingQuery:
        current = _as_declared(settings.contracts_folder, topic) if topic.name in landing.halted else topic
        create_missing(settings, [current])
        return start(spark, settings, current, turn=turns[topic.name])

    landing = LandingStreams(topics, launch)
    watcher = Watcher(Watched(spark, settings, landing), partial(end_process, spark), settings.hang_seconds)
    watcher.start()
    try:
        with _told(settings, landing) as tell:
            while True:
                landing.look()
                tell()
                if back := clock.set_back():
                    raise _set_back(back)
                if stop.wait(LOOK_SECONDS):
                    break
        for query in landing.queries.values():
            query.stop()
    finally:
        spark.stop()
        watcher.stop()
    return 0


def _as_declared(contracts: Path, topic: Topic) -> Topic:
    """What the files say of ``topic`` now. BadDefinition; BadInput TOPIC_UNKNOWN."""
    try:
        return load_declarations(contracts, anew=True).topic(topic.name)
    except AnabranchError:
        raise
    except Exception as error:  # whatever a file does that somebody is at work on
        raise BadDefinition(
            "DECLARATION_UNREADABLE",
            f"a file in {contracts} can't be read: {type(error).__name__}: {root_cause(error)}",
            state=f"{topic.name} isn't landed",
            next_step="mend the file; landing looks at it again by itself",
        ) from error


@contextmanager
def _told(settings: Settings, landing: LandingStreams) -> Iterator[Callable[[], None]]:
    """What is halted is written down when it changes, and before an error ends the process."""
    told: Mapping[str, AnabranchError] | None = None

    def tell() -> None:
        nonlocal told
        if told == (now := landing.halted):
            return
        try:
            status.write(settings, now)
            told = now
        except OSError as error:  # a full disk may be what a topic is halted by
            LOGGER.warning("what is halted can't be written down: %s", error)

    try:
        yield tell
    except AnabranchError as error:
        if error.code not in ENDS:  # another process has its own to tell
            tell()
        raise


def _set_back(seconds: float) -> TryAgain:
    return TryAgain(
        "CLOCK_SET_BACK",
        f"the machine's clock was set back by {seconds:,.0f} s: streams would wait until it is there again",
        state="everything up to each table's newest epoch is landed",
        next_step="nothing: landing is started again by itself",
        seconds=seconds,
    )
