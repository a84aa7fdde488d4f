"""The platform that ``support.route_model`` is a model of: all that moves readers, in a process that really dies.

A kill is SIGKILL at the commit of a route, before it or behind it (``routes.append`` is wrapped for that alone; within
the commit ``crash/test_stopped_in_commits.py`` kills). delta-rs refuses to work in the fork of a process that has used
it, and a new Python takes a second to import everything. So the nursery, ``python -m support.route_house``, imports
everything, uses nothing, and forks one house after the other: each has nothing in its memory.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any

import anabranch
import pytest
from anabranch.change.migrate import migration
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.core import clocks
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.lake.commits import append
from anabranch.lake.layout import VersionRef
from anabranch.serve import read_plan, routes, table_snapshots
from anabranch.serve.retirement import reinstate, retire
from anabranch.serve.routes import set_route
from anabranch.views import View

from support import small_halves
from support.route_model import SOAK, STEPS
from support.small_halves import DAYS, VIEW

OLD, NEW = (
    View(VIEW, version, ("flight.departed",), ("window_start",), lambda rows: rows, partition_by="window_start")
    for version in (1, 2)
)
PROMISE = Expectations(compared=False, behind=10_000)
_DIED = "died"
Had = tuple[int, int, int | None]


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


class Living:
    """What a house does, in its own process."""

    def __init__(self, home: str, patch: pytest.MonkeyPatch) -> None:
        self.settings = Settings(home=Path(home))
        self.looked_at: dict[tuple[str, ...], set[int]] = {}
        self.reading = False
        self.clock = Clock()
        self.killed = ""
        for module in (clocks, read_plan):
            patch.setattr(module, "time", self.clock)
        patch.setattr(clocks, "_boot", lambda: f"boot {self.clock.boots}")
        patch.setattr(routes, "PATIENCE", -1.0)
        patch.setattr(routes, "append", self._commit)
        self._look_once(patch)

    def _look_once(self, patch: pytest.MonkeyPatch) -> None:
        """Between two actions nothing is written, so a table is asked once for new commits, not for each reader."""
        self.looked: set[Any] = set()
        real = {name: getattr(table_snapshots._Handle, name) for name in ("update", "is_valid")}

        def look(name: str, handle: Any) -> Any:
            if (handle, name) in self.looked:
                return True
            found = real[name](handle)
            if found and self.reading:
                self.looked.add((handle, name))
            return found

        for name in real:
            patch.setattr(table_snapshots._Handle, name, _method(look, name))

    def _commit(self, *of: Any) -> int:
        if self.killed == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        version = append(*of)
        if self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        return version

    def act(self, name: str, *of: Any) -> str:
        s, said = self.settings, dict[str, Any](by="test", why="test")
        match name:
            case "start":
                begin = partial(migration.start, steps=STEPS, soak_seconds=SOAK, promise=PROMISE)
                return _answer(lambda: begin(s, OLD, NEW, **said))
            case "advance":
                return _answer(lambda: migration.advance(s, OLD, NEW, by="test"))
            case "halt" | "resume" | "rollback":
                return _answer(lambda: getattr(migration, name)(s, VIEW, **said))
            case "retire":
                return _answer(lambda: retire(VersionRef(s, VIEW, of[0]), grace=timedelta(0), **said))
            case "reinstate":
                return _answer(lambda: reinstate(VersionRef(s, VIEW, of[0]), **said))
            case _:
                shares = {v: share for v, share in ((1, 100 - of[0]), (2, of[0])) if share}
                return _answer(lambda: set_route(s, VIEW, shares, **said))

    def land(self, version: int, cut: int) -> None:
        small_halves.replace_speed(self.settings, cut, DAYS[:1], version=version)

    def read(self, *readers: str) -> list[Had]:
        self.reading = True
        try:
            return [self._read(reader) for reader in readers]
        finally:
            self.reading = False
            self.looked.clear()

    def _read(self, reader: str) -> Had:
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


class House:
    """The same as a test has it: each call happens in the house's process. What outlives a kill is here."""

    def __init__(self, nursery: subprocess.Popen[str], home: Path) -> None:
        self._nursery, self._home = nursery, home
        self.clock, self.killed, self.cuts = Clock(), "", {1: 1, 2: 1}
        self.kills = 0

    def act(self, name: str, *of: Any) -> str:
        said = self._call("act", name, *of)
        if said == _DIED:
            self.killed, self.kills = "", self.kills + 1
            return "killed"
        return str(said)

    def land(self, version: int, epochs: int) -> None:
        self.cuts[version] += epochs
        self._call("land", version, self.cuts[version])

    def read(self, *readers: str) -> list[Had]:
        return [(version, cut, behind) for version, cut, behind in self._call("read", *readers)]

    def reboot(self) -> None:
        self.clock.boots += 1
        self.end()

    def end(self) -> None:
        """Its process is killed; the next call has another one."""
        assert self._call("die") == _DIED

    def _call(self, what: str, *of: Any) -> Any:
        clock = [self.clock.now, self.clock.ahead, self.clock.boots]
        sent, answered = self._nursery.stdin, self._nursery.stdout
        assert sent is not None
        assert answered is not None
        print(json.dumps([str(self._home), clock, self.killed, what, *of]), file=sent, flush=True)
        found = json.loads(answered.readline())
        assert "error" not in found, found["error"]
        return found["said"]


@contextmanager
def nursery() -> Iterator[subprocess.Popen[str]]:
    given = [sys.executable, "-m", "support.route_house"]
    with subprocess.Popen(
        given, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


def _answer(do: Callable[[], Any]) -> str:
    try:
        made = do()
    except AnabranchError as error:
        return error.code
    return made.state if isinstance(made, migration.Migration) else "set"


def _method(look: Callable[[str, Any], Any], name: str) -> Callable[[Any], Any]:
    return lambda handle: look(name, handle)


def _live(asked: IO[str], answers: IO[str]) -> None:
    """Do what is asked until the end of the questions, or of this process."""
    living: Living | None = None
    patch = pytest.MonkeyPatch()
    while line := asked.readline():
        home, (now, ahead, boots), killed, what, *of = json.loads(line)
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        living = living or Living(home, patch)
        living.clock.now, living.clock.ahead, living.clock.boots, living.killed = now, ahead, boots, killed
        try:
            found = {"said": getattr(living, what)(*of)}
        except Exception as error:
            found = {"error": f"{what} {of}: {error!r}"}
        print(json.dumps(found), file=answers, flush=True)


def main() -> None:
    asked = os.fdopen(0, "r", buffering=1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gc.freeze()
    while True:
        if (child := os.fork()) == 0:
            _live(asked, answers)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            return
        print(json.dumps({"said": _DIED}), file=answers, flush=True)


if __name__ == "__main__":
    main()
