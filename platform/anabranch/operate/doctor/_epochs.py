"""Checks that each landing commit is one epoch, and that its metadata agrees with its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from anabranch.lake import Commit
from anabranch.lake.log.commit_log import changes
from anabranch.operate.doctor._commits import how_to_rebuild
from anabranch.operate.doctor._context import Context, TableState, each, rows_of
from anabranch.operate.doctor._findings import Finding

_NEWEST = "max(epoch_us(event_time)) filter (decision <> 'loaded')"
_FILES = f"select filename, min(epoch), max(epoch), count(*), {_NEWEST} from rows group by 1"  # noqa: S608
_EPOCHS = f"select epoch, count(*), {_NEWEST} from rows group by 1"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Rows:
    """``newest_us`` is the largest event time of the log's rows; None if none of them has one."""

    count: int
    newest_us: int | None


@dataclass(frozen=True, slots=True)
class Landed:
    """Row counts: per file with its lowest and highest epoch, and per epoch."""

    files: Mapping[Path, tuple[int, int, Rows]] = field(hash=False)
    epochs: Mapping[int, Rows] = field(hash=False)

    def of(self, added: tuple[Path, ...], epoch: int) -> Rows:
        """What a commit landed: the rows of its files, or of its epoch if one of its files was compacted since."""
        kept = [self.files[path][2] for path in added if path in self.files]
        if len(kept) < len(added):
            return self.epochs.get(epoch, Rows(0, None))
        times = [rows.newest_us for rows in kept if rows.newest_us is not None]
        return Rows(sum(rows.count for rows in kept), max(times, default=None))


@each("landing")
def numbers(_: Context, state: TableState) -> Iterator[Finding]:
    """EPOCH_MISSING, EPOCH_TWICE: a commit has the next epoch number, or the same one if it lands nothing."""
    topic = state.place.name
    for before, committed in pairwise(state.notes):
        last, epoch = before.note.cut.epoch(topic), committed.note.cut.epoch(topic)
        where = f"{state.place}, version {committed.version}, epoch {epoch}"
        next_step = how_to_rebuild(state.place)
        if epoch > last + 1:
            yield Finding("EPOCH_MISSING", where, f"epoch {epoch} follows epoch {last}", next_step)
        elif epoch < last or (epoch == last and committed.note.extra.get("rows", 0)):
            yield Finding("EPOCH_TWICE", where, f"epoch {epoch} was landed after epoch {last}", next_step)


@each("landing")
def contents(_: Context, state: TableState) -> Iterator[Finding]:
    """EPOCH_OF_ROWS, NOTE_ROWS, NOTE_WATERMARK, for the commits whose metadata and files are kept."""
    landed = _landed(state)
    if landed is None:
        return
    for before, committed in pairwise(state.notes):
        with suppress(FileNotFoundError):  # log cleanup deleted it meanwhile
            yield from _content(state, before, committed, landed)


def _content(state: TableState, before: Commit, committed: Commit, landed: Landed) -> Iterator[Finding]:
    topic, note = state.place.name, committed.note
    epoch = note.cut.epoch(topic)
    if epoch == before.note.cut.epoch(topic):
        return  # it lands nothing; ``numbers`` checks that
    added = changes(state.table, committed.version).added
    where = f"{state.place}, version {committed.version}, epoch {epoch}"
    next_step = how_to_rebuild(state.place)
    strays = [path for path in added if path in landed.files and landed.files[path][:2] != (epoch, epoch)]
    if strays:
        low, high, _ = landed.files[strays[0]]
        what = f"its commit is epoch {epoch}, its rows have {low}" + (f" to {high}" if high > low else "")
        yield Finding("EPOCH_OF_ROWS", f"{where}: {strays[0]}", what, next_step)
        return
    rows, said = landed.of(added, epoch), int(note.extra.get("rows", 0))
    if rows.count != said:
        yield Finding("NOTE_ROWS", where, f"its metadata says {said} rows, its files hold {rows.count}", next_step)
    times = [time for time in (before.note.extra.get("watermark_us"), rows.newest_us) if time is not None]
    newest = max(times, default=None)
    if newest != note.extra.get("watermark_us"):
        what = (
            f"by its metadata the largest event time so far is {note.extra.get('watermark_us')}, by its rows {newest}"
            " (us)"
        )
        yield Finding("NOTE_WATERMARK", where, f"{what}: lateness is decided by it", next_step)


def _landed(state: TableState) -> Landed | None:
    files = state.readable()
    if not files:
        return None
    with rows_of(files) as rows:
        by_file = {Path(name): (low, high, Rows(n, us)) for name, low, high, n, us in rows.execute(_FILES).fetchall()}
        by_epoch = {epoch: Rows(n, us) for epoch, n, us in rows.execute(_EPOCHS).fetchall()}
    return Landed(by_file, by_epoch)
