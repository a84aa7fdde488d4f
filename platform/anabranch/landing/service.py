"""Landing as a long-running process: one query per topic in one session."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Sequence

from anabranch.events import load_declarations
from anabranch.landing.stream import start
from anabranch.log.admin import create_missing
from anabranch.settings import Settings
from anabranch.spark import OWN_CODE, session

LOGGER = logging.getLogger(__name__)


def run(settings: Settings, only: Sequence[str] = ()) -> int:
    """Land the declared topics (or ``only`` some) until SIGTERM or SIGINT; the exit code.

    When one topic's query fails, the others are stopped cleanly and its error is raised: whoever watches this
    process starts it again, and every topic goes on where its table stands.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    declared = load_declarations(settings.project / "spark_jobs" / "contracts")
    topics = [declared.topic(name) for name in only] or list(declared.topics.values())
    create_missing(settings, topics)
    spark = session(settings, "anabranch-landing", OWN_CODE)
    try:
        queries = [start(spark, settings, topic) for topic in topics]
        LOGGER.info("landing %s", ", ".join(t.name for t in topics))
        while not stop.wait(0.5):
            for query in queries:
                failure = query.exception()
                if failure is not None:
                    raise failure
        for query in queries:
            query.stop()
    finally:
        spark.stop()
    return 0
