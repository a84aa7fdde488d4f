"""From a version of the landing table to the cut that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.compute.speed.batch_commits import BatchEnd
from anabranch.contracts import Sources, Topic
from anabranch.core.errors import BrokenState, Conflict
from anabranch.ingest.landing.schema_growth import VERSIONS
from anabranch.lake import CommitMetadata, Cut, Position, commit_history
from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class Covered:
    """The cut of a micro-batch, and how many landed rows it brings (None: not known, count on many)."""

    cut: Cut
    rows: int | None


class CutResolver:
    """The logs of all topics of a view."""

    def __init__(self, uris: Mapping[str, str], topics: Sources | None = None) -> None:
        """``uris``: the landing table of each topic. ``topics``: as this process knows them."""
        declared = {topic.name: topic for topic in topics.each} if topics is not None else {}
        self._logs = {name: LandingLog(uri, declared.get(name)) for name, uri in uris.items()}

    def covered(self, end: BatchEnd, before: BatchEnd | None) -> Covered:
        """What a micro-batch covers that ends at ``end``, and the rows that it brings since ``before`` (None: all)."""
        positions, rows = {topic: Position(0, {}) for topic in self._logs}, list[int | None]()
        for topic, log in self._logs.items():
            if log.table_id in end.versions:
                found = log.covered(end.versions[log.table_id], before.versions.get(log.table_id) if before else None)
                positions[topic] = found.cut.positions.get(topic, positions[topic])
                rows.append(found.rows)
        counted = [count for count in rows if count is not None]
        return Covered(Cut(positions), sum(counted) if len(counted) == len(rows) else None)


class LandingLog:
    """Reads the notes of landing's commits. One per stream; a look costs milliseconds near the table's end."""

    def __init__(self, uri: str, topic: Topic | None = None) -> None:
        self._table = DeltaTable(uri)
        self._topic = topic
        self.table_id = str(self._table.metadata().id)

    def covered(self, below: int, since: int | None) -> Covered:
        """What all commits below version ``below`` cover, and the rows of those from version ``since`` on.

        Commits without a note (compaction) hold no new row and are passed over. Conflict CONTRACT_NEWER when events of
        a contract have landed that this process doesn't know.
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
                    f"no commit of {self._table.table_uri} below version {below} has a note",
                    next_step="delete the view's speed checkpoint: its stream builds the table again from landing",
                )
            limit *= 2
        if self._topic is not None:
            _check_known(self._topic, found[0].note)
        if since is None:
            return Covered(found[0].note.cut, None)
        return Covered(found[0].note.cut, sum(int(c.note.extra.get("rows", 0)) for c in found if c.version >= since))


def _check_known(topic: Topic, note: CommitMetadata) -> None:
    """A process that was started before a newer version was declared would read its events as if they were older."""
    for event_type, version in note.extra.get(VERSIONS, {}).items():
        if event_type in topic.event_types and version > topic.newest(event_type).version:
            raise Conflict(
                "CONTRACT_NEWER",
                f"topic {topic.name} takes {event_type} v{version} by now, and this process was started when "
                f"v{topic.newest(event_type).version} was the newest",
                state="nothing of this batch was committed",
                next_step="start the process again; the supervisor does that by itself",
                contract=event_type,
                version=version,
            )
