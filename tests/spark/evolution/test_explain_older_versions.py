"""Whoever asks for the events behind a row finds those of older versions: certificates, differences, explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anabranch
import pyarrow as pa
import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.certify.differences import differences
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, commits, open_table
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.operate.explain import rendered
from anabranch.operate.explain._candidates import candidates
from anabranch.views import Registry
from anabranch.views.model.handle import ViewHandle
from rich.console import Console
from support.evolved_contract import DAYS, MIXED, ONE, TWO, Departure, declared, delays_to, departures_from, land

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
KEY = {"destination": "ATL", "hour": Departure("01 05:00", 0).time}


@pytest.fixture
def cut(spark: SparkSession, settings: Settings) -> Cut:
    land(spark, settings, ONE, _of(1))
    found = land(spark, settings, TWO, _of(2), *MIXED[1:])
    catch_up(spark, ViewHandle(settings, delays_to, TWO))
    return found


def _of(version: int) -> list[Departure]:
    return [each for each in MIXED[0] if each.version == version]


def _spoiled(settings: Settings, cut: Cut) -> None:
    """One cell of the speed table is wrong."""
    table = open_table(VersionRef(settings, delays_to.name, 1).speed_table)
    assert table is not None
    rows = table.to_pyarrow_table()
    wrong = [{**r, "late": 999} if {k: r[k] for k in KEY} == KEY else r for r in rows.to_pylist()]
    staged = stage_arrow(
        pa.Table.from_pylist(wrong, rows.schema), table.table_uri.removeprefix("file://"), uuid4().hex, "partition_date"
    )
    note = CommitMetadata(f"{delays_to.writer}/speed", uuid4().hex, cut, delays_to.fingerprint)
    commits.replace(table, staged, note, None)


def test_certificates_are_equal_over_both_versions(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    found = certify(spark, ViewHandle(settings, delays_to, TWO), DAYS)
    assert [(c.equal, c.speed.rows) for c in found] == [(True, 3), (True, 2)]


def test_a_difference_names_the_events_of_both_versions(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    handle = ViewHandle(settings, delays_to, TWO)
    _spoiled(settings, cut)
    assert [c.equal for c in certify(spark, handle, DAYS)] == [False, True]
    (found,) = differences(spark, handle, DAYS[0])
    assert dict(found.key) == KEY
    # Any destination may become of an event of the first version: those of the hour are named, and hold together.
    assert found.verified
    versions = {(event.offset, event.contract_version) for event in found.events}
    assert {(0, 1), (2, 2), (4, 2)} <= versions
    assert "by v1" in str(found.events[0])


def test_candidates_are_wider_never_narrower(settings: Settings, cut: Cut) -> None:
    """Without a day, so only those that share the key are asked for."""
    kappa = replace(delays_to, partition_by=None)
    found = candidates(settings, [kappa], TWO, {"destination": "ATL"}, None, cut)
    sent = [*_of(1), *_of(2), *(each for epoch in MIXED[1:] for each in epoch)]
    assert {event.offset for event in found.events} == {
        offset for offset, each in enumerate(sent) if each.version == 1 or each.dest == "ATL"
    }
    for event in found.events:
        own = {c.version: set(c.fields) for c in TWO.contracts}[event.contract_version or 0]
        assert set(event.data) == own
    shared = candidates(settings, [kappa], TWO, {"origin": "EWR"}, None, cut)  # a field that both versions have
    assert shared.events == []


def test_candidates_before_landing_has_any_field_of_the_newest(spark: SparkSession, settings: Settings) -> None:
    cut = land(spark, settings, ONE, MIXED[0][:1])
    kappa = replace(delays_to, partition_by=None)
    assert len(candidates(settings, [kappa], TWO, {"destination": "ATL"}, None, cut).events) == 1


def test_an_explanation_names_the_events_and_the_version_of_each(
    spark: SparkSession, settings: Settings, cut: Cut
) -> None:
    registry = Registry((delays_to, departures_from), declared(TWO))
    found = anabranch.explain("delays_to", KEY, settings=settings, registry=registry, spark=spark, seconds=30.0)
    assert found.verified
    named = {(part.event.contract_version, _minutes(part.event.data)) for part in found.parts}
    assert named == {(1, 12), (2, -3), (2, 100)}
    console = Console(record=True, width=200)
    for each in rendered(found, limit=9):
        console.print(each)
    text = console.export_text()
    assert "v1" in text
    assert "v2" in text


def _minutes(data: Any) -> int:
    if "dep_delay" in data:
        return int(data["dep_delay"])
    return int(data["minutes_late"] - data["minutes_early"])
