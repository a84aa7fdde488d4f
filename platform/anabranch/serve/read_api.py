"""``anabranch.read``: what a reader asks for, until there is a reading that covers it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import date

from anabranch.core.errors import AnabranchError, BadInput, BrokenState, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import Cut
from anabranch.lake.cut import parse_epochs
from anabranch.serve import named_readers
from anabranch.serve.half_choice import checked_prefer
from anabranch.serve.predicates import parse_predicate
from anabranch.serve.read_plan import pin, reader_name
from anabranch.serve.reader_log import record_failed
from anabranch.serve.reading import Reading
from anabranch.serve.routes import route_of
from anabranch.views.definition import is_own

_LOOK_SECONDS = 0.05


def read(
    view: str,
    version: int | None = None,
    settings: Settings | None = None,
    where: str | None = None,
    prefer: str = "default",
    partitions: Collection[date] | None = None,
    reader: str | None = None,
    columns: Sequence[str] | None = None,
    at_least: Cut | str | None = None,
    wait_seconds: float = 0.0,
) -> Reading:
    """The rows of ``view`` as they are now: the same ones for every engine, from then on unchanged.

    ``version``: without one, the one that the view's route has for ``reader`` (whoever reads, by a name that stays;
    else the setting ``reader``, else user@host); without a route, the oldest that covers anything. ``where``: an SQL
    predicate over the view's columns. ``prefer``: which half serves a partition (``serve.half_choice``).
    ``partitions``: only these days. ``columns``: only these, in this order. Files and row groups that can't hold
    a row that is wanted, and columns that aren't, are not read; memory is needed for the result.
    BadInput: an unknown view (lists what there is), an unsafe name, a predicate that is more than a predicate, an
    unknown column, a position that can't be one.
    TryAgain: nothing has been committed yet; CUT_NOT_REACHED: ``at_least`` isn't covered yet. What is read later than
    the tables keep old files (7 days) is TryAgain READING_EXPIRED.
    A cut older than one that this reader has seen is never returned, with one exception: for a rollback readers go back
    to the old version though it is behind, and ``reading.behind`` says so. Whoever names a ``version`` is kept as its
    reader: it isn't retired unasked.
    """
    config = settings or load_settings()
    name = reader_name(config, reader)
    wanted, until = _position(at_least), time.monotonic() + wait_seconds
    while True:
        try:
            found = read_untracked(config, view, version, where, prefer, partitions, name, columns)
        except AnabranchError as error:
            _keep_failure(config, view, version, name, error)
            raise
        missing = _missing(found, wanted)
        if not missing:
            break
        if time.monotonic() >= until:
            raise TryAgain(
                "CUT_NOT_REACHED",
                f"{view} v{found.version} covers {found.cut}, not {missing}",
                state="nothing was read",
                next_step="read again, or let it wait; anabranch status shows whether the view's stream runs",
                cut=str(found.cut),
            )
        time.sleep(_LOOK_SECONDS)
    found.led = name if version is None else ""
    if version is not None:
        named_readers.record_reader(config, view, version, name)
    return found


def _position(at_least: Cut | str | None) -> dict[str, int]:
    if isinstance(at_least, Cut):
        return {topic: position.epoch for topic, position in at_least.positions.items()}
    return parse_epochs(at_least or "")


def _missing(found: Reading, wanted: Mapping[str, int]) -> str:
    """What of the position ``wanted`` a reading doesn't cover. BadInput TOPIC_UNKNOWN."""
    strangers = sorted(set(wanted) - set(found.cut.positions))
    if strangers:
        raise BadInput(
            "TOPIC_UNKNOWN",
            f"{found.view} v{found.version} doesn't read {', '.join(strangers)}",
            next_step=f"it reads {', '.join(sorted(found.cut.positions))}",
            field="at_least",
        )
    return ",".join(f"{topic}@{epoch}" for topic, epoch in wanted.items() if found.cut.epoch(topic) < epoch)


def _keep_failure(settings: Settings, view: str, version: int | None, reader: str, error: AnabranchError) -> None:
    """A read that failed though its reader did nothing wrong counts against the version that the route led it to."""
    ours = isinstance(error, (BrokenState, TryAgain)) or error.code == "VIEW_UNKNOWN"
    route = route_of(settings, view) if ours and version is None else None
    if route is not None:
        led = route.version_for(reader)
        record_failed(settings, view, led, reader, error.code, engine="read", route=route.number)


def read_untracked(
    settings: Settings,
    view: str,
    version: int | None = None,
    where: str | None = None,
    prefer: str = "default",
    partitions: Collection[date] | None = None,
    reader: str | None = None,
    columns: Sequence[str] | None = None,
) -> Reading:
    """As ``read``, for the platform itself: nobody depends on the version that it names."""
    pinned = pin(settings, view, version, checked_prefer(prefer), partitions, reader)
    known = [name for name in pinned.speed.schema.names if is_own(name)]
    predicate = parse_predicate(where, known) if where is not None else None
    return Reading(settings, view, pinned, predicate, known if columns is None else _chosen(columns, known))


def _chosen(columns: Sequence[str], known: Sequence[str]) -> list[str]:
    wrong = [name for name in columns if name not in known]
    if wrong or not columns or len(set(columns)) < len(columns):
        raise BadInput(
            "COLUMN_UNKNOWN",
            f"there is no column {', '.join(wrong)}" if wrong else "columns are one or more, each once",
            next_step=f"there are: {', '.join(known)}",
            field="columns",
        )
    return list(columns)
