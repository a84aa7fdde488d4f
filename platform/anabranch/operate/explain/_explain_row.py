"""Runs ``anabranch.explain``: from a served row to the events behind it, and why another cut or version differs."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anabranch.compute.batch.rebuild import cut_at
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.core.text.quantities import counted
from anabranch.lake.cut import Cut, Position
from anabranch.operate.explain._candidates import MOST as READ
from anabranch.operate.explain._candidates import Candidates, Row, candidates
from anabranch.operate.explain._contributions import MOST, Effects, by_interest, changes, effects
from anabranch.operate.explain._engine import explain_session
from anabranch.operate.explain._evaluator import Budget, OutOfTime, ViewEvaluator, with_key
from anabranch.operate.explain._explanation import Comparison, Explanation, Part
from anabranch.operate.explain._last_change import LastChange, last_change
from anabranch.operate.explain._minimise import Contributors, Search
from anabranch.operate.explain._missing_row import row_missing
from anabranch.operate.explain._request import ExplainRequest, Side, comparison_side, resolve_request
from anabranch.views import Registry, View
from anabranch.views.definition_registry import definition_lines
from anabranch.views.model.handle import ViewHandle
from anabranch.views.project import Project
from anabranch.views.selection.inputs import watermark_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 8.0
"""Default time budget for finding the events and their contributions. The start of Spark is not counted."""


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
    contributions: int = MOST,
) -> Explanation:
    """Explains the served row of ``key``: the events behind it, what each contributes, and where the row comes from.

    ``cut`` (``flights@7``): explains the row as the view's function computes it at that cut; late events are included
    if the half that serves the row today includes them. ``against``, ``against_version``: compares with the same key
    at another cut or in another version. ``spark``: a session to use; without one, Spark is started and stopped.
    ``contributions``: of how many events at most it is computed what each contributes. Writes nothing.

    It ends within some 1.25 times ``seconds`` after Spark's start: a job that isn't done by then is cancelled.

    Raises BadInput KEY_UNKNOWN, KEY_INCOMPLETE, KEY_UNREADABLE, KEY_DIFFERS, ROW_MISSING, CUT_UNREADABLE or
    CUT_IN_FUTURE, Conflict DEFINITION_CHANGED, TryAgain EXPLAIN_TIMEOUT (a row at a cut couldn't be computed in time),
    the errors of ``anabranch.read``, and what the view's function or the engine raises over all events. Not guaranteed:
    that all is found within ``seconds``; ``left_out`` says what wasn't.
    """
    if against is not None and against_version is not None:
        raise BadInput(
            "AGAINST_TWICE", "both a cut and a version to compare with were given", next_step="give only one of them"
        )
    config = settings or load_settings()
    known = registry or Project(config).views()
    request = resolve_request(config, known, view, key, version, prefer, cut)
    other = comparison_side(config, known, request, against, against_version)
    run = _Run(config, request, other, seconds, contributions)
    if request.side.row is None and not request.at_cut:
        raise run.missing()
    with explain_session(config, spark) as started:
        return run.explained(started)


class _Run:
    """One explanation: reads landing once, then runs the view's function until the time budget is used up."""

    def __init__(
        self, settings: Settings, request: ExplainRequest, other: Side | None, seconds: float, contributions: int
    ) -> None:
        self._settings = settings
        self._request = request
        self._other = other
        self._budget = Budget(seconds)
        self._seconds = seconds
        self._contributions = contributions

    def explained(self, started: Future[SparkSession]) -> Explanation:
        request, side = self._request, self._request.side
        ready: list[float] = []
        started.add_done_callback(lambda _: ready.append(time.monotonic()))
        found = self._found  # reads landing while Spark starts
        spark = started.result()
        begun = ready[0] if ready else time.monotonic()
        self._budget = Budget(self._seconds, begun)
        try:
            function, search = self._search(spark, side)
        except OutOfTime:
            raise self._too_slow() from None
        if search is None:
            raise self.missing()
        behind = search.run()
        compared, there = self._there(spark)
        here_only, comparison = self._compared(search, behind, there)
        order = by_interest(behind.events, found.events, here_only, behind.idle)
        known = Effects({})
        if behind.verified:
            known = effects(function, behind.events, search.row, order, self._contributions)
        parts = tuple(Part(found.events[n], known.each.get(n), n in behind.idle) for n in sorted(behind.events))
        last = self._last(search.row, behind) if not request.at_cut else None
        source = None if request.at_cut else request.served.source
        return Explanation(
            side.view.name,
            side.view.version,
            request.key,
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
            self._budget.jobs,
            self._tested(behind),
            known.others,
            tuple(self._left_out(behind, known, compared=compared)),
        )

    def _tested(self, behind: Contributors) -> bool:
        """Whether ``verified`` says something: if events weren't read, that the others don't give the row doesn't."""
        return behind.tested and (behind.verified or not self._found.unread)

    def _left_out(self, behind: Contributors, known: Effects, *, compared: bool) -> Iterator[str]:
        """Say what wasn't found out, and why."""
        late, count = f"there was no time for it within {self._seconds:g} s", len(behind.events)
        if unread := self._found.unread:
            yield f"whether more events are behind the row: {unread:,} that may be were not read, at most {READ:,} are"
        if not behind.tested:
            reached = f"the time limit of {self._seconds:g} s was reached"
            yield f"whether these events give the row: {reached} before the view's function had run over them"
            return
        if not behind.finished:
            yield f"whether all {counted(count, 'event')} have a part in the row: {late}"
        missing = count - len(known.each)
        if behind.verified and missing:
            why = f"at most {self._contributions:,} are computed" if known.in_time else late
            yield f"what {missing:,} of {counted(count, 'event')} contribute, each by itself: {why}"
        if not compared:
            yield f"the comparison: {late}"

    def _too_slow(self) -> TryAgain:
        request, events = self._request, len(self._found.events)
        return TryAgain(
            "EXPLAIN_TIMEOUT",
            f"{request.side.view.name}: the row at {request.side.cut} could not be computed from "
            f"{counted(events, 'event')} within {self._seconds:g} s",
            state="nothing was explained",
            next_step=f"give it more time: --seconds {self._seconds * 5:g}",
        )

    @cached_property
    def _found(self) -> Candidates:
        request = self._request
        needs = [request.side, *([self._other] if self._other else [])]
        cuts = [side.cut for side in needs]
        if request.side.row is None:  # needed to say what happened to the events of a missing row
            cuts.append(cut_at(self._settings, request.topics))
        newest = Cut({t.name: Position(max(cut.epoch(t.name) for cut in cuts), {}) for t in request.topics.each})
        views = [side.view for side in needs]
        return candidates(self._settings, views, request.topics, request.key, request.day, newest)

    def _search(self, spark: SparkSession, side: Side) -> tuple[ViewEvaluator, Search | None]:
        """Returns one side's evaluator, and the search for its row's events; None if the row doesn't exist."""
        topics = self._request.topics
        at = watermark_of(ViewHandle(self._settings, side.view, topics), side.cut) if side.view.closes else None
        seen = self._seen(side)
        every = frozenset(np.flatnonzero(seen).tolist())
        function = ViewEvaluator(spark, side.view, topics, self._found, at, self._budget, every)
        row = side.row
        if row is None:
            row = with_key(function.rows([every])[0], self._request.key)
        return function, None if row is None else Search(function, self._found, seen, row)

    def _seen(self, side: Side) -> NDArray[np.bool_]:
        types = set(side.view.events)
        own = np.array([event.type in types for event in self._found.events], np.bool_)
        seen: NDArray[np.bool_] = self._found.up_to(side.cut, late=side.late, loaded=side.loaded) & own
        return seen

    def _there(self, spark: SparkSession) -> tuple[bool, tuple[Search | None, Contributors | None] | None]:
        """Return whether there was time for the other side, and what was found; None if none was asked for."""
        if self._other is None:
            return True, None
        try:
            _, search = self._search(spark, self._other)
        except OutOfTime:
            return False, None
        found = search.run() if search is not None else None
        return found is None or found.tested, (search, found) if found is None or found.tested else None

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
            _definition(self._other.view, self._request.side.view),
        )
        return only_here, comparison

    def _last(self, row: Row, behind: Contributors) -> LastChange:
        request = self._request
        uri = request.served.pinned.speed.uri
        return last_change(uri, request.served.source, row, self._found.events, behind.events, request.speed_row)

    def missing(self) -> BadInput:
        """Returns the error for a row that doesn't exist. Needs no Spark."""
        request, side = self._request, self._request.side
        landed = cut_at(self._settings, request.topics)
        near = () if request.at_cut else request.served.near
        return row_missing(side.view, request.key, side.cut, self._found, near, late=side.late, landed=landed)


def _definition(there: View, here: View) -> tuple[str, ...]:
    if there.fingerprint == here.fingerprint:
        return ()
    old, new = definition_lines(there), definition_lines(here)
    return tuple(difflib.unified_diff(old, new, f"v{there.version}", f"v{here.version}", n=1, lineterm=""))
