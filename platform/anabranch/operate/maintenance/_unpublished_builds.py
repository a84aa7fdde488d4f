"""Deletes staged files of versions that have published nothing yet: they have no table that the vacuum could visit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from anabranch.compute.batch.manifest import builds_folder, named_files
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.lake.layout import VersionRef, versions_below
from anabranch.lake.log.archived_commits import ARCHIVE, LOG
from anabranch.operate.maintenance._by_version import of_each
from anabranch.operate.maintenance._report import Action, ActionKind, Policy
from anabranch.operate.maintenance._vacuum import LEAST, delete, files_with_times, manifests_in_use


def unpublished(settings: Settings, policy: Policy, *, plan: bool) -> Iterator[Action]:
    """Deletes files of builds that no manifest names and that are older than the vacuum would keep them. Nothing of a
    version is deleted while that isn't known: a manifest can't be read, or a run of it has published and its table's
    log is missing. Called before expired manifests are deleted, as the vacuum is."""
    found = versions_below(settings, settings.lake / "views")
    yield from of_each(found, lambda ref: _unpublished_of(ref, policy, plan=plan))


def _unpublished_of(ref: VersionRef, policy: Policy, *, plan: bool) -> Iterator[Action]:
    base = Path(ref.batch_table)
    old = [(path, size) for path, size, written in files_with_times(base) if written < policy.now - LEAST]
    if not old or _is_a_table(ref) or storage_of(ref.dropping).exists(ref.dropping):
        return
    where = f"{ref}, batch half"
    needed, unknown = named_files(manifests_in_use(ref, policy))
    if listed(builds_folder(ref), "*.outcome.json"):
        unknown = "a run of it has been published, and its table's log is missing"
    if unknown:
        yield Action(ActionKind.HELD_BACK, where, f"no staged file is deleted: {unknown}")
        return
    found = [(path, size) for path, size in old if str(path.relative_to(base)) not in needed]
    if _is_a_table(ref):  # it was just published
        return
    if not plan:
        delete(base, [path for path, _ in found], policy)
    if found:
        said = "files of builds that were never published"
        yield Action(ActionKind.CLEANED, where, said, len(found), sum(size for _, size in found))


def _is_a_table(ref: VersionRef) -> bool:
    base = Path(ref.batch_table)
    return any(storage_of(base).holds(base / folder) for folder in (LOG, ARCHIVE))
