"""Turns each flight into life-cycle events, in publish order.

One row per event, kept as columns until it is sent (see COLUMNS), because faults change columns and building a year of
events one by one would be slow. ``publish_time`` is when it reaches the log; it is also the event's ``receivedtime``,
as if the first server had stamped it in 2013. The event time is never later:

- ``flight.scheduled``: 6 hours before the scheduled departure
- ``flight.departed``: published at the actual departure; its event time is the scheduled one if that was earlier;
  ``flight.arrived`` likewise. So a flight that is three hours late is an event that is three hours late.
- ``flight.cancelled``: at the scheduled departure
- ``weather.observed``: event time is the beginning of an hour, published at its end
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import polars as pl
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput

from anabranch_samples import nycflights

COLUMNS: dict[str, Any] = {
    "topic": pl.String,
    "key": pl.String,
    "event_type": pl.String,
    "publish_time": pl.Datetime("us", "UTC"),
    "id": pl.String,
    "source": pl.String,
    "time": pl.Datetime("us", "UTC"),
    "senttime": pl.Datetime("us", "UTC"),
    "receivedtime": pl.Datetime("us", "UTC"),
    "dataschema": pl.String,
    "data": pl.String,
    "fault": pl.String,
    "value": pl.Binary,
}
"""``data`` is JSON text. ``value`` is null until the record is rendered; a fault may set it before."""

SCHEDULED_AHEAD = timedelta(hours=6)
EVENT_TYPES = ("flight.scheduled", "flight.departed", "flight.arrived", "flight.cancelled", "weather.observed")


def flight_events(first: date, days: int, declarations: Declarations) -> pl.DataFrame:
    """Returns all events of the flights and the weather of the local days [first, first + days), in publish order.

    Events of such a flight after the last midnight are included. Raises BadInput NO_FLIGHTS if the range has no flight.
    """
    flights, weather = nycflights.flights(first, days), nycflights.weather(first, days)
    if flights.is_empty():
        raise BadInput(
            "NO_FLIGHTS",
            f"--from {first} --days {days} selects no flight",
            next_step="choose days from 2013-01-01 to 2013-12-31",
            first=str(first),
            days=days,
        )
    events = pl.concat(
        [
            _scheduled(flights, declarations),
            _departed(flights, declarations),
            _arrived(flights, declarations),
            _cancelled(flights, declarations),
            _observed(weather, declarations),
        ]
    )
    order = pl.col("event_type").replace_strict(
        {name: rank for rank, name in enumerate(EVENT_TYPES)}, return_dtype=pl.Int8
    )
    return events.sort("publish_time", order, "id")


def _scheduled(flights: pl.DataFrame, declarations: Declarations) -> pl.DataFrame:
    planned = pl.col("scheduled_departure") - SCHEDULED_AHEAD
    data = _flight_json(_time("scheduled_departure"), _time("scheduled_arrival"), _number("distance"))
    return _flight_events(flights, "flight.scheduled", planned, planned, data, declarations)


def _departed(flights: pl.DataFrame, declarations: Declarations) -> pl.DataFrame:
    about = pl.min_horizontal("scheduled_departure", "actual_departure")
    data = _flight_json(_time("scheduled_departure"), _time("actual_departure"), _number("dep_delay"))
    left = flights.filter(~pl.col("cancelled"))
    return _flight_events(left, "flight.departed", about, pl.col("actual_departure"), data, declarations)


def _arrived(flights: pl.DataFrame, declarations: Declarations) -> pl.DataFrame:
    about = pl.min_horizontal("scheduled_arrival", "actual_arrival")
    data = _flight_json(_time("scheduled_arrival"), _time("actual_arrival"), _number("arr_delay"), _number("air_time"))
    there = flights.filter(pl.col("arr_delay").is_not_null())
    return _flight_events(there, "flight.arrived", about, pl.col("actual_arrival"), data, declarations)


def _cancelled(flights: pl.DataFrame, declarations: Declarations) -> pl.DataFrame:
    planned = pl.col("scheduled_departure")
    data = _flight_json(_time("scheduled_departure"))
    return _flight_events(flights.filter("cancelled"), "flight.cancelled", planned, planned, data, declarations)


def _flight_events(
    flights: pl.DataFrame, kind: str, time: pl.Expr, published: pl.Expr, data: pl.Expr, declarations: Declarations
) -> pl.DataFrame:
    subject = pl.format("{}-{}-{}-{}", "carrier", "flight", "origin", "flight_date")
    return _events(flights, kind, subject, pl.format(kind + "/{}", subject), time, published, data, declarations)


def _observed(weather: pl.DataFrame, declarations: Declarations) -> pl.DataFrame:
    hour = pl.col("hour_start")
    measured = [_number(name) for name in weather.columns if name not in ("origin", "hour_start")]
    identity = pl.format("weather.observed/{}/{}", "origin", hour.dt.to_string("%Y-%m-%dT%H:%MZ"))
    return _events(
        weather,
        "weather.observed",
        pl.col("origin"),
        identity,
        hour,
        hour + timedelta(hours=1),
        _json_object(_text("origin"), *measured),
        declarations,
    )


def _events(  # one argument per column that differs between the types
    facts: pl.DataFrame,
    kind: str,
    subject: pl.Expr,
    identity: pl.Expr,
    time: pl.Expr,
    published: pl.Expr,
    data: pl.Expr,
    declarations: Declarations,
) -> pl.DataFrame:
    topic = declarations.topic_of(kind)
    columns = {
        "topic": pl.lit(topic.name),
        "key": subject,
        "event_type": pl.lit(kind),
        "publish_time": published,
        "id": identity,
        "source": pl.format("/nycflights13/{}", "origin"),
        "time": time,
        "senttime": pl.lit(None),
        "receivedtime": published,
        "dataschema": pl.lit(topic.newest(kind).uri),
        "data": data,
        "fault": pl.lit(None),
        "value": pl.lit(None),
    }
    return facts.select(expression.cast(COLUMNS[name]).alias(name) for name, expression in columns.items())


def _flight_json(*more: pl.Expr) -> pl.Expr:
    texts = [_text(name) for name in ("carrier", "origin", "dest", "tailnum")]
    return _json_object(_text("flight_date"), texts[0], _number("flight"), texts[3], texts[1], texts[2], *more)


def _json_object(*members: pl.Expr) -> pl.Expr:
    """A JSON object without the members that are null."""
    return pl.concat_str([pl.lit("{"), pl.concat_str(members, separator=",", ignore_nulls=True), pl.lit("}")])


def _text(column: str) -> pl.Expr:
    # No escaping: the tables have codes of letters and digits, and every event is checked before it is sent.
    return pl.format(f'"{column}":"{{}}"', column)


def _number(column: str) -> pl.Expr:
    return pl.format(f'"{column}":{{}}', column)


def _time(column: str) -> pl.Expr:
    return pl.format(f'"{column}":"{{}}"', instant(column))


def instant(column: str) -> pl.Expr:
    """A UTC instant as text, like ``2013-01-01T10:15:00Z``; with microseconds if they aren't zero."""
    whole = pl.col(column).dt.to_string("%Y-%m-%dT%H:%M:%SZ")
    exact = pl.col(column).dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ")
    return pl.when(pl.col(column).dt.microsecond() == 0).then(whole).otherwise(exact)
