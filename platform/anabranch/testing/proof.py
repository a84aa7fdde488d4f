"""``prove``: the promise of both paths, held against one view, on random logs, before anybody runs it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from anabranch.contracts import Declarations
from anabranch.contracts.declarations import load_declarations
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.core.settings import load_settings
from anabranch.core.spark import small
from anabranch.testing import counterexample, options, saved_counterexample
from anabranch.testing.counterexample import Finding
from anabranch.testing.diagnosis import cause
from anabranch.testing.end_to_end import PathsJudge
from anabranch.testing.engine import engine, quiet
from anabranch.testing.evaluator import Computer
from anabranch.testing.failure_report import story
from anabranch.testing.log_generator import draw
from anabranch.testing.proof_failure import ProofFailed
from anabranch.testing.properties import PARTICULAR, FunctionJudge, Identified, Oracle, Property, usual
from anabranch.testing.scenario import Log
from anabranch.testing.shrinking import Shrinker
from anabranch.views.check import check
from anabranch.views.function_source import Source, read
from anabranch.views.registry import sources_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.contracts import Sources
    from anabranch.views import View

_AT_ONCE = 8
_IN_PATHS = {
    counterexample.SPEED,
    counterexample.STREAM,
    counterexample.BATCH,
    counterexample.REBUILD,
    counterexample.PATHS,
}


@dataclass(frozen=True, slots=True)
class Proof:
    """What was tried without finding anything wrong."""

    view: str
    version: int
    seed: int
    logs: int
    streams: int
    events: int
    seconds: float


def prove(
    view: View,
    *,
    oracle: Oracle | None = None,
    quick: bool = False,
    runs: int | None = None,
    seed: int | None = None,
    replay: str | Path | None = None,
    time_zone: str | None = None,
    declarations: Declarations | None = None,
    spark: SparkSession | None = None,
    keep: Path | None = None,
) -> Proof:
    """Hold ``view`` to what both paths do to it: random logs, badly disordered, sliced, crashed and rebuilt.

    ``oracle`` is another reading of the events in plain Python: from the valid events, as dicts with the fields of
    their data beside ``type`` and the envelope's columns, to the rows as dicts, of the columns that it names. Events of
    a type with several versions are drawn in all of them, and come as they were sent, with ``contract_version``.
    ``runs`` logs are drawn (27 usually, 9 when ``quick``), by ``seed``: one is made from the definition where none
    is given, so the same definition is proven by the same logs. With ``time_zone`` the rows may not depend on that of
    the session either; the platform's own is UTC. ``replay`` runs one file of an earlier failure instead.
    ``declarations`` are the project's where none are given, ``spark`` the session of this process, or one made and
    shared by all proofs. What the command line of pytest says goes before the parameters.

    Raises ProofFailed with the smallest failure found in a minute, after writing the file that replays it below
    ``keep`` (the platform's home where None). BadInput HYPOTHESIS_MISSING, SESSION_UNFIT, REPLAY_UNREADABLE,
    REPLAY_OTHER. Nothing of the platform's own tables is touched. Not promised: that no other log would fail.
    """
    __tracebackhide__ = True
    asked = options.asked()
    if replay is None and asked.replay and not _is_of(view, asked.replay):
        return Proof(view.name, view.version, 0, 0, 0, 0, 0.0)
    effort = options.effort(quick or asked.quick, asked.runs if asked.runs is not None else runs)
    chosen = asked.seed if asked.seed is not None else seed
    declared = declarations or load_declarations(load_settings().contracts_folder)
    topics = sources_of(view, declared)
    prover = Prover(
        view,
        topics,
        read(view.function),
        int(view.fingerprint[:8] or "0", 16) if chosen is None else chosen,
        effort,
        usual(oracle, topics, time_zone),
        keep or load_settings().home / "proofs",
        engine(spark),
    )
    prover.check(declared)
    again = replay or asked.replay
    with quiet(prover.spark):
        return prover.replay(Path(again)) if again else prover.prove()


def _is_of(view: View, path: Path) -> bool:
    found = saved_counterexample.read(path)
    return (found.view, found.version) == (view.name, view.version)


class Prover:
    """One proof of one view."""

    def __init__(
        self,
        view: View,
        topics: Sources,
        source: Source,
        seed: int,
        effort: options.Effort,
        questions: Sequence[Property],
        keep: Path,
        spark: SparkSession,
    ) -> None:
        self.view, self.topics, self.source = view, topics, source
        self.seed, self.effort, self.questions, self.keep = seed, effort, questions, keep
        self.spark = spark
        computer = Computer(spark, view, topics)
        self._function = FunctionJudge(computer)
        self._paths = PathsJudge(spark, view, topics, computer)
        _travels_by_value(view)

    def check(self, declarations: Declarations) -> None:
        """What registration checks, without any event."""
        __tracebackhide__ = True
        try:
            check(self.view, small(self.spark), declarations)
        except BadDefinition as error:
            raise ProofFailed(
                error.code, error.what, state="nothing was run", next_step=error.next_step, **error.fields
            ) from None

    def prove(self) -> Proof:
        __tracebackhide__ = True
        started = time.monotonic()
        logs = draw(self.view, self.topics, self.source, self.seed, self.effort.logs, size=(8, 36))
        for some in _portions(logs):
            self._refuse(self._function.judge(some, self.questions))
        streams = draw(self.view, self.topics, self.source, self.seed + 1, self.effort.streams, size=(12, 30))
        for log in streams:
            self._refuse(self._paths.judge([log]))
        return self._proven(logs, streams, started)

    def replay(self, path: Path) -> Proof:
        """Both kinds of run, of exactly the log in ``path``; it isn't shrunk again."""
        __tracebackhide__ = True
        started, found = time.monotonic(), saved_counterexample.read(path)
        if (found.view, found.version) != (self.view.name, self.view.version):
            raise BadInput(
                "REPLAY_OTHER",
                f"{path} is of {found.view} v{found.version}, not of {self.view.name} v{self.view.version}",
                state="nothing was proven",
                next_step=f"replay it with the test that proves {found.view}",
            )
        self.seed = found.seed
        for judged in (self._function.judge([found.log], self.questions), self._paths.judge([found.log])):
            for each in filter(None, judged):
                self._raise(self._particular(each), len(found.log.events), path)
        return self._proven([found.log], [found.log], started)

    def _proven(self, logs: Sequence[Log], streams: Sequence[Log], started: float) -> Proof:
        events = sum(len(log.events) for log in [*logs, *streams])
        seconds = round(time.monotonic() - started, 1)
        return Proof(self.view.name, self.view.version, self.seed, len(logs), len(streams), events, seconds)

    def _refuse(self, judged: Sequence[Finding | None]) -> None:
        __tracebackhide__ = True
        found = min((f for f in judged if f), key=_gravity, default=None)
        if found is None:
            return
        smallest = self._particular(self._shrinker(found).shrink(found))
        self._raise(
            smallest, len(found.log.events), saved_counterexample.write(self.keep, self.view, smallest, self.seed)
        )

    def _shrinker(self, found: Finding) -> Shrinker:
        if found.code in _IN_PATHS:
            return Shrinker(self._paths.judge, 1, self.effort.shrink_seconds)
        # A failing job is run again case by case, so candidates that fail are judged one at a time.
        at_once = 1 if found.code == counterexample.FAILS else _AT_ONCE
        plain: list[Property] = [Identified()]
        asked = [q.closer(found) for q in self.questions if found.code in q.codes]
        if found.code == counterexample.FAILS:
            alone = self._function.judge([found.log], plain)[0]
            asked = plain if alone and alone.code == counterexample.FAILS else list(self.questions)
        return Shrinker(lambda logs: self._function.judge(logs, asked), at_once, self.effort.shrink_seconds)

    def _particular(self, found: Finding) -> Finding:
        """The finding that says more, where this one can mean several things."""
        for question in PARTICULAR.get(found.code, ()):
            told = self._function.judge([found.log], [question])[0]
            if told is not None:
                return told
        return found

    def _raise(self, found: Finding, drawn: int, path: Path) -> NoReturn:
        __tracebackhide__ = True
        view, why = self.view, cause(found, self.view, self.source)
        line = f"line {why.line}: " if why.line else ""
        file = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        again = f"again: pytest --prove-replay {file}\n   or: prove({view.name}, replay={str(file)!r})"
        raise ProofFailed(
            found.code,
            f"{view.origin}: {view.name} v{view.version}: {line}{why.what}",
            state=f"nothing was written but {path.name}, which runs this again",
            next_step=f"write: {why.write}",
            story=f"\n{story(found, view, self.topics, self.source, drawn)}\n\n{again}\n  seed: {self.seed}",
            view=view.name,
            version=view.version,
            line=why.line,
            seed=self.seed,
            events=len(found.log.events),
            replay=path,
            finding=found,
        ) from (found.error if isinstance(found.error, Exception) else None)


def _gravity(found: Finding) -> tuple[int, int]:
    """What is plain comes first: a view that fails or has two rows of one key is hardly equal anywhere else."""
    plain = (counterexample.FAILS, counterexample.PARTITION_NULL, counterexample.KEY, counterexample.MIXED)
    return plain.index(found.code) if found.code in plain else len(plain), len(found.log.events)


def _portions(logs: Sequence[Log]) -> Iterator[Sequence[Log]]:
    """Few at first: most mistakes show at once."""
    yield logs[:3]
    for start in range(3, len(logs), _AT_ONCE):
        yield logs[start : start + _AT_ONCE]


def _travels_by_value(view: View) -> None:
    """The workers of a Python function can't import a test module, or a file of views, by its name."""
    from pyspark import cloudpickle

    module = sys.modules.get(view.function.__module__)
    if module is not None and not module.__name__.startswith("anabranch."):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
