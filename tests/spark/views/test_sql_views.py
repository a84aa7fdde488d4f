"""A view in SQL is a view as any other: the same rows as its twin in Python, in both paths, proven and explained; and a
query that would do anything but read its events is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anabranch
import pyarrow as pa
import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import cut_at, rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.engine.spark import small
from anabranch.core.errors import BadDefinition, Conflict
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef
from anabranch.testing import prove
from anabranch.testing._engine import SmallSessions
from anabranch.views import Registry, View, load_views, view
from anabranch.views._sql_query import SqlQuery
from anabranch.views.check import check
from anabranch.views.model.definition import PARTITION_DATE, Origin, is_changed
from anabranch.views.model.handle import ViewHandle
from anabranch.views.registry import collecting
from anabranch.views.selection.inputs import rows_at
from support.explained_views import World
from support.landed_sample import DECLARED, FLIGHTS, Landing, gallery, sample_views
from support.nine_days import START, flights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = Path(__file__).parent / "sql"
IN_SQL = {v.name.removesuffix("_sql"): v for v in load_views(QUERIES, DECLARED)}
IN_PYTHON = {v.name: v for v in (*sample_views(), *gallery()) if v.name in IN_SQL}
HEADER = "-- view: counted\n-- version: 1\n-- events: flight.departed\n-- key: day\n-- partition by: day\n"
COUNTED = (
    "SELECT to_date(window.start) AS day, count(*) AS n\nFROM flight_departed\nGROUP BY window(event_time, '1 day')\n"
)


def written(folder: Path, query: str, header: str = HEADER) -> Registry:
    (folder / "counted.sql").write_text(header + query)
    return load_views(folder, DECLARED)


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Nine days of flights; the streams of the queries have run. (Those of trials go on from their state.)"""
    settings = load_settings(home=Path(tmp_path_factory.mktemp("sql")), shuffle_partitions=1)
    landing, sessions = Landing(settings), cast("SparkSession", SmallSessions(spark))
    landing.land(*flights())
    for each in IN_SQL.values():
        catch_up(sessions, ViewHandle(settings, each, FLIGHTS))
    assert sum(bool(row["late"]) for row in landing.rows) > 10
    return World(settings, landing)


def plain(rows: pa.Table, each: View) -> list[dict[str, Any]]:
    own = [name for name in rows.column_names if name != PARTITION_DATE and not is_changed(name)]
    return sorted(rows.select(own).to_pylist(), key=lambda row: [str(row[name]) for name in each.key])


@pytest.mark.parametrize("name", IN_SQL)
def test_it_has_the_rows_of_its_twin_in_both_paths(spark: SparkSession, landed: World, name: str) -> None:
    query, twin, engine = IN_SQL[name], IN_PYTHON[name], small(spark)
    assert (query.partition_by, query.lookback, query.refresh) == (twin.partition_by, twin.lookback, twin.refresh)
    check(query, engine, DECLARED)
    assert all(c.equal for c in certify(engine, ViewHandle(landed.settings, query, FLIGHTS), landed.days))
    cut = cut_at(landed.settings, FLIGHTS)
    on_time, every = (
        plain(rows_at(engine, ViewHandle(landed.settings, twin, FLIGHTS), cut, None, late=late).toArrow(), twin)
        for late in (False, True)
    )
    table = open_table(VersionRef(landed.settings, query.name, 1).speed_table)
    assert table is not None
    assert plain(table.to_pyarrow_table(), query) == on_time
    batch = rows_at(engine, ViewHandle(landed.settings, query, FLIGHTS), cut, None, late=True).toArrow()
    assert plain(batch, query) == every
    assert len(every) > 5
    assert query.kappa or on_time != every


def test_its_rows_are_explained(spark: SparkSession, landed: World) -> None:
    query = IN_SQL["departure_delays"]
    build = rebuild(spark, ViewHandle(landed.settings, query, FLIGHTS), landed.days, "explained")
    publish(ViewHandle(landed.settings, query, FLIGHTS), build, landed.days)
    found = anabranch.explain(
        query.name,
        {"origin": "EWR", "window_start": START},
        settings=landed.settings,
        spark=spark,
        registry=Registry((query,), DECLARED),
    )
    assert found.row is not None
    assert found.row["flights"] == len(found.events) > 0


def test_it_is_proven(spark: SparkSession, tmp_path: Path) -> None:
    proof = prove(IN_SQL["departure_delays"], runs=4, keep=tmp_path, spark=spark)
    assert (proof.logs, proof.streams) == (3, 1)


