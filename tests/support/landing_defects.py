"""Defects of landing, of what stands beside it, and of data files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anabranch.ingest.landing.table.schema import DUPLICATE, QUARANTINED, VALID
from anabranch.lake.layout import VersionRef, landing_checkpoint, landing_index
from deltalake import DeltaTable

from support.small_platform import DAYS, NAME, Clinic, checkpoint, departed

Seed = Callable[[Clinic], Any]
Defects = list[tuple[Seed, str, str]]
"""What is done to a healthy platform, the code that names it, and what its place is called."""


# landing


def offset_missing(c: Clinic) -> None:
    c.decisions._offsets[0] += 2
    c.land([departed(100)])


def offset_missing_behind_a_hole(c: Clinic) -> None:
    c.hole(0, 3, proven=2)
    c.land([departed(100)])


def offset_end_behind_a_hole(c: Clinic) -> None:
    c.hole(1, 2)
    c.hole(1, 1, proven=0)


def offset_twice(c: Clinic) -> None:
    row = c.row(departed(101))
    c.commit([row, {**row, "event_id": "another"}], c.offsets)


def offset_end(c: Clinic) -> None:
    c.commit([c.row(departed(100))], {**c.offsets, 1: 50})


def epoch_missing(c: Clinic) -> None:
    c.commit([c.row(departed(100), epoch=c.epoch + 2)], c.offsets, epoch=c.epoch + 2)


def epoch_twice(c: Clinic) -> None:
    c.commit([c.row(departed(100), epoch=c.epoch)], c.offsets, epoch=c.epoch)


def epoch_of_rows(c: Clinic) -> None:
    c.commit([c.row(departed(100), epoch=1)], c.offsets)


def note_rows(c: Clinic) -> None:
    c.commit([c.row(departed(100))], c.offsets, rows=99)


def note_rows_compacted(c: Clinic) -> None:
    note_rows(c)
    c.compact()


def note_watermark(c: Clinic) -> None:
    c.commit([c.row(departed(100))], c.offsets, watermark_us=1)


def loaded_missing(c: Clinic) -> None:
    c.load(3, offset=3)


def event_twice(c: Clinic) -> None:
    c.commit([c.row(departed(0), decision=VALID, late=True)], c.offsets)


def late_called_on_time(c: Clinic) -> None:
    c.commit([c.row(departed(100), late=False)], c.offsets)


def late_compacted(c: Clinic) -> None:
    late_called_on_time(c)
    c.compact()


def on_time_called_late(c: Clinic) -> None:
    c.commit([c.row(departed(104, DAYS[4]), late=True)], c.offsets)


def late_not_said(c: Clinic) -> None:
    c.commit([c.row(departed(104, DAYS[4]), late=None)], c.offsets)


def quarantined_called_on_time(c: Clinic) -> None:
    c.commit([c.row(departed(100, broken=True), late=False)], c.offsets)


def late_by_another_lateness(c: Clinic) -> None:
    """It is late by the topic's L of today, and by no other: its epoch's note says that L was a month."""
    c.commit([c.row(departed(100), late=True)], c.offsets, lateness_us=30 * 86_400_000_000)


def released_twice(c: Clinic) -> None:
    c.land([departed(6, broken=True)])
    c.release()
    quarantined = next(row for row in c.decisions.rows if row["decision"] == QUARANTINED)
    again = {**quarantined, "decision": DUPLICATE, "reason": None, "event_id": "r", "source": "test"}
    c.commit(
        [{**again, "epoch": c.epoch + 1, "released_from": quarantined["epoch"]}], c.cut.positions["flights"].offsets
    )


def released_nothing(c: Clinic) -> None:
    landed = c.decisions.rows[0]
    c.commit([{**landed, "event_id": "r", "late": True, "epoch": c.epoch + 1, "released_from": 1}], c.offsets)


def landing_behind(c: Clinic) -> None:
    c.plan(**{"0": 999})


def checkpoint_foreign(c: Clinic) -> None:
    checkpoint(landing_checkpoint(c.settings, "flights"), "x", 9, [{"weather": {"0": 1}}])


def index_ahead(c: Clinic) -> None:
    path = landing_index(c.settings, "flights") / "index.json"
    said = json.loads(path.read_text())
    said["origin"]["version"] += 5
    path.write_text(json.dumps(said))


def log(begin: Mapping[int, int], end: Mapping[int, int]) -> Mapping[str, Any]:
    return {"log": lambda _: (begin, end)}


def log_replaced(c: Clinic) -> Mapping[str, Any]:
    return log(dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 0))


def offsets_lost(c: Clinic) -> Mapping[str, Any]:
    return log({**c.offsets, 1: 90}, {**c.offsets, 1: 90})


def log_older(c: Clinic) -> Mapping[str, Any]:
    c.decisions._offsets[3] = 5
    c.land([departed(103)])
    return log(dict.fromkeys(range(4), 0), c.offsets)


# files


def a_file(c: Clinic) -> Path:
    return Path(DeltaTable(c.uri).file_uris()[0].removeprefix("file://"))


def file_missing(c: Clinic) -> None:
    a_file(c).unlink()


def file_short(c: Clinic) -> None:
    a_file(c).write_bytes(a_file(c).read_bytes()[:-9])


def file_other(c: Clinic) -> None:
    a_file(c).write_bytes(b"\0" * a_file(c).stat().st_size)


def unreadable(c: Clinic) -> None:
    (Path(VersionRef(c.settings, NAME, 2).speed_table) / "_delta_log" / f"{0:020d}.json").write_text("no log")


IN_LANDING: Defects = [
    (offset_missing, "OFFSET_MISSING", "partition 0, offsets"),
    (offset_missing_behind_a_hole, "OFFSET_MISSING", "partition 0, offsets"),
    (offset_end_behind_a_hole, "OFFSET_END", "partition 1"),
    (offset_twice, "OFFSET_TWICE", "partition 1, offset"),
    (offset_end, "OFFSET_END", "partition 1"),
    (epoch_missing, "EPOCH_MISSING", "epoch 5"),
    (epoch_twice, "EPOCH_TWICE", "epoch 3"),
    (epoch_of_rows, "EPOCH_OF_ROWS", "epoch 4"),
    (note_rows, "NOTE_ROWS", "epoch 4"),
    (note_rows_compacted, "NOTE_ROWS", "epoch 4"),
    (note_watermark, "NOTE_WATERMARK", "epoch 4"),
    (loaded_missing, "LOADED_ROWS", "file 1"),
    (event_twice, "EVENT_TWICE", "epoch 4"),
    (late_called_on_time, "LATE_WRONG", "epoch 4, partition 0, offset"),
    (late_compacted, "LATE_WRONG", "epoch 4, partition 0, offset"),
    (on_time_called_late, "LATE_WRONG", "epoch 4, partition 0, offset"),
    (late_not_said, "LATE_WRONG", "epoch 4, partition 0, offset"),
    (quarantined_called_on_time, "LATE_WRONG", "epoch 4, partition 0, offset"),
    (late_by_another_lateness, "LATE_WRONG", "epoch 4, partition 0, offset"),
    (released_twice, "RELEASED_TWICE", "epochs 5, 6"),
    (released_nothing, "RELEASED_NOTHING", "partition 0, offset 0, epoch 4"),
    (landing_behind, "LANDING_BEHIND", "checkpoints/landing/flights"),
    (checkpoint_foreign, "CHECKPOINT_FOREIGN", "batch 9"),
    (index_ahead, "INDEX_AHEAD", "index/flights"),
    (log_replaced, "LOG_REPLACED", "landing of flights"),
    (offsets_lost, "OFFSETS_LOST", "landing of flights"),
    (log_older, "LOG_OLDER", "partition 3"),
    (file_missing, "FILE_MISSING", ".parquet"),
    (file_short, "FILE_UNREADABLE", ".parquet"),
    (file_other, "FILE_UNREADABLE", ".parquet"),
    (unreadable, "CHECK_FAILED", "v2, speed half"),
]
