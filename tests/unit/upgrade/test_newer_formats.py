"""Of each kind of thing on disk: a newer format than this version knows is refused, with what to install."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.certify.certificates import newest_certificates
from anabranch.core.control_file import ControlFile
from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.core.home_format import HOME, check_home, home_file, mark_home
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.state import open_landing
from anabranch.lake import CommitMetadata, commit_history, latest_commit, open_table
from anabranch.lake.commits import append
from anabranch.lake.layout import VersionRef, certificates_table, landing_table, routes_table
from anabranch.lake.streams.stream_checkpoint import (
    CHECKPOINT,
    check_format,
    check_readable,
    has_format,
    name_format,
    refuse_newer,
)
from anabranch.operate.backup import create_backup, restore_backup
from anabranch.operate.runtime import lifecycle
from anabranch.operate.upgrade import plan_upgrade
from anabranch.operate.upgrade._places import PLACES
from anabranch.serve.routes import route_of
from support.backed_up_home import furnished
from support.landed_sample import DECLARED, FLIGHTS
from support.our_packages import modules
from support.small_platform import NAME, Clinic

pytestmark = pytest.mark.unit

KINDS = {place.file.kind: place.file for place in PLACES}
INSTALL = r"install anabranch 9\.8, or a newer one: pip install 'anabranch>=9\.8'"


def newer(file: ControlFile[Any], path: Path) -> Path:
    """A file of the next format, as the version that knows it would write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"kind": file.kind, "format": file.format + 1, "written_by": "9.8", "what": "ever"}))
    return path


def refused(error: pytest.ExceptionInfo[AnabranchError]) -> None:
    assert isinstance(error.value, BrokenState)
    assert error.value.code == "FORMAT_NEWER"
    assert error.match(INSTALL)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return furnished(tmp_path / "home")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_control_file(kind: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenState) as error:
        KINDS[kind].read(newer(KINDS[kind], tmp_path / "file"))
    refused(error)


def test_every_control_file_has_its_place() -> None:
    """Those that are made anywhere in our code are found by an upgrade."""
    trees = {file: ast.parse(file.read_text()) for file in modules().values()}
    calls = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call.args[0] for call in calls if ast.unparse(call.func) == "ControlFile"]
    assert {argument.value for argument in made if isinstance(argument, ast.Constant)} == KINDS.keys()


@pytest.mark.parametrize("table", ["landing", "speed", "batch", "routes", "certificates"])
def test_a_table(clinic: Clinic, table: str) -> None:
    settings = clinic.settings
    uris = {
        "landing": landing_table(settings, FLIGHTS.name),
        "speed": VersionRef(settings, NAME, 1).speed_table,
        "batch": VersionRef(settings, NAME, 1).batch_table,
        "routes": routes_table(settings, NAME),
        "certificates": certificates_table(settings),
    }
    readers: dict[str, Callable[[], object]] = {
        "landing": lambda: open_landing(settings, FLIGHTS),
        "speed": lambda: anabranch.read(NAME, settings=settings),
        "batch": lambda: anabranch.read(NAME, settings=settings),
        "routes": lambda: route_of(settings, NAME),
        "certificates": lambda: newest_certificates(VersionRef(settings, NAME, 1)),
    }
    opened = open_table(uris[table])
    assert opened is not None
    readers[table]()
    committed = latest_commit(opened)
    assert committed is not None
    append(opened, [], NewerCommit(committed.note.writer, "newer", committed.note.cut))
    for read in (readers[table], lambda: latest_commit(uris[table]), lambda: list(commit_history(uris[table])),
                 lambda: plan_upgrade(settings, DECLARED)):  # fmt: skip
        with pytest.raises(BrokenState) as error:
            read()
        refused(error)
        assert uris[table].removeprefix("/") in str(error.value)


class NewerCommit(CommitMetadata):
    """What a later version would write: this one's text with the next format."""

    def to_text(self, mark: str = "") -> str:
        content = json.loads(CommitMetadata.to_text(self, mark))
        return json.dumps({**content, "anabranch": content["anabranch"] + 1, "written_by": "9.8"})


def test_a_checkpoint(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    check_readable(checkpoint)
    name_format(checkpoint)
    check_readable(checkpoint)
    newer(CHECKPOINT, checkpoint / "anabranch.json")
    for check in (check_format, check_readable, refuse_newer):
        with pytest.raises(BrokenState) as error:
            check(checkpoint)
        refused(error)
    (checkpoint / "anabranch.json").write_text("{")
    refuse_newer(checkpoint)
    with pytest.raises(BrokenState) as error:
        check_readable(checkpoint)
    assert error.value.code == "CHECKPOINT_UNREADABLE"
    (checkpoint / "anabranch.json").write_text("")
    check_readable(checkpoint)
    name_format(checkpoint)
    assert has_format(checkpoint)


def test_a_home(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every way in: a process of ours, a read with settings of one's own, a start, an upgrade."""
    settings = clinic.settings
    assert mark_home(settings.home)
    assert not mark_home(settings.home)
    check_home(settings.home)
    newer(HOME, home_file(settings.home))
    for way in (
        lambda: load_settings(home=settings.home),
        lambda: anabranch.read(NAME, settings=settings),
        lambda: lifecycle.start(settings, ["kafka"]),
        lambda: plan_upgrade(settings, DECLARED),
    ):
        with pytest.raises(BrokenState) as error:
            way()
        refused(error)


def test_a_home_that_does_not_say_which_format_it_has(tmp_path: Path) -> None:
    """It is none of the first format: nobody knows what it is."""
    home_file(tmp_path).parent.mkdir()
    for text in ("{", "[]", '{"kind": "verdict"}'):
        home_file(tmp_path).write_text(text)
        with pytest.raises(BrokenState) as error:
            load_settings(home=tmp_path)
        assert error.value.code == "HOME_UNREADABLE"
    home_file(tmp_path).write_text("")
    load_settings(home=tmp_path)
    assert mark_home(tmp_path), "a power cut had left it empty"
    assert check_home(tmp_path) is not None


def test_the_home_in_a_backup(clinic: Clinic, tmp_path: Path) -> None:
    """Its folder and its manifests have a format of their own (``tests/unit/backup``)."""
    newer(HOME, home_file(clinic.settings.home))
    create_backup(clinic.settings, tmp_path / "backups")
    there = Settings(home=tmp_path / "restored")
    with pytest.raises(BrokenState) as error:
        restore_backup(there, tmp_path / "backups")
    refused(error)
    assert not (there.home / "control").exists()
    assert not (there.home / ".restoring").exists()
