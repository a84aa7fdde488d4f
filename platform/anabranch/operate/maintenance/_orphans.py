"""Deletes what ended runs left outside of the tables: build and replay records, checkpoints, logs, drafts, scratch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from anabranch.certify.certificates import newest_certificates
from anabranch.certify.verdict import SUFFIX, verdict_path
from anabranch.change.estimates import outcome_files
from anabranch.change.replay.cleanup import delete_files, incompletely_deleted, unused_checkpoints
from anabranch.change.replay.control import replay_lock
from anabranch.change.replay.state import list_states, state_file
from anabranch.change.run_progress import progress_files
from anabranch.compute.batch.manifest import EXPIRED, builds_folder, expire, expired_manifests, manifest_path, manifests
from anabranch.core.atomic_files import ATOMIC_FOLDERS, abandoned_drafts, locked
from anabranch.core.engine.spark import HOLD, SCRATCH
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.core.storage import discard, listed, storage_of
from anabranch.lake.layout import VersionRef, run_records, versions_below
from anabranch.lake.streams.stream_checkpoint import delete
from anabranch.operate.maintenance._by_version import of_each
from anabranch.operate.maintenance._concurrent_files import size, touched
from anabranch.operate.maintenance._report import DAY, HOUR, Action, ActionKind, Policy
from anabranch.operate.runtime.airflow_parts import airflow_home
from anabranch.views.retired_versions import retired_versions

log = logging.getLogger(__name__)
_OTHERS = (SUFFIX, ".outcome.json", ".progress.json")
"""How the names of the other files of builds end."""


def builds(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Expires build manifests in two steps: first a manifest is marked, and nothing is published from it any more; an
    hour later, when a publication that had read it has ended, it is deleted. Called after the vacuum, which deletes the
    files of expired manifests, so that no file is left without a manifest. The newest outcomes are kept for
    estimates."""
    found = versions_below(settings, settings.home / "control" / "builds")
    yield from of_each(found, lambda ref: _builds_of(ref, policy, plan=plan))


def _builds_of(ref: VersionRef, policy: Policy, *, plan: bool) -> Iterator[Action]:
    young = {*expired_manifests(ref, after=policy.now - HOUR)}
    gone = [path for path in expired_manifests(ref) if path not in young]
    runs = [path.name.removesuffix(f".json{EXPIRED}") for path in gone]
    over = [run for run in runs if not storage_of(path := manifest_path(ref, run)).exists(path)]  # not built again
    gone += [path for run in over if storage_of(path := verdict_path(ref, run)).exists(path)]
    left = [*outcome_files(ref), *progress_files(ref), *_older_verdicts(ref)]
    gone += [path for path in left if touched(path) < policy.ended_before()]
    yield from _deleted(str(ref), "control files of old builds", gone, plan=plan)
    old = [path for path in manifests(ref) if touched(path) < policy.ended_before()]
    for path in old if not plan else ():
        expire(path)
    if old:
        yield Action(ActionKind.FORGOTTEN, str(ref), "builds: nothing is published from them any more", len(old))


def _older_verdicts(ref: VersionRef) -> list[Path]:
    """The verdicts of certifications without a build, but for those of newest certificates, with which the page shows
    them; which ones these are is said by the order of commits, not by a clock."""
    folder = builds_folder(ref)
    known = {path.name.partition(".")[0] for path in listed(folder, "*.json*") if not path.name.endswith(_OTHERS)}
    alone = [path for path in listed(folder, f"*{SUFFIX}") if path.name.removesuffix(SUFFIX) not in known]
    shown = {certificate.run for certificate in newest_certificates(ref).values()} if alone else ()
    return [path for path in alone if path.name.removesuffix(SUFFIX) not in shown]


