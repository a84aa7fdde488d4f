"""Checks landing against its checkpoint, its id index and, if a broker answers, the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from anabranch.core.errors import Conflict
from anabranch.ingest.landing.checkpoint import kafka_offsets
from anabranch.ingest.landing.empty_offsets import BEGIN, by_partition
from anabranch.ingest.landing.kafka_source import check_against_broker
from anabranch.lake import latest_commit, open_table
from anabranch.lake.layout import TableRef, landing_checkpoint, landing_index
from anabranch.lake.streams.stream_checkpoint import BatchPlan, batch_plan
from anabranch.operate.doctor._context import Context, TableState, each, rows_of
from anabranch.operate.doctor._findings import Finding, Severity, failed

_FIRST = 'select "partition", min("offset") from rows where "partition" >= 0 group by 1'


def checkpoint(context: Context) -> Iterator[Finding]:
    """LANDING_BEHIND, CHECKPOINT_FOREIGN: by the newest micro-batch that Spark has recorded as done."""
    for place in context.places("landing"):
        folder, topic = landing_checkpoint(context.settings, place.name), context.declarations.topics.get(place.name)
        in_kafka = place.name if topic is None else topic.in_kafka
        try:
            done = max((int(p.name) for p in (folder / "commits").glob("*") if p.name.isdecimal()), default=None)
            plan = batch_plan(folder, done) if done is not None else None
            yield from _against_table(place, in_kafka, folder, plan) if plan else ()
        except Exception as error:  # an unreadable checkpoint is a finding; the others are still checked
            yield failed(f"checkpoint of {place} ({folder})", error)


def _against_table(place: TableRef, in_kafka: str, folder: Path, plan: BatchPlan) -> Iterator[Finding]:
    next_step = f"move {folder} away, then anabranch up: landing continues from its table"
    where = f"{folder}, batch {plan.batch_id}"
    topics = sorted({topic for offsets in plan.offsets for topic in offsets})
    if topics != [in_kafka]:
        what = f"the checkpoint of {place} has offsets of {', '.join(topics) or 'no topic'}"
        yield Finding("CHECKPOINT_FOREIGN", where, what, next_step)
        return
    passed = kafka_offsets(plan, in_kafka)
    committed = latest_commit(place.uri)  # read last: a micro-batch is committed before it is recorded as done
    position = committed.note.cut.positions.get(place.name) if committed else None
    landed = position.offsets if position else {}
    behind = {p: (landed.get(p, 0), offset) for p, offset in passed.items() if offset > landed.get(p, 0)}
    if behind:
        p, (to, offset) = min(behind.items())
        what = f"its checkpoint is past offset {offset - 1} of partition {p}, but the table is landed to {to}"
        yield Finding("LANDING_BEHIND", f"{place}: {where}", what, next_step)


def index(context: Context) -> Iterator[Finding]:
    """INDEX_AHEAD: the table was restored to an older state. Landing rebuilds the index; a person should know."""
    for place in context.places("landing"):
        path = landing_index(context.settings, place.name) / "index.json"
        try:
            origin = json.loads(path.read_text())["origin"]
            table = open_table(place.uri)
        except FileNotFoundError:
            continue
        except Exception as error:  # as above
            yield failed(f"index of ids of {place} ({path})", error)
            continue
        if table is not None and origin["table"] == str(table.metadata().id) and origin["version"] > table.version():
            yield Finding(
                "INDEX_AHEAD",
                str(path),
                f"the id index is at version {origin['version']} of {place}, but the table is at {table.version()}: "
                "the table was restored to an older state",
                f"anabranch landing verify {place.name}: it shows whether the log still holds what is missing",
                Severity.DOUBTFUL,
            )


def log(context: Context) -> Iterator[Finding]:
    """LOG_REPLACED, OFFSETS_LOST, LOG_OLDER: landing's offsets against the broker's, if it answers."""
    yield from _against_broker(context) if context.log is not None else ()


@each("landing")
def _against_broker(context: Context, state: TableState) -> Iterator[Finding]:
    place, topic = state.place, context.declarations.topics.get(state.place.name)
    position = state.newest.note.cut.positions.get(place.name) if state.newest else None
    if topic is None or position is None or position.epoch == 0 or context.log is None:
        return
    begin, end = context.log(topic.in_kafka)
    where = f"{place}, epoch {position.epoch}, against the log"
    try:
        check_against_broker(topic, position.offsets, begin, end)
    except Conflict as conflict:
        yield Finding(conflict.code, where, conflict.what, conflict.next_step)
    files = state.readable()
    if not files:
        return
    with rows_of(files) as rows:
        first = dict(rows.execute(_FIRST).fetchall())
    begun = by_partition(state.newest.note.extra, BEGIN) if state.newest else {}
    first = {p: min(offset, begun.get(p, offset)) for p, offset in first.items()}
    older = {p: (begin[p], offset) for p, offset in sorted(first.items()) if begin.get(p, offset) < offset}
    for partition, (start, offset) in older.items():
        what = f"the log begins at {start}, landing at {offset}: the records between were never landed"
        again = f"move table and checkpoint of {place.name} away, and anabranch up lands the log from its beginning"
        yield Finding("LOG_OLDER", f"{where}, partition {partition}", what, again)
