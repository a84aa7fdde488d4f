"""A whole run: what it says, that it is alone, that a plan changes nothing, and that a kill leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.cli.main import app
from anabranch.core.atomic_files import locked
from anabranch.core.errors import BadInput, BrokenState, Conflict
from anabranch.core.settings import Settings
from anabranch.lake import file_commits
from anabranch.operate.maintenance import (
    _compaction,
    _compaction_journal,
    _log_retention,
    _orphans,
    _runner,
    _vacuum,
    maintain,
)
from anabranch.operate.maintenance._compaction import compact
from anabranch.operate.maintenance._report import ActionKind, Report
from anabranch.serve import read
from deltalake import DeltaTable
from support.maintained_platform import EPOCHS, busy, files, later, on_disk, rows, said, speed_of, tree
from support.small_platform import DAYS, NAME, Clinic, departed
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


class Killed(BaseException):
    """As a SIGKILL: nothing catches it, and what would be tidied up on the way stays (see ``cut_off``)."""


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    found = busy(tmp_path / "home")
    found.reprocess("published", DAYS[:2])
    found.build("waits", DAYS[2:3])
    return found


def test_a_run_leaves_few_files_the_same_rows_and_a_quiet_doctor(clinic: Clinic) -> None:
    landed, speed = rows(clinic.uri), rows(speed_of(clinic))
    assert not said(clinic).findings
    done = maintain(clinic.settings)
    assert (rows(clinic.uri), rows(speed_of(clinic))) == (landed, speed)
    assert [(deed.act, deed.where) for deed in done.actions] == [
        (ActionKind.MERGED, f"{NAME} v1, speed half"),
        (ActionKind.MERGED, "landing of flights"),
    ]
    assert len(files(clinic.uri)) + len(files(speed_of(clinic))) < 10
    assert not said(clinic).findings
    assert not maintain(clinic.settings).actions


def test_a_month_later_only_what_is_named_is_on_disk(clinic: Clinic) -> None:
    maintain(clinic.settings)
    landed, before = rows(clinic.uri), len(on_disk(clinic.uri))
    for days in (8, 31):
        assert not maintain(clinic.settings, later(days)).failed
        assert not said(clinic, later(days)).findings
    assert on_disk(clinic.uri) == set(files(clinic.uri)) < set(map(str, Path(clinic.uri).rglob("*")))
    assert (rows(clinic.uri), before > 2 * EPOCHS) == (landed, True)


def test_a_plan_says_what_would_be_done_and_changes_nothing(clinic: Clinic) -> None:
    maintain(clinic.settings)
    clinic.land(*([departed(100 + n, DAYS[n % 2])] for n in range(8)))
    for policy in (None, later(31)):
        before = tree(clinic.settings.home)
        planned = maintain(clinic.settings, policy, plan=True)
        assert tree(clinic.settings.home) == before
        done = maintain(clinic.settings, policy)
        assert [(d.act, d.where, d.files) for d in planned.actions] == [(d.act, d.where, d.files) for d in done.actions]
        assert planned.actions
        assert (planned.planned, done.planned) == (True, False)
        assert str(planned).endswith("nothing was changed")


def test_two_at_once_are_refused_and_the_second_changes_nothing(clinic: Clinic) -> None:
    before = tree(clinic.settings.home)
    with locked(clinic.settings.locks / "maintenance"), pytest.raises(Conflict) as refused:
        maintain(clinic.settings)
    assert refused.value.code == "MAINTENANCE_RUNNING"
    assert {path: of for path, of in tree(clinic.settings.home).items() if "/locks" not in path and path in before} == {
        path: of for path, of in before.items() if "/locks" not in path
    }
    assert not maintain(clinic.settings).failed


def test_a_folder_that_is_no_home_is_left_alone(tmp_path: Path) -> None:
    other = Settings(home=tmp_path / "other")
    left = other.logs / "server.log.1"
    left.parent.mkdir(parents=True)
    left.touch()
    os.utime(left, (0, 0))
    with pytest.raises(BadInput) as refused:
        maintain(other)
    assert refused.value.code == "NO_HOME"
    assert left.exists()
    assert not (other.home / "locks").exists()


def test_what_fails_at_one_table_is_told_and_the_others_go_on(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:

    def failing(settings: Any, place: Any, policy: Any) -> Any:
        if place.kind == "speed":
            raise OSError("no space left on device")
        return compact(settings, place, policy)

    monkeypatch.setattr(_runner, "compact", failing)
    done = maintain(clinic.settings)
    assert done.failed
    assert [(deed.act, deed.said) for deed in done.actions if deed.act is ActionKind.FAILED] == [
        (ActionKind.FAILED, "no space left on device")
    ]
    assert len(files(clinic.uri)) < 10
    assert not said(clinic).findings


def test_a_full_disk_leaves_nothing_staged(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    before = on_disk(clinic.uri) | on_disk(speed_of(clinic))

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "link", full)
    assert maintain(clinic.settings).failed
    assert on_disk(clinic.uri) | on_disk(speed_of(clinic)) == before
    assert not [p for p in (Path(clinic.uri) / "_delta_log").iterdir() if p.name.startswith(".")]
    assert not said(clinic).findings


def staged_by_a_killed_run(clinic: Clinic) -> Path:
    """The folder that its record names."""
    folder = Path(clinic.uri) / "builds" / "merge-1"
    shutil.copytree(Path(files(clinic.uri)[0]).parents[0], folder / "event_date=2013-01-01")
    version = DeltaTable(clinic.uri).version()
    _compaction_journal.begin(clinic.settings, _compaction_journal.InProgress(clinic.uri, version, ("merge-1",)))
    return folder


def test_a_record_of_a_compaction_that_is_torn_deletes_nothing(clinic: Clinic) -> None:
    folder = staged_by_a_killed_run(clinic)
    record = clinic.settings.home / "maintenance" / "in-hand.json"
    record.write_text(record.read_text()[:-5])
    assert not said(clinic).findings, "who knows what a compaction that runs has staged"
    assert not maintain(clinic.settings).failed
    assert folder.exists()
    assert len(files(clinic.uri)) < 10, "and the next one isn't kept from its work"
    for _ in range(2):
        maintain(clinic.settings, later(31))
    assert not folder.exists()


def test_a_record_of_a_compaction_that_can_not_be_read_now_is_kept_and_nothing_is_merged(clinic: Clinic) -> None:
    folder = staged_by_a_killed_run(clinic)
    record = clinic.settings.home / "maintenance" / "in-hand.json"
    aside = record.rename(record.with_name("aside"))
    record.mkdir()  # can't be read, nor overwritten, by anybody
    before = set(files(clinic.uri))
    done = maintain(clinic.settings)
    assert [deed.said for deed in done.actions if deed.where == "record of a compaction"], str(done)
    assert any(deed.act is ActionKind.FAILED and "[COMPACTION_UNTIDY]" in deed.said for deed in done.actions), str(done)
    with pytest.raises(BrokenState) as untidy:
        _compaction_journal.begin(clinic.settings, _compaction_journal.InProgress(clinic.uri, 1, ("merge-2",)))
    assert (untidy.value.code, untidy.value.fields["file"]) == ("COMPACTION_UNTIDY", str(record))
    assert (record.exists(), folder.exists(), set(files(clinic.uri))) == (True, True, before)
    record.rmdir()
    aside.rename(record)
    assert not maintain(clinic.settings).failed
    assert (record.exists(), folder.exists()) == (False, False)


def at_call(number: int, before: bool) -> Callable[[Any], Any]:
    """Die at the n-th call of a function, before or behind what it does."""

    def wrap(function: Any) -> Any:
        calls = [0]

        def dying(*args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if before and calls[0] == number:
                raise Killed
            result = function(*args, **kwargs)
            if not before and calls[0] == number:
                raise Killed
            return result

        return dying

    return wrap


KILLS = [
    *[(_compaction_journal, "begin", 1, before) for before in (True, False)],
    *[(_compaction, "merge", number, False) for number in (1, 2)],
    *[(_compaction, "commit_move", 1, before) for before in (True, False)],
    *[(os, "link", 1, before) for before in (True, False)],
    *[(file_commits, "publish", 1, before) for before in (True, False)],
    *[(_compaction_journal, "end", 1, before) for before in (True, False)],
]


@pytest.mark.parametrize(("where", "name", "number", "before"), KILLS)
def test_a_kill_in_a_compaction_leaves_the_table_as_it_was_or_as_it_was_to_be(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, number: int, before: bool
) -> None:
    landed, speed = rows(clinic.uri), rows(speed_of(clinic))
    with monkeypatch.context() as patched:
        cut_off(patched)
        patched.setattr(where, name, at_call(number, before)(getattr(where, name)))
        with pytest.raises(Killed):
            maintain(clinic.settings)
    assert (rows(clinic.uri), rows(speed_of(clinic))) == (landed, speed)
    assert not said(clinic).findings
    clinic.land([departed(900, DAYS[0])])  # whoever writes goes on
    clinic.speed([DAYS[1]], origin="LIVE")
    assert not maintain(clinic.settings).failed
    assert len(files(clinic.uri)) + len(files(speed_of(clinic))) < 10
    assert not said(clinic).findings
    maintain(clinic.settings, later(31))
    assert on_disk(speed_of(clinic)) == set(files(speed_of(clinic))), "nothing is left that nobody knows"
    assert _compaction_journal.in_progress(clinic.settings) is None


def cut_off(patched: pytest.MonkeyPatch) -> None:
    """What a process does when an exception passes, a killed one doesn't."""
    patched.setattr(_runner, "_compaction_journal", _Dead(_compaction_journal))
    unlink = Path.unlink

    def kept(path: Path, missing_ok: bool = False) -> None:
        if not path.name.startswith("."):  # a draft
            unlink(path, missing_ok=missing_ok)

    patched.setattr(Path, "unlink", kept)


