"""Lets a person accept that the log lost records before they were landed, or that the topic is a copy of the old one.

Both are committed to the landing table with the person's reason. The platform never does either by itself.
"""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from typing import Any

from anabranch.contracts import Topic
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import begin_offsets, topic_id
from anabranch.ingest.landing.empty_offsets import LOST, range_of
from anabranch.ingest.landing.kafka_source import check_nothing_lost
from anabranch.ingest.landing.state import landing_note, open_landing, read_state
from anabranch.lake import open_table
from anabranch.lake.commits import append
from anabranch.lake.layout import landing_checkpoint, landing_table


def accept_loss(settings: Settings, topic: Topic, why: str) -> list[dict[str, Any]]:
    """Commit an empty epoch whose metadata names the lost ranges and ``why``; landing continues after them.

    Also deletes the checkpoint, which would continue inside the lost range. From now on `landing verify` counts the
    ranges as accepted losses. Raises BadInput NOTHING_LOST if nothing is lost.
    """
    table = open_landing(settings, topic)
    state = read_state(table, topic)
    begin = begin_offsets(settings, topic.in_kafka)
    lost = [
        {"partition": p, "from": state.offsets.get(p, 0), "to": start, "why": why}
        for p, start in sorted(begin.items())
        if state.offsets and start > state.offsets.get(p, 0)
    ]
    if not lost:
        raise BadInput(
            "NOTHING_LOST",
            f"{topic.name}: the log still holds everything that has not been landed yet",
            next_step="nothing: landing continues by itself",
        )
    offsets = {p: max(state.offsets.get(p, 0), start) for p, start in begin.items()}
    known = replace(state, losses=(*state.losses, *map(range_of, lost)))
    extra = {**known.unchanged(), LOST: lost}
    append(table, [], landing_note(topic, f"loss:{uuid.uuid4().hex}", state.epoch + 1, offsets, extra))
    shutil.rmtree(landing_checkpoint(settings, topic.name), ignore_errors=True)
    return lost


def accept_log(settings: Settings, topic: Topic, why: str) -> str:
    """Commit an empty epoch that names the broker's topic as the one that landing continues with; returns its id.

    For a topic that holds the same records at the same offsets as the one that was landed. That isn't checked, only
    that no offset is lost and that landing isn't ahead. Raises BadInput LOG_KNOWN if it is the topic that was landed,
    or if nothing was landed.
    """
    if open_table(landing_table(settings, topic.name)) is None:
        raise BadInput(
            "LOG_KNOWN",
            f"{topic.name}: nothing has been landed yet, so landing accepts any topic of the broker",
            next_step="nothing: landing continues by itself",
        )
    table = open_landing(settings, topic)
    state, found = read_state(table, topic), topic_id(settings, topic.in_kafka)
    if found == state.log:
        raise BadInput(
            "LOG_KNOWN",
            f"{topic.name}: the broker's topic is the one that was landed",
            next_step="nothing: landing continues by itself",
        )
    check_nothing_lost(settings, topic, state.offsets)
    extra = {**state.unchanged(), "log": found, "accepted_log": {"before": state.log, "why": why}}
    append(table, [], landing_note(topic, f"log:{uuid.uuid4().hex}", state.epoch + 1, state.offsets, extra))
    return found
