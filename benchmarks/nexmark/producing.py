"""The auction house as a producer: its events into the log, through the platform's own producer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import ensure_topics
from anabranch_samples.publishing import Pace, Summary, publish

from benchmarks.nexmark.declared import TOPIC, declarations
from benchmarks.nexmark.generator import Workload, nexmark_events

_ALL_OUT = Pace()


def produce(
    settings: Settings,
    workload: Workload,
    file: Path,
    pace: Pace = _ALL_OUT,
    on_progress: Callable[[int], None] = lambda count: None,
) -> Summary:
    """Make the topic where it is missing, send every event, and keep in ``file`` what was sent and where it landed.

    Each event is checked against its contract. Sent again with the same workload, the ids are the same, and landing
    keeps the first of each. Raises what ``publish`` and ``ensure_topics`` raise.
    """
    declared = declarations()
    ensure_topics(settings, declared, {TOPIC})
    with Producer(settings, declared) as producer:
        return publish(producer, nexmark_events(workload, declared), file, pace, on_progress)
