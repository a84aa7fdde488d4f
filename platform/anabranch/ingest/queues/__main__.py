"""``python -m anabranch.ingest.queues``: takes messages from RabbitMQ, until it is stopped. Part of `anabranch up`."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time

from anabranch.contracts import load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core import part_report
from anabranch.core.errors import AnabranchError, BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.producer import open_client
from anabranch.ingest.queues._connection import password, port
from anabranch.ingest.queues._taking import LAST_SECONDS, Taker

log = logging.getLogger(__name__)
PART = "queues"
REPORT_SECONDS = 1.0
HANGS_SECONDS = 120.0
DELIVERY_SECONDS = 30


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # what matters of it is said by ``_taking``
    try:
        settings = load_settings()
        declarations = load_declarations(settings.contracts_folder)
        if not settings.amqp_url or not declarations.queues:
            raise BadInput(
                "NO_QUEUES",
                "no queue is declared, or ANABRANCH_AMQP_URL isn't set",
                state="nothing was taken",
                next_step="declare Queue(NAME, TOPIC) next to the topic, and set ANABRANCH_AMQP_URL",
            )
        port(settings)
        password(settings)  # a file that isn't there is named before anything starts
        return run(settings, declarations)
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def run(settings: Settings, declarations: Declarations) -> int:
    """Take the declared queues until SIGTERM or SIGINT; returns the exit code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    client = open_client(settings, declarations, linger_ms=2, delivery_seconds=DELIVERY_SECONDS)
    sources = part_report.sources(settings, PART, [queue.name for queue in declarations.queues])
    takers = [
        Taker(settings, queue, declarations.topic(queue.topic), client, sources[queue.name], stop)
        for queue in declarations.queues
    ]
    for taker in takers:
        taker.start()
    sound = True
    while sound and not stop.is_set():
        part_report.write(settings, PART, sources)
        stop.wait(REPORT_SECONDS)
        sound = stop.is_set() or all(_is_sound(taker) for taker in takers)
    stop.set()
    until = time.monotonic() + 2 * LAST_SECONDS
    for taker in takers:
        taker.join(max(0.0, until - time.monotonic()))
    part_report.write(settings, PART, sources)
    return 0 if sound else 1


def _is_sound(taker: Taker) -> bool:
    hangs = time.monotonic() - taker.looked > HANGS_SECONDS
    if hangs or not taker.is_alive():
        log.critical("%s %s: the process ends, and is started again", taker.name, "hangs" if hangs else "has ended")
    return taker.is_alive() and not hangs


if __name__ == "__main__":
    sys.exit(main())
