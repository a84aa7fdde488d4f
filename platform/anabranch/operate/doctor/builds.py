"""What rebuilds leave: manifests, and files that were staged and never named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
from anabranch.certify.verdict import verdict_path
from anabranch.compute.batch.manifest import Build, expired_manifests, files_of
from anabranch.compute.batch.manifest import manifests as manifests_of
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.archived_commits import read_commit, versions
from anabranch.lake.layout import batch_table
from anabranch.lake.staging import BUILDS
from anabranch.operate.doctor.context import EVERY, Context, TableState, each
from anabranch.operate.doctor.findings import Finding, Severity
from anabranch.operate.maintenance.compaction_journal import in_hand
from anabranch.serve.routes import route_history

STAGED = timedelta(hours=1).total_seconds()
"""Seconds that a build may take between its first file and its commit."""
KEPT = timedelta(days=7).total_seconds()
"""Seconds after which a vacuum may take files that no commit names (``lake.commits.TABLE_PROPERTIES``)."""
_VERDICT = ".verdict.json"


def manifests(platform: Context) -> Iterator[Finding]:
    """BUILD_GONE: a build that waits to be published and whose files are gone. Of one that was published the files are
    the table's, which may have replaced them since."""
    for path in sorted((platform.settings.home / "control" / "builds").glob("*/v*/*.json")):
        if path.name.endswith(_VERDICT) or not (build := _build(path)):
            continue
        base = Path(batch_table(platform.settings, build.view, build.version))
        gone = [file.path for file in build.files if not (base / file.path).exists()]
        if not gone or platform.now - path.stat().st_mtime > KEPT:
            continue
        if _waits(platform.settings, build) and path.exists():
            what = f"{len(gone)} of {len(build.files)} files of the build of run {build.run} are gone, like {gone[0]}"
            mending = f"delete {path} and clear the rebuild task of the run in Airflow: it builds again"
            yield Finding("BUILD_GONE", str(path), what, mending)


def _build(path: Path) -> Build | None:
    """None for what is no manifest, or gone again."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return Build.from_json(json.loads(path.read_text()))
    return None


def _waits(settings: Settings, build: Build) -> bool:
    """Whether something of it may still be published: none has been, its verdict, if there is one, is for some, and its
    version was never retired: what is dropped then takes the files along."""
    if any(build.version in route.retired for route in route_history(settings, build.view)):
        return False
    batch = batch_table(settings, build.view, build.version)
    if any(committed.note.batch == f"publish:{build.run}" for committed in commit_history(batch)):
        return False
    with suppress(OSError, ValueError, KeyError):
        return bool(json.loads(verdict_path(settings, build.view, build.version, build.run).read_text())["equal"])
    return True


@each(*EVERY)
def staged(platform: Context, held: TableState) -> Iterator[Finding]:
    """BUILD_ORPHANED: files below ``builds/`` that neither a commit nor a manifest names, after an hour. Not of a table
    whose log doesn't reach back any more to when they were written, nor what a compaction has in hand: what
    a killed one leaves, the next takes away."""
    base = Path(held.place.uri)
    known = {file.path for file in held.files()} | _in_manifests(platform, held)
    work = in_hand(platform.settings)
    being_merged = work.folders if work is not None else ()
    folders = {f: _parquet(f) for f in sorted((base / BUILDS).glob("*")) if f not in being_merged}
    old = {f: files for f, files in folders.items() if files and _since(f, platform.now) > STAGED}
    unknown = {folder: files for folder, files in old.items() if not known.intersection(files)}
    if not unknown:
        return
    named, reach_ms = _named(base)
    orphans = [
        (folder, files)
        for folder, files in unknown.items()
        if not named.intersection(files)
        and all(path.stat().st_mtime * 1000 >= reach_ms for path in files)
        and any(
            pq.read_metadata(path).num_rows for path in files
        )  # an empty result is a file, too, and no commit names it
    ]
    if orphans:
        folder = orphans[0][0]
        size = sum(path.stat().st_size for _, paths in orphans for path in paths)
        what = f"{len(orphans)} folders ({size:,} bytes) hold staged files that nothing names"
        mending = "rm -r " + " ".join(str(each) for each, _ in orphans)
        yield Finding("BUILD_ORPHANED", f"{held.place}: {folder}", what, mending, Severity.DOUBTFUL)


def _since(folder: Path, now: float) -> float:
    """Seconds since anything was written there."""
    times = [path.stat().st_mtime for path in (folder, *folder.rglob("*")) if path.exists()]
    return now - max(times, default=now)


def _parquet(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.parquet") if path.is_file()]


def _named(base: Path) -> tuple[set[Path], float]:
    """Every file that a commit of the kept log names, and since when that is known (ms since 1970)."""
    found, times = set[Path](), list[int]()
    kept = versions(base)
    for version in kept:
        with suppress(FileNotFoundError):  # cleaned up meanwhile
            for line in filter(None, read_commit(base, version).splitlines()):
                action = json.loads(line)
                found |= {base / unquote(action[kind]["path"]) for kind in ("add", "remove") if kind in action}
                times += [action["commitInfo"]["timestamp"]] if "commitInfo" in action else []
    return found, 0 if 0 in kept[:1] else min(times, default=0)


def _in_manifests(platform: Context, held: TableState) -> set[Path]:
    place = held.place
    if place.kind != "batch":
        return set()
    of = (platform.settings, place.name, place.version)
    paths = [*manifests_of(*of), *expired_manifests(*of)]
    return {Path(place.uri) / file.path for path in paths for file in files_of(path)}
