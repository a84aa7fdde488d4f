"""Certificates are kept by many runs at once, and the newest one of a partition holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.apps.web._certificate_cache import all_certificates, newest_summaries
from anabranch.certify.certificates import SCHEMA, Certificate, Checksum, newest_certificates, record
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, commit_history
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef, certificates_table

pytestmark = pytest.mark.unit
DAY = date(2013, 1, 1)
SUM = Checksum(72, -(2**70), -(2**63))
CERTIFICATE = Certificate(
    view="delays",
    version=1,
    partition=DAY,
    run="run-1",
    cut=Cut({"flights": Position(7, {0: 70, 1: 71})}),
    speed_version=12,
    fingerprint="f",
    method="recomputed",
    speed=SUM,
    expected=SUM,
    late_events=3,
    created=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def test_a_certificate_comes_back_as_it_was_kept(settings: Settings) -> None:
    record(settings, [CERTIFICATE, replace(CERTIFICATE, partition=None)])

    assert newest_certificates(VersionRef(settings, "delays", 1)) == {
        DAY: CERTIFICATE,
        None: replace(CERTIFICATE, partition=None),
    }
    assert newest_certificates(VersionRef(settings, "delays", 2)) == {}
    assert newest_certificates(VersionRef(settings, "other", 1)) == {}


def test_a_repeat_of_a_run_adds_nothing_and_a_later_run_holds(settings: Settings) -> None:
    later = replace(CERTIFICATE, run="run-2", expected=Checksum(), created=CERTIFICATE.created + timedelta(seconds=1))
    for certificates in ([CERTIFICATE], [later], [CERTIFICATE], [later]):
        record(settings, certificates)

    assert newest_certificates(VersionRef(settings, "delays", 1)) == {DAY: later}
    assert not later.equal
    assert len([n for n in commit_history(certificates_table(settings)) if n.note.batch != "created"]) == 2


def test_another_try_of_a_run_says_what_it_has_found(settings: Settings) -> None:
    """At one version of the speed table: the function's result differed, or a data file was restored."""
    red = replace(CERTIFICATE, expected=Checksum())
    for number, said in enumerate([red, CERTIFICATE, CERTIFICATE, red]):
        record(settings, [replace(said, created=CERTIFICATE.created + timedelta(seconds=number))])
        assert newest_certificates(VersionRef(settings, "delays", 1))[DAY].equal == said.equal, number
    assert [each.equal for each in all_certificates(VersionRef(settings, "delays", 1), DAY)] == [False, True, False]


@pytest.mark.parametrize("hours", [24, -24])
def test_the_one_that_came_in_last_holds_whatever_the_clock_said(settings: Settings, hours: int) -> None:
    """A machine's clock was a day ahead (or behind) while the first one (or the second) was made."""
    ref = VersionRef(settings, "delays", 1)
    at = CERTIFICATE.created
    first, second = replace(CERTIFICATE, created=at + timedelta(hours=hours)), replace(CERTIFICATE, created=at)
    red = replace(second, run="run-2", expected=Checksum())
    record(settings, [first])
    record(settings, [red])
    assert newest_certificates(ref) == {DAY: red}
    assert newest_summaries(settings)["delays", 1][DAY].run == "run-2"
    assert [each.run for each in all_certificates(ref, DAY)] == ["run-2", "run-1"]


def test_a_table_from_before_certificates_were_numbered_goes_on(settings: Settings) -> None:
    ref = VersionRef(settings, "delays", 1)
    uri, names = certificates_table(settings), [name for name in SCHEMA.names if name != "sequence"]
    schema = pa.schema([SCHEMA.field(name) for name in names])
    table = create(uri, schema, ["view"], CommitMetadata("certificates", "created", Cut()))
    old = replace(CERTIFICATE, created=CERTIFICATE.created + timedelta(days=1))
    rows = pa.Table.from_pylist([{name: old.to_row()[name] for name in names}], schema)
    append(table, stage_arrow(rows, uri, "old", "view"), CommitMetadata("certificates", "x", Cut()))
    assert newest_certificates(ref) == {DAY: old}
    red = replace(CERTIFICATE, run="run-2", expected=Checksum())
    record(settings, [red])
    assert newest_certificates(ref) == {DAY: red}
    assert newest_summaries(settings)["delays", 1][DAY].run == "run-2"


def test_runs_that_write_at_once_lose_nothing(settings: Settings) -> None:
    days = [DAY + timedelta(days=shift) for shift in range(12)]
    runs = [[replace(CERTIFICATE, partition=day, run=f"run-{day}")] for day in days]

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda certificates: record(settings, certificates), runs))

    assert set(newest_certificates(VersionRef(settings, "delays", 1))) == set(days)


def test_a_name_that_is_no_view_is_refused(settings: Settings) -> None:
    record(settings, [CERTIFICATE])

    with pytest.raises(BadInput) as refused:
        newest_certificates(VersionRef(settings, "x' or '1'='1", 1))

    assert refused.value.code == "NAME_UNSAFE"
