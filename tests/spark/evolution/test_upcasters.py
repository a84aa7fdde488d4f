"""An upcaster is believed when Spark's plan of it can be: pure, of one event, with the types of the next version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Contract, Topic, Upcaster
from anabranch.contracts.model.declarations import Declarations, load_module
from anabranch.core.errors import BadDefinition, Conflict
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.views import Registry, view
from anabranch.views._upcasting import check_upcasters
from anabranch.views.check import check
from anabranch.views.definition_registry import record_path, write_definition
from anabranch.views.upcaster_registry import register_upcasters
from pyspark.sql import functions as F
from support.evolved_contract import ONE, TWO, TYPE, declared, delays_to, departures_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
GIVEN = "'destination': old['dest']"
LATE = "'minutes_late': F.greatest(old['dep_delay'], F.lit(0))"


def upcast_by(folder: Path, body: str, top: str = "") -> Topic:
    """The topic with an upcaster of this body; ``# !`` is at the line that has to be named."""
    text = f"from pyspark.sql import functions as F, Window\n{top}\ndef upcast(old):\n"
    file = folder / "upcast.py"
    file.write_text(text + "".join(f"    {line}\n" for line in body.splitlines()))
    function = vars(load_module(file))["upcast"]
    return Topic(TWO.name, TWO.contracts, upcasters=(Upcaster(TYPE, 1, function),))


def refused(spark: SparkSession, topic: Topic) -> BadDefinition:
    with pytest.raises(BadDefinition) as caught:
        check_upcasters(spark, topic, [TYPE])
    return caught.value


def test_the_one_of_the_example_is_believed(spark: SparkSession) -> None:
    check_upcasters(spark, TWO, [TYPE])
    check(delays_to, spark, declared(TWO))


@pytest.mark.parametrize(
    "given",
    [
        LATE,
        "'minutes_late': F.lit(None)",
        "'minutes_late': F.lit(7)",
        "'minutes_late': F.length(old['tailnum'])",
    ],
)
def test_what_is_lossless_is_believed(spark: SparkSession, tmp_path: Path, given: str) -> None:
    check_upcasters(spark, upcast_by(tmp_path, f"return {{{GIVEN}, {given}}}"), [TYPE])


