"""Read the registered declaration of a view version: its events, key, partitions and reach, without its code.

For callers without a project, and for those that must not run an author's code to answer a question about partitions.
"""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from typing import Any, NoReturn

from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.lake.layout import VersionRef
from anabranch.views.definition_registry import RECORD, record_path
from anabranch.views.model.definition import View

_LINE = re.compile(r"(events|key|partition_by|lookback|lookahead|refresh|closes|tables)=(.*)")
_TIMEDELTA = re.compile(r"(?:(\d+) days?, )?(\d+):(\d\d):(\d\d)(?:\.(\d{6}))?")


def registered_view(ref: VersionRef) -> View | None:
    """The registered declaration; None if this version was never registered. Its function can't be called.

    Raises BrokenState VIEW_RECORD when the record can't be read.
    """
    path = record_path(ref)
    try:
        record = RECORD.read(path)
        if record is None:
            return None
        return View(
            ref.name, ref.version, function=_no_code, fingerprint=record.fingerprint, **_parameters(record.definition)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SyntaxError, AnabranchError) as error:
        raise BrokenState(
            "VIEW_RECORD",
            f"{path}: the definition of {ref} can't be read: {error}",
            state="nothing was changed; the view's rows and its stream don't depend on this file",
            next_step="move the file away: anabranch up writes it again",
        ) from error


def _parameters(definition: str) -> dict[str, Any]:
    """Parses the lines before the code. Code lines don't match: they have spaces around their equals signs."""
    declared = dict[str, Any]()
    for line in definition.splitlines():
        found = _LINE.fullmatch(line)
        if found is None or found[1] in declared:
            break
        declared[found[1]] = ast.literal_eval(found[2])
    durations = {name: _timedelta(declared[name]) for name in ("lookback", "lookahead")}
    tuples = {name: tuple(declared[name]) for name in ("events", "key")} | {"tables": tuple(declared.get("tables", ()))}
    return {**declared, **durations, **tuples}


def _timedelta(text: str) -> timedelta:
    """Parses ``str(timedelta)``."""
    found = _TIMEDELTA.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} isn't a duration")
    days, hours, minutes, seconds, micros = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)


def _no_code(*_: object) -> NoReturn:
    raise NotImplementedError("this view was read from its registered declaration, which has no code")
