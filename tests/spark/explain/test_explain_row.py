"""Late events and reprocesses, two cuts, two versions, and rows that aren't there."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from io import StringIO
from typing import TYPE_CHECKING, Any

import anabranch
import pytest
from anabranch.apps.cli._read_commands import plain
from anabranch.core.errors import BadInput, Conflict
from anabranch.operate.explain import Explanation, rendered
from anabranch.views import Registry, view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console
from support.explained_views import REGISTRY, VIEWS, World, serve
from support.landed_sample import DECLARED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
DELAYS = VIEWS["departure_delays"]
Ask = Callable[..., Explanation]


@pytest.fixture
def ask(spark: SparkSession, serving: Callable[..., World]) -> Ask:
    world = serving(DELAYS, batch=True)

    def asked(key: dict[str, Any], **more: Any) -> Explanation:
        options = {"settings": world.settings, "registry": REGISTRY, "spark": spark, "seconds": 30.0, **more}
        return anabranch.explain("departure_delays", key, **options)

    return asked


def keys_with(world: World, wanted: Callable[[list[dict[str, Any]]], bool]) -> dict[str, Any]:
    """The key of the first hour and airport whose departures are as wanted."""
    hours: dict[tuple[str, datetime], list[dict[str, Any]]] = {}
    for row in world.landing.rows:
        if row["decision"] == "valid" and row["type"] == "flight.departed":
            hour = row["event_time"].replace(minute=0, second=0)
            hours.setdefault((row["flight_departed"]["origin"], hour), []).append(row)
    origin, start = next(key for key in sorted(hours) if 3 <= len(hours[key]) <= 12 and wanted(hours[key]))
    return {"origin": origin, "window_start": start}


def test_a_reprocess_names_the_late_events_that_it_took_in(ask: Ask, world: World) -> None:
    key = keys_with(world, lambda rows: sum(bool(r["late"]) for r in rows) == 1)
    batch, speed = ask(key), ask(key, prefer="speed")

    assert batch.source is not None
    assert speed.source is not None
    assert (batch.source.half, batch.source.run, batch.late) == ("batch", "reprocess-1", True)
    assert (speed.source.half, speed.source.run, speed.late) == ("speed", None, False)
    (late,) = [part for part in batch.parts if part.event.late]
    assert {e.place for e in batch.events} - {e.place for e in speed.events} == {late.event.place}
    assert batch.last is not None
    assert batch.last.events == (late.event,)
    assert {c.column: c.without for c in batch.last.before} == {
        c.column: speed.row[c.column] for c in batch.last.before
    }
    assert late.effect is not None
    assert {c.column: c.by for c in late.effect.changes}["flights"] == 1


def test_the_speed_half_says_which_epoch_changed_the_row_last(ask: Ask, world: World) -> None:
    key = keys_with(world, lambda rows: len({r["epoch"] for r in rows if not r["late"]}) > 1)
    found = ask(key, prefer="speed")
    assert found.last is not None
    assert found.last.epoch == max(event.epoch for event in found.events)
    assert {event.epoch for event in found.last.events} == {found.last.epoch}
    assert found.last.commit == "checkpoint:0"


def test_between_two_cuts_the_new_events_are_the_difference(ask: Ask, world: World) -> None:
    key = keys_with(world, lambda rows: len({r["epoch"] for r in rows}) > 1)
    newest = max(event.epoch for event in ask(key).events)
    found = ask(key, cut=f"flights@{newest}", against=f"flights@{newest - 1}")

    assert found.source is None
    assert found.against is not None
    assert found.against.row is not None
    assert {event.epoch for event in found.against.only_here} == {newest}
    assert found.against.only_there == ()
    cells = {cell.column: cell.by for cell in found.against.cells}
    assert cells["flights"] == len(found.against.only_here)
    told = [part.effect for part in found.parts if part.event in found.against.only_here]
    assert all(effect is not None and not effect.none for effect in told)


def test_between_two_versions_the_definition_is_the_difference(ask: Ask, world: World, spark: SparkSession) -> None:
    second = _second()
    both = Registry((DELAYS, second), DECLARED)
    key = keys_with(world, lambda rows: any(15 < r["flight_departed"]["dep_delay"] <= 30 for r in rows))
    found = ask(key, version=1, registry=both, against_version=2)

    assert found.against is not None
    assert [cell.column for cell in found.against.cells] == ["delayed"]
    assert found.against.only_here == found.against.only_there == ()
    assert any("> 30" in line for line in found.against.definition if line.startswith("-"))
    assert any("> 15" in line for line in found.against.definition if line.startswith("+"))


def test_a_served_row_that_is_not_the_function_s_is_not_verified(spark: SparkSession, world: World) -> None:
    """The platform's own table is made by another function here: nobody's events give what it says."""
    from dataclasses import replace

    liar = _second(name="lies")
    serve(spark, world, liar)
    truth = replace(_second(name="lies", limit=-100), fingerprint=liar.fingerprint)
    key = keys_with(world, lambda rows: True)
    found = anabranch.explain(
        "lies", key, settings=world.settings, registry=Registry((truth,), DECLARED), spark=spark, seconds=30.0
    )
    assert not found.verified
    assert all(part.effect is None for part in found.parts)


def _second(name: str = "departure_delays", limit: int = 30) -> Any:
    version = 2 if name == "departure_delays" else 1

    @view(
        name=name,
        version=version,
        events=["flight.departed"],
        key=["origin", "window_start"],
        partition_by="window_start",
    )
    def delays(departed: DataFrame) -> DataFrame:
        hourly = departed.groupBy(F.window("event_time", "1 hour"), "origin").agg(
            F.count("*").alias("flights"),
            F.count_if(F.col("dep_delay") > 30).alias("delayed"),
            F.sum("dep_delay").alias("delay_minutes"),
        )
        return hourly.select(
            "origin",
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "flights",
            "delayed",
            "delay_minutes",
            (F.col("delay_minutes") / F.col("flights").cast("decimal(18,0)"))
            .cast("decimal(18,3)")
            .alias("average_delay"),
        )

    if limit != 30:
        from dataclasses import replace

        made = delays.function
        return replace(delays, function=lambda departed: made(departed).withColumn("flights", F.col("flights") + limit))
    return delays


HOUR = datetime(2013, 1, 2, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "more", "code"),
    [
        ({"origin": "JFK"}, {}, "KEY_INCOMPLETE"),
        ({"origin": "JFK", "window_start": HOUR, "dest": "BOS"}, {}, "KEY_UNKNOWN"),
        ({"origin": "JFK", "window_start": "noon"}, {}, "KEY_UNREADABLE"),
        ({"origin": "XXX", "window_start": HOUR}, {}, "ROW_MISSING"),
        ({"origin": "JFK", "window_start": HOUR}, {"cut": "flights@99"}, "CUT_IN_FUTURE"),
        ({"origin": "JFK", "window_start": HOUR}, {"cut": "weather@1"}, "CUT_UNREADABLE"),
        ({"origin": "JFK", "window_start": HOUR}, {"against": "flights@1", "against_version": 2}, "AGAINST_TWICE"),
        ({"origin": "JFK", "window_start": HOUR}, {"version": 7}, "VIEW_UNKNOWN"),
        ({"origin": "JFK", "window_start": HOUR}, {"prefer": "nicest"}, "PREFER_UNKNOWN"),
    ],
)
def test_wrong_questions_are_refused(ask: Ask, key: dict[str, Any], more: dict[str, Any], code: str) -> None:
    with pytest.raises(BadInput) as refused:
        ask(key, **more)
    assert refused.value.code == code


def test_another_definition_than_the_table_s_is_refused(ask: Ask) -> None:
    from dataclasses import replace

    other = Registry((replace(DELAYS, fingerprint="0" * 16),), DECLARED)
    with pytest.raises(Conflict) as refused:
        ask({"origin": "JFK", "window_start": HOUR}, registry=other)
    assert refused.value.code == "DEFINITION_CHANGED"


def test_a_row_that_is_not_there_lists_near_ones_and_says_what_became_of_its_events(
    ask: Ask, spark: SparkSession, serving: Callable[..., World]
) -> None:
    with pytest.raises(BadInput) as refused:
        ask({"origin": "JFK", "window_start": datetime(2013, 1, 2, 7, tzinfo=UTC)})
    near = refused.value.fields["near"]
    assert len(near) == 5
    assert near[0]["origin"] == "JFK"
    assert (near[0]["window_start"] - datetime(2013, 1, 2, 7, tzinfo=UTC)).total_seconds() % 3600 == 0

    world = serving(VIEWS["never_arrived"])
    arrived = next(
        r for r in world.landing.rows if r["type"] == "flight.departed" and r["event_date"] == date(2013, 1, 1)
    )
    data = arrived["flight_departed"]
    key = {
        "flight": f"{data['carrier']}{data['flight']}{data['origin']}",
        "departed_at": arrived["event_time"],
        "log_partition": arrived["partition"],
        "log_offset": arrived["offset"],
    }
    with pytest.raises(BadInput) as gone:
        anabranch.explain("never_arrived", key, settings=world.settings, registry=REGISTRY, spark=spark)
    assert gone.value.code == "ROW_MISSING"
    assert gone.value.fields["seen"] == 1
    assert "returns no row" in gone.value.state


def test_the_terminal_and_json_say_what_was_found(ask: Ask, world: World) -> None:
    key = keys_with(world, lambda rows: any(r["late"] for r in rows) and len({r["epoch"] for r in rows}) > 1)
    newest = max(event.epoch for event in ask(key).events)
    found = ask(key, against=f"flights@{newest - 1}")
    content = json.loads(json.dumps(found.to_json(), default=plain))
    assert content["row"]["flights"] == found.row["flights"] == len(content["events"])
    assert content["served"]["half"] == "batch"
    assert found.against is not None
    assert content["against"]["events_only_here"] == [str(event) for event in found.against.only_here]

    printed = StringIO()
    terminal = Console(file=printed, width=200)
    for each in rendered(found, limit=3):
        terminal.print(each, markup=False)
    text = printed.getvalue()
    assert f"behind it: {len(found.parts)} events" in text
    assert f"{len(found.parts) - 3} more not shown" in text
    assert "late event" in text
    assert f"against v1 at flights@{newest - 1}" in text
