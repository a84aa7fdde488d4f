"""When a home is upgraded, and what is left as it is."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from anabranch.certify.verdict import verdict_path
from anabranch.compute.batch.manifest import manifest_path
from anabranch.core.atomic_files import locked
from anabranch.core.errors import Conflict
from anabranch.core.home_format import is_marked
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import Record, birth
from anabranch.operate.upgrade import apply_upgrade, plan_upgrade
from support.backed_up_home import furnished
from support.landed_sample import DECLARED
from support.small_platform import NAME, Clinic

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return furnished(tmp_path / "home")


def test_a_home_of_this_version_gets_names_of_formats_only(clinic: Clinic) -> None:
    plan = plan_upgrade(clinic.settings, DECLARED)
    assert {change.kind for change in plan.changes[:-1]} == {"checkpoint of a stream"}
    assert plan.changes[-1].kind == "home", "the last one: then everything else is done"
    assert not is_marked(clinic.settings.home)
    assert apply_upgrade(clinic.settings, DECLARED) == plan
    assert is_marked(clinic.settings.home)
    assert plan_upgrade(clinic.settings, DECLARED).changes == ()


def test_nothing_is_upgraded_while_a_part_runs(clinic: Clinic) -> None:
    settings, me = clinic.settings, psutil.Process()
    running = Record("landing", "running", me.pid, me.create_time(), ("landing",), None, "", 1, 0, 1.0)
    process_registry.write(settings, running.became("running", birth=birth(os.getpid())))
    plan_upgrade(settings, DECLARED)
    with pytest.raises(Conflict) as refused:
        apply_upgrade(settings, DECLARED)
    assert refused.value.code == "UPGRADE_RUNNING"
    assert "landing" in refused.value.what
    assert not is_marked(settings.home)
    process_registry.remove(settings, "landing")
    with locked(settings.locks / "upgrade"), pytest.raises(Conflict) as refused:
        apply_upgrade(settings, DECLARED)
    assert refused.value.code == "UPGRADE_RUNNING"
    apply_upgrade(settings, DECLARED)


def test_a_file_that_cannot_be_read_is_listed_and_left_as_it_is(clinic: Clinic) -> None:
    settings = clinic.settings
    torn = verdict_path(VersionRef(settings, NAME, 1), "published")
    torn.write_text('{"kind": "verdict", "format": 1')
    manifest = manifest_path(VersionRef(settings, NAME, 1), "published").read_text()
    plan = apply_upgrade(settings, DECLARED)
    (left,) = (change for change in plan.changes if change.refused)
    assert (left.kind, left.refused[:16]) == ("verdict", "it can't be read")
    assert plan_upgrade(settings, DECLARED).changes == (left,)
    assert torn.read_text() == '{"kind": "verdict", "format": 1'
    assert manifest_path(VersionRef(settings, NAME, 1), "published").read_text() == manifest
