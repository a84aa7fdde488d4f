"""What runs leave beside the tables: builds, standings and checkpoints of what has ended, and logs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
from anabranch.certify.verdict import verdict_path
from anabranch.change.estimates import outcome_files
from anabranch.change.replay.cleanup import unused_checkpoints
from anabranch.change.replay.control import replay_lock
from anabranch.change.replay.state import list_states, state_file
from anabranch.compute.batch.manifest import EXPIRED, expire, expired_manifests, manifests
from anabranch.core.atomic_files import ATOMIC_FOLDERS, abandoned_drafts, locked
from anabranch.core.errors import Conflict
from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.core.spark import HOLD, SCRATCH
from anabranch.lake.layout import replay_checkpoints, speed_checkpoint, view_folder
from anabranch.lake.stream_checkpoint import delete
from anabranch.operate.maintenance.concurrent_files import size, stats, touched
from anabranch.operate.maintenance.report import DAY, HOUR, Action, ActionKind, Policy
from anabranch.operate.runtime.airflow_parts import airflow_home
from anabranch.views.retired_versions import retired_versions

Version = tuple[str, int]


def builds(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """A manifest expires in two steps: first nothing is published from it any more, and when whoever was just doing so
    has long ended, it goes. Called behind the vacuum, which takes the files of those that have expired; so no file is
    left that no manifest names. The newest outcomes stay: estimates are made from them."""
    for view, version in _versions(settings.home / "control" / "builds"):
        young = {*expired_manifests(settings, view, version, after=policy.now - HOUR)}
        gone = [path for path in expired_manifests(settings, view, version) if path not in young]
        runs = [path.name.removesuffix(f".json{EXPIRED}") for path in gone]
        gone += [path for run in runs if (path := verdict_path(settings, view, version, run)).exists()]
        gone += [p for p in outcome_files(settings, view, version) if p.stat().st_mtime < policy.ended_before()]
        yield from _deleted(f"{view} v{version}", "control files of old builds", gone, plan=plan)
        old = [p for p in manifests(settings, view, version) if p.stat().st_mtime < policy.ended_before()]
        for path in old if not plan else ():
            expire(path)
        if old:
            yield Action(
                ActionKind.FORGOTTEN, f"{view} v{version}", "builds: nothing is published from them any more", len(old)
            )


def replays(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """How replays ended that are long over, and their checkpoints where another one has taken the turn."""
    homes = (settings.home / "control" / "replays", settings.checkpoints / "replay")
    for view, version in sorted({each for home in homes for each in _versions(home)}):
        try:
            with replay_lock(settings, view, version):
                yield from _replays_of(settings, view, version, policy, plan=plan)
        except Conflict:
            yield Action(ActionKind.HELD_BACK, f"{view} v{version}", "what its replays left stays: one is under way")


def _replays_of(settings: Settings, view: str, version: int, policy: Policy, *, plan: bool) -> Iterator[Action]:
    live = speed_checkpoint(settings, view, version).resolve()
    old = [
        p for p in unused_checkpoints(settings, view, version) if p.resolve() != live and touched(p) < policy.now - DAY
    ]
    yield from _deleted(f"{view} v{version}", "checkpoints of replays whose turn is over", old, plan=plan)
    left = {path.name for path in replay_checkpoints(settings, view, version).glob("*")} - {path.name for path in old}
    told = [s for s in list_states(settings, view, version) if s.ended and s.updated_ms / 1000 < policy.ended_before()]
    gone = [state_file(settings, view, version, each.run) for each in told if each.run not in left]
    yield from _deleted(f"{view} v{version}", "standings of ended replays", gone, plan=plan)


def checkpoints(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Of streams whose version was retired and dropped."""
    for view, version in _versions(settings.checkpoints / "speed"):
        path = speed_checkpoint(settings, view, version)
        if view_folder(settings, view, version).exists() or version not in retired_versions(settings, view):
            continue
        if touched(path) < policy.now - DAY:
            freed = size(path)
            if not plan:
                delete(path)
            yield Action(
                ActionKind.FORGOTTEN, f"{view} v{version}", "checkpoint of a version that was dropped", 1, freed
            )


def logs(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Logs that were put aside, and those of Airflow's tasks."""
    aside = [(path, stat) for path, stat in stats(settings.logs) if ".log." in path.name]
    folder = airflow_home(settings) / "logs"
    old = [path for path, stat in (*aside, *stats(folder)) if stat.st_mtime < policy.ended_before()]
    yield from _deleted("logs", "files", old, plan=plan)
    for path in old if not plan else ():
        with suppress(OSError):  # it holds something still, or is the folder of all
            while path.is_relative_to(folder) and (path := path.parent) != folder:
                path.rmdir()


def drafts(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Files that processes were writing that were killed."""
    found = [path for folder in ATOMIC_FOLDERS for path in abandoned_drafts(settings.home / folder)]
    old = [path for path in found if path.stat().st_mtime < policy.now - HOUR]
    yield from _deleted("control", "drafts of processes that were killed", old, plan=plan)


def engines(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """What engines that were killed had put on disk, each in a folder of its own that nobody holds any more: on this
    machine or another one, in this container or another one."""
    with ExitStack() as held:
        every = sorted((settings.home / SCRATCH).glob("*"))
        old = [p for p in every if touched(p) < policy.now - _rest(p) and _let_go(p, held)]
        yield from _deleted("engines", "folders of processes that were killed", old, plan=plan)


def _rest(folder: Path) -> float:
    """Seconds that it lies untouched before it goes. What an older release has left says less of whether it is used."""
    return HOUR if (folder / HOLD).exists() else DAY


def _let_go(folder: Path, held: ExitStack) -> bool:
    """Whether the process has ended that the folder is of; its lock is ours then, until it is deleted. Where locks
    can't be asked, it lives."""
    if not (folder / HOLD).exists():
        return not (folder.name.isdecimal() and psutil.pid_exists(int(folder.name)))
    try:
        held.enter_context(locked(folder / HOLD))
    except OSError:
        return False
    return True


def _versions(home: Path) -> list[Version]:
    named = [(folder.parent.name, folder.name[1:]) for folder in sorted(home.glob("*/v*"))]
    return [(view, int(v)) for view, v in named if SAFE_NAME.fullmatch(view) and v.isdecimal() and int(v) > 0]


def _deleted(where: str, said: str, paths: list[Path], *, plan: bool) -> Iterator[Action]:
    freed = sum(size(path) for path in paths)
    for path in paths if not plan else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if paths:
        yield Action(ActionKind.FORGOTTEN, where, said, len(paths), freed)
