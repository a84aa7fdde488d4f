"""A key of a map in views: the same rows in both paths, in Python and in SQL; the doctor compares maps with the bytes,
explain names the events, and random logs have maps."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anabranch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.certify._source_events import find_source_events
from anabranch.certify.certify_partitions import certify
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.contracts import Record as RecordPart
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.model.topics import Topics
from anabranch.core.engine.spark import small
from anabranch.core.settings import Settings
from anabranch.ingest.files import load
from anabranch.ingest.landing.table.schema import EVENT_DATE
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor import Context, Finding, decode_check, examine
from anabranch.testing import prove
from anabranch.views import Registry, View, load_views, view
from anabranch.views.check import check
from anabranch.views.model.handle import ViewHandle
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F
from support.landed_bytes import landing_of
from support.naive_reader import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COUNTED = Contract(
    "shelf.counted",
    1,
    {
        "type": "object",
        "required": ["shelf"],
        "properties": {
            "shelf": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "stock": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"pieces": {"type": "integer"}}},
            },
        },
    },
)
SHELVES = Topic(
    "shelves",
    (COUNTED,),
    partitions=1,
    records=PlainJson(id=RecordPart.OFFSET, time=RecordPart.APPEND_TIME),
    allowed_lateness=timedelta(days=2),
)
DECLARED = Declarations({SHELVES.name: SHELVES})
NOON, DAY = datetime(2024, 3, 1, 12, tzinfo=UTC), date(2024, 3, 1)
QUERY = """-- view: pieces_sql
-- version: 1
-- events: shelf.counted
-- key: day, colour
-- partition by: day
SELECT to_date(window.start) AS day, labels['colour'] AS colour, sum(stock['north'].pieces) AS pieces, count(*) AS n
FROM shelf_counted
GROUP BY window(event_time, '1 day'), labels['colour']
"""


@view(name="pieces", version=1, events="shelf.counted", key=["day", "colour"], partition_by="day")
def pieces(counted: DataFrame) -> DataFrame:
    colour = F.col("labels")["colour"].alias("colour")
    daily = counted.groupBy(F.window("event_time", "1 day"), colour).agg(
        F.sum(F.col("stock")["north"]["pieces"]).alias("pieces"), F.count("*").alias("n")
    )
    return daily.select(F.to_date("window.start").alias("day"), "colour", "pieces", "n")


SHELF = [
    {"shelf": "a", "labels": {"colour": "red", "x": "y"}, "stock": {"north": {"pieces": 3}, "south": {"pieces": 9}}},
    {"shelf": "b", "labels": {"colour": "red"}, "stock": {"north": {"pieces": 4}, "west": {}}},
    {"shelf": "c", "labels": {}, "stock": {"south": {"pieces": 1}}},
    {"shelf": "d", "labels": {"colour": 12}},
    {"shelf": "e"},
]
EXPECTED = {("red", 7, 2), (None, None, 2)}


def in_sql(folder: Path) -> View:
    (folder / "pieces_sql.sql").write_text(QUERY)
    (found,) = load_views(folder, DECLARED)
    return found


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, View]:
    """Two epochs, and the streams of both views behind each."""
    settings = Settings(home=tmp_path_factory.mktemp("maps") / "home", shuffle_partitions=1)
    query = in_sql(tmp_path_factory.mktemp("sql"))
    records = [
        Record(SHELVES.name, 0, n, NOON + timedelta(minutes=n), json.dumps(each).encode())
        for n, each in enumerate(SHELF)
    ]
    with landing_of(spark, settings, SHELVES, records) as landing:
        for some in (records[:2], records[2:]):
            landing.land(some)
            for each in (pieces, query):
                catch_up(small(spark), ViewHandle(settings, each, SHELVES))
    return settings, query


def rows(settings: Settings, name: str) -> tuple[set[str], set[tuple[Any, ...]]]:
    reading = anabranch.read(name, settings=settings)
    found = {(row["colour"], row["pieces"], row["n"]) for row in reading.to_arrow().to_pylist()}
    return set(reading.halves.values()), found


def test_both_paths_read_a_key(spark: SparkSession, landed: tuple[Settings, View]) -> None:
    settings, query = landed
    for each in (pieces, query):
        check(each, spark, DECLARED)
        assert rows(settings, each.name) == ({"speed"}, EXPECTED)
        build = rebuild(small(spark), ViewHandle(settings, each, SHELVES), [DAY], "maps")
        (certificate,) = certify(
            small(spark), ViewHandle(settings, each, SHELVES), [DAY], StagedBuild.of(settings, build)
        )
        assert (certificate.equal, certificate.speed.rows) == (True, 2)
        publish(ViewHandle(settings, each, SHELVES), build, [DAY])
        assert rows(settings, each.name) == ({"batch"}, EXPECTED)


def test_the_doctor_compares_maps_with_the_bytes(spark: SparkSession, landed: tuple[Settings, View]) -> None:
    settings, _ = landed

    def findings() -> tuple[Finding, ...]:
        context = Context(settings, DECLARED, Registry([], DECLARED))
        return examine(context, [decode_check(spark)], pause=0).findings

    assert findings() == ()
    uri = landing_table(settings, SHELVES.name)
    kept = DeltaTable(uri).to_pyarrow_table()

    def changed(pairs: list[tuple[str, Any]]) -> None:
        found = kept.to_pylist()
        for row in found:
            if row["offset"] == 0:
                row["shelf_counted"] = {**row["shelf_counted"], "stock": pairs}
        write_deltalake(uri, pa.Table.from_pylist(found, kept.schema), mode="overwrite", partition_by=[EVENT_DATE])

    north, south = ("north", {"pieces": 3}), ("south", {"pieces": 9})
    try:
        changed([south, north])
        assert findings() == (), "the order of keys is no difference"
        for wrong in ([north], [north, ("south", {"pieces": 8})], [north, ("West", {"pieces": 9})], []):
            changed(cast("Any", wrong))
            (finding,) = findings()
            assert finding.code == "RECORD_DIFFERS"
            assert "shelf_counted" in finding.what
    finally:
        write_deltalake(uri, kept, mode="overwrite", partition_by=[EVENT_DATE])


def test_a_file_with_a_column_of_maps_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    topic = Topic(
        "shelves",
        (Contract("shelf.counted", 1, {**COUNTED.schema, "properties": {**COUNTED.fields, "at": AT}}),),
        records=PlainJson(id="shelf", time="at"),
    )
    kinds = pa.schema(
        [
            ("shelf", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("labels", pa.map_(pa.string(), pa.string())),
            ("stock", pa.map_(pa.string(), pa.struct([("pieces", pa.int64())]))),
        ]
    )
    found = [
        {"shelf": "a", "at": NOON, "labels": [("b", "12"), ("a", "x")], "stock": [("north", {"pieces": 1})]},
        {"shelf": "b", "at": NOON, "labels": [("b", None)], "stock": None},
    ]
    pq.write_table(pa.Table.from_pylist(found, kinds), tmp_path / "shelves.parquet")
    load(spark, settings, topic, [str(tmp_path / "shelves.parquet")])
    table = DeltaTable(landing_table(settings, "shelves"))
    landed = landed_rows(table).execute('SELECT shelf_counted.labels, reason FROM rows ORDER BY "offset"').fetchall()
    assert landed == [({"a": "x", "b": "12"}, None), (None, "contract: data.labels['b'] is null")]


def test_events_of_a_key_that_is_called_like_a_map_are_found(
    spark: SparkSession, landed: tuple[Settings, View]
) -> None:
    @view(name="labels", version=1, events="shelf.counted", key=["day", "labels"], partition_by="day")
    def labels(counted: DataFrame) -> DataFrame:
        daily = counted.groupBy(F.window("event_time", "1 day"), F.col("labels")["colour"].alias("labels")).count()
        return daily.select(F.to_date("window.start").alias("day"), "labels", F.col("count").alias("n"))

    events = spark.read.format("delta").load(landing_table(landed[0], SHELVES.name)).where("decision = 'valid'")
    row = {"day": DAY, "labels": "red", "n": 2}
    (found,) = find_source_events(labels, Topics((SHELVES,)), events, [row])
    assert found.gives(row)


AT = {"type": "string", "format": "date-time"}


def test_it_is_proven_on_random_logs(spark: SparkSession, tmp_path: Path) -> None:
    assert prove(pieces, declarations=DECLARED, runs=4, spark=spark, keep=tmp_path).logs > 0


def test_the_events_of_a_row_are_explained(spark: SparkSession, landed: tuple[Settings, View]) -> None:
    settings, _ = landed
    registry = Registry([pieces], DECLARED)
    key = {"day": DAY, "colour": "red"}
    found = anabranch.explain("pieces", key, settings=settings, registry=registry, spark=spark, seconds=120)
    text = json.dumps(found.to_json(), default=str)
    assert '"labels": {"colour": "red", "x": "y"}' in text
    assert '"stock": {"north": {"pieces": 3}' in text
