"""Computing some partitions of a view and no others: which ones, into which files, and what may not be among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.core.errors import BadDefinition
from anabranch.lake import StagedFile
from anabranch.views.definition import PARTITION_DATE, View
from anabranch.views.inputs import needed_dates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DAY = timedelta(days=1)


def touched_partitions(view: View, dates: Iterable[date]) -> list[date]:
    """The partitions whose rows can depend on events of ``dates``: the other way round of ``needed_dates``."""
    before, after = reach(view)
    return sorted({day + _DAY * shift for day in dates for shift in range(-after, before + 1)})


def later_partitions(view: View, day: date, landed: Iterable[date]) -> list[date]:
    """The partitions that a row of a table with history touches, when it is of ``day``: all from then on that can have
    rows at all, which events of the ``landed`` days make."""
    first = day - _DAY * reach(view)[1]
    return [partition for partition in touched_partitions(view, landed) if partition >= first]


def passed_partitions(view: View, before: datetime | None, after: datetime | None) -> list[date]:
    """The partitions whose rows can change because the watermark moves on from ``before`` to ``after``."""
    if after is None:
        return []
    first, last = (before or after).date(), after.date()
    return touched_partitions(view, (first + _DAY * shift for shift in range((last - first).days + 1)))


def reach(view: View) -> tuple[int, int]:
    """``lookback`` and ``lookahead`` in whole days."""
    return -(-view.lookback // _DAY), -(-view.lookahead // _DAY)


def one_file_each(rows: DataFrame, view: View, partitions: Sequence[date]) -> DataFrame:
    """The rows as one file per partition. Rows of other days are staged beside them and never named: a filter on
    the result would be pushed into the author's function, where it changes session windows."""
    if view.lookback == view.lookahead == timedelta(0) and len(partitions) == 1:
        return rows.coalesce(1)
    # A number of tasks that is asked for stays; without one Spark sees few bytes, and one task writes all the files.
    tasks = int(str(rows.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    return rows.repartition(min(tasks, len(partitions)), PARTITION_DATE)


def select_files(view: View, uri: str, staged: Sequence[StagedFile], wanted: Sequence[date]) -> tuple[StagedFile, ...]:
    """The files of the partitions asked for; those of other days are deleted.

    BadDefinition PARTITION_NULL for rows without a day, LOOKBACK_TOO_SHORT for a day that the events read could only
    have reached from outside of the view's lookback and lookahead: other rows of it would be wrong.
    """
    reachable = {day.isoformat() for day in touched_partitions(view, needed_dates(view, wanted))}
    found = {file.partition[PARTITION_DATE] for file in staged}
    strange = sorted(text for text in found if text and text not in reachable)
    if None in found or strange:
        _delete(uri, staged)
    if None in found:
        raise BadDefinition(
            "PARTITION_NULL",
            f"{view.origin}: {view.name} v{view.version} returned rows whose {view.partition_by} is null",
            state="nothing was staged",
            next_step="leave such rows out in the view's function, or make it a kappa view",
        )
    if strange:
        raise BadDefinition(
            "LOOKBACK_TOO_SHORT",
            f"{view.origin}: {view.name} v{view.version} made rows of {strange[0]} from events of other days than its "
            f"lookback ({view.lookback}) and lookahead ({view.lookahead}) say",
            state="nothing was staged",
            next_step="declare a longer lookback or lookahead, as a new version",
            partitions=strange,
        )
    inside = {p.isoformat() for p in wanted}
    _delete(uri, [file for file in staged if file.partition[PARTITION_DATE] not in inside])
    return tuple(file for file in staged if file.partition[PARTITION_DATE] in inside)


def _delete(uri: str, files: Sequence[StagedFile]) -> None:
    for file in files:
        (Path(uri) / file.path).unlink(missing_ok=True)
