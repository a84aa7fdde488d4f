"""Measures lag: landing behind the end of the log, speed tables behind landing; and what ways into the log report.

For display only: returns text, also for what can't be read, and never raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import reduce
from pathlib import Path

from anabranch.core import part_report
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.ingest.landing import status
from anabranch.lake.cut import Cut
from anabranch.operate.runtime._retention import retention_alarm
from anabranch.operate.runtime._ways_in import QUEUES, STATSD


def lag(settings: Settings) -> dict[str, str]:
    """Returns the lag of ``landing`` (records behind the log) and ``speed`` (epochs behind landing), and the reports of
    ``queues`` and ``statsd``, as text.

    Leaves out a layer that has no table yet, and a part without a report.
    """
    landed = {folder.name: _cut(folder) for folder in sorted((settings.lake / "landing").glob("*/"))}
    halted = {topic: f", halted ({code})" for topic, code in status.read(settings).items()}
    behind = {topic: f"{_records_behind(settings, topic, cut)}{halted.get(topic, '')}" for topic, cut in landed.items()}
    behind |= {topic: f"nothing landed{text}" for topic, text in halted.items() if topic not in landed}
    found = {
        "landing": ", ".join(f"{topic}: {text}" for topic, text in behind.items()),
        "speed": ", ".join(_views(settings, landed)),
        **{part: part_report.text(settings, part) for part in (QUEUES, STATSD)},
    }
    return {part: text for part, text in found.items() if text}


def _views(settings: Settings, landed: dict[str, Cut | str]) -> Iterator[str]:
    for table in sorted((settings.lake / "views").glob("*/v*/speed")):
        name = f"{table.parents[1].name} {table.parent.name}"
        cut = _cut(table)
        if isinstance(cut, str):
            yield f"{name}: {cut}"
            continue
        known = reduce(Cut.joined, (at for at in landed.values() if isinstance(at, Cut)), Cut())
        yield f"{name}: {sum(cut.behind(known).values())} epochs"


def _records_behind(settings: Settings, topic: str, cut: Cut | str) -> str:
    from anabranch.ingest.kafka.admin import end_offsets, readable_ends

    if isinstance(cut, str):
        return cut
    in_kafka, limit = _declared(settings, topic)
    try:
        ends = end_offsets(settings, in_kafka)
        readable = readable_ends(settings, in_kafka)  # second: records that arrive in between aren't counted as open
    except AnabranchError as error:
        return f"unknown ({error.code})"
    position = cut.positions.get(topic)
    landed = position.offsets if position else {}
    behind = sum(max(end - landed.get(partition, 0), 0) for partition, end in readable.items())
    open_records = sum(max(end - max(readable.get(p, 0), landed.get(p, 0)), 0) for p, end in ends.items())
    text = f"{behind:,} records" + (f", {open_records:,} behind an open transaction" if open_records else "")
    alarm = _alarm(settings, in_kafka, limit, landed, ends) if behind or open_records else ""
    return f"{text}, {alarm}" if alarm else text


def _alarm(
    settings: Settings, in_kafka: str, limit: timedelta, landed: Mapping[int, int], ends: Mapping[int, int]
) -> str:
    """Whether retention may soon delete what has not landed; what can't be asked for is said."""
    try:
        return retention_alarm(settings, in_kafka, landed, ends, limit)
    except AnabranchError as error:
        return f"retention unknown ({error.code})"


def _declared(settings: Settings, topic: str) -> tuple[str, timedelta]:
    """The name of a topic in Kafka, and the limit of its alarm. A file that can't be loaded now, or a topic that isn't
    declared: its own name and the usual limit count."""
    from anabranch.contracts.model.declarations import find_topic
    from anabranch.contracts.model.topics import RETENTION_ALARM

    declared = find_topic(settings.contracts_folder, topic)
    return (topic, RETENTION_ALARM) if declared is None else (declared.in_kafka, declared.retention_alarm)


def _cut(table: Path) -> Cut | str:
    """Returns the cut of a table's newest commit, or the reason why there is none."""
    from anabranch.lake import latest_commit

    try:
        committed = latest_commit(str(table))
    except Exception as error:  # the table is broken or being created: `status` must show that, not fail
        return f"unknown ({getattr(error, 'code', type(error).__name__)})"
    return committed.note.cut if committed else "no commit yet"
