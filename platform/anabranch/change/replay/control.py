"""The lock that allows one replay per view version, and what people can do to an active replay: change pace, cancel it,
drop or reinstate its version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from anabranch.change.replay.cleanup import delete_files, finish, incompletely_deleted
from anabranch.change.replay.publish import is_published
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.state import (
    CANCELLED,
    PUBLISHED,
    ReplayState,
    cancelled_text,
    list_states,
    read_state,
    update_control,
)
from anabranch.core.atomic_files import is_held, locked
from anabranch.core.errors import BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.lake.layout import VersionRef
from anabranch.serve.retirement import drop, reinstate
from anabranch.serve.routes import Route
from anabranch.views.retired_versions import retired_versions


@contextmanager
def exclusive(ref: VersionRef, run: str) -> Iterator[None]:
    """Hold the lock of this version's replays; a killed process releases it. Raises Conflict REPLAY_RUNNING if another
    replay runs, or was killed and hasn't ended."""
    with replay_lock(ref):
        waiting = [s.run for s in list_states(ref) if not s.ended and s.run != run]
        if waiting:
            what = f"replay {waiting[0]} of it has not ended"
            raise _running(ref, what, "clear its task replay in Airflow, so that it continues")
        for state in incompletely_deleted(ref):
            delete_files(ref.settings, state)
        yield


def complete_deletion(ref: VersionRef) -> None:
    """Delete what ended replays of this version have left because of a kill, unless a replay runs, which does that."""
    if incompletely_deleted(ref):
        with suppress(Conflict), replay_lock(ref):
            for state in incompletely_deleted(ref):
                delete_files(ref.settings, state)


def active_replay(ref: VersionRef, run: str = "") -> ReplayState:
    """Return the replay that runs, or was killed and hasn't ended. Raises BadInput NO_REPLAY, or Conflict
    REPLAY_CHANGED if it isn't the one of ``run``, which a person saw."""
    active = [state for state in list_states(ref) if not state.ended]
    if not active:
        raise BadInput(
            "NO_REPLAY",
            f"no replay of {ref} is active",
            state="nothing was changed",
            next_step=f"anabranch replay status {ref.name} --version {ref.version}",
        )
    if run and active[-1].run != run:
        raise Conflict(
            "REPLAY_CHANGED",
            f"the replay {run} of {ref} has ended since you looked at it; {active[-1].run} is active now",
            state="nothing was changed",
            next_step="look at the replays of the view, and decide again",
        )
    return active[-1]


def set_pace(settings: Settings, state: ReplayState, pace: Pace) -> None:
    """Change the pace from the next slice on. A cancelled replay stays cancelled."""
    update_control(settings, state, lambda control: replace(control, pace=pace))


def cancel(ref: VersionRef, by: str, run: str = "") -> ReplayState:
    """Cancel the replay and delete its files: at once if it was killed, otherwise before its next slice or step. If it
    is published by then, it stays published. Raises what ``active_replay`` raises."""
    complete_deletion(ref)
    state = active_replay(ref, run)
    update_control(ref.settings, state, lambda control: replace(control, cancelled_by=by))
    try:
        with replay_lock(ref):
            if (now := read_state(ref, state.run)) is not None and now.ended:  # meanwhile
                return now
            return _end_killed(ref, state, by)
    except Conflict:  # it runs: its own process ends it
        return state


def drop_version(ref: VersionRef, by: str) -> int:
    """Delete the tables of a retired version as ``serve.retirement.drop`` does, and return the bytes freed. Its killed
    replays are cancelled first: one that continued would make the tables again. Raises what that raises, and Conflict
    REPLAY_RUNNING."""
    if not _is_retired(ref):
        return drop(ref)  # which refuses it; a lock would be left behind
    with replay_lock(ref):
        if _is_retired(ref):
            _end_all(ref, by)
        return drop(ref)


def reinstate_version(ref: VersionRef, *, by: str, why: str) -> Route:
    """Undo a retirement as ``serve.retirement.reinstate`` does, while no replay of it runs. Deletes what ended ones
    have left. If it completes a killed drop, killed replays are cancelled first, as a drop does: their files go, and
    they would make tables next to those of the stream that begins anew. Otherwise they continue when they are cleared.
    Raises what that raises, and Conflict REPLAY_RUNNING."""
    if not _is_retired(ref):
        return reinstate(ref, by=by, why=why)  # which refuses it; a lock would be left behind
    with replay_lock(ref):
        if _is_retired(ref) and storage_of(ref.dropping).exists(ref.dropping):
            _end_all(ref, by)
        for state in incompletely_deleted(ref):
            delete_files(ref.settings, state)
        return reinstate(ref, by=by, why=why)


def _is_retired(ref: VersionRef) -> bool:
    return ref.version in retired_versions(ref.settings, ref.name)


def _end_all(ref: VersionRef, by: str) -> None:
    for state in list_states(ref):
        if not state.ended:
            _end_killed(ref, state, by)


def _end_killed(ref: VersionRef, state: ReplayState, by: str) -> ReplayState:
    if is_published(ref, state.run, state.began_at):
        return finish(ref.settings, state, PUBLISHED, "published before it was cancelled")
    return finish(ref.settings, state, CANCELLED, cancelled_text(by))


def replay_lock(ref: VersionRef) -> AbstractContextManager[None]:
    """Hold the lock of a version's replays. Raises Conflict REPLAY_RUNNING."""
    refusal = _running(ref, "another replay of it runs", "wait until it ends")
    return locked(_lock_path(ref), refusal=refusal)


def is_replay_locked(ref: VersionRef) -> bool:
    """Whether a process runs a replay of the version, or changes one."""
    return is_held(_lock_path(ref))


def _lock_path(ref: VersionRef) -> Path:
    return ref.settings.locks / f"replay-{ref.name}-v{ref.version}"


def _running(ref: VersionRef, what: str, next_step: str) -> Conflict:
    return Conflict(
        "REPLAY_RUNNING",
        f"{ref}: {what}",
        state="nothing was started",
        next_step=f"{next_step}, or cancel it: anabranch replay cancel {ref.name} --version {ref.version}",
        view=ref.name,
        version=ref.version,
    )