class _Dead:
    def __init__(self, module: Any) -> None:
        self._tidied, self._module = 0, module

    def tidy(self, settings: Any) -> int:
        self._tidied += 1
        return int(self._module.tidy(settings)) if self._tidied == 1 else 0


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("step", [_vacuum, _log_retention, _orphans])
def test_a_kill_while_old_things_are_deleted_leaves_the_rest_to_the_next_run(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, number: int, step: Any
) -> None:
    maintain(clinic.settings, replace(later(0), checkpoint_commits=5))
    clinic.land([departed(300)])
    landed, calls = rows(clinic.uri), [0]
    unlink = Path.unlink
    modules = {_vacuum: "/lake/", _log_retention: "_delta_log", _orphans: "/control/"}

    def dying(path: Path, missing_ok: bool = False) -> None:
        calls[0] += modules[step] in str(path)
        if calls[0] == number and modules[step] in str(path):
            raise Killed
        unlink(path, missing_ok=missing_ok)

    policy = later(31)
    for path in (Path(clinic.uri) / "_delta_log").glob("*.checkpoint.parquet"):
        os.utime(path, (1, 1))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dying)
        try:
            maintain(clinic.settings, policy)
            killed = False
        except Killed:
            killed = True
    assert killed == (calls[0] >= number)
    assert rows(clinic.uri) == landed
    assert not said(clinic, policy).findings
    assert not maintain(clinic.settings, later(33)).failed
    assert rows(clinic.uri) == landed
    assert not said(clinic, later(33)).findings


