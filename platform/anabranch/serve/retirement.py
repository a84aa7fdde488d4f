"""Retire a view version that has no readers: first stop its reads and its stream, later delete its tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

from anabranch.core.atomic_files import locked
from anabranch.core.clocks import read_clock, unjumped
from anabranch.core.errors import BadInput, Conflict
from anabranch.core.storage import listed, storage_of
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef
from anabranch.lake.streams.stream_checkpoint import delete
from anabranch.serve._named_readers import named_readers
from anabranch.serve.routes import ACTIVE, Route, oldest_version, route_history, route_of, set_route, share_of
from anabranch.serve.served_versions import served_versions

GRACE = timedelta(days=7)
_SHOWN = 3


def retire(ref: VersionRef, *, by: str, why: str, grace: timedelta = GRACE) -> Route:
    """Retire a version: it can't be read from now on, its stream ends and no DAG repairs it. Its tables stay until
    ``drop``.

    Raises BadInput VERSION_UNKNOWN, or DURATION_WRONG for a ``grace`` that leaves the calendar. Conflict
    MIGRATION_ACTIVE, READERS_LEFT (the route gives it a share), GRACE (it had readers, or was created, less than
    ``grace`` ago) or READERS_PINNED (somebody read it by its number within ``grace``); BrokenState CLOCK_UNREADABLE:
    nothing was changed. A clock that was set ahead makes no grace shorter, as far as it is seen (``core.clocks``).
    """
    _check_known(ref)
    _check_grace(grace)
    history = route_history(ref.settings, ref.name)
    route = history[-1] if history else None
    if share := share_of(ref) if route is None else route.shares.get(ref.version, 0):
        raise _conflict("READERS_LEFT", ref, f"{share} % of the view's readers have it", "move them first")
    if route is None:
        oldest = oldest_version(ref.settings, ref.name)
        what, first = f"its readers have v{oldest} because no route is set", f"{ref.name} {oldest}=100"
        raise _conflict("READERS_LEFT", ref, what, f"set one first: anabranch routes set {first}")
    if route.migration and route.migration["state"] in ACTIVE:
        what = f"a migration is moving the view's readers ({route})"
        raise _conflict("MIGRATION_ACTIVE", ref, what, "wait until it ends")
    now = datetime.fromtimestamp(unjumped(read_clock(ref.settings)), UTC)
    left = _readers_left_at(ref, history)
    if max(now - left, timedelta(0)) < grace:  # the clock may have been set back since
        wait = f"retire it after {left + grace:%Y-%m-%d %H:%M} UTC: until then a rollback may need it"
        raise _conflict("GRACE", ref, f"it has been without readers only since {left:%Y-%m-%d %H:%M:%S} UTC", wait)
    pinned = named_readers(ref, now - grace) if grace else []
    if pinned:
        names = ", ".join(f"{each.name} ({each.last:%Y-%m-%d %H:%M:%S} UTC)" for each in pinned[:_SHOWN])
        more = f" and {len(pinned) - _SHOWN} more" if len(pinned) > _SHOWN else ""
        what = f"it is read by its number by {names}{more}"
        raise _conflict("READERS_PINNED", ref, what, "ask them to read without a version")
    return set_route(
        ref.settings, ref.name, route.shares, by=by, why=why, after=route.number, retired=route.retired | {ref.version}
    )


def reinstate(ref: VersionRef, *, by: str, why: str) -> Route:
    """Undo a retirement. The stream continues where it was, or from history if the version was dropped; a drop that was
    killed is completed. For people: ``change.replay.control.reinstate_version``, which looks after replays. Raises
    Conflict NOT_RETIRED, or DROP_RUNNING."""
    _retired_route(ref)
    with _only_drop(ref):
        route = _retired_route(ref)  # again: as it is now
        if storage_of(ref.dropping).exists(ref.dropping):
            _delete(ref)
        retired = route.retired - {ref.version}
        return set_route(ref.settings, ref.name, route.shares, by=by, why=why, after=route.number, retired=retired)


def drop(ref: VersionRef) -> int:
    """Delete the tables and the checkpoint of a retired version, and return the bytes freed. Its tables count as gone
    from its begin on; after a kill, call it again. Its certificates stay, as history. Raises Conflict NOT_RETIRED, or
    DROP_RUNNING."""
    _retired_route(ref)
    with _only_drop(ref):
        _retired_route(ref)
        return _delete(ref)


def _delete(ref: VersionRef) -> int:
    storage = storage_of(ref.folder)
    if storage.holds(ref.folder):
        storage.write(ref.dropping, b"")
    freed = size(ref)
    # Earlier versions renamed the folder first, and a killed one left it.
    leftover = ref.folder.with_name(f".dropped-{ref.folder.name}")
    for folder in (leftover, ref.replay_checkpoints, ref.replay_mirrors):
        storage_of(folder).clear(folder)
    delete(ref.speed_checkpoint)
    for path in listed(ref.folder):
        if path == ref.dropping:  # it goes last: as long as it is there, the next call completes this one
            continue
        if storage.holds(path):
            storage.clear(path)
        else:  # a draft, for example, whose writer was killed
            storage.remove(path)
    storage.clear(ref.folder)
    return freed


def _only_drop(ref: VersionRef) -> AbstractContextManager[None]:
    """A version is dropped by one process, and not reinstated meanwhile. Raises Conflict DROP_RUNNING."""
    refusal = Conflict(
        "DROP_RUNNING",
        f"{ref} is being dropped or reinstated by another process",
        state="nothing was changed",
        next_step="wait until it has ended, then look at the version's state and decide again",
    )
    return locked(ref.settings.locks / f"drop-{ref.name}-v{ref.version}", refusal=refusal)


def retirement_text(before: Route | None, route: Route) -> str:
    """Return which versions a route retires or reinstates, compared with the one ``before`` it; "" if none."""
    had = before.retired if before else frozenset[int]()
    texts = [f"v{version} is retired" for version in sorted(route.retired - had)]
    return ", ".join([*texts, *(f"v{version} is reinstated" for version in sorted(had - route.retired))])


def size(ref: VersionRef) -> int:
    """Return the size of a version's tables in bytes."""
    return sum(entry.size for entry in storage_of(ref.folder).entries(ref.folder))


