"""A reader keeps its old version until the new one covers what it has seen. If the old one cannot be read, that is a
failed read of the old version, and no migration goes back because of it."""

from __future__ import annotations

from pathlib import Path

import anabranch
import pytest
from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve import read_plan, routes
from anabranch.serve.reader_log import failed_reads, record_failed
from anabranch.serve.routes import set_route
from support import small_halves
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
READER = "anna"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A reader has read v1 at epoch 2, and is moved to v2 at epoch 1: v1 went on after the move had looked."""
    made = Settings(home=tmp_path)
    small_halves.start_speed(made, 2, DAYS[:1], version=1)
    small_halves.start_speed(made, 1, DAYS[:1], version=2)
    set_route(made, VIEW, {1: 100}, by="test", why="test", after=0)
    assert anabranch.read(VIEW, settings=made, reader=READER).cut.epoch("flights") == 2
    with monkeypatch.context() as racing:
        racing.setattr(routes, "covers", lambda *_: True)
        set_route(made, VIEW, {2: 100}, by="test", why="test", after=1)
    assert anabranch.read(VIEW, settings=made, reader=READER).version == 1
    return made


def codes(settings: Settings, version: int) -> list[tuple[str, int]]:
    return [(read.code, read.route) for read in failed_reads(VersionRef(settings, VIEW, version))]


def damage(settings: Settings, version: int) -> None:
    """Its newest commit is torn."""
    log = Path(VersionRef(settings, VIEW, version).speed_table) / "_delta_log"
    newest = max(log.glob("*.json"))
    newest.write_text(newest.read_text()[:-40])


def test_an_unreadable_old_version_counts_against_itself(settings: Settings) -> None:
    damage(settings, 1)
    with pytest.raises(BrokenState) as failed:
        anabranch.read(VIEW, settings=settings, reader=READER)
    assert failed.value.code == "TABLE_UNREADABLE"
    assert "v1" in str(failed.value)
    assert codes(settings, 1) == [("TABLE_UNREADABLE", 2)]
    assert codes(settings, 2) == []


def test_its_batch_half_counts_against_the_old_version_too(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(uri: str, *_: object) -> None:
        raise BrokenState("TABLE_UNREADABLE", f"{uri} can't be read")

    monkeypatch.setattr(read_plan, "_batch", torn)
    with pytest.raises(BrokenState):
        anabranch.read(VIEW, settings=settings, reader=READER)
    assert (codes(settings, 1), codes(settings, 2)) == ([("TABLE_UNREADABLE", 2)], [])


def test_both_versions_count_when_neither_can_be_read(settings: Settings) -> None:
    damage(settings, 1)
    damage(settings, 2)
    with pytest.raises(AnabranchError):
        anabranch.read(VIEW, settings=settings, reader=READER)
    assert (codes(settings, 1), codes(settings, 2)) == ([("TABLE_UNREADABLE", 2)], [("TABLE_UNREADABLE", 2)])


def test_a_reader_who_was_never_held_counts_against_the_version_of_the_route(settings: Settings) -> None:
    damage(settings, 2)
    with pytest.raises(BrokenState):
        anabranch.read(VIEW, settings=settings, reader="new")
    assert (codes(settings, 1), codes(settings, 2)) == ([], [("TABLE_UNREADABLE", 2)])


def test_a_slow_disk_under_the_note_of_a_failed_version_delays_no_other_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(settings, 2)
    held = []

    def slow(*args: object, **more: object) -> None:
        held.append(read_plan._lock.locked())
        record_failed(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(read_plan, "record_failed", slow)
    assert anabranch.read(VIEW, settings=settings, reader=READER).version == 1
    assert held == [False]
    assert codes(settings, 2) == [("TABLE_UNREADABLE", 2)]
