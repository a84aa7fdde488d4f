"""Proves that landing holds every record of the log exactly once, by comparing its offsets with the broker's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

import duckdb
from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.core.errors import BadInput, BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.ingest.kafka.admin import begin_offsets, end_offsets, readable_ends
from anabranch.ingest.landing.empty_offsets import all_losses, all_recorded
from anabranch.ingest.landing.loaded_files import LANDED_FILES, Loads, names_of_files, wrong_rows
from anabranch.ingest.landing.state import read_state
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import commit_history, open_table
from anabranch.lake.layout import landing_table
from anabranch.lake.log.commit_errors import unreadable_file
from anabranch.lake.log.delta_tables import data_paths

_COUNTS = """
select "partition", count(*), count(distinct "offset"), min("offset"), max("offset"),
    count(*) filter (decision = 'valid'), count(*) filter (decision = 'quarantined'),
    count(*) filter (decision = 'duplicate'), count(*) filter (late), count(*) filter (decision = 'tombstone')
from rows where released_from is null and "partition" >= 0 group by 1 order by 1
"""
_NO_ROW = (0, 0, 0, None, None, 0, 0, 0, 0, 0)
DOUBLED = """
with several as (
    select source, event_id from rows where decision in ('valid', 'loaded') group by 1, 2 having count(*) > 1),
again as (
    select source, event_id, "partition", "offset", epoch, epoch_us(append_time) - lag(epoch_us(append_time)) over (
        partition by source, event_id order by append_time, "partition", "offset") as after,
        decision = 'loaded' and epoch > min(epoch) over (partition by source, event_id) as reloaded
    from rows semi join several using (source, event_id) where decision in ('valid', 'loaded'))
select source, event_id, "partition", "offset", epoch from again where after <= ? or reloaded order by 3, 4
"""
"""Copies of an event that were landed as events within the horizon (the parameter, in microseconds), or loaded from a
file after it had landed, at any time."""

_CONFLICTS = """
select d."partition", d."offset", d.source, d.event_id, f."partition", f."offset"
from rows d join rows f on d.source = f.source and d.event_id = f.event_id
where d.decision = 'duplicate' and f.decision in ('valid', 'loaded') and d.value <> f.value
order by 1, 2 limit ?
"""


@dataclass(frozen=True, slots=True)
class PartitionProof:
    """One partition: what the log holds, what was landed, and what is wrong (nothing if the table is sound)."""

    partition: int
    first: int
    """The first offset that was landed."""
    landed_to: int
    """The next offset to land."""
    log_begin: int
    log_end: int
    readable_to: int
    """The end of what is readable: before the first record of an open transaction, otherwise ``log_end``."""
    valid: int
    quarantined: int
    duplicates: int
    late: int
    tombstones: int
    """Records with a key and no value."""
    holes: int
    """Offsets that were proven to hold no record."""
    wrong: tuple[str, ...]

    @property
    def lag(self) -> int:
        return max(0, self.readable_to - self.landed_to)

    @property
    def undecided(self) -> int:
        """Offsets from the first record of an open transaction to the end of the log."""
        return max(0, self.log_end - max(self.readable_to, self.landed_to))


@dataclass(frozen=True, slots=True)
class FileProof:
    """A file that was loaded: ``landed`` of its ``rows`` (None: not known any more), by decision, and what is wrong."""

    number: int
    name: str
    rows: int | None
    landed: int
    loaded: int
    quarantined: int
    duplicates: int
    finished: bool
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """All partitions and loaded files of a topic. ``sound``: each offset of the log, and each row of a file that has
    landed so far, is in landing or quarantine exactly once, or was proven to hold no record; no event is there twice.
    ``doubled`` counts the copies that were landed as events within the duplicate horizon. ``holes`` lists the offsets
    without a record, for the epochs whose commits are still kept."""

    topic: str
    epoch: int
    partitions: tuple[PartitionProof, ...]
    accepted_losses: tuple[Mapping[str, int], ...] = ()
    doubled: int = 0
    holes: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict, hash=False)
    files: tuple[FileProof, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.doubled and not (
            any(p.wrong for p in self.partitions) or any(file.wrong for file in self.files)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "epoch": self.epoch,
            "sound": self.sound,
            "doubled": self.doubled,
            "accepted_losses": [dict(loss) for loss in self.accepted_losses],
            "holes": [{"partition": p, "from": a, "to": b} for p, each in self.holes.items() for a, b in each],
            "partitions": [{**asdict(p), "lag": p.lag, "undecided": p.undecided} for p in self.partitions],
            "files": [asdict(file) for file in self.files],
        }


def verify(settings: Settings, topic: Topic) -> Proof:
    """Compare the landing table with the broker. Raises BROKER_UNREACHABLE if there is none, FILES_MISSING if the table
    names missing files, FILE_UNREADABLE if one is torn. Writes nothing."""
    table = open_table(landing_table(settings, topic.name))
    if table is None:
        raise BadInput("NOT_LANDED", f"{topic.name} has not been landed yet", next_step="anabranch up")
    _check_files(table)
    begin, end = begin_offsets(settings, topic.in_kafka), end_offsets(settings, topic.in_kafka)
    readable = readable_ends(settings, topic.in_kafka)
    state = read_state(table, topic)
    try:
        with landed_rows(table) as rows:
            counted = {row[0]: row for row in rows.execute(_COUNTS).fetchall()}
            landed = {number: counts for number, *counts in rows.execute(LANDED_FILES).fetchall()}
            doubled = len(rows.execute(DOUBLED, [horizon_us(topic)]).fetchall())
    except duckdb.Error as error:
        raise unreadable_file(table.table_uri, error) from error
    kept = list(commit_history(table))
    losses = tuple(all_losses(kept))
    holes = all_recorded(kept)

    def prove(p: int) -> PartitionProof:
        first = state.begin.get(p, min((a for a, _ in holes.get(p, ())), default=None))
        log = (begin.get(p, 0), end.get(p, 0), readable.get(p, 0))
        return _prove(p, counted.get(p), (first, state.offsets.get(p, 0)), log, state.holes.get(p, 0), losses)

    partitions = tuple(prove(p) for p in sorted({*end, *counted, *state.offsets}))
    files = _files(settings, topic, table, state.loads, landed)
    return Proof(topic.name, state.epoch, partitions, losses, doubled, holes, files)


def _files(
    settings: Settings, topic: Topic, table: DeltaTable, loads: Loads, landed: Mapping[int, Sequence[int]]
) -> tuple[FileProof, ...]:
    wrong: dict[int, list[str]] = {}
    for number, what in wrong_rows(loads, landed):
        wrong.setdefault(number, []).append(what)
    numbers = sorted({*landed, *wrong})
    known = names_of_files(settings, topic.name, table, set(numbers)) if numbers else {}

    def prove(number: int) -> FileProof:
        count, _, _, _, loaded, quarantined, duplicates = landed.get(number, (0,) * 7)
        file, finished = known.get(number), number not in loads.open
        said = wrong.get(number, [])
        if file is not None and finished and file.rows != count:
            said = [*said, f"{count:,} of its {file.rows:,} rows landed"]
        name, rows = (file.name, file.rows) if file is not None else ("", None)
        return FileProof(number, name, rows, count, loaded, quarantined, duplicates, finished, tuple(said))

    return tuple(prove(number) for number in numbers)


def horizon_us(topic: Topic) -> int:
    """The duplicate horizon in microseconds."""
    return topic.duplicate_horizon // timedelta(microseconds=1)


def conflicts(settings: Settings, topic: Topic, limit: int = 100) -> list[dict[str, Any]]:
    """Duplicates whose bytes differ from the first record's: the same id with another payload."""
    table = open_table(landing_table(settings, topic.name))
    if table is None:
        return []
    names = ("partition", "offset", "source", "event_id", "first_partition", "first_offset")
    found = landed_rows(table).execute(_CONFLICTS, [limit]).fetchall()
    return [dict(zip(names, row, strict=True)) for row in found]


