"""Read from a checkpoint which landing commits a micro-batch of a view contains, and which cut they cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.contracts import Topic
from anabranch.contracts.model.topics import Sources
from anabranch.core.errors import BrokenState
from anabranch.ingest.landing.table.known_versions import check_known
from anabranch.lake import commit_history
from anabranch.lake.cut import Cut, Position
from anabranch.lake.log.delta_tables import delta_table
from anabranch.lake.streams.stream_checkpoint import batch_plan

_BOUNDARY = -1
"""The index in a Delta source's offset that means "before the first file of ``reservoirVersion``"."""


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of a micro-batch: it contains the commits of each landing table below ``versions`` that the previous
    micro-batch didn't contain.

    ``versions`` is keyed by the table's id; a table that was always empty is left out. ``watermark_ms`` is the
    watermark (ms since 1970) that the batch ran with; None if there is none yet.
    """

    versions: Mapping[str, int] = field(hash=False)
    watermark_ms: int | None


def batch_end(checkpoint: Path, batch: int) -> BatchEnd:
    """The end of micro-batch ``batch``. Raises BrokenState EPOCH_SPLIT when it lies inside a landing commit."""
    plan = batch_plan(checkpoint, batch)
    versions = {end["reservoirId"]: int(end["reservoirVersion"]) for end in plan.offsets}
    # A table that a plan reads several times is several sources: they must all end at the same version.
    differing = [end for end in plan.offsets if int(end["reservoirVersion"]) != versions[end["reservoirId"]]]
    if not plan.offsets or differing or not all(map(_on_boundary, plan.offsets)):
        raise BrokenState(
            "EPOCH_SPLIT",
            f"micro-batch {batch} of {checkpoint} ends inside an epoch of landing: {plan.offsets}",
            state="nothing of this batch was committed; the watermark could drop rows of a split epoch",
            next_step=f"remove any rate limit from the stream, delete {checkpoint} and start again",
            batch=batch,
        )
    return BatchEnd(versions, plan.watermark_ms or None)


def _on_boundary(end: dict[str, Any]) -> bool:
    return end["index"] == _BOUNDARY and not end["isStartingVersion"]


@dataclass(frozen=True, slots=True)
class BatchCut:
    """The cut of a micro-batch, and how many landed rows it adds (None: unknown, possibly many)."""

    cut: Cut
    rows: int | None


class CutResolver:
    """Reads the landing commits of all topics of a view."""

    def __init__(self, uris: Mapping[str, str], topics: Sources | None = None) -> None:
        """``uris``: the landing table of each topic. ``topics``: the declarations that this process has loaded."""
        declared = {topic.name: topic for topic in topics.each} if topics is not None else {}
        self._landing = {name: LandingCommits(uri, declared.get(name)) for name, uri in uris.items()}

    def resolve(self, end: BatchEnd, before: BatchEnd | None) -> BatchCut:
        """The cut of the micro-batch that ends at ``end``, and the rows that it adds since ``before`` (None: all)."""
        positions, rows = {topic: Position(0, {}) for topic in self._landing}, list[int | None]()
        for topic, commits in self._landing.items():
            if commits.table_id in end.versions:
                since = before.versions.get(commits.table_id) if before else None
                found = commits.resolve(end.versions[commits.table_id], since)
                positions[topic] = found.cut.positions.get(topic, positions[topic])
                rows.append(found.rows)
        counted = [count for count in rows if count is not None]
        return BatchCut(Cut(positions), sum(counted) if len(counted) == len(rows) else None)


class LandingCommits:
    """Reads the commit metadata of one landing table. One per stream; a call takes milliseconds near the latest
    version."""

    def __init__(self, uri: str, topic: Topic | None = None) -> None:
        self._table = delta_table(uri)
        self._topic = topic
        self.table_id = str(self._table.metadata().id)

    def resolve(self, below: int, since: int | None) -> BatchCut:
        """The cut of all commits below version ``below``, and the rows of those from version ``since`` on.

        Commits without our metadata (compaction) add no rows and are skipped. Raises Conflict CONTRACT_NEWER when
        events of a contract version have landed that this process doesn't know.
        """
        if self._table.version() < below - 1:
            self._table.update_incremental()
        oldest = below - 1 if since is None else since
        limit = max(self._table.version() - oldest + 1, 1)
        while True:
            found = [c for c in commit_history(self._table, limit) if c.version < below]
            if found:
                break
            if limit > self._table.version():
                raise BrokenState(
                    "NOTES_LOST",
                    f"no commit of {self._table.table_uri} below version {below} has commit metadata",
                    next_step="delete the view's speed checkpoint: its stream builds the table again from landing",
                )
            limit *= 2
        if self._topic is not None:
            check_known(self._topic, found[0].note)
        if since is None:
            return BatchCut(found[0].note.cut, None)
        return BatchCut(found[0].note.cut, sum(int(c.note.extra.get("rows", 0)) for c in found if c.version >= since))
