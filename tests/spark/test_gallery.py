"""Every kind of view that we show, over ten days of real flights: both paths equal at the same cut, day by day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.certify.staged_build import StagedBuild
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.layout import VersionRef
from anabranch.views import View
from anabranch.views.check import check
from anabranch.views.model.handle import ViewHandle
from support import sample_events
from support.landed_sample import ALL_DECLARED, Landing, gallery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800)]

DAYS, EPOCHS = 10, 8
REGISTRY = gallery()
VIEWS = {view.name: view for view in REGISTRY}
STOPPED = {v.name for v in REGISTRY if v.refresh == "state"} | {"duty", "never_arrived", "fleet_now", "seats_flown"}
"""Whose streams are started twice: those with state, and one of each way to find what was touched."""


@dataclass(frozen=True)
class Flown:
    settings: Settings
    days: list[date]
    late: dict[str, int]


@pytest.fixture(scope="module")
def flown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Flown:
    """Landed in eight epochs; some streams have run over all but three of them, then every one that this run is about
    over all."""
    settings = load_settings(home=Path(tmp_path_factory.mktemp("gallery")), shuffle_partitions=2)
    landings = {name: Landing(settings, topic) for name, topic in ALL_DECLARED.topics.items()}
    events = {"flights": sample_events.flights(DAYS, 7, late=0.01)}
    events |= {name: getattr(sample_events, name)(DAYS) for name in ("weather", "planes", "searches")}
    for part in (slice(0, EPOCHS - 3), slice(EPOCHS - 3, EPOCHS)):
        for topic, landing in landings.items():
            landing.land(*sample_events.sliced(events[topic], DAYS, EPOCHS)[part])
        for name in sorted(_asked(request) & (VIEWS.keys() if part.stop == EPOCHS else STOPPED)):
            catch_up(spark, ViewHandle(settings, VIEWS[name], REGISTRY.topic(VIEWS[name])))
    days = sorted({row["event_date"] for row in landings["flights"].rows})
    late = {topic: sum(bool(row["late"]) for row in landing.rows) for topic, landing in landings.items()}
    return Flown(settings, days, late)


def _asked(request: pytest.FixtureRequest) -> set[str]:
    """The views that this run is about."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    return {item.callspec.id for item in items if item.originalname == test_both_paths_agree.__name__}


def test_the_sample_has_what_makes_it_hard(flown: Flown) -> None:
    assert flown.late["flights"] > 100
    assert min(flown.late[name] for name in ("weather", "planes", "searches")) > 5
    assert len(flown.days) == DAYS + 1


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_both_paths_agree(spark: SparkSession, flown: Flown, view: View) -> None:
    ref = VersionRef(flown.settings, view.name, view.version)
    check(view, spark, ALL_DECLARED)
    topics = REGISTRY.topic(view)
    if view.kappa:
        (whole,) = certify(spark, ViewHandle(flown.settings, view, topics), [])
        assert whole.equal
        assert whole.speed.rows > 3_000
        return
    build = rebuild(spark, ViewHandle(flown.settings, view, topics), flown.days, "gallery")
    staged = StagedBuild.of(flown.settings, build)
    found = certify(spark, ViewHandle(flown.settings, view, topics), flown.days, staged, run="gallery")

    assert [c.partition for c in found if not c.equal] == []
    assert {c.method for c in found} >= {"recomputed"}
    committed = latest_commit(ref.speed_table)
    assert committed is not None
    assert {position.epoch for position in committed.note.cut.positions.values()} == {EPOCHS}
    assert sum(c.speed.rows for c in found) > 0
    publish(ViewHandle(flown.settings, view, topics), build, flown.days)
    table = open_table(ref.batch_table)
    assert table is not None
    keys = table.to_pyarrow_table(columns=list(view.key))
    assert keys.group_by(list(view.key)).aggregate([]).num_rows == keys.num_rows
