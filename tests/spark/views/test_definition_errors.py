"""Definitions that can't be equal in both paths are refused, each with its reason and its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadDefinition, Conflict
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.views import Registry, load_views
from anabranch.views.check import check
from anabranch.views.definition_registry import is_registered, record_path
from support.landed_sample import DECLARED, FLIGHTS, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HOURLY = "key=['hour', 'origin'], partition_by='hour'"
ROWWISE = "key=['event_time', 'event_id'], partition_by='event_time'"
KAPPA = "key=['tailnum']"
WINDOW = "departed.groupBy(F.window('event_time', '1 hour'), 'origin')"
TAKE = "select('origin', F.col('window.start').alias('hour'), 'x')"


def load(folder: Path, declaration: str, body: str, top: str = "") -> Registry:
    text = f"""\
from anabranch.views import view
from pyspark.sql import functions as F, Window
{top}
@view(name="seen", version=1, events=["flight.departed"], {declaration})
def seen(departed):
"""
    (folder / "views.py").write_text(text + "".join(f"    {line}\n" for line in body.splitlines()))
    return load_views(folder, DECLARED)


def hourly(aggregate: str) -> tuple[str, str]:
    return HOURLY, f"hours = {WINDOW}\nrows = hours.agg(\n    {aggregate}.alias('x'),  # !\n)\nreturn rows.{TAKE}"


def column(expression: str) -> tuple[str, str]:
    return ROWWISE, f"other = departed.where('flight > 0')\nreturn other.withColumn('x', {expression})  # !"


IMPURE = {
    name: (*column(f"F.{name}({arguments})"), "VIEW_IMPURE")
    for name, arguments in {
        "current_timestamp": "",
        "now": "",
        "current_date": "",
        "localtimestamp": "",
        "unix_timestamp": "",
        "rand": "",
        "randn": "",
        "uuid": "",
        "current_user": "",
        "input_file_name": "",
        "spark_partition_id": "",
        "monotonically_increasing_id": "",
        "shuffle": "F.array('flight', 'dep_delay')",
    }.items()
}
IN_SQL = {
    "now in SQL": (*column("F.expr('date_add(now(), 1)')"), "VIEW_IMPURE"),
    "rand in SQL": (*column("F.expr('flight + rand()')"), "VIEW_IMPURE"),
    "the word now": (*column("F.lit('now').cast('timestamp')"), "VIEW_IMPURE"),
    "today in SQL": (*column("F.expr(\"cast('today' as date)\")"), "VIEW_IMPURE"),
    "a seeded rand": (*column("F.rand(7)"), "VIEW_IMPURE"),
}
ORDER = {
    name: (*hourly(f"F.{name}({arguments})"), "VIEW_ORDER")
    for name, arguments in {
        "first": "'dest'",
        "last": "'dest'",
        "any_value": "'dest'",
        "max_by": "'dest', 'event_time'",
        "min_by": "'dest', 'event_time'",
        "mode": "'dest'",
        "collect_list": "'dest'",
        "collect_set": "'dest'",
        "percentile_approx": "'dep_delay', 0.5",
        "kll_sketch_agg_bigint": "'dep_delay'",
        "hll_sketch_agg": "'dest'",
        "listagg": "'dest'",
    }.items()
} | {"approx_top_k": (*hourly("F.expr('approx_top_k(dest)')"), "VIEW_ORDER")}
DELAY = "F.col('dep_delay').cast('double')"
FLOATS = {
    name: (*hourly(f"F.{name}({arguments})"), "VIEW_FLOAT")
    for name, arguments in {
        "sum": DELAY,
        "avg": DELAY,
        "mean": "'dep_delay'",
        "stddev": "'dep_delay'",
        "var_pop": DELAY,
        "corr": "'dep_delay', 'flight'",
        "skewness": DELAY,
        "try_sum": DELAY,
    }.items()
}
NO_WATERMARK = {
    "grouping without a time": (
        "key=['day', 'origin'], partition_by='day'",
        "days = departed.groupBy(F.to_date('event_time').alias('day'), 'origin')\nreturn days.count()",
        "VIEW_WATERMARK",
    ),
    "the start of a window": (
        HOURLY,
        (
            "start = F.window('event_time', '1 hour').start.alias('hour')\n"
            "return departed.groupBy(start, 'origin').count()"
        ),
        "VIEW_WATERMARK",
    ),
    "a watermark of its own": (
        HOURLY,
        (
            f"departed = departed.withWatermark('event_time', '1 minute')\n"
            f"return {WINDOW}.agg(F.count('*').alias('x')).{TAKE}"
        ),
        "VIEW_WATERMARK",
    ),
    "a watermark in a kappa view": (
        KAPPA,
        "return departed.withWatermark('event_time', '1 hour').groupBy('tailnum').count()",
        "VIEW_WATERMARK",
    ),
    "duplicates without a time": (
        "key=['day', 'origin'], partition_by='day'",
        "return departed.select(F.to_date('event_time').alias('day'), 'origin').dropDuplicates()",
        "VIEW_WATERMARK",
    ),
    "a join that keeps everything": (
        ROWWISE,
        (
            "other = departed.select(F.col('tailnum').alias('t'), F.col('dest').alias('d'))\n"
            "return departed.join(other, F.col('tailnum') == F.col('t')).drop('t')"
        ),
        "VIEW_WATERMARK",
    ),
}
NO_STREAM = {
    "limit": (ROWWISE, "return departed.limit(3)", "VIEW_ORDER"),
    "sample": (ROWWISE, "return departed.sample(0.5)", "VIEW_ORDER"),
    "order": (ROWWISE, "return departed.orderBy('event_time')", "VIEW_STREAM"),
    "dropDuplicates on some columns": (ROWWISE, "return departed.dropDuplicates(['event_time'])", "VIEW_ORDER"),
    "dropDuplicatesWithinWatermark": (ROWWISE, "return departed.dropDuplicatesWithinWatermark()", "VIEW_STREAM"),
    "a rank": (
        ROWWISE,
        (
            "w = Window.partitionBy('origin').orderBy('event_time', 'event_id')\n"
            "return departed.withColumn('x', F.row_number().over(w))"
        ),
        "VIEW_STREAM",
    ),
    "a session window": (
        "key=['hour', 'origin'], partition_by='hour'",
        (
            "hours = departed.groupBy(F.session_window('event_time', '1 hour'), 'origin').count()\n"
            "return hours.select(F.col('session_window.start').alias('hour'), 'origin', 'count')"
        ),
        "VIEW_STREAM",
    ),
    "zipWithIndex": (
        f"{ROWWISE}, refresh='partitions'",
        "return departed.select('event_time', 'event_id').zipWithIndex()",
        "VIEW_ORDER",
    ),
    "an action": (ROWWISE, "x = departed.count()  # !\nreturn departed.where(F.lit(x) == x)", "VIEW_ANALYSIS"),
}
WRONG = {
    "no such column": (ROWWISE, "x = 1\nreturn departed.where(F.col('delay') > x)  # !", "VIEW_ANALYSIS"),
    "no such column in SQL": (ROWWISE, "return departed.selectExpr('*', 'delay + 1 as x')  # !", "VIEW_ANALYSIS"),
    "no such method": (ROWWISE, "return departed.missing()  # !", "VIEW_FAILS"),
    "a Python error": (ROWWISE, "x = 1 / 0  # !\nreturn departed", "VIEW_FAILS"),
    "no frame": (ROWWISE, "return None", "VIEW_COLUMNS"),
    "a key that isn't returned": (HOURLY, "return departed", "VIEW_COLUMNS"),
    "a name of the platform's": (ROWWISE, "return departed.withColumn('_epoch', F.lit(1))", "VIEW_COLUMNS"),
    "the partition column": (ROWWISE, "return departed.withColumn('partition_date', F.lit(1))", "VIEW_COLUMNS"),
    "a name twice": (ROWWISE, "return departed.select('*', F.lit(1).alias('Origin'))", "VIEW_COLUMNS"),
    "a name with a blank": (ROWWISE, "return departed.withColumn('a b', F.lit(1))", "VIEW_COLUMNS"),
    "a partition that is no time": ("key=['flight'], partition_by='flight'", "return departed", "VIEW_COLUMNS"),
    "a float as a key": (
        "key=['x']",
        "return departed.select(F.col('flight').cast('double').alias('x'))",
        "VIEW_COLUMNS",
    ),
    "a table": (
        ROWWISE,
        "return departed.unionByName(F.broadcast(departed)).where('flight in (select 1)')",
        "VIEW_READS",
    ),
}
LOOSE = "F.collate('dest', 'UTF8_LCASE')"
AS_PARTS = f"{HOURLY}, refresh='partitions'"
COLLATED = {
    "max by a collation": (*hourly(f"F.max({LOOSE})"), "VIEW_ORDER"),
    "min of a struct by a collation": (*hourly(f"F.min(F.struct({LOOSE}, 'flight'))"), "VIEW_ORDER"),
    "a sorted list by a collation": (*hourly(f"F.sort_array(F.collect_list({LOOSE}))"), "VIEW_ORDER"),
    "groups by a collation": (
        AS_PARTS,
        (
            f"rows = departed.groupBy(F.window('event_time', '1 hour'), {LOOSE}.alias('d')).count()\n"
            "return rows.select(F.col('window.start').alias('hour'), F.collate('d', 'UTF8_BINARY').alias('origin'))"
        ),
        "VIEW_ORDER",
    ),
    "distinct rows by a collation": (
        AS_PARTS,
        (
            f"rows = departed.select(F.col('event_time').alias('hour'), {LOOSE}.alias('d')).distinct()\n"
            "return rows.select('hour', F.collate('d', 'UTF8_BINARY').alias('origin'))"
        ),
        "VIEW_ORDER",
    ),
    "an intersection by a collation": (
        AS_PARTS,
        (
            f"rows = departed.select(F.col('event_time').alias('hour'), {LOOSE}.alias('d'))\n"
            "return rows.intersect(rows).select('hour', F.collate('d', 'UTF8_BINARY').alias('origin'))"
        ),
        "VIEW_ORDER",
    ),
    "a key with a collation": (
        AS_PARTS,
        f"return departed.select(F.col('event_time').alias('hour'), {LOOSE}.alias('origin'))",
        "VIEW_COLUMNS",
    ),
}
DISTINCT = (
    "hours = departed.groupBy(F.window('event_time', '1 hour'), 'origin').agg(F.count_distinct('dest').alias('n'))\n"
    "return hours.select(F.col('window.start').alias('hour'), 'origin', 'n')"
)
EVERY = {**IMPURE, **IN_SQL, **ORDER, **FLOATS, **NO_WATERMARK, **NO_STREAM, **COLLATED, **WRONG}


@pytest.mark.parametrize("case", ["a rank", "a session window", "countDistinct"])
def test_what_is_no_stream_is_computed_again_by_partitions(spark: SparkSession, tmp_path: Path, case: str) -> None:
    distinct = ("key=['hour', 'origin'], partition_by='hour'", DISTINCT, "VIEW_STREAM")
    declaration, body, code = {**NO_STREAM, "countDistinct": distinct}[case]
    (view,) = load(tmp_path, declaration, body)
    with pytest.raises(BadDefinition) as caught:
        check(view, spark, DECLARED)
    assert caught.value.code == code, str(caught.value)
    assert "refresh='partitions'" in str(caught.value)
    (tmp_path / "again").mkdir()
    (same,) = load(tmp_path / "again", f"{declaration}, refresh='partitions'", body)
    check(same, spark, DECLARED)


@pytest.mark.parametrize("case", EVERY)
def test_what_is_refused(spark: SparkSession, tmp_path: Path, case: str) -> None:
    declaration, body, code = EVERY[case]
    (view,) = load(tmp_path, declaration, body)
    with pytest.raises(BadDefinition) as caught:
        check(view, spark, DECLARED)
    lines = (tmp_path / "views.py").read_text().splitlines()
    start = 1 + next(i for i, line in enumerate(lines) if line.startswith("@view"))
    assert str(caught.value).startswith(f"{tmp_path / 'views.py'}:{start}: seen v1: ")
    assert caught.value.code == code, str(caught.value)
    marked = [i for i, line in enumerate(lines, 1) if "# !" in line]
    if marked:
        assert caught.value.fields["line"] == marked[0]
        assert f"line {marked[0]}: " in str(caught.value)


UDF = """
@F.udf("bigint")
def doubled(x):
    return 2 * x
