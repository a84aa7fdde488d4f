"""Some flights of nine days in five epochs, a few of them late: enough for windows, weeks and joins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from support.landed_sample import Event

START = datetime(2013, 1, 1, tzinfo=UTC)


def flights() -> list[list[Event]]:
    """Departures and arrivals; each tenth one comes an epoch later than its neighbours, which is late."""
    epochs: list[list[Event]] = [[] for _ in range(5)]
    for n in range(180):
        at = START + timedelta(minutes=71 * n)
        flight = {"carrier": "AA", "flight": n % 9, "tailnum": f"N{n % 7}", "origin": "JFK" if n % 3 else "EWR"}
        mine = epochs[n // 45 + (n % 10 == 0)]
        departed = {**flight, "dest": "LAX", "dep_delay": n % 40}
        mine.append(Event("flight.departed", at, f"d{n}", departed))
        if n % 4:
            arrived = {**flight, "dest": "LAX", "arr_delay": n % 5}
            mine.append(Event("flight.arrived", at + timedelta(minutes=50), f"a{n}", arrived))
    return epochs
