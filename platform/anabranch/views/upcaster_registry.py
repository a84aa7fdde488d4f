"""What each step between two versions of a contract was, written down: ``control/contracts/<name>.v<N>-next.json``.

A step without an upcaster is one as well: to add one later would change what views have made of the old events.
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

_SHOWN = 12


def register_upcasters(spark: SparkSession, settings: Settings, topics: Sources, event_types: Collection[str]) -> None:
    """Check the steps that were never checked and write them down, at every start of a writer that reads these types.

    Raises as ``upcasting.check_upcaster``; Conflict UPCASTER_CHANGED where a step is written down as another one,
    CONTRACT_CHANGED and CONTRACT_VANISHED as landing does.
    """
    for topic in topics.each:
        check_registered(settings, topic)
    for topic, old, new, upcaster in steps_of(topics, event_types):
        if not is_written(settings, old, new, upcaster):
            if upcaster is not None:
                check_upcaster(spark, topic, old, new, upcaster)
            _write(settings, old, new, upcaster)


def is_written(settings: Settings, old: Contract, new: Contract, upcaster: Upcaster | None) -> bool:
    """Whether this step is written down. Conflict UPCASTER_CHANGED: as another one."""
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
        f"the step from {old.name} v{old.version} to v{new.version} isn't what was registered{_difference(known, now)}",
        state="what views have made of the older events stays; nothing was written",
        next_step=f"undo the change. To mend a wrong one: declare every view that reads {old.name} as a new version, "
        f"and remove {path}",
        contract=old.name,
        version=old.version,
    )


def _difference(known: dict[str, Any], now: dict[str, Any]) -> str:
    if known["to"] != now["to"]:
        return f": it led to v{known['to']}"
    lines = list(
        difflib.unified_diff(known["definition"].splitlines(), now["definition"].splitlines(), n=0, lineterm="")
    )
    return "".join(f"\n    {line}" for line in lines[3 : 3 + _SHOWN])


def _write(settings: Settings, old: Contract, new: Contract, upcaster: Upcaster | None) -> None:
    """Of two writers at once the first wins, and the second is compared. A crash leaves nothing, or all of it."""
    target = _path(settings, old)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid4().hex}")
    draft.write_text(json.dumps(_content(old, new, upcaster), indent=1))
    try:
        os.link(draft, target)
    except FileExistsError:
        is_written(settings, old, new, upcaster)
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
