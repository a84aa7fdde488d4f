"""Read a view from a ``.sql`` file: comment lines that declare it, then one query.

    -- view: hourly_flights
    -- version: 1
    -- events: flight.departed
    -- key: origin, window_start
    -- partition by: window_start
    -- doc: Departures per hour and airport.
    SELECT origin, window.start AS window_start, count(*) AS flights
    FROM flight_departed
    GROUP BY origin, window(event_time, '1 hour')

The fields are the parameters of ``@view``, and ``doc``. The header ends at the first line that is no comment. A comment
line that begins with two or more spaces continues the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from anabranch.core.errors import BadDefinition
from anabranch.views.function_source import display_path

_FIELD: Final = re.compile(r"--[ \t]?([a-z][a-z _]*?)[ \t]*:(?:[ \t]+(.*))?")
_CONTINUED: Final = re.compile(r"--(?:[ \t]{2,}(.*)|[ \t]*)")
_LISTS: Final = ("events", "key", "tables")
_REQUIRED: Final = ("view", "version", "events", "key")
FIELDS: Final = (*_REQUIRED, "partition by", "lookback", "lookahead", "refresh", "closes", "tables", "doc")


@dataclass(frozen=True, slots=True)
class SqlFile:
    """``arguments``: those of ``@view``. ``line``: where the header begins. ``first_line``: where the query begins."""

    path: str
    arguments: Mapping[str, Any]
    doc: str
    text: str
    line: int
    first_line: int

    @property
    def tables(self) -> tuple[str, ...]:
        """What the query calls the events: ``flight_departed`` for ``flight.departed``."""
        return tuple(name.replace(".", "_") for name in (*self.arguments["events"], *self.arguments.get("tables", ())))


def read_sql_file(path: Path) -> SqlFile:
    """Raises BadDefinition VIEW_HEADER, with the line. Runs no Spark."""
    lines = path.read_text(encoding="utf-8").splitlines()
    begin = next((n for n, line in enumerate(lines) if line.strip()), 0)
    end = next((n for n in range(begin, len(lines)) if not lines[n].startswith("--")), len(lines))
    shown = display_path(str(path))
    fields = _fields(shown, begin, lines[begin:end])
    missing = [name for name in _REQUIRED if not fields.get(name, ("", 0))[0]]
    if missing:
        what = f"the header has no {', '.join(missing)}" if fields else "there is no header"
        _refuse(
            shown, begin + 1, what, "begin the file with: -- view: NAME, -- version: 1, -- events: ..., -- key: ..."
        )
    arguments = {"name" if name == "view" else name.replace(" ", "_"): value for name, value in _values(shown, fields)}
    doc = arguments.pop("doc", "")
    return SqlFile(str(path), arguments, doc, "\n".join(lines[end:]), begin + 1, end + 1)


def _fields(shown: str, begin: int, header: list[str]) -> dict[str, tuple[str, int]]:
    """The text and the line of each field."""
    found: dict[str, tuple[str, int]] = {}
    last = ""
    for number, line in enumerate(header, begin + 1):
        continued, field = _CONTINUED.fullmatch(line), _FIELD.fullmatch(line)
        if continued is not None and last:
            text, at = found[last]
            found[last] = (f"{text} {continued[1] or ''}".strip(), at)
            continue
        name = field[1].replace("_", " ") if field else ""
        if field is None or name not in FIELDS:
            what = f"{name!r} is no field of the header" if name else f"{line!r} is no field of the header"
            _refuse(shown, number, what, f"the fields are: {', '.join(FIELDS)}; a remark goes below an empty line")
        if name in found:
            _refuse(shown, number, f"{name!r} is given twice", "give each field once; a list is separated by commas")
        found[name], last = ((field[2] or "").strip(), number), name
    return found


def _values(shown: str, fields: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, Any]]:
    for name, (text, line) in fields.items():
        if name in _LISTS:
            yield name, tuple(part.strip() for part in text.split(",") if part.strip())
        elif name == "version":
            if not re.fullmatch(r"[0-9]{1,9}", text):
                _refuse(shown, line, f"version {text!r} is no number", "write 1, 2, 3, ...")
            yield name, int(text)
        elif name == "closes":
            if text not in ("true", "false"):
                _refuse(shown, line, f"closes {text!r}", "write true or false")
            yield name, text == "true"
        elif text:
            yield name, text


def _refuse(shown: str, line: int, what: str, next_step: str) -> NoReturn:
    raise BadDefinition(
        "VIEW_HEADER",
        f"{shown}:{line}: {what}",
        state="the view was not registered; nothing was written",
        next_step=next_step,
        file=shown,
        line=line,
    )