def _check_files(table: DeltaTable) -> None:
    missing = [str(path) for path in data_paths(table) if not storage_of(path).exists(path)]
    if missing:
        raise BrokenState(
            "FILES_MISSING",
            f"{table.table_uri}: {len(missing)} data files are missing, for example {missing[0]}",
            state="the rows in them can't be read; nothing was changed",
            next_step="restore the files; or move table and checkpoint away, and land what the log still holds again",
            files=missing,
        )


def _prove(
    partition: int,
    row: tuple[Any, ...] | None,
    landed: tuple[int | None, int],
    log: tuple[int, int, int],
    holes: int,
    losses: tuple[Mapping[str, int], ...],
) -> PartitionProof:
    """``landed``: the offset that landing began with, if known, and the next one to land."""
    (known, landed_to), (begin, end, readable) = landed, log
    _, count, distinct, row_first, row_last, valid, quarantined, duplicates, late, tombstones = row or _NO_ROW
    first = min((offset for offset in (known, row_first) if offset is not None), default=begin)
    lost = sum(loss["to"] - loss["from"] for loss in losses if loss["partition"] == partition and loss["from"] >= first)
    missing = max(landed_to - first, 0) - distinct - lost - holes
    wrong = []
    if count != distinct:
        wrong.append(f"{count - distinct} offsets were landed more than once")
    if missing > 0:
        wrong.append(f"{missing} offsets between {first} and {landed_to - 1} are missing")
    if missing < 0:
        wrong.append(f"{-missing} offsets more were landed than there are between {first} and {landed_to - 1}")
    if row_last is not None and row_last >= landed_to:
        wrong.append(f"the table says that it was landed to {landed_to}, its rows end at {row_last + 1}")
    if begin < first:
        wrong.append(f"the log begins at {begin}, landing at {first}")
    if landed_to > end:
        wrong.append(f"landing is ahead of the log, which ends at {end}")
    counts = (valid, quarantined, duplicates, late, tombstones, holes)
    return PartitionProof(partition, first, landed_to, begin, end, readable, *counts, tuple(wrong))
