"""Landing as a long-running process: one query per topic in one session."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from anabranch.clocks import WallClock
from anabranch.engine_tasks import end_process
from anabranch.errors import Conflict, TryAgain
from anabranch.events import Topic, load_declarations
from anabranch.landing import halted
from anabranch.landing.stream import LandingQuery, start, take_turn
from anabranch.landing.watched import Watched
from anabranch.liveness import Watcher
from anabranch.log.admin import create_missing
from anabranch.settings import Settings
from anabranch.spark import OWN_CODE, live_engine, session

LOGGER = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
HALTS = frozenset({"OFFSETS_LOST", "LOG_REPLACED"})
"""What doesn't go away by starting again. A contract that was mended does: it is read when the process starts."""
RETRY_SECONDS = 30.0
"""How long a topic rests over which a person has to decide, before it is looked at again."""


@dataclass
class LandingStreams:
    """The topics of this process. One whose log a person has to decide about (HALTS) is halted, and the others are
    landed."""

    topics: Sequence[Topic]
    launch: Callable[[Topic], LandingQuery]
    clock: Callable[[], float] = time.monotonic
    queries: dict[str, LandingQuery] = field(default_factory=dict)
    halted: dict[str, Conflict] = field(default_factory=dict)
    _due: float = float("-inf")

    def look(self) -> None:
        """Start what doesn't run and is due. Raises what stopped a query, or what keeps one from starting and isn't
        one of HALTS."""
        for query in self.queries.values():
            if query.failure is not None:
                raise query.failure
        if len(self.queries) == len(self.topics) or self.clock() < self._due:
            return
        self._due = self.clock() + RETRY_SECONDS
        for topic in self.topics:
            if topic.name not in self.queries:
                self._start(topic)

    def _start(self, topic: Topic) -> None:
        try:
            self.queries[topic.name] = self.launch(topic)
        except Conflict as conflict:
            if conflict.code not in HALTS:
                raise
            if str(self.halted.get(topic.name)) != str(conflict):
                LOGGER.error("%s is halted: %s", topic.name, conflict)
            self.halted[topic.name] = conflict
        else:
            self.halted.pop(topic.name, None)
            LOGGER.info("landing %s", topic.name)


def run(settings: Settings, only: Sequence[str] = ()) -> int:
    """Land the declared topics (or ``only`` some) until SIGTERM or SIGINT; the exit code.

    When one topic's query fails, the others are stopped cleanly and its error is raised: whoever watches this
    process starts it again, and every topic goes on where its table stands. A topic over which a person has to decide
    is left out until then. TryAgain CLOCK_SET_BACK when the machine's clock was: see ``clocks``. A query that hangs
    (STREAM_HANGS) ends the process at once: see ``liveness``.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop, clock = threading.Event(), WallClock()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    declared = load_declarations(settings.project / "spark_jobs" / "contracts")
    topics = [declared.topic(name) for name in only] or list(declared.topics.values())
    create_missing(settings, topics)
    turns = {topic.name: take_turn(settings, topic) for topic in topics}
    spark = session(settings, "anabranch-landing", {**OWN_CODE, **live_engine(settings)})
    landing = LandingStreams(topics, lambda topic: start(spark, settings, topic, turn=turns[topic.name]))
    told: Mapping[str, Conflict] | None = None
    watcher = Watcher(Watched(spark, settings, landing), partial(end_process, spark), settings.hang_seconds)
    watcher.start()
    try:
        while True:
            landing.look()
            if told != landing.halted:
                told = dict(landing.halted)
                halted.write(settings, told)
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


def _set_back(seconds: float) -> TryAgain:
    return TryAgain(
        "CLOCK_SET_BACK",
        f"the machine's clock was set back by {seconds:,.0f} s: streams would wait until it is there again",
        state="everything up to each table's newest epoch is landed",
        next_step="nothing: landing is started again by itself",
        seconds=seconds,
    )
