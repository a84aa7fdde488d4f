"""What can't be read of one version keeps what belongs to it, and nothing of another version or view."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from anabranch.certify.verdict import verdict_path
from anabranch.change.replay.state import PUBLISHED, state_file
from anabranch.compute.batch.manifest import builds_folder
from anabranch.lake.layout import VersionRef, routes_table
from anabranch.operate.maintenance import maintain
from anabranch.operate.maintenance._report import ActionKind
from anabranch.operate.maintenance._retention_holds import replay_over
from anabranch.serve.retirement import drop, retire
from anabranch.serve.routes import set_route
from support.maintained_platform import busy, later
from support.small_platform import NAME, V1, V2, Clinic

pytestmark = pytest.mark.unit
MONTH = 31
OTHER = "aaa"
"""A view that is cleaned up before the clinic's."""


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return busy(tmp_path / "home")


def unreadable(path: Path) -> Path:
    """A name that leads nowhere: no rights would be the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path)
    return path


def builds_of_another(clinic: Clinic) -> None:
    unreadable(builds_folder(VersionRef(clinic.settings, OTHER, 1)))


def manifest_of_another(clinic: Clinic) -> None:
    unreadable(builds_folder(VersionRef(clinic.settings, OTHER, 1)) / "one.outcome.json")


def staged_of_another(clinic: Clinic) -> None:
    """Old files of a build, and a manifest of it that leads nowhere."""
    ref = VersionRef(clinic.settings, OTHER, 1)
    staged = Path(ref.batch_table) / "builds" / "died-1" / "part.parquet"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"PAR1")
    unreadable(builds_folder(ref))


def replay_of_another(clinic: Clinic) -> None:
    torn = state_file(VersionRef(clinic.settings, OTHER, 1), "r1")
    torn.parent.mkdir(parents=True)
    torn.write_text("{")


def routes_of_another(clinic: Clinic) -> None:
    VersionRef(clinic.settings, OTHER, 1).speed_checkpoint.mkdir(parents=True)
    unreadable(Path(routes_table(clinic.settings, OTHER)) / "_delta_log")


def old_build(clinic: Clinic) -> Path:
    path = verdict_path(clinic.handle(), "certify")
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    return path


def old_staged(clinic: Clinic) -> Path:
    """Of a version that has never published anything."""
    path = Path(VersionRef(clinic.settings, NAME, 9).batch_table) / "builds" / "died-1" / "part.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1")
    return path


def old_replay(clinic: Clinic) -> Path:
    clinic.replay("r1", PUBLISHED)
    return state_file(clinic.handle(), "r1")


def dropped_checkpoint(clinic: Clinic) -> Path:
    clinic = Clinic(clinic.settings, (V1, V2))
    clinic.speed(view=V2)
    set_route(clinic.settings, NAME, {2: 100}, by="anna", why="test")
    retire(clinic.handle(), by="anna", why="test", grace=timedelta(0))
    drop(clinic.handle())
    path = VersionRef(clinic.settings, NAME, 1).speed_checkpoint
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    ("breaks", "leaves", "steps"),
    [
        (builds_of_another, old_build, 1),
        (manifest_of_another, old_build, 1),
        (staged_of_another, old_staged, 2),
        (replay_of_another, old_replay, 1),
        (routes_of_another, dropped_checkpoint, 1),
    ],
)
def test_the_others_are_cleaned_up_and_it_is_named(
    clinic: Clinic, breaks: Callable[[Clinic], None], leaves: Callable[[Clinic], Path], steps: int
) -> None:
    left = leaves(clinic)
    breaks(clinic)
    done = maintain(clinic.settings, later(MONTH))
    assert not left.exists()
    assert [action.where for action in done.actions if action.act is ActionKind.FAILED] == [f"{OTHER} v1"] * steps


def test_mirrors_that_can_not_be_listed_hold_landing_only_of_a_replay_that_has_not_ended(clinic: Clinic) -> None:
    for run, phase in (("ended", PUBLISHED), ("under-way", "")):
        clinic.replay(run, phase)
        mirrors = clinic.folders_of(run)[1]
        if mirrors.exists():
            mirrors.rename(clinic.settings.home / "aside")
        unreadable(mirrors)
        if phase:
            assert replay_over(clinic.settings, "flights") == ""
    with pytest.raises(OSError, match="under-way"):
        replay_over(clinic.settings, "flights")
    state_file(clinic.handle(), "under-way").write_text("{")
    with pytest.raises(OSError, match="under-way"):
        replay_over(clinic.settings, "flights")


def test_a_state_that_can_not_be_read_counts_as_under_way_over_its_topics_only(clinic: Clinic) -> None:
    clinic.replay("r1")
    (clinic.folders_of("r1")[1] / "flights").mkdir()
    state_file(clinic.handle(), "r1").write_text("{")
    assert "whose state can't be read" in replay_over(clinic.settings, "flights")
    assert replay_over(clinic.settings, "weather") == ""
