"""Checks what batch builds leave: manifests whose files are gone, and staged files that no commit names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq

from anabranch.certify.verdict import VERDICT, verdict_path
from anabranch.compute.batch.manifest import Build, expired_manifests, files_of, read_file
from anabranch.compute.batch.manifest import manifests as manifests_of
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.files import BUILDS
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.archived_commits import read_commit, versions
from anabranch.lake.table_refs import EVERY
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding, Severity
from anabranch.operate.maintenance import in_progress
from anabranch.serve.routes import route_history

STAGED = timedelta(hours=1).total_seconds()
"""Seconds that a build may take from its first file to its commit."""
KEPT = timedelta(days=7).total_seconds()
"""Seconds after which a vacuum may delete files that no commit names (``lake.commits.TABLE_PROPERTIES``)."""
_VERDICT = ".verdict.json"


def manifests(context: Context) -> Iterator[Finding]:
    """BUILD_GONE: the files of a build that waits to be published are gone. Published builds are not checked: their
    files belong to the table, which may have replaced them since."""
    for path in sorted((context.settings.home / "control" / "builds").glob("*/v*/*.json")):
        if path.name.endswith(_VERDICT) or not (build := read_file(path)):
            continue
        base = Path(VersionRef(context.settings, build.view, build.version).batch_table)
        gone = [file.path for file in build.files if not (base / file.path).exists()]
        if not gone or context.now - path.stat().st_mtime > KEPT:
            continue
        if _is_pending(context.settings, build) and path.exists():
            what = f"{len(gone)} of {len(build.files)} files of run {build.run}'s build are missing, such as {gone[0]}"
            next_step = f"delete {path} and clear the run's rebuild task in Airflow: it builds them again"
            yield Finding("BUILD_GONE", str(path), what, next_step)


def _is_pending(settings: Settings, build: Build) -> bool:
    """Whether the build may still be published: it has not been, its verdict (if any) found equal partitions, and its
    version was never retired (dropping a retired version deletes the files)."""
    if any(build.version in route.retired for route in route_history(settings, build.view)):
        return False
    ref = VersionRef(settings, build.view, build.version)
    if any(committed.note.batch == f"publish:{build.run}" for committed in commit_history(ref.batch_table)):
        return False
    with suppress(OSError, ValueError):
        verdict = VERDICT.read(verdict_path(ref, build.run))
        return verdict is None or bool(verdict.equal)
    return True


@each(*EVERY)
def staged_files(context: Context, state: TableState) -> Iterator[Finding]:
    """BUILD_ORPHANED: files below ``builds/`` that after an hour neither a commit nor a manifest names. Skips files
    older than the table's kept log, and files of a compaction in progress: the next compaction deletes what a killed
    one leaves."""
    base = Path(state.place.uri)
    known = {file.path for file in state.files()} | _in_manifests(context, state)
    work = in_progress(context.settings)
    being_merged = work.folders if work is not None else ()
    folders = {f: _parquet(f) for f in sorted((base / BUILDS).glob("*")) if f not in being_merged}
    old = {f: files for f, files in folders.items() if files and _idle_seconds(f, context.now) > STAGED}
    unknown = {folder: files for folder, files in old.items() if not known.intersection(files)}
    if not unknown:
        return
    named, reach_ms = _files_in_log(base)
    orphans = [
        (folder, files)
        for folder, files in unknown.items()
        if not named.intersection(files)
        and all(path.stat().st_mtime * 1000 >= reach_ms for path in files)
        and any(
            pq.read_metadata(path).num_rows for path in files
        )  # an empty result is also a file, and no commit names it
    ]
    if orphans:
        folder = orphans[0][0]
        size = sum(path.stat().st_size for _, paths in orphans for path in paths)
        what = f"{len(orphans)} folders ({size:,} bytes) hold staged files that no commit or manifest names"
        next_step = "rm -r " + " ".join(str(each) for each, _ in orphans)
        yield Finding("BUILD_ORPHANED", f"{state.place}: {folder}", what, next_step, Severity.DOUBTFUL)


def _idle_seconds(folder: Path, now: float) -> float:
    """Seconds since the last write in the folder."""
    times = [path.stat().st_mtime for path in (folder, *folder.rglob("*")) if path.exists()]
    return now - max(times, default=now)


def _parquet(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.parquet") if path.is_file()]


def _files_in_log(base: Path) -> tuple[set[Path], float]:
    """Returns every file that a commit of the kept log names, and the time that the log reaches back to (ms since
    1970)."""
    found, times = set[Path](), list[int]()
    kept = versions(base)
    for version in kept:
        with suppress(FileNotFoundError):  # log cleanup deleted it meanwhile
            for line in filter(None, read_commit(base, version).splitlines()):
                action = json.loads(line)
                found |= {base / unquote(action[kind]["path"]) for kind in ("add", "remove") if kind in action}
                times += [action["commitInfo"]["timestamp"]] if "commitInfo" in action else []
    return found, 0 if 0 in kept[:1] else min(times, default=0)


def _in_manifests(context: Context, state: TableState) -> set[Path]:
    place = state.place
    if place.kind != "batch":
        return set()
    ref = VersionRef(context.settings, place.name, place.version)
    paths = [*manifests_of(ref), *expired_manifests(ref)]
    return {Path(place.uri) / file.path for path in paths for file in files_of(path)}
