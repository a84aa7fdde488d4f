"""A version of a view as it was registered: what it reads and how far its partitions reach, without its code.

For who has no project at hand, or won't run an author's code for a question about partitions.
"""

from __future__ import annotations

import ast
import json
import re
from datetime import timedelta
from typing import Any, NoReturn

from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.core.settings import Settings
from anabranch.lake.layout import safe_name
from anabranch.views.definition import View
from anabranch.views.definition_registry import record_file

_LINE = re.compile(r"(events|key|partition_by|lookback|lookahead|refresh|closes|tables)=(.*)")
_SPAN = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d)(?:\.(\d{6}))?")


def written_view(settings: Settings, name: str, version: int) -> View | None:
    """The declaration that is written down; None where this version was never registered. Its function can't be called.

    BrokenState VIEW_RECORD where the record can't be read.
    """
    path = record_file(settings, safe_name(name, "view"), int(version))
    try:
        record = json.loads(path.read_text())
        return View(name, version, function=_no_code, fingerprint=record["fingerprint"], **_said(record["definition"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SyntaxError, AnabranchError) as error:
        raise BrokenState(
            "VIEW_RECORD",
            f"{path}: the definition of {name} v{version} can't be read: {error}",
            state="nothing was changed; its rows and its stream don't depend on it",
            next_step="move the file away: anabranch up writes it down again",
        ) from error


def _said(definition: str) -> dict[str, Any]:
    """The parameters of the declaration: the lines before the code, which has spaces around its equals signs."""
    said = dict[str, Any]()
    for line in definition.splitlines():
        found = _LINE.fullmatch(line)
        if found is None or found[1] in said:
            break
        said[found[1]] = ast.literal_eval(found[2])
    durations = {name: _span(said[name]) for name in ("lookback", "lookahead")}
    tuples = {name: tuple(said[name]) for name in ("events", "key")} | {"tables": tuple(said.get("tables", ()))}
    return {**said, **durations, **tuples}


def _span(text: str) -> timedelta:
    """What ``str`` makes of a duration."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration")
    days, hours, minutes, seconds, micros = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)


def _no_code(*_: object) -> NoReturn:
    raise NotImplementedError("this is a declaration without its code")