def test_the_definition_is_its_text_and_a_changed_one_needs_another_version(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    written(tmp_path, COUNTED).register(spark, settings)
    written(
        tmp_path, f"-- a remark\n{COUNTED.upper().lower()}".replace("as n", "AS n") and f"\n-- a remark\n{COUNTED};"
    ).register(spark, settings)
    with pytest.raises(Conflict) as changed:
        written(tmp_path, COUNTED.replace("1 day'", "24 hours'")).register(spark, settings)
    assert changed.value.code == "DEFINITION_CHANGED"
    assert "+GROUP BY window(event_time, '24 hours')" in str(changed.value)


def test_two_threads_of_one_session_get_their_own_rows(spark: SparkSession) -> None:
    query = IN_SQL["aircraft_now"]
    columns = "tailnum string, event_time timestamp, log_partition int, log_offset long, carrier string, flight int, "
    columns += "origin string, dest string"
    at = datetime(2013, 1, 1, tzinfo=UTC)

    def rows(number: int) -> list[Any]:
        departed = spark.createDataFrame([(f"N{number}", at, 0, number, "AA", number, "JFK", "LAX")], columns)
        arrived = spark.createDataFrame(
            [(f"N{number}", at + timedelta(hours=1), 0, 0, "AA", number, "JFK", "LAX")], columns
        )
        found: list[Any] = query(departed, arrived).toArrow().to_pylist()
        return found

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(rows, range(12)))
    assert [[(row["tailnum"], row["last_flight"], row["in_air"]) for row in each] for each in found] == [
        [(f"N{number}", f"AA{number}", False)] for number in range(12)
    ]
    assert not [table.name for table in spark.catalog.listTables()], "nothing has a name in the session"


@pytest.mark.parametrize(
    ("query", "code", "said", "line"),
    [
        ("SELECT a, b\nFROM flight_departed WHERE (", "VIEW_SQL", "Syntax error", 7),
        (
            "WITH x AS (SELECT 1) INSERT INTO y SELECT * FROM x",
            "VIEW_SQL",
            "InsertIntoStatement is not part of a query",
            6,
        ),
        ("FROM flight_departed\nINSERT INTO y SELECT *", "VIEW_SQL", "is not part of a query", 7),
        (
            "SELECT TRANSFORM(origin) USING 'cat' FROM flight_departed",
            "VIEW_SQL",
            "ScriptTransformation is not part",
            6,
        ),
        ("SELECT *\nFROM flights", "VIEW_READS", "it reads flights, which is none of its events", 7),
        ("SELECT * FROM delta.`/etc`", "VIEW_READS", "it reads delta./etc", 6),
        ("SELECT * FROM parquet.`/etc`", "VIEW_READS", "it reads parquet./etc", 6),
        ("SELECT * FROM spark_catalog.default.flight_departed", "VIEW_READS", "spark_catalog.default", 6),
        ("WITH a AS (\nSELECT * FROM other)\nSELECT * FROM a", "VIEW_READS", "it reads other", 7),
        ("SELECT * FROM read_files('/etc')", "VIEW_READS", "TableValuedFunction", 6),
        ("SELECT * FROM table_changes_by_path('/etc', 0)", "VIEW_READS", "TableValuedFunction", 6),
        ("SELECT * FROM flight_departed VERSION AS OF 1", "VIEW_READS", "TimeTravel", 6),
        ("SELECT * FROM IDENTIFIER(concat('a', 'b'))", "VIEW_READS", "Identifier", 6),
        ("VALUES (1)", "VIEW_READS", "LocalRelation", 6),
        ("SELECT *\nFROM flight_departed WHERE origin IN (SELECT dest FROM other)", "VIEW_READS", "subquery", 7),
        ("SELECT nothing\nFROM flight_departed", "VIEW_ANALYSIS", "`nothing` cannot be resolved", 6),
        (
            COUNTED.replace("count(*)", "\ncount_if(event_time < current_timestamp())"),
            "VIEW_IMPURE",
            "gives a different",
            7,
        ),
        (COUNTED.replace("count(*)", "\nlast(dep_delay)"), "VIEW_ORDER", "last of flight_departed.dep_delay", 7),
        (COUNTED.replace("count(*)", "\nsum(CAST(dep_delay AS DOUBLE))"), "VIEW_FLOAT", "sum", 7),
        (COUNTED.replace("count(*)", "count(*)").replace("window(event_time, '1 day')", "1"), "VIEW_ANALYSIS", "", 6),
        (
            "SELECT to_date(event_time) AS day, count(*) AS n FROM flight_departed GROUP BY 1",
            "VIEW_WATERMARK",
            "",
            None,
        ),
    ],
)
def test_it_is_refused(spark: SparkSession, tmp_path: Path, query: str, code: str, said: str, line: int | None) -> None:
    (wrong,) = written(tmp_path, query)
    with pytest.raises(BadDefinition) as refused:
        check(wrong, spark, DECLARED)
    assert (refused.value.code, refused.value.fields["line"]) == (code, line), str(refused.value)
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path / 'counted.sql'}:1: counted v1: ")
    assert refused.value.next_step


