"""Which epochs a stream has yet to read is asked of a table that stays open."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.compute.speed import _stream_watch
from anabranch.compute.speed._stream_watch import NewestWithRows
from anabranch.core.settings import Settings
from anabranch.lake import open_table
from deltalake.exceptions import DeltaError
from support.small_platform import DAYS, Clinic, departed

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(Settings(home=tmp_path))


def test_epochs_without_rows_do_not_count(clinic: Clinic) -> None:
    newest = NewestWithRows(clinic.uri)
    clinic.land([departed(1, DAYS[0])])
    first = newest()
    clinic.land([])
    assert newest() == first == clinic.epoch - 1
    clinic.land([departed(2, DAYS[0])])
    assert newest() == clinic.epoch


def test_the_table_is_opened_once(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[str]()

    def counted(uri: str) -> object:
        opened.append(uri)
        return open_table(uri)

    monkeypatch.setattr(_stream_watch, "open_table", counted)
    newest = NewestWithRows(clinic.uri)
    clinic.land([departed(1, DAYS[0])])
    for number in range(5):
        clinic.land([departed(number, DAYS[0])])
        assert newest() == clinic.epoch
    assert opened == [clinic.uri]


def test_without_a_table_there_is_none(tmp_path: Path) -> None:
    assert NewestWithRows(str(tmp_path / "nowhere"))() is None


def test_commits_that_were_archived_meanwhile_are_not_missed(clinic: Clinic) -> None:
    """A process that slept can't follow the log from where it was."""
    newest = NewestWithRows(clinic.uri)
    clinic.land([departed(1, DAYS[0])])
    assert newest() == clinic.epoch
    clinic.land(*([departed(number, DAYS[0])] for number in range(4)))
    clinic.table.update_incremental()
    clinic.table.create_checkpoint()
    for commit in sorted((Path(clinic.uri) / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    assert newest() == clinic.epoch


def test_after_an_error_it_goes_on(clinic: Clinic) -> None:
    newest = NewestWithRows(clinic.uri)
    clinic.land([departed(1, DAYS[0])])
    assert newest() == clinic.epoch
    clinic.table.update_incremental()
    broken = Path(clinic.uri) / "_delta_log" / f"{clinic.table.version() + 1:020}.json"
    broken.write_text("no commit")
    with pytest.raises(DeltaError):
        newest()
    broken.unlink()
    clinic.land([departed(2, DAYS[0])])
    assert newest() == clinic.epoch
