"""Going on after the log has deleted records that were never landed: on the record, by a person, never by itself."""

from __future__ import annotations

import shutil
import uuid
from typing import Any

from anabranch.errors import BadInput
from anabranch.events import Topic
from anabranch.landing.state import landed, open_landing, writer_of
from anabranch.log.admin import begin_offsets
from anabranch.settings import Settings
from anabranch.tables import Cut, Note, Position, append
from anabranch.tables.layout import landing_checkpoint


def accept_loss(settings: Settings, topic: Topic, why: str) -> list[dict[str, Any]]:
    """Commit an empty epoch whose note names the lost ranges and ``why``; landing goes on behind them.

    The checkpoint is dropped with it: it would go on inside the lost range. `landing verify` counts the ranges as
    accepted losses from now on. BadInput NOTHING_LOST when nothing is lost.
    """
    table = open_landing(settings, topic)
    state = landed(table, topic)
    begin = begin_offsets(settings, topic.name)
    lost = [
        {"partition": p, "from": state.offsets.get(p, 0), "to": start, "why": why}
        for p, start in sorted(begin.items())
        if state.offsets and start > state.offsets.get(p, 0)
    ]
    if not lost:
        raise BadInput("NOTHING_LOST", f"{topic.name}: the log still holds everything that was not landed yet")
    offsets = {p: max(state.offsets.get(p, 0), start) for p, start in begin.items()}
    extra: dict[str, Any] = {
        "watermark_us": state.watermark_us,
        "rows": 0,
        "counts": {},
        "released": state.released,
        "lost": lost,
    }
    cut = Cut({topic.name: Position(state.epoch + 1, offsets)})
    append(table, [], Note(writer_of(topic), f"loss:{uuid.uuid4().hex}", cut, extra=extra))
    shutil.rmtree(landing_checkpoint(settings, topic.name), ignore_errors=True)
    return lost
