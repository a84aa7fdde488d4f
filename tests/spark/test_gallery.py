"""Every kind of view that we show, copied into a project of one's own, over ten days of real flights: both paths are
equal at the same cut, day by day."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.apps.cli._project_commands import make_project
from anabranch.apps.cli.plugins import sample_named
from anabranch.certify.certify_partitions import certify
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import latest_commit, open_table
from anabranch.views import Registry
from anabranch.views.check import check
from anabranch.views.project import Project
from support import sample_events
from support.landed_sample import CONTRACTS, Landing, gallery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800)]

DAYS, EPOCHS = 10, 8
NAMES = [view.name for view in gallery()]
STOPPED = {v.name for v in gallery() if v.refresh == "state"} | {"duty", "never_arrived", "fleet_now", "seats_flown"}
"""Whose streams are started twice: those with state, and one of each way to find what was touched."""


@dataclass(frozen=True)
class Flown:
    settings: Settings
    views: Registry
    days: list[date]
    late: dict[str, int]


def own_project(folder: Path) -> Settings:
    """One that `anabranch init` makes outside of this checkout, with the files of the gallery copied into it."""
    make_project(folder, sample_named("flights"))
    for part in ("contracts", "views"):
        for file in (CONTRACTS.parent / part / "gallery").iterdir():
            if file.is_file():
                shutil.copy(file, folder / "spark_jobs" / part)
    return load_settings(project=folder, home=folder / ".anabranch", shuffle_partitions=2)


@pytest.fixture(scope="module")
def flown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Flown:
    """Landed in eight epochs; some streams have run over all but three of them, then every one that this run is about
    over all."""
    settings = own_project(Path(tmp_path_factory.mktemp("gallery")) / "planes")
    views = Project(settings).views()
    landings = {name: Landing(settings, topic) for name, topic in views.declarations.topics.items()}
    events = {"flights": sample_events.flights(DAYS, 7, late=0.01)}
    events |= {name: getattr(sample_events, name)(DAYS) for name in ("weather", "planes", "searches")}
    for part in (slice(0, EPOCHS - 3), slice(EPOCHS - 3, EPOCHS)):
        for topic, landing in landings.items():
            landing.land(*sample_events.sliced(events[topic], DAYS, EPOCHS)[part])
        for name in sorted(_asked(request) & (set(NAMES) if part.stop == EPOCHS else STOPPED)):
            catch_up(spark, views.handle(settings, views.get(name)))
    days = sorted({row["event_date"] for row in landings["flights"].rows})
    late = {topic: sum(bool(row["late"]) for row in landing.rows) for topic, landing in landings.items()}
    return Flown(settings, views, days, late)


def _asked(request: pytest.FixtureRequest) -> set[str]:
    """The views that this run is about."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    return {item.callspec.id for item in items if item.originalname == test_both_paths_agree.__name__}


def test_the_sample_has_what_makes_it_hard(flown: Flown) -> None:
    assert flown.late["flights"] > 100
    assert min(flown.late[name] for name in ("weather", "planes", "searches")) > 5
    assert len(flown.days) == DAYS + 1


@pytest.mark.parametrize("name", NAMES)
def test_both_paths_agree(spark: SparkSession, flown: Flown, name: str) -> None:
    view = flown.views.get(name)
    handle = flown.views.handle(flown.settings, view)
    check(view, spark, flown.views.declarations)
    if view.kappa:
        (whole,) = certify(spark, handle, [])
        assert whole.equal
        assert whole.speed.rows > 3_000
        return
    build = rebuild(spark, handle, flown.days, "gallery")
    staged = StagedBuild.of(flown.settings, build)
    found = certify(spark, handle, flown.days, staged, run="gallery")

    assert [c.partition for c in found if not c.equal] == []
    assert {c.method for c in found} >= {"recomputed"}
    committed = latest_commit(handle.speed_table)
    assert committed is not None
    assert {position.epoch for position in committed.note.cut.positions.values()} == {EPOCHS}
    assert sum(c.speed.rows for c in found) > 0
    publish(handle, build, flown.days)
    table = open_table(handle.batch_table)
    assert table is not None
    keys = table.to_pyarrow_table(columns=list(view.key))
    assert keys.group_by(list(view.key)).aggregate([]).num_rows == keys.num_rows
