"""A process reads no events of a contract version that was declared after it was started, in either path."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.contract_registry import record_path
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit import _release_epoch
from anabranch.ingest.landing.state import open_landing, read_state
from anabranch.ingest.landing.table.known_versions import check_known_at
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.ingest.landing.table.schema_growth import VERSIONS
from anabranch.lake.cut import Cut, Position
from anabranch.views.selection import inputs
from support.landed_bytes import LandedBytes
from support.landed_sample import FLIGHTS
from support.small_platform import DAYS, Clinic, departed

pytestmark = pytest.mark.unit


def test_events_of_a_newer_version_are_read_in_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic = Clinic(Settings(home=tmp_path))
    clinic.land([departed(1)])
    clinic.commit([clinic.row(departed(2))], clinic.offsets, **{VERSIONS: {"flight.departed": 9, "no.event": 9}})
    clinic.land([departed(3)])

    def read(epoch: int) -> None:
        no_spark: Any = None
        cut = Cut({FLIGHTS.name: Position(epoch, {})})
        inputs.events_at(no_spark, clinic.handle(), cut, DAYS, late=True)

    monkeypatch.setattr(inputs, "table_rows", lambda *_, **__: (_ for _ in ()).throw(LookupError))
    with pytest.raises(Conflict) as refused:
        read(2)
    assert (refused.value.code, refused.value.fields["version"]) == ("CONTRACT_NEWER", 9)
    with pytest.raises(LookupError):
        read(1)  # those events this process knows


MADE = [Contract("thing.made", n, {"type": "object", "properties": {"n": {"type": "integer"}}}) for n in (1, 2, 3)]
OLD, NEWER, NEWEST = (Topic("things", tuple(MADE[:n])) for n in (1, 2, 3))
WAITING = {"partition": 0, "offset": 0, "append_time": datetime(2024, 1, 1, tzinfo=UTC)}


class Decoded:
    """Records that a release finds valid, without an engine."""

    def __init__(self, topic: Topic) -> None:
        names = [name for name in landing_schema(topic).names if name not in ("epoch", "late", "released_from")]
        self._schema = pa.schema([landing_schema(topic).field(name) for name in names])

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        row = {**WAITING, "decision": "valid", "source": "s", "event_id": "a", "event_date": date(2024, 1, 1)}
        return pa.Table.from_pylist([row], self._schema)


def release(settings: Settings, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process that knows ``topic`` releases."""
    no_spark: Any = None
    monkeypatch.setattr(_release_epoch, "raw_frame", lambda *_: None)
    monkeypatch.setattr(_release_epoch, "decode", lambda *_: Decoded(topic))
    table = open_landing(settings, topic)
    _release_epoch.ReleaseEpoch(no_spark, table, topic, [{**WAITING, "epoch": 0}], {}).land()


def landed(settings: Settings, topic: Topic) -> dict[str, int]:
    return dict(read_state(open_landing(settings, topic), topic).versions)


def test_a_landing_that_is_older_than_a_release_does_not_hide_what_that_has_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path)
    table = open_landing(settings, OLD)
    landing = LandedBytes(settings, OLD, None, fast=False)  # type: ignore[arg-type]  # it lands nothing
    release(settings, NEWER, monkeypatch)
    assert landed(settings, NEWER) == {"thing.made": 2}

    monkeypatch.setattr(landing._writer, "_stage", lambda *_: ([], landing_schema(OLD).empty_table()))
    monkeypatch.setattr(landing._writer, "_holes", lambda *_: {})
    landing._decoded = SimpleNamespace(where=lambda _: None)  # type: ignore[assignment]
    landing.land([SimpleNamespace(partition=0, offset=0)])  # type: ignore[list-item]
    table.update_incremental()
    assert read_state(table, OLD).epoch == 2
    assert read_state(table, OLD).versions == {"thing.made": 2}
    with pytest.raises(Conflict, match="CONTRACT_NEWER"):
        check_known_at(table, OLD, 2)
    release(settings, NEWEST, monkeypatch)
    assert landed(settings, NEWEST) == {"thing.made": 3}


def test_a_version_that_was_withdrawn_is_forgotten_by_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the runbook says: no event of it has landed, so its record was deleted."""
    settings = Settings(home=tmp_path)
    release(settings, NEWEST, monkeypatch)
    record_path(settings, MADE[2]).unlink()
    release(settings, NEWER, monkeypatch)
    assert landed(settings, NEWER) == {"thing.made": 2}
    record_path(settings, MADE[1]).unlink()
    release(settings, OLD, monkeypatch)
    assert landed(settings, OLD) == {}
