"""Refuse to read events of a contract version that was declared after this process was started."""

from __future__ import annotations

from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.core.errors import Conflict
from anabranch.ingest.landing.table.epoch_commits import last_version
from anabranch.ingest.landing.table.schema_growth import VERSIONS
from anabranch.lake import CommitMetadata, commit_history


def check_known_at(table: DeltaTable, topic: Topic, epoch: int) -> None:
    """Raises Conflict CONTRACT_NEWER if events up to ``epoch`` may be of a version that ``topic`` doesn't have. Nothing
    is known of epochs whose commits aren't kept any more."""
    if epoch == 0:
        return
    found = next(commit_history(table, newest=last_version(table, topic.name, epoch)), None)
    if found is not None:
        check_known(topic, found.note)


def check_known(topic: Topic, note: CommitMetadata) -> None:
    """As ``check_known_at``, for the events up to a commit of landing: they would be misread as older ones."""
    for event_type, version in note.extra.get(VERSIONS, {}).items():
        if event_type in topic.event_types and version > topic.newest(event_type).version:
            raise Conflict(
                "CONTRACT_NEWER",
                f"landing of topic {topic.name} accepts {event_type} v{version} now, but the newest version that this "
                f"process knows is v{topic.newest(event_type).version}",
                state="nothing was written",
                next_step="restart the process (the supervisor does that automatically), or run the step again",
                contract=event_type,
                version=version,
            )
