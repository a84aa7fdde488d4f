"""The registered steps between contract versions, written once: ``control/contracts/<name>.v<N>-next.json``.

A step without an upcaster is registered too: adding one later would change rows that views computed from old events.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.contracts import Contract, Upcaster
from anabranch.contracts.model.contract_registry import check_registered, contract_folder
from anabranch.contracts.model.topics import Sources
from anabranch.core.control_file import ControlFile, renamed
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.views._fingerprint import code_text, definition_text
from anabranch.views._upcasting import check_upcaster, steps_of
from anabranch.views.function_source import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_DIFF_LINES = 12


@dataclass(frozen=True, slots=True)
class Step:
    """A registered step from one version of a contract to a later one. Without an upcaster the texts are empty."""

    name: str
    old: int
    new: int
    fingerprint: str
    definition: str


STEP: Final = ControlFile("step between contract versions", Step, (renamed({"from": "old", "to": "new"}),))


def register_upcasters(spark: SparkSession, settings: Settings, topics: Sources, event_types: Collection[str]) -> None:
    """Checks and persists new steps. Called at every start of a writer that reads these event types.

    Raises what ``_upcasting.check_upcaster`` raises; Conflict UPCASTER_CHANGED when a step differs from the registered
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
    known, now = STEP.read(path), _step(old, new, upcaster)
    if known is None:
        return False
    if (known.new, known.fingerprint) == (now.new, now.fingerprint):
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


def _difference(known: Step, now: Step) -> str:
    if known.new != now.new:
        return f": it led to v{known.new}"
    lines = list(difflib.unified_diff(known.definition.splitlines(), now.definition.splitlines(), n=0, lineterm=""))
    return "".join(f"\n    {line}" for line in lines[3 : 3 + _MAX_DIFF_LINES])


def _write(settings: Settings, old: Contract, new: Contract, upcaster: Upcaster | None) -> None:
    """Atomic: a crash leaves all of it or nothing. Of two concurrent writers the first wins; the second is compared."""
    if not STEP.create(_path(settings, old), _step(old, new, upcaster)):
        is_step_registered(settings, old, new, upcaster)


def _step(old: Contract, new: Contract, upcaster: Upcaster | None) -> Step:
    if upcaster is None:
        return Step(old.name, old.version, new.version, "", "")
    source = read(upcaster.function)
    fingerprint = hashlib.sha256(code_text(source).encode()).hexdigest()[:16]
    return Step(old.name, old.version, new.version, fingerprint, definition_text(source))


def _path(settings: Settings, old: Contract) -> Path:
    return contract_folder(settings) / f"{old.name}.v{old.version}-next.json"