"""
ALLOWED = {
    "exact aggregates": hourly("F.struct(F.count('*'), F.sum('dep_delay'), F.min('dep_delay'), F.max('dest'))"),
    "a decimal": hourly("F.avg(F.col('dep_delay').cast('decimal(18,2)'))"),
    "conditions": hourly("(F.count_if(F.col('dep_delay') > 15) + F.bool_or(F.col('flight') > 1).cast('int'))"),
    "the newest": hourly("F.max(F.struct('event_time', 'log_partition', 'log_offset', 'dest')).getField('dest')"),
    "a sorted list": hourly("F.sort_array(F.collect_list('dest'))"),
    "an exact percentile": hourly("F.percentile('dep_delay', 0.5)"),
    "a distinct count by sketch": hourly("F.approx_count_distinct('dest')"),
    "rows as they are": (ROWWISE, "return departed.withColumn('x', F.expr('dep_delay + 1'))"),
    "state for ever in a kappa view": (KAPPA, "return departed.groupBy('tailnum').agg(F.max('event_time').alias('x'))"),
    "equal rows": (ROWWISE, "return departed.select('event_time', 'event_id').dropDuplicates()"),
    "a join within a time": (
        ROWWISE,
        (
            "other = departed.selectExpr('tailnum as t', 'event_time as e', 'dest as d')\n"
            "near = F.expr('tailnum = t and e between event_time and event_time + interval 1 hour')\n"
            "return departed.join(other, near).drop('t', 'e')"
        ),
    ),
    "a condition by a collation": (ROWWISE, f"return departed.where({LOOSE} == 'jfk')"),
    "a count of collated texts": hourly(f"F.approx_count_distinct({LOOSE})"),
    "the greatest by a collation of equal texts": hourly("F.max(F.collate('dest', 'UNICODE'))"),
    "the greatest of texts that are lowered": hourly("F.max(F.lower('dest'))"),
    "a time that is written down": column("F.lit('2013-01-01 00:00:00').cast('timestamp')"),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_allowed(spark: SparkSession, tmp_path: Path, case: str) -> None:
    (view,) = load(tmp_path, *ALLOWED[case])
    check(view, spark, DECLARED)


def test_a_function_in_python_runs_in_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    """Its module has no name that a worker could import."""
    (view,) = load(tmp_path, *column("doubled('dep_delay')"), top=UDF)
    check(view, spark, DECLARED)
    events = spark.sql("select 21L as dep_delay, 1L as flight")
    assert [row.x for row in view(events).collect()] == [42]


PROCESSOR = """
from anabranch.views.processor import process


