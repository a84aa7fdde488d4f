"""``python -m anabranch.ingest.statsd``: takes StatsD's metrics until it is stopped. Started by `anabranch up`."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from functools import partial

from anabranch.contracts import CloudEvents, Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.model.metrics import METRIC
from anabranch.core import part_report
from anabranch.core.errors import AnabranchError, BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.producer import open_client
from anabranch.ingest.statsd._receiver import Receiver

PART = "statsd"
DELIVERY_SECONDS = 30


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        settings = load_settings()
        declarations = load_declarations(settings.contracts_folder)
        topic = check_topic(settings, declarations)
        name = f"{settings.statsd_host}:{settings.statsd_port}"
        sources = part_report.sources(settings, PART, [name])
        client = open_client(settings, declarations, linger_ms=20, delivery_seconds=DELIVERY_SECONDS)
        report = partial(part_report.write, settings, PART, sources)
        receiver = Receiver(settings, client, sources[name], report, topic.in_kafka)
        receiver.run(stop)
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def check_topic(settings: Settings, declarations: Declarations) -> Topic:
    """The topic of the settings. Raises BadInput STATSD_TOPIC unless it carries the events that metrics become."""
    topic = declarations.topics.get(settings.statsd_topic)
    if topic is None or METRIC.name not in topic.event_types or not isinstance(topic.records, CloudEvents):
        raise BadInput(
            "STATSD_TOPIC",
            f"{settings.statsd_topic!r} is no declared topic that carries {METRIC.name}, as CloudEvents",
            state="nothing was started",
            next_step=f'declare Topic("{settings.statsd_topic or "metrics"}", (METRIC,)), or correct '
            "ANABRANCH_STATSD_TOPIC",
        )
    return topic


if __name__ == "__main__":
    sys.exit(main())
