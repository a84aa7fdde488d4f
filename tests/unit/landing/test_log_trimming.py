"""What a stream may still need isn't archived while that isn't known."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.landing import log_trimming
from anabranch.ingest.landing.log_trimming import LogTrimmer
from anabranch.lake import latest_commit
from anabranch.lake.commits import configure
from anabranch.lake.log.archived_commits import LOG
from anabranch.lake.streams.stream_checkpoint import newest_batch, started
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from support.small_platform import DAYS, Clinic, departed

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    """Its commits are set aside at each fifth."""
    monkeypatch.setattr(log_trimming, "CHECKPOINT_COMMITS", 5)
    found = Clinic(Settings(home=tmp_path))
    found.land([departed(0, DAYS[0])])
    newest = latest_commit(found.uri)
    assert newest is not None
    configure(DeltaTable(found.uri), {"delta.checkpointInterval": "5"}, newest.note)
    return found


def first_after_many_commits(clinic: Clinic) -> int:
    """The oldest commit in the log, behind twenty ones of landing."""
    table = DeltaTable(clinic.uri)
    length = LogTrimmer(clinic.settings, table)
    for number in range(1, 21):
        clinic.land([departed(number, DAYS[0])])
        table.update_incremental()
        length.committed()
    return min(int(path.stem) for path in (Path(clinic.uri) / LOG).glob("*.json") if path.stem.isdecimal())


def test_what_no_stream_needs_is_archived(clinic: Clinic) -> None:
    assert first_after_many_commits(clinic) > 10


@pytest.mark.parametrize("unreadable", ["", "v1", "v1/offsets", "v1/offsets/3"])
def test_a_stream_whose_plan_can_not_be_read_keeps_the_log(
    clinic: Clinic, caplog: pytest.LogCaptureFixture, unreadable: str
) -> None:
    path = clinic.settings.checkpoints / "speed" / "delays" / unreadable
    path.parent.mkdir(parents=True)
    path.symlink_to(path)
    assert first_after_many_commits(clinic) == 0
    assert "could not archive old commits" in caplog.text


def test_an_error_of_delta_fails_no_epoch(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: DeltaTable) -> None:
        raise DeltaError("no metadata")

    monkeypatch.setattr(DeltaTable, "metadata", fails)
    table = DeltaTable(clinic.uri)
    LogTrimmer(clinic.settings, table).committed()
    assert "could not archive old commits: no metadata" in "".join(caplog.text.splitlines())


def test_a_checkpoint_that_can_not_be_listed_has_not_begun_nothing(tmp_path: Path) -> None:
    (tmp_path / "offsets").symlink_to(tmp_path / "offsets")
    for look in (started, lambda checkpoint: newest_batch(checkpoint, "offsets")):
        with pytest.raises(BrokenState) as unreadable:
            look(tmp_path)
        assert unreadable.value.code == "CHECKPOINT_UNREADABLE"
    assert newest_batch(tmp_path, "commits") is None