def replays(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Deletes what replays left whose end was killed, the state files of those that ended long ago, and checkpoints
    that a later stream has replaced."""
    homes = (settings.home / "control" / "replays", settings.checkpoints / "replay")
    yield from of_each(versions_below(settings, *homes), lambda ref: _replays_of(ref, policy, plan=plan))


def _replays_of(ref: VersionRef, policy: Policy, *, plan: bool) -> Iterator[Action]:
    try:
        with replay_lock(ref):
            yield from _ended_replays_of(ref, policy, plan=plan)
    except Conflict:
        yield Action(ActionKind.HELD_BACK, str(ref), "leftovers of its replays are kept: a replay is under way")


def _ended_replays_of(ref: VersionRef, policy: Policy, *, plan: bool) -> Iterator[Action]:
    unfinished = incompletely_deleted(ref)
    for ended in unfinished if not plan else ():
        delete_files(ref.settings, ended)
    if unfinished:
        yield Action(ActionKind.FORGOTTEN, str(ref), "files of ended replays", len(unfinished))
    live = ref.speed_checkpoint.resolve()
    old = [p for p in unused_checkpoints(ref) if p.resolve() != live and touched(p) < policy.now - DAY]
    yield from _deleted(str(ref), "replaced checkpoints of replays", old, plan=plan)
    left = {*storage_of(ref.replay_checkpoints).names(ref.replay_checkpoints)} - {path.name for path in old}
    ended_long_ago = [s for s in list_states(ref) if s.ended and s.updated_ms / 1000 < policy.ended_before()]
    gone = [state_file(ref, each.run) for each in ended_long_ago if each.run not in left]
    yield from _deleted(str(ref), "state files of ended replays", gone, plan=plan)


def checkpoints(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Deletes checkpoints of streams whose version was retired and dropped."""
    found = versions_below(settings, settings.checkpoints / "speed")
    yield from of_each(found, lambda ref: _checkpoint_of(ref, policy, plan=plan))


def _checkpoint_of(ref: VersionRef, policy: Policy, *, plan: bool) -> Iterator[Action]:
    path = ref.speed_checkpoint
    if storage_of(ref.folder).holds(ref.folder) or ref.version not in retired_versions(ref.settings, ref.name):
        return
    if touched(path) < policy.now - DAY:
        freed = size(path)
        if not plan:
            delete(path)
        yield Action(ActionKind.FORGOTTEN, str(ref), "checkpoint of a version that was dropped", 1, freed)


def logs(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Deletes rotated logs and the logs of Airflow's tasks, with the records that lead to their runs."""
    disk = storage_of(settings.logs)
    aside = [entry for entry in disk.entries(settings.logs) if ".log." in entry.path.name]
    folder = airflow_home(settings) / "logs"
    every = (*aside, *disk.entries(folder), *disk.entries(run_records(settings)))
    old = [entry.path for entry in every if entry.written < policy.ended_before()]
    yield from _deleted("logs", "files", old, plan=plan)
    for path in old if not plan else ():
        with suppress(OSError):  # the folder isn't empty, or is the top folder
            while path.is_relative_to(folder) and (path := path.parent) != folder:
                path.rmdir()


def drafts(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Deletes draft files of killed processes."""
    found = [path for folder in ATOMIC_FOLDERS for path in abandoned_drafts(settings.home / folder)]
    old = [path for path in found if path.stat().st_mtime < policy.now - HOUR]
    yield from _deleted("control", "drafts of killed processes", old, plan=plan)


def engines(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Deletes the scratch folders of killed Spark engines, on this machine or another, in this container or another. A
    living engine holds the lock in its folder."""
    with ExitStack() as held:
        every = sorted((settings.home / SCRATCH).glob("*"))
        old = [p for p in every if touched(p) < policy.now - _untouched_seconds(p) and _owner_has_ended(p, held)]
        yield from _deleted("engines", "folders of killed processes", old, plan=plan)


def _untouched_seconds(folder: Path) -> float:
    """Seconds that a folder must be untouched. Longer for a folder of an older release, which has no lock file."""
    return HOUR if (folder / HOLD).exists() else DAY


def _owner_has_ended(folder: Path, held: ExitStack) -> bool:
    """Whether the folder's process has ended. Takes its lock then, and holds it until the folder is deleted. If the
    lock can't be tested, the process counts as alive."""
    if not (folder / HOLD).exists():
        return not (folder.name.isdecimal() and psutil.pid_exists(int(folder.name)))
    try:
        held.enter_context(locked(folder / HOLD))
    except OSError:
        return False
    return True


def _deleted(where: str, said: str, paths: list[Path], *, plan: bool) -> Iterator[Action]:
    freed = sum(size(path) for path in paths)
    for path in paths if not plan else ():
        storage = storage_of(path)
        if storage.holds(path):
            discard(path)
        else:
            storage.remove(path)
    if paths:
        yield Action(ActionKind.FORGOTTEN, where, said, len(paths), freed)
