"""A replay is published by one commit: what becomes of its files and the live table's where that ends with an error."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.change.replay.publish import is_published, publish_days, publish_whole
from anabranch.compute.speed.table import SpeedTable
from anabranch.core.errors import AnabranchError, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import commits, latest_commit
from anabranch.lake.files import StagedFile, stage_arrow, stage_links
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import PARTITION_DATE, Refresh
from anabranch.views.model.handle import ViewHandle
from deltalake import DeltaTable, write_deltalake
from support.landed_sample import FLIGHTS
from support.publications import REPLAY, of_replay
from support.small_platform import DAYS, NAME, SPEED, V1, Clinic, departed, rows_on
from support.traced_programs import Traced, at_commit, traced

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def clinic(settings: Settings) -> Clinic:
    """A live table that delta-rs writes a checkpoint behind each commit of, and a replay that is ready."""
    made = Clinic(settings)
    made.land([departed(n, DAYS[n % 5]) for n in range(5)])
    made.speed()
    live = SpeedTable(live_table(settings), V1, SPEED, unverified=True)
    commits.configure(live._table, {"delta.checkpointInterval": "1"}, live.newest().note)
    again = SpeedTable(str(VersionRef(settings, NAME, 1).replay_tables / REPLAY), V1, SPEED, unverified=True)
    rows = rows_on(DAYS, made.cut.epoch(FLIGHTS.name))
    again.refresh(stage_arrow(rows, again.uri, "x", PARTITION_DATE), again.note("replaycp:0", made.cut))
    return made


def live_table(settings: Settings) -> str:
    return VersionRef(settings, NAME, 1).speed_table


def block(settings: Settings, name: str) -> None:
    """Something that can't be replaced has the name of a file of the next version."""
    version = DeltaTable(live_table(settings)).version() + 1
    (Path(live_table(settings)) / "_delta_log" / f"{version:020d}.{name}" / "x").mkdir(parents=True)


def show(clinic: Clinic, *, whole: bool) -> None:
    uri = str(clinic.handle().replay_tables / REPLAY)
    if whole:
        publish_whole(clinic.handle(), REPLAY, uri)
    else:
        publish_days(clinic.handle(), REPLAY, uri, DAYS[:2])


@pytest.mark.parametrize("whole", [True, False])
def test_a_commit_that_is_in_keeps_its_files_whatever_failed_behind_it(clinic: Clinic, whole: bool) -> None:
    before = anabranch.read(NAME, settings=clinic.settings, version=1).to_arrow().num_rows
    block(clinic.settings, "checkpoint.parquet")

    show(clinic, whole=whole)

    assert is_published(clinic.handle(), REPLAY, 0)
    assert not is_published(clinic.handle(), REPLAY, DeltaTable(live_table(clinic.settings)).version())
    files = DeltaTable(live_table(clinic.settings)).file_uris()
    assert all(Path(file.removeprefix("file://")).exists() for file in files)
    assert anabranch.read(NAME, settings=clinic.settings, version=1).to_arrow().num_rows == before


