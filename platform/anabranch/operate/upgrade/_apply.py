"""Carries out an upgrade. Each change is atomic and safe to repeat, so after a kill the next call does what is left."""

from __future__ import annotations

from pathlib import Path

from anabranch.certify.certificates import grow_table
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.atomic_files import locked
from anabranch.core.errors import Conflict
from anabranch.core.home_format import HOME, mark_home
from anabranch.core.settings import Settings
from anabranch.ingest.landing.state import open_landing
from anabranch.ingest.landing.stream import take_turn
from anabranch.lake.layout import certificates_table
from anabranch.lake.streams.stream_checkpoint import CHECKPOINT, name_format
from anabranch.operate.runtime import process_registry
from anabranch.operate.upgrade._places import CERTIFICATES, LANDING, Place, place_of
from anabranch.operate.upgrade._plan import Change, Plan, plan_upgrade


def apply_upgrade(settings: Settings, declared: Declarations) -> Plan:
    """Upgrades the home, and returns what was done. Raises Conflict UPGRADE_RUNNING while any part of the platform or
    another upgrade runs, and what ``plan_upgrade`` raises: nothing is changed then."""
    with locked(settings.locks / "upgrade", refusal=_running(settings, "another upgrade", "wait for it")):
        parts = sorted(r.name for r in process_registry.read(settings).values() if process_registry.family(r))
        if parts:
            raise _running(settings, ", ".join(parts), "anabranch down, then anabranch upgrade")
        plan = plan_upgrade(settings, declared)
        for change in plan.changes:
            if not change.refused:
                _apply(settings, declared, change)
        return plan


def _apply(settings: Settings, declared: Declarations, change: Change) -> None:
    path = settings.home / change.path
    if change.kind == HOME.kind:
        mark_home(settings.home)
    elif change.kind == CHECKPOINT.kind:
        name_format(path)
    elif change.kind == LANDING:
        topic = declared.topic(path.name)
        take_turn(settings, topic)  # one that was started manually ends, as at the start of another one
        open_landing(settings, topic)
    elif change.kind == CERTIFICATES:
        grow_table(certificates_table(settings))
    elif (place := place_of(change.path)) is not None:
        _rewrite(path, place)


def _rewrite(path: Path, place: Place) -> None:
    if place.numbered:
        place.file.change(path.with_suffix(""), lambda value: value)
        return
    value = place.file.read(path)
    if value is None:
        return
    if path.name.endswith(".wish.json"):  # the requests of a replay became numbered states
        place.file.change(path.with_suffix(""), lambda known: known or value)
        path.unlink(missing_ok=True)
    else:
        place.file.write(path, value)


def _running(settings: Settings, what: str, next_step: str) -> Conflict:
    return Conflict(
        "UPGRADE_RUNNING",
        f"{what} runs in {settings.home}",
        state="nothing was changed",
        next_step=next_step,
    )
