"""Two versions against each other: at one cut, by the columns that both keys have, and nothing overlooked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace as with_fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from anabranch.certify._version_rows import join_versions
from anabranch.certify.compare_versions import VersionComparison, compare_versions
from anabranch.certify.rendering import version_lines
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import create, replace
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.views import View
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from deltalake import DeltaTable

pytestmark = pytest.mark.unit
FIRST, SECOND = date(2013, 1, 1), date(2013, 1, 2)
HOURLY, BY_CARRIER = ("origin", "window_start"), ("origin", "carrier", "window_start")
TYPES = {
    "origin": pa.string(), "carrier": pa.string(), "window_start": pa.timestamp("us", "UTC"), "flights": pa.int64(),
    "delayed": pa.int64(), "longest": pa.string(), "cancelled": pa.int32(),
    **dict.fromkeys(("day", "here", "in_old", "in_new", "old", "new", "o", "n"), pa.int64()),
}  # fmt: skip
Row = dict[str, Any]


def a_view(version: int, key: tuple[str, ...] = HOURLY) -> View:
    return View("delays", version, ("flight.departed",), key, lambda departed: departed, partition_by="window_start")


def row(day: date, origin: str | None, flights: int, delayed: int, /, **more: Any) -> Row:
    start = datetime(day.year, day.month, day.day, 5, tzinfo=UTC)
    return {"origin": origin, "window_start": start, "flights": flights, "delayed": delayed, **more}


def write(
    settings: Settings, version: int, epochs: Sequence[int], rows: Sequence[Row], watermark_ms: Sequence[int] = ()
) -> None:
    """The whole table, committed again at each of these epochs; only the last commit holds ``rows``."""
    uri = VersionRef(settings, "delays", version).speed_table
    names = list(dict.fromkeys(name for each in rows for name in each)) or ["origin", "window_start", "flights"]
    schema = pa.schema([*((name, TYPES[name]) for name in names), (PARTITION_DATE, pa.date32()), (CHANGED, pa.int64())])
    table = create(uri, schema, [PARTITION_DATE], CommitMetadata("w", "create", Cut()))
    for number, epoch in enumerate(epochs):
        there = rows if number == len(epochs) - 1 else rows[:1]
        extra = {"watermark_ms": watermark_ms[number]} if watermark_ms else {}
        full = [each | {PARTITION_DATE: each["window_start"].date(), CHANGED: epoch} for each in there]
        files = stage_arrow(pa.Table.from_pylist(full, schema), uri, uuid4().hex, PARTITION_DATE)
        replace(table, files, CommitMetadata("w", f"{epoch}", Cut({"flights": Position(epoch, {})}), extra=extra), None)


OLD = [row(FIRST, "JFK", 10, 2), row(FIRST, None, 3, 1), row(SECOND, "JFK", 7, 0)]


def compared(settings: Settings, new: Sequence[Row], key: tuple[str, ...] = HOURLY, **more: Any) -> VersionComparison:
    write(settings, 1, [1], OLD)
    write(settings, 2, [1], new)
    return compare_versions(settings, a_view(1), a_view(2, key), **more)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def test_equal_versions_differ_nowhere(settings: Settings) -> None:
    found = compared(settings, [row | {"cancelled": 1} for row in OLD])
    assert (found.as_declared, found.partitions, found.compared, found.summed) == (True, (), 2, False)
    assert (found.columns, found.added, found.dropped) == (("flights", "delayed"), ("cancelled",), ())


def test_what_was_said_to_differ_may_and_anything_else_may_not(settings: Settings) -> None:
    new = [row(FIRST, "JFK", 10, 1), row(FIRST, None, 3, 1), row(SECOND, "JFK", 8, 0)]
    found = compared(settings, new, changed=["delayed"])
    assert (found.as_declared, found.unexpected) == (False, (SECOND,))
    assert [(p.partition, dict(p.cells)) for p in found.partitions] == [
        (FIRST, {"delayed": 1}),
        (SECOND, {"flights": 1}),
    ]
    shown = [(c.partition, c.column, c.old, c.new, c.key["origin"]) for c in found.examples]
    assert shown == [(SECOND, "flights", 7, 8, "JFK"), (FIRST, "delayed", 2, 1, "JFK")]
    text = "\n".join(version_lines(found))
    assert "delayed: 1 differ, on 1 partitions: as declared" in text
    assert "flights: 1 differ, on 1 partitions: NOT DECLARED" in text
    assert json.dumps(found.to_json(), default=str)


@pytest.mark.parametrize("name", ["day", "here", "in_old", "in_new", "old", "new", "o", "n"])
def test_a_column_may_have_any_name(settings: Settings, name: str) -> None:
    write(settings, 1, [1], [row(FIRST, "JFK", 1, 0, **{name: None}), row(SECOND, "JFK", 1, 0, **{name: 1})])
    write(settings, 2, [1], [row(FIRST, "JFK", 1, 0, **{name: 2}), row(SECOND, "JFK", 1, 0, **{name: 1})])
    found = compare_versions(settings, a_view(1), a_view(2))
    assert [(p.partition, dict(p.cells)) for p in found.partitions] == [(FIRST, {name: 1})]
    assert compare_versions(settings, a_view(1), a_view(2), partition=SECOND).partitions == ()
    key = (*HOURLY, name)
    found = compare_versions(settings, a_view(1, key), a_view(2, key), partition=FIRST)
    assert [(p.partition, p.only_old, p.only_new) for p in found.partitions] == [(FIRST, 1, 1)]
    other = compare_versions(settings, a_view(1), a_view(2, key))
    assert (other.summed, other.as_declared) == (True, True)


def test_rows_that_only_one_of_them_has(settings: Settings) -> None:
    found = compared(settings, [*OLD[:1], row(SECOND, "JFK", 7, 0), row(SECOND, "EWR", 1, 0)])
    assert [(p.partition, p.only_old, p.only_new) for p in found.partitions] == [(FIRST, 1, 0), (SECOND, 0, 1)]
    assert not found.as_declared


def test_a_finer_key_is_summed_up(settings: Settings) -> None:
    fine = [
        row(FIRST, "JFK", 6, 2, carrier="AA", longest="x"),
        row(FIRST, "JFK", 4, 0, carrier="B6", longest="y"),
        row(FIRST, None, 3, 1, carrier=None, longest="z"),
        row(SECOND, "JFK", 6, 0, carrier="AA", longest="x"),
    ]
    found = compared(settings, fine, BY_CARRIER)
    assert (found.summed, found.key, found.columns) == (True, HOURLY, ("flights", "delayed"))
    assert [(p.partition, dict(p.cells)) for p in found.partitions] == [(SECOND, {"flights": 1})]


def test_texts_are_compared_row_by_row_but_not_as_sums(settings: Settings) -> None:
    write(settings, 1, [1], [row(FIRST, "JFK", 1, 0, longest="a")])
    write(settings, 2, [1], [row(FIRST, "JFK", 1, 0, longest="b")])
    assert dict(compare_versions(settings, a_view(1), a_view(2)).partitions[0].cells) == {"longest": 1}
    write(settings, 3, [1], [row(FIRST, "JFK", 1, 0, longest="b", carrier="AA")])
    assert compare_versions(settings, a_view(1), a_view(3, BY_CARRIER)).skipped == ("longest",)


def test_both_are_read_as_they_were_at_the_newest_cut_of_both(settings: Settings) -> None:
    write(settings, 1, [1, 2, 3], OLD)
    write(settings, 2, [2, 4], OLD)
    found = compare_versions(settings, a_view(1), a_view(2))
    assert (str(found.cut), found.compared, found.as_declared) == ("flights@2", 1, True)
    write(settings, 4, [5], OLD)
    with pytest.raises(TryAgain) as refused:
        compare_versions(settings, a_view(1), a_view(4))
    assert refused.value.code == "NO_COMMON_CUT"


def test_versions_that_see_closed_events_only_are_compared_at_one_watermark(settings: Settings) -> None:
    """A micro-batch without events moves the watermark, not the cut."""
    old, new = (with_fields(a_view(version), closes=True) for version in (1, 2))
    write(settings, 1, [1, 1], OLD, [5, 9])
    write(settings, 2, [1], OLD[:1], [5])
    found = compare_versions(settings, old, new)
    assert (found.compared, found.as_declared) == (1, True)
    write(settings, 2, [2], OLD, [9])
    assert compare_versions(settings, a_view(1), a_view(2)).compared, "rows that don't wait for it are at one cut"
    write(settings, 3, [1], OLD, [7])
    with pytest.raises(TryAgain) as refused:
        compare_versions(settings, old, with_fields(new, version=3))
    assert refused.value.code == "NO_COMMON_CUT"


def test_a_file_that_is_torn_or_gone_is_an_error_of_ours(settings: Settings) -> None:
    compared(settings, OLD)
    table = VersionRef(settings, "delays", 2).speed_table
    file = Path(DeltaTable(table).file_uris()[0].removeprefix("file://"))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(BrokenState) as torn:
        compare_versions(settings, a_view(1), a_view(2))
    assert torn.value.code == "FILE_UNREADABLE"
    assert "delays v1 or v2" in torn.value.what
    file.unlink()
    with pytest.raises(TryAgain) as gone:
        compare_versions(settings, a_view(1), a_view(2))
    assert gone.value.code == "READING_EXPIRED", "maintenance deletes files of older versions"


def test_a_comparison_has_a_bound_of_memory_and_leaves_no_spilled_file(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spilled"))
    (tmp_path / "spilled").mkdir()
    write(settings, 1, [1], OLD)
    table = DeltaTable(VersionRef(settings, "delays", 1).speed_table)
    with join_versions([table, table], HOURLY, ["flights"], summed=False, partition=None) as rows:
        limit, folder = rows.execute(
            "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        ).fetchall()[0]
        assert limit == "953.6 MiB"
        assert Path(folder).parent == tmp_path / "spilled"
    assert not list((tmp_path / "spilled").iterdir())


def test_an_empty_version_and_a_single_day(settings: Settings) -> None:
    found = compared(settings, [])
    assert [p.only_old for p in found.partitions] == [2, 1]
    only = compare_versions(settings, a_view(1), a_view(2), partition=SECOND)
    assert ([p.partition for p in only.partitions], only.compared) == ([SECOND], 1)


@pytest.mark.parametrize(
    ("key", "changed", "code"),
    [(("carrier", "window_start"), ["nothing"], "COLUMNS_UNKNOWN"), (HOURLY, ["origin"], "COLUMNS_UNKNOWN")],
)
def test_a_wrong_question_is_refused(settings: Settings, key: tuple[str, ...], changed: list[str], code: str) -> None:
    new = [{**row(FIRST, "JFK", 1, 0), "carrier": "AA"}]
    with pytest.raises(BadInput) as refused:
        compared(settings, new, key, changed=changed)
    assert refused.value.code == code
    with pytest.raises(AnabranchError, match="v9 has no table"):
        compare_versions(settings, a_view(1), a_view(9))
