"""Spark's merge is in, and its answer gets lost: it is not taken for unwritten, nothing is added twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from anabranch.speed.table import SpeedTable
from anabranch.tables import Cut, Position
from anabranch.views.definition import View
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def _same(events: DataFrame) -> DataFrame:
    return events


VIEW = View("lost_answers", 1, ("flight.departed",), ("k",), _same, fingerprint="lost-1")


@pytest.mark.parametrize("lost", [True, False])
def test_a_merge_is_asked_of_the_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    from delta.tables import DeltaMergeBuilder

    table = SpeedTable(str(tmp_path / "speed"), VIEW, pa.schema([("k", pa.int64()), ("n", pa.int64())]))
    execute = DeltaMergeBuilder.execute

    def unanswered(self: DeltaMergeBuilder) -> None:
        if lost:
            execute(self)
        raise ConnectionError("the engine doesn't answer")

    monkeypatch.setattr(DeltaMergeBuilder, "execute", unanswered)
    rows = spark.createDataFrame([(1, 10), (2, 20)], "k long, n long").persist()
    note = table.note("cp:0", Cut({"flights": Position(1, {0: 2})}))
    if lost:
        table.merge_large(rows, 0, note)
        assert table.newest().note == note
        assert DeltaTable(table.uri).to_pyarrow_table().num_rows == 2
    else:
        with pytest.raises(ConnectionError):
            table.merge_large(rows, 0, note)
        assert table.newest().note.batch == "create"
    rows.unpersist()
