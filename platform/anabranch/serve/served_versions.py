"""Which views and versions there are to read: what the lake holds, not what the code declares."""

from __future__ import annotations

from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake.layout import safe_name, speed_table, view_folder
from anabranch.serve.table_snapshots import Snapshot, snapshot


def served_views(settings: Settings) -> list[str]:
    """The names of all views that have a table."""
    return sorted(path.name for path in (settings.lake / "views").glob("*") if path.is_dir())


def served_versions(settings: Settings, view: str) -> list[int]:
    """The versions of one view, newest first."""
    folder = view_folder(settings, view, 1).parent
    return sorted((int(path.name[1:]) for path in folder.glob("v*") if path.name[1:].isdecimal()), reverse=True)


def newest_speed(settings: Settings, view: str, version: int | None, *, first: bool = False) -> tuple[int, Snapshot]:
    """The speed half of ``version``; without one, of the newest (or ``first``) version that covers anything yet.

    BadInput VIEW_UNKNOWN lists what there is; TryAgain VIEW_NOT_READY: its stream has not committed yet.
    """
    candidates = served_versions(settings, safe_name(view, "view")) if version is None else [version]
    found = False
    for candidate in sorted(candidates, reverse=not first):
        half = snapshot(speed_table(settings, view, candidate))
        if half is not None and any(p.epoch for p in half.newest.note.cut.positions.values()):
            return candidate, half
        found = found or half is not None
    if found:
        raise TryAgain(
            "VIEW_NOT_READY",
            f"no micro-batch of {view} has been committed yet",
            state="its speed table is there and covers nothing",
            next_step="anabranch status shows whether its stream runs",
            view=view,
        )
    known = [f"{name} v{v}" for name in served_views(settings) for v in served_versions(settings, name)]
    raise BadInput(
        "VIEW_UNKNOWN",
        f"there is no view {view}{'' if version is None else f' v{version}'} to read",
        next_step=f"there are: {', '.join(known) or 'none yet; make up starts the streams'}",
        view=view,
        version=version,
    )
