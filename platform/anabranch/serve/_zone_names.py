"""Times that name their zone (``2013-11-03 01:30:00 America/New_York``): whether all engines read one as the same
instant.

When clocks are set back an hour comes twice, and when they are set ahead one doesn't come: DuckDB and Spark then choose
different instants.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

_NAMED: Final = re.compile(
    r"\s*(\d+)-(\d+)-(\d+)[ T](\d+):(\d+)(?::(\d+))?[.\d]* (?!UTC\b)(?P<zone>[A-Za-z_/]+)\s*", re.ASCII
)
_CALENDAR: Final = 400
"""Years after which the calendar, and so the days on which clocks are changed, come again."""


def problem_of_zone(text: str) -> str:
    """Why ``text``, a date and a time of day, is no single instant; empty if it is one, or names no zone."""
    found = _NAMED.fullmatch(text)
    if found is None:
        return ""
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    year = year if year < 9_600 else 9_600 + year % _CALENDAR
    try:
        time = datetime(year, month, day, hour, minute, second, tzinfo=ZoneInfo(found["zone"]))
        before, after = (time.replace(fold=fold).utcoffset() for fold in (0, 1))
    except (ValueError, LookupError, OSError):
        return f"{found['zone']} is no time zone that is known here, or has no such time"
    return "" if before == after else f"clocks are changed then in {found['zone']}: it is two times, or none"
