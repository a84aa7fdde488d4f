"""Give the rows of a replay that are unchanged the epochs that they have in the live table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa

from anabranch.compute.speed.table import SpeedTable
from anabranch.lake import latest_commit, open_table
from anabranch.lake.cut import Cut
from anabranch.lake.files import StagedFile, stage_links
from anabranch.lake.frames import table_rows
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE, changed_columns, is_changed

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


def keep_live_epochs(spark: SparkSession, view: View, table: SpeedTable, live: str, days: Sequence[date] | None) -> int:
    """Replace the rows of ``table`` in one commit: rows that are equal in the table ``live`` get its epochs. Returns
    how many rows (of ``days``, None: all) were different, missing or extra in the live table.

    A replay's slices are larger than the live stream's micro-batches: with the replay's own epochs a partition's speed
    half would look newer than a batch half that was published in between. Rows that changed after either of the two
    cuts aren't counted. A partition in which nothing differs gets the live table's files; the others are written
    again, one file per partition.
    """
    newest, live_table = table.newest(), open_table(live)
    live_commit = latest_commit(live_table) if live_table is not None else None
    if live_table is None or live_commit is None:
        return 0
    replayed = delta_table(table.uri, newest.version)
    new, old = _rows(spark, replayed, days), _rows(spark, live_table, days)
    found = _compare(_join(view, new, old), newest.note.cut, live_commit.note.cut, view.kappa)
    equal = _files_of_equal(live_table, replayed, found)
    kept = stage_links(live, [path for paths in equal.values() for path in paths], table.uri, f"live-{uuid4().hex}")
    written: list[StagedFile] = []
    if different := found.keys() - equal.keys():
        days = None if view.kappa else [day for day in different if day is not None]
        new, old = _rows(spark, replayed, days), _rows(spark, live_table, days)
        written = table.stage(_with_live_epochs(_join(view, new, old)), 0)
    table.refresh([*kept, *written], newest.note)
    return sum(each.corrected for each in found.values())


@dataclass(frozen=True, slots=True)
class _Partition:
    """What was found in a partition: the replay's rows, and how many rows differ; ``corrected``: those that count."""

    rows: int
    different: int
    corrected: int


def _compare(both: DataFrame, cut: Cut, live: Cut, kappa: bool) -> dict[date | None, _Partition]:
    """Compare each partition. A kappa view has one, None."""
    from pyspark.sql import functions as F

    day = F.lit(None) if kappa else F.coalesce(f"new.{PARTITION_DATE}", f"old.{PARTITION_DATE}")
    counts = (F.count("new"), F.count_if(~_equal(both)), F.count_if(_differs(both, cut, live)))
    return {row[0]: _Partition(*row[1:]) for row in both.groupBy(day).agg(*counts).collect()}


def _files_of_equal(
    live: DeltaTable, replayed: DeltaTable, found: Mapping[date | None, _Partition]
) -> dict[date, list[str]]:
    """Return the live table's files of each partition whose rows are exactly the replay's, epochs apart. A faulty live
    table may have a row twice: the files say how many they have."""
    if pa.schema(live.schema().to_arrow()) != pa.schema(replayed.schema().to_arrow()):
        return {}
    candidates = {day for day, each in found.items() if day is not None and not each.different}
    files, rows = defaultdict[date, list[str]](list), Counter[date]()
    for file in pa.table(live.get_add_actions(flatten=True)).to_pylist():
        if (day := file.get(f"partition.{PARTITION_DATE}")) in candidates:
            files[day].append(unquote(file["path"]))
            rows[day] += file["num_records"] or 0
    return {day: paths for day, paths in files.items() if rows[day] == found[day].rows}


def _rows(spark: SparkSession, table: DeltaTable, days: Collection[date] | None) -> DataFrame:
    return table_rows(spark, table, None if days is None else frozenset(days).__contains__)


def _join(view: View, new: DataFrame, old: DataFrame) -> DataFrame:
    """Full outer join by key. ``new`` and ``old`` are structs that are null if the side has no such row."""
    from pyspark.sql import functions as F

    # A faulty live table may have a key twice; the join must not duplicate the replay's row for it.
    key = [*view.key, *([] if view.kappa else [PARTITION_DATE])]
    old = old.select(*new.columns).dropDuplicates(key)
    left = new.select(F.struct(*map(_quoted, new.columns)).alias("new"))
    right = old.select(F.struct(*map(_quoted, new.columns)).alias("old"))
    same_key = reduce(and_, (F.col(f"new.`{c}`").eqNullSafe(F.col(f"old.`{c}`")) for c in key))
    return left.join(right, same_key, "full_outer")


def _with_live_epochs(both: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    def column(name: str) -> Column:
        new = F.col(f"new.`{name}`")
        if not is_changed(name):
            return new.alias(name)
        return F.when(_equal(both), F.col(f"old.`{name}`")).otherwise(new).alias(name)

    return both.where("new IS NOT NULL").select(*(column(field.name) for field in _fields(both)))


def _differs(both: DataFrame, cut: Cut, live: Cut) -> Column:
    """Return the condition that both sides differ in a row whose last change both cuts cover."""
    columns = {field.name for field in _fields(both)}
    epoch_columns = {topic: column for topic, column in changed_columns(cut.positions).items() if column in columns}
    sides = (("old", cut), ("new", live))
    covered = [_up_to(f"{side}.`{name}`", of.epoch(t)) for t, name in epoch_columns.items() for side, of in sides]
    return reduce(and_, covered, ~_equal(both))


def _up_to(column: str, epoch: int) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.col(column), F.lit(0)) <= epoch


def _equal(both: DataFrame) -> Column:
    from pyspark.sql import functions as F

    from anabranch.ingest.landing.table.schema_projection import comparable

    values = [field for field in _fields(both) if not is_changed(field.name)]
    sides = [[comparable(F.col(f"{side}.`{f.name}`"), f.dataType) for side in ("new", "old")] for f in values]
    equal = [new.eqNullSafe(old) for new, old in sides]
    return reduce(and_, equal, F.col("new").isNotNull() & F.col("old").isNotNull())


def _fields(both: DataFrame) -> StructType:
    """The columns of each side."""
    kind: StructType = both.schema["new"].dataType  # type: ignore[assignment] # it is a struct
    return kind


def _quoted(column: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(f"`{column}`")
