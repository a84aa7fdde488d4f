"""A process reads no events of a contract version that was declared after it was started, in either path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema_growth import VERSIONS
from anabranch.lake.cut import Cut, Position
from anabranch.views.selection import inputs
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

    monkeypatch.setattr(inputs, "table_rows", lambda *_: (_ for _ in ()).throw(LookupError))
    with pytest.raises(Conflict) as refused:
        read(2)
    assert (refused.value.code, refused.value.fields["version"]) == ("CONTRACT_NEWER", 9)
    with pytest.raises(LookupError):
        read(1)  # those events this process knows
