"""The registered steps between contract versions, written once: ``control/contracts/<name>.v<N>-next.json``.

A step without an upcaster is registered too: adding one later would change rows that views computed from old events.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from anabranch.contracts import Contract, Sources, Upcaster
from anabranch.contracts.contract_registry import check_registered, contract_folder
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.views.fingerprint import code_text, definition_text
from anabranch.views.function_source import read
from anabranch.views.upcasting import check_upcaster, steps_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_DIFF_LINES = 12


def register_upcasters(spark: SparkSession, settings: Settings, topics: Sources, event_types: Collection[str]) -> None:
    """Checks and persists new steps. Called at every start of a writer that reads these event types.

    Raises what ``upcasting.check_upcaster`` raises; Conflict UPCASTER_CHANGED when a step differs from the registered
    one; CONTRACT_CHANGED and CONTRACT_VANISHED as landing does.
    """
    for topic in topics.each:
        check_registered(settings, topic)
    for topic, old, new, upcaster in steps_of(topics, event_types):
        if not is_step_registered(settings, old, new, upcaster):
            if upcaster is not None:
                check_upcaster(spark, topic, old, new, upcaster)
            _write(settings, old, new, upcaster)


def is_step_registered(settings: Settings, old: Contract, new: Contract, upcaster: Upcaster | None) -> bool:
    """Whether this step is registered. Raises Conflict UPCASTER_CHANGED when another one is registered."""
    path = _path(settings, old)
    try:
        known = json.loads(path.read_text())
    except FileNotFoundError:
        return False
    now = _content(old, new, upcaster)
    if (known["to"], known["fingerprint"]) == (now["to"], now["fingerprint"]):
        return True
    raise Conflict(
        "UPCASTER_CHANGED",
        f"the step from {old.name} v{old.version} to v{new.version} differs from the registered one"
        f"{_difference(known, now)}",
        state="rows that views computed from the older events are unchanged; nothing was written",
        next_step=f"undo the change. To correct a wrong upcaster: declare every view that reads {old.name} as a new "
        f"version, and remove {path}",
        contract=old.name,
        version=old.version,
    )


def _difference(known: dict[str, Any], now: dict[str, Any]) -> str:
    if known["to"] != now["to"]:
        return f": it led to v{known['to']}"
    lines = list(
        difflib.unified_diff(known["definition"].splitlines(), now["definition"].splitlines(), n=0, lineterm="")
    )
    return "".join(f"\n    {line}" for line in lines[3 : 3 + _MAX_DIFF_LINES])


def _write(settings: Settings, old: Contract, new: Contract, upcaster: Upcaster | None) -> None:
    """Atomic: a crash leaves all of it or nothing. Of two concurrent writers the first wins; the second is compared."""
    target = _path(settings, old)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    draft.write_text(json.dumps(_content(old, new, upcaster), indent=1))
    try:
        os.link(draft, target)
    except FileExistsError:
        is_step_registered(settings, old, new, upcaster)
    finally:
        draft.unlink()


def _content(old: Contract, new: Contract, upcaster: Upcaster | None) -> dict[str, Any]:
    source = read(upcaster.function) if upcaster is not None else None
    text = code_text(source) if source is not None else ""
    return {
        "name": old.name,
        "from": old.version,
        "to": new.version,
        "fingerprint": hashlib.sha256(text.encode()).hexdigest()[:16] if source is not None else "",
        "definition": definition_text(source) if source is not None else "",
    }


def _path(settings: Settings, old: Contract) -> Path:
    return contract_folder(settings) / f"{old.name}.v{old.version}-next.json"
