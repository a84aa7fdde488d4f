"""A view over an event type with two versions is proven on events of both, and a wrong upcaster is found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Topic, Upcaster
from anabranch.testing import Event, ProofFailed, prove
from anabranch.testing._log_generator import draw
from anabranch.testing._saved_counterexample import read as read_replay
from anabranch.testing._scenario import as_dicts, valid
from anabranch.views.function_source import read
from pyspark.sql import Column
from pyspark.sql import functions as F
from support.evolved_contract import TWO, TYPE, declared, delays_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def oracle(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """``delays_to`` in plain Python, of the events as they were sent."""
    found: dict[tuple[str, datetime], dict[str, Any]] = {}
    for event in events:
        if event["contract_version"] == 1:
            dest, early, late = event["dest"], max(0, -event["dep_delay"]), max(0, event["dep_delay"])
        else:
            dest, early, late = event["destination"], event["minutes_early"], event["minutes_late"]
        hour = event["event_time"].astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        row = found.setdefault((dest, hour), {"flights": 0, "early": None, "late": None})
        row["flights"] += 1
        for name, minutes in (("early", early), ("late", late)):
            if minutes is not None:
                row[name] = (row[name] or 0) + minutes
    return [{"destination": dest, "hour": hour, **row} for (dest, hour), row in found.items()]


def swapped(old: Mapping[str, Column]) -> Mapping[str, Column]:
    delay = old["dep_delay"]
    return {
        "destination": old["dest"],
        "minutes_late": F.when(delay < 0, -delay).when(delay >= 0, 0),
        "minutes_early": F.when(delay > 0, delay).when(delay <= 0, 0),
    }


def test_events_of_all_versions_are_drawn_and_land_as_such() -> None:
    (log,) = draw(delays_to, TWO, read(delays_to.function), 5, 1, size=(30, 30))
    assert {event.version for event in log.events} == {1, 2}
    rows = [row for row in log.landed(TWO) if row["decision"] == "valid"]
    for row in rows:
        fields = next(c.fields for c in TWO.contracts if c.version == row["contract_version"])
        assert set(row["flight_departed"]) <= set(fields)
    for sent in as_dicts(valid(rows, delays_to, late=True), TWO):
        other = "destination" if sent["contract_version"] == 1 else "dest"
        assert other in sent
        assert sent[other] is None


def test_an_event_that_says_no_version_is_of_the_newest() -> None:
    from anabranch.testing._fake_landing import Decisions

    (row,) = Decisions(TWO).decide([Event(TYPE, datetime(2013, 1, 1, tzinfo=UTC), "a", {"dest": "ATL"})])
    assert (row["contract_version"], row["flight_departed"]) == (2, {})


def test_the_view_is_proven(spark: SparkSession, tmp_path: Path) -> None:
    proof = prove(delays_to, oracle=oracle, quick=True, declarations=declared(TWO), keep=tmp_path)
    assert proof.logs
    assert proof.streams


def test_an_upcaster_that_swaps_early_and_late_is_found(spark: SparkSession, tmp_path: Path) -> None:
    wrong: Topic = replace(TWO, upcasters=(Upcaster(TYPE, 1, swapped),))
    with pytest.raises(ProofFailed) as caught:
        prove(delays_to, oracle=oracle, quick=True, declarations=declared(wrong), keep=tmp_path)
    error = caught.value
    assert error.code == "PROOF_ORACLE"
    (event,) = error.fields["finding"].log.events
    assert (event.version, event.data["dep_delay"] != 0) == (1, True)
    assert "sent by" in str(error)
    assert "v1" in str(error)
    assert read_replay(error.fields["replay"]).log.events[0].version == 1


def test_a_hostile_upcaster_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    def by_chance(old: Mapping[str, Column]) -> Mapping[str, Column]:
        return {"destination": old["dest"], "minutes_late": F.floor(F.rand() * 10)}

    wrong: Topic = replace(TWO, upcasters=(Upcaster(TYPE, 1, by_chance),))
    with pytest.raises(ProofFailed) as caught:
        prove(delays_to, declarations=declared(wrong), keep=tmp_path)
    assert caught.value.code == "UPCASTER_IMPURE"
