"""Publish a build: one commit to the batch table that replaces exactly the certified partitions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

from anabranch.compute.batch.manifest import Build
from anabranch.core.errors import BrokenState, Conflict
from anabranch.core.storage import storage_of
from anabranch.lake import CommitMetadata, latest_verified_commit, open_table
from anabranch.lake.commits import create, replace
from anabranch.lake.cut import Cut
from anabranch.lake.optimistic import until_committed
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE
from anabranch.views.model.handle import ViewHandle

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """One published partition of the batch half: the cut that it covers, and the run that built it."""

    cut: Cut
    run: str


def publish(
    view: ViewHandle,
    build: Build,
    partitions: Sequence[date],
    planned: Mapping[date, Published] | None = None,
) -> int | None:
    """Atomically replaces ``partitions`` of the batch half by those of ``build``. Returns the table's new version.

    The commit metadata lists every published partition of the table, so it always matches the rows. Idempotent:
    partitions that this run has already published are skipped; if all are, this is logged and None returned. Raises
    Conflict PUBLISHED_NEWER when another run has published one of them at a newer cut; then nothing is published.
    ``planned``: how the build's partitions were published when the run was planned. Raises Conflict PLAN_OUTDATED when
    that has changed, checked against the table version that the commit follows directly.
    """
    if build.fingerprint != view.definition.fingerprint:
        raise Conflict(
            "DEFINITION_CHANGED",
            f"{view.definition.origin}: {view} has changed since run {build.run} was built",
            state="nothing was published",
            next_step="rebuild it; a changed definition needs a new version",
        )
    not_built = sorted(set(partitions) - set(build.partitions))
    if not_built:
        raise BrokenState(
            "NOT_BUILT",
            f"run {build.run} has not built {[d.isoformat() for d in not_built]}",
            next_step="build these partitions first: anabranch reprocess names what a run builds",
        )

    def attempt() -> int | None:
        table = _table(view, build)
        known = publications(table)
        todo = [p for p in sorted(set(partitions)) if known.get(p) is None or known[p].run != build.run]
        if not todo:
            LOGGER.warning("%s: run %s has already published all of its partitions", view.writer, build.run)
            return None
        if planned is not None:
            check_published(view.name, view.version, build.run, build.partitions, planned, known)
        _refuse_older(view.definition, build, todo, known)
        _check_files(view, build, todo)
        return _replace(table, view.definition, build, todo, known)

    return until_committed(f"{view.writer}/batch", attempt)


def publications(table: DeltaTable | str) -> dict[date, Published]:
    """Every published partition of a batch table, including empty ones, from its latest commit."""
    committed = latest_verified_commit(table)
    return published_in(committed.note) if committed else {}


def published_in(note: CommitMetadata) -> dict[date, Published]:
    """Every published partition as of this commit of a batch table."""
    return from_entries(note.extra.get("published", ()))


def from_entries(entries: Iterable[Mapping[str, Any]]) -> dict[date, Published]:
    """The inverse of ``entries_of``."""
    found: dict[date, Published] = {}
    for entry in entries:
        first, last = date.fromisoformat(entry["from"]), date.fromisoformat(entry["to"])
        published = Published(Cut.from_json(entry["cut"]), entry["run"])
        found |= {first + timedelta(days=n): published for n in range((last - first).days + 1)}
    return found


def check_published(
    view: str,
    version: int,
    run: str,
    days: Iterable[date],
    planned: Mapping[date, Published],
    known: Mapping[date, Published],
) -> None:
    """Raises Conflict PLAN_OUTDATED when one of ``days`` is published otherwise than when ``run`` was planned.
    Days that the run itself has published don't count."""
    own = {day for day, published in known.items() if published.run == run}
    changed = [day for day in days if day not in own and _description(planned.get(day)) != _description(known.get(day))]
    if changed:
        first = changed[0]
        more = f"; so are {len(changed) - 1} other days" if len(changed) > 1 else ""
        raise Conflict(
            "PLAN_OUTDATED",
            f"{view} v{version}: {first} was {_description(planned.get(first))} when run {run} was planned, and is "
            f"{_description(known.get(first))} now{more}",
            state="this run has replaced nothing since; readers keep what is published now",
            next_step="nothing, if that is intended; otherwise trigger the run again: it makes a new plan",
            changed="published",
            partitions=[day.isoformat() for day in changed],
        )


def _description(published: Published | None) -> str:
    return f"published at {published.cut} by run {published.run}" if published else "not published"


def _refuse_older(view: View, build: Build, todo: Sequence[date], known: Mapping[date, Published]) -> None:
    newer = [p for p in todo if p in known and not build.cut.covers(known[p].cut)]
    if newer:
        raise Conflict(
            "PUBLISHED_NEWER",
            f"{view.name} v{view.version}: {newer[0]} is published at {known[newer[0]].cut}, this build: {build.cut}",
            state="nothing was published",
            next_step="rebuild at the newest cut",
            partitions=[p.isoformat() for p in newer],
        )


def _check_files(view: ViewHandle, build: Build, todo: Sequence[date]) -> None:
    """The staged files are still there: a commit of missing ones would make the days unreadable."""
    days, base = {day.isoformat() for day in todo}, Path(view.batch_table)
    paths = [base / file.path for file in build.files if file.partition[PARTITION_DATE] in days]
    gone = [path for path in paths if not storage_of(path).exists(path)]
    if gone:
        raise BrokenState(
            "BUILD_MISSING",
            f"{view}: {len(gone)} of {len(paths)} files that run {build.run} built are gone, such as {gone[0]}",
            state="nothing was published by this run",
            next_step="run its rebuild again",
        )


def _replace(table: DeltaTable, view: View, build: Build, todo: Sequence[date], known: Mapping[date, Published]) -> int:
    texts = [p.isoformat() for p in todo]
    files = [f for f in build.files if f.partition[PARTITION_DATE] in set(texts)]
    merged = {**known, **{p: Published(build.cut, build.run) for p in todo}}
    newest_cut = max((p.cut for p in merged.values()), key=lambda cut: sum(p.epoch for p in cut.positions.values()))
    extra = {"published": entries_of(merged), "rows": sum(f.rows for f in files)}
    note = CommitMetadata(f"{view.writer}/batch", f"publish:{build.run}", newest_cut, view.fingerprint, extra)
    return replace(table, files, note, (PARTITION_DATE, texts))


def _table(view: ViewHandle, build: Build) -> DeltaTable:
    uri = view.batch_table
    existing = open_table(uri)
    if existing is not None:
        return existing
    columns = pa.schema(Schema.from_json(build.columns).to_arrow())
    schema = pa.schema([*columns, pa.field(PARTITION_DATE, pa.date32())])
    return create(
        uri,
        schema,
        [PARTITION_DATE],
        CommitMetadata(f"{view.writer}/batch", "create", Cut(), view.definition.fingerprint),
    )


def entries_of(published: Mapping[date, Published]) -> list[dict[str, Any]]:
    """Run-length encoding: consecutive days of one run and cut become one entry."""
    entries: list[dict[str, Any]] = []
    last: tuple[date, Published] | None = None
    for day in sorted(published):
        if last is not None and last[1] == published[day] and day - last[0] == timedelta(days=1):
            entries[-1]["to"] = day.isoformat()
        else:
            text = day.isoformat()
            cut = published[day].cut.to_json()
            entries.append({"from": text, "to": text, "cut": cut, "run": published[day].run})
        last = day, published[day]
    return entries