class Each:
    def on_event(self, event, timers):
        yield {"tailnum": event["tailnum"], "event_time": event["event_time"]}

    def on_timer(self, at, timers):
        return iter(())


def seen_by(events, by="tailnum", **more):
    return process(events, by, Each, "tailnum string, event_time timestamp", **{"forget_after": "1 hour", **more})
"""
CLOSED = "key=['tailnum', 'event_time'], partition_by='event_time', closes=True"
NOT_CLOSED = {
    "no processor": ("return departed", "VIEW_REFRESH", "every event has to go through"),
    "events that go past it": (
        "return seen_by(departed).union(departed.select('tailnum', 'event_time'))",
        "VIEW_REFRESH",
        "every event has to go through",
    ),
    "the watermark": ("return seen_by(departed.where('event_time < watermark'))", "VIEW_REFRESH", "use timers"),
    "the watermark by another name": (
        "return seen_by(departed.withColumn('w', F.col('watermark')).where('event_time < w'))",
        "VIEW_REFRESH",
        "use timers",
    ),
    "no watermark left": (
        "return seen_by(departed.select('tailnum', 'event_time', 'log_partition', 'log_offset'))  # !",
        "VIEW_FAILS",
        "keep it in the select",
    ),
    "state for ever": ("return seen_by(departed, forget_after=None)", "VIEW_FAILS", 'set forget_after="2 days"'),
    "no duration": ("return seen_by(departed, forget_after='a while')", "VIEW_FAILS", "isn't a duration"),
    "a key with a fraction": (
        "return seen_by(departed.withColumn('x', F.col('flight').cast('double')), 'x')",
        "VIEW_FAILS",
        "cast it to decimal",
    ),
}


@pytest.mark.parametrize("case", NOT_CLOSED)
def test_a_processor_in_spark_s_state_is_refused_where_paths_could_differ(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    body, code, says = NOT_CLOSED[case]
    (view,) = load(tmp_path, CLOSED, body, top=PROCESSOR)
    with pytest.raises(BadDefinition) as caught:
        check(view, spark, DECLARED)
    assert caught.value.code == code, str(caught.value)
    assert says in str(caught.value)
    assert f"{tmp_path / 'views.py'}:" in str(caught.value)


def test_a_processor_is_allowed_in_spark_s_state_and_by_partitions(spark: SparkSession, tmp_path: Path) -> None:
    for n, declaration in enumerate((CLOSED, f"{CLOSED}, refresh='partitions'")):
        (tmp_path / str(n)).mkdir()
        (view,) = load(tmp_path / str(n), declaration, "return seen_by(departed)", top=PROCESSOR)
        check(view, spark, DECLARED)


@pytest.mark.parametrize(
    ("declaration", "body", "refused"),
    [
        (*hourly("F.count('dest')"), True),
        (CLOSED, "return seen_by(departed)", True),
        (f"{HOURLY}, refresh='partitions'", hourly("F.count('dest')")[1], False),
        (ROWWISE, "return departed", False),
        (KAPPA, "return departed.groupBy('tailnum').count()", False),
    ],
)
def test_state_of_events_from_before_1970_is_refused(
    spark: SparkSession, tmp_path: Path, declaration: str, body: str, refused: bool
) -> None:
    """Spark's first watermark is 1970-01-01: what is older would be dropped."""
    (view,) = load(tmp_path, declaration, body, top=PROCESSOR)
    check(view, spark, Declarations({**DECLARED.topics, FLIGHTS.name: replace(FLIGHTS, earliest_year=1970)}))
    older = Declarations({**DECLARED.topics, FLIGHTS.name: replace(FLIGHTS, earliest_year=1969)})
    if not refused:
        check(view, spark, older)
        return
    with pytest.raises(BadDefinition, match="drops events from before 1970, which topic flights has") as caught:
        check(view, spark, older)
    assert caught.value.code == "VIEW_WATERMARK"