FORMS = """
SELECT DISTINCT a FROM t
SELECT a, count(*) AS n FROM t GROUP BY ROLLUP (a, b) HAVING count(*) > 0 ORDER BY n
SELECT a, b, count(*) AS n FROM t GROUP BY GROUPING SETS ((a), (b))
SELECT a, x FROM t LATERAL VIEW explode(c) y AS x
SELECT explode(c) AS x FROM t
SELECT * FROM (SELECT a, b FROM t) PIVOT (max(a) FOR b IN ('x', 'y'))
SELECT * FROM (SELECT a, a AS a2 FROM t) UNPIVOT (v FOR k IN (a, a2))
(SELECT a FROM t) UNION ALL (SELECT a FROM u)
SELECT a FROM t UNION SELECT a FROM u
SELECT a FROM t EXCEPT SELECT a FROM u
SELECT a FROM t INTERSECT SELECT a FROM u
SELECT * FROM t JOIN u USING (a)
SELECT t.a FROM t LEFT ANTI JOIN u ON t.a = u.a
SELECT p.a, q.b FROM t AS p CROSS JOIN t AS q
FROM t SELECT a
TABLE t
FROM t |> WHERE a > 1 |> SELECT a, b |> AGGREGATE count(*) AS n GROUP BY a
FROM t |> EXTEND a + 1 AS z |> DROP b |> SET a = 2 |> ORDER BY a
SELECT sum(a) OVER w AS s FROM t WINDOW w AS (PARTITION BY b)
SELECT /*+ BROADCAST(u) */ t.a FROM t JOIN u ON t.a = u.a
WITH x AS (WITH y AS (SELECT a FROM t) SELECT * FROM y) SELECT * FROM x JOIN x AS z USING (a)
WITH x(z) AS (SELECT a FROM t) SELECT z FROM X
WITH t AS (SELECT a FROM t WHERE a > 0) SELECT * FROM t
SELECT a FROM T DISTRIBUTE BY a SORT BY a
SELECT p1 FROM t AS p(p1, p2, p3)
SELECT a FROM t TABLESAMPLE (10 PERCENT)
SELECT a FROM t ORDER BY a LIMIT 3 OFFSET 1
"""


def test_every_form_of_a_query_is_one(spark: SparkSession) -> None:
    rows = small(spark).createDataFrame([(1, "x", [1, 2])], "a int, b string, c array<int>")
    refused = {}
    for form in FORMS.strip().splitlines():
        try:
            SqlQuery("forms", 1, Origin("forms.sql", 1), "forms.sql", form, 1, ("t", "u"))(rows, rows)
        except Exception as error:  # all of them are shown
            refused[form] = str(error)
    assert refused == {}


def test_a_command_is_refused_before_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    into = f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING parquet"
    (wrong,) = written(tmp_path, f"WITH x AS (SELECT 1 AS a) {into} SELECT * FROM flight_departed")  # noqa: S608
    with pytest.raises(BadDefinition, match="is not part of a query"):
        wrong(spark.range(1))
    assert not (tmp_path / "out").exists()


def test_a_view_in_python_may_have_its_query_in_sql(spark: SparkSession) -> None:
    with collecting() as found:

        @view(
            name="counted",
            version=1,
            events="flight.departed",
            key="day",
            partition_by="day",
            sql="""
SELECT to_date(window.start) AS day, count(*) AS n, last(dep_delay) AS l
FROM departed
GROUP BY window(event_time, '1 day')
""",
        )
        def counted(departed):  # type: ignore[no-untyped-def]
            """Departures a day."""

    with pytest.raises(BadDefinition) as refused:
        check(counted, spark, DECLARED)
    assert refused.value.code == "VIEW_ORDER"
    lines = Path(__file__).read_text().splitlines()
    assert refused.value.fields["line"] == 1 + lines.index(
        "SELECT to_date(window.start) AS day, count(*) AS n, last(dep_delay) AS l"
    )
    assert found == [counted]
