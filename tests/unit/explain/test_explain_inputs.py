"""What an explanation reads: the publication that its tables have, and how many events it leaves unread."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.core.settings import Settings
from anabranch.operate.explain import _candidates
from anabranch.operate.explain._candidates import Candidates, candidates
from anabranch.operate.explain._contributions import Effects
from anabranch.operate.explain._explain_row import _Run
from anabranch.operate.explain._minimise import Contributors
from anabranch.operate.explain._served_row import half_schema, served
from support.landed_sample import FLIGHTS
from support.small_platform import DAYS, V1, Clinic, departed

pytestmark = pytest.mark.unit
KEY = {"origin": "JFK", "window_start": datetime(2013, 1, 1, tzinfo=UTC)}


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    made = Clinic(Settings(home=tmp_path))
    made.land([departed(n, DAYS[0]) for n in range(5)])
    made.speed()
    return made


def test_the_run_of_a_row_is_that_of_the_tables_that_were_read(clinic: Clinic) -> None:
    clinic.reprocess("one", DAYS[:2])
    pinned, schema = half_schema(clinic.handle(), "complete")
    clinic.reprocess("two", DAYS[:2])
    source = served(clinic.handle(), pinned, schema, KEY, DAYS[0]).source
    assert pinned.batch is not None
    assert (source.run, source.table_version) == ("one", pinned.batch.version)


@pytest.mark.parametrize(("most", "unread"), [(2, 3), (5, 0), (6, 0)])
def test_events_that_were_not_read_are_counted(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, most: int, unread: int
) -> None:
    monkeypatch.setattr(_candidates, "MOST", most)
    found = candidates(clinic.settings, [V1], clinic.handle().topics, KEY, DAYS[0], clinic.cut)
    assert (len(found.events), found.unread) == (5 - unread, unread)
    assert FLIGHTS in clinic.handle().topics.each


@pytest.mark.parametrize(("unread", "verified", "tested"), [(0, False, True), (3, True, True), (3, False, False)])
def test_with_unread_events_nothing_is_said_to_be_not_the_functions(unread: int, verified: bool, tested: bool) -> None:
    run = _Run(Settings(), None, None, 8.0, 5)  # type: ignore[arg-type]  # only what was found is looked at
    run.__dict__["_found"] = Candidates(pa.table({}), [], False, unread)
    behind = Contributors(frozenset(), verified=verified)
    assert run._tested(behind) == tested
    said = list(run._left_out(behind, Effects({}), compared=True))
    expected = ["whether more events are behind the row: 3 that may be were not read, at most 40,000 are"]
    assert said == (expected if unread else [])
