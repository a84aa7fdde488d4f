"""Retire a view version that has no readers: first stop its reads and its stream, later delete its tables."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from anabranch.core.errors import BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.lake.layout import replay_checkpoints, replay_mirrors, speed_checkpoint, view_folder
from anabranch.lake.streams.stream_checkpoint import delete
from anabranch.serve._named_readers import named_readers
from anabranch.serve.routes import ACTIVE, Route, route_history, route_of, set_route
from anabranch.serve.served_versions import served_versions

GRACE = timedelta(days=7)
_SHOWN = 3


def retire(settings: Settings, view: str, version: int, *, by: str, why: str, grace: timedelta = GRACE) -> Route:
    """Retire a version: it can't be read from now on, its stream ends and no DAG repairs it. Its tables stay until
    ``drop``.

    Raises BadInput VERSION_UNKNOWN. Conflict MIGRATION_ACTIVE, READERS_LEFT (the route gives it a share), GRACE (it had
    readers, or was created, less than ``grace`` ago) or READERS_PINNED (somebody read it by its number within
    ``grace``): nothing was changed.
    """
    _check_known(settings, view, version)
    route = route_of(settings, view)
    if route is None or route.shares.get(version):
        share = route.shares[version] if route else 100
        raise _conflict("READERS_LEFT", view, version, f"{share} % of the view's readers have it", "move them first")
    if route.migration and route.migration["state"] in ACTIVE:
        what = f"a migration is moving the view's readers ({route})"
        raise _conflict("MIGRATION_ACTIVE", view, version, what, "wait until it ends")
    now = datetime.now(UTC)
    left = _readers_left_at(settings, view, version)
    if now - left < grace:
        wait = f"retire it after {left + grace:%Y-%m-%d %H:%M} UTC: until then a rollback may need it"
        raise _conflict("GRACE", view, version, f"it lost its last readers at {left:%Y-%m-%d %H:%M:%S} UTC", wait)
    pinned = named_readers(settings, view, version, now - grace)
    if pinned:
        names = ", ".join(f"{each.name} ({each.last:%Y-%m-%d %H:%M:%S} UTC)" for each in pinned[:_SHOWN])
        more = f" and {len(pinned) - _SHOWN} more" if len(pinned) > _SHOWN else ""
        what = f"it is read by its number by {names}{more}"
        raise _conflict("READERS_PINNED", view, version, what, "ask them to read without a version")
    return set_route(
        settings, view, route.shares, by=by, why=why, after=route.number, retired=route.retired | {version}
    )


def reinstate(settings: Settings, view: str, version: int, *, by: str, why: str) -> Route:
    """Undo a retirement. The stream continues where it was, or from history if the version was dropped. Raises Conflict
    NOT_RETIRED."""
    route = _retired_route(settings, view, version)
    return set_route(
        settings, view, route.shares, by=by, why=why, after=route.number, retired=route.retired - {version}
    )


def drop(settings: Settings, view: str, version: int) -> int:
    """Delete the tables and the checkpoint of a retired version, and return the bytes freed. Idempotent. Its
    certificates stay, as history. Raises Conflict NOT_RETIRED."""
    _retired_route(settings, view, version)
    folder = view_folder(settings, view, version)
    trash = folder.with_name(f".dropped-{folder.name}")
    if folder.exists():  # a drop that was killed may have left ``trash``
        shutil.rmtree(trash, ignore_errors=True)
        folder.rename(trash)
    freed = _bytes(trash)
    shutil.rmtree(trash, ignore_errors=True)
    delete(speed_checkpoint(settings, view, version))
    for of_replays in (replay_checkpoints, replay_mirrors):
        shutil.rmtree(of_replays(settings, view, version), ignore_errors=True)
    return freed


def retirement_text(before: Route | None, route: Route) -> str:
    """Return which versions a route retires or reinstates, compared with the one ``before`` it; "" if none."""
    had = before.retired if before else frozenset[int]()
    texts = [f"v{version} is retired" for version in sorted(route.retired - had)]
    return ", ".join([*texts, *(f"v{version} is reinstated" for version in sorted(had - route.retired))])


def size(settings: Settings, view: str, version: int) -> int:
    """Return the size of a version's tables in bytes."""
    return _bytes(view_folder(settings, view, version))


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _retired_route(settings: Settings, view: str, version: int) -> Route:
    """Return the view's newest route. Raises Conflict NOT_RETIRED if it doesn't retire the version."""
    route = route_of(settings, view)
    if route is None or version not in route.retired:
        raise Conflict(
            "NOT_RETIRED",
            f"{view} v{version} is not retired",
            state="nothing was changed",
            next_step=f"anabranch migrate retire {view} {version} --why ...",
        )
    return route


def _check_known(settings: Settings, view: str, version: int) -> None:
    versions = served_versions(settings, view)
    if version not in versions:
        raise BadInput(
            "VERSION_UNKNOWN",
            f"{view} v{version} has no table",
            state="nothing was changed",
            next_step=f"its versions with a table: {', '.join(f'v{each}' for each in versions) or 'none'}",
            field="version",
        )


def _readers_left_at(settings: Settings, view: str, version: int) -> datetime:
    """When the version lost its last readers; if it never had any, when the view's first route was set."""
    history = route_history(settings, view)
    had = [n for n, route in enumerate(history) if route.shares.get(version)]
    return history[had[-1] + 1 if had else 0].changed_at


def _conflict(code: str, view: str, version: int, what: str, next_step: str) -> Conflict:
    return Conflict(
        code, f"{view} v{version} can't be retired: {what}", state="nothing was changed", next_step=next_step
    )
