"""``prove``: check on random logs that both paths agree on a view, before it is deployed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from anabranch.contracts import load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.engine.spark import small
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.core.settings import load_settings
from anabranch.testing import _counterexample, _options, _saved_counterexample
from anabranch.testing._counterexample import Finding, ProofFailed
from anabranch.testing._diagnosis import diagnose
from anabranch.testing._end_to_end import PathsJudge
from anabranch.testing._engine import engine, quiet
from anabranch.testing._evaluator import Evaluator
from anabranch.testing._failure_report import report
from anabranch.testing._log_generator import draw
from anabranch.testing._properties import (
    REFINEMENTS,
    FunctionJudge,
    Oracle,
    Property,
    UniqueKey,
    default_properties,
    replayed_properties,
)
from anabranch.testing._scenario import Log
from anabranch.testing._shrinking import Shrinker
from anabranch.views.check import check
from anabranch.views.function_source import Source, read
from anabranch.views.registry import sources_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.contracts.model.topics import Sources
    from anabranch.views import View

_AT_ONCE = 8
_MOST_MORE = 24
_END_TO_END_CODES = {
    _counterexample.SPEED,
    _counterexample.STREAM,
    _counterexample.BATCH,
    _counterexample.REBUILD,
    _counterexample.PATHS,
}


@dataclass(frozen=True, slots=True)
class Proof:
    """A successful proof: what was tried. ``rows``: how many the logs gave, of the function and of the stream."""

    view: str
    version: int
    seed: int
    logs: int
    streams: int
    events: int
    rows: int
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
    """Checks ``view`` on random logs that are badly disordered, sliced into epochs, crashed, restarted and rebuilt.

    - ``oracle``: a second implementation of the view in plain Python. It gets the valid events as dicts (the fields of
      their data, ``type`` and the envelope columns) and returns the rows as dicts, with the columns that it computes.
      Events of a type with several contract versions are drawn in all of them and passed as they were sent, with
      ``contract_version``.
    - ``runs``: how many logs are drawn (default 27, with ``quick`` 9). ``seed``: by default derived from the
      definition, so the same definition is proven with the same logs.
    - ``time_zone``: also require that the rows don't depend on the session's time zone (the platform uses UTC).
    - ``replay``: run the saved log of an earlier failure instead.
    - ``declarations``: default are the project's. ``spark``: default is the session of this process, or one that all
      proofs share.

    Options on pytest's command line override the arguments. The platform's own tables aren't touched.

    Raises ProofFailed with the smallest failure found within a minute, after writing the file that replays it below
    ``keep`` (default: the platform's home); PROOF_EMPTY if no log gave a row. Raises BadInput HYPOTHESIS_MISSING,
    SESSION_UNFIT, REPLAY_UNREADABLE, REPLAY_OTHER. Not guaranteed: that no other log would fail.
    """
    __tracebackhide__ = True
    given = _options.current_options()
    if replay is None and given.replay:
        replayed = _belongs_to(view, given.replay)
        _options.note_replay(f"{view.name} v{view.version}", replayed=replayed)
        if not replayed:
            return Proof(view.name, view.version, 0, 0, 0, 0, 0, 0.0)
    effort = _options.effort(quick or given.quick, given.runs if given.runs is not None else runs)
    chosen = given.seed if given.seed is not None else seed
    declared = declarations or load_declarations(load_settings().contracts_folder)
    topics = sources_of(view, declared)
    prover = Prover(
        view,
        topics,
        read(view.function),
        int(view.fingerprint[:8] or "0", 16) if chosen is None else chosen,
        effort,
        default_properties(oracle, topics, time_zone),
        keep or load_settings().home / "proofs",
        engine(spark),
    )
    prover.check(declared)
    saved = replay or given.replay
    with quiet(prover.spark):
        return prover.replay(Path(saved)) if saved else prover.prove()


def _belongs_to(view: View, path: Path) -> bool:
    found = _saved_counterexample.read(path)
    return (found.view, found.version) == (view.name, view.version)


class Prover:
    """One proof of one view."""

    def __init__(
        self,
        view: View,
        topics: Sources,
        source: Source,
        seed: int,
        effort: _options.Effort,
        properties: Sequence[Property],
        keep: Path,
        spark: SparkSession,
    ) -> None:
        self.view, self.topics, self.source = view, topics, source
        self.seed, self.effort, self.properties, self.keep = seed, effort, properties, keep
        self.spark = spark
        evaluator = Evaluator(spark, view, topics)
        self._function = FunctionJudge(evaluator)
        self._paths = PathsJudge(spark, view, topics, evaluator)
        _pickle_by_value(view)

    def check(self, declarations: Declarations) -> None:
        """Runs the static check of registration, without any event."""
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
        for chunk in _chunks(logs):
            self._raise_worst(self._function.judge(chunk, self.properties))
        streams = draw(self.view, self.topics, self.source, self.seed + 1, self.effort.streams, size=(12, 30))
        for log in streams:
            self._raise_worst(self._paths.judge([log]))
        return self._proven([*logs, *self._until_a_row()], streams, started)

    def replay(self, path: Path) -> Proof:
        """Runs exactly the log in ``path`` in both ways, without shrinking."""
        __tracebackhide__ = True
        started, found = time.monotonic(), _saved_counterexample.read(path)
        if (found.view, found.version) != (self.view.name, self.view.version):
            raise BadInput(
                "REPLAY_OTHER",
                f"{path} is a log of {found.view} v{found.version}, not of {self.view.name} v{self.view.version}",
                state="nothing was proven",
                next_step=f"replay it with the test that proves {found.view}",
            )
        self.seed = found.seed
        properties = replayed_properties(self.properties, found.partition)
        for findings in (self._function.judge([found.log], properties), self._paths.judge([found.log])):
            for finding in filter(None, findings):
                self._raise(self._refined(finding), len(found.log.events), path)
        return self._proven([found.log], [found.log], started)

    def _proven(self, logs: Sequence[Log], streams: Sequence[Log], started: float) -> Proof:
        events = sum(len(log.events) for log in [*logs, *streams])
        seconds = round(time.monotonic() - started, 1)
        return Proof(self.view.name, self.view.version, self.seed, len(logs), len(streams), events, self._rows, seconds)

    @property
    def _rows(self) -> int:
        return self._function.rows + self._paths.rows

    def _until_a_row(self) -> list[Log]:
        """Tables that are always empty are equal, whatever the view does: more logs are judged until one gives a row.
        Raises ProofFailed PROOF_EMPTY if none does."""
        __tracebackhide__ = True
        judged: list[Log] = []
        if self._rows:
            return judged
        for chunk in _chunks(draw(self.view, self.topics, self.source, self.seed + 2, _MOST_MORE, size=(8, 36))):
            self._raise_worst(self._function.judge(chunk, self.properties))
            judged += chunk
            if self._rows:
                return judged
        raise ProofFailed(
            _counterexample.EMPTY,
            f"{self.view.origin}: {self.view.name} v{self.view.version}: no log gave it a single row",
            state="nothing was proven, and nothing was written",
            next_step="let its conditions hold for values that are drawn: list them in the contract (enum), or write "
            "them in the view as literals; more logs: --prove-runs 300",
            view=self.view.name,
            version=self.view.version,
            seed=self.seed,
        )

    def _raise_worst(self, findings: Sequence[Finding | None]) -> None:
        __tracebackhide__ = True
        found = min((f for f in findings if f), key=_priority, default=None)
        if found is None:
            return
        smallest = self._refined(self._shrinker(found).shrink(found))
        self._raise(
            smallest, len(found.log.events), _saved_counterexample.write(self.keep, self.view, smallest, self.seed)
        )

    def _shrinker(self, found: Finding) -> Shrinker:
        if found.code in _END_TO_END_CODES:
            return Shrinker(self._paths.judge, 1, self.effort.shrink_seconds)
        # A failing job is repeated case by case anyway, so candidates that fail are judged one at a time.
        at_once = 1 if found.code == _counterexample.FAILS else _AT_ONCE
        simplest: list[Property] = [UniqueKey()]
        relevant = [p.narrowed(found) for p in self.properties if found.code in p.codes]
        if found.code == _counterexample.FAILS:
            alone = self._function.judge([found.log], simplest)[0]
            relevant = simplest if alone and alone.code == _counterexample.FAILS else list(self.properties)
        return Shrinker(lambda logs: self._function.judge(logs, relevant), at_once, self.effort.shrink_seconds)

    def _refined(self, found: Finding) -> Finding:
        """A more specific finding, if this code can have several causes."""
        for refinement in REFINEMENTS.get(found.code, ()):
            specific = self._function.judge([found.log], [refinement.narrowed(found), refinement])[0]
            if specific is not None:
                return specific
        return found

    def _raise(self, found: Finding, drawn: int, path: Path) -> NoReturn:
        __tracebackhide__ = True
        view, why = self.view, diagnose(found, self.view, self.source)
        line = f"line {why.line}: " if why.line else ""
        file = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        again = f"again: pytest --prove-replay {file}\n   or: prove({view.name}, replay={str(file)!r})"
        raise ProofFailed(
            found.code,
            f"{view.origin}: {view.name} v{view.version}: {line}{why.what}",
            state=f"nothing was written except {path.name}, which replays this failure",
            next_step=f"write: {why.write}",
            story=f"\n{report(found, view, self.topics, self.source, drawn)}\n\n{again}\n  seed: {self.seed}",
            view=view.name,
            version=view.version,
            line=why.line,
            seed=self.seed,
            events=len(found.log.events),
            replay=path,
            finding=found,
        ) from (found.error if isinstance(found.error, Exception) else None)


def _priority(found: Finding) -> tuple[int, int]:
    """Basic problems come first: a view that fails, or has two rows with one key, also differs everywhere else."""
    basic = (_counterexample.FAILS, _counterexample.PARTITION_NULL, _counterexample.KEY, _counterexample.MIXED)
    return basic.index(found.code) if found.code in basic else len(basic), len(found.log.events)


def _chunks(logs: Sequence[Log]) -> Iterator[Sequence[Log]]:
    """The first chunk is small: most mistakes show in the first logs."""
    yield logs[:3]
    for start in range(3, len(logs), _AT_ONCE):
        yield logs[start : start + _AT_ONCE]


def _pickle_by_value(view: View) -> None:
    """Python workers can't import a test module, or a view module, by name."""
    from pyspark import cloudpickle

    module = sys.modules.get(view.function.__module__)
    if module is not None and not module.__name__.startswith("anabranch."):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
