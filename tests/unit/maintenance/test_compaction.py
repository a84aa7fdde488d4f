"""Compaction: few files, the same rows, and nobody who writes, reads or follows the table has to mind it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.change.replay.landing_mirror import LandedCommits, Mirror
from anabranch.compute.speed.table import BatchAction, SpeedTable
from anabranch.core.errors import BrokenState, Conflict
from anabranch.ingest.landing import duplicates
from anabranch.ingest.landing.duplicates import Duplicates
from anabranch.ingest.landing.state import read_state
from anabranch.ingest.landing.table.event_counts import files_since
from anabranch.ingest.landing.table.schema import epoch_build, landing_schema
from anabranch.lake import CommitMetadata, commit_history, latest_commit
from anabranch.lake import commits as lake_commits
from anabranch.lake.files import StagedFile, stage_arrow
from anabranch.lake.layout import TableRef, existing_tables
from anabranch.operate.maintenance import _compaction
from anabranch.operate.maintenance._compaction import compact
from anabranch.operate.maintenance._file_merging import Group, merge
from anabranch.operate.maintenance._report import Action, Policy
from anabranch.serve.table_snapshots import snapshot
from deltalake import DeltaTable, write_deltalake
from support.landed_sample import FLIGHTS
from support.maintained_platform import EPOCHS, busy, files, on_disk, rows, said, speed_of
from support.small_platform import DAYS, SPEED, V1, Clinic, departed, rows_on

pytestmark = pytest.mark.unit
POLICY = Policy()


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return busy(tmp_path / "home")


def place_of(clinic: Clinic, kind: str) -> TableRef:
    return next(place for place in existing_tables(clinic.settings, "landing", "speed") if place.kind == kind)


def compacted(clinic: Clinic, kind: str) -> list[Action]:
    return list(compact(clinic.settings, place_of(clinic, kind), POLICY))


def test_many_small_commits_end_in_few_files_with_the_same_rows(clinic: Clinic) -> None:
    before, held = rows(clinic.uri), files(clinic.uri)
    assert len(held) >= 2 * EPOCHS
    (deed,) = compacted(clinic, "landing")
    partitions = {Path(path).parent.name for path in held}
    assert rows(clinic.uri) == before
    assert len(files(clinic.uri)) < POLICY.few * len(partitions)
    assert (deed.files - deed.made, deed.made) == (len(held) - len(files(clinic.uri)), 2)
    assert set(held) <= on_disk(clinic.uri), "a reader may be at them still"
    assert compacted(clinic, "landing") == [], "it was done"
    assert not said(clinic).findings


def test_a_speed_half_too(clinic: Clinic) -> None:
    uri = speed_of(clinic)
    before, count, pinned = rows(uri), len(files(uri)), snapshot(uri)
    compacted(clinic, "speed")
    now = snapshot(uri)
    assert (len(files(uri)), rows(uri)) == (2, before)
    assert count > 6
    assert pinned is not None
    assert now is not None
    assert (now.newest.note, now.changed) == (pinned.newest.note, pinned.changed)
    assert now.newest.commit_time_ms == pinned.newest.commit_time_ms, "the view has become no fresher"
    assert rows(uri, [path for of in pinned.files.values() for path in of]) == before
    assert not said(clinic).findings


def test_what_commits_say_is_as_before(clinic: Clinic) -> None:
    before, state = list(commit_history(clinic.uri)), read_state(clinic.table, FLIGHTS)
    compacted(clinic, "landing")
    after = list(commit_history(clinic.uri))
    assert [(c.version, c.note, c.commit_time_ms) for c in after] == [
        (c.version, c.note, c.commit_time_ms) for c in before
    ]
    assert (before[0].rows_at, after[0].rows_at, after[1].rows_at) == (EPOCHS, EPOCHS + 1, EPOCHS - 1)
    clinic.table.update_incremental()
    assert read_state(clinic.table, FLIGHTS) == state
    found = latest_commit(clinic.uri)
    assert found is not None
    assert (found.version, found.note) == (EPOCHS + 1, before[0].note)
    clinic.table.create_checkpoint()
    for old in range(EPOCHS + 1):  # the commit whose note it carries has expired
        (Path(clinic.uri) / "_delta_log" / f"{old:020d}.json").unlink()
    assert [(c.version, c.note) for c in commit_history(clinic.uri)] == [(EPOCHS + 1, before[0].note)]


def test_landing_that_commits_meanwhile_lands_behind_it(clinic: Clinic) -> None:
    clinic.table.update_incremental()
    before = read_state(clinic.table, FLIGHTS)
    compacted(clinic, "landing")
    data = pa.Table.from_pylist([clinic.row(departed(99))], landing_schema(FLIGHTS))
    staged = stage_arrow(data, clinic.uri, epoch_build(before.epoch + 1), "event_date")
    note = CommitMetadata("landing/flights", "c:new", clinic.decisions.cut, extra={"rows": 1, "watermark_us": 1})
    assert lake_commits.append(clinic.table, staged, note) == EPOCHS + 2
    with pytest.raises(Conflict) as moved:  # what isn't a move is in the way as ever
        lake_commits.append(DeltaTable(clinic.uri, version=EPOCHS), staged, note)
    assert moved.value.code == "TABLE_MOVED"


def test_a_stream_that_merges_meanwhile_goes_on(clinic: Clinic) -> None:
    live = SpeedTable(speed_of(clinic), V1, SPEED)
    cut = clinic.cut
    assert live.action_for("speed-v1", EPOCHS, cut) is BatchAction.NEXT
    compacted(clinic, "speed")
    live.merge_small(rows_on([DAYS[0]], clinic.epoch, origin="LIVE"), EPOCHS, live.note(f"speed-v1:{EPOCHS}", cut))
    assert sum("LIVE" in row for row in rows(speed_of(clinic)).elements()) == 2
    assert live.action_for("speed-v1", EPOCHS + 1, cut) is BatchAction.NEXT
    assert not said(clinic).findings


def test_between_two_micro_batches_it_is_not_seen_either(clinic: Clinic) -> None:
    live = SpeedTable(speed_of(clinic), V1, SPEED)
    compacted(clinic, "speed")
    assert live.action_for("speed-v1", EPOCHS - 1, clinic.cut) is BatchAction.DONE
    assert live.action_for("speed-v1", EPOCHS, clinic.cut) is BatchAction.NEXT


def test_what_its_writer_has_changed_meanwhile_is_left_out(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:

    def disturbed(uri: str, schema: pa.Schema, group: Group) -> StagedFile:
        made = merge(uri, schema, group)
        if group.files[0].partition["partition_date"] == str(DAYS[0]):
            clinic.speed([DAYS[0]], origin="A00")  # rewrites the file that A00's rows are in
        return made

    monkeypatch.setattr(_compaction, "merge", disturbed)
    (deed,) = compacted(clinic, "speed")
    assert deed.made == 1
    assert sum(f"partition_date={DAYS[1]}" in path for path in files(speed_of(clinic))) == 1
    assert not said(clinic).findings, "nothing is left of what was not committed"
    monkeypatch.undo()
    before = rows(speed_of(clinic))
    compacted(clinic, "speed")
    assert (len(files(speed_of(clinic))), rows(speed_of(clinic))) == (2, before)


def test_the_index_of_ids_follows_it(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.index()
    compacted(clinic, "landing")
    clinic.land([departed(500)])
    clinic.table.update_incremental()
    known = Duplicates(clinic.settings, FLIGHTS, clinic.table)
    monkeypatch.setattr(duplicates.Duplicates, "_rebuild", lambda _: pytest.fail("made anew from all of landing"))
    known.catch_up()
    assert not said(clinic).findings


def test_what_landed_since_an_epoch_is_still_found_by_name(clinic: Clinic) -> None:
    compacted(clinic, "landing")
    clinic.land([departed(500, DAYS[0])], [departed(501, DAYS[1])])

    def opened(epoch: int) -> list[date]:
        files = files_since(DeltaTable(clinic.uri), lambda _: epoch)
        days = {
            file.path: date.fromisoformat(Path(file.path).parent.name.removeprefix("event_date=")) for file in files
        }
        assert all(days[file.path] == file.day for file in files)
        return sorted(days.values())

    assert opened(EPOCHS) == [DAYS[0], DAYS[1]]
    assert opened(EPOCHS + 1) == [DAYS[1]]
    assert len(opened(EPOCHS - 2)) == 4


def test_a_mirror_gives_out_the_same_epochs_across_it(clinic: Clinic, tmp_path: Path) -> None:
    under_way = Mirror(clinic.uri, tmp_path / "under-way")
    under_way.release(4)
    compacted(clinic, "landing")
    clinic.land([departed(500)])
    whole, commits = rows(clinic.uri), list(LandedCommits(clinic.uri).read_new())
    assert sum(commit.rows for commit in commits) == sum(whole.values())
    assert [c.version for c in commits] == list(range(EPOCHS + 3))
    begun = Mirror(clinic.uri, tmp_path / "begun")
    assert begun.released == 0
    for mirror in (under_way, begun):
        mirror.release(EPOCHS)
        assert len(rows(mirror.uri)) == len(whole) - 1
        mirror.release(EPOCHS + 2)
        assert rows(mirror.uri) == whole


def test_a_stranger_who_changed_rows_keeps_a_table_from_being_compacted(clinic: Clinic) -> None:
    stranger = pa.Table.from_pylist([clinic.row(departed(7))], landing_schema(FLIGHTS))
    write_deltalake(clinic.uri, stranger, mode="append")
    with pytest.raises(BrokenState) as refused:
        compacted(clinic, "landing")
    assert refused.value.code == "COMMIT_UNNAMED"


def test_a_table_of_a_strangers_compaction_is_compacted(tmp_path: Path) -> None:
    clinic = busy(tmp_path / "home", 4)
    clinic.compact()
    clinic.land(*([departed(100 + n, DAYS[0])] for n in range(5)))
    before = rows(clinic.uri)
    compacted(clinic, "landing")
    assert rows(clinic.uri) == before
    assert not said(clinic).findings
