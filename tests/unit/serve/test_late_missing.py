"""A reading says how many late events no half of it holds, and so do the commands that look at views."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.apps.cli.main import app
from anabranch.compute.speed import status
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import admin
from anabranch.ingest.landing.table import late_events
from anabranch.ingest.landing.table.sql import rows_of_files
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.late_status import late_missing
from anabranch.operate.runtime.process_registry import Record, birth
from anabranch.views.definition_registry import record_path
from support.small_platform import DAYS, NAME, V1, Clinic, departed
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
HISTORY = [departed(n, day) for n, day in enumerate([DAYS[0], DAYS[0], DAYS[1]])]
COMMAND = "anabranch reprocess departure_delays --version 1 --missing"


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    """The fifth day landed first, history of the first two behind it."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Clinic(Settings(home=tmp_path))
    made.land([departed(10, DAYS[4])], HISTORY, [departed(11, DAYS[4])])
    made.speed(DAYS[4:])
    return made


def reading(clinic: Clinic) -> anabranch.Reading:
    return anabranch.read(NAME, settings=clinic.settings)


def shown(*arguments: str) -> str:
    told = CliRunner().invoke(app, list(arguments))
    assert told.exit_code == 0, told.output
    return " ".join(told.stdout.split())


def test_history_that_landed_late_is_in_no_half_until_its_days_are_published(clinic: Clinic) -> None:
    assert reading(clinic).late_missing == 3
    assert "but 3 late events in no half" in shown("read", NAME)
    assert json.loads(shown("read", NAME, "--json"))["late_missing"] == 3
    dirty = shown("views", "dirty", NAME)
    assert "2013-01-01 never published, 2 late events are in no half 2013-01-02 never published, 1 late" in dirty
    assert f"3 late events are in no half; {COMMAND} publishes these days" in dirty
    days = [
        {"partition": f"{day}", "at": None, "events": None, "late": late} for day, late in ((DAYS[0], 2), (DAYS[1], 1))
    ]
    assert json.loads(shown("views", "dirty", NAME, "--json")) == days
    assert late_missing(clinic.settings, NAME, 1) == "3"
    clinic.reprocess("one", DAYS[:1])
    assert (reading(clinic).late_missing, late_missing(clinic.settings, NAME, 1)) == (1, "1")
    clinic.reprocess("two", DAYS[1:2])
    assert (reading(clinic).late_missing, late_missing(clinic.settings, NAME, 1)) == (0, "0")
    assert "all that is landed, committed" in shown("read", NAME)
    assert json.loads(shown("views", "dirty", NAME, "--json")) == []
    assert "never published" not in shown("views", "dirty", NAME)


def test_a_reading_goes_by_what_was_published_and_landed_when_it_was_pinned(clinic: Clinic) -> None:
    before = reading(clinic)
    clinic.reprocess("one", DAYS[:2])
    clinic.land([departed(12, DAYS[2])])
    assert (before.late_missing, reading(clinic).late_missing) == (3, 0), (
        "the speed half has not come to the last epoch"
    )
    clinic.speed(DAYS[4:])
    assert reading(clinic).late_missing == 1


def test_of_days_published_beyond_its_cut_a_reading_goes_by_how_they_were_before(clinic: Clinic) -> None:
    clinic.reprocess("one", DAYS[:1])
    clinic.land([departed(12, DAYS[1])])
    clinic.reprocess("two", DAYS[1:2])
    complete = anabranch.read(NAME, settings=clinic.settings, prefer="complete")
    assert (complete.late_missing, reading(clinic).late_missing) == (0, 1)
    assert list(reading(clinic).published) == DAYS[:1]


def test_without_a_definition_or_without_landing_nobody_can_tell_and_rows_are_read_all_the_same(clinic: Clinic) -> None:
    record = record_path(VersionRef(clinic.settings, V1.name, V1.version))
    text = record.read_text()
    record.write_text("{")
    with pytest.raises(BrokenState) as broken:
        _ = reading(clinic).late_missing
    assert broken.value.code == "VIEW_RECORD"
    assert "(late events in no half: unknown, VIEW_RECORD)" in shown("read", NAME)
    assert late_missing(clinic.settings, NAME, 1) == "unknown (VIEW_RECORD)"
    record.unlink()
    assert reading(clinic).late_missing is None
    assert (json.loads(shown("read", NAME, "--json"))["late_missing"], len(reading(clinic).to_arrow())) == (None, 2)
    assert late_missing(clinic.settings, NAME, 1) == ""
    record.write_text(text)
    shutil.rmtree(landing_table(clinic.settings, "flights"))
    with pytest.raises(BrokenState) as gone:
        _ = reading(clinic).late_missing
    assert gone.value.code == "LANDING_GONE"


def test_status_says_it_of_each_view(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a real process that stands for the speed part's."""
    status.write(
        clinic.settings, [status.ViewStatus(NAME, 1, "running", "flights@3"), status.ViewStatus("x", 0, "unread")]
    )
    sleeping = subprocess.Popen(["sleep", "60"], start_new_session=True)  # noqa: S607
    record = Record("speed", "running", sleeping.pid, 0.0, ("sleep",), None, "", 0, 15, 1.0, birth=birth(sleeping.pid))
    process_registry.write(clinic.settings, record)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(admin, "REACH_SECONDS", (0.1,))  # there is no broker
    try:
        views = json.loads(shown("status", "--json"))["views"]
        table = shown("status")
    finally:
        sleeping.kill()
        sleeping.wait()
    assert [view["late_missing"] for view in views] == ["3", ""]
    assert "late, in no half" in table


def test_files_of_epochs_whose_notes_say_that_all_was_on_time_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But few of those days of which nothing else is known: whether they have events at all."""
    monkeypatch.setattr(late_events, "_FIRST_LOOK", 2)
    clinic = Clinic(Settings(home=tmp_path))
    clinic.land(*([departed(n, DAYS[1])] for n in range(7)), [departed(8, DAYS[0])])
    on_time = {int(str(file).split("epoch-")[1].split("-")[0]): file for file in Path(clinic.uri).rglob("*.parquet")}
    opened = list[str]()

    def noted(files: Sequence[str]) -> Any:
        opened.extend(files)
        return rows_of_files(files)

    monkeypatch.setattr(late_events, "rows_of_files", noted)
    found = late_events.lateness_since(clinic.table, ["flight.departed"], lambda day: 0, 8)
    assert [(each.day, each.epoch, each.events) for each in found.late] == [(DAYS[0], 8, 1)]
    assert found.days == {DAYS[0], DAYS[1]}
    assert (len(on_time), len(opened)) == (8, 3)
    opened.clear()
    assert late_events.lateness_since(clinic.table, ["flight.arrived"], lambda day: 0, 8).days == frozenset()
    assert len(set(opened)) == 8, "no event of the type is found only when all have been looked at"


def test_merged_files_are_opened(clinic: Clinic) -> None:
    clinic.compact()
    assert reading(clinic).late_missing == 3


def test_a_definition_is_read_back_without_its_code(clinic: Clinic) -> None:
    from anabranch.views.registered_definition import registered_view

    found = registered_view(clinic.handle())
    assert (found, found and found.fingerprint) == (V1, V1.fingerprint)
    assert registered_view(VersionRef(clinic.settings, NAME, 7)) is None
    with pytest.raises(NotImplementedError):
        found and found.function()
