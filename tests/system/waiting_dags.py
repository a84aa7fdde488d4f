"""DAGs of other people, which wait until days of a view are published; and one that waits for a topic."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, get_current_context, task

URI = "anabranch://views/departure_delays"


@task
def days() -> list[str]:
    """The days of the events that have started this run."""
    by_asset: Any = get_current_context()["triggering_asset_events"]
    return sorted(day for events in by_asset.values() for event in events for day in event.extra["partitions"])


@task
def own_day() -> str:
    return str(get_current_context()["dag_run"].partition_key)


@task
def landed() -> None:
    pass


with DAG("dashboard", schedule=[Asset("departure_delays", URI)]):
    days()

each_day = PartitionedAssetTimetable(assets=Asset("departure_delays_by_day", f"{URI}/by-day"))
with DAG("dashboard_of_a_day", schedule=each_day):
    own_day()

with DAG("looks_at_flights", schedule=[Asset("flights_landed", "anabranch://topics/flights")]):
    landed()