def _retired_route(ref: VersionRef) -> Route:
    """Return the view's newest route. Raises Conflict NOT_RETIRED if it doesn't retire the version."""
    route = route_of(ref.settings, ref.name)
    if route is None or ref.version not in route.retired:
        raise Conflict(
            "NOT_RETIRED",
            f"{ref} is not retired",
            state="nothing was changed",
            next_step=f"anabranch migrate retire {ref.name} {ref.version} --why ...",
        )
    return route


def _check_known(ref: VersionRef) -> None:
    versions = served_versions(ref.settings, ref.name)
    if ref.version not in versions:
        raise BadInput(
            "VERSION_UNKNOWN",
            f"{ref} has no table",
            state="nothing was changed",
            next_step=f"its versions with a table: {', '.join(f'v{each}' for each in versions) or 'none'}",
            field="version",
        )


def _check_grace(grace: timedelta) -> None:
    """Both ends are needed: the moment since when nobody may have read it, and the one from which it may be retired."""
    now = datetime.now(UTC)
    try:
        _ = now - grace, now + grace
    except OverflowError:
        raise BadInput(
            "DURATION_WRONG",
            f"a grace of {grace.days:,} days leaves the calendar",
            state="nothing was changed",
            next_step="write '7 days'",
            field="grace",
        ) from None


def _readers_left_at(ref: VersionRef, history: Sequence[Route]) -> datetime:
    """When the version, which has no readers in the newest route, lost its last ones; if it never had any, when the
    view's first route was set, or the version was created, if that was later."""
    had = [n for n, route in enumerate(history) if route.shares.get(ref.version)]
    left, table = history[had[-1] + 1 if had else 0].changed_at, open_table(ref.speed_table)
    created_ms = table.metadata().created_time if table is not None else None
    return left if created_ms is None else max(left, datetime.fromtimestamp(created_ms / 1000, UTC))


def _conflict(code: str, ref: VersionRef, what: str, next_step: str) -> Conflict:
    return Conflict(code, f"{ref} can't be retired: {what}", state="nothing was changed", next_step=next_step)
