"""``anabranch.explain``: from a served row to the events behind it, and why it is another one elsewhere."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from anabranch.compute.batch.rebuild import cut_at
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import Cut, Position
from anabranch.operate.explain.candidates import Candidates, Row, candidates
from anabranch.operate.explain.contributions import by_interest, changes, effects
from anabranch.operate.explain.engine import small_session
from anabranch.operate.explain.evaluator import Budget, ViewEvaluator, with_key
from anabranch.operate.explain.explanation import Comparison, Explanation, Part
from anabranch.operate.explain.last_change import LastChange, last_change
from anabranch.operate.explain.minimise import Contributors, Search
from anabranch.operate.explain.missing_row import row_missing
from anabranch.operate.explain.request import Asked, Side, asked_row, other_side
from anabranch.views.definition import View
from anabranch.views.definition_registry import definition_lines
from anabranch.views.inputs import watermark_of
from anabranch.views.project import Project
from anabranch.views.registry import Registry
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 8.0
"""What finding the events and their contributions may take by default, beside the start of Spark."""


def explain(
    view: str,
    key: Mapping[str, Any],
    version: int | None = None,
    *,
    prefer: str = "default",
    cut: str | None = None,
    against: str | None = None,
    against_version: int | None = None,
    settings: Settings | None = None,
    registry: Registry | None = None,
    spark: SparkSession | None = None,
    seconds: float = SECONDS,
) -> Explanation:
    """The row of ``key`` as it is served: the events behind it, what each contributes, where it comes from.

    ``cut`` (``flights@7``): the row as the function gives it there, with late events or not as the half that serves
    it. ``against``, ``against_version``: the same key at another cut or in another version, and why it differs.
    ``spark``: a session to use; without one, Spark is started and stopped. Nothing is written.
    BadInput: KEY_UNKNOWN, KEY_INCOMPLETE, KEY_UNREADABLE, KEY_DIFFERS, ROW_MISSING, CUT_UNREADABLE, CUT_IN_FUTURE;
    Conflict DEFINITION_CHANGED; else as ``anabranch.read``. What isn't found out in ``seconds`` is left open, and the
    explanation says so.
    """
    if against is not None and against_version is not None:
        raise BadInput("AGAINST_TWICE", "a cut and a version to compare with", next_step="compare with one at a time")
    config = settings or load_settings()
    known = registry or Project(config).views()
    asked = asked_row(config, known, view, key, version, prefer, cut)
    other = other_side(config, known, asked, against, against_version)
    run = _Run(config, asked, other, seconds)
    if asked.side.row is None and not asked.at_cut:
        raise run.missing()
    with small_session(config, spark) as started:
        return run.explained(started)


class _Run:
    """One explanation: reads landing once, then asks the function as long as its budget lasts."""

    def __init__(self, settings: Settings, asked: Asked, other: Side | None, seconds: float) -> None:
        self._settings = settings
        self._asked = asked
        self._other = other
        self._budget = Budget(seconds)
        self._seconds = seconds

    def explained(self, started: Future[SparkSession]) -> Explanation:
        asked, side = self._asked, self._asked.side
        found = self._found  # read while Spark starts
        spark = started.result()
        begun, self._budget = time.monotonic(), Budget(self._seconds)
        function, search = self._search(spark, side)
        if search is None:
            raise self.missing()
        behind = search.run()
        there = self._there(spark)
        here_only, comparison = self._compared(search, behind, there)
        order = by_interest(behind.events, found.events, here_only, behind.idle)
        known = effects(function, behind.events, search.row, order) if behind.verified else {}
        parts = tuple(Part(found.events[n], known.get(n), n in behind.idle) for n in sorted(behind.events))
        last = self._last(search.row, behind) if not asked.at_cut else None
        source = None if asked.at_cut else asked.served.source
        return Explanation(
            side.view.name,
            side.view.version,
            asked.key,
            search.row,
            side.cut,
            side.late,
            source,
            parts,
            behind.verified,
            behind.finished,
            found.complete,
            last,
            comparison,
            time.monotonic() - begun,
            self._budget.runs,
        )

    @cached_property
    def _found(self) -> Candidates:
        asked = self._asked
        needs = [asked.side, *([self._other] if self._other else [])]
        cuts = [side.cut for side in needs]
        if asked.side.row is None:  # to say what became of its events
            cuts.append(cut_at(self._settings, asked.topics))
        newest = Cut({t.name: Position(max(cut.epoch(t.name) for cut in cuts), {}) for t in asked.topics.each})
        return candidates(self._settings, [side.view for side in needs], asked.topics, asked.key, asked.day, newest)

    def _search(self, spark: SparkSession, side: Side) -> tuple[ViewEvaluator, Search | None]:
        """The function of one side, and the search behind its row; None where there is no row."""
        topics = self._asked.topics
        at = watermark_of(self._settings, side.view, topics, side.cut) if side.view.closes else None
        function = ViewEvaluator(spark, side.view, topics, self._found, at, self._budget)
        seen = self._seen(side)
        row = side.row
        if row is None:
            row = with_key(function.rows([frozenset(np.flatnonzero(seen).tolist())])[0], self._asked.key)
        return function, None if row is None else Search(function, self._found, seen, row)

    def _seen(self, side: Side) -> NDArray[np.bool_]:
        types = set(side.view.events)
        own = np.array([event.type in types for event in self._found.events], np.bool_)
        seen: NDArray[np.bool_] = self._found.up_to(side.cut, late=side.late) & own
        return seen

    def _there(self, spark: SparkSession) -> tuple[Search | None, Contributors | None] | None:
        if self._other is None:
            return None
        _, search = self._search(spark, self._other)
        return search, search.run() if search is not None else None

    def _compared(
        self, here: Search, behind: Contributors, there: tuple[Search | None, Contributors | None] | None
    ) -> tuple[frozenset[int], Comparison | None]:
        if there is None or self._other is None:
            return frozenset(), None
        search, other = there
        events = self._found.events
        theirs = other.events if other is not None else frozenset()
        row = search.row if search is not None else None
        only_here, only_there = behind.events - theirs, theirs - behind.events
        comparison = Comparison(
            self._other.view.version,
            self._other.cut,
            row,
            other is None or other.verified,
            changes(here.row, row) if row is not None else (),
            tuple(events[n] for n in sorted(only_here)),
            tuple(events[n] for n in sorted(only_there)),
            len(behind.events & theirs),
            _definition(self._other.view, self._asked.side.view),
        )
        return only_here, comparison

    def _last(self, row: Row, behind: Contributors) -> LastChange:
        asked = self._asked
        uri = asked.served.pinned.speed.uri
        return last_change(uri, asked.served.source, row, self._found.events, behind.events, asked.speed_row)

    def missing(self) -> BadInput:
        """What to say of a row that isn't there; without Spark."""
        asked, side = self._asked, self._asked.side
        landed = cut_at(self._settings, asked.topics)
        near = () if asked.at_cut else asked.served.near
        return row_missing(side.view, asked.key, side.cut, self._found, near, late=side.late, landed=landed)


def _definition(there: View, here: View) -> tuple[str, ...]:
    if there.fingerprint == here.fingerprint:
        return ()
    old, new = definition_lines(there), definition_lines(here)
    return tuple(difflib.unified_diff(old, new, f"v{there.version}", f"v{here.version}", n=1, lineterm=""))
