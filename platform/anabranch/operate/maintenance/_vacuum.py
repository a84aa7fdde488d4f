"""Deletes data files that no version of a table within the retention names.

Doesn't use delta-rs' own vacuum: it writes two commits without our metadata, doesn't know about staged files that a
manifest or a replay needs, and judges a file that was linked just now by the age of its rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.compute.batch.manifest import expired_manifests, manifests, named_files
from anabranch.core.atomic_files import locked
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import discard, listed, storage_of
from anabranch.lake import open_table
from anabranch.lake.files import BUILDS
from anabranch.lake.layout import READERS_BEGIN, TableRef, VersionRef, landing_files_lock
from anabranch.lake.log.archived_commits import ARCHIVE, LOG, commit_file, read_commit
from anabranch.lake.log.delta_tables import folder_of
from anabranch.operate.maintenance._concurrent_files import touched
from anabranch.operate.maintenance._report import DAY, HOUR, Action, ActionKind, Policy
from anabranch.operate.maintenance._retention_holds import replay_over

LEAST = 7 * DAY
"""Minimum seconds that a removed file is kept, whatever the table's property says: the docs promise it to readers."""
LANDED = 30 * DAY
"""Seconds that landing's removed files are kept: as long as its log, which streams and replays read by commits."""
_INTERVAL = re.compile(r"interval (\d+) (day|week|hour)s?")
_SECONDS = {"hour": HOUR, "day": DAY, "week": 7 * DAY}


@dataclass(frozen=True, slots=True)
class Old:
    path: Path
    size: int


def retention(table: DeltaTable, place: TableRef) -> float:
    """Seconds that a file is kept after the commit that removed it."""
    said = table.metadata().configuration.get("delta.deletedFileRetentionDuration", "")
    found = _INTERVAL.fullmatch(said)
    own = int(found[1]) * _SECONDS[found[2]] if found else LEAST
    return max(own, LANDED if place.kind == "landing" else LEAST)


def vacuum(settings: Settings, place: TableRef, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Deletes files past their retention: those that a commit removed, and staged files that no commit named. Keeps
    what a replay in progress or an unpublished build needs. After a kill, the next run deletes the rest."""
    with ExitStack() as held:
        if place.kind == "landing":
            if not plan:  # so that no replay begins meanwhile
                held.enter_context(locked(landing_files_lock(settings), wait=READERS_BEGIN))
            if replay := replay_over(settings, place.name):
                yield Action(ActionKind.HELD_BACK, str(place), f"no file is deleted: {replay} is under way")
                return
        found, unknown = unneeded(settings, place, policy)
        if unknown:
            yield Action(ActionKind.HELD_BACK, str(place), f"no file is deleted: {unknown}")
            return
        if not plan:
            delete(Path(place.uri), [old.path for old in found], policy)
    if found:
        yield Action(ActionKind.CLEANED, str(place), "old data files", len(found), sum(old.size for old in found))


def unneeded(settings: Settings, place: TableRef, policy: Policy) -> tuple[list[Old], str]:
    """Returns the files that ``vacuum`` deletes; or none, and why it isn't known which. Lists the disk before the log,
    so that files that are committed meanwhile are known."""
    base, table = Path(place.uri), open_table(place.uri)
    if table is None:
        return [], ""
    kept = retention(table, place)
    old = [Old(path, size) for path, size, written in files_with_times(base) if written < policy.now - kept]
    if not old:
        return [], ""
    table.update_incremental()
    held = {path for spelt in _current_files(table) for path in (spelt, unquote(spelt))}
    if not any(storage_of(base).exists(base / path) for path in held) and held:
        raise BrokenState(
            "FILES_MISSING",
            f"{place}: none of its current files is below {base}",
            state="nothing was deleted",
            next_step="anabranch doctor",
        )
    built, unknown = _in_manifests(settings, place, policy)
    needed = held.union(_recently_removed(table, policy.now - kept), built)
    return [each for each in old if str(each.path.relative_to(base)) not in needed and not unknown], unknown


def _current_files(table: DeltaTable) -> list[str]:
    paths: list[str] = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    return paths


def files_with_times(base: Path) -> Iterator[tuple[Path, int, float]]:
    """Yields each data file with its size and the time when it was written or linked (seconds since 1970)."""
    for entry in storage_of(base).entries(base, skip=(LOG, ARCHIVE)):
        if entry.path.suffix == ".parquet" and not entry.path.name.startswith("."):
            yield entry.path, entry.size, entry.named


def _recently_removed(table: DeltaTable, since: float) -> Iterator[str]:
    """Yields the files that a commit removed after ``since`` (seconds since 1970)."""
    folder = folder_of(table)
    storage = storage_of(folder)
    for version in range(table.version(), -1, -1):
        try:
            if storage.modified(commit_file(folder, version)) < since - DAY:  # clocks may differ
                return
            text = read_commit(folder, version)
        except FileNotFoundError:
            return
        for line in text.splitlines() if '"remove"' in text else ():
            removed = json.loads(line).get("remove") if line else None
            if removed and removed.get("deletionTimestamp", since * 1000) >= since * 1000:
                yield unquote(removed["path"])


def _in_manifests(settings: Settings, place: TableRef, policy: Policy) -> tuple[Collection[str], str]:
    if place.kind != "batch":
        return (), ""
    return named_files(manifests_in_use(VersionRef(settings, place.name, place.version), policy))


def manifests_in_use(ref: VersionRef, policy: Policy) -> list[Path]:
    """Returns the manifests of builds that may be published, or just be being published."""
    return [*manifests(ref), *expired_manifests(ref, after=policy.now - HOUR)]


def delete(base: Path, files: Iterable[Path], policy: Policy) -> None:
    """Deletes data files of the table at ``base``, and its staging folders that hold none and were not written
    recently."""
    for path in files:
        storage_of(path).remove(path)
        storage_of(path).remove(path.with_name(f".{path.name}.crc"))  # Hadoop's
    storage = storage_of(base)
    for folder in listed(base / BUILDS):
        data = (entry for entry in storage.entries(folder) if entry.path.suffix == ".parquet")
        if touched(folder) < policy.now - LEAST and next(data, None) is None:
            discard(folder)
