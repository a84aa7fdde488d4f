"""Measures lag: landing behind the end of the log, speed tables behind landing.

For display only: returns text, also for what can't be read, and never raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.ingest.landing import status
from anabranch.lake.cut import Cut


def lag(settings: Settings) -> dict[str, str]:
    """Returns the lag of ``landing`` (records behind the log) and ``speed`` (epochs behind landing) as text.

    Leaves out a layer that has no table yet.
    """
    landed = {folder.name: _cut(folder) for folder in sorted((settings.lake / "landing").glob("*/"))}
    halted = {topic: f", halted ({code})" for topic, code in status.read(settings).items()}
    behind = {topic: f"{_records_behind(settings, topic, cut)}{halted.get(topic, '')}" for topic, cut in landed.items()}
    found = {
        "landing": ", ".join(f"{topic}: {text}" for topic, text in behind.items()),
        "speed": ", ".join(_views(settings, landed)),
    }
    return {part: text for part, text in found.items() if text}


def _views(settings: Settings, landed: dict[str, Cut | str]) -> Iterator[str]:
    for table in sorted((settings.lake / "views").glob("*/v*/speed")):
        name = f"{table.parents[1].name} {table.parent.name}"
        cut = _cut(table)
        if isinstance(cut, str):
            yield f"{name}: {cut}"
            continue
        landed_epochs = {topic: at.epoch(topic) for topic, at in landed.items() if isinstance(at, Cut)}
        behind = {topic: landed_epochs[topic] - cut.epoch(topic) for topic in cut.positions if topic in landed_epochs}
        yield f"{name}: {max(behind.values(), default=0)} epochs"


def _records_behind(settings: Settings, topic: str, cut: Cut | str) -> str:
    from anabranch.ingest.kafka.admin import end_offsets, readable_ends

    if isinstance(cut, str):
        return cut
    try:
        ends = end_offsets(settings, topic)
        readable = readable_ends(settings, topic)  # read second: records that arrive in between aren't counted as open
    except AnabranchError as error:
        return f"unknown ({error.code})"
    position = cut.positions.get(topic)
    landed = position.offsets if position else {}
    behind = sum(max(end - landed.get(partition, 0), 0) for partition, end in readable.items())
    open_records = sum(max(end - max(readable.get(p, 0), landed.get(p, 0)), 0) for p, end in ends.items())
    return f"{behind:,} records" + (f", {open_records:,} behind an open transaction" if open_records else "")


def _cut(table: Path) -> Cut | str:
    """Returns the cut of a table's newest commit, or the reason why there is none."""
    from anabranch.lake.commits import latest_commit

    try:
        committed = latest_commit(str(table))
    except Exception as error:  # the table is broken or being created: `status` must show that, not fail
        return f"unknown ({getattr(error, 'code', type(error).__name__)})"
    return committed.note.cut if committed else "no commit yet"
