"""A home below a folder that is named like a partition: its name is no value of any row."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.certify import late_changes
from anabranch.certify.compare_versions import compare_versions
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.event_counts import count_events
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.delta_tables import delta_table
from anabranch.serve import read
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE
from support import small_halves
from support.landed_sample import Event, Landing
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
FOLDERS = [
    "epoch=7",
    "event_date=2001-02-03",
    "offset=1/partition_date=2001-02-03",
    "written_by=9",
    "decision=late",
]
NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)
DAY = date(2026, 1, 10)


@pytest.fixture(params=FOLDERS)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / request.param / "home")


def departed(name: str) -> Event:
    return Event("flight.departed", NOON, name, {"origin": "JFK"})


def test_rows_of_landing_have_their_own_values(settings: Settings) -> None:
    landing = Landing(settings)
    landing.land([departed("a")], [departed("b"), Event("flight.departed", NOON, "c", {}, broken=True)])
    landing.table.update_incremental()
    with landed_rows(landing.table) as rows:
        asked = 'SELECT event_id, epoch, event_date, decision, "offset" FROM rows ORDER BY epoch, "offset"'
        found = rows.execute(asked).fetchall()
        named = [each[0] for each in rows.execute("DESCRIBE rows").fetchall()]
    names = ("event_id", "epoch", "event_date", "decision", "offset")
    expected = [tuple(row.get(name) for name in names) for row in landing.decisions.rows]
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert set(named) == {field.name for field in pa.schema(landing.table.schema().to_arrow())}
    with landed_rows(landing.table, [DAY]) as rows:
        assert rows.execute("SELECT count(*) FROM rows WHERE event_date = ?", [DAY]).fetchall() == [(3,)]
    assert count_events(landing.table, ["flight.departed"], [DAY], 2)[DAY].events == 2


def test_rows_of_views_have_their_own_values(settings: Settings) -> None:
    old, new = (
        View(VIEW, n, ("flight.departed",), ("window_start", "origin"), lambda rows: rows, partition_by="window_start")
        for n in (1, 2)
    )
    small_halves.start_speed(settings, 3, DAYS[:2], version=1)
    small_halves.start_speed(settings, 3, DAYS[:2], version=2)
    compared = compare_versions(settings, old, new)
    assert (compared.compared, compared.as_declared) == (2, True)
    assert compare_versions(settings, old, new, partition=DAYS[0]).compared == 1
    found = read(VIEW, 1, settings=settings).to_arrow()
    assert set(found["written_by"].to_pylist()) == {3, None}
    assert set(read(VIEW, 1, settings=settings, where="written_by = 3").to_arrow()["written_by"].to_pylist()) == {3}
    table = delta_table(uri := VersionRef(settings, VIEW, 1).speed_table)
    files = late_changes._files(table.file_uris(), pa.schema(table.schema().to_arrow()), uri).to_table()
    assert set(files[PARTITION_DATE].to_pylist()) == set(DAYS[:2])
    assert set(files["written_by"].to_pylist()) == {3, None}
