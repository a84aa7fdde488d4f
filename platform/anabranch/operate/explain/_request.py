"""Resolves a request to explain: which row, from which half or at which cut, compared with what. Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from anabranch.compute.batch.rebuild import cut_at
from anabranch.contracts.model.topics import Sources
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut, parse_epochs
from anabranch.operate.explain._candidates import Row
from anabranch.operate.explain._evaluator import with_key
from anabranch.operate.explain._row_key import typed_key
from anabranch.operate.explain._served_row import Served, half_rows, half_schema, served
from anabranch.serve import read
from anabranch.serve.half_choice import BATCH, SPEED
from anabranch.views import Registry, View
from anabranch.views.selection.inputs import loaded_in
from anabranch.views.selection.row_sources import day_of


@dataclass(frozen=True)
class Side:
    """One computation of the key's row: which definition, up to which cut, with late events or without. ``loaded``: of
    the events from files only those up to these epochs (None: all)."""

    view: View
    cut: Cut
    late: bool
    row: Row | None = field(default=None)
    loaded: Mapping[str, int] | None = field(default=None, hash=False)


@dataclass(frozen=True)
class ExplainRequest:
    side: Side
    topics: Sources
    key: Row
    day: date | None
    served: Served
    at_cut: bool
    speed_row: Row | None


def resolve_request(
    settings: Settings,
    known: Registry,
    name: str,
    key: Mapping[str, Any],
    version: int | None,
    prefer: str,
    cut: str | None,
) -> ExplainRequest:
    chosen = version or read(name, settings=settings).version
    view = known.get(name, chosen)
    topics, handle = known.topic(view), known.handle(settings, view)
    pinned, schema = half_schema(handle, prefer)
    typed = typed_key(view.name, view.key, schema, key)
    day = day_of(view, typed)
    found = served(handle, pinned, schema, typed, day)
    at = _cut(settings, topics, cut) if cut is not None else found.source.cut
    late = found.source.late or view.kappa
    loaded = loaded_in(pinned.speed.newest.note) if view.kappa else None
    row = found.row if cut is None else None
    speed_row = with_key(half_rows(pinned, schema, SPEED, day), typed) if found.source.half == BATCH else None
    return ExplainRequest(Side(view, at, late, row, loaded), topics, typed, day, found, cut is not None, speed_row)


def comparison_side(
    settings: Settings, known: Registry, request: ExplainRequest, against: str | None, against_version: int | None
) -> Side | None:
    if against is not None:
        return Side(
            request.side.view, _cut(settings, request.topics, against), request.side.late, loaded=request.side.loaded
        )
    if against_version is None:
        return None
    view = known.get(request.side.view.name, against_version)
    if set(view.key) != set(request.side.view.key):
        raise BadInput(
            "KEY_DIFFERS",
            f"the key of {view.name} v{view.version} is {', '.join(view.key)}",
            state="nothing was explained",
            next_step="explain a row of each version by its own key",
        )
    return Side(view, request.side.cut, request.side.late, loaded=request.side.loaded)


def _cut(settings: Settings, topics: Sources, text: str) -> Cut:
    epochs, names = parse_epochs(text), [topic.name for topic in topics.each]
    if not epochs or not set(epochs) <= set(names):
        form = ",".join(f"{name}@12" for name in names)
        what = f"{text!r} is not a cut of {', '.join(names)}"
        raise BadInput("CUT_UNREADABLE", what, next_step=f"write {form}", field="cut")
    return cut_at(settings, topics, epochs)
