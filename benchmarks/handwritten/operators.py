"""Each operator as plain Spark jobs over the landing tables: one batch job, and one stream that catches up.

Where a view's function is plain Spark code already, the jobs here call it; what the platform has a word of its own for
(``as_of``, ``process``) is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor  # type: ignore[attr-defined]

from benchmarks.handwritten import tables

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LATENESS = timedelta(hours=2)
REST_US = 6 * 3600 * 1_000_000
TURNS = "tailnum string, began timestamp, rested_at timestamp, flights int"
Function = Callable[..., "DataFrame"]


@dataclass(frozen=True, slots=True)
class Job:
    """``types`` by topic, in the order of the function's parameters. ``streams``: Spark keeps ``stream`` (or
    ``function``) in its state; else the first micro-batch computes everything, and a later one would replace days.
    """

    types: Sequence[tuple[str, str]]
    function: Function
    day: str
    key: Sequence[str]
    stream: Function | None = None
    streams: bool = False
    closes: bool = False


def batch(spark: SparkSession, job: Job, landing: Mapping[str, str], target: str) -> None:
    """Compute everything, late events too, and replace the table."""
    landed = {topic: spark.read.format("delta").load(uri) for topic, uri in landing.items()}
    tables.replace(job.function(*_inputs(job, landed)), job.day, target)


def start(spark: SparkSession, job: Job, landing: Mapping[str, str], target: str, checkpoint: Path) -> StreamingQuery:
    """Bring ``target`` up to date with all that is landed now. Session settings as the platform's streams."""
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    own.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(job.stream is not None).lower())

    def landed(topic: str) -> DataFrame:
        # Without it the table's snapshot comes in slices, in the order of files: the watermark would drop rows.
        rows = own.readStream.format("delta").option("maxFilesPerTrigger", 2**31 - 1).load(landing[topic])
        return rows.where("NOT late")

    def again(rows: DataFrame, number: int) -> None:
        read = rows.sparkSession.read.format("delta").load
        on_time = {topic: read(uri).where("NOT late") for topic, uri in landing.items()}
        tables.replace(job.function(*_inputs(job, on_time)), job.day, target)

    def merge(rows: DataFrame, number: int) -> None:
        tables.merge(rows, number, job.day, job.key, target)

    if job.streams:
        watched = {topic: landed(topic).withWatermark("event_time", "2 hours") for topic in landing}
        rows, write = (job.stream or job.function)(*_inputs(job, watched)), merge
    else:
        rows, write = reduce(lambda a, b: a.union(b), (landed(topic).select("event_date") for topic in landing)), again
    writer = rows.writeStream.outputMode("update").foreachBatch(write)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def _inputs(job: Job, landed: Mapping[str, DataFrame]) -> list[DataFrame]:
    inputs = []
    for topic, kind in job.types:
        events = landed[topic].where(f"decision = 'valid' AND type = '{kind}'")
        columns = ["event_time", "partition AS log_partition", "offset AS log_offset", f"{kind.replace('.', '_')}.*"]
        if job.closes and not landed[topic].isStreaming:
            end = landed[topic].agg(F.max("event_time")).collect()[0][0].replace(tzinfo=UTC) - LATENESS
            columns.append(f"TIMESTAMP '{end:%Y-%m-%d %H:%M:%S}' AS watermark")
        inputs.append(events.selectExpr(*columns))
    return inputs


def departed_in_weather(departed: DataFrame, weather: DataFrame) -> DataFrame:
    """The weather of the hour, by the last row before each departure among both."""
    told = F.struct("event_time", "temp", "visib").alias("told")
    observed = weather.select("event_time", "origin", F.lit(0).alias("kind"), "log_partition", "log_offset", told)
    nothing = F.lit(None).cast(observed.schema["told"].dataType).alias("told")
    place = ("log_partition", "log_offset")
    flights = departed.select("event_time", "origin", F.lit(1).alias("kind"), *place, nothing, "dep_delay")
    before = Window.partitionBy("origin").orderBy("event_time", "kind", "log_partition", "log_offset")
    rows = flights.unionByName(observed, allowMissingColumns=True)
    rows = rows.withColumn("told", F.last("told", ignorenulls=True).over(before)).where("kind = 1")
    near = F.col("told.event_time") > F.expr("event_time - INTERVAL 3 HOURS")
    told_near = F.when(near, F.col("told"))
    return rows.select(
        F.col("event_time").alias("departed_at"),
        "log_partition",
        "log_offset",
        "origin",
        "dep_delay",
        told_near["temp"].alias("temp"),
        told_near["visib"].alias("visib"),
        told_near["event_time"].alias("observed_at"),
    )


def turns(departed: DataFrame) -> DataFrame:
    """An aircraft's flights until it rests for six hours, in pandas."""

    def of_one(events: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        times = sorted(events["us"])
        found, _ = _advance(None, times, int(events["until"].iloc[0]))
        name = events["tailnum"].iloc[0]
        rows = [(name, _time(began), _time(due), count) for began, due, count in found]
        return pd.DataFrame(rows, columns=["tailnum", "began", "rested_at", "flights"])

    known = departed.where("tailnum IS NOT NULL AND event_time < watermark")
    known = known.selectExpr("tailnum", "unix_micros(event_time) AS us", "unix_micros(watermark) AS until")
    return known.groupBy("tailnum").applyInPandas(of_one, TURNS)


def turns_as_stream(departed: DataFrame) -> DataFrame:
    """The same as a stateful processor: events wait in a list until the watermark has passed them."""
    known = departed.where("tailnum IS NOT NULL").selectExpr("tailnum", "event_time", "unix_micros(event_time) AS us")
    return known.groupBy("tailnum").transformWithState(_Turns(), TURNS, "Update", "EventTime")


class _Turns(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.handle = handle
        self.waiting = handle.getListState("waiting", "us LONG")
        self.turn = handle.getValueState("turn", "began LONG, due LONG, flights INT")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        times = [(row.us,) for row in rows]
        self.waiting.appendList(times)
        self.handle.registerTimer(min(times)[0] // 1000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        from pyspark.sql import Row

        until = timerValues.getCurrentWatermarkInMs() * 1000
        times = sorted(us for (us,) in self.waiting.get())
        rest = [(us,) for us in times if us >= until]
        found, state = _advance(self.turn.get(), [us for us in times if us < until], until)
        if rest:
            self.waiting.put(rest)
        else:
            self.waiting.clear()
        if state is None:
            self.turn.clear()
        else:
            self.turn.update(state)
        due = [at for at in (rest[0][0] if rest else None, state[1] if state else None) if at is not None]
        if due:
            self.handle.registerTimer(min(due) // 1000)
        row = Row("tailnum", "began", "rested_at", "flights")
        return iter([row(key[0], _time(began), _time(at), count) for began, at, count in found])

    def close(self) -> None:
        pass


def _advance(
    state: tuple[int, int, int] | None, times: Iterable[int], until: int
) -> tuple[list[tuple[int, int, int]], tuple[int, int, int] | None]:
    """The turns that ended before ``until``, and the one that goes on: (began, due, flights)."""
    found = []
    for us in times:
        if state is not None and us > state[1]:
            found.append(state)
            state = None
        began, _, count = state or (us, 0, 0)
        state = (began, us + REST_US, count + 1)
    if state is not None and state[1] < until:
        found.append(state)
        state = None
    return found, state


def _time(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
