"""Random sequences of all that moves readers, with kills (SIGKILL), lags and clocks, against a model, and
shrunk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import pytest
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve.reader_log import failed_reads
from anabranch.serve.routes import route_of
from hypothesis import HealthCheck, given, seed
from hypothesis import settings as run_with
from support import small_halves
from support.route_house import House, nursery
from support.route_model import Model
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
READERS = ("a", "b", "c", "d")

ACTION = st.sampled_from(
    [
        *[("advance",)] * 10,
        *[("wait", seconds) for seconds in (0.5, 2.0, 3.5, 3.5, 11.0, 11.0)],
        *[("land", version, epochs) for version in (1, 2) for epochs in (1, 5)],
        *[("start",)] * 3,
        *[("rollback",)] * 2,
        ("halt",),
        *[("resume",)] * 2,
        *[("set", share) for share in (0, 50, 100)],
        *[(name, version) for name in ("retire", "reinstate") for version in (1, 2)],
        *[("kill", where) for where in ("before", "after")],
        *[("wall clock", seconds) for seconds in (-86_400.0, 86_400.0)],
        ("reboot",),
    ]
)


def predicted(model: Model, name: str, *of: Any) -> str:
    match name:
        case "halt" | "resume":
            return model.change({"halt": "halted", "resume": "moving"}[name])
        case "set":
            return model.set_by_hand({v: share for v, share in ((1, 100 - of[0]), (2, of[0])) if share})
        case _:
            return str(getattr(model, name)(*of))


def check(house: House, settings: Settings, actions: list[tuple[Any, ...]]) -> None:
    model = Model()
    for action in actions:
        name, *of = action
        match name:
            case "land":
                house.land(*of)
                model.cuts[of[0]] += of[1]
            case "wait":
                house.clock.now += of[0]
                model.now += of[0]
            case "wall clock":
                house.clock.ahead += of[0]
            case "reboot":
                house.reboot()
                model.reboot()
            case "kill":
                house.killed = model.killed = of[0]
            case _:
                assert house.act(name, *of) == predicted(model, name, *of), action
        route = route_of(settings, VIEW)
        assert (dict(route.shares) if route else {}) == model.shares
        assert (route.retired if route else frozenset()) == model.retired
        for reader, found in zip(READERS, house.read(*READERS), strict=True):
            chosen = route.version_for(reader) if route else 1
            assert found == model.read(reader, chosen), (action, reader)
    assert failed_reads(VersionRef(settings, VIEW, 1)) == failed_reads(VersionRef(settings, VIEW, 2)) == []


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("prepared")
    for version in (1, 2):
        small_halves.start_speed(Settings(home=home), 1, DAYS[:1], version=version)
    return home


def random_sequences(prepared: Path, folder: Path, examples: int, drawn_by: int | None = None) -> None:
    """``drawn_by``: the seed of the sequences; None: always the same ones."""
    number, settings, kills = iter(range(10**9)), Settings(home=folder), list[int]()

    @run_with(
        max_examples=examples, deadline=None, database=None, derandomize=drawn_by is None,
        suppress_health_check=[*HealthCheck],
    )  # fmt: skip
    @given(st.lists(ACTION, min_size=25, max_size=40))
    def sequences(actions: list[tuple[Any, ...]]) -> None:
        home = folder / str(next(number))
        shutil.copytree(prepared, home)
        house = House(houses, home)
        try:
            check(house, settings.model_copy(update={"home": home}), actions)
        finally:
            house.end()
            kills.append(house.kills)
            shutil.rmtree(home)

    with nursery() as houses:
        (sequences if drawn_by is None else seed(drawn_by)(sequences))()
    assert sum(kills) >= examples // 3


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: a disk's answers took most of the time of a thousand sequences."""
    if not os.access("/dev/shm", os.W_OK):  # noqa: S108 - a folder of its own in it
        yield tmp_path
        return
    with TemporaryDirectory(prefix="route-model-", dir="/dev/shm") as folder:
        yield Path(folder)


def test_random_sequences(prepared: Path, in_memory: Path) -> None:
    random_sequences(prepared, in_memory, 15)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_a_thousand_random_sequences(prepared: Path, in_memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other ones each time. The same again: the seed that it tells, as the last argument."""
    drawn_by = SystemRandom().randrange(2**32)
    with capsys.disabled():
        print(f"\nroutes against their model: random_sequences(prepared, in_memory, 1_000, {drawn_by})")  # noqa: T201
    random_sequences(prepared, in_memory, 1_000, drawn_by)
