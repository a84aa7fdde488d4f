"""Checks what batch builds leave: manifests whose files are gone, and staged files that no commit names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from anabranch.certify.verdict import VERDICT, verdict_path
from anabranch.compute.batch.manifest import MANIFEST, Build, expired_manifests, named_files
from anabranch.compute.batch.manifest import manifests as manifests_of
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.lake import commit_history
from anabranch.lake.files import BUILDS, parquet_file
from anabranch.lake.layout import EVERY, VersionRef, versions_below
from anabranch.lake.log.archived_commits import read_commit, versions
from anabranch.lake.log.delta_tables import data_path
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding, Severity
from anabranch.operate.maintenance import in_progress, touched
from anabranch.serve.routes import route_history

STAGED = timedelta(hours=1).total_seconds()
"""Seconds that a build may take from its first file to its commit."""
KEPT = timedelta(days=7).total_seconds()
"""Seconds after which a vacuum may delete files that no commit names (``lake.commits.TABLE_PROPERTIES``)."""


def manifests(context: Context) -> Iterator[Finding]:
    """BUILD_GONE: the files of a build that waits to be published are gone. Published builds are not checked: their
    files belong to the table, which may have replaced them since. BUILD_UNREADABLE: which files a build has isn't
    known, so maintenance deletes none of its version."""
    every = versions_below(context.settings, context.settings.home / "control" / "builds")
    for path in (path for ref in every for path in manifests_of(ref)):
        try:
            build = MANIFEST.read(path)
        except (OSError, ValueError, BrokenState) as error:
            what = f"the manifest of a build can't be read, so no staged file of its version is deleted: {error}"
            next_step = f"make it readable; or delete {path}, and clear the run's rebuild task in Airflow"
            yield Finding("BUILD_UNREADABLE", str(path), what, next_step)
            continue
        if build is None:
            continue
        base = Path(VersionRef(context.settings, build.view, build.version).batch_table)
        gone = [file.path for file in build.files if not storage_of(base).exists(base / file.path)]
        if not gone or context.now - storage_of(path).modified(path) > KEPT:
            continue
        if _is_pending(context.settings, build) and storage_of(path).exists(path):
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
    named_by_builds, unknown_build = _in_manifests(context, state)
    if unknown_build:  # ``manifests`` says it; a folder of that build would be called nobody's
        return
    storage, known = storage_of(base), {file.path for file in state.files()} | named_by_builds
    try:
        work = in_progress(context.settings)
    except ValueError:  # torn: a compaction in progress may have staged any of them
        return
    being_merged = work.folders if work is not None else ()
    folders = {folder: _parquet(folder) for folder in listed(base / BUILDS) if folder not in being_merged}
    old = {f: files for f, files in folders.items() if files and context.now - touched(f) > STAGED}
    unknown = {folder: files for folder, files in old.items() if not known.intersection(files)}
    if not unknown:
        return
    named, reach_ms = _files_in_log(base)
    orphans = [
        (folder, files)
        for folder, files in unknown.items()
        if not named.intersection(files)
        and all(storage.modified(path) * 1000 >= reach_ms for path in files)
        and any(map(_rows, files))  # an empty result is also a file, and no commit names it
    ]
    if orphans:
        folder = orphans[0][0]
        size = sum(storage.size(path) for _, paths in orphans for path in paths)
        what = f"{len(orphans)} folders ({size:,} bytes) hold staged files that no commit or manifest names"
        next_step = "rm -r " + " ".join(str(each) for each, _ in orphans)
        yield Finding("BUILD_ORPHANED", f"{state.place}: {folder}", what, next_step, Severity.DOUBTFUL)


def _rows(path: Path) -> int:
    with parquet_file(path) as file:
        return int(file.metadata.num_rows)


def _parquet(folder: Path) -> list[Path]:
    return [entry.path for entry in storage_of(folder).entries(folder) if entry.path.suffix == ".parquet"]


def _files_in_log(base: Path) -> tuple[set[Path], float]:
    """Returns every file that a commit of the kept log names, and the time that the log reaches back to (ms since
    1970)."""
    found, times = set[Path](), list[int]()
    kept = versions(base)
    for version in kept:
        with suppress(FileNotFoundError):  # log cleanup deleted it meanwhile
            for line in filter(None, read_commit(base, version).splitlines()):
                action = json.loads(line)
                found |= {data_path(base, action[kind]["path"]) for kind in ("add", "remove") if kind in action}
                times += [action["commitInfo"]["timestamp"]] if "commitInfo" in action else []
    return found, 0 if 0 in kept[:1] else min(times, default=0)


def _in_manifests(context: Context, state: TableState) -> tuple[set[Path], str]:
    place = state.place
    if place.kind != "batch":
        return set(), ""
    ref = VersionRef(context.settings, place.name, place.version)
    files, unknown = named_files([*manifests_of(ref), *expired_manifests(ref)])
    return {Path(place.uri) / file for file in files}, unknown
