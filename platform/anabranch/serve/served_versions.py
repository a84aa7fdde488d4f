"""The views and versions that can be read, by the tables in the lake, not by the declared definitions."""

from __future__ import annotations

from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.core.storage import listed, storage_of
from anabranch.lake.layout import VersionRef, safe_name
from anabranch.serve.table_snapshots import Snapshot, snapshot


def served_views(settings: Settings) -> list[str]:
    """Return the names of all views that have a table. Folders that can't be a view's are passed over."""
    folders = (path for path in listed(settings.lake / "views") if SAFE_NAME.fullmatch(path.name))
    return [path.name for path in folders if storage_of(path).holds(path)]


def served_versions(settings: Settings, view: str) -> list[int]:
    """Return the versions of one view that have a table, newest first."""
    numbers = (path.name[1:] for path in listed(VersionRef(settings, view, 1).folder.parent, "v*"))
    known = [VersionRef(settings, view, int(number)) for number in numbers if number.isdecimal() and int(number) > 0]
    there = [ref.version for ref in known if not storage_of(ref.dropping).exists(ref.dropping)]
    return sorted(there, reverse=True)


def newest_speed(settings: Settings, view: str, version: int | None, *, first: bool = False) -> tuple[int, Snapshot]:
    """Return the speed half of ``version``; without one, of the newest (``first``: oldest) version that has data.

    Raises BadInput VIEW_UNKNOWN, which lists the known versions; TryAgain VIEW_NOT_READY if the stream has not
    committed yet.
    """
    candidates = served_versions(settings, safe_name(view, "view")) if version is None else [version]
    exists = False
    for candidate in sorted(candidates, reverse=not first):
        half = snapshot(VersionRef(settings, view, candidate).speed_table)
        if half is not None and any(p.epoch for p in half.newest.note.cut.positions.values()):
            return candidate, half
        exists = exists or half is not None
    if exists:
        raise TryAgain(
            "VIEW_NOT_READY",
            f"no micro-batch of {view} has been committed yet",
            state="its speed table exists, but covers nothing",
            next_step="anabranch status shows whether its stream runs",
            view=view,
        )
    known = [f"{name} v{v}" for name in served_views(settings) for v in served_versions(settings, name)]
    raise BadInput(
        "VIEW_UNKNOWN",
        f"there is no view {view}{'' if version is None else f' v{version}'} to read",
        next_step=f"views that can be read: {', '.join(known) or 'none yet; make up starts the streams'}",
        view=view,
        version=version,
    )
