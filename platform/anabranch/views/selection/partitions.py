"""Compute some partitions of a view: which ones are affected, into which files, and which rows are an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.core.errors import BadDefinition
from anabranch.core.storage import storage_of
from anabranch.lake.files import StagedFile
from anabranch.views.model.definition import PARTITION_DATE, View
from anabranch.views.selection.inputs import needed_dates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DAY = timedelta(days=1)


def touched_partitions(view: View, dates: Iterable[date]) -> list[date]:
    """The partitions whose rows can depend on events of ``dates``: the inverse of ``needed_dates``."""
    before, after = reach(view)
    return sorted({day + _DAY * shift for day in dates for shift in range(-after, before + 1)})


def later_partitions(view: View, day: date, landed: Iterable[date]) -> list[date]:
    """The partitions that a row of ``day`` in a table with history affects: all later ones that can have rows, which
    are those that events of the ``landed`` days affect."""
    first = day - _DAY * reach(view)[1]
    return [partition for partition in touched_partitions(view, landed) if partition >= first]


def passed_partitions(
    view: View, before: datetime | None, after: datetime | None, partitions: Iterable[date]
) -> list[date]:
    """Those of ``partitions`` whose rows can change when the watermark advances from ``before`` to ``after``. Without
    one ``before``, no day was closed: all up to ``after`` can change."""
    if after is None or after == before:
        return []
    back, ahead = reach(view)
    first = date.min if before is None else before.date() - _DAY * ahead
    last = after.date() + _DAY * back
    return sorted({day for day in partitions if first <= day <= last})


def days_between(first: datetime, last: datetime) -> list[date]:
    """The days from the one of ``first`` to the one of ``last``."""
    return [first.date() + _DAY * shift for shift in range((last.date() - first.date()).days + 1)]


def reach(view: View) -> tuple[int, int]:
    """``lookback`` and ``lookahead`` in whole days, rounded up."""
    return -(-view.lookback // _DAY), -(-view.lookahead // _DAY)


def one_file_each(rows: DataFrame, view: View, partitions: Sequence[date]) -> DataFrame:
    """Repartitions the rows so that each partition becomes one file. Rows of other days are staged too and deleted by
    ``select_files``: Spark would push a filter on the result into the author's function, where it changes session
    windows."""
    if view.lookback == view.lookahead == timedelta(0) and len(partitions) == 1:
        return rows.coalesce(1)
    # With an explicit number of tasks Spark keeps it; without one it sees few bytes, and one task writes all files.
    tasks = int(str(rows.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    return rows.repartition(min(tasks, len(partitions)), PARTITION_DATE)


def select_files(view: View, uri: str, staged: Sequence[StagedFile], wanted: Sequence[date]) -> tuple[StagedFile, ...]:
    """Returns the files of the ``wanted`` partitions and deletes those of other days.

    Raises BadDefinition PARTITION_NULL for rows without a day, and LOOKBACK_TOO_SHORT for rows of a day further away
    from the events that were read than lookback and lookahead say: that day's other rows would be wrong.
    """
    reachable = {day.isoformat() for day in touched_partitions(view, needed_dates(view, wanted))}
    found = {file.partition[PARTITION_DATE] for file in staged}
    unreachable = sorted(text for text in found if text and text not in reachable)
    if None in found or unreachable:
        _delete(uri, staged)
    if None in found:
        raise BadDefinition(
            "PARTITION_NULL",
            f"{view.origin}: {view.name} v{view.version} returned rows whose {view.partition_by} is null",
            state="nothing was staged",
            next_step="filter such rows out in the view's function, or make it a kappa view",
        )
    if unreachable:
        raise BadDefinition(
            "LOOKBACK_TOO_SHORT",
            f"{view.origin}: {view.name} v{view.version} made rows of {unreachable[0]} from events further away than "
            f"its lookback ({view.lookback}) and lookahead ({view.lookahead}) say",
            state="nothing was staged",
            next_step="declare a longer lookback or lookahead, as a new version",
            partitions=unreachable,
        )
    inside = {p.isoformat() for p in wanted}
    _delete(uri, [file for file in staged if file.partition[PARTITION_DATE] not in inside])
    return tuple(file for file in staged if file.partition[PARTITION_DATE] in inside)


def _delete(uri: str, files: Sequence[StagedFile]) -> None:
    for file in files:
        storage_of(Path(uri)).remove(Path(uri) / file.path)
