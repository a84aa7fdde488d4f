"""Kill, restart, judge: again and again, and write down what was seen."""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, zip_longest
from pathlib import Path
from random import Random
from types import MappingProxyType

from crash.acts import ACTS, MARK, Stage
from crash.judging import settle, wrong
from crash.world import Program, World

_RANDOM = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|(?<=\.)[0-9a-f]{8}(?=\.\d+$)|(?<=-)[0-9a-f]{8}(?=/)"
)
"""The third: of a draft (``core.storage``), between the name of its file and the process that writes it. The last one:
of a build, behind the name of its run."""
_NUMBER = re.compile(r"\d+")
TRIES, TRIES_OF_A_COMMIT = 2, 6
"""Of each point: once before it and once after it; of a commit of a table three times each way."""
_COMMIT = re.compile(r"/_delta_log/<n>\.json$")
_SHARED = re.compile(r"^(tmp|warehouse|logs|locks)/|/__pycache__/|^\.$")
"""What belongs to no state: Spark's scratch folder, Python's byte code, what holders of locks say about themselves. And
the home itself: ``os.removedirs`` asks for it behind the last empty folder in it, and is refused."""


@dataclass(frozen=True, order=True, slots=True)
class Point:
    """A change of a name in the file system. ``path``: below the home, with ``<id>`` for what is random and ``<n>`` for
    a number."""

    act: str
    operation: str
    path: str

    def __str__(self) -> str:
        return f"{self.act}: {self.operation} of {self.path}"

    @property
    def tries(self) -> int:
        return TRIES_OF_A_COMMIT if _COMMIT.search(self.path) else TRIES

    def expression(self, home: Path) -> str:
        return re.escape(f"{home}/{self.path}").replace("<id>", "[^/]*").replace("<n>", r"\d+")


@dataclass(frozen=True, slots=True)
class Try:
    """SIGKILL at the ``nth`` such change, ``after`` it took effect or before; ``alone``: only the process that made it
    was killed."""

    point: Point
    nth: int
    after: bool
    alone: bool

    def __str__(self) -> str:
        which = f"{'after' if self.after else 'before'} pass {self.nth}"
        return f"{self.point}, {which}{', that process alone' if self.alone else ''}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """``killed``: whether the point was passed at all. ``seconds``: from the restart until the act had come to its
    end. ``commit``: of the code that was tried; ``code``: the digest of what was killed (``killed_code``); ``date``: of
    the try."""

    made: Try
    killed: bool
    seconds: float
    wrong: tuple[str, ...]
    commit: str = ""
    code: str = ""
    date: str = ""


_NONE: Mapping[Point, int] = MappingProxyType({})


def points(world: World, acts: Sequence[str], log: Path) -> dict[Point, int]:
    """Every point of some acts, and how often each is passed: found by carrying them out once, in one program."""
    program = world.begin(None, log, *acts)
    for number, act in enumerate(acts):
        world.put_back(ACTS[act].template)
        if not program.carry_out(number):
            raise RuntimeError(f"{act} fails by itself: see {log}")
    names = [(call["operation"], str(Path(call["path"]).relative_to(world.home))) for call in program.end()["calls"]]
    counted, number = Counter[Point](), 0
    for operation, path in names:
        if path == MARK.format(number):
            number += 1
        elif number < len(acts) and not _SHARED.search(name := named(path)):
            counted[Point(acts[number], operation, name)] += 1
    return dict(sorted(counted.items()))


def named(path: str) -> str:
    """The same for each pass of a point, though ids and numbers in its path below the home are new ones."""
    return _NUMBER.sub("<n>", _RANDOM.sub("<id>", path))


def begin(world: World, one: Try, log: Path) -> Program:
    """Start the program that is to be killed."""
    path = one.point.expression(world.home)
    blow = {"operation": one.point.operation, "path": path, "nth": one.nth, "after": one.after, "alone": one.alone}
    return world.begin(blow, log, one.point.act)


def struck(world: World, one: Try, program: Program) -> bool:
    """Whether the program, over the state before its act, passed the point and was killed there."""
    world.put_back(ACTS[one.point.act].template)
    return bool(program.finish()["killed"])


def judged(world: World, stage: Stage, one: Try, killed: bool) -> Outcome:
    """Start the act again, and say what is wrong then."""
    act = ACTS[one.point.act]
    begun = time.monotonic()
    try:
        act.carry_out(stage)
        took = time.monotonic() - begun
        settle(stage, act)
        bad = wrong(stage, act, world.everything_sent())
    except Exception as error:  # a restart that fails is what the sweep looks for
        took, bad = (time.monotonic() - begun, [f"the restart failed: {type(error).__name__}: {error}"])
    return Outcome(one, killed, round(took, 2), tuple(bad))


def drawn(found: Mapping[Point, int], most: int | None, rng: Random) -> dict[Point, int]:
    """``most`` points, or all, each act's turn by turn: so a sweep that is stopped has tried as many of each act, of
    which some pass a hundred points and some three."""
    left = {act: rng.sample(own, len(own)) for act in ACTS if (own := sorted(p for p in found if p.act == act))}
    chosen = [point for turn in zip_longest(*left.values()) for point in turn if point is not None][:most]
    return {point: found[point] for point in chosen}


def tries(found: Mapping[Point, int], rng: Random, done: Mapping[Point, int] = _NONE) -> Iterator[Try]:
    """The tries of every point, but for as many as were ``done`` already: before it, after it, and so on, at different
    passes of it; in one of three only that process dies. First one of every point, then the next of every point: a
    sweep that is stopped has been everywhere."""
    passes = {point: cycle(rng.sample(range(1, count + 1), count)) for point, count in found.items()}
    for number in range(TRIES_OF_A_COMMIT):
        for point in found:
            if done.get(point, 0) <= number < point.tries:
                yield Try(point, next(passes[point]), after=number % 2 == 1, alone=number % 3 == 2)


def sweep(world: World, stage: Stage, chosen: Sequence[Try], tell: Callable[[str], None]) -> Generator[Outcome]:
    """All of them, in their order. While one is judged, the program of the next one starts its engine."""
    begun, logs = time.monotonic(), cycle([world.root / "try.log", world.root / "next.log"])
    waiting = deque([begin(world, chosen[0], next(logs))] if chosen else [])
    try:
        for number, one in enumerate(chosen, 1):
            killed = struck(world, one, waiting.popleft())
            if number < len(chosen):
                waiting.append(begin(world, chosen[number], next(logs)))
            done = judged(world, stage, one, killed)
            left = (time.monotonic() - begun) / number * (len(chosen) - number)
            state = "; ".join(done.wrong) or ("whole" if done.killed else "not passed")
            tell(f"{number}/{len(chosen)} ({left / 60:.0f} min left) {one}: {state} in {done.seconds:.1f} s")
            yield done
    finally:
        for program in waiting:
            program.stop()
