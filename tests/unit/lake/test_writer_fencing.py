"""Writers of one table, each of whom takes the turn, decides, and commits: every order of their steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from anabranch.core.errors import Conflict
from anabranch.core.storage import DISK, storage_of
from anabranch.lake import CommitMetadata, latest_commit, open_table
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.log.delta_tables import delta_table
from anabranch.lake.streams.writer_fencing import WriterFence, acquire
from deltalake import DeltaTable

pytestmark = pytest.mark.unit
STEPS = 3
RECORD = pa.schema([("record", pa.int64())])
FENCED, MOVED, DONE = "FENCED", "TABLE_MOVED", "done"


@dataclass
class Writer:
    """A process that writes what follows the newest record; ``met``: what its steps have met."""

    home: Path
    met: list[str] = field(default_factory=list)
    turn: WriterFence | None = None
    table: DeltaTable | None = None
    next: int = 0

    def __post_init__(self) -> None:
        self.uri = str(self.home / "table")
        self._steps = iter((self.takes, self.decides, self.commits))

    def step(self) -> None:
        """Its next step. One that was refused makes no other one."""
        act = next(self._steps)
        if FENCED not in self.met:
            act()

    def takes(self) -> None:
        self.turn = acquire(self.home / "turns", "test/writer")

    def decides(self) -> None:
        assert self.turn is not None
        try:
            self.turn.check()
        except Conflict as conflict:
            self.met.append(conflict.code)
            return
        self.table = open_table(self.uri)
        found = latest_commit(self.table) if self.table is not None else None
        self.next = (found.note.cut.epoch("records") if found else 0) + 1

    def commits(self) -> None:
        """And decides again, where another one was first."""
        assert self.table is not None
        files = stage_arrow(pa.table({"record": [self.next]}, RECORD), self.uri, uuid4().hex, None)
        cut = Cut({"records": Position(self.next, {0: self.next})})
        try:
            append(self.table, files, CommitMetadata("test/writer", str(self.next), cut))
        except Conflict as conflict:
            self.met.append(conflict.code)
            self.decides()
            if FENCED not in self.met:
                self.commits()
        else:
            self.met.append(DONE)


def orders(left: tuple[int, ...], begun: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every order of so many steps of each writer, as the numbers of those who make them."""
    if not any(left):
        yield begun
    for who, steps in enumerate(left):
        if steps:
            yield from orders((*left[:who], steps - 1, *left[who + 1 :]), (*begun, who))


def records(uri: str) -> list[int]:
    return sorted(delta_table(uri).to_pyarrow_table()["record"].to_pylist())


def carried_out(home: Path, order: tuple[int, ...]) -> None:
    writers = [Writer(home) for _ in set(order)]
    create(writers[0].uri, RECORD, [], CommitMetadata("test/writer", "0", Cut({"records": Position(0, {})})))
    took: list[int] = []
    for who in order:
        took += [who] if writers[who].turn is None else []
        writers[who].step()
        # Who has missed decides again only as long as nobody else has taken the turn.
        assert writers[who].met != [MOVED, DONE] or took[-1] == who
    last = writers[took[-1]]
    done = [writer for writer in writers if writer.met[-1] == DONE]
    # Each batch is in once, and none was passed over.
    assert records(last.uri) == list(range(1, len(done) + 1))
    # The one that took the turn last has gone on, whatever the others did, and still goes on.
    assert last.met in ([DONE], [MOVED, DONE])
    last.decides()
    last.commits()
    assert (records(last.uri)[-1], last.met[-1]) == (len(done) + 1, DONE)
    for writer in writers:
        if writer is not last:
            # It was done before it could know of another one, or it has ended: at once, or behind a commit that missed.
            assert writer.met in ([DONE], [MOVED, DONE], [FENCED], [MOVED, FENCED])
            assert writer.turn is not None
            lost = writer.turn.lost()
            assert lost is not None
            assert lost.code == FENCED


def test_two_writers_in_each_of_twenty_orders(place: Path) -> None:
    """In an object store, where each takes seconds, in every fourth one."""
    every = list(orders((STEPS, STEPS)))
    assert len(set(every)) == 20
    for number, order in enumerate(every if storage_of(place) is DISK else every[::4]):
        carried_out(place / str(number), order)


def test_two_writers_whose_fence_is_torn_lose_and_double_nothing(place: Path) -> None:
    """Neither can know of the other one; that a commit follows what was read is enough."""
    every = list(orders((STEPS, STEPS)))
    for number, order in enumerate(every if storage_of(place) is DISK else every[::4]):
        writers = [Writer(place / str(number)) for _ in range(2)]
        create(writers[0].uri, RECORD, [], CommitMetadata("test/writer", "0", Cut({"records": Position(0, {})})))
        for who in order:
            writers[who].step()
            turn = writers[who].turn
            assert turn is not None
            storage_of(turn.path).write(turn.path, b'{"token": ')
        assert records(writers[0].uri) == [1, 2], order
        assert [writer.met for writer in writers].count([MOVED, DONE]) <= 1
        assert all(writer.met[-1] == DONE for writer in writers)


def test_a_fence_that_can_not_be_read_now_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    turn = acquire(tmp_path, "test/writer")
    turn.path.unlink()
    turn.path.symlink_to(turn.path)
    with pytest.raises(OSError, match="symbolic"):
        turn.check()


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_three_writers_in_each_of_1680_orders(tmp_path: Path) -> None:
    every = list(orders((STEPS, STEPS, STEPS)))
    assert len(set(every)) == 1_680
    for number, order in enumerate(every):
        carried_out(tmp_path / str(number), order)
