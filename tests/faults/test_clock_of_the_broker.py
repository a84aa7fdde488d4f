"""The clock of the broker is set by a day, back and ahead (libfaketime): what happens now looks like the future to it,
waits in quarantine, and comes in when a person says so; nothing is landed twice."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.quarantine import release
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime.kafka_server import kafka_part
from support.fake_time import Clock
from support.parcels_topic import assert_sound, land, made_topic, parcel, rows_of, send
from support.processes import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.sweep]


@contextmanager
def broker_with(settings: Settings, clock: Clock) -> Iterator[None]:
    """The embedded broker, with a clock of its own."""
    part = kafka_part(settings)
    part.prepare()
    part.log.parent.mkdir(parents=True, exist_ok=True)
    with part.log.open("wb") as log:
        environment = {**os.environ, **part.env, **clock.environment}
        running = subprocess.Popen(part.command, cwd=part.cwd, env=environment, stdout=log, stderr=log)
    try:
        eventually(lambda: part.ready(0), 60)
        yield
    finally:
        running.kill()
        running.wait(20)


def test_what_happens_now_waits_and_can_be_released(
    spark: SparkSession, own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report], tmp_path: Path
) -> None:
    clock, own = Clock(tmp_path), own_settings("broker-clock")
    settings = own.model_copy(update={"home": tmp_path / "home"})
    with broker_with(own, clock):
        topic = made_topic(own)

        def sent(numbers: Sequence[int]) -> list[tuple[str, timedelta]]:
            """Parcels that are seen now: the decision on each, and how far the log was ahead of now."""
            now = datetime.now(UTC)
            send(own, topic, (parcel(n, time=now.isoformat()) for n in numbers))
            land(spark, settings, topic)
            rows = rows_of(settings, topic)
            newest = max(row["epoch"] for row in rows)
            return [(row["decision"], row["append_time"] - now) for row in rows if row["epoch"] == newest]

        first = list(range(10))
        for days, numbers, decisions in (
            (0, first, ["valid"] * 10),
            (-1, [*range(10, 20), *first], ["quarantined"] * 20),
            (1, [*range(20, 30), *first], ["duplicate"] * 10 + ["valid"] * 10),
            (0, [*range(30, 40), *first], ["duplicate"] * 10 + ["valid"] * 10),
        ):
            clock.set(f"{days:+}d")
            time.sleep(2)
            found = sent(numbers)
            assert all(abs(ahead - timedelta(days=days)) < timedelta(minutes=1) for _, ahead in found), (days, found)
            assert sorted(decided for decided, _ in found) == decisions, days
        assert_sound(settings, topic, 70)

        widened = replace(topic, future_bound=timedelta(days=2))
        released = release(spark, settings, widened, None, "the broker's clock was a day behind")
        assert (released.released, released.duplicates) == (10, 10)
        rows = rows_of(settings, topic)
        assert sorted({int(row["event_id"]) for row in rows if row["decision"] == "valid"}) == list(range(40))
        assert sum(row["decision"] == "valid" for row in rows) == 40
        assert not diagnosis(settings, widened).findings
