"""On a healthy platform the doctor is silent: a hundred of them, made at random by the platform's own writers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch import lake
from anabranch.change.replay.state import CANCELLED, PUBLISHED, REFUSED, list_states
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor import CHECKS, examine
from anabranch.operate.maintenance import maintain
from anabranch.operate.maintenance._report import DAY, Policy
from anabranch.serve.retirement import drop, reinstate, retire
from anabranch.serve.routes import route_of, set_route
from deltalake import DeltaTable
from support.small_platform import DAYS, NAME, V1, V2, Clinic, departed

pytestmark = pytest.mark.unit
STATES = 100
ENDS = [(PUBLISHED, ""), (PUBLISHED, "2013-01-01"), (REFUSED, ""), (CANCELLED, "")]


def events(chance: random.Random, clinic: Clinic) -> None:
    """Some epochs; records that repeat, that can't be read, or that come without any."""
    for _ in range(chance.randint(1, 2)):
        known = len(clinic.decisions.rows)
        batch = [
            departed(known + n, chance.choice(DAYS), broken=chance.random() < 0.1) for n in range(chance.randint(0, 6))
        ]
        again = [departed(chance.randrange(known)) for _ in range(chance.randint(0, 1)) if known]
        clinic.land([*batch, *again])


def moves(chance: random.Random, clinic: Clinic) -> None:
    """Readers are led to v2, v1 is retired; and sometimes dropped, and sometimes taken back."""
    clinic.speed(view=V2)
    clinic.speed(chance.sample(DAYS, 1))
    share = chance.choice([0, 25, 100])
    set_route(clinic.settings, NAME, {1: 100 - share, 2: share}, by="anna", why="test")
    if share != 100:
        return
    clinic.reprocess("of-v2", chance.sample(DAYS, 2), V2)
    clinic.reprocess("of-v1", chance.sample(DAYS, 2))
    clinic.build("never-published", chance.sample(DAYS, 1))
    clinic.certify("never-published", DAYS[:1])
    retire(clinic.handle(), by="anna", why="test", grace=timedelta(0))
    end = chance.choice(["retired", "dropped", "reinstated", "dropped and reinstated"])
    if "dropped" in end:
        drop(clinic.handle())
    if "reinstated" in end:
        reinstate(clinic.handle(), by="anna", why="test")


def healthy(seed: int, home: Path) -> Clinic:
    chance = random.Random(seed)
    clinic = Clinic(Settings(home=home), (V1, V2))
    events(chance, clinic)
    if chance.random() < 0.1:  # no view has begun yet
        return clinic
    clinic.speed()
    steps: list[Callable[[int], object]] = [
        lambda n: events(chance, clinic),
        lambda n: clinic.speed(chance.sample(DAYS, chance.randint(0, 3))),
        lambda n: clinic.reprocess(f"run-{n}", days := chance.sample(DAYS, 3), differs=days[: chance.randint(0, 3)]),
        lambda n: clinic.build(f"waits-{n}", chance.sample(DAYS, 1)),
        lambda n: clinic.release(),
        lambda n: clinic.lose(chance.randrange(4), 3),
        lambda n: clinic.hole(chance.randrange(4), chance.randint(1, 3)),
        lambda n: clinic.grow(),
        lambda n: clinic.compact(),
        lambda n: clinic.index(),
        lambda n: clinic.replay(f"replay-{n}", *chance.choice(ENDS)),
    ]  # fmt: skip
    for number in range(chance.randint(1, 5)):
        chance.choice(steps)(number)
    if chance.random() < 0.4:
        moves(chance, clinic)
    return clinic


@pytest.fixture(scope="module")
def seen() -> dict[int, dict[str, bool]]:
    """Of what kind each state was."""
    return {}


@pytest.mark.parametrize("seed", range(STATES))
def test_a_healthy_platform_is_left_in_peace(seed: int, tmp_path: Path, seen: dict[int, dict[str, bool]]) -> None:
    clinic = healthy(seed, tmp_path / "home")
    seen[seed] = kinds(clinic)
    if seed % 4 == 0:
        assert not maintain(clinic.settings, Policy(few=2, now=time.time() + (seed % 3) * 16 * DAY)).failed
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "home").rglob("*")}
    later = datetime.now(UTC) + timedelta(hours=random.Random(seed).choice([0, 3]))
    begin, offsets = dict.fromkeys(range(4), 0), dict(clinic.offsets)
    log = (lambda _: (begin, offsets)) if seed % 2 else None
    report = examine(clinic.platform(log=log, now=later.timestamp()), pause=0)
    assert not report.findings, f"seed {seed}:\n{report}"
    assert str(report).startswith(f"all {len(CHECKS)} checks passed")
    assert ("broker" in str(report)) == (log is None)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "home").rglob("*")} == before, "it has changed something"


def test_a_platform_that_runs_is_left_in_peace(tmp_path: Path) -> None:
    """It lands, follows and publishes while it is looked at; landing is ahead, as it always is."""
    clinic, stop, seen = Clinic(Settings(home=tmp_path / "home"), (V1, V2)), threading.Event(), set[int]()
    clinic.land([departed(0)])
    clinic.speed()

    def run() -> None:
        number = 1
        while not stop.is_set():
            clinic.land([departed(number, DAYS[number % 5])])
            clinic.speed([DAYS[number % 5]])
            clinic.reprocess(f"run-{number}", [DAYS[number % 5]])
            number += 1

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            for _ in range(6):
                report = examine(clinic.platform(), pause=0.02)
                seen.add(clinic.epoch)
                assert not report.findings, str(report)
        finally:
            stop.set()
        running.result()
    assert len(seen) > 2, "nothing happened meanwhile"
    assert not examine(clinic.platform(), pause=0).findings


def test_the_hundred_are_of_every_kind(seen: dict[int, dict[str, bool]]) -> None:
    """Silence about states that are all alike would prove little."""
    if len(seen) < STATES:
        pytest.skip("not all of them were made")
    counts = {kind: sum(found[kind] for found in seen.values()) for kind in seen[0]}
    assert min(counts.values()) >= 3, counts


def kinds(clinic: Clinic) -> dict[str, bool]:
    settings, notes = clinic.settings, [committed.note for committed in lake.commit_history(clinic.uri)]
    route, builds = route_of(settings, NAME), settings.home / "control" / "builds"
    actions = pa.table(DeltaTable(clinic.uri).get_add_actions(flatten=True))["path"].to_pylist()
    return {
        "released": any("release" in note.extra for note in notes),
        "lost": any("lost" in note.extra for note in notes),
        "grown": any("grown" in note.extra for note in notes),
        "compacted": not all(path.startswith("builds/") for path in actions),
        "published": (settings.lake / "views" / NAME / "v1" / "batch").exists(),
        "refused": any('"refused": {"' in path.read_text() for path in builds.rglob("*.verdict.json")),
        "moved": route is not None,
        "retired": route is not None and bool(route.retired),
        "dropped": not (settings.lake / "views" / NAME / "v1").exists(),
        "replayed": any(standing.ended for standing in list_states(VersionRef(settings, NAME, 1))),
    }
