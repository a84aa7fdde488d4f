"""A few kills, drawn anew each time, of the hundreds that ``make crash`` makes; and that the judge can see."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import upsert
from anabranch.lake.layout import VersionRef

from crash.acts import ACTS, DELAYS, Stage
from crash.judging import settle, wrong
from crash.sweep import Try, points, sweep
from crash.world import World, free_ports, world

pytestmark = [pytest.mark.system, pytest.mark.timeout(2_700)]
KILLS = 3


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("crash"), free_ports(2)) as found:
        yield found


@pytest.fixture(scope="module")
def stage(place: World) -> Iterator[Stage]:
    found = Stage(place.settings, place.session())
    yield found
    found.spark.stop()


def test_a_random_sample_of_kills_leaves_nothing_wrong(
    place: World, stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of all acts some are drawn, and of each a point, before or after which it is killed."""
    seed = int(os.environ.get("ANABRANCH_CRASH_SEED", time.time_ns() % 1_000_000))
    rng, log = Random(seed), tmp_path / "try.log"
    acts = rng.sample(list(ACTS), KILLS)
    # Only what the acts are about: the day of work before them is the dearest part.
    place.views = (*dict.fromkeys(((DELAYS, 1), *(view for act in acts for view in ACTS[act].views))),)
    for act in acts:
        place.prepare(stage, ACTS[act].prepared)
    found = points(place, acts, log)
    chosen = [rng.choice([point for point in found if point.act == act]) for act in acts]
    first = rng.random() < 0.5
    made = [
        Try(point, rng.randint(1, found[point]), after=(number % 2 == 1) is first, alone=number == 2)
        for number, point in enumerate(chosen)
    ]
    said = list[str]()
    with closing(sweep(place, stage, made, said.append)) as outcomes:
        for outcome in outcomes:
            with capsys.disabled():
                print(f"\n  seed {seed}: {said[-1]}", end="")  # noqa: T201 - so that the same ones can be tried again
            assert outcome.killed, said[-1]
            assert not outcome.wrong


def test_the_judge_sees_one_wrong_row(place: World, stage: Stage) -> None:
    place.prepare(stage, "live")
    place.put_back("live")
    act = ACTS["speed: next batch"]
    settle(stage, act)
    assert wrong(stage, act, place.everything_sent()) == []
    uri = VersionRef(place.settings, DELAYS, 1).speed_table
    table, committed = open_table(uri), latest_commit(uri)
    assert table is not None
    assert committed is not None
    rows = table.to_pyarrow_table()
    day = max(rows["partition_date"].to_pylist())
    row = next(row for row in rows.to_pylist() if row["partition_date"] == day)
    other = pa.Table.from_pylist([{**row, "flights": row["flights"] + 1}], rows.schema)
    upsert(table, other, stage.view(DELAYS).key, committed.note, "partition_date")
    codes = [line.rpartition("[")[2].partition("]")[0] for line in wrong(stage, act, place.everything_sent())]
    assert sorted(codes) == ["ROWS_DIFFER", "SERVED_OTHER"]
