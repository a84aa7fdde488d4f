"""The events of the soak: two years of flights, one behind the other, at a steady rate."""

from __future__ import annotations

import threading
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random

import polars as pl
from anabranch.contracts import load_declarations
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import ensure_topics
from anabranch_samples.faults import SMALL, inject
from anabranch_samples.flights import EVENT_TYPES, flight_events
from anabranch_samples.publishing import Pace, Summary, publish

FIRST = date(2013, 1, 1)
_YEAR = 365
_AGAIN = timedelta(days=2 * _YEAR)
"""From 2013 to 2015: neither 2014 nor 2015 has a 29th of February, so the texts of days can be changed as well."""
_YEARS, _LATER = ["2012-", "2013-", "2014-"], ["2014-", "2015-", "2016-"]
_SETTLED = 8
"""Days behind the newest events after which nothing of a day is still to come: the latest are five days late."""


class Load:
    """``rate`` records a second, for so many seconds, sent by a thread; the producer's own file at its end."""

    def __init__(self, settings: Settings, rate: float, seconds: float, seed: int) -> None:
        declared = load_declarations(settings.project / "spark_jobs" / "contracts")
        ensure_topics(settings, declared, {declared.topic_of(kind).name for kind in EVENT_TYPES})
        year = flight_events(FIRST, _YEAR, declared)
        every = inject(pl.concat([year, _shifted(year)]), SMALL, seed).head(int(rate * seconds))
        self.file: Path = settings.home / "produced" / "soak.parquet"
        self.sent, self.told = 0, list[Summary]()
        self.failure: BaseException | None = None
        self._times = every["publish_time"]

        def send() -> None:
            try:
                with Producer(settings, declared) as producer:
                    self.told.append(publish(producer, every, self.file, Pace(rate=rate), self._count))
            except BaseException as error:
                self.failure = error
                raise

        self._thread = threading.Thread(target=send, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> Summary:
        """What was sent. Raises what the producer raised."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure
        return self.told[0]

    def wait(self, seconds: float) -> None:
        """So long, or until all is sent."""
        self._thread.join(seconds)

    @property
    def sending(self) -> bool:
        return self._thread.is_alive()

    def days(self, rng: Random) -> tuple[date, date] | None:
        """One to three days of which nothing is still to come; None while there are none."""
        if self._settled < 1:
            return None
        end = FIRST + timedelta(days=rng.randint(0, self._settled - 1))
        return max(FIRST, end - timedelta(days=rng.randint(0, 2))), end

    def three_days(self, rng: Random) -> date | None:
        """The first of three such days."""
        return FIRST + timedelta(days=rng.randint(0, self._settled - 3)) if self._settled >= 3 else None

    @property
    def _settled(self) -> int:
        """So many days from the first one on are over."""
        newest: datetime = self._times[max(self.sent - 1, 0)]
        return (newest.date() - timedelta(days=_SETTLED) - FIRST).days + 1

    def _count(self, more: int) -> None:
        self.sent += more


def _shifted(events: pl.DataFrame) -> pl.DataFrame:
    """The same events two years later; ids and payloads hold their days as text."""
    times = [pl.col(name) + _AGAIN for name in ("publish_time", "time", "senttime", "receivedtime")]
    texts = [pl.col(name).str.replace_many(_YEARS, _LATER) for name in ("id", "data")]
    return events.with_columns(*times, *texts)
