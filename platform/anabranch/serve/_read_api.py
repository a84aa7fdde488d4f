"""``anabranch.read``: validate a reader's request, and wait until a reading covers the position that it asks for."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from operator import index

import pyarrow as pa

from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.cut import Cut, parse_epochs
from anabranch.lake.layout import VersionRef
from anabranch.serve import _named_readers
from anabranch.serve._own_failures import READ_VERSION, counts, read_errors
from anabranch.serve._predicates import parse_predicate
from anabranch.serve._reading import Reading
from anabranch.serve.half_choice import checked_prefer
from anabranch.serve.read_plan import pin, reader_name
from anabranch.serve.reader_log import record_failed
from anabranch.serve.routes import route_of
from anabranch.views.model.definition import is_own

_POLL_SECONDS = 0.05


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
    """Read ``view`` as of now. The reading has the same rows for every engine, and they don't change later.

    ``version``: by default the one that the view's route assigns to ``reader``, or, without a route, the oldest one
    that covers anything. ``reader``: a stable name; by default the setting ``reader``, else user@host. ``where``: an
    SQL predicate over the view's columns. ``prefer``: which half serves a partition (``serve.half_choice``).
    ``partitions``: only these days. ``columns``: only these, in this order. ``at_least``: a cut that the reading has to
    cover; waits up to ``wait_seconds`` for it. Files, row groups and columns that aren't needed are skipped; memory is
    needed only for the result.

    Raises BadInput: an unknown view (lists the known ones), an unsafe name, an invalid predicate, an unknown column, a
    partition that isn't a date, an invalid position. TryAgain: nothing has been committed yet; CUT_NOT_REACHED:
    ``at_least`` isn't covered yet. READING_EXPIRED (TryAgain) when a reading is used after the tables have deleted its
    files (7 days).

    Never returns a cut older than one that this reader has seen, with one exception: a rollback moves readers back to
    the old version although it is behind; ``reading.behind`` says so. A read with ``version`` is recorded: the version
    isn't retired while it is used.

    A read that fails without the reader's fault is counted, and a migration to its version goes back. So is one with
    ``version``, if the view's route gives that version readers: theirs would fail, too. READ_FAILED (BrokenState) is an
    error that nothing else names.
    """
    config = settings or load_settings()
    name = reader_name(config, reader)
    wanted, until = _position(at_least), time.monotonic() + wait_seconds
    while True:
        try:
            reading = read_untracked(config, view, version, where, prefer, partitions, name, columns)
        except AnabranchError as error:
            _record_failure(config, view, version, name, error)
            raise
        missing = _missing(reading, wanted)
        if not missing:
            break
        if time.monotonic() >= until:
            raise TryAgain(
                "CUT_NOT_REACHED",
                f"{view} v{reading.version} covers {reading.cut}, not {missing}",
                state="nothing was read",
                next_step="read again, or set wait_seconds; anabranch status shows whether the view's stream runs",
                cut=str(reading.cut),
            )
        time.sleep(_POLL_SECONDS)
    reading.reader = name
    if version is not None:
        _named_readers.record_reader(VersionRef(config, view, version), name)
    return reading


def _position(at_least: Cut | str | None) -> dict[str, int]:
    if isinstance(at_least, Cut):
        return {topic: position.epoch for topic, position in at_least.positions.items()}
    try:
        return parse_epochs(at_least or "")
    except ValueError:  # Python reads no number of thousands of digits
        raise BadInput(
            "CUT_UNREADABLE", "an epoch of at_least is too large", next_step="write it like flights@12", field="cut"
        ) from None


def _missing(reading: Reading, wanted: Mapping[str, int]) -> str:
    """Return the part of the position ``wanted`` that the reading doesn't cover. Raises BadInput TOPIC_UNKNOWN."""
    unknown = sorted(set(wanted) - set(reading.cut.positions))
    if unknown:
        raise BadInput(
            "TOPIC_UNKNOWN",
            f"{reading.view} v{reading.version} doesn't read {', '.join(unknown)}",
            next_step=f"it reads {', '.join(sorted(reading.cut.positions))}",
            field="at_least",
        )
    return ",".join(f"{topic}@{epoch}" for topic, epoch in wanted.items() if reading.cut.epoch(topic) < epoch)


def _record_failure(settings: Settings, view: str, version: int | None, reader: str, error: AnabranchError) -> None:
    """Count a failed read against the version that was read, unless the reader's request or process caused it: the one
    that the route assigned, the one that a reader who is held keeps, or the one that the reader named, if it has
    readers. Never raises, so the read's error stays."""
    if not counts(error):
        return
    with suppress(Exception):
        route = route_of(settings, view)
        if route is None or (version is not None and version not in route.shares):
            return
        was_read = error.fields.get(READ_VERSION, route.version_for(reader) if version is None else version)
        record_failed(VersionRef(settings, view, was_read), reader, error.code, engine="read", route=route.number)


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
    """As ``read``, for the platform itself: no reader and no failure is recorded, and it doesn't wait."""
    _check_types(view, version, reader)
    wanted, days = checked_prefer(prefer), _checked_days(partitions)
    with read_errors(view if version is None else f"{view} v{version}"):
        plan = pin(settings, view, version, wanted, days, reader)
    known = [name for name in plan.speed.schema.names if is_own(name)]
    schema = pa.schema([plan.speed.schema.field(name) for name in known])
    predicate = parse_predicate(where, schema) if where is not None else None
    return Reading(settings, view, plan, predicate, known if columns is None else _checked_columns(columns, known))


def _check_types(view: object, version: object, reader: object) -> None:
    """Raise TypeError before anything is read: later it would be taken for the version's fault."""
    if not isinstance(view, str) or not isinstance(reader, str | None):
        raise TypeError(f"view and reader are texts, not {view!r} and {reader!r}")
    if version is not None:
        index(version)  # type: ignore[arg-type]


def _checked_days(partitions: Collection[date] | None) -> Collection[date] | None:
    """Anything else than a date (a text, a datetime) equals no partition: the reading would be empty."""
    wrong = [day for day in partitions or () if type(day) is not date]
    if wrong:
        raise BadInput(
            "DAY_UNREADABLE",
            f"{wrong[0]!r} is not a day",
            state="nothing was read",
            next_step="partitions are of the type datetime.date: date(2013, 1, 31)",
            field="partitions",
        )
    return partitions


def _checked_columns(columns: Sequence[str], known: Sequence[str]) -> list[str]:
    unknown = [name for name in columns if name not in known]
    if unknown or not columns or len(set(columns)) < len(columns):
        raise BadInput(
            "COLUMN_UNKNOWN",
            f"there is no column {', '.join(unknown)}" if unknown else "give one or more columns, each once",
            next_step=f"the columns are: {', '.join(known)}",
            field="columns",
        )
    return list(columns)
