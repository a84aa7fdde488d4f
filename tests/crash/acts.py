"""What is killed: one program for each way in which the platform commits something.

    python -m crash.acts SCRATCH NAME...

Each does what the platform's own program does, by the same functions, and may be called again after a kill: that is
the plain restart, with nothing done by hand in between. It begins when a line comes: its engine, whose own files are in
SCRATCH, can so be started while the try before is still judged. Of several acts each waits for a line of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from anabranch.certify.reconciliation import reconcile
from anabranch.change.dirty_partitions import dirty_partitions
from anabranch.change.migrate import migration
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.change.publish_run import publish_run, save_outcome
from anabranch.change.replay.control import drop_version, reinstate_version
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest as AskedReplay
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import PUBLISHED
from anabranch.change.reprocess_plan import make_plan
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.batch.manifest import read_manifest
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings, load_settings
from anabranch.core.storage import storage_of
from anabranch.ingest.landing.audit.quarantine import list_quarantined, release
from anabranch.ingest.landing.stream import start
from anabranch.lake.layout import VersionRef
from anabranch.operate.maintenance import maintain
from anabranch.operate.maintenance._report import Policy
from anabranch.serve.retirement import retire
from anabranch.views import Registry, View, load_views
from anabranch.views.model.handle import ViewHandle
from anabranch.views.retired_versions import retired_versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAYS, AIRCRAFT, TURNS, CORRECTED = ("departure_delays", "aircraft_now", "turns", "delays_corrected")
FIRST, SECOND = date(2013, 1, 1), date(2013, 1, 2)
BY = "the sweep"
MARK = "tmp/act-{}-has-ended"


@dataclass
class Stage:
    """A platform, and the session to act with."""

    settings: Settings
    spark: SparkSession

    @cached_property
    def declared(self) -> Declarations:
        return load_declarations(self.settings.project / "spark_jobs" / "contracts")

    @cached_property
    def registry(self) -> Registry:
        return load_views(self.settings.project / "spark_jobs" / "views", self.declared)

    @property
    def flights(self) -> Topic:
        return self.declared.topic("flights")

    @property
    def parcels(self) -> Topic:
        return self.declared.topic("parcels")

    def view(self, name: str, version: int = 1) -> View:
        return self.registry.get(name, version)

    def land(self, topic: Topic) -> None:
        start(self.spark, self.settings, topic, once=True).awaitTermination()

    def land_flights(self) -> None:
        self.land(self.flights)

    def stream(self, name: str, version: int = 1) -> None:
        view = self.view(name, version)
        self.registry.register(self.spark, self.settings, [view])
        catch_up(self.spark, self.registry.handle(self.settings, view))

    def reprocess(self, name: str, days: Sequence[date], run: str, version: int = 1) -> None:
        view = self.view(name, version)
        topics = self.registry.topic(view)
        planned = {
            **make_plan(
                ViewHandle(self.settings, view, topics), ReprocessRequest(tuple(days), {}, explicit=True)
            ).to_json(),
            "run": run,
        }
        self.registry.register(self.spark, self.settings, [view])
        began = datetime.now(UTC)
        rebuild(self.spark, ViewHandle(self.settings, view, topics), days, run)
        build = read_manifest(VersionRef(self.settings, view.name, view.version), run)
        verdict = reconcile(self.spark, ViewHandle(self.settings, view, topics), run, build)
        assert not verdict.refused, verdict.refused
        save_outcome(self.settings, planned, publish_run(self.settings, planned), began)

    def repair(self) -> None:
        view = self.view(DELAYS)
        days = [found.partition for found in dirty_partitions(self.registry.handle(self.settings, view))]
        if days:
            self.reprocess(DELAYS, days, "repair")

    def replay(self, days: Sequence[date] | None) -> None:
        view = self.view(DELAYS)
        self.registry.register(self.spark, self.settings, [view])
        chosen = tuple(days) if days else None
        asked = AskedReplay(self.registry.handle(self.settings, view), "again", chosen, pace=Pace(1.0))
        ended = replay(self.spark, asked)
        assert ended.phase == PUBLISHED, ended

    def migrate(self, until: int = 100) -> None:
        """From where it is to that share of the readers; to its end, where that is everybody."""
        settings, versions = self.settings, (self.view(DELAYS), self.view(DELAYS, 2))
        if migration.migration_of(settings, DELAYS) is None:
            promise, steps = Expectations(("delayed", "window_end", "average_delay")), (10, 50, 100)
            migration.start(settings, *versions, by=BY, why="a test", steps=steps, soak_seconds=0, promise=promise)
        while self._under_way and (self._share < until or until == 100):
            migration.advance(settings, *versions, by=BY)

    @property
    def _under_way(self) -> bool:
        found = migration.migration_of(self.settings, DELAYS)
        return found is not None and found[1].active

    @property
    def _share(self) -> int:
        found = migration.migration_of(self.settings, DELAYS)
        return found[1].share if found else 0

    def back(self) -> None:
        """Half-way, held, let go on, and led back."""
        if self._under_way or migration.migration_of(self.settings, DELAYS) is None:
            self.migrate(50)
            for change in (migration.halt, migration.resume, migration.rollback):
                change(self.settings, DELAYS, by=BY, why="a test")

    def take_away(self) -> None:
        ref = VersionRef(self.settings, DELAYS, 1)
        if 1 not in retired_versions(self.settings, DELAYS):
            retire(ref, by=BY, why="a test", grace=timedelta(0))
        drop_version(ref, BY)

    def retire_and_begin_to_drop(self) -> None:
        """As a drop leaves it that was killed when it had begun."""
        ref = VersionRef(self.settings, DELAYS, 1)
        retire(ref, by=BY, why="a test", grace=timedelta(0))
        storage_of(ref.dropping).write(ref.dropping, b"")

    def bring_back(self) -> None:
        """A version whose drop was killed: that is completed, and its stream begins from history."""
        if 1 in retired_versions(self.settings, DELAYS):
            reinstate_version(VersionRef(self.settings, DELAYS, 1), by=BY, why="a test")

    def register_all(self) -> None:
        """Every view of the project, of which none is known yet."""
        self.registry.register(self.spark, self.settings)

    def maintain(self) -> None:
        done = maintain(self.settings, Policy(few=2))
        assert not done.failed, done

    def release(self) -> None:
        release(self.spark, self.settings, self.parcels, None, "the contract was too narrow")
        assert not list_quarantined(self.settings, self.parcels)


def narrow(topic: Topic) -> Topic:
    """The topic as it was declared before its contract was widened: what is too much for it is quarantined."""
    (contract,) = topic.contracts
    number = {"type": "integer", "minimum": 0, "maximum": 9}
    return replace(topic, contracts=(replace(contract, schema={**contract.schema, "properties": {"n": number}}),))


@dataclass(frozen=True, slots=True)
class Act:
    """``template``: the state of the platform before it. ``carry_out``: what is killed (``killed_code``). ``views``:
    whose rows it is about, by name and version: they are brought level with landing after the restart, and held to both
    other answers. ``later``: the template by which the log holds what it needs, where that is a later one."""

    template: str
    carry_out: Callable[[Stage], None]
    views: tuple[tuple[str, int], ...] = ((DELAYS, 1),)
    later: str = ""

    @property
    def prepared(self) -> str:
        return self.later or self.template


ACTS: Final[Mapping[str, Act]] = MappingProxyType({
    "landing: first epochs": Act("empty", Stage.land_flights, (), "landed"),
    "landing: next epochs": Act("live", Stage.land_flights, later="ahead"),
    "landing: release from quarantine": Act("quarantined", Stage.release, ()),
    "speed: first batch": Act("landed", lambda stage: stage.stream(DELAYS)),
    "speed: next batch": Act("ahead", lambda stage: stage.stream(DELAYS)),
    "speed: newest by key": Act("ahead", lambda stage: stage.stream(AIRCRAFT), ((AIRCRAFT, 1),)),
    "speed: by partitions": Act("ahead", lambda stage: stage.stream(CORRECTED), ((CORRECTED, 1),)),
    "speed: what is closed": Act("ahead", lambda stage: stage.stream(TURNS), ((TURNS, 1),)),
    "batch: first of a day": Act("level", lambda stage: stage.reprocess(DELAYS, [SECOND], "new")),
    "batch: repair": Act("level", Stage.repair),
    "replay: the whole view": Act("level", lambda stage: stage.replay(None)),
    "replay: a day": Act("level", lambda stage: stage.replay([FIRST])),
    "migration: to its end": Act("level", Stage.migrate, ((DELAYS, 1), (DELAYS, 2))),
    "migration: back": Act("level", Stage.back, ((DELAYS, 1), (DELAYS, 2))),
    "maintenance": Act("level", Stage.maintain),
    "retirement": Act("migrated", Stage.take_away, ((DELAYS, 2),)),
    "reinstatement": Act("retired", Stage.bring_back, ((DELAYS, 1), (DELAYS, 2))),
    "registration": Act("landed", Stage.register_all),
})  # fmt: skip


def main(scratch: str, *names: str) -> int:
    from anabranch.core.engine.spark import session
    from support.short_engines import SMALL_JOBS

    settings = load_settings()
    stage = Stage(settings, session(settings.model_copy(update={"home": Path(scratch)}), "anabranch-crash", SMALL_JOBS))
    for number, name in enumerate(names):
        if sys.stdin.readline():
            ACTS[name].carry_out(stage)
            ended(settings.home, number)
            (Path(scratch) / f"ended-{number}").touch()
    return 0


def ended(home: Path, number: int) -> None:
    """Leave a mark among the calls that are noted: the deletion of a file of nobody's."""
    mark = home / MARK.format(number)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    mark.unlink()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