HOSTILE: dict[str, tuple[str, str]] = {
    "chance": (f"return {{{GIVEN},\n 'minutes_late': F.rand() * 3}}  # !", "UPCASTER_IMPURE"),
    "a clock": (f"return {{{GIVEN}, 'minutes_late': F.unix_timestamp()}}  # !", "UPCASTER_IMPURE"),
    "a new id": ("return {'destination': F.expr('uuid()')}  # !", "UPCASTER_IMPURE"),
    "the word now": ("return {'destination': F.lit('now').cast('timestamp').cast('string')}  # !", "UPCASTER_IMPURE"),
    "Python's clock": (f"import time  # !\nreturn {{{GIVEN}, 'flight': F.lit(int(time.time()))}}", "UPCASTER_IMPURE"),
    "Python's chance": (f"import random  # !\nreturn {{{GIVEN}, 'flight': F.lit(random.random())}}", "UPCASTER_IMPURE"),
    "a file": (f"text = open('/etc/issue').read()  # !\nreturn {{{GIVEN}, 'tailnum': F.lit(text)}}", "UPCASTER_IMPURE"),
    "an aggregate": ("return {'destination': F.max(old['dest'])}", "UPCASTER_ROWWISE"),
    "a window": (
        "return {'destination': F.first(old['dest']).over(Window.partitionBy(old['origin']).orderBy(old['flight']))}",
        "UPCASTER_ROWWISE",
    ),
    "a generator": ("return {'destination': F.explode(F.array(old['dest'], old['origin']))}", "UPCASTER_ROWWISE"),
    "a Python function": ("return {'destination': F.udf(lambda x: x)(old['dest'])}", "UPCASTER_ROWWISE"),
    "a subquery": ("return {'destination': F.expr('(select max(id) from range(3))')}", "UPCASTER_READS"),
    "a column of the envelope": ("return {'destination': F.col('subject')}", "UPCASTER_ANALYSIS"),
    "a column of its own": ("return {'destination': F.col('dest')}", "UPCASTER_ANALYSIS"),
    "a field there is not": ("return {\n 'destination': old['destiny']}  # !", "UPCASTER_FAILS"),
    "an error": ("raise ValueError('no')  # !", "UPCASTER_FAILS"),
    "a field of nobody": (f"return {{{GIVEN}, 'dest': old['dest']}}", "UPCASTER_FIELDS"),
    "what is carried over": (f"return {{{GIVEN}, 'carrier': F.upper(old['carrier'])}}", "UPCASTER_FIELDS"),
    "no columns": (f"return {{{GIVEN}, 'minutes_late': 3}}", "UPCASTER_FIELDS"),
    "nothing": ("return None", "UPCASTER_FIELDS"),
    "too little": ("return {'minutes_late': old['dep_delay']}", "UPCASTER_REQUIRED"),
    "another type": (f"return {{{GIVEN}, 'minutes_late': old['tailnum']}}", "UPCASTER_TYPE"),
    "a fraction": (f"return {{{GIVEN}, 'minutes_late': old['dep_delay'] / 2}}", "UPCASTER_TYPE"),
    "a text for a number": (f"return {{{GIVEN}, 'minutes_late': F.lit('5')}}", "UPCASTER_TYPE"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_believed_is_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    body, code = HOSTILE[name]
    error = refused(spark, upcast_by(tmp_path, body))
    assert error.code == code, str(error)
    assert error.what.startswith(f"{tmp_path / 'upcast.py'}:3: flight.departed v1: "), error.what
    assert error.next_step
    marked = [n for n, line in enumerate((tmp_path / "upcast.py").read_text().splitlines(), 1) if line.endswith("# !")]
    if marked:
        assert error.fields["line"] in marked, str(error)


def test_what_changes_between_two_calls_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    topic = upcast_by(tmp_path, f"return {{{GIVEN}, 'minutes_late': F.lit(next(COUNT))}}", "COUNT = iter(range(9))")
    assert refused(spark, topic).code == "UPCASTER_IMPURE"


def test_an_upcaster_from_elsewhere_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    topic = upcast_by(tmp_path, "return declared(old)", "from support.evolved_contract import declared")
    assert refused(spark, topic).code == "UPCASTER_UNSEEN"


def test_a_registered_step_stays_as_it_is(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    body = f"return {{{GIVEN}, {LATE}}}"
    register_upcasters(spark, settings, upcast_by(tmp_path, body), [TYPE])
    again = tmp_path / "again"
    again.mkdir()
    register_upcasters(spark, settings, upcast_by(again, f'"""Said."""\n{body}  # a remark'), [TYPE])
    other = tmp_path / "other"
    other.mkdir()
    changed = upcast_by(other, body.replace("F.lit(0)", "F.lit(1)"))
    with pytest.raises(Conflict) as caught:
        register_upcasters(spark, settings, changed, [TYPE])
    assert caught.value.code == "UPCASTER_CHANGED"
    assert "F.lit(1)" in caught.value.what
    third = Contract(TYPE, 3, TWO.newest(TYPE).schema)
    without = Topic(TWO.name, (TWO.contracts[0], third), upcasters=(Upcaster(TYPE, 1, TWO.upcasters[0].function),))
    with pytest.raises(Conflict) as caught:
        register_upcasters(spark, settings, without, [TYPE])
    assert (caught.value.code, "it led to v2" in caught.value.what) == ("UPCASTER_CHANGED", True)


def test_a_hostile_upcaster_is_refused_where_a_view_is_registered(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    topic = upcast_by(tmp_path, HOSTILE["chance"][0])
    registry = Registry((delays_to,), Declarations({topic.name: topic}))
    with pytest.raises(BadDefinition) as caught:
        registry.register(spark, settings)
    assert caught.value.code == "UPCASTER_IMPURE"
    assert not list((settings.home / "control").rglob("*.json"))


def test_a_registered_view_is_checked_again_when_its_events_get_another_shape(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    def registered(views: tuple[Any, ...], topic: Topic) -> None:
        Registry(views, declared(topic)).register(spark, settings)

    def read_by() -> dict[str, int]:
        found: dict[str, int] = json.loads(
            record_path(VersionRef(settings, departures_from.name, departures_from.version)).read_text()
        )["contracts"]
        return found

    registered((departures_from,), ONE)
    assert read_by() == {TYPE: 1}
    registered((departures_from,), TWO)
    assert read_by() == {TYPE: 2}
    # A view over a field that the newest shape doesn't have any more says so, instead of failing in its stream.
    write_definition(settings, by_delay, {TYPE: 1})
    with pytest.raises(BadDefinition) as caught:
        registered((by_delay,), TWO)
    assert caught.value.code == "VIEW_ANALYSIS"
    assert "minutes_late" in caught.value.next_step


@view(name="by_delay", version=1, events=TYPE, key=["dep_delay", "hour"], partition_by="hour")
def by_delay(departed: DataFrame) -> DataFrame:
    hours = departed.groupBy(F.window("event_time", "1 hour"), "dep_delay").agg(F.count("*").alias("flights"))
    return hours.select("dep_delay", F.col("window.start").alias("hour"), "flights")