@pytest.mark.parametrize("whole", [True, False])
def test_an_error_behind_the_commit_that_nothing_names_takes_nothing_away(
    clinic: Clinic, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = anabranch.read(NAME, settings=clinic.settings, version=1).to_arrow().num_rows

    def fails_afterwards(act: Any) -> Any:
        def commit(*given: Any) -> None:
            act(*given)
            raise ZeroDivisionError

        return commit

    for act in ("refresh", "replace"):
        monkeypatch.setattr(SpeedTable, act, fails_afterwards(getattr(SpeedTable, act)))
    with pytest.raises(ZeroDivisionError):
        show(clinic, whole=whole)
    assert is_published(clinic.handle(), REPLAY, 0)
    assert anabranch.read(NAME, settings=clinic.settings, version=1).to_arrow().num_rows == before


@pytest.mark.parametrize("whole", [True, False])
def test_where_nobody_knows_nothing_is_taken_away(clinic: Clinic, whole: bool) -> None:
    def builds() -> set[Path]:
        return set((Path(live_table(clinic.settings)) / "builds").glob("replay-*/**/*.parquet"))

    assert builds() == set()
    block(clinic.settings, "json")

    with pytest.raises(AnabranchError) as told:
        show(clinic, whole=whole)

    assert told.value.code == "COMMIT_UNKNOWN"
    assert builds(), "the commit may name them"


@contextmanager
def shown(clinic: Clinic, *, whole: bool, **blow: Any) -> Iterator[Traced]:
    """A publication in a process of its own, with a blow at its commit."""
    live = live_table(clinic.settings)
    at = at_commit(live, DeltaTable(live).version() + 1, **blow)
    with traced(at, live, of_replay, clinic.settings.home, whole) as program:
        yield program


def ended(program: Traced) -> str:
    found, said = program.end()
    assert (found["code"], found["killed"]) == (0, False), said
    code: str = json.loads(said.splitlines()[-1])
    return code


def live_files(clinic: Clinic) -> set[Path]:
    return {Path(file.removeprefix("file://")) for file in DeltaTable(live_table(clinic.settings)).file_uris()}


def rows_read(clinic: Clinic) -> int:
    found: int = anabranch.read(NAME, settings=clinic.settings, version=1).to_arrow().num_rows
    return found


@pytest.mark.parametrize("whole", [True, False])
def test_a_publication_whose_answer_is_lost_while_nobody_can_look_takes_nothing_away(
    clinic: Clinic, whole: bool
) -> None:
    """It is in: its files are the live table's, and those before are its history's."""
    before, rows, log = live_files(clinic), rows_read(clinic), Path(live_table(clinic.settings)) / "_delta_log"
    with shown(clinic, whole=whole, answer=errno.EIO, unread=str(log)) as program:
        assert ended(program) == "COMMIT_UNKNOWN"
    log.unlink()
    Path(f"{log}.away").rename(log)
    assert is_published(clinic.handle(), REPLAY, 0)
    assert all(file.exists() for file in before | live_files(clinic))
    assert rows_read(clinic) == rows


@pytest.mark.parametrize("error", [errno.EIO, errno.EEXIST])
@pytest.mark.parametrize("whole", [True, False])
def test_a_publication_whose_answer_is_lost_is_one(clinic: Clinic, whole: bool, error: int) -> None:
    before, rows = live_files(clinic), rows_read(clinic)
    with shown(clinic, whole=whole, answer=error) as program:
        assert ended(program) == "published"
    assert is_published(clinic.handle(), REPLAY, 0)
    assert all(file.exists() for file in before | live_files(clinic))
    assert rows_read(clinic) == rows


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("whole", [True, False])
def test_a_publication_that_is_stopped_in_its_commit_loses_nothing_of_the_stream(
    clinic: Clinic, whole: bool, after: bool
) -> None:
    with shown(clinic, whole=whole, stop=True, after=after) as program:
        program.wait_until_stopped()
        clinic.land([departed(9, DAYS[3])])
        clinic.speed([DAYS[3]], origin="NEW")
        program.wake()
        assert ended(program) == ("published" if after else "TABLE_MOVED")
    live = latest_commit(live_table(clinic.settings))
    assert live is not None
    assert live.note.cut == clinic.cut
    assert is_published(clinic.handle(), REPLAY, 0) == after
    assert all(file.exists() for file in live_files(clinic))
    rows = anabranch.read(NAME, settings=clinic.settings, version=1).to_arrow()
    assert "NEW" in rows["origin"].to_pylist()
    assert bool(list((Path(live_table(clinic.settings)) / "builds").glob("replay-*"))) == after


@pytest.mark.parametrize("refresh", ["state", "partitions"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_live_commit_behind_its_check_is_not_published_over(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, whole: bool, refresh: Refresh
) -> None:
    view = ViewHandle(clinic.settings, replace(V1, refresh=refresh), FLIGHTS)
    uri = str(view.replay_tables / REPLAY)

    def after_the_stream(*given: Any) -> Sequence[StagedFile]:
        clinic.land([departed(9, DAYS[3])])
        clinic.speed([DAYS[3]], origin="NEW")
        return stage_links(*given)

    monkeypatch.setattr("anabranch.change.replay.publish.stage_links", after_the_stream)
    with pytest.raises(Conflict) as refused:
        publish_whole(view, REPLAY, uri) if whole else publish_days(view, REPLAY, uri, DAYS[:2])

    assert refused.value.code == "TABLE_MOVED"
    live = latest_commit(view.speed_table)
    assert live is not None
    assert live.note.cut == clinic.cut
    assert not is_published(view, REPLAY, 0)


def test_days_are_not_published_over_rows_of_other_days_that_a_stranger_wrote(clinic: Clinic) -> None:
    write_deltalake(live_table(clinic.settings), rows_on(DAYS[3:4], 1, origin="stranger"), mode="append")

    with pytest.raises(AnabranchError) as refused:
        show(clinic, whole=False)

    assert refused.value.code == "COMMIT_UNNAMED"
    assert not is_published(clinic.handle(), REPLAY, 0), "readers would take the stranger's rows for the stream's own"
    assert not list((Path(live_table(clinic.settings)) / "builds").glob("replay-*"))


def test_days_are_published_over_what_a_stranger_wrote_into_them(clinic: Clinic) -> None:
    before = anabranch.read(NAME, settings=clinic.settings, version=1).to_arrow().num_rows
    write_deltalake(live_table(clinic.settings), rows_on(DAYS[1:2], 1, origin="stranger"), mode="append")

    show(clinic, whole=False)

    assert is_published(clinic.handle(), REPLAY, 0)
    assert anabranch.read(NAME, settings=clinic.settings, version=1).to_arrow().num_rows == before


def test_an_event_that_only_batch_gets_is_no_reason_to_keep_a_day(clinic: Clinic) -> None:
    """It is late: no row of a speed half depends on it, in neither of the two tables."""
    clinic.land([departed(9, DAYS[0])])
    assert clinic.decisions.rows[-1]["late"]
    clinic.speed([DAYS[3]])

    show(clinic, whole=False)

    assert is_published(clinic.handle(), REPLAY, 0)


def test_days_that_an_event_on_time_has_touched_are_kept(clinic: Clinic) -> None:
    clinic.land([departed(9, DAYS[4])])
    assert not clinic.decisions.rows[-1]["late"]
    clinic.speed([DAYS[4]])

    with pytest.raises(TryAgain) as refused:
        publish_days(clinic.handle(), REPLAY, str(clinic.handle().replay_tables / REPLAY), DAYS[3:])

    assert refused.value.code == "DAYS_TOUCHED"
    assert not is_published(clinic.handle(), REPLAY, 0)
