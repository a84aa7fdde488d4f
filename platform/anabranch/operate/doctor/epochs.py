"""Whether each commit of landing is one epoch, and its note says what its files hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from anabranch.lake import Commit
from anabranch.lake.commit_log import changes
from anabranch.operate.doctor.commits import rebuilt
from anabranch.operate.doctor.context import Context, TableState, each, rows_of
from anabranch.operate.doctor.findings import Finding

_FILES = "select filename, min(epoch), max(epoch), count(*), max(epoch_us(event_time)) from rows group by 1"
_EPOCHS = "select epoch, count(*), max(epoch_us(event_time)) from rows group by 1"


@dataclass(frozen=True, slots=True)
class Rows:
    """``newest_us`` is the largest event time; None where no row has one."""

    count: int
    newest_us: int | None


@dataclass(frozen=True, slots=True)
class Landed:
    """By file with its lowest and highest epoch, and by epoch."""

    files: Mapping[Path, tuple[int, int, Rows]] = field(hash=False)
    epochs: Mapping[int, Rows] = field(hash=False)

    def of(self, added: tuple[Path, ...], epoch: int) -> Rows:
        """What a commit landed: the rows of its files, or of its epoch where one of them has been compacted since."""
        held = [self.files[path][2] for path in added if path in self.files]
        if len(held) < len(added):
            return self.epochs.get(epoch, Rows(0, None))
        times = [rows.newest_us for rows in held if rows.newest_us is not None]
        return Rows(sum(rows.count for rows in held), max(times, default=None))


@each("landing")
def numbers(_: Context, held: TableState) -> Iterator[Finding]:
    """EPOCH_MISSING, EPOCH_TWICE: a commit takes the next number, or none where it lands nothing."""
    topic = held.place.name
    for before, committed in pairwise(held.notes):
        last, epoch = before.note.cut.epoch(topic), committed.note.cut.epoch(topic)
        where = f"{held.place}, version {committed.version}, epoch {epoch}"
        mending = rebuilt(held.place)
        if epoch > last + 1:
            yield Finding("EPOCH_MISSING", where, f"epoch {epoch} follows epoch {last}", mending)
        elif epoch < last or (epoch == last and committed.note.extra.get("rows", 0)):
            yield Finding("EPOCH_TWICE", where, f"epoch {epoch} is landed behind epoch {last}", mending)


@each("landing")
def contents(_: Context, held: TableState) -> Iterator[Finding]:
    """EPOCH_OF_ROWS, NOTE_ROWS, NOTE_WATERMARK, of the commits whose notes and files are kept."""
    landed = _landed(held)
    if landed is None:
        return
    for before, committed in pairwise(held.notes):
        with suppress(FileNotFoundError):  # its place in the log was cleaned up meanwhile
            yield from _content(held, before, committed, landed)


def _content(held: TableState, before: Commit, committed: Commit, landed: Landed) -> Iterator[Finding]:
    topic, note = held.place.name, committed.note
    epoch = note.cut.epoch(topic)
    if epoch == before.note.cut.epoch(topic):
        return  # it lands nothing: that is ``numbers``' to say
    added = changes(held.table, committed.version).added
    where = f"{held.place}, version {committed.version}, epoch {epoch}"
    mending = rebuilt(held.place)
    strays = [path for path in added if path in landed.files and landed.files[path][:2] != (epoch, epoch)]
    if strays:
        low, high, _ = landed.files[strays[0]]
        what = f"its commit is epoch {epoch}, its rows say {low}" + (f" to {high}" if high > low else "")
        yield Finding("EPOCH_OF_ROWS", f"{where}: {strays[0]}", what, mending)
        return
    rows, said = landed.of(added, epoch), int(note.extra.get("rows", 0))
    if rows.count != said:
        yield Finding("NOTE_ROWS", where, f"its note says {said} rows, its files hold {rows.count}", mending)
    times = [time for time in (before.note.extra.get("watermark_us"), rows.newest_us) if time is not None]
    newest = max(times, default=None)
    if newest != note.extra.get("watermark_us"):
        what = (
            f"its note says that the newest event so far is of {note.extra.get('watermark_us')}, it is of {newest} (us)"
        )
        yield Finding("NOTE_WATERMARK", where, f"{what}: late is decided by it", mending)


def _landed(held: TableState) -> Landed | None:
    files = held.readable()
    if not files:
        return None
    with rows_of(files) as rows:
        by_file = {Path(name): (low, high, Rows(n, us)) for name, low, high, n, us in rows.execute(_FILES).fetchall()}
        by_epoch = {epoch: Rows(n, us) for epoch, n, us in rows.execute(_EPOCHS).fetchall()}
    return Landed(by_file, by_epoch)
