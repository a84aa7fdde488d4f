"""Checks what replays leave: a replay that has not ended and doesn't run, and folders of ended ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from anabranch.change.replay.control import is_replay_locked
from anabranch.change.replay.publish import owns_live
from anabranch.change.replay.state import PUBLISHED, ReplayState, list_states, read_state
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.lake.layout import VersionRef, versions_below
from anabranch.operate.doctor._context import Context
from anabranch.operate.doctor._findings import Finding, Severity


def stopped(context: Context) -> Iterator[Finding]:
    """REPLAY_STOPPED: a replay has begun, not ended, and no process holds its lock. STANDING_UNREADABLE: its state
    can't be read."""
    settings = context.settings
    for ref in _versions(settings):
        try:
            known = list_states(ref)
        except BrokenState as error:
            where = f"replays of {ref}"
            yield Finding("STANDING_UNREADABLE", where, f"{error.what}; {error.state}", error.next_step)
            continue
        for standing in known:
            if standing.ended or is_replay_locked(ref):
                continue
            again = read_state(ref, standing.run)  # it may have ended between both reads
            if again is not None and not again.ended:
                yield Finding(
                    "REPLAY_STOPPED",
                    f"replay {standing.run} of {ref}, {standing.phase} at {standing.cut or 'nothing'}",
                    "it has not ended and doesn't run: it was killed, and no other replay can start",
                    f"clear its task replay of the DAG replay in Airflow to continue it, or "
                    f"anabranch replay cancel {ref.name} --version {ref.version}",
                )


def leftovers(context: Context) -> Iterator[Finding]:
    """REPLAY_LEFT: a table, mirrors or a checkpoint of an ended or unknown replay. Skips the checkpoint of a replay
    that was published as a whole: the live stream uses it, or the next replay deletes it."""
    for ref in _versions(context.settings):
        for folder, run in _folders(ref):
            try:
                standing = read_state(ref, run)
            except BrokenState:  # ``stopped`` reports it
                continue
            if standing is not None and (not standing.ended or is_replay_locked(ref)):  # it may be deleting them now
                continue
            is_checkpoint = folder.parent == ref.replay_checkpoints
            if is_checkpoint and (_published_whole(standing) or owns_live(ref, folder)):
                continue
            ended = f"has ended ({standing.phase})" if standing else "is unknown here"
            what = f"replay {run} of {ref} {ended}, but this folder remains"
            if folder.exists():
                yield Finding("REPLAY_LEFT", str(folder), what, f"rm -r {folder}", Severity.DOUBTFUL)


def dropped(context: Context) -> Iterator[Finding]:
    """DROP_HALF: the deletion of a version was interrupted more than an hour ago."""
    for ref in versions_below(context.settings, context.settings.lake / "views"):
        with suppress(FileNotFoundError):
            if context.now - storage_of(ref.dropping).modified(ref.dropping) > 3600:
                what, next_step = (
                    f"the drop of {ref} was interrupted",
                    f"anabranch migrate drop {ref.name} {ref.version}",
                )
                yield Finding("DROP_HALF", str(ref.folder), what, next_step, Severity.DOUBTFUL)


def _versions(settings: Settings) -> list[VersionRef]:
    """Every version for which a replay has left something."""
    homes = (settings.home / "control" / "replays", settings.checkpoints / "replay", settings.home / "replays")
    tables = [ref for ref in versions_below(settings, settings.lake / "views") if listed(ref.replay_tables)]
    known = {(ref.name, ref.version): ref for ref in (*versions_below(settings, *homes), *tables)}
    return [known[key] for key in sorted(known)]


def _folders(ref: VersionRef) -> Iterator[tuple[Path, str]]:
    for home in (ref.replay_tables, ref.replay_mirrors, ref.replay_checkpoints):
        yield from ((folder, folder.name) for folder in listed(home))


def _published_whole(standing: ReplayState | None) -> bool:
    return standing is not None and standing.phase == PUBLISHED and not standing.days
