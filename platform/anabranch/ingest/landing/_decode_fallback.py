"""Records that the fast decoder refuses although nothing is wrong with them: they are decoded as all others are.

``decode_fast`` accepts only what is beyond doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.contracts import Topic
from anabranch.ingest.landing.decoding import UNREADABLE, decode
from anabranch.ingest.landing.table.schema import RECORD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY_OFFSET: Final = [("partition", "ascending"), ("offset", "ascending")]


def doubtful(rows: pa.Table) -> pa.ChunkedArray:
    """Which of the rows (with reasons) are refused although nothing wrong was found in them; never null."""
    return pc.fill_null(pc.equal(rows["reason"], UNREADABLE), False)


def decode_again(spark: SparkSession, rows: pa.Table, topic: Topic) -> pa.Table | None:
    """What ``decode`` makes of the doubtful ones of ``rows``, in the order of their offsets. None if there are none."""
    records = rows.filter(doubtful(rows)).select(RECORD)
    if not records.num_rows:
        return None
    return decode(spark.createDataFrame(records), topic).toArrow().sort_by(_BY_OFFSET)


def replace_doubtful(rows: pa.Table, again: pa.Table) -> pa.Table:
    """``rows`` with those of ``again``, which has the same columns, in the place of the doubtful ones."""
    places = np.flatnonzero(doubtful(rows).to_numpy())
    order = pc.sort_indices(rows.take(places), _BY_OFFSET).to_numpy()
    taken = np.arange(rows.num_rows)
    taken[places[order]] = rows.num_rows + np.arange(again.num_rows)
    return pa.concat_tables([rows, again]).take(taken)
