"""What the benchmarks run in: settings and a home of their own, the log full of flights, and landing filled from it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

from anabranch.contracts import Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.views import View, load_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = date(2013, 1, 1)
SEED = 2013


Size = Literal["tiny", "quick", "full"]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class World:
    """The place of one benchmark. ``size``: tiny is for the tests (three days, one run), quick for a first look
    (January, 3 runs), full for figures (the year, 5 runs). ``session``: an engine that is there already and stays;
    ``platform``: what the case would start runs with these settings already, over some flights, and stays."""

    settings: Settings
    size: Size = "full"
    session: SparkSession | None = None
    platform: bool = False

    def pick(self, tiny: Value, quick: Value, full: Value) -> Value:
        """The value for this size."""
        return {"tiny": tiny, "quick": quick, "full": full}[self.size]

    def at(self, settings: Settings, size: Size | None = None) -> World:
        """The same with other settings."""
        return replace(self, settings=settings, size=size or self.size)

    @property
    def days(self) -> int:
        return self.pick(3, 31, 365)

    @property
    def runs(self) -> int:
        return self.pick(1, 3, 5)

    def warm_ups(self, number: int) -> int:
        """``number`` runs that are not kept; none in a tiny run."""
        return self.pick(0, number, number)

    @property
    def partitions(self) -> list[date]:
        """The UTC days that the flights of ``days`` local days depart on: one more, because of the evenings."""
        return [FIRST + timedelta(days=n) for n in range(self.days + 1)]

    @property
    def declared(self) -> Declarations:
        return load_declarations(self.settings.project / "spark_jobs" / "contracts")

    @property
    def declared_for_gallery(self) -> Declarations:
        """With the topics that only views of the gallery read."""
        more = load_declarations(self.settings.project / "spark_jobs" / "contracts" / "gallery")
        return Declarations({**self.declared.topics, **more.topics})

    @property
    def topic(self) -> Topic:
        return self.declared.topic("flights")

    @property
    def view(self) -> View:
        return load_views(self.settings.project / "spark_jobs" / "views", self.declared).get("departure_delays")

    def fresh(self, name: str) -> Settings:
        """The same settings with an empty home of that name beside the others; what was there is deleted."""
        home = self.settings.home.parent / name
        shutil.rmtree(home, ignore_errors=True)
        return self.settings.model_copy(update={"home": home})

    def scratch(self, name: str) -> Path:
        """An empty folder for a hand-written job; what was there is deleted."""
        folder = self.settings.home.parent / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    @contextmanager
    def spark(self, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
        """The platform's own session, with ``more`` settings: both jobs of a pair run in it."""
        from anabranch.core.engine.spark import session

        if self.session is not None:
            yield self.session
            return
        spark = session(self.settings, "anabranch-benchmarks", more)
        try:
            yield spark
        finally:
            spark.stop()  # a process that leaves it running may never exit


def fill_log(world: World, *, days_late: float = 0.0) -> int:
    """Send the flights to the running broker, a share of them days late; the number of records of ``flights``."""
    from anabranch_samples.faults import Faults
    from anabranch_samples.producing import produce_flights
    from anabranch_samples.publishing import Pace

    faults = Faults(days_late=days_late)
    summary = produce_flights(world.settings, FIRST, world.days, Pace(), faults, SEED, quiet=True)
    return sum(count for (topic, _, _), count in summary.records.items() if topic == world.topic.name)


def fill_landing(world: World) -> None:
    """Land the whole log once, as the platform does."""
    from anabranch.ingest.landing.stream import start

    from benchmarks.timing import finish

    with world.spark() as spark:
        finish(start(spark, world.settings, world.topic, once=True))


def landed_events(world: World) -> int:
    """How many records the landing table of ``flights`` holds, from its newest note."""
    from anabranch.lake import latest_commit
    from anabranch.lake.layout import landing_table

    committed = latest_commit(landing_table(world.settings, world.topic.name))
    assert committed is not None
    return sum(committed.note.cut.positions[world.topic.name].offsets.values())
