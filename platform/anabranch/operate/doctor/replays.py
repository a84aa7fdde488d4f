"""What replays leave: one that has not ended and does not run, and folders of those that have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from anabranch.change.replay.publish import owns_live
from anabranch.change.replay.state import PUBLISHED, ReplayState, list_states, read_state
from anabranch.core.errors import BrokenState
from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.lake.layout import replay_checkpoints, replay_mirrors, replay_table, view_folder
from anabranch.operate.doctor.context import Context
from anabranch.operate.doctor.findings import Finding, Severity

_LOCKS = Path("/proc/locks")


def stopped(platform: Context) -> Iterator[Finding]:
    """REPLAY_STOPPED: begun, not ended, and nobody holds its lock. STANDING_UNREADABLE: nobody knows whether it has."""
    settings = platform.settings
    for view, version in _versions(settings):
        try:
            known = list_states(settings, view, version)
        except BrokenState as error:
            where = f"replays of {view} v{version}"
            yield Finding("STANDING_UNREADABLE", where, f"{error.what}; {error.state}", error.next_step)
            continue
        for standing in known:
            if standing.ended or _locked(settings.locks / f"replay-{view}-v{version}"):
                continue
            again = read_state(settings, view, version, standing.run)  # it may have ended before its lock was free
            if again is not None and not again.ended:
                yield Finding(
                    "REPLAY_STOPPED",
                    f"replay {standing.run} of {view} v{version}, {standing.phase} at {standing.cut or 'nothing'}",
                    "it has neither ended nor does it run: it was killed, and another one has to wait for it",
                    f"clear its run of the DAG replay in Airflow, so that it goes on, or "
                    f"anabranch replay cancel {view} --version {version}",
                )


def leftovers(platform: Context) -> Iterator[Finding]:
    """REPLAY_LEFT: a table, mirrors or a checkpoint of a replay that has ended, or that nobody knows. The checkpoint of
    one that was published whole is the live stream's, or waits for the next replay to clear it."""
    settings = platform.settings
    for view, version in _versions(settings):
        for folder, run in _folders(settings, view, version):
            try:
                standing = read_state(settings, view, version, run)
            except BrokenState:  # told by ``stopped``
                continue
            if standing is not None and not standing.ended:
                continue
            heir = folder.parent == replay_checkpoints(settings, view, version)
            if heir and (_kept(standing) or owns_live(settings, view, version, folder)):
                continue
            ended = f"ended ({standing.phase})" if standing else "never began here"
            what = f"replay {run} of {view} v{version} has {ended}, and this is left of it"
            if folder.exists():
                yield Finding("REPLAY_LEFT", str(folder), what, f"rm -r {folder}", Severity.DOUBTFUL)


def dropped(platform: Context) -> Iterator[Finding]:
    """DROP_HALF: a version that was being deleted when that was killed; after an hour."""
    for folder in sorted((platform.settings.lake / "views").glob("*/.dropped-v*")):
        with suppress(FileNotFoundError):
            if platform.now - folder.stat().st_ctime > 3600:
                view, version = folder.parent.name, folder.name.removeprefix(".dropped-v")
                what = f"{view} v{version} was being dropped, and that was broken off"
                mending = f"anabranch migrate drop {view} {version}"
                yield Finding("DROP_HALF", str(folder), what, mending, Severity.DOUBTFUL)


def _versions(settings: Settings) -> list[tuple[str, int]]:
    """Of every version that a replay has been at."""
    homes = (settings.home / "control" / "replays", settings.checkpoints / "replay", settings.home / "replays")
    found = [folder for home in homes for folder in home.glob("*/v*")]
    found += [folder.parent for folder in (settings.lake / "views").glob("*/v*/replay")]
    named = {(folder.parent.name, folder.name[1:]) for folder in found}
    return sorted((view, int(v)) for view, v in named if SAFE_NAME.fullmatch(view) and v.isdecimal() and int(v) > 0)


def _folders(settings: Settings, view: str, version: int) -> Iterator[tuple[Path, str]]:
    tables = view_folder(settings, view, version) / "replay"
    assert tables == Path(replay_table(settings, view, version, "run")).parent  # noqa: S101 - the layout of ``tables``
    for home in (tables, replay_mirrors(settings, view, version), replay_checkpoints(settings, view, version)):
        yield from ((folder, folder.name) for folder in sorted(home.glob("*")))


def _kept(standing: ReplayState | None) -> bool:
    return standing is not None and standing.phase == PUBLISHED and not standing.days


def _locked(path: Path) -> bool:
    """Whether a process holds this lock; without taking it, which would turn a start away. Where the kernel doesn't say
    which locks there are, every one counts as held."""
    try:
        number, lines = path.stat().st_ino, _LOCKS.read_text().splitlines()
    except FileNotFoundError:
        return path.exists()
    return any(f":{number} " in line and "FLOCK" in line and "->" not in line for line in lines)
