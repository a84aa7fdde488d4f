"""Random sequences of all that moves readers, with kills, lags and clocks, against a model, and shrunk."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anabranch
import hypothesis.strategies as st
import pytest
from anabranch.change.migrate import migration
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.core import clocks
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.lake.commits import append
from anabranch.lake.layout import VersionRef
from anabranch.serve import read_plan, routes, table_snapshots
from anabranch.serve.reader_log import failed_reads
from anabranch.serve.retirement import reinstate, retire
from anabranch.serve.routes import route_of, set_route
from anabranch.views import View
from hypothesis import HealthCheck, given
from hypothesis import settings as run_with
from support import small_halves
from support.route_model import SOAK, STEPS, Model
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
OLD, NEW = (
    View(VIEW, version, ("flight.departed",), ("window_start",), lambda rows: rows, partition_by="window_start")
    for version in (1, 2)
)
READERS = ("a", "b", "c", "d")
PROMISE = Expectations(compared=False, behind=10_000)

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


class Killed(BaseException):
    pass


class Clock:
    """The clocks of all that decides: only the test moves them."""

    def __init__(self) -> None:
        self.now, self.ahead, self.boots = 1_000.0, 0.0, 1

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time() + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class House:
    """The platform itself, with one process that may be killed."""

    def __init__(self, settings: Settings, patch: pytest.MonkeyPatch) -> None:
        self.settings = settings
        self.looked_at: dict[tuple[str, ...], set[int]] = {}
        self.reading = False
        self.clock = Clock()
        self.killed = ""
        self.cuts = {1: 1, 2: 1}
        for module in (clocks, read_plan):
            patch.setattr(module, "time", self.clock)
        patch.setattr(clocks, "_boot", lambda: f"boot {self.clock.boots}")
        patch.setattr(routes, "PATIENCE", -1.0)
        patch.setattr(routes, "append", lambda *of: self._commit(append, of))
        self._look_once(patch)
        self.forget()

    def _look_once(self, patch: pytest.MonkeyPatch) -> None:
        """Between two actions nothing is written, so a table is asked once for new commits, not for each reader."""
        self.looked: set[Any] = set()
        real = {name: getattr(table_snapshots._Handle, name) for name in ("update", "is_valid")}

        def look(name: str, handle: Any) -> Any:
            if (handle, name) in self.looked:
                return handle.snapshot if name == "update" else True
            found = real[name](handle)
            if found and self.reading:
                self.looked.add((handle, name))
            return found

        for name in real:
            patch.setattr(table_snapshots._Handle, name, partialmethod_of(look, name))

    def forget(self) -> None:
        """Another process, with nothing in its memory."""
        for memory in (
            read_plan._readers,
            read_plan._seen,
            read_plan._first_sight,
            table_snapshots._handles,
            table_snapshots._earlier,
        ):
            memory.clear()

    def reboot(self) -> None:
        self.clock.boots += 1
        self.forget()

    def _commit(self, append: Callable[..., int], of: tuple[Any, ...]) -> int:
        killed, self.killed = self.killed, ""
        if killed == "before":
            raise Killed
        version = append(*of)
        if killed:
            raise Killed
        return version

    def answer(self, do: Callable[[], Any]) -> str:
        try:
            made = do()
        except Killed:
            self.forget()
            return "killed"
        except AnabranchError as error:
            return error.code
        return made.state if isinstance(made, migration.Migration) else "set"

    def act(self, name: str, *of: Any) -> str:
        s, said = self.settings, dict[str, Any](by="test", why="test")
        match name:
            case "start":
                begin = partial(migration.start, steps=STEPS, soak_seconds=SOAK, promise=PROMISE)
                return self.answer(lambda: begin(s, OLD, NEW, **said))
            case "advance":
                return self.answer(lambda: migration.advance(s, OLD, NEW, by="test"))
            case "halt" | "resume" | "rollback":
                return self.answer(lambda: getattr(migration, name)(s, VIEW, **said))
            case "retire":
                return self.answer(lambda: retire(VersionRef(s, VIEW, of[0]), grace=timedelta(0), **said))
            case "reinstate":
                return self.answer(lambda: reinstate(VersionRef(s, VIEW, of[0]), **said))
            case _:
                shares = {v: share for v, share in ((1, 100 - of[0]), (2, of[0])) if share}
                return self.answer(lambda: set_route(s, VIEW, shares, **said))

    def land(self, version: int, epochs: int) -> None:
        self.cuts[version] += epochs
        small_halves.replace_speed(self.settings, self.cuts[version], DAYS[:1], version=version)

    def read(self, reader: str) -> tuple[int, int, int | None]:
        found = anabranch.read(VIEW, settings=self.settings, reader=reader)
        behind = found.behind.epoch("flights") if found.behind else None
        epoch = found.cut.epoch("flights")
        assert self._written_by(found) == {epoch}, "a mixture"
        return found.version, epoch, behind

    def _written_by(self, found: anabranch.Reading) -> set[int]:
        """The epochs that wrote the rows of a reading. Its files never change, so they are read once."""
        files = tuple(found._plan.files())
        if files not in self.looked_at:
            self.looked_at[files] = set(found.to_arrow()["written_by"].to_pylist()) - {None}
        return self.looked_at[files]


def partialmethod_of(look: Callable[[str, Any], Any], name: str) -> Callable[[Any], Any]:
    return lambda handle: look(name, handle)


def predicted(model: Model, name: str, *of: Any) -> str:
    match name:
        case "halt" | "resume":
            return model.change({"halt": "halted", "resume": "moving"}[name])
        case "set":
            return model.set_by_hand({v: share for v, share in ((1, 100 - of[0]), (2, of[0])) if share})
        case _:
            return str(getattr(model, name)(*of))


def check(settings: Settings, actions: list[tuple[Any, ...]]) -> None:
    model = Model()
    with pytest.MonkeyPatch.context() as patch:
        house = House(settings, patch)
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
            house.reading = True
            for reader in READERS:
                chosen = route.version_for(reader) if route else 1
                assert house.read(reader) == model.read(reader, chosen), (action, reader)
            house.reading = False
            house.looked.clear()
        assert failed_reads(VersionRef(settings, VIEW, 1)) == failed_reads(VersionRef(settings, VIEW, 2)) == []


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("prepared")
    for version in (1, 2):
        small_halves.start_speed(Settings(home=home), 1, DAYS[:1], version=version)
    return home


def random_sequences(prepared: Path, folder: Path, examples: int) -> None:
    number, settings = iter(range(10**9)), Settings(home=folder)

    @run_with(
        max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=[*HealthCheck]
    )
    @given(st.lists(ACTION, min_size=25, max_size=40))
    def sequences(actions: list[tuple[Any, ...]]) -> None:
        home = folder / str(next(number))
        shutil.copytree(prepared, home)
        try:
            check(settings.model_copy(update={"home": home}), actions)
        finally:
            shutil.rmtree(home)

    sequences()


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
@pytest.mark.timeout(1_800)
def test_a_thousand_random_sequences(prepared: Path, in_memory: Path) -> None:
    random_sequences(prepared, in_memory, 1_000)