def test_readers_have_the_same_rows_before_during_and_after(clinic: Clinic) -> None:
    reading = read(NAME, settings=clinic.settings)
    before = sorted(map(str, reading.to_arrow().to_pylist()))
    held = read(NAME, settings=clinic.settings)
    maintain(clinic.settings)
    assert sorted(map(str, held.to_arrow().to_pylist())) == before
    again = read(NAME, settings=clinic.settings)
    assert sorted(map(str, again.to_arrow().to_pylist())) == before
    assert (again.cut, again.halves) == (reading.cut, reading.halves)
    assert again.freshness.committed == reading.freshness.committed


def test_the_command_prints_what_was_done_as_text_and_as_data(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(clinic.settings.home))
    told = CliRunner().invoke(app, ["maintain", "--plan"])
    assert told.exit_code == 0, told.output
    assert "landing of flights" in told.output
    assert "nothing was changed" in told.output
    done = json.loads(CliRunner().invoke(app, ["maintain", "--json"]).output)
    assert (done["planned"], done["failed"]) == (False, False)
    assert {deed["act"] for deed in done["deeds"]} == {"merged"}
    monkeypatch.setattr(_runner, "_steps", lambda *_, **__: iter([("a table", lambda: 1 / 0)]))
    assert CliRunner().invoke(app, ["maintain"]).exit_code == 1


def test_what_was_done_reads_well() -> None:
    assert str(Report((), 1.25)) == "0 files merged into 0, 0.00 MB freed, in 1.2 s"