def test_a_message_says_what_to_write(spark: SparkSession, tmp_path: Path) -> None:
    (view,) = load(tmp_path, *hourly(f"F.sum({DELAY})"))
    with pytest.raises(BadDefinition) as caught:
        check(view, spark, DECLARED)
    assert "sum of CAST(dep_delay AS DOUBLE) (double) depends on the order of rows" in str(caught.value)
    assert "cast to decimal or integer" in caught.value.next_step
    assert caught.value.fields["function"] == "sum"


def test_registering_checks_once_and_writes_down(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    registry = sample_views()
    registry.register(spark, settings)
    assert all(is_registered(settings, view) for view in registry)
    bad = load(tmp_path, *hourly("F.first('dest')"))
    with pytest.raises(BadDefinition):
        bad.register(spark, settings)
    assert not record_path(VersionRef(settings, bad.get("seen").name, bad.get("seen").version)).exists()


def test_a_registered_view_is_checked_again_when_its_topic_may_have_older_events(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """Its stream would begin, and end at the first of them: Spark's state drops what is older than 1970."""
    for name, declared, refused in [
        ("state", hourly("F.count('dest')"), True),
        ("partitions", (f"{HOURLY}, refresh='partitions'", hourly("F.count('dest')")[1]), False),
    ]:
        (tmp_path / name).mkdir()
        home = settings.model_copy(update={"home": tmp_path / name / "home"})
        registry = load(tmp_path / name, *declared)
        registry.register(spark, home)
        older = Declarations({**DECLARED.topics, FLIGHTS.name: replace(FLIGHTS, earliest_year=1950)})
        if not refused:
            replace(registry, declarations=older).register(spark, home)
            continue
        with pytest.raises(BadDefinition, match="drops events from before 1970") as caught:
            replace(registry, declarations=older).register(spark, home)
        assert caught.value.code == "VIEW_WATERMARK"
        registry.register(spark, home)


def test_a_registered_version_can_not_change(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    load(tmp_path / "a", *hourly("F.count('dest')")).register(spark, settings)
    with pytest.raises(Conflict) as caught:
        load(tmp_path / "b", *hourly("F.count('*')")).register(spark, settings)
    assert caught.value.code == "DEFINITION_CHANGED"
