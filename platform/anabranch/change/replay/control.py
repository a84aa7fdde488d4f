"""One replay of a view version at a time, and what people may do to it while it runs or waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from anabranch.change.replay.cleanup import finish
from anabranch.change.replay.publish import published
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.state import CANCELLED, PUBLISHED, ReplayState, cancelled, change_wish, standings
from anabranch.core.atomic_files import locked
from anabranch.core.errors import BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.lake.layout import view_folder
from anabranch.views.definition import View


@contextmanager
def exclusive(settings: Settings, view: View, run: str) -> Iterator[None]:
    """Hold the lock of this version's replays; it goes with the process. Conflict REPLAY_RUNNING."""
    with hold(settings, view.name, view.version):
        waiting = [s.run for s in standings(settings, view.name, view.version) if not s.ended and s.run != run]
        if waiting:
            what = f"replay {waiting[0]} of it has not ended"
            raise _running(view.name, view.version, what, "clear its run, so that it goes on")
        yield


def active_replay(settings: Settings, view: str, version: int) -> ReplayState:
    """The replay that runs, or that was killed and waits. BadInput NO_REPLAY."""
    found = [standing for standing in standings(settings, view, version) if not standing.ended]
    if not found:
        raise BadInput(
            "NO_REPLAY",
            f"no replay of {view} v{version} is under way",
            state="nothing was changed",
            next_step=f"anabranch replay status {view}",
        )
    return found[-1]


def set_pace(settings: Settings, standing: ReplayState, pace: Pace) -> None:
    """Let it go on at another pace, from its next slice on. One that is cancelled stays so."""
    change_wish(settings, standing, lambda wanted: replace(wanted, pace=pace))


def cancel(settings: Settings, view: str, version: int, by: str) -> ReplayState:
    """End the replay, and leave nothing of it: at once where it was killed, else before its next slice or step; what is
    published by then stays. BadInput NO_REPLAY."""
    standing = active_replay(settings, view, version)
    change_wish(settings, standing, lambda wanted: replace(wanted, cancelled_by=by))
    try:
        with hold(settings, view, version):
            if published(settings, view, version, standing.run, standing.began_at):
                return finish(settings, standing, PUBLISHED, "published before it was cancelled")
            return finish(settings, standing, CANCELLED, cancelled(by))
    except Conflict:
        return standing


@contextmanager
def hold(settings: Settings, view: str, version: int) -> Iterator[None]:
    """The lock of a version's replays. Conflict REPLAY_RUNNING."""
    view_folder(settings, view, version)  # checks the names
    with ExitStack() as held:
        try:
            held.enter_context(locked(settings.locks / f"replay-{view}-v{version}"))
        except BlockingIOError:
            raise _running(view, version, "another replay of it runs", "wait for it") from None
        yield


def _running(view: str, version: int, what: str, next_step: str) -> Conflict:
    return Conflict(
        "REPLAY_RUNNING",
        f"{view} v{version}: {what}",
        state="nothing was started",
        next_step=f"{next_step}, or cancel it: anabranch replay cancel {view} --version {version}",
        view=view,
        version=version,
    )
