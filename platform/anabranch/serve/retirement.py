"""Taking a version away that nobody reads any more: first from readers and streams, later from the disk."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from anabranch.core.errors import BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.lake.layout import replay_checkpoints, replay_mirrors, speed_checkpoint, view_folder
from anabranch.lake.stream_checkpoint import delete
from anabranch.serve.named_readers import named_readers
from anabranch.serve.routes import ACTIVE, Route, route_history, route_of, set_route
from anabranch.serve.served_versions import served_versions

GRACE = timedelta(days=7)
_SHOWN = 3


def retire(settings: Settings, view: str, version: int, *, by: str, why: str, grace: timedelta = GRACE) -> Route:
    """From now on nobody gets this version, its stream ends and no DAG repairs it; its tables stay until ``drop``.

    BadInput VERSION_UNKNOWN. Conflict MIGRATION_ACTIVE, READERS_LEFT (the route gives it a share), GRACE (it had one,
    or it was made, less than ``grace`` ago) or READERS_PINNED (somebody has named it within ``grace``): nothing was
    changed.
    """
    _known(settings, view, version)
    route = route_of(settings, view)
    if route is None or route.shares.get(version):
        share = route.shares[version] if route else 100
        raise _refused("READERS_LEFT", view, version, f"{share} % of its readers have it", "lead them away first")
    if route.migration and route.migration["state"] in ACTIVE:
        raise _refused("MIGRATION_ACTIVE", view, version, f"a migration moves its readers ({route})", "let it end")
    now = datetime.now(UTC)
    left = _left(settings, view, version)
    if now - left < grace:
        wait = f"retire it after {left + grace:%Y-%m-%d %H:%M} UTC: until then a rollback may need it"
        raise _refused("GRACE", view, version, f"it lost its last readers at {left:%Y-%m-%d %H:%M:%S} UTC", wait)
    pinned = named_readers(settings, view, version, now - grace)
    if pinned:
        told = ", ".join(f"{each.name} ({each.last:%Y-%m-%d %H:%M:%S} UTC)" for each in pinned[:_SHOWN])
        more = f" and {len(pinned) - _SHOWN} more" if len(pinned) > _SHOWN else ""
        raise _refused("READERS_PINNED", view, version, f"named by {told}{more}", "ask them to read without a version")
    return set_route(
        settings, view, route.shares, by=by, why=why, after=route.number, retired=route.retired | {version}
    )


def reinstate(settings: Settings, view: str, version: int, *, by: str, why: str) -> Route:
    """Take a retirement back: the stream goes on where it was, or from history when the version was dropped. Conflict
    NOT_RETIRED."""
    route = _retired(settings, view, version)
    return set_route(
        settings, view, route.shares, by=by, why=why, after=route.number, retired=route.retired - {version}
    )


def drop(settings: Settings, view: str, version: int) -> int:
    """Delete the tables and the checkpoint of a retired version; the bytes that were freed. May be repeated. Conflict
    NOT_RETIRED. Its certificates stay: they are history."""
    _retired(settings, view, version)
    folder = view_folder(settings, view, version)
    gone = folder.with_name(f".dropped-{folder.name}")
    if folder.exists():  # a killed one has left ``gone`` behind
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
    freed = _bytes(gone)
    shutil.rmtree(gone, ignore_errors=True)
    delete(speed_checkpoint(settings, view, version))
    for beside in (replay_checkpoints, replay_mirrors):
        shutil.rmtree(beside(settings, view, version), ignore_errors=True)
    return freed


def size(settings: Settings, view: str, version: int) -> int:
    """How many bytes the tables of a version hold."""
    return _bytes(view_folder(settings, view, version))


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _retired(settings: Settings, view: str, version: int) -> Route:
    route = route_of(settings, view)
    if route is None or version not in route.retired:
        raise Conflict(
            "NOT_RETIRED",
            f"{view} v{version} is not retired",
            state="nothing was changed",
            next_step=f"anabranch migrate retire {view} {version} --why ...",
        )
    return route


def _known(settings: Settings, view: str, version: int) -> None:
    versions = served_versions(settings, view)
    if version not in versions:
        raise BadInput(
            "VERSION_UNKNOWN",
            f"{view} v{version} has no table",
            state="nothing was changed",
            next_step=f"there are: {', '.join(f'v{each}' for each in versions) or 'none'}",
            field="version",
        )


def _left(settings: Settings, view: str, version: int) -> datetime:
    """When the route took the last readers away from a version; when the first route was set, if it never had any."""
    history = route_history(settings, view)
    had = [n for n, route in enumerate(history) if route.shares.get(version)]
    return history[had[-1] + 1 if had else 0].changed_at


def _refused(code: str, view: str, version: int, what: str, next_step: str) -> Conflict:
    return Conflict(
        code, f"{view} v{version} can't be retired: {what}", state="nothing was changed", next_step=next_step
    )
