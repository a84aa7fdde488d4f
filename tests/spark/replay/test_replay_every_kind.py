"""Every kind of view, replayed epoch by epoch beside a stream that took larger steps: the same rows, and the stream
goes on with the replay's state."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import PUBLISHED, ReplayState
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.layout import VersionRef
from anabranch.views import View
from anabranch.views.model.definition import is_changed
from support import sample_events
from support.landed_sample import ALL_DECLARED, Landing, gallery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2_700)]

REGISTRY = gallery()
VIEWS = {view.name: view for view in REGISTRY}
ALWAYS, ALONE = ("turns",), ("turns",)
"""A processor that sees what is closed: its state is the most particular."""
EACH_ALONE = [pytest.param(name, marks=[] if name in ALONE else [pytest.mark.sweep]) for name in VIEWS]
EACH = [pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.sweep]) for name in VIEWS]
RARE = ("bad_runs",)
"""So few rows in three days that the last epochs need not bring one."""
DAYS, EPOCHS, REPLAYED = 3, 7, 5


@dataclass
class World:
    """Landed up to some epoch; ``events`` are those of every topic, in epochs."""

    spark: SparkSession
    settings: Settings
    landings: dict[str, Landing]
    epochs: dict[str, list[list[Any]]] = field(default_factory=dict)

    def land(self, part: slice) -> None:
        for topic, landing in self.landings.items():
            landing.land(*self.epochs[topic][part])

    def rows(self, view: View) -> list[dict[str, Any]]:
        table = open_table(VersionRef(self.settings, view.name, view.version).speed_table)
        assert table is not None
        rows = [{k: v for k, v in r.items() if not is_changed(k)} for r in table.to_pyarrow_table().to_pylist()]
        return sorted(rows, key=lambda row: [str(row[k]) for k in view.key])

    def catch_up(self, view: View) -> None:
        catch_up(self.spark, REGISTRY.handle(self.settings, view))

    def replay(self, view: View, run: str, **more: Any) -> ReplayState:
        asked = ReplayRequest(REGISTRY.handle(self.settings, view), run, pace=Pace(1.0), **more)
        return replay(self.spark, asked)

    def all_equal(self, view: View) -> bool:
        days = [date(2013, 1, 1) + timedelta(n) for n in range(-1, DAYS + 2)]
        return all(c.equal for c in certify(self.spark, REGISTRY.handle(self.settings, view), days))


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("anabranch.change.replay._feed._FIRST_RECORDS", 1)
    monkeypatch.setattr("anabranch.change.replay._feed.next_size", lambda *_: 1)
    settings = load_settings(home=tmp_path / "home", shuffle_partitions=2)
    found = World(spark, settings, {name: Landing(settings, t) for name, t in ALL_DECLARED.topics.items()})
    events = {"flights": sample_events.flights(DAYS, 7, late=0.01)}
    events |= {name: getattr(sample_events, name)(DAYS) for name in ("weather", "planes", "searches")}
    found.epochs = {name: sample_events.sliced(each, DAYS, EPOCHS) for name, each in events.items()}
    return found


@pytest.mark.parametrize("name", EACH)
def test_a_replay_of_any_kind_says_the_same_and_goes_on(world: World, name: str) -> None:
    view = VIEWS[name]
    world.land(slice(0, REPLAYED))
    world.catch_up(view)
    before = world.rows(view)
    assert before

    ended = world.replay(view, "whole")
    assert (ended.phase, ended.equal, ended.mended) == (PUBLISHED, ended.partitions, 0), ended.said
    assert world.rows(view) == before
    committed = latest_commit(VersionRef(world.settings, view.name, view.version).speed_table)
    assert committed is not None
    assert committed.note.extra["replay"] == "whole"
    assert int(committed.note.batch.partition(":")[2]) >= REPLAYED - 1, "epoch by epoch"

    world.land(slice(REPLAYED, EPOCHS))
    world.catch_up(view)
    assert world.all_equal(view)
    assert world.rows(view) != before or name in RARE


@pytest.mark.parametrize("name", [p for p in EACH_ALONE if not VIEWS[str(p.values[0])].kappa])
def test_a_day_of_any_kind_is_replayed_alone(world: World, name: str) -> None:
    view = VIEWS[name]
    world.land(slice(0, EPOCHS))
    world.catch_up(view)
    before = world.rows(view)

    ended = world.replay(view, "day", days=(date(2013, 1, 1),))
    assert (ended.phase, ended.equal, ended.partitions, ended.mended) == (PUBLISHED, 1, 1, 0), ended.said
    assert world.rows(view) == before
